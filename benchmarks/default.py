"""Links by default: documents and a knowledge base, and no option; the threshold follows the gap of the base.

**default**: each corpus of `library/corpora.py`, its development part, the same with 30 % of the entities removed (by
hashes of their ids), and its test part. `gap` is the estimate, from the scores alone, of the share of mentions without
an entity (empty below 200 mentions or 100 names), `missing` the true share; `accuracy` is that of gold concepts, and
`decisions` the share of links and NIL decisions that are right, `at 0.35` with that threshold for every corpus, which
was the default before. The constants of the estimate were chosen on the development parts.
"""

import hashlib
from collections.abc import Iterator

from library.corpora import JOBS, Job
from library.results import Row, Tables, collected_rows, record
from library.withholding import without_rows

import arbo
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold

PARTS = ("dev", "dev, 30 % removed", "test")
_SHARE = 0.3


def removed(kb: arbo.KnowledgeBase) -> set[int]:
    """Return the rows of a share of the entities, chosen by the hashes of their ids."""
    hashes = (int(hashlib.sha256(f"gap{entity.id}".encode()).hexdigest()[:8], 16) for entity in kb)
    return {row for row, value in enumerate(hashes) if value < _SHARE * 2**32}


def row(job: Job, part: str) -> Row:
    """Link a part of a corpus by default, and at 0.35."""
    documents, kb = job.documents(job.test if part == "test" else job.dev), job.knowledge_base()
    if "removed" in part:
        kb = without_rows(kb, removed(kb))
    gold = Gold.of(documents, kb)
    result = arbo.Linker(kb).link(documents)
    fixed = arbo.Linker(kb, config=arbo.LinkerConfig(entity_threshold=0.35)).link(documents)
    scores = result.evaluate()
    assert scores.linking is not None
    assert scores.nil is not None
    n = gold.has_id.sum()
    gap = result.manifest["gap"]
    return {
        "corpus": job.name,
        "part": part,
        "mentions": int(n),
        "missing": float((gold.has_id & ~gold.in_kb).sum() / n),
        **({} if gap is None else {"gap": gap}),
        "threshold": result.manifest["threshold"]["entity"],
        "accuracy": scores.linking.accuracy,
        "decisions": decisions(result, documents, kb),
        "at 0.35": decisions(fixed, documents, kb),
        "NIL F1": scores.nil.f1,
    }


def decisions(result: arbo.Result, documents: Corpus, kb: arbo.KnowledgeBase) -> float:
    """Return the share of annotated mentions that are linked rightly, or rightly called NIL."""
    right = total = 0
    linked = result.link_table["entity_id"].to_pylist()
    for entity, rows in zip(linked, Gold.of(documents, kb).lists, strict=True):
        if rows is not None:
            total += 1
            right += entity is None if not rows else entity is not None and kb.index(entity) in rows
    return right / total


def rows() -> Iterator[tuple[str, Row]]:
    """Rows of the table ``default``."""
    for job in JOBS.values():
        for part in PARTS:
            yield "default", row(job, part)


if __name__ == "__main__":
    tables: Tables = {}
    collected_rows(tables, rows())
    figures = {
        f"{one['corpus']}.{one['part']}.{name}": float(one[name])
        for one in tables["default"]
        for name in ("accuracy", "decisions", "at 0.35", "NIL F1")
    }
    record("default", figures, tables)

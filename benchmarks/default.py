"""Links by default: documents and a knowledge base, and no option; the threshold follows the gap of the base.

**default**: each corpus of `library/corpora.py`, its development part, the same with 30 % of the entities removed (by
hashes of their ids), and its test part. `gap` is the estimate, from the scores alone, of the share of mentions without
an entity (empty below 200 mentions or 100 names), `missing` the true share; `accuracy` is that of gold concepts, and
`decisions` the share of links and NIL decisions that are right, `at 0.35` with that threshold for every corpus, which
was the default before. The constants of the estimate were chosen on the development parts.

**confidence**: how well the confidence of these decisions, of links and NIL, is calibrated: `error` is the expected
calibration error in 15 bins of equal mass. `by chance` is the error of a confidence without fault, if all mentions of a
name are right or wrong together (the mean of 20 draws): fewer names than mentions fill a bin. `similarity` is the error
of the similarity in place of the confidence, with 0.5 for NIL, and `mean` and `right` are the mean confidence and the
share of right decisions. The constants of the confidence were chosen on the development parts, with the training parts
of NCBI disease and BC5CDR; without a corpus among them, its development part has about 0.005 more.

**raw**: the same from texts without mentions, by the dictionary alone and with what the other annotated documents teach
(`arbo.learn`: the training part, for the test part the development part too); F1 of exact mentions, and of those with
the right entity. `seconds` are those of the processor. `--raw [dev] [test]` makes this
table alone.

**learnt**: the share of right decisions on the mentions of a part by default, and with what the other annotated
documents teach, as above; for GUM, of mentions with a Wikipedia title, linked to all titles of the corpus. `--learnt`
makes this table alone.

**types**: `decisions` on development parts with mentions of several types, of which the knowledge base has one, and the
same without the types, so that all mentions have one gap.
"""

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from edges import titles
from library.annotated import CORPORA
from library.corpora import JOBS, Data, Job
from library.folders import DATA
from library.results import Row, Tables, collected_rows, record, record_table
from library.withholding import without_rows

import arbo
from arbo.data.gold import Gold
from arbo.spans.evaluation import found_scores
from arbo.spans.finding import Finder

PARTS = ("dev", "dev, 30 % removed", "test")
_SHARE = 0.3
_BINS, _DRAWS = 15, 20
Floats = npt.NDArray[np.float64]


def removed(kb: arbo.KnowledgeBase) -> set[int]:
    """Return the rows of a share of the entities, chosen by the hashes of their ids."""
    hashes = (int(hashlib.sha256(f"gap{entity.id}".encode()).hexdigest()[:8], 16) for entity in kb)
    return {row for row, value in enumerate(hashes) if value < _SHARE * 2**32}


def rows_of(job: Job, part: str) -> tuple[Row, Row]:
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
    right = decisions(result, gold, kb)
    decided = {
        "mentions": int(n),
        "missing": float((gold.has_id & ~gold.in_kb).sum() / n),
        **({} if gap is None else {"gap": gap}),
        "threshold": result.manifest["threshold"]["entity"],
        "accuracy": scores.linking.accuracy,
        "decisions": right.mean(),
        "at 0.35": decisions(fixed, gold, kb).mean(),
        "NIL F1": scores.nil.f1,
    }
    place = {"corpus": job.name, "part": part}
    return place | decided, place | calibration(result, gold.annotated, right)


def decisions(result: arbo.Result, gold: Gold, kb: arbo.KnowledgeBase) -> Floats:
    """Return 1 for each annotated mention that is linked rightly, or rightly called NIL, else 0."""
    linked = zip(result.link_table["entity_id"].to_pylist(), gold.lists, gold.annotated, strict=True)
    right = [kb.index(entity) in rows if entity else not rows for entity, rows, is_annotated in linked if is_annotated]
    return np.array(right, np.float64)


def calibration(result: arbo.Result, annotated: npt.NDArray[np.bool_], right: Floats) -> Row:
    """Return how well confidence and similarity of the annotated mentions are calibrated."""
    table = result.link_table.filter(annotated)
    confidence, similarity = (table[name].fill_null(0.5).to_numpy().astype(float) for name in ("confidence", "score"))
    texts = result.mention_table["text"].filter(annotated).to_pylist()
    _, name = np.unique([text.casefold() for text in texts], return_inverse=True)
    draws = np.random.default_rng(0).random((_DRAWS, len(name)))
    return {
        "error": expected_error(confidence, right),
        "by chance": float(
            np.mean([expected_error(confidence, (draw[name] < confidence).astype(float)) for draw in draws])
        ),
        "similarity": expected_error(similarity, right),
        "mean": confidence.mean(),
        "right": right.mean(),
    }


def expected_error(confidence: Floats, right: Floats) -> float:
    """Return the expected calibration error in bins of equal mass; of equal confidences, the first come first."""
    order = np.argsort(confidence, kind="stable")
    bins = np.array_split((confidence - right)[order], _BINS)
    return float(sum(abs(each.sum()) for each in bins) / len(order))


def typed() -> Iterator[Row]:
    """Link mentions of several types to the entities of one, with the gap of each type, and with one gap."""
    crafts = ("CRAFT CL", "CRAFT UBERON", "CRAFT SO")
    for name, types, bases in (
        ("BC5CDR disease", None, ("BC5CDR disease",)),
        ("CRAFT CL", ("CL", "UBERON", "SO"), crafts),
    ):
        job = replace(JOBS[name], types=types)
        documents = job.documents(job.dev)
        mentions = documents.tables.mentions
        empty = mentions.set_column(mentions.column_names.index("type"), "type", pa.nulls(len(mentions), pa.string()))
        for base in bases:
            kb = JOBS[base].knowledge_base()
            gold = Gold.of(documents, kb)
            results = [
                arbo.Linker(kb).link(documents.of_tables(replace(documents.tables, mentions=table)))
                for table in (mentions, empty)
            ]
            each, one = (decisions(result, gold, kb).mean() for result in results)
            gaps = ", ".join(f"{type_} {gap:.2f}" for type_, gap in results[0].manifest["gaps"].items() if type_)
            yield {"entities": base, "mentions": len(mentions), "gaps": gaps, "decisions": each, "one gap": one}


def rows() -> Iterator[tuple[str, Row]]:
    """Rows of the tables ``default``, ``confidence`` and ``types``."""
    for job in JOBS.values():
        for part in PARTS:
            yield from zip(("default", "confidence"), rows_of(job, part), strict=True)
    yield from (("types", row) for row in typed())


def raw(name: str, part: str) -> Iterator[tuple[str, Row]]:
    """Find and link the mentions of a part, by the dictionary alone and after learning from the other parts."""
    data = Data.of(name)
    documents, train = (data.dev, [data.train]) if part == "dev" else (data.test, [data.train, data.dev])
    teachers = arbo.Corpus({document.id: document for corpus in train for document in corpus}.values())
    for learns in (False, True):
        begun, linker, lines = time.process_time(), arbo.Linker(data.kb), tuple[str, ...]()
        finder: Finder = arbo.DictionaryFinder()
        if learns:
            learnt = arbo.learn(linker, teachers, finds=True)
            linker, finder, lines = learnt.linker, learnt.tagger or finder, learnt.lines
        assert linker.kb is not None
        corpus = arbo.find_mentions(finder, documents, linker.kb)
        entities = linker.link(corpus).link_table["entity_id"].to_pylist()
        scores = found_scores(documents, corpus, linker.kb, entities)
        yield (
            "raw",
            {
                "corpus": name,
                "part": part,
                "with": "annotated documents" if learns else "dictionary",
                "mentions": scores.mentions.exact.f1,
                "linked": scores.links.exact.f1,
                "seconds": time.process_time() - begun,
                "learnt": "; ".join(lines),
            },
        )


def learnt() -> Iterator[tuple[str, Row]]:
    """Link a part by default, and after learning from the other parts."""
    gum = CORPORA["GUM"](DATA)
    corpora = {"GUM": (dict(gum), titles(dict(gum)))}
    for name in ("NCBI disease", "BC5CDR disease"):
        data = Data.of(name)
        corpora[name] = {"train": data.train, "dev": data.dev, "test": data.test}, data.kb
    for name, (parts, kb) in corpora.items():
        for part, teaching in (("dev", ["train"]), ("test", ["train", "dev"])):
            teachers = arbo.Corpus({one.id: one for each in teaching for one in parts[each]}.values())
            begun, linker = time.process_time(), arbo.Linker(kb)
            taught = arbo.learn(linker, teachers)
            seconds = time.process_time() - begun
            before, after = (one.link(parts[part]).evaluate().accuracy_with_nil for one in (linker, taught.linker))
            row: Row = {"corpus": name, "part": part, "default": before, "decisions": after, "seconds": seconds}
            yield "learnt", row | {"learnt": "; ".join(taught.lines)}


def main() -> None:
    """Record all tables, or one of two alone."""
    tables: Tables = {}
    if "--learnt" in sys.argv or "--raw" not in sys.argv:
        collected_rows(tables, learnt())
    learns = {f"{one['corpus']}.{one['part']}.learnt": float(one["decisions"]) for one in tables.get("learnt", ())}
    if "--learnt" in sys.argv:
        record_table("default", "learnt", tables["learnt"], learns)
        return
    parts = [part for part in ("dev", "test") if part in sys.argv] or ["dev", "test"]
    for name in ("NCBI disease", "BC5CDR disease"):
        for part in parts:
            collected_rows(tables, raw(name, part))
    figures = {f"{one['corpus']}.{one['part']}.{one['with']}.linked": float(one["linked"]) for one in tables["raw"]}
    if "--raw" in sys.argv:
        record_table("default", "raw", tables["raw"], figures)
        return
    collected_rows(tables, rows())
    figures |= learns | {
        f"{one['corpus']}.{one['part']}.{name}": float(one[name])
        for one in tables["default"]
        for name in ("accuracy", "decisions", "at 0.35", "NIL F1")
    }
    figures |= {f"{one['corpus']}.{one['part']}.calibration error": float(one["error"]) for one in tables["confidence"]}
    for one in tables["types"]:
        figures |= {f"{one['entities']}.types.{name}": float(one[name]) for name in ("decisions", "one gap")}
    record("default", figures, tables)


if __name__ == "__main__":
    main()

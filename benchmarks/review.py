"""A person's hour: what the review of a run is worth, with the gold annotations as the reviewer.

One decision is one mention shown. The reviewer answers with the mention's gold entity, with NIL if the knowledge base
lacks it, and without a knowledge base with `new` and the gold cluster. After 25, 50, 100, 200 and 400 decisions the
documents are linked again with the corrections so far, and the queue is made anew.

**reviewed**: `queue` asks in the order of `arbo review`; so does `queue, tuned`, with the confidence that `arbo tune`
fits on the development part. `random` asks in an order drawn at random (the mean of three), `margin` by the lowest
margin between the two nearest entities. Each asks a name once. `spread` is that of `arbo link`. k = 8, `arborescence`;
with a knowledge base no thresholds, and the accuracy of mentions whose entity is there. ECB+ (entities, test part, no
topics) has the threshold that is chosen on its development part by ARI; its scores are ARI and B-cubed.

**broken**: links that were right and that right answers made wrong, with the defaults but for ``spread``, in the order
of `arbo review`; decisions are right if they are the gold entity, or NIL where the knowledge base lacks it.

**seconds**: to load and order a run of BC5CDR diseases for `arbo review`, and a mention from key to key, without the
person.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from library.cells import Cell, Cells, key
from library.command import parser_of
from library.corpora import JOBS
from library.folders import CACHE, DATA
from library.results import record

import arbo
from arbo.corrections.review import Queue, Review, names_of

ASKED = (25, 50, 100, 200, 400)
CORPORA = ("NCBI disease", "BC5CDR disease", "CRAFT UBERON", "GSC+", "ECB+")
WAYS = (
    ("queue, tuned", "graph"),
    ("queue", "graph"),
    ("queue", "unlinked"),
    ("queue", "same-name"),
    ("queue", "none"),
    ("margin", "same-name"),
    ("random", "same-name"),
)
REPEATED = {"random": 3}
OPEN = arbo.LinkerConfig(k=8, entity_threshold=float("inf"), mention_threshold=float("inf"))
CELLS = Cells("review", lambda cell: [ASKED, 8, cell["encoder"]])
Order = Callable[[arbo.Result, set[str]], Iterator[int]]


@lru_cache(1)
def start(corpus: str, encoder: str, tuned: bool = False) -> tuple[arbo.Linker, Any]:
    """Return the linker and the documents."""
    read: Any = "ngram" if encoder == "n-grams" else arbo.DualEncoder.from_pretrained(encoder, cache=CACHE)
    if corpus == "ECB+":
        dev, test = (
            arbo.read_documents(DATA / f"ecbplus/ECB_{part}_corpus.txt", "ecbplus") for part in ("Dev", "Test")
        )
        linker = arbo.Linker(None, read, arbo.LinkerConfig(k=8))
        limit = linker.tune(dev).config.mention_threshold
        return linker.configured(config=arbo.LinkerConfig(k=8, mention_threshold=limit)), test
    job = JOBS[corpus]
    linker = arbo.Linker(job.knowledge_base(), read, OPEN)
    if tuned:
        confidence = linker.tune(job.documents(job.dev)).config.confidence
        linker = linker.configured(config=replace(OPEN, confidence=confidence))
    return linker, job.documents(job.test)


def order_of(name: str, seed: int) -> Order:
    """Return the order in which mentions are shown; of each name only one."""

    def queue(run: arbo.Result, decided: set[str]) -> Iterator[int]:
        yield from Queue.of(run, decided).rows.tolist()

    def of_mentions(run: arbo.Result, decided: set[str]) -> Iterator[int]:
        names = names_of(run)
        done = {int(names[run.row_of[id_]]) for id_ in decided}
        margin = np.array([float("inf") if own is None else own for own in run.link_table["margin"].to_pylist()])
        rows = np.random.default_rng(seed).permutation(len(names))
        for row in rows.tolist() if name == "random" else np.argsort(margin, kind="stable").tolist():
            if int(names[row]) not in done:
                done.add(int(names[row]))
                yield row

    return queue if name.startswith("queue") else of_mentions


def answer(run: arbo.Result, row: int) -> dict[str, Any] | None:
    """Return what the gold annotations say of a mention; None if it is not annotated."""
    table, mention = run.mention_table, run.mention_table["mention_id"][row].as_py()
    if run.manifest["knowledge_base"] is None:
        labels = run.gold_labels[row]
        return {"mention": mention, "new": labels[0]} if labels else None
    if table["gold"][row].as_py() is None:
        return None
    known = table["gold_entities"][row].as_py()
    return {"mention": mention, "entity": known[0] if known else None}


def answers(run: arbo.Result, rows: Iterable[int], shown: set[str], n: int) -> Iterator[dict[str, Any]]:
    """Yield the answers to the first ``n`` questions; a name whose link stays is not asked again."""
    kept, names, last = set[int](), names_of(run), len(shown) + n
    for row in itertools.takewhile(lambda _: len(shown) < last, rows):
        if int(names[row]) in kept:
            continue
        shown.add(run.mention_table["mention_id"][row].as_py())
        told = answer(run, row)
        if told is None or told.get("entity", "") == run.link_table["entity_id"][row].as_py():
            kept.add(int(names[row]))
        yield from [told] if told else []


def scores(run: arbo.Result) -> dict[str, float]:
    """Return the accuracy of mentions whose entity is known, or ARI and B-cubed."""
    if run.manifest["knowledge_base"] is None:
        told = run.evaluate().as_dict()
        return {"ARI": told["clustering"]["ari"], "B-cubed": told["coreference"]["b3"]["f1"]}
    decided = zip(run.link_table["entity_id"].to_pylist(), run.mention_table["gold_entities"].to_pylist(), strict=True)
    return {"accuracy": fmean(entity in known for entity, known in decided if known)}


def reviewed(cell: Cell, name: str) -> dict[str, float]:
    """Review a corpus, and return the scores after each number of decisions."""
    linker, documents = start(cell["corpus"], cell["encoder"], "tuned" in cell["order"])
    linker = linker.configured(config=replace(linker.config, spread=cell["spread"]))
    decide = linker.discover if linker.kb is None else linker.link
    found: dict[str, list[float]] = {}
    for seed in range(REPEATED.get(cell["order"], 1)):
        order = order_of(cell["order"], seed)
        lines: list[dict[str, Any]] = []
        shown: set[str] = set()
        run = decide(documents)
        for asked in (0, *ASKED):
            lines += answers(run, order(run, shown), shown, asked - len(shown))
            run = decide(documents, lines) if lines else run
            for score, value in scores(run).items():
                found.setdefault(f"{score} {asked}", []).append(value)
    return {column: fmean(values) for column, values in found.items()}


def broken() -> Iterator[Cell]:
    """Count the right links that right answers break; each row is a part of a corpus and a way of spreading."""
    for corpus, part in itertools.product(CORPORA[:2], ("dev", "test")):
        job = JOBS[corpus]
        documents = job.documents(getattr(job, part))
        for spread in ("same-name", "unlinked", "graph"):
            config = arbo.LinkerConfig.from_dict({"spread": spread})
            linker = arbo.Linker(job.knowledge_base(), config=config)
            run, shown, lines = linker.link(documents), set[str](), list[dict[str, Any]]()
            before = right(run)
            row: Cell = {"corpus": corpus, "part": part, "spread": spread, "right 0": float(before.mean())}
            for asked in (25, 100):
                lines += answers(run, Queue.of(run, shown).rows.tolist(), shown, asked - len(shown))
                now = right(run := linker.link(documents, lines))
                row |= {f"right {asked}": float(now.mean()), f"broken {asked}": int((before & ~now).sum())}
            yield row


def right(run: arbo.Result) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether the decision on each mention is the gold entity, or NIL if the knowledge base lacks it."""
    decided = zip(run.link_table["entity_id"].to_pylist(), run.mention_table["gold_entities"].to_pylist(), strict=True)
    return np.array([entity in known if known else entity is None for entity, known in decided])


def seconds() -> dict[str, float]:
    """Time a scripted review of 50 mentions."""
    linker, documents = start("BC5CDR disease", "n-grams")
    with tempfile.TemporaryDirectory() as folder:
        linker.link(documents).save(Path(folder) / "run")
        begin = time.perf_counter()
        run = arbo.Result.load(Path(folder) / "run")
        review = Review(run, Path(folder) / "corrections.jsonl", set())
        questions = map(review.question, range(len(review.queue.rows)))
        first = next(questions).link
        review.answer(first, [review.accept(first)])
        opened = time.perf_counter()
        for question in itertools.islice(questions, 50):
            run.explain(question.link)
            review.answer(question.link, [review.accept(question.link)])
        return {"seconds.open": opened - begin, "seconds.decision": (time.perf_counter() - opened) / 50}


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = parser_of(__doc__)
    parser.add_argument("--corpus", action="append", choices=CORPORA, help="default: all")
    parser.add_argument("--encoder", default="n-grams", help="n-grams or a model, such as all-MiniLM-L6-v2")
    given = parser.parse_args()
    for corpus in given.corpus or CORPORA:
        for order, spread in WAYS[corpus == "ECB+" :]:
            cell = {"corpus": corpus, "encoder": given.encoder, "order": order, "spread": spread}
            CELLS.keep(cell, partial(reviewed, cell))
    cells = sorted(
        CELLS.read(),
        key=lambda cell: (CORPORA.index(cell["corpus"]), cell["encoder"], WAYS.index((cell["order"], cell["spread"]))),
    )
    kept = {"commit"}
    figures = {
        key(*(cell[of] for of in ("corpus", "encoder", "order", "spread")), column): value
        for cell in cells
        for column, value in cell.items()
        if isinstance(value, float)
    }
    rows = [{name: value for name, value in cell.items() if name not in kept} for cell in cells]
    parts: dict[str, list[Cell]] = {"with a knowledge base": [], "without one": [], "broken": list(broken())}
    for row in parts["broken"]:
        names = (row["corpus"], row["part"], row["spread"])
        figures |= {key(*names, column): value for column, value in row.items() if column.startswith("broken")}
    for row in rows:
        parts["without one" if row["corpus"] == "ECB+" else "with a knowledge base"].append(row)
    record("review", figures | seconds(), parts, cells=cells)


if __name__ == "__main__":
    main()

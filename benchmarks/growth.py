"""A run that grows, beside one that is made again: seconds, equality, the names of clusters that stay, and drift.

**ngrams** and **dense**: 1,000 things are added to 999,000 others: distinct names (those of `neighbours.py`, *words*),
encoded by the default encoder, or vectors of 384 dimensions (those of `library.clustered`); 8 neighbours of each.
`grown.search.seconds` updates the lists (`clustering.growth.updated`), `forest.seconds` is the clustering of all at the
threshold 0.2. There is no limit. The lists of the old things are drawn from those of 500, as all would take hours;
`refit.search.seconds` is that of these, for all. The script stops where lists of new things differ from a search.
`bytes_per_mention` is the size of the kept lists. Seconds are of the clock, least of two (those of **year** beside
much other work); processor seconds are those of both cores together.

**run**: `arbo discover` of a file of distinct names, each a document (*refit*: read, encode, search, write), and
`arbo add` of the last 1,000 of these to a run that has all others (reading and writing included; the fewest processor
seconds of three). Both have the default threshold. `times_faster` compares processor seconds. The script stops unless
both runs have the same tables. The run without the last comes from `Linker.remove`.

**stability**: the documents of a test part, in random order, come in 20 steps of 5 %: `changed.mean` and `changed.max`
are the shares of the earlier mentions whose cluster has another id after a step, for whatever reason; `least.mean` is
the smallest mean share that any names could have, where names stay with their clusters as CEAF-m matches them. The
script stops where the last run differs from its refit, or with a knowledge base from one run on all documents.

**names**: the same steps without a knowledge base, in three orders, for other rules: a discovered entity is named after
its first mention (`first`, the rule of arbo), the first mention of its most frequent name (`frequent`) or of the name
with the largest sum of 1 / place in order of arrival (`falling`), or of the name that first comes a second time
(`again`); `least` is as above.

**year**: BC5CDR diseases (test part) and MEDIC. Half of the documents are linked; then, for 52 weeks, five documents
come, one goes and comes back four weeks later, and the five mentions that `arbo review` asks about first are answered
from the gold annotations. The knowledge base begins without a tenth of its entities, and with the last alias of a
twentieth of the others as an entity of its own; half of what is missing comes in week 18, all in week 36, when these
entities become alternative ids. `changed` are the shares of the earlier mentions that have another cluster id, or
another answer, after a week without and with a release. The script stops where the last run differs from its refit.

**drift**: n-grams fitted to a random share of the documents (discover) or of the entities (link), which then get all
documents or entities; `unseen` is the share of the n-grams of what was added that the first part does not have; ARI or
accuracy of the run that grew, and of a new one (`fresh`).

The parts are made once, and kept; `--only` makes one of them.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from library.cells import Cells, key
from library.clustered import clustered
from library.command import parser_of
from library.corpora import JOBS
from library.folders import CACHE
from library.results import Figures, record, say
from library.timing import Ran, in_process, resident, run_arbo
from neighbours import encoded, names_of
from review import answer

import arbo
from arbo.corrections.review import Queue
from clustering import Graph, partition
from clustering.growth import updated
from clustering.index import Index
from clustering.knn import Neighbors, nearest
from clustering.vectors import Vectors
from eval import Contingency
from eval.coreference import ceaf_m

K, ADDED, STEPS, N, SAMPLE, RUNS = 8, 1000, 20, 10**6, 500, (10**4, 10**5, 10**6)
ORDERS = 3
LIMIT = arbo.NgramEncoder().threshold[1]
Made = TypeVar("Made")


def timed(make: Callable[[], Made]) -> tuple[float, Made]:
    """Return the seconds of a call, and its result."""
    begin = time.perf_counter()
    made = make()
    return time.perf_counter() - begin, made


def fastest(make: Callable[[], Made]) -> tuple[float, float, Made]:
    """Return the least seconds and processor seconds of two calls, and the result."""
    runs = []
    for _ in range(2):
        begin = time.process_time()
        seconds, made = timed(make)
        runs.append((seconds, time.process_time() - begin))
    return (*np.min(runs, axis=0).tolist(), made)


def search(form: str) -> Figures:
    """Add things to others, and search all again."""
    with np.load(prepared(form)) as arrays:
        things, row = _things(arrays), arrays["row"]
        lists, expected = (
            Neighbors(arrays[f"{of}.ids"], arrays[f"{of}.dissimilarity"]) for of in ("lists", "expected")
        )
        refit = float(arrays["refit"])
    few = things.taken(np.arange(ADDED))
    some = nearest(few, few, K, self_ids=np.arange(few.n))
    updated(some, few, np.append(np.arange(few.n - 9), np.full(9, -1)))  # compiles kernels
    old, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
    grown, processor, found = fastest(partial(updated, lists, things, row))
    for one, other in zip(found.of(new), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    graph = Graph.from_neighbors(found)
    forest, _, _ = fastest(partial(partition, graph, threshold=LIMIT))
    figures: Figures = {"refit.search.seconds": refit, "grown.search.seconds": grown}
    figures |= {"grown.search.processor_seconds": processor, "search.times_faster": refit / grown}
    figures |= {"forest.seconds": forest, "peak_gb": resident("VmHWM") / 1e9}
    figures["lists_changed"] = int((found.dissimilarity[old] != lists.dissimilarity).any(axis=1).sum())
    figures["bytes_per_mention"] = (found.ids.nbytes + found.dissimilarity.nbytes) / things.n
    return {key(form, "without limit", name): value for name, value in figures.items()}


def prepared(form: str) -> Path:
    """Make the things, their lists before the addition, and the lists that are expected of the new ones; keep them."""
    file = CACHE / "growth" / f"{form}.{N}.npz"
    if file.exists():
        return file
    rng = np.random.default_rng(0)
    things = encoded(names_of("words", N))[0] if form == "ngrams" else Vectors.of(clustered(N, 384))
    is_new = np.zeros(N, np.bool_)
    is_new[rng.permutation(N)[:ADDED]] = True
    old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
    index = Index.of(things, "cosine")
    some = rng.permutation(old)[:SAMPLE]
    begin = time.perf_counter()
    lists = nearest(things.taken(some), index, K, self_ids=some).of(rng.integers(0, SAMPLE, len(old)))
    lists = lists._replace(ids=((np.arange(len(old))[:, None] + 1 + np.arange(K)) % len(old)).astype(np.int32))
    refit = (time.perf_counter() - begin) * N / len(some)
    expected = nearest(things.taken(new), index, K, self_ids=new)
    arrays: dict[str, Any] = {"row": np.where(is_new, -1, np.cumsum(~is_new) - 1), "refit": np.array(refit)}
    for name, own in (("lists", lists), ("expected", expected)):
        arrays |= {f"{name}.ids": own.ids, f"{name}.dissimilarity": own.dissimilarity}
    matrix: Any = things.matrix
    parts = ("data", "indices", "indptr") if form == "ngrams" else ("base",)
    arrays |= {f"matrix.{part}": matrix if part == "base" else getattr(matrix, part) for part in parts}
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, **arrays, place=things.row, shape=np.array(matrix.shape))
    return file


def _things(arrays: Any) -> Vectors:
    """Return the vectors that `prepared` kept."""
    if "matrix.base" in arrays:
        matrix = arrays["matrix.base"]
    else:
        parts = (arrays["matrix.data"], arrays["matrix.indices"], arrays["matrix.indptr"])
        matrix = sp.csr_array(parts, shape=tuple(arrays["shape"]))
    return Vectors(matrix, arrays["place"], np.arange(N, dtype=np.int32), N)


def run(n: int) -> Figures:
    """Add names to a run by the command line, from a folder to a folder."""
    folder = CACHE / "growth" / f"run.{n}"
    if not (folder / "refit.json").exists():
        (folder / "refit.json").write_text(json.dumps(in_process(partial(prepared_run, n))), "utf-8")
    figures: Figures = json.loads((folder / "refit.json").read_text("utf-8"))
    added = []
    for _ in range(3):
        made, ran = measured("add", str(folder / "run"), str(folder / "new.jsonl"), "--out", str(folder / "grown"))
        added.append(made | {key(name, "seconds"): value for name, value in ran.printed["seconds"].items()})
    best = min(added, key=lambda one: one["processor_seconds"])
    whole, grown = (arbo.Result.load(folder / name) for name in ("whole", "grown"))
    for name in ("mention_table", "link_table", "cluster_table", "document_table"):
        assert getattr(whole, name) == getattr(grown, name), f"the {name} of a run that grew differs from the refit"
    figures |= {key("add", name): value for name, value in best.items()}
    figures["growth_npz_gb"] = (folder / "grown" / "growth.npz").stat().st_size / 1e9
    figures["times_faster"] = figures["refit.processor_seconds"] / figures["add.processor_seconds"]
    return {key("run", f"{n:.0e}", name): value for name, value in figures.items()}


def prepared_run(n: int) -> Figures:
    """Discover all names and keep the run; keep also the run without the last, and these; return what that took."""
    folder = CACHE / "growth" / f"run.{n}"
    folder.mkdir(parents=True, exist_ok=True)
    documents = arbo.Corpus.of(names_of("words", n))
    documents.to_jsonl(folder / "all.jsonl")
    documents[n - ADDED :].to_jsonl(folder / "new.jsonl")
    ids = [document.id for document in documents[n - ADDED :]]
    del documents
    figures, _ = measured("discover", str(folder / "all.jsonl"), "--out", str(folder / "whole"))
    linker = arbo.Linker()
    linker.remove(arbo.Result.load(folder / "whole"), ids).save(folder / "run")
    return {key("refit", name): value for name, value in figures.items()}


def measured(*arguments: str) -> tuple[Figures, Ran]:
    """Run the command line; return its seconds, processor seconds and peak memory, and what it printed."""
    before = getrusage(RUSAGE_CHILDREN)
    ran = run_arbo(*arguments)
    after = getrusage(RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": ran.seconds, "processor_seconds": spent, "peak_gb": ran.peak / 1e9}, ran


def drift(name: str) -> Figures:
    """Let runs grow from n-grams of a part."""
    job = JOBS[name]
    documents, kb, rng = job.documents(job.test), job.knowledge_base(), np.random.default_rng(0)
    figures: Figures = {}
    whole = {True: arbo.Linker(kb).link(documents), False: arbo.Linker().discover(documents)}
    for share in (0.05, 0.2, 0.5, 0.8, 0.95):
        first = [documents[int(i)] for i in rng.permutation(len(documents))[: round(share * len(documents))]]
        there = {document.id for document in first}
        rest = [document for document in documents if document.id not in there]
        some = set(rng.permutation(len(kb))[: round(share * len(kb))].tolist())
        part = arbo.KnowledgeBase(entity for row, entity in enumerate(kb) if row in some)
        for linked in (False, True):
            if linked:
                grown = arbo.Linker(kb).add(arbo.Linker(part).link(documents))
            else:
                grown = arbo.Linker().add(arbo.Linker().discover(first), rest)
            score, fresh = (_score(one, linked=linked) for one in (grown, whole[linked]))
            own = key("drift", name, "link" if linked else "discover", share)
            unseen = grown.manifest["drift"]["entities" if linked else "mentions"]
            figures |= {f"{own}.unseen": unseen, f"{own}.score": score, f"{own}.fresh": fresh}
            say(f"{own}: {unseen:.4f} unseen, {score:.4f} grown, {fresh:.4f} fresh")
    return figures


def stability(name: str, *, linked: bool) -> Figures:
    """Let the test part of a corpus come in steps."""
    job = JOBS[name]
    documents = job.documents(job.test)
    linker = arbo.Linker(job.knowledge_base() if linked else None)
    verb = linker.link if linked else linker.discover
    order = np.random.default_rng(0).permutation(len(documents)).tolist()
    parts = [[documents[int(i)] for i in part] for part in np.array_split(order, STEPS)]
    result, shares, least = verb(parts[0]), [], []
    for part in parts[1:]:
        grown = linker.add(result, part)
        before, after = (one.link_table["cluster_id"].to_pylist() for one in (result, grown))
        changed = sum(was != now for was, now in zip(before, after, strict=False))  # earlier mentions come first
        shares.append(changed / len(before))
        least.append(_renamed_at_best(before, after))
        result = grown
    assert linker.refit(result).link_table == result.link_table, "growing differs from a refit"
    if linked:
        assert verb([documents[i] for i in order]).link_table == result.link_table, "growing differs from one run"
    key = f"{name.replace(' ', '_').lower()}.{'link' if linked else 'discover'}"
    say(f"{key}: {np.mean(shares):.4f} of the mentions change their cluster's id in a step, at most {max(shares):.4f}")
    say(f"{key}: with the best names, {np.mean(least):.4f}")
    changed_shares = {f"{key}.changed.mean": float(np.mean(shares)), f"{key}.changed.max": max(shares)}
    return changed_shares | {f"{key}.least.mean": float(np.mean(least))}


def renamed(name: str) -> Figures:
    """Name the clusters by several rules, while the test part of a corpus comes in steps."""
    job, linker = JOBS[name], arbo.Linker()
    documents = job.documents(job.test)
    figures: Figures = {}
    for seed in range(ORDERS):
        order = np.random.default_rng(seed).permutation(len(documents)).tolist()
        parts = [[documents[int(i)] for i in part] for part in np.array_split(order, STEPS)]
        runs = [linker.discover(parts[0])]
        for part in parts[1:]:
            runs.append(linker.add(runs[-1], part))
        ids = {rule: [_named_after(run, first) for run in runs] for rule, first in RULES.items()}
        shares = {rule: [np.mean(was != now[: len(was)]) for was, now in pairwise(own)] for rule, own in ids.items()}
        shares["least"] = [_renamed_at_best(was.tolist(), now.tolist()) for was, now in pairwise(ids["first"])]
        figures |= {key("names", name, f"order {seed}", rule): float(np.mean(own)) for rule, own in shares.items()}
    return figures


def _renamed_at_best(before: list[Any], after: list[Any]) -> float:
    """Return the share of the earlier mentions, which come first, whose cluster changes its name, at least."""
    aligned, n, *_ = ceaf_m(Contingency.from_labels(before, after[: len(before)]))
    return 1 - aligned / n


def _named_after(run: arbo.Result, first: Callable[[list[str]], int]) -> np.ndarray:
    """Return the row of the mention that names the cluster of each mention."""
    names = [link.name for link in run.links]
    order, start = run.rows_of_cluster
    found = np.empty(len(order), np.int64)
    for rows in np.split(order, start[1:-1]):
        found[rows] = rows[first([names[row] for row in rows.tolist()])]
    return found


def _most_frequent(names: list[str]) -> int:
    return names.index(Counter(names).most_common(1)[0][0])


def _heaviest(names: list[str]) -> int:
    weight: Counter[str] = Counter()
    for place, name in enumerate(names, 1):
        weight[name] += 1 / place  # type: ignore[assignment]
    return names.index(weight.most_common(1)[0][0])


def _first_again(names: list[str]) -> int:
    return next((names.index(name) for place, name in enumerate(names) if name in names[:place]), 0)


RULES = {"first": lambda _: 0, "frequent": _most_frequent, "falling": _heaviest, "again": _first_again}


def year(corpus: str = "BC5CDR disease", weeks: int = 52) -> Figures:
    """Let a run live for a year."""
    job, rng = JOBS[corpus], np.random.default_rng(0)
    whole, documents = job.knowledge_base(), list(job.documents(job.test))
    rng.shuffle(documents)
    half = len(documents) // 2
    linker = arbo.Linker(released(whole, 0))
    result, coming = linker.link(documents[:half]), documents[half:]
    gone: list[arbo.Document] = []
    told: dict[str, list[float]] = {}
    for week in range(weeks):
        has_release, before = week in (18, 36), result
        kind = "release" if has_release else "week"
        if has_release:
            linker = arbo.Linker(released(whole, 1 if week == 18 else 2))
        there: Any = before.document_table
        leaves = there["document_id"][int(rng.integers(there.num_rows))].as_py()
        begin = time.perf_counter()
        result = linker.remove(linker.add(before) if has_release else before, [leaves])
        gone.append(next(document for document in documents if document.id == leaves))
        decided = [row["record"]["mention"] for row in result.corrections]
        lines = [
            line for row in Queue.of(result, decided).rows[:5].tolist() if (line := answer(result, row)) is not None
        ]
        more = coming[5 * week : 5 * week + 5] + (gone[week - 4 : week - 3] if week >= 4 else [])
        result = linker.add(result, more, lines)
        told.setdefault(f"seconds.{kind}", []).append(time.perf_counter() - begin)
        for what in ("cluster_id", "entity_id"):
            was, now = (
                dict(zip(*(one.link_table[name].to_pylist() for name in ("mention_id", what)), strict=True))
                for one in (before, result)
            )
            both = was.keys() & now.keys()
            told.setdefault(f"changed.{what}.{kind}", []).append(sum(was[id_] != now[id_] for id_ in both) / len(both))
    seconds, again = timed(lambda: linker.refit(result))
    assert again.link_table == result.link_table, "a year differs from its refit"
    figures: Figures = {key("year", f"{name}.mean"): float(np.mean(own)) for name, own in told.items()}
    figures |= {key("year", f"{name}.max"): max(own) for name, own in told.items()}
    figures |= {"year.refit.seconds": seconds, "year.mentions": result.mention_table.num_rows}
    figures["year.corrections"] = len(result.corrections)
    figures["year.corrections_obeyed"] = sum(row["status"] == "obeyed" for row in result.corrections)
    ids = {link.mention.document_id for link in result.links}
    alone = arbo.Linker(whole).link([document for document in documents if document.id in ids])
    for name, one in (("accuracy", result), ("accuracy_without_corrections", alone)):
        figures[f"year.{name}"] = _score(one, linked=True)
    return figures


def released(kb: arbo.KnowledgeBase, release: int) -> arbo.KnowledgeBase:
    """Return an earlier release of a knowledge base: 0, 1, or 2 for the last, which has the ids of earlier entities."""
    rng = np.random.default_rng(1)
    fate = rng.random(len(kb))

    def entities() -> Iterator[arbo.Entity]:
        for entity, own in zip(kb, fate.tolist(), strict=True):
            if own < (0.1, 0.05, 0.0)[release]:
                continue
            if 0.1 <= own < 0.145 and entity.aliases:
                old = f"OLD:{entity.id}"
                if release < 2:
                    yield replace(entity, aliases=entity.aliases[:-1])
                    yield arbo.Entity(old, entity.aliases[-1])
                else:
                    yield replace(entity, alternative_ids=(*entity.alternative_ids, old))
            else:
                yield entity

    return arbo.KnowledgeBase(entities())


def _score(result: arbo.Result, *, linked: bool) -> float:
    scores = result.evaluate()
    score = scores.accuracy_with_nil if linked else scores.clustering and scores.clustering["ari"]
    assert score is not None  # all mentions are annotated
    return score


PARTS: dict[str, Callable[[], Figures]] = {
    "ngrams without limit": partial(search, "ngrams"),
    "dense without limit": partial(search, "dense"),
    **{f"run {n:.0e}": partial(run, n) for n in RUNS},
    **{
        f"stability {name} {'link' if linked else 'discover'}": partial(stability, name, linked=linked)
        for name in ("NCBI disease", "BC5CDR disease")
        for linked in (True, False)
    },
    **{f"names {name}": partial(renamed, name) for name in ("NCBI disease", "BC5CDR disease")},
    "year": year,
    **{f"drift {name}": partial(drift, name) for name in ("NCBI disease", "BC5CDR disease")},
}
CELLS = Cells("growth", lambda cell: (cell["part"], K, ADDED, STEPS, N, SAMPLE))


def main() -> None:
    """Make the parts that are missing, each in a process of its own, and record all."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=PARTS, help="make this part only")
    given = parser.parse_args()
    for name, make in PARTS.items():
        if given.only in (None, name):
            CELLS.keep({"part": name}, lambda _, make=make: in_process(make))  # type: ignore[misc]
    kept = sorted(CELLS.read(), key=lambda cell: list(PARTS).index(cell["part"]))
    made = (cell.items() for cell in kept)
    figures = {name: value for cell in made for name, value in cell if name not in ("part", "commit")}
    record("growth", figures, cells=kept)


if __name__ == "__main__":
    main()

"""A run that grows, beside one that is made again: seconds, equality, the names of clusters that stay, and drift.

**ngrams** and **dense**: 1,000 things are added to 999,000 others: distinct names (those of `neighbours.py`, *words*),
encoded by the default encoder, or vectors of 384 dimensions (those of `search.py`); the 8 nearest others of each.
`grown.search.seconds` updates the lists (`clustering.growth.updated`), `forest.seconds` is the clustering of all at the
threshold 0.2. *within threshold* has a limit of 0.2, as `arbo discover` has by default: `refit.search.seconds` searches
all again. *without limit* the lists of the old things are drawn from those of 2,000, as all would take an hour or more;
`refit.search.seconds` is that of these, for all. The script stops where lists of new things differ from a search.
`bytes_per_mention` is the size of the kept lists. Seconds are of the clock, least of two, beside other work;
processor seconds are those of both cores together.

**run**: `Linker.add` of 1,000 names to a run of 999,000, read from a folder and written to another, and what
`Linker.discover` of all takes; by stage.

**stability**: the documents of a test part, in random order, come in 20 steps of 5 %: `changed.mean` and `changed.max`
are the shares of the earlier mentions whose cluster has another id after a step, for whatever reason. The script stops
where the last run differs from its refit, or with a knowledge base from one run on all documents.

**drift**: n-grams fitted to a random share of the documents (discover) or of the entities (link), which then get all
documents or entities; `unseen` is the share of the n-grams of what was added that the first part does not have; ARI or
accuracy of the run that grew, and of a new one (`fresh`).

The parts are made once, and kept; `--only` makes one of them.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from library.cells import Cells, key
from library.command import parser_of
from library.corpora import JOBS
from library.results import Figures, record, say
from library.timing import in_process, resident
from neighbours import encoded, names_of
from search import clustered

import arbo
from clustering import Graph, partition
from clustering.growth import updated
from clustering.index import Index
from clustering.knn import Neighbors, nearest
from clustering.vectors import Vectors

K, ADDED, STEPS, N, SAMPLE = 8, 1000, 20, 10**6, 2000
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


def search(form: str, n: int = N) -> Figures:
    """Add things to others, and search all again."""
    rng = np.random.default_rng(0)
    if form == "ngrams":
        names = names_of("words", n)
        rng.shuffle(names)
        things = encoded(names)[0]
    else:
        things = Vectors.of(clustered(n, 384))
    is_new = np.zeros(n, np.bool_)
    is_new[rng.permutation(n)[:ADDED]] = True
    row = np.where(is_new, -1, np.cumsum(~is_new) - 1)
    few = things.taken(np.arange(ADDED))
    for within in (None, LIMIT):  # compiles kernels
        lists = nearest(few, few, K, self_ids=np.arange(few.n), within=within)
        updated(lists, few, np.append(np.arange(few.n - 9), np.full(9, -1)), within=within)
    figures = _added(things, row, LIMIT, form, "within threshold") if form == "ngrams" else {}
    return figures | _added(things, row, None, form, "without limit")


def _added(things: Vectors, row: Any, within: float | None, *named: str) -> Figures:
    old, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
    if within is None:
        index = Index.of(things, "cosine")
        some = np.random.default_rng(1).permutation(old)[:SAMPLE]
        few = things.taken(some)
        nearest(few.taken(np.arange(99)), index, K, self_ids=some[:99])  # makes what is made once
        refit, found = timed(partial(nearest, few, index, K, self_ids=some))
        refit *= things.n / SAMPLE
        expected = nearest(things.taken(new), index, K, self_ids=new)
        del index
        drawn = np.random.default_rng(2).integers(0, SAMPLE, len(old))
        ids = (np.arange(len(old))[:, None] + 1 + np.arange(K)) % len(old)
        lists = Neighbors(ids.astype(np.int32), found.dissimilarity[drawn])
    else:
        those = things.taken(old)
        refit, lists = timed(partial(nearest, those, those, K, self_ids=np.arange(those.n), within=within))
        expected = nearest(things.taken(new), things, K, self_ids=new, within=within)
    grown, processor, found = fastest(partial(updated, lists, things, row, within=within))
    for one, other in zip(found.of(new), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    graph = Graph.from_neighbors(found)
    forest, _, _ = fastest(partial(partition, graph, threshold=LIMIT))
    figures = {"refit.search.seconds": refit, "grown.search.seconds": grown, "search.times_faster": refit / grown}
    figures |= {"grown.search.processor_seconds": processor, "forest.seconds": forest}
    figures["lists_changed"] = int((found.dissimilarity[old] != lists.dissimilarity).any(axis=1).sum())
    figures["bytes_per_mention"] = (found.ids.nbytes + found.dissimilarity.nbytes) / things.n
    figures["peak_gb"] = resident("VmHWM") / 1e9
    return {key(*named, name): value for name, value in figures.items()}


def run(n: int = N) -> Figures:
    """Add names to a run, from a folder to a folder."""
    names = names_of("words", n)
    linker = arbo.Linker()
    linker.add(linker.discover(names[:99]), arbo.Corpus.of([{"id": "first", "text": ""}]))  # compiles kernels
    documents = arbo.Corpus.of(names)
    begin = time.perf_counter()
    before = linker.discover(documents[: n - ADDED])
    figures = {"discover.seconds": time.perf_counter() - begin}
    figures |= {f"discover.{key(name)}.seconds": value for name, value in before.manifest["seconds"].items()}
    with TemporaryDirectory() as folder:
        figures["write.seconds"], _ = timed(partial(before.save, Path(folder) / "one"))
        del before
        begin = time.perf_counter()
        figures["add.read.seconds"], read = timed(lambda: arbo.Result.load(Path(folder) / "one"))
        figures["add.grow.seconds"], after = timed(lambda: linker.add(read, documents[n - ADDED :]))
        figures["add.write.seconds"], _ = timed(lambda: after.save(Path(folder) / "two"))
        figures["add.seconds"] = time.perf_counter() - begin
        figures |= {f"add.{key(name)}.seconds": value for name, value in after.manifest["seconds"].items()}
        figures["diff.seconds"], _ = timed(lambda: arbo.diff(read, after))
        figures["growth_npz_gb"] = (Path(folder) / "two" / "growth.npz").stat().st_size / 1e9
    figures["add.times_faster"] = (figures["discover.seconds"] + figures["write.seconds"]) / figures["add.seconds"]
    figures["peak_gb"] = resident("VmHWM") / 1e9
    return {key("run", name): value for name, value in figures.items()}


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
            scores = [one.evaluate() for one in (grown, whole[linked])]
            score, fresh = (one.linking.accuracy_with_nil if linked else one.coreference.ari for one in scores)
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
    result, shares = verb(parts[0]), []
    for part in parts[1:]:
        grown = linker.add(result, part)
        before, after = (one.link_table["cluster_id"].to_pylist() for one in (result, grown))
        changed = sum(was != now for was, now in zip(before, after, strict=False))  # earlier mentions come first
        shares.append(changed / len(before))
        result = grown
    assert linker.refit(result).link_table == result.link_table, "growing differs from a refit"
    if linked:
        assert verb([documents[i] for i in order]).link_table == result.link_table, "growing differs from one run"
    key = f"{name.replace(' ', '_').lower()}.{'link' if linked else 'discover'}"
    say(f"{key}: {np.mean(shares):.4f} of the mentions change their cluster's id in a step, at most {max(shares):.4f}")
    return {f"{key}.changed.mean": float(np.mean(shares)), f"{key}.changed.max": max(shares)}


PARTS: dict[str, Callable[[], Figures]] = {
    "ngrams": partial(search, "ngrams"),
    "dense": partial(search, "dense"),
    "run": run,
    **{
        f"stability {name} {'link' if linked else 'discover'}": partial(stability, name, linked=linked)
        for name in ("NCBI disease", "BC5CDR disease")
        for linked in (True, False)
    },
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

"""Exact nearest neighbours of sparse vectors among up to millions of names, beside other ways of finding them.

Names are those of all knowledge bases in `../shared/data`, and beyond these the first words of one name and the last
words of another, drawn with a fixed seed (*words*); or strings of 6 to 12 random letters, the hard case (*random*).
They are encoded by the default encoder, fitted to them. Queries are distinct mentions of BC5CDR (development and test
part), or random strings with two letters changed. *Sentences* join ten queries to one. Every time is in processor
milliseconds for a query, the best of three, and is measured in one process; a warm query is a call with a single query,
in milliseconds of the clock.

**search**: the 16 nearest names, or the 4 nearest within the default threshold, beside reading all postings (*full
scan*, the search of arbo before it had bounds), scikit-learn's `NearestNeighbors(algorithm="brute")`,
`sparse_dot_topn` and `sp_matmul_rs` (left out where the package is missing), on the same vectors. The script stops
where a list differs from the full scan's.

**approximate**: the same vectors in 128 dimensions by scikit-learn's `TruncatedSVD`, searched by
`faiss.IndexHNSWFlat`, and the share of the 16 nearest names of the exact search that it finds.

**self-join**: the 8 nearest others of distinct mentions within the default threshold, and without it, in processor
seconds; up to 20,000 mentions, also by a full scan.

**discovery**: `arbo.Linker().discover(names)` as a whole, with the default settings, in a process of its own: seconds
of the clock and of the processors, those of its stages, and its peak of memory in GB. `growth` is the exponent of the
processor seconds between two sizes.

**dense**: the 16 nearest of 100,000 vectors with 384 dimensions, 2,000 queries, all cores, in seconds of the clock.

**index**: a knowledge base of these names, three to an entity, written by `arbo.build_index`, and linked from in a
process of its own. Seconds of the clock, memory in GB; *private* memory is written by this process alone, *resident*
memory has the mapped pages too, which processes share. The mentions are diseases of the test part of BC5CDR.
**linked**: the same with 100,000 distinct mentions, which are made like the names, and are none of them.

**job**: `arbo link` on the test part of BC5CDR from an index of MEDIC, as a process: seconds of the clock, the median
of five runs after one that compiles kernels. Python keeps its bytecode, as it does for an installed package.

**encoding**: the default encoder is fitted to the names and encodes them; seconds of the clock, and of the processors.

Each cell is kept. `--only KIND` and `--names N` make only some of them; all that are kept are recorded.
"""

import importlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from library.cells import Cells, key
from library.clustered import clustered
from library.command import parser_of
from library.corpora import JOBS
from library.results import Figures, Row, Tables, record, say
from library.timing import best_of_three, run_arbo

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.string_table import Spans
from clustering import index as index_module
from clustering.index import Index
from clustering.knn import Neighbors, nearest
from clustering.sparse_search import Bounds
from clustering.vectors import Vectors, unit

K, FEW, MENTIONS_K, QUERIES = 16, 4, 8, 300
ENTITY_LIMIT, MENTION_LIMIT = NgramEncoder().threshold
SMALL, MENTIONS = 20_000, 10**5
PEERS = ("sparse_dot_topn", "sp_matmul_rs")


def names_of(kind: str, n: int) -> list[str]:
    """Make ``n`` distinct names, see the docstring of this file."""
    rng = random.Random(1)
    if kind == "random":
        letters = "abcdefghijklmnopqrstuvwxyz"
        return list({"".join(rng.choices(letters, k=rng.randint(6, 12))): None for _ in range(n)})
    real = list(dict.fromkeys(name for job in JOBS.values() for name in job.knowledge_base().names().names))
    rng.shuffle(real)
    names = dict.fromkeys(real[:n])
    parts = [words for name in real if 1 < len(words := name.split()) < 8]
    while len(names) < n:
        first, last = rng.choice(parts), rng.choice(parts)
        names.setdefault(" ".join(first[: rng.randrange(1, len(first))] + last[rng.randrange(1, len(last)) :]))
    return list(names)


def queries_of(kind: str, names: list[str]) -> list[str]:
    """Draw the queries."""
    rng = random.Random(2)
    if kind == "random":
        drawn = [list(name) for name in rng.sample(names, QUERIES)]
        for name in drawn:
            for place in rng.sample(range(len(name)), 2):
                name[place] = rng.choice("abcdefghijklmnopqrstuvwxyz")
        return ["".join(name) for name in drawn]
    job = JOBS["BC5CDR disease"]
    mentions = [mention for part in (job.dev, job.test) for mention in job.documents(part).mentions]
    return rng.sample(sorted({mention.text for mention in mentions}), QUERIES)


def encoded(names: list[str], *queries: list[str]) -> list[Vectors]:
    """Encode names and lists of queries by the frequencies in the names."""
    encoder = NgramEncoder().fit(names)
    return [Vectors.of(encoder._encode(Spans.of(texts))) for texts in (names, *queries)]


def per_query(queries: Vectors, search: Callable[[Vectors], Any]) -> tuple[float, Any]:
    """Return the processor milliseconds of a query, and the result."""
    search(queries.taken(np.arange(3)))  # compiles, and makes what is made once
    best, found = np.inf, None
    for _ in range(3):
        begin = time.process_time()
        found = search(queries)
        best = min(best, time.process_time() - begin)
    return 1000 * best / queries.n, found


def full_scan(names: Vectors) -> Index:
    """Return an index without bounds, whose rows are in the order given."""
    with patch.object(index_module, "alike_together", lambda rows: np.arange(len(rows.indptr) - 1)):
        index = Index.of(names, "cosine")
    vars(index)["bounds"] = Bounds()
    return index


def check(found: Neighbors, expected: Neighbors) -> None:
    """Stop if lists differ."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def search(kind: str, n: int) -> Row:
    """Measure the searches of one list of names."""
    names = names_of(kind, n)
    asked = queries_of(kind, names)
    corpus, queries, long = encoded(names, asked, [" ".join(asked[i : i + 10]) for i in range(0, QUERIES, 10)])
    asks: dict[str, tuple[Vectors, int, float | None]] = {
        "16 nearest": (queries, K, None),
        "sentences": (long, K, None),
        "4 within threshold": (queries, FEW, ENTITY_LIMIT),
    }
    row: Row = {}
    expected: dict[str, Neighbors] = {}
    for way, make in (("full scan", full_scan), ("", lambda corpus: Index.of(corpus, "cosine"))):
        index = make(corpus)
        for name, (some, k, within) in asks.items():
            wanted = partial(nearest, corpus=index, k=k, within=within)
            row[f"{name} {way}".strip()], found = per_query(some, wanted)
            check(found, expected.setdefault(name, found))
    one = queries.taken(np.arange(1))
    row["warm query"] = 1000 * min(best_of_three(nearest, one, index, K)[0] for _ in range(5))
    del index, wanted
    return row | dict(peers(queries, corpus))


def peers(queries: Vectors, corpus: Vectors) -> Iterator[tuple[str, float]]:
    """Measure other libraries on the same vectors, with one thread."""
    from sklearn import config_context
    from sklearn.neighbors import NearestNeighbors

    some, matrix = queries.taken(np.arange(50)), sp.csr_matrix(corpus.matrix)
    brute = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="cosine", n_jobs=1).fit(matrix)
    with config_context(working_memory=256):
        yield "scikit-learn", per_query(some, lambda some: brute.kneighbors(sp.csr_matrix(some.matrix)))[0]
    transposed = sp.csr_matrix(matrix.T)
    for name in PEERS:
        try:
            top = importlib.import_module(name).sp_matmul_topn
        except ImportError:
            say(f"without {name}, which is not installed")
            continue
        yield name, per_query(queries, lambda some: top(sp.csr_matrix(some.matrix), transposed, K, n_threads=1))[0]  # noqa: B023


def approximate(kind: str, n: int) -> Row:
    """Measure a graph of near vectors in few dimensions."""
    import faiss
    from sklearn.decomposition import TruncatedSVD

    names = names_of(kind, n)
    corpus, queries = encoded(names, queries_of(kind, names))
    begin = time.process_time()
    svd = TruncatedSVD(128, random_state=0).fit(corpus.matrix)
    dense = Vectors.of(svd.transform(corpus.matrix))
    graph: Any = faiss.IndexHNSWFlat(128, 32, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction, graph.hnsw.efSearch = 100, 256
    graph.add(unit(dense.matrix)[dense.row])
    row: Row = {"index seconds": time.process_time() - begin}
    few = Vectors.of(svd.transform(queries.matrix))
    asked = unit(few.matrix)[few.row]
    row["approximate"], found = per_query(queries, lambda some: graph.search(asked[: some.n], K)[1])
    expected = nearest(queries, corpus, K).ids
    row["recall"] = float(np.mean([np.isin(one, other).mean() for one, other in zip(expected, found, strict=True)]))
    return row


def self_join(kind: str, n: int) -> Row:
    """Measure the search of mentions among themselves."""
    mentions = encoded(names_of(kind, n))[0]
    begin = time.process_time()
    index = Index.of(mentions, "cosine")
    few = mentions.taken(np.arange(9))
    for within in (None, MENTION_LIMIT):  # compiles, and makes what is made once
        nearest(few, index, MENTIONS_K, self_ids=np.arange(9), within=within)
        nearest(few, few, MENTIONS_K, self_ids=np.arange(9), within=within)
    row: Row = {"index seconds": time.process_time() - begin}
    ways = {"within threshold": (index, MENTION_LIMIT), "without limit": (index, None)}
    if n <= SMALL:
        ways["full scan within threshold"] = full_scan(mentions), MENTION_LIMIT
    for name, (made, within) in ways.items():
        search = partial(nearest, corpus=made, k=MENTIONS_K, self_ids=np.arange(n), within=within)
        row[name] = min(per_call(search, mentions) for _ in range(5 if n <= SMALL else 1))
    return row


def per_call(search: Callable[[Vectors], Any], queries: Vectors) -> float:
    """Return the processor seconds of a search."""
    begin = time.process_time()
    search(queries)
    return time.process_time() - begin


_DISCOVER = """
import json, resource, sys, time
sys.path[:0] = sys.argv[3:]
import arbo
from neighbours import names_of
arbo.Linker().discover(names_of("random", 100))
names = names_of(sys.argv[1], int(sys.argv[2]))
begin, begun = time.perf_counter(), time.process_time()
result = arbo.Linker().discover(names)
print(json.dumps({
    "seconds": time.perf_counter() - begin, "processor seconds": time.process_time() - begun,
    **result.manifest["seconds"], "clusters": len(result.clusters),
    "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
}))
"""


def discovery(kind: str, n: int) -> Row:
    """Measure a discovery as a whole."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", _DISCOVER, kind, str(n), here]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: Row = json.loads(told.stdout.splitlines()[-1])
    return found


def dense(kind: str, n: int) -> Row:
    """Measure the exact search of dense vectors beside a matrix product and faiss."""
    import faiss

    corpus = Vectors.of(unit(clustered(n, 384)))
    queries = corpus.taken(np.arange(2000))
    index, flat = Index.of(corpus, "cosine"), faiss.IndexFlatIP(384)
    flat.add(corpus.matrix)  # type: ignore[call-arg, unused-ignore]

    def product() -> Any:
        scores = queries.matrix @ corpus.matrix.T
        return np.argpartition(scores, -K, axis=1)[:, -K:]

    nearest(queries, index, K)
    return {
        "arbo": best_of_three(nearest, queries, index, K)[0],
        "faiss.IndexFlatIP": best_of_three(flat.search, queries.matrix, K)[0],
        "product and argpartition": best_of_three(product)[0],
    }


_FROM_INDEX = """
import json, sys, time
import arbo
from arbo.linker import Linker
def memory(kind):
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1e6
documents = arbo.read_documents(sys.argv[2])
times = [time.perf_counter()]
kb = arbo.KnowledgeBase.from_index(sys.argv[1])
times.append(time.perf_counter())
linker = Linker(kb)
linker.link(documents[:1])
times.append(time.perf_counter())
linker.link(documents)
times.append(time.perf_counter())
warm = []
for _ in range(9):
    begin = time.perf_counter()
    linker.link(documents[:1])
    warm.append(time.perf_counter() - begin)
print(json.dumps({
    "opened": times[1] - times[0], "first document": times[2] - times[1], "all documents": times[3] - times[2],
    "warm document": min(warm), "mentions": len(documents.mentions),
    "private GB": memory("Private_Dirty"), "resident GB": memory("Rss"),
}))
"""


def from_index(kind: str, n: int) -> Row:
    """Measure an index: how long it takes to build, open and link from, and how much memory."""
    job = JOBS["BC5CDR disease"]
    return linked_from(names_of(kind, n), job.documents(job.test))


def linked(kind: str, n: int) -> Row:
    """Measure linking 100,000 distinct mentions, made like the names, but none of them."""
    names = names_of(kind, n + MENTIONS)
    return linked_from(names[:n], Corpus.of(names[n:]), again=False)


def linked_from(names: list[str], documents: Corpus, *, again: bool = True) -> Row:
    """Link documents from an index of names; ``again``: in a second process, when all kernels are compiled."""
    entities = (arbo.Entity(f"E{at}", names[at], tuple(names[at + 1 : at + 3])) for at in range(0, len(names), 3))
    with TemporaryDirectory() as folder:
        kb, begin = arbo.KnowledgeBase(entities), time.perf_counter()
        arbo.build_index(kb, f"{folder}/index")
        documents.to_jsonl(f"{folder}/documents.jsonl")
        row: Row = {"built": time.perf_counter() - begin}
        command = [sys.executable, "-c", _FROM_INDEX, f"{folder}/index", f"{folder}/documents.jsonl"]
        if again:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: Row = json.loads(told.stdout)
    return row | found


def job(name: str, _: int) -> Row:
    """Time a command that links documents from an index."""
    what = JOBS[name]
    words = what.command(what.test)
    with TemporaryDirectory() as folder, patch.dict(os.environ, PYTHONPYCACHEPREFIX=f"{folder}/bytecode"):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        arbo.build_index(what.knowledge_base(), f"{folder}/index")
        command = [*words[: words.index("--kb")], "--kb", f"{folder}/index", "--out"]
        ran = [run_arbo(*command, f"{folder}/run{at}") for at in range(6)]
    row: Row = {"seconds": statistics.median(one.seconds for one in ran[1:]), "linked": ran[0].printed["linked"]}
    return row | {"fastest": min(one.seconds for one in ran[1:]), "slowest": max(one.seconds for one in ran[1:])}


def encoding(kind: str, n: int) -> Row:
    """Time the default encoder: it is fitted to the names, and encodes them."""
    names = names_of(kind, n)
    encoded(names[:100])  # so that all kernels are compiled
    begin, begun = time.perf_counter(), time.process_time()
    encoder = NgramEncoder().fit(names)
    encoder._encode(Spans.of(names))
    return {"seconds": time.perf_counter() - begin, "processor seconds": time.process_time() - begun}


KINDS: dict[str, tuple[Callable[[str, int], Row], list[tuple[str, int]]]] = {
    "search": (
        search,
        [("words", n) for n in (2000, 5000, SMALL, 10**5, 10**6)] + [("random", 10**5), ("random", 10**6)],
    ),
    "approximate": (approximate, [("words", 10**5)]),
    "self-join": (self_join, [("words", 2000), ("words", 5000), ("words", SMALL), ("words", 80_000)]),
    "discovery": (discovery, [("words", 10**5), ("words", 3 * 10**5), ("words", 10**6)]),
    "dense": (dense, [("clustered", 10**5)]),
    "index": (from_index, [("words", 10**5), ("words", 10**6), ("words", 4 * 10**6)]),
    "linked": (linked, [("words", 3 * 10**6)]),
    "job": (job, [("BC5CDR disease", 4424)]),
    "encoding": (encoding, [("words", 10**5), ("words", 10**6), ("random", 10**6)]),
}
"""The function that makes a cell of each table, and its names and sizes."""

CELLS = Cells("neighbours", lambda cell: (cell["table"], cell["names"], cell["n"], K, FEW, MENTIONS_K, QUERIES))


def main() -> None:
    """Make the cells that are missing, and record all."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=KINDS, help="make the cells of this table only")
    parser.add_argument("--names", type=int, help="make the cells of this size only")
    given = parser.parse_args()
    for kind, (make, sizes) in KINDS.items():
        for names, n in sizes:
            if given.only in (None, kind) and given.names in (None, n):
                cell = {"table": kind, "names": names, "n": n}
                CELLS.keep(cell, lambda _, make=make, names=names, n=n: make(names, n))  # type: ignore[misc]
    kept = CELLS.read()
    tables: Tables = {}
    figures: Figures = {}
    for made in kept:
        row = {name: value for name, value in made.items() if name not in ("table", "commit")}
        tables.setdefault(made["table"], []).append(row)
        values = {name: value for name, value in row.items() if name not in ("names", "n")}
        figures |= {key(made["table"], row["names"], f"{row['n']:.0e}", name): value for name, value in values.items()}
        if made["table"] == "search":
            for name in ("16 nearest", "sentences", "4 within threshold"):
                share = key("search", row["names"], f"{row['n']:.0e}", name, "share of full scan")
                figures[share] = row[name] / row[f"{name} full scan"]
        if "full scan within threshold" in row:
            share = key("self-join", row["names"], f"{row['n']:.0e}", "within threshold", "share of full scan")
            figures[share] = row["within threshold"] / row["full scan within threshold"]
    seconds = {row["n"]: row["processor seconds"] for row in tables.get("discovery", []) if row["names"] == "words"}
    for small, large in pairwise(sorted(seconds)):
        growth = math.log(seconds[large] / seconds[small]) / math.log(large / small)
        figures[key("discovery.words", f"{large:.0e}", "growth")] = growth
    for rows in tables.values():
        rows.sort(key=lambda row: (row["names"] == "random", row["n"]))
    record("neighbours", figures, tables, cells=kept)


if __name__ == "__main__":
    main()

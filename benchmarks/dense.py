"""Exact nearest neighbours of dense vectors, beside faiss: a full scan, and a graph of near vectors with its recall.

Vectors have 384 dimensions. *clustered*: `library.clustered`. *tied*: 50 times the same, with noise of 1e-7, so that
more vectors are equally near, up to the rounding of a product, than a search proposes. Queries are drawn from the
vectors; each looks for the 16 nearest, by cosine, with all cores. torch is loaded, as it is beside a transformer.

Times are seconds of the clock, the best of three in turns; what is made once (the index of arbo, the graph) is apart.
`full job` is the time of 100,000 queries, reckoned from 2,000. `hnsw` is `faiss.IndexHNSWFlat` with 16 links, built
with efConstruction 80; its recall is the share of the 16 nearest that it finds. The script stops where arbo's
dissimilarities are not those of a full scan in float64, for 20 queries.

Each cell is kept. `--only N` makes those of one size.
"""

from dataclasses import replace
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import torch
from library.cells import Cells, key
from library.clustered import clustered
from library.command import parser_of
from library.results import Figures, Row, record
from library.timing import seconds

from arbo.retrieval.groups import best_scanner
from clustering.index import Index
from clustering.knn import nearest
from clustering.vectors import Vectors, unit

DIM, K, QUERIES, JOB, TIMES = 384, 16, 2000, 10**5, 50
EFFORTS = 32, 128, 512
SIZES = [("clustered", 10**5), ("tied", 10**5), ("clustered", 10**6)]
SCANNER = best_scanner()
CELLS = Cells("dense", lambda cell: (cell["vectors"], cell["n"], DIM, K, QUERIES, EFFORTS, torch.__version__))


def drawn(kind: str, n: int) -> Vectors:
    """Draw vectors, see the docstring of this file."""
    vectors = clustered(n if kind == "clustered" else n // TIMES, DIM)
    if kind == "tied":
        vectors = np.repeat(vectors, TIMES, axis=0)
        vectors *= 1 + 1e-7 * np.random.default_rng(1).standard_normal(vectors.shape, np.float32)
    distinct = Vectors.of(vectors)
    return replace(distinct, matrix=unit(distinct.matrix))


def measure(kind: str, n: int) -> Row:
    """Search one set of vectors in each way."""
    vectors = drawn(kind, n)
    matrix: Any = vectors.matrix
    queries = vectors.taken(np.random.default_rng(2).choice(vectors.n, QUERIES, replace=False))
    asked = np.ascontiguousarray(queries.matrix[queries.row])
    flat: Any = faiss.IndexFlatIP(DIM)
    flat.add(matrix)
    index = Index.of(vectors, "cosine")
    first = seconds(nearest, queries, index, K, scanner=SCANNER)[0]  # makes what is made once
    times: dict[str, list[float]] = {"arbo": [], "faiss flat": []}
    for _ in range(3):
        spent, found = seconds(nearest, queries, index, K, scanner=SCANNER)
        times["arbo"].append(spent)
        times["faiss flat"].append(seconds(flat.search, asked, K)[0])
    check(found.dissimilarity[:20], asked[:20], matrix)
    row: Row = {way: min(spent) for way, spent in times.items()}
    row |= {"arbo, first": first, "arbo, full job": row["arbo"] * JOB / QUERIES}
    row["share of faiss flat"] = row["arbo"] / row["faiss flat"]
    return row | (
        graph(matrix, asked, vectors.owner[np.argsort(vectors.row)], found.ids) if kind == "clustered" else {}
    )


def check(found: npt.NDArray[Any], asked: npt.NDArray[Any], matrix: npt.NDArray[Any]) -> None:
    """Stop if the nearest are not those of products in float64."""
    far = 1 - asked.astype(np.float64) @ matrix.T.astype(np.float64)
    np.testing.assert_allclose(found, np.sort(far, axis=1)[:, :K], atol=2e-6)


def graph(matrix: npt.NDArray[Any], asked: npt.NDArray[Any], owner: npt.NDArray[Any], expected: Any) -> Row:
    """Build the graph, and search it with more and more effort."""
    hnsw: Any = faiss.IndexHNSWFlat(DIM, 16, faiss.METRIC_INNER_PRODUCT)
    hnsw.hnsw.efConstruction = 80
    row: Row = {"hnsw, built": seconds(hnsw.add, matrix)[0]}
    for effort in EFFORTS:
        hnsw.hnsw.efSearch = effort
        spent, found = min((seconds(hnsw.search, asked, K) for _ in range(2)), key=lambda one: one[0])
        pairs = zip(expected, owner[found[1]], strict=True)
        row[f"hnsw {effort}"] = spent
        row[f"hnsw {effort}, recall"] = float(np.mean([np.isin(one, other).mean() for one, other in pairs]))
    return row


def main() -> None:
    """Make the cells that are missing, and record all."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", type=int, help="make the cells of this size only")
    given = parser.parse_args()
    for kind, n in SIZES:
        if given.only in (None, n):
            CELLS.keep({"vectors": kind, "n": n}, lambda _, kind=kind, n=n: measure(kind, n))  # type: ignore[misc]
    kept = sorted(CELLS.read(), key=lambda cell: (cell["vectors"], cell["n"]))
    rows = [{name: value for name, value in cell.items() if name != "commit"} for cell in kept]
    figures: Figures = {}
    for row in rows:
        values = {name: value for name, value in row.items() if name not in ("vectors", "n")}
        figures |= {key(row["vectors"], f"{row['n']:.0e}", name): value for name, value in values.items()}
    record("dense", figures, {"nearest": rows}, cells=kept)


if __name__ == "__main__":
    main()

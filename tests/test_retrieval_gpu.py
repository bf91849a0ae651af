"""Search by torch: the same as by faiss, to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import arbo.retrieval.gpu
from arbo.retrieval.gpu import byte_scanner, torch_scanner
from arbo.retrieval.groups import Search
from arbo.scale.work import opened
from clustering.dense_search import faiss_scanner
from clustering.knn import nearest
from clustering.vectors import Metric, Vectors

pytest.importorskip("torch")


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 60),
    dim=st.integers(1, 9),
    k=st.integers(1, 70),
    metric=st.sampled_from(["cosine", "dot"]),
    ties=st.booleans(),
    products=st.sampled_from([1, 40, 1 << 28]),
)
def test_equal_to_faiss(seed: int, n: int, dim: int, k: int, metric: Metric, ties: bool, products: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (n, dim)).astype(np.float32) if ties else rng.normal(size=(n, dim))
    corpus = Vectors.of(vectors, np.sort(rng.integers(n, size=n)), n=n)
    queries = Vectors.of(rng.normal(size=(7, dim)))
    expected = nearest(queries, corpus, k, metric=metric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arbo.retrieval.gpu, "_PRODUCTS", products)
        patch.setattr(arbo.retrieval.gpu, "_ROWS", max(products, 7))
        for scanner in (torch_scanner("cpu"), byte_scanner):
            found = nearest(queries, corpus, k, metric=metric, scanner=scanner)
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.dissimilarity.tobytes() == expected.dissimilarity.tobytes()


@pytest.mark.parametrize("in_pool", [False, True])
def test_shards_of_dense_vectors_are_searched_by_the_best_scanner_unless_in_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_pool: bool
) -> None:
    monkeypatch.setattr("arbo.scale.search.parent_process", lambda: in_pool or None)
    points, copied = Vectors.of(np.random.default_rng(0).random((50, 4))), list[int]()

    def scanner(matrix: Any) -> Any:
        copied.append(len(matrix))
        return faiss_scanner(matrix)

    monkeypatch.setattr("arbo.scale.search.best_scanner", lambda: scanner)
    monkeypatch.setattr("arbo.scale.search._QUERIES", 20)
    how: dict[str, Any] = {"metric": "cosine", "within": None, "progress": lambda items, _: items}
    with opened(tmp_path / "work", shard_size=30) as work:
        (found,) = work.search_all([Search(points, points, None)], 3, **how)
    assert copied == ([] if in_pool else [30, 20])
    assert found.ids.tolist() == nearest(points, points, 3).ids.tolist()

"""The tables of a run are made in slices of rows: the same tables for any size, and little memory besides them."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders import document, linker
from conftest import Sample

import arbo
from arbo.edges.model import EdgeModel
from arbo.linking import tables
from arbo.linking.confidence import Confidence
from arbo.linking.description import describe
from clustering import Graph, forest, partition
from clustering.forest import no_entity_edges, surviving_edges

TABLES = ("mention_table", "link_table", "cluster_table", "document_table", "entity_table", "correction_table")


def some(result: arbo.Result) -> list[Any]:
    """Return all that depends on slices, besides the ids that the tables share."""
    return [*(getattr(result, name) for name in TABLES), result.manifest["giants"], result.manifest["notes"]]


def results(sample: Sample, edges: EdgeModel) -> Iterator[list[Any]]:
    """Link with gold ids, corrections, a giant, confidence and edges that are learnt; and discover."""
    documents, kb = arbo.Corpus(list(sample[0][:40])[::-1]), sample[1]
    first, second = (mention.id for mention in documents.mentions[:2])
    lines = [{"mention": first, "entity": kb.entities[3].id}, {"mention": second, "entity": None}]
    made = linker(kb, entity_threshold=0.4, mention_threshold=0.9, confidence=Confidence(-1.0, 2.0, 0.5))
    yield some(made.link(documents, lines))
    yield some(linker().discover(documents))
    yield some(linker(kb).link([]))
    yield some(arbo.Linker(kb, edges=edges).link(documents, lines))


def test_slices_of_any_size_give_the_same_tables(
    sample: Sample, learnt: EdgeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(results(sample, learnt))
    for size in (1, 7):
        monkeypatch.setattr(tables, "_SLICE", size)
        assert list(results(sample, learnt)) == expected


def test_besides_the_tables_little_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"name of {i:03}") for i in range(200)])
    corpus = arbo.Corpus([document(f"d{i}", *(f"name of {(i * j) % 200:03}" for j in range(20))) for i in range(1000)])
    made = linker(kb)
    found = made.retrieve(corpus, k=4, in_order=True)
    clusters = partition(found.graph(4), "arborescence", made.config.limits(found.threshold))
    mentions = found.inputs.corpus.tables.mentions
    monkeypatch.setattr(tables, "_SLICE", 500)
    usual, pool = pa.default_memory_pool(), pa.system_memory_pool()  # of which no other test raises the peak
    pa.set_memory_pool(pool)
    tracemalloc.start()  # of the arrays of numpy
    try:
        result = describe(kb, found, clusters, made.config)
        assert result.link_table.nbytes > 2e6
        now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert result.link_table["mention_id"].chunk(0).buffers() == mentions["mention_id"].chunk(0).buffers()
    assert most - now + pool.max_memory() - pool.bytes_allocated() < result.link_table.nbytes / 2


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_graphs_are_pruned_in_slices(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(size)
    near = rng.integers(-1, 50, (50, 3)), rng.random((50, 3)).astype(np.float32)
    graph = Graph.from_neighbors(near)

    def pruned() -> list[list[Any]]:
        return [array.tolist() for array in surviving_edges(graph, no_entity_edges(graph).weight, 0.7, directed=False)]

    expected = pruned()
    monkeypatch.setattr(forest, "_CHUNK", size)
    assert pruned() == expected

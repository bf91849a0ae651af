"""The tables of a run are made in slices, and links when they are asked for: the same tables, in little memory."""

import pickle
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders import document, linker, save_data, save_lines
from conftest import Run, Sample

import arbo
from arbo.edges.model import EdgeModel
from arbo.linking import tables
from arbo.linking.confidence import Confidence
from arbo.linking.tables import Links, describe
from arbo.results import run_folder
from clustering import Graph, forest, partition
from clustering.forest import no_entity_edges, surviving_edges

TABLES = ("mention_table", "link_table", "cluster_table", "document_table", "entity_table", "correction_table")
FEW = 50


def results(sample: Sample, edges: EdgeModel) -> Iterator[arbo.Result]:
    """Link with gold ids, corrections, a giant, confidence and edges that are learnt; discover; and link nothing."""
    documents, kb = arbo.Corpus(list(sample[0][:40])[::-1]), sample[1]
    first, second = (mention.id for mention in documents.mentions[:2])
    lines = [{"mention": first, "entity": kb.entities[3].id}, {"mention": second, "entity": None}]
    made = linker(kb, entity_threshold=0.4, mention_threshold=0.9, confidence=Confidence(-1.0, 2.0, 0.5))
    yield made.link(documents, lines)
    yield made.configured(edges=edges).link(documents, lines)
    yield linker().discover(documents)
    yield linker(kb).link([])


def described(result: arbo.Result) -> list[Any]:
    """Return all that depends on slices, besides the ids that the tables share."""
    return [*(getattr(result, name) for name in TABLES), result.manifest["giants"], result.manifest["notes"]]


def test_slices_of_any_size_give_the_same_tables(
    sample: Sample, learnt: EdgeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [*map(described, results(sample, learnt))]
    for size in (1, 7):
        monkeypatch.setattr(tables, "_SLICE", size)
        assert [*map(described, results(sample, learnt))] == expected


def test_rows_columns_and_files_are_those_of_the_table(
    sample: Sample, learnt: EdgeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "GROUP", FEW)
    monkeypatch.setattr(tables, "_SLICE", 7)
    for result in results(sample, learnt):
        links, table = result.link_rows, result.link_table
        assert isinstance(links, Links)
        assert (links.column_names, links.schema, len(links)) == (table.column_names, table.schema, len(table))
        rows = np.arange(len(table))[::-3]
        assert links.take(rows) == table.take(rows)
        assert links.slice(3, 20) == table.slice(3, 20)
        for name in table.column_names:
            assert links.select([name]) == table.select([name])
        result.save(tmp_path / "run")
        run_folder.write_table(tmp_path / "whole.parquet", table)
        assert (tmp_path / "run" / "links.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
        loaded = arbo.Result.load(tmp_path / "run")
        assert loaded.link_table == loaded.link_rows == table
        assert (loaded.n_nil, repr(loaded)) == (result.n_nil, repr(result))


def test_a_table_that_was_made_takes_the_place_of_what_makes_it(sample: Sample) -> None:
    own = arbo.Linker(sample[1])
    result = own.link(sample[0][:5])
    pickled = pickle.dumps(result)
    table = result.link_table
    assert result.link_rows is table
    assert result.link_table is table
    assert len(pickle.dumps(result)) < 1.1 * len(pickled)
    again = pickle.loads(pickled)  # noqa: S301
    assert again.link_rows == again.link_table == own.refit(again).link_table == table


def test_a_command_makes_no_whole_table(
    sample: Sample, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has no gold ids; in its files, a group has 50 rows."""
    calls, make = list[tuple[int, list[str]]](), Links._made

    def noted(links: Links, ids: Any, mention: Any, names: Any) -> Any:
        calls.append((len(mention), list(names)))
        return make(links, ids, mention, names)

    monkeypatch.setattr(Links, "_made", noted)
    monkeypatch.setattr(run_folder, "GROUP", FEW)
    documents = [replace(one, mentions=tuple(replace(m, gold=None) for m in one.mentions)) for one in sample[0]]
    words = ["link", *save_data(tmp_path, documents, sample[1]), "--out", tmp_path / "run"]
    for how in (["--set", "texts=false"], ["--json"], []):
        calls.clear()
        run(*words, *how).ok()
        whole = [names for rows, names in calls if rows > FEW]
        assert len(calls) > 10
        assert all(len(names) == 1 for names in whole), whole
    more = save_lines(tmp_path / "new.jsonl", {"id": "n", "text": "marsh fever", "mentions": [{"spans": [[0, 11]]}]})
    for how in (["--anew"], [more]):
        calls.clear()
        run("add", tmp_path / "run", *how, "--out", tmp_path / "grown").ok()
        columns = {name for rows, names in calls if rows > FEW for name in names}
        assert len(calls) > 10
        assert not columns & {"candidates", "candidate_scores", "entity_name"}, columns


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

"""Rows and columns of links are made when they are asked for, and say what the whole table says."""

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linking, sample_files
from conftest import Run, Sample

import arbo
from arbo.edges.model import EdgeModel
from arbo.linking import tables
from arbo.linking.confidence import Confidence
from arbo.linking.tables import Links
from arbo.results import run_folder

FEW = 50


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str]]]:
    """The number of rows and the columns each time that links are made; a group in a file has 50 rows."""
    calls: list[tuple[int, list[str]]] = []
    make = Links._made

    def told(links: Links, ids: Any, mention: Any, names: Any) -> Any:
        calls.append((len(mention), list(names)))
        return make(links, ids, mention, names)

    monkeypatch.setattr(Links, "_made", told)
    monkeypatch.setattr(run_folder, "GROUP", FEW)
    return calls


def sample_without_gold(folder: Path) -> list[object]:
    """Write the sample without gold ids; return the arguments of `arbo link`."""
    file = sample_files(folder) / "all.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for mention in (one for row in rows for one in row["mentions"]):
        del mention["entities"]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return linking(folder)


@pytest.mark.parametrize("how", [["--json"], [], ["--set", "texts=false"]])
def test_a_command_makes_no_whole_table(
    run: Run, tmp_path: Path, made: list[tuple[int, list[str]]], how: list[str]
) -> None:
    words = sample_without_gold(tmp_path)
    assert run("link", *words, "--out", tmp_path / "run", *how).code == 0
    whole = [names for rows, names in made if rows > FEW]
    assert len(made) > 10
    assert all(len(names) == 1 for names in whole), whole


@pytest.mark.parametrize("anew", [False, True])
def test_growth_makes_no_whole_table(run: Run, tmp_path: Path, made: list[tuple[int, list[str]]], anew: bool) -> None:
    words = sample_without_gold(tmp_path)
    run("link", *words, "--out", tmp_path / "run")
    made.clear()
    (tmp_path / "new.jsonl").write_text('{"id": "new", "text": "marsh fever", "mentions": [{"spans": [[0, 11]]}]}\n')
    more = ["--anew"] if anew else [tmp_path / "new.jsonl"]
    assert run("add", tmp_path / "run", *more, "--out", tmp_path / "grown").code == 0
    whole = {name for rows, names in made if rows > FEW for name in names}
    assert len(made) > 10
    assert not whole & {"candidates", "candidate_scores", "entity_name"}, whole


def results(sample: Sample, edges: EdgeModel) -> Iterator[arbo.Result]:
    """Link with corrections, confidence and learnt edges; discover; and link nothing."""
    documents, kb = sample
    lines = [{"mention": documents.mentions[0].id, "entity": kb.entities[3].id}]
    config = arbo.LinkerConfig(confidence=Confidence(-1.0, 2.0, 0.5))
    yield arbo.Linker(kb, config=config, edges=edges).link(documents, lines)
    yield arbo.Linker().discover(documents)
    yield arbo.Linker(kb).link([])


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


def test_an_unknown_column_is_an_error(sample: Sample) -> None:
    with pytest.raises(KeyError, match="follows"):
        arbo.Linker(sample[1]).link(sample[0]).link_rows.select(["follows"])


def test_a_copy_has_the_table(sample: Sample) -> None:
    result = arbo.Linker(sample[1]).link(sample[0])
    again = copy.deepcopy(result)
    assert again.link_rows == again.link_table == result.link_table


def test_a_table_that_was_made_takes_the_place_of_what_makes_it(sample: Sample) -> None:
    result = arbo.Linker(sample[1]).link(sample[0][:5])
    size = len(pickle.dumps(result))
    table = result.link_table
    assert result.link_rows is table
    assert result.link_table is table
    assert len(pickle.dumps(result)) < 1.1 * size

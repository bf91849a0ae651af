"""The names in a column of a table, as mentions: the reader, and `--text-column`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from builders import save_lines
from conftest import Run

import arbo
from arbo.errors import DataError
from arbo.formats.table import read_column

LINES = (
    "Name,context,type,count,entity",
    "Marsh fever, a fever ,Disease,3,D1",
    '"fever, ""hill""",,,4,',
    " ,empty,Place,1,",
    "fen,,Place,7,",
)


@pytest.mark.parametrize("column", ["Name", "name"])
def test_each_cell_is_a_mention_with_the_columns_beside_it(tmp_path: Path, column: str) -> None:
    corpus = read_column(save_lines(tmp_path / "t.csv", *LINES), column)
    first, second, third = corpus.mentions
    assert (first.text, first.spans, first.type, first.gold) == ("Marsh fever", ((0, 11),), "Disease", ("D1",))
    assert (first.metadata, corpus[0].text) == ({"count": "3"}, "Marsh fever\na fever")
    assert (second.text, second.type, second.gold, corpus[1].text) == ('fever, "hill"', None, None, 'fever, "hill"')
    assert [document.id for document in corpus] == ["1", "2", "4"]
    assert third.text == "fen"
    assert corpus.notes == {"rows with an empty cell left out": 1}


def test_ids_of_a_table_are_those_of_the_documents(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [7, 9], "label": ["fen", None], "text": ["x", "y"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    for file in ("t.parquet", "t.tsv"):
        corpus = read_column(tmp_path / file, "label")
        assert [(document.id, document.text) for document in corpus] == [("7", "fen")]


def test_an_unknown_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"line 1: the first line must name the columns, among them label; it has 'Name"
    ):
        read_column(save_lines(tmp_path / "t.csv", *LINES), "label")
    pd.DataFrame({"name": ["a"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="there is no column 'label'; the columns are name"):
        read_column(tmp_path / "t.parquet", "label")


def test_the_option_of_link_and_discover(run: Run, tmp_path: Path) -> None:
    table, kb = save_lines(tmp_path / "t.csv", *LINES), tmp_path / "kb.jsonl"
    arbo.KnowledgeBase([arbo.Entity("D1", "marsh fever"), arbo.Entity("P1", "fen", types=("Place",))]).to_jsonl(kb)
    out = tmp_path / "run"
    linked = run("link", table, "--text-column", "Name", "--types", "Place", "--kb", kb, "--out", out, "--json")
    assert (linked.code, linked.json["mentions"], linked.json["linked"]) == (0, 1, 1)
    assert "1 rows with an empty cell left out" in linked.told
    assert run("discover", table, "--text-column", "Name", "--out", out, "--json").json["mentions"] == 3
    two = run("discover", table, table, "--text-column", "Name", "--out", out)
    assert (two.code, "reads one table at a time" in two.told) == (2, True)

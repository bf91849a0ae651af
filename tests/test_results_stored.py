"""Tables of a run that stay in their files, and the comparison of run folders without loading them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import linker
from conftest import Sample

import arbo
from arbo.results import run_folder
from arbo.results.run import Run
from arbo.results.stored import Stored

TABLE = pa.table(
    {
        "document_id": [f"m{row}" for row in range(10)],
        "domain": ["x", None] * 5,
        "lists": [[row] * row for row in range(10)],
        "spans": [[{"start": row, "end": row + 1}] for row in range(10)],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "documents.parquet", row_group_size=3)
    return tmp_path / "documents.parquet"


@pytest.mark.parametrize("rows", [[], [4], [9, 0, 5, 5, 3, 2], range(10)])
def test_rows_and_columns_are_those_of_the_table(file: Path, rows: list[int]) -> None:
    table = Stored(file)
    taken = table.take(np.array(rows, np.int64))
    assert taken.to_pylist() == TABLE.take(pa.array(rows, pa.int64())).to_pylist()
    assert taken.schema.types == TABLE.schema.types
    assert table.select(["spans", "document_id"]).equals(TABLE.select(["spans", "document_id"]))
    assert table["domain"].equals(TABLE["domain"])
    assert table.select(table.column_names).equals(TABLE)
    assert (len(table), table.num_rows) == (10, 10)


def test_what_is_wrong_is_told_when_it_is_read(file: Path) -> None:
    ids = pa.array([*map(str, range(9)), None])
    pq.write_table(TABLE.set_column(0, "document_id", ids), file, row_group_size=3)
    table = Stored(file)
    assert table.select(["domain"]).num_rows == len(table.take(np.arange(7))) + 3
    for read in (lambda: table["document_id"], lambda: table.take(np.array([1, 9]))):
        with pytest.raises(arbo.DataError, match=r"s\.parquet: the column document_id has empty values; run the job"):
            read()
    pq.write_table(TABLE.drop_columns("document_id"), file)
    with pytest.raises(arbo.DataError, match="the table has no column document_id; run the job again"):
        Stored(file)


def test_a_file_that_cannot_be_read(file: Path) -> None:
    table, content = Stored(file), bytearray(file.read_bytes())
    content[4:200] = b"\xff" * 196
    wrong = r"(?s)documents\.parquet: the file cannot be read .*; run the job again"
    other = file.parent / "other" / "documents.parquet"
    other.parent.mkdir()
    other.write_bytes(content)
    with pytest.raises(arbo.DataError, match=wrong):
        Stored(other).select(["document_id"])
    file.write_bytes(b"PAR1")
    with pytest.raises(arbo.DataError, match=wrong):
        table.take(np.array([4]))
    with pytest.raises(arbo.DataError, match=wrong):
        Stored(file)


@pytest.mark.parametrize("texts", [True, False])
def test_folders_differ_as_the_runs_do(
    sample: Sample, tmp_path: Path, texts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "GROUP", 50)
    documents, kb = sample
    mentions = documents.mentions
    line: dict[str, object] = {"mention": mentions[3].id, "entity": None}
    runs = linker(kb).link(documents[:40], [line]), linker(kb).link(documents[2:])
    for name, own in zip("ab", runs, strict=True):
        own.save(tmp_path / name, texts=texts)
    for order in ("ab", "ba", "aa"):
        folders = [tmp_path / name for name in order]
        changes = arbo.diff(*folders)
        assert changes == arbo.diff(*map(arbo.Result.load, folders))
        assert changes == arbo.diff(str(folders[0]), Run.read(folders[1], stored=True))
    assert len(arbo.diff(tmp_path / "a", tmp_path / "b").mentions) > 100

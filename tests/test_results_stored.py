"""Tables of a run that stay in their files, and the comparison of run folders without loading them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from builders import linker
from conftest import Sample
from test_results_run_folder import replace_table, result, run

import arbo
from arbo.results import run_folder
from arbo.results.diff import Diff
from arbo.results.run import Run
from arbo.results.stored import Stored

__all__ = ["result", "run"]  # fixtures

TABLE = pa.table(
    {
        "id": pa.array([f"m{row}" for row in range(10)], pa.large_string()),
        "text": pa.array(["x", None] * 5, pa.large_string()),
        "lists": [[row] * row for row in range(10)],
        "spans": [[{"start": row, "end": row + 1}] for row in range(10)],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "table.parquet", row_group_size=3)
    return tmp_path / "table.parquet"


def stored(file: Path) -> Stored:
    def wrong(table: pa.Table) -> str | None:
        return "a value is 7" if "n" in table.column_names and pc.any(pc.equal(table["n"], 7)).as_py() else None

    return Stored(file, "run the job again", long={"text"}, needed={"id", "text"}, wrong=wrong)


@pytest.mark.parametrize("rows", [[], [4], [9, 0, 5, 5, 3, 2], range(10)])
def test_rows_and_columns_are_those_of_the_table(file: Path, rows: list[int]) -> None:
    whole, table = TABLE.set_column(0, "id", TABLE["id"].cast(pa.string())), stored(file)
    taken = table.take(np.array(rows, np.int64))
    assert taken.to_pylist() == whole.take(pa.array(rows, pa.int64())).to_pylist()
    assert taken.schema.types == whole.schema.types
    assert table.select(["spans", "id"]).equals(whole.select(["spans", "id"]))
    assert table["text"].equals(whole["text"])
    assert table.select(table.column_names).equals(whole)
    assert (len(table), table.num_rows) == (10, 10)


def test_what_is_wrong_is_told_when_it_is_read(file: Path) -> None:
    pq.write_table(TABLE.append_column("n", [[*range(10)]]), file, row_group_size=3)
    table = stored(file)
    assert table.select(["id"]).num_rows == len(table.take(np.arange(7))) + 3
    for read in (lambda: table["n"], lambda: table.take(np.array([1, 7]))):
        with pytest.raises(arbo.DataError, match=r"table\.parquet: a value is 7; run the job again"):
            read()
    pq.write_table(TABLE.append_column("id", TABLE["id"]), file)
    with pytest.raises(arbo.DataError, match="the table has two columns of one name; run the job again"):
        stored(file)
    pq.write_table(TABLE.drop_columns("id"), file)
    with pytest.raises(arbo.DataError, match="the table has no column id; run the job again"):
        stored(file)


def test_a_file_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    table, content = stored(file), bytearray(file.read_bytes())
    content[4:200] = b"\xff" * 196
    (tmp_path / "other.parquet").write_bytes(content)
    with pytest.raises(arbo.DataError, match=r"(?s)other\.parquet: the file cannot be read .*; run the job again"):
        stored(tmp_path / "other.parquet").select(["id"])
    file.write_bytes(b"PAR1")
    with pytest.raises(arbo.DataError, match=r"table\.parquet: the file cannot be read .*; run the job again"):
        table.take(np.array([4]))
    with pytest.raises(arbo.DataError, match=r"table\.parquet: the file cannot be read .*; run the job again"):
        stored(file)


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


def test_what_is_read_is_checked(run: Path) -> None:
    damaged = pq.read_table(run / "links.parquet")
    place = damaged.column_names.index("cluster_id")
    replace_table(run, "links", damaged.set_column(place, "cluster_id", pa.array(["E9"] * len(damaged))))
    with pytest.raises(arbo.DataError, match="it names a cluster that is missing from clusters"):
        arbo.diff(run, run)


def test_what_is_not_read_is_not_checked(run: Path) -> None:
    """So that one who has to load candidates is told what is wrong with them, and one who compares runs is not."""
    table = pq.read_table(run / "links.parquet")
    place = table.column_names.index("candidates")
    replace_table(run, "links", table.set_column(place, "candidates", pa.array([["E1", None]] * len(table))))
    assert arbo.diff(run, run) == Diff((), ())
    with pytest.raises(arbo.DataError, match="the column candidates has empty values"):
        arbo.Result.load(run)


def test_what_is_read_of_changed_mentions_is_checked(sample: Sample, tmp_path: Path) -> None:
    documents, kb = sample
    for name, own in (("a", documents[:9]), ("b", documents[:10])):
        linker(kb).link(own).save(tmp_path / name)
    table = pq.read_table(tmp_path / "b" / "mentions.parquet")
    place = table.column_names.index("gold")
    replace_table(tmp_path / "b", "mentions", table.set_column(place, "gold", pa.array([3] * len(table))))
    with pytest.raises(arbo.DataError, match=r"mentions\.parquet: the column gold holds int64, not texts"):
        arbo.diff(tmp_path / "a", tmp_path / "b")

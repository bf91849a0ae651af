"""Documents that are read in pieces give what one reader gives, its errors included."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from builders import document
from conftest import Sample
from hypothesis import HealthCheck, given, settings, strategies as st

import arbo
from arbo.scale import reading
from arbo.scale.parts import read_manifest
from arbo.scale.work import opened, progress_of


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE", 2000)


@pytest.fixture
def files(sample: Sample, tmp_path: Path) -> Path:
    (folder := tmp_path / "documents").mkdir()
    sample[0][:20].to_jsonl(folder / "a.jsonl")
    sample[0][20:].to_jsonl(folder / "b.jsonl")
    return folder


def pieces(work: Path) -> list[Path]:
    return sorted(work.glob("documents-*"))


def outcome(read: Callable[[], arbo.Corpus]) -> tuple[object, ...]:
    try:
        corpus = read()
    except arbo.DataError as error:
        return (str(error),)
    return tuple(corpus.documents), corpus.notes


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_is_read_in_pieces_once(files: Path, sample: Sample, tmp_path: Path, workers: int) -> None:
    with opened(tmp_path / "work", workers) as work:
        corpus = arbo.read_documents(files)
        (stages,) = progress_of(work.folder).values()
        assert stages["1. documents"]["parts"] == stages["1. documents"]["finished"] > 10
        result = work.over(arbo.Linker(sample[1])).link(corpus)
    assert tuple(corpus) == tuple(sample[0])
    plain = arbo.Linker(sample[1]).link(arbo.read_documents(files))
    for name, own in (("plain", plain), ("spread", result)):
        own.save(tmp_path / name)
    first, second = (json.loads((tmp_path / name / "manifest.json").read_text("utf-8")) for name in ("plain", "spread"))
    assert first["files"] == second["files"]
    made = {part: (part / "part.json").stat().st_mtime_ns for part in pieces(tmp_path / "work")}
    with opened(tmp_path / "work"):
        assert tuple(arbo.read_documents([files / "a.jsonl", files / "b.jsonl"])) == tuple(sample[0])
    assert made == {part: (part / "part.json").stat().st_mtime_ns for part in pieces(tmp_path / "work")}
    assert {read_manifest(part)["made"] for part in made} == {1}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]),
    st.booleans(),
    st.integers(1, 300),
    st.sampled_from(["", "{", '{"id": "x"}', '{"id": "b", "text": "another"}', "\0", "\ufeff"]),
    st.integers(0, 12),
)
def test_any_lines_give_what_one_reader_gives(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    ids: list[str],
    end: str,
    is_ended: bool,
    size: int,
    other: str,
    place: int,
) -> None:
    """Ids are there twice, lines are damaged or blank, and the last one may have no end."""
    monkeypatch.setattr(reading, "PIECE", size)
    folder = tmp_path_factory.mktemp("any")
    lines = [json.dumps({"id": id_, "text": "marsh fever", "mentions": [{"spans": [[0, 5]]}]}) for id_ in ids]
    if other:
        lines.insert(place, other)
    (folder / "d.jsonl").write_bytes((end.join(lines) + end * is_ended).encode())
    plain = outcome(lambda: arbo.read_documents(folder / "d.jsonl", "jsonl"))
    with opened(folder / "work"):
        assert outcome(lambda: arbo.read_documents(folder / "d.jsonl", "jsonl")) == plain


class Failing(ThreadPoolExecutor):
    """An executor with an error for all but three calls."""

    def __init__(self, error: Exception) -> None:
        super().__init__(1)
        self.error, self.calls = error, 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.calls += 1
        if self.calls > 3:
            raise self.error
        return super().submit(call, *args, **named)


def test_a_job_that_goes_on_reads_what_is_missing(files: Path, sample: Sample, tmp_path: Path) -> None:
    with (
        Failing(BrokenExecutor()) as pool,
        opened(tmp_path / "work", pool=pool),
        pytest.raises(arbo.ArboError, match="a worker ended suddenly"),
    ):
        arbo.read_documents(files)
    told: list[str] = []
    with opened(tmp_path / "work", tell=told.append):
        assert tuple(arbo.read_documents(files)) == tuple(sample[0])
    n = len(pieces(tmp_path / "work"))
    assert told == [f"documents: 3 of {n} parts are finished already"]
    assert {read_manifest(part)["made"] for part in pieces(tmp_path / "work")} == {1}


def test_what_a_worker_cannot_read_the_driver_reads(files: Path, sample: Sample, tmp_path: Path) -> None:
    told: list[str] = []
    with Failing(arbo.DataError("no such file")) as pool, opened(tmp_path / "work", pool=pool, tell=told.append):
        assert tuple(arbo.read_documents(files)) == tuple(sample[0])
        assert [*progress_of(tmp_path / "work").values()] == [{}]
    assert told == ["documents: this process reads them all, since a worker could not"]


def test_no_part_keeps_a_file_open(files: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with opened(tmp_path / "work"):
        corpus = arbo.read_documents(files)
        assert len(pieces(tmp_path / "work")) > 20
        assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert corpus.n_mentions


def test_many_small_files_and_files_that_cannot_be_opened_are_read_as_a_whole(
    files: Path, sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for own in sample[0]:
        arbo.Corpus([own]).to_jsonl(tmp_path / f"{own.id}.jsonl")
    monkeypatch.setattr(reading, "PIECE", 40_000)
    with opened(tmp_path / "work"):
        assert tuple(arbo.read_documents(tmp_path)) == tuple(sample[0])
        monkeypatch.setattr(reading, "PIECE", 2000)
        monkeypatch.setattr(reading.os.path, "getsize", Mock(side_effect=PermissionError))
        assert tuple(arbo.read_documents(files)) == tuple(sample[0])
    assert not pieces(tmp_path / "work")


def test_an_equal_document_in_another_piece_is_dropped_and_counted(files: Path, tmp_path: Path) -> None:
    file = files / "a.jsonl"
    file.write_text(file.read_text("utf-8") * 2, "utf-8")
    with opened(tmp_path / "work"):
        corpus = arbo.read_documents(file)
    assert (len(corpus), corpus.notes) == (20, {"duplicate documents dropped": 20})


def test_an_error_names_the_line_of_the_file(files: Path, tmp_path: Path) -> None:
    lines = (files / "b.jsonl").read_text("utf-8").splitlines()
    lines[17] = lines[17].replace('"spans"', '"span"', 1)
    (files / "b.jsonl").write_text("\n".join(lines), "utf-8")
    with (
        opened(tmp_path / "work", 2),
        pytest.raises(arbo.DataError, match=r"b\.jsonl, line 18, 'D38-1': a mention needs the key 'spans'"),
    ):
        arbo.read_documents(files)
    assert pieces(tmp_path / "work")


@pytest.mark.parametrize("how", ["small", "gzip", "mark", "utf-16", "skip"])
def test_other_files_are_read_as_a_whole(
    files: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, plain = files / "a.jsonl", arbo.read_documents(files / "a.jsonl")
    content = file.read_text("utf-8")
    if how == "small":
        monkeypatch.setattr(reading, "PIECE", file.stat().st_size)
    elif how == "gzip":
        file.write_bytes(gzip.compress(content.encode()))
    elif how != "skip":
        file.write_text(content, "utf-8-sig" if how == "mark" else how)
    with opened(tmp_path / "work"):
        corpus = arbo.read_documents(file, on_error="skip" if how == "skip" else "fail")
    assert tuple(corpus) == tuple(plain)
    assert not pieces(tmp_path / "work")


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    arbo.Corpus([document(f"d{i}", "marsh fever") for i in range(100)]).to_jsonl(tmp_path / "d.jsonl")
    one, *others = reading.pieces_of([tmp_path / "d.jsonl"])
    assert len(others) > 2
    (tmp_path / "d.jsonl").write_text((tmp_path / "d.jsonl").read_text("utf-8").replace("marsh", "swamp"), "utf-8")
    with pytest.raises(arbo.DataError, match=r"d\.jsonl: the file has changed while it was read"):
        reading.read(one)
    (tmp_path / "d.jsonl").unlink()
    with pytest.raises(arbo.DataError, match=r"d\.jsonl: cannot be read"):
        reading.read(one)

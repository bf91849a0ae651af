"""Files: written whole or not at all, and read by others as any file is."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from builders import files_in

import arbo
from arbo import files


def test_a_json_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_json({"a": 1}, tmp_path / "tuned.json")
    with pytest.raises(TypeError):
        files.write_json({"a": object()}, tmp_path / "tuned.json")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(arbo.UsageError, match="No space"):
        files.write_json({"a": 2}, tmp_path / "tuned.json")
    assert files_in(tmp_path) == {"tuned.json"}
    assert json.loads((tmp_path / "tuned.json").read_text("utf-8")) == {"a": 1}


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_others_may_read_a_file_as_they_may_read_any(tmp_path: Path) -> None:
    files.write_json({}, tmp_path / "one.json")
    (tmp_path / "two.json").write_text("")
    assert (tmp_path / "one.json").stat().st_mode == (tmp_path / "two.json").stat().st_mode


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(arbo.UsageError, match="cannot write"):
        files.check_writable(tmp_path / "file" / "deep" / "run")
    with pytest.raises(arbo.UsageError, match="cannot write"):
        files.write_json({}, tmp_path / "file" / "tuned.json")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.name != "posix", reason="pipes in folders are of POSIX")
def test_no_pipe_or_device_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", "-"):
        target = tmp_path / name if name != "-" else Path(name)
        with pytest.raises(arbo.UsageError, match="a device, a pipe or `-`"):
            files.write_json({}, target)
        with pytest.raises(arbo.UsageError, match="a device, a pipe or `-`"):
            files.check_replaceable(target, "thing", "it.json", lambda folder: [])
    assert (tmp_path / "pipe").is_fifo()
    assert not Path("-").exists()


def test_numbers_that_json_has_not_are_null() -> None:
    value = {"a": [float("nan"), (1.5, -float("inf"))], 1: {"b": float("inf")}}
    assert files.json_ready(value) == {"a": [None, [1.5, None]], "1": {"b": None}}


def test_only_a_folder_of_its_kind_is_replaced(tmp_path: Path) -> None:
    def check(name: str) -> None:
        files.check_replaceable(tmp_path / name, "thing", "it.json", lambda folder: ["part/a.txt"])

    check("nothing there")
    (tmp_path / "empty").mkdir()
    check("empty")
    (tmp_path / "thing" / "part").mkdir(parents=True)
    (tmp_path / "thing" / "it.json").write_text("{}")
    (tmp_path / "thing" / "part" / "a.txt").write_text("")
    check("thing")
    (tmp_path / "foreign" / "deep").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    for name in ("foreign", "file"):
        with pytest.raises(arbo.UsageError, match="exists and is not a thing"):
            check(name)
    for foreign in ("thing/mine.txt", "thing/part/mine.txt", "thing/mine/deep.txt"):
        (tmp_path / foreign).parent.mkdir(exist_ok=True)
        (tmp_path / foreign).write_text("")
        with pytest.raises(arbo.UsageError, match=r"but also has files that would be deleted, such as .*mine"):
            check("thing")
        (tmp_path / foreign).unlink()
    with pytest.raises(arbo.UsageError, match=r"but also has files that would be deleted, such as mine;"):
        check("thing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_array_that_does_not_fit_the_disk_says_so(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(60_000).reshape(200, 300))
    with pytest.raises(OSError, match="No space left") as told:
        files.save_array(Path("/dev/full"), array)
    assert told.value.errno == errno.ENOSPC
    np.save(tmp_path / "plain.npy", array)
    files.save_array(tmp_path / "saved.npy", array)
    assert (tmp_path / "plain.npy").read_bytes() == (tmp_path / "saved.npy").read_bytes()

"""Files: written whole or not at all, and read by others as any file is."""

import errno
import json
import os
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from builders import files_in

import arbo
from arbo import files

THING = files.Format("its", 1, {}, "a thing", "make it again", "it.json")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not exchange folders")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("precious")
    for deep in ("run", "deep/run"):
        with pytest.raises(arbo.UsageError, match="cannot write"):
            files.write_json({}, tmp_path / "file" / deep)
    assert (tmp_path / "file").read_text() == "precious"
    files.write_json({"a": 1}, tmp_path / "tuned.json")
    with pytest.raises(TypeError):
        files.write_json({"a": object()}, tmp_path / "tuned.json")
    monkeypatch.setattr(os, "replace", mock.Mock(side_effect=OSError(28, "No space left on device")))
    for write, content in ((files.write_json, {"a": 2}), (files.write_lines, ["2"])):
        with pytest.raises(arbo.UsageError, match="No space"):
            write(content, tmp_path / "tuned.json")
    assert files_in(tmp_path) == {"file", "tuned.json"}
    assert json.loads((tmp_path / "tuned.json").read_text("utf-8")) == {"a": 1}
    value = {"a": [float("nan"), (1.5, -float("inf"))], 1: {"b": float("inf")}}
    assert files.json_ready(value) == {"a": [None, [1.5, None]], "1": {"b": None}}


@pytest.mark.skipif(os.name != "posix", reason="pipes in folders are of POSIX")
def test_no_pipe_or_device_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", "-"):
        target = tmp_path / name if name != "-" else Path(name)
        with pytest.raises(arbo.UsageError, match="a device, a pipe or `-`"):
            files.write_json({}, target)
        with pytest.raises(arbo.UsageError, match="a device, a pipe or `-`"):
            THING.check_replaceable(target)
    assert (tmp_path / "pipe").is_fifo()
    assert not Path("-").exists()


def test_only_a_folder_of_its_kind_is_replaced(tmp_path: Path) -> None:
    def check(name: str) -> None:
        THING.check_replaceable(tmp_path / name)

    check("nothing there")
    (tmp_path / "empty").mkdir()
    check("empty")
    (tmp_path / "thing" / "part").mkdir(parents=True)
    files.write_json({"format": "its", "files": {"part/a.txt": ""}}, tmp_path / "thing" / "it.json")
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
    for content in ("{}", "[]", '{"format": "other", "files": {}}', "no JSON"):
        (tmp_path / "thing" / "it.json").write_text(content)
        with pytest.raises(arbo.UsageError, match="or is damaged; choose another, or remove it"):
            check("thing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_array_that_does_not_fit_the_disk_says_so(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(60_000).reshape(200, 300))
    (tmp_path / "full.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as told:
        files.save_arrays(tmp_path, {"full": array})
    assert told.value.errno == errno.ENOSPC
    np.save(tmp_path / "plain.npy", array)
    files.save_arrays(tmp_path, {"saved": array})
    assert (tmp_path / "plain.npy").read_bytes() == (tmp_path / "saved.npy").read_bytes()


@LINUX
def test_a_folder_that_is_replaced_is_there_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str) -> None:
        with files.whole_folder(tmp_path / "folder") as partial:
            (partial / "file").write_text(text)

        assert ((tmp_path / "folder" / "file").read_text(), os.listdir(tmp_path)) == (text, ["folder"])

    def moved(source: Path, target: Path) -> None:
        assert target.name == "folder"  # what is there is not moved aside
        replace(source, target)

    replace = os.replace
    write("one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", moved)
        write("two")
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    write("three")


@pytest.mark.parametrize("exchanges", [pytest.param(True, marks=LINUX), False])
def test_what_was_in_the_way_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    if not exchanges:
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "plain").write_text("text")
    for name in ("link", "plain"):
        with files.whole_folder(tmp_path / name) as partial:
            (partial / "new").write_text("")
        assert not (tmp_path / name).is_symlink()
        assert os.listdir(tmp_path / name) == ["new"]
    assert sorted(os.listdir(tmp_path)) == ["link", "plain", "precious"]
    assert (tmp_path / "precious" / "file").read_text() == "mine"

"""Files: written whole or not at all, and read by others as any file is."""

from __future__ import annotations

import json
import os
from pathlib import Path

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


def test_numbers_that_json_has_not_are_null() -> None:
    value = {"a": [float("nan"), (1.5, -float("inf"))], 1: {"b": float("inf")}}
    assert files.json_ready(value) == {"a": [None, [1.5, None]], "1": {"b": None}}

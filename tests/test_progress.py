"""Progress away from a terminal: silent when it is soon done, a line now and then when it is not."""

import re
import sys
import time

import pytest

import arbo
from arbo import progress


@pytest.mark.parametrize(("seconds", "lines"), [(0.1, 0), (40.0, 3), (13.0, 1)])
def test_a_line_each_half_minute(
    seconds: float, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    done = []
    for item in progress.bars("embedding entities")(range(4), 4):
        now[0] += seconds
        done.append(item)
    assert done == [0, 1, 2, 3]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == lines
    assert all(line.startswith("embedding entities: ") and line.endswith(" minutes left") for line in told)


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for show in (progress.bars, arbo.Linker().announce):
        for _ in show("searching")(range(4), 4):
            now[0] += 60
        assert {*re.findall(r"(\d+)%", capsys.readouterr().err)} & {"25", "50", "75", "100"}
    for _ in arbo.Linker().announce("searching")(range(4), 4):
        now[0] += 0.5
    assert capsys.readouterr().err == ""


def test_the_library_says_nothing_away_from_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for in_a_notebook in (False, True):
        if in_a_notebook:
            monkeypatch.setitem(sys.modules, "ipykernel", sys)
        for _ in arbo.Linker().announce("searching")(range(4), 4):
            now[0] += 60
        assert bool(capsys.readouterr().err) == in_a_notebook

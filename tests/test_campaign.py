"""The campaigns in short: each question is asked a few times, of seeds that the long form has too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from campaign import runner
from campaign.runner import PAGE, RECORD, campaigns, table

KNOWN, SLOW = campaigns(), [pytest.mark.slow]


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW * one.slow) for n, one in KNOWN.items() if one.few])
def test_no_case_fails(name: str, tmp_path: Path) -> None:
    for seed in range(KNOWN[name].begin, KNOWN[name].begin + KNOWN[name].few):
        (tmp_path / str(seed)).mkdir()
        KNOWN[name].case(seed, tmp_path / str(seed))


def test_the_page_on_reliability_has_the_figures_of_the_record() -> None:
    """After a merge: ``python tests/campaign --table``."""
    assert table(json.loads(RECORD.read_text("utf-8"))) in PAGE.read_text("utf-8")


def _planted(seed: int, folder: Path) -> None:
    if seed == 5:
        raise SkipTest
    assert seed != 2


def test_each_case_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a case is skipped, or ends its process, and others go on."""
    planted = runner.Campaign(_planted, "", 1, 0)
    monkeypatch.setattr(runner, "campaigns", lambda: {"planted": planted})
    assert runner.failures("planted", [1, 2, 5])[0] == 2
    monkeypatch.setattr(runner, "ProcessPoolExecutor", _Pool)
    told = [*runner.asked("planted", range(8), 2)]
    assert sum(made for made, _ in told) == 7
    assert [seed for _, failed in told for seed, _ in failed] == [2, 3]


def test_a_run_that_goes_on_is_added_to_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that were skipped count as tried; a run of other seeds replaces what was there."""
    monkeypatch.setattr(runner, "RECORD", tmp_path / "record.json")
    assert runner.untried("planted") == 0
    expected = (3, [6], 4), (6, [6, 10], 7), (2, [], 2)
    runs = (range(4, 8), [6]), (range(8, 11), [10]), (range(20, 22), [])
    for (seeds, failed), figures in zip(runs, expected, strict=True):
        runner._keep("planted", 2 + bool(failed), failed, seeds, 1.0)
        own = json.loads(runner.RECORD.read_text("utf-8"))["planted"]
        assert (own["cases"], own["failed"], own["seeds"]) == figures
        assert runner.untried("planted") == seeds.stop
    assert own["first"] == 20
    assert own["seconds"] == 1.0


class _Pool:
    """Makes the cases here; one that ends its process breaks the pool at the seed 3."""

    def __init__(self, *given: Any) -> None:
        self._made = given[-1][-1]

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *given: object) -> None:
        pass

    def map(self, call: Any, names: list[str], batches: list[range]) -> Iterator[Any]:
        for name, batch in zip(names, batches, strict=True):
            if 3 in batch:
                self._made.value = 3
                raise BrokenProcessPool
            yield call(name, batch)

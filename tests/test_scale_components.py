"""The partition of a run in bins of components: the same bits, each part made once."""

from __future__ import annotations

import resource
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from builders import linker
from conftest import Sample
from test_clustering_bins import bits
from test_scale import Shuffled, few, hashes, parts_of

from arbo.engine import Bins, ListedGraph, Partition, partition
from arbo.progress import quiet
from arbo.scale.executors import Serial
from arbo.scale.work import Work, opened

HOW: dict[str, Any] = {
    "method": "minimax",
    "threshold": (0.5, 0.5),
    "nil_linkage": "single",
    "nil_threshold": 0.5,
    "decisions": None,
}


@pytest.fixture(autouse=True)
def small_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbo.scale.work.Work", partial(Work, per_bin=1))


class Chains:
    """What a partition needs of a `Retrieval`: lists of chains of so many mentions, and their names."""

    def __init__(self, n: int, length: int) -> None:
        near = np.where(np.arange(n) % length, np.arange(n) - 1, -1)[:, None]
        weight = 0.1 + np.cumsum(near >= 0)[:, None] % 3 / 10
        self.lists = ListedGraph((near, weight), (np.empty((n, 0), int), np.empty((n, 0))), 0)
        self.inputs = [SimpleNamespace(name=f"name {i}") for i in range(n)]

    def listed(self, k: int, decisions: None) -> ListedGraph:
        return self.lists


def plainly(found: Chains, **how: Any) -> Partition:
    return partition(found.lists.graph(), **how)


@pytest.mark.parametrize("how", [{"nil_linkage": "average", "nil_threshold": 0.5}, {"entity_threshold": 0.2}, {}])
def test_bins_do_not_change_a_run(sample: Sample, tmp_path: Path, how: dict[str, Any]) -> None:
    documents, (mention, other) = few(sample), (few(sample)[0].mentions[0], few(sample)[1].mentions[0])
    corrections = [
        {"mention": mention.id, "entity": None},
        {"same": [other.id, mention.id]},
        {"mention": few(sample)[2].mentions[0].id, "new": "one"},
        {"different": [few(sample)[3].mentions[0].id, few(sample)[4].mentions[0].id]},
    ]
    plain = linker(sample[1], **how)
    for told in ([], corrections):
        expected = hashes(plain.link(documents, told), tmp_path / "plain")
        with opened(tmp_path / f"work{len(told)}", shard_size=9, pool=Shuffled()) as work:
            assert hashes(work.over(plain).link(documents, told), tmp_path / "spread") == expected
        made = parts_of(tmp_path / f"work{len(told)}")
        assert sum(name.startswith("partition") for name in made) > 2
        assert {part["made"] for part in made.values()} == {1}


class Failing(Serial):
    """Ends as a job does that is killed, after so many partitions."""

    left = 2

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """Make the call unless it is one too many."""
        self.left -= call.__self__.folder.name.startswith("partition")
        if self.left < 0:
            raise KeyboardInterrupt
        return super().submit(call, *args, **named)


def test_a_partition_goes_on_with_the_bins_that_are_finished(tmp_path: Path) -> None:
    found, told = Chains(60, 3), list[str]()
    with pytest.raises(KeyboardInterrupt), opened(tmp_path, shard_size=7, pool=Failing()) as work:
        work.partition(found, 1, quiet, **HOW)
    assert sum(name.startswith("partition") for name in parts_of(tmp_path)) == 2
    with opened(tmp_path, 2, shard_size=7, tell=told.append) as work:
        made = work.partition(found, 1, quiet, **HOW)
    assert told == ["partition: 2 of 3 parts are finished already"]  # equal bins are one part
    assert bits(made) == bits(plainly(found, **HOW))
    assert {part["made"] for part in parts_of(tmp_path).values()} == {1}


def test_what_fits_a_bin_is_not_sent(tmp_path: Path) -> None:
    for found, size in ((Chains(6, 3), 6), (Chains(6, 6), 5)):
        with opened(tmp_path, shard_size=size) as work:
            made = work.partition(found, 1, quiet, **HOW)
        assert bits(made) == bits(plainly(found, **HOW))
    assert parts_of(tmp_path) == {}


def test_a_component_that_is_too_large_is_reported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bins, "taken", Mock(side_effect=MemoryError))
    told: list[str] = []
    with pytest.raises(MemoryError), opened(tmp_path, shard_size=8, tell=told.append) as work:
        work.partition(Chains(30, 10), 1, quiet, **HOW)
    (line,) = told
    assert line.startswith("partition: the largest group of connected mentions has 10, more than a bin of 8; it ")


@pytest.mark.parametrize("linkage", ["single", "average"])
def test_few_files_are_open_at_once(tmp_path: Path, linkage: str) -> None:
    found, how, limit = Chains(480, 3), HOW | {"nil_linkage": linkage}, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, limit[1]))
    try:
        with opened(tmp_path, shard_size=3) as work:
            made = work.partition(found, 1, quiet, **how)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert bits(made) == bits(plainly(found, **how))

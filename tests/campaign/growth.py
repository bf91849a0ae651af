"""Growth against refit, and on other machines, in the random histories of ``tests/histories.py``."""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import histories

from arbo.scale.executors import connected
from arbo.scale.work import opened
from campaign.runner import Campaign
from campaign.scale_kills import cluster


def _history(seed: int, folder: Path) -> None:
    histories.live(seed, **histories.KINDS[seed % len(histories.KINDS)])


def _machines(seed: int, folder: Path) -> None:
    """Take the same steps in memory and in shards: here, in two processes, or on a cluster of Ray."""
    how: dict[str, Any] = [{}, {"workers": 2}, {"pool": _ray() if seed % 3 == 2 else None}][seed % 3]
    kind = histories.KINDS[seed // 3 % len(histories.KINDS)]
    with opened(folder / "work", shard_size=2 + seed % 7, **how) as work:
        one = histories.History(seed, folder / "one", **kind)
        other = histories.History(seed, folder / "other", **kind, over=work)
        for _ in range(4):
            one.step()
            other.step()
            histories.equal(one.result, other.result)
            arrays = [{name: array.tobytes() for name, array in run.result.arrays().items()} for run in (one, other)]
            assert arrays[0] == arrays[1]


@cache
def _ray() -> Any:
    connection = ExitStack()
    pool = connection.enter_context(connected(cluster().address))
    atexit.register(connection.close)  # before the cluster ends
    return pool


_SAME = "shards, processes and Ray give the same runs, byte by byte"
CAMPAIGNS = {
    "histories": Campaign(_history, "a run that grew equals its refit, after each of four steps", many=20_000, few=6),
    "machines": Campaign(_machines, _SAME, many=120, few=1, gigabytes=64, processes=True),
}

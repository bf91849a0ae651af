"""Rows made in chunks by threads, and joined in their order."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arbo.engine import Ids, in_threads


class Rows(NamedTuple):
    """Rows of items: row ``i`` has ``items[start[i]:start[i + 1]]``, and as many ``values`` or none."""

    start: Ids  # (rows + 1,)
    items: Ids
    values: npt.NDArray[np.floating[Any]]


def rows_in_chunks(make: Callable[[int, int], Rows], n: int, size: int) -> Rows:
    """Join the rows that ``make(begin, end)`` returns for consecutive chunks of ``n`` rows; a thread makes a chunk.

    A chunk is freed as soon as it is copied, so that all rows are in memory only once.
    """
    made: dict[int, Rows] = {}

    def fill(begin: int) -> None:
        made[begin] = make(begin, min(begin + size, n))

    begins = range(0, max(n, 1), size)
    if len(begins) == 1:
        fill(0)
        return made[0]
    in_threads(fill, begins, os.cpu_count() or 1)
    parts = [made.pop(begin) for begin in begins]
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(part.start) for part in parts]), out=start[1:])
    items = np.empty(start[-1], parts[0].items.dtype)
    values = np.empty(sum(len(part.values) for part in parts), parts[0].values.dtype)
    for begin in reversed(begins):
        part = parts.pop()
        at = start[begin]
        items[at : at + len(part.items)] = part.items
        values[at : at + len(part.values)] = part.values
    return Rows(start, items, values)

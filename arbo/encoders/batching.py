"""Batches of rows of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batch_end(lengths: Sequence[int], begin: int, budget: int) -> int:
    """Return the end of a batch of ascending lengths from ``begin`` within a budget of tokens; at least one row.

    >>> batch_end([2, 3, 3, 9], 0, 9), batch_end([2, 3, 3, 9], 3, 1)
    (3, 4)
    """
    end = begin + 1
    while end < len(lengths) and (end + 1 - begin) * lengths[end] <= budget:
        end += 1
    return end


def packs(lengths: Sequence[int], budget: int) -> Iterator[slice]:
    """Yield batches of ascending lengths as slices, see `batch_end`.

    >>> list(packs([2, 3, 3, 9], 9))
    [slice(0, 3, None), slice(3, 4, None)]
    """
    begin = 0
    while begin < len(lengths):
        end = batch_end(lengths, begin, budget)
        yield slice(begin, end)
        begin = end

"""Counts at every cut of a merge tree, with numba.

The leaves are ordered on a line so that every cluster of the tree is a range. Then no table of clusters and classes is
needed: one merge joins two neighbours on the line, and one merge joins two members of a class with no other member
between them. These two lists, in the order of the merges, contain everything that a merge changes.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray

Function = TypeVar("Function", bound=Callable[..., Any])


def cut_counts(leaf_class: IntArray, joined: IntArray, n_steps: int, class_size: IntArray) -> tuple[FloatArray, float]:
    """Count at every cut of a merge tree whose leaves are on a `line`; O(n log n) time, O(n) memory.

    A step is a distinct height. ``leaf_class`` has the classes of the leaves on the line, ``class_size`` their sizes.

    Return counts before the first step and after each step, (steps + 1, 8), and the sum over the pairs of a class of
    the purity of the first cluster that holds both. The columns are:

    - pairs together in the truth and in the cut; pairs together in the cut;
    - pairs of a class and a cluster that share a leaf; clusters;
    - the sum over these cells of ``count^2 / size of the class``, and of ``count^2 / size of the cluster`` (B-cubed);
    - the numerators of LEA: of recall, and of precision.
    """
    member, met = _meetings(leaf_class, joined, n_steps, np.cumsum(class_size) - class_size)
    joins, meetings = _by_step(joined, n_steps), _by_step(met, n_steps)
    return _walk(joins, meetings, member, leaf_class[member], class_size, class_size[leaf_class] == 1)


def _kernel(function: Function) -> Function:
    """Compile a function; its cache on disk depends on the name of its module, which can have two names."""
    function.__qualname__ = f"{function.__module__}.{function.__qualname__}"
    return cast(Function, numba.njit(cache=True)(function))


@_kernel
def line(
    label: IntArray, left: IntArray, right: IntArray, step: IntArray, n_steps: int, n_known: int
) -> tuple[IntArray, IntArray]:
    """Order the leaves with a class so that each cluster is a range.

    `all_cuts` describes the tree; ``step`` is the step of each merge. Also return the step that joins each place with
    the previous one; ``n_steps`` means never, as at place 0.
    """
    n_leaves = len(label)
    size = np.empty(n_leaves + len(left), np.int64)
    size[:n_leaves] = label >= 0
    for i in range(len(left)):
        size[n_leaves + i] = size[left[i]] + size[right[i]]
    begin = np.full(len(size), -1, np.int64)
    leaves = np.empty(n_known, np.int64)
    joined = np.full(n_known, n_steps, np.int64)
    free = 0
    for node in range(len(size) - 1, -1, -1):
        if begin[node] < 0:  # a root
            begin[node] = free
            free += size[node]
        if node >= n_leaves:
            i = node - n_leaves
            begin[left[i]] = begin[node]
            begin[right[i]] = begin[node] + size[left[i]]
            if size[left[i]] > 0 and size[right[i]] > 0:
                joined[begin[right[i]]] = step[i]
        elif size[node] > 0:
            leaves[begin[node]] = node
    return leaves, joined


@_kernel
def _meetings(label: IntArray, joined: IntArray, n_steps: int, class_begin: IntArray) -> tuple[IntArray, IntArray]:
    """Order the leaves by class, and find the step at which each member of a class meets the previous one.

    It is the latest step between their places; a place is hidden by a later place with a later step. Return the places
    by class, and the steps; ``n_steps`` means never, as for the first member of a class.
    """
    member = np.empty(len(label), np.int64)
    met = np.full(len(label), n_steps, np.int64)
    end = class_begin.copy()
    hidden_by = np.full(len(label), -1, np.int64)
    visible = np.empty(len(label), np.int64)
    n_visible = 0
    for p in range(len(label)):
        while n_visible > 0 and joined[visible[n_visible - 1]] <= joined[p]:
            n_visible -= 1
            hidden_by[visible[n_visible]] = p
        visible[n_visible] = p
        n_visible += 1
        rank = end[label[p]]
        end[label[p]] = rank + 1
        member[rank] = p
        if rank > class_begin[label[p]]:
            met[rank] = joined[_follow(hidden_by, member[rank - 1] + 1)]
    return member, met


def _by_step(step: IntArray, n_steps: int) -> tuple[IntArray, IntArray]:
    """Return where each step begins in the places that are sorted by step, and these places."""
    places = np.argsort(step, kind="stable")
    return np.searchsorted(step[places], np.arange(n_steps + 2)), places


@_kernel
def _walk(
    joins: tuple[IntArray, IntArray],
    meetings: tuple[IntArray, IntArray],
    member: IntArray,
    label: IntArray,
    class_size: IntArray,
    alone: npt.NDArray[np.bool_],
) -> tuple[FloatArray, float]:
    """Count at each step, one after the other; see `cut_counts` for the result.

    ``member`` and ``label`` give the place and the class of each rank in the order by class; meeting ``rank`` is that
    of the members ``rank - 1`` and ``rank``. ``alone`` tells for each place whether its class has no other member.
    """
    n, n_steps = len(member), len(joins[0]) - 2
    counts = np.empty((n_steps + 1, 8))
    shared, found, cells, clusters = 0, 0, n, n
    of_recall, of_precision, of_purity = (float(len(class_size)), 0.0), (float(n), 0.0), (0.0, 0.0)
    singletons = alone.sum()  # classes of one member that are also clusters
    of_lea_recall, of_lea_precision = (0.0, 0.0), (0.0, 0.0)  # of classes and clusters with several members
    above = np.full(n, -1, np.int64)  # clusters as disjoint sets of places; further values are kept at their roots
    size = np.ones(n, np.int64)
    squares = np.ones(n, np.int64)  # sum over the classes of the count in the cluster, squared
    is_open = np.zeros(n, np.bool_)  # its part of the precision has been removed
    together = np.ones(n, np.int64)  # members of a class in one cluster, at the first rank and at the last
    for s in range(n_steps + 1):
        counts[s, 0], counts[s, 1], counts[s, 2], counts[s, 3] = shared, found, cells, clusters
        counts[s, 4], counts[s, 5] = of_recall[0] + of_recall[1], of_precision[0] + of_precision[1]
        counts[s, 6] = singletons + of_lea_recall[0] + of_lea_recall[1]
        counts[s, 7] = singletons + of_lea_precision[0] + of_lea_precision[1]
        if s == n_steps:
            break
        for place in joins[1][joins[0][s] : joins[0][s + 1]]:
            a, b = _follow(above, place - 1), _follow(above, place)
            for root in (a, b):
                if not is_open[root]:
                    of_precision = _plus(of_precision, -squares[root] / size[root])
                    if size[root] > 1:
                        of_lea_precision = _plus(of_lea_precision, -(squares[root] - size[root]) / (size[root] - 1))
                    elif alone[root]:
                        singletons -= 1
            found += size[a] * size[b]
            if size[a] < size[b]:
                a, b = b, a
            above[b] = a
            size[a] += size[b]
            squares[a] += squares[b]
            is_open[a] = True
        i, end = meetings[0][s], meetings[0][s + 1]
        while i < end:  # all members of a class that are in one cluster after this step
            begin = meetings[1][i]
            count = together[begin - 1]
            first, pairs = begin - count, -count * (count - 1) // 2
            while i < end and meetings[1][i] == first + count:
                part = together[first + count]
                pairs -= part * (part - 1) // 2
                count += part
                i += 1
            pairs += count * (count - 1) // 2
            together[first] = together[first + count - 1] = count
            root = _follow(above, member[first])
            shared += pairs
            squares[root] += 2 * pairs
            of_recall = _plus(of_recall, 2 * pairs / class_size[label[first]])
            of_lea_recall = _plus(of_lea_recall, 2 * pairs / (class_size[label[first]] - 1))
            of_purity = _plus(of_purity, pairs * (count / size[root]))
        for place in joins[1][joins[0][s] : joins[0][s + 1]]:
            root = _follow(above, place)
            if is_open[root]:
                of_precision = _plus(of_precision, squares[root] / size[root])
                of_lea_precision = _plus(of_lea_precision, (squares[root] - size[root]) / (size[root] - 1))
                is_open[root] = False
        cells -= meetings[0][s + 1] - meetings[0][s]
        clusters -= joins[0][s + 1] - joins[0][s]
    return counts, of_purity[0] + of_purity[1]


@_kernel
def _follow(above: IntArray, i: int) -> int:
    """Return the root of ``i``, with path halving."""
    while above[i] >= 0:
        if above[above[i]] >= 0:
            above[i] = above[above[i]]
        i = above[i]
    return i


@_kernel
def _plus(total: tuple[float, float], term: float) -> tuple[float, float]:
    """Add to a sum with error compensation (Neumaier 1974): adding and subtracting a number restores the sum."""
    value = total[0] + term
    if abs(total[0]) >= abs(term):
        return value, total[1] + ((total[0] - value) + term)
    return value, total[1] + ((term - value) + total[0])

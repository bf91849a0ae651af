"""Choose the best of overlapping spans."""

from bisect import bisect, insort
from collections.abc import Sequence

from arbo.text.checks import Span

Spans = tuple[Span, ...]
"""The spans of a mention, or of all mentions of an entity in a text."""


def without_overlaps(spans: Sequence[Spans], score: Sequence[float]) -> list[int]:
    """Return the indices of the items to keep, ascending; of overlapping items, the one with the highest score.

    Of items with the same score, the one that covers the most characters is kept; of equally long ones, the one that
    begins first; of those, the one that is earlier in the list.

    >>> without_overlaps([((0, 4),), ((0, 11),), ((5, 8), (12, 15)), ((12, 15),)], [1.0, 2.0, 1.0, 1.0])
    [1, 3]
    """

    def rank(place: int) -> tuple[float, int, Spans]:
        return -score[place], -sum(end - begin for begin, end in spans[place]), spans[place]

    taken: list[Span] = []
    best = []
    for place in sorted(range(len(spans)), key=rank):
        if all(_is_free(taken, span) for span in spans[place]):
            best.append(place)
            covered = 0
            for begin, end in sorted(spans[place]):  # they may overlap each other
                if covered < end:
                    insort(taken, (max(begin, covered), end))
                    covered = end
    return sorted(best)


def _is_free(taken: Sequence[Span], span: Span) -> bool:
    """Return whether a span shares no character with the taken spans, which do not overlap each other."""
    after = bisect(taken, span)
    return (after == 0 or taken[after - 1][1] <= span[0]) and (after == len(taken) or span[1] <= taken[after][0])

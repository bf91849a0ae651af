"""Agreement of extracted spans, contiguous or not, by token and by whole mention."""

import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .arrays import BoolArray, IntArray, encode_labels
from .ratio import f1, ratio

# Items, which are lists of mentions, which are lists of fragments (start, end).
Spans: TypeAlias = Iterable[Collection[Collection[Collection[int]]]]

_BITS = 32  # token indices are below 2^32, so that item and token fit in one integer


class SpanCounts(NamedTuple):
    """The counts of an item, or the sums over several items."""

    gold_tokens: int  # tokens that a gold mention covers
    predicted_tokens: int  # tokens that a predicted mention covers
    shared_tokens: int  # tokens that both cover
    gold_mentions: int  # different gold mentions
    predicted_mentions: int  # different predicted mentions
    shared_mentions: int  # mentions on both sides with exactly the same tokens
    gold_overlapping: int  # different gold mentions that share a token with a predicted mention
    predicted_overlapping: int  # different predicted mentions that share a token with a gold mention


class SpanRatios(NamedTuple):
    """Precision, recall and F1 of tokens or of mentions."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False)
class SpanScores:
    """The result of `span_scores`: the counts of each item, and ratios over all items.

    ``SpanScores(scores.items[rows])`` gives the ratios of some items, or of a sample with repetitions.
    """

    items: IntArray  # (items, 8): a row of `SpanCounts` for each item

    @property
    def counts(self) -> SpanCounts:
        """The sums of the counts over items."""
        return SpanCounts(*self.items.sum(axis=0).tolist())

    @property
    def micro(self) -> SpanRatios:
        """Ratios of tokens, pooled over the items."""
        of = self.counts
        return _ratios(of.shared_tokens, of.predicted_tokens, of.shared_tokens, of.gold_tokens)

    @property
    def macro(self) -> SpanRatios:
        """Ratios of tokens, as means of the items' precision, recall and F1.

        Each mean is over the items with a nonzero denominator: precision over items with predicted mentions, recall
        over items with gold mentions, F1 over items with either.
        """
        gold, predicted, shared = self.items[:, :3].T
        return SpanRatios(*map(_mean_ratio, (shared, shared, 2 * shared), (predicted, gold, gold + predicted)))

    @property
    def exact(self) -> SpanRatios:
        """Ratios of whole mentions, which are correct if they cover the same tokens."""
        of = self.counts
        return _ratios(of.shared_mentions, of.predicted_mentions, of.shared_mentions, of.gold_mentions)

    @property
    def overlap(self) -> SpanRatios:
        """Ratios of whole mentions, which are correct if they share a token with a mention on the other side."""
        of = self.counts
        return _ratios(of.predicted_overlapping, of.predicted_mentions, of.gold_overlapping, of.gold_mentions)

    def as_dict(self) -> dict[str, Any]:
        """Return the sums of the counts, and the ratios by name, ready for JSON."""
        ratios = {name: getattr(self, name)._asdict() for name in ("micro", "macro", "exact", "overlap")}
        return {"items": len(self.items), **self.counts._asdict(), **ratios}

    def __str__(self) -> str:
        lines = {"tokens": self.micro, "tokens by item": self.macro, "exact": self.exact, "overlap": self.overlap}
        form = "{}: precision {:.4f}, recall {:.4f}, F1 {:.4f}"
        return "\n".join(form.format(name, *ratios) for name, ratios in lines.items())


def span_scores(gold: Spans, predicted: Spans) -> SpanScores:
    """Compute the agreement of predicted spans with gold spans, by token and by whole mention.

    If ``G`` and ``P`` are the distinct tokens that the gold and the predicted mentions of an item cover, precision is
    ``|G & P| / |P|`` and recall is ``|G & P| / |G|``, over all items together (`micro`) or as a mean over items
    (`macro`). Repeated mentions count once. A mention is correct if the other side has a mention with exactly the same
    tokens (`exact`), or a mention that shares a token with it (`overlap`). O(n log n) time for n fragments of any
    length, and O(n) memory. Source: Li et al. 2022, OSLAT, section 6.2, whose "per-token micro-F1 ... averaged across
    all examples" is read as `micro`.

    Args:
        gold: an item for each text, or for each text and entity. An item is a list of mentions, a mention a list of
            fragments, a fragment a half-open pair ``(start, end)`` of tokens or of any other unit, below 2^32. A
            mention with several fragments is discontinuous; fragments may touch and overlap. An item may be empty.
        predicted: the predicted mentions of the same items.

    Raise ValueError if the numbers of items differ, a mention has no fragment, or a fragment is not two integers with
    ``0 <= start < end < 2^32``, and TypeError if an item is not a list.

    The first mention is found exactly. The second has two tokens, of which one is found, with two tokens too many.

    >>> gold = [[[(0, 4)]], [[(3, 4), (7, 8)]]]
    >>> predicted = [[[(0, 4)]], [[(7, 10)]]]
    >>> scores = span_scores(gold, predicted)
    >>> print(scores)
    tokens: precision 0.7143, recall 0.8333, F1 0.7692
    tokens by item: precision 0.6667, recall 0.7500, F1 0.7000
    exact: precision 0.5000, recall 0.5000, F1 0.5000
    overlap: precision 1.0000, recall 1.0000, F1 1.0000
    """
    true, pred = _flatten(gold, "gold"), _flatten(predicted, "predicted")
    if true.n_items != pred.n_items:
        raise ValueError(f"gold has length {true.n_items}, but predicted has {pred.n_items}; give both the same items")
    number = _number_by_tokens(true, pred)
    true_number, true_first = np.unique(number[: len(true.item)], return_index=True)
    pred_number, pred_first = np.unique(number[len(true.item) :], return_index=True)
    true_item, pred_item = true.item[true_first], pred.item[pred_first]
    true_cover, pred_cover = _union(true.fragments), _union(pred.fragments)

    def mentions(item: IntArray) -> IntArray:
        return np.bincount(item, minlength=true.n_items)

    def tokens(cover: IntArray) -> IntArray:
        return np.bincount(cover[0] >> _BITS, cover[1] - cover[0], true.n_items).astype(np.int64)

    true_tokens, pred_tokens = tokens(true_cover), tokens(pred_cover)
    columns = {
        "gold_tokens": true_tokens,
        "predicted_tokens": pred_tokens,
        "shared_tokens": true_tokens + pred_tokens - tokens(_union(np.hstack([true_cover, pred_cover]))),
        "gold_mentions": mentions(true_item),
        "predicted_mentions": mentions(pred_item),
        "shared_mentions": mentions(true_item[np.isin(true_number, pred_number)]),
        "gold_overlapping": mentions(true_item[_overlaps(true, pred_cover)[true_first]]),
        "predicted_overlapping": mentions(pred_item[_overlaps(pred, true_cover)[pred_first]]),
    }
    return SpanScores(np.stack([columns[name] for name in SpanCounts._fields], axis=1))


class _Side(NamedTuple):
    """The fragments of one side, half-open intervals on a line on which item ``i`` has the positions from i * 2^32."""

    n_items: int
    item: IntArray  # (mentions,)
    mention: IntArray  # (fragments,)
    fragments: IntArray  # (2, fragments) their starts and ends


def _flatten(spans: Spans, side: str) -> _Side:
    if not isinstance(spans, Iterable) or isinstance(spans, str | bytes | Mapping):
        raise TypeError(f"{side} is of type {type(spans).__name__}, not a list of items")
    items, owner, mention, fragments = list(spans), list[int](), list[int](), list[Collection[int]]()
    for i, item in enumerate(items):
        if not isinstance(item, Collection):
            raise TypeError(f"{side}[{i}] is {item!r}, not an item (a list of mentions)")
        for j, parts in enumerate(item):
            if not isinstance(parts, Collection) or len(parts) == 0 or not all(map(_is_fragment, parts)):
                form = f"a list of one or more integer pairs (start, end) with 0 <= start < end < 2^{_BITS}"
                raise ValueError(f"{side}[{i}][{j}] is {parts!r}, not a mention ({form})")
            mention += [len(owner)] * len(parts)
            owner.append(i)
            fragments.extend(parts)
    of_mention, of_fragment = np.array(owner, np.int64), np.array(mention, np.int64)
    places = np.array(fragments, np.int64).reshape(-1, 2).T + (of_mention[of_fragment] << _BITS)
    return _Side(len(items), of_mention, of_fragment, places)


def _is_fragment(fragment: Any) -> bool:
    try:
        start, end = map(operator.index, fragment)
    except (TypeError, ValueError):
        return False
    return 0 <= start < end < 1 << _BITS


def _union(parts: IntArray) -> IntArray:
    """Return separate, ascending intervals that cover the same positions; both are (2, intervals)."""
    start, end = parts[:, np.argsort(parts[0], kind="stable")]  # fast if they are nearly in order
    end = np.maximum.accumulate(end)
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = start[1:] > end[:-1]
    return np.stack([start[is_first], end[np.roll(is_first, -1)]])


def _overlaps(side: _Side, cover: IntArray) -> BoolArray:
    """Return which mentions overlap the cover, a result of `_union`; (mentions,)."""
    start, end = side.fragments
    next_start = np.append(cover[0], np.iinfo(np.int64).max)[np.searchsorted(cover[1], start, side="right")]
    overlap = np.zeros(len(side.item), np.bool_)
    overlap[side.mention[next_start < end]] = True
    return overlap


def _number_by_tokens(true: _Side, pred: _Side) -> IntArray:
    """Assign codes to the mentions of both sides; mentions with the same tokens of an item get equal codes."""
    item = np.concatenate([true.item, pred.item])
    mention = np.concatenate([true.mention, pred.mention + len(true.item)])
    shift = (mention - item[mention]) << _BITS  # to a line on which each mention has its own range
    union = _union(np.hstack([true.fragments, pred.fragments]) + shift)
    owner = union[0] >> _BITS
    places = (union - ((owner - item[owner]) << _BITS)).T.tobytes()
    stops = (16 * np.cumsum(np.bincount(owner, minlength=len(item)))).tolist()  # bytes: two int64 for an interval
    return encode_labels([places[begin:end] for begin, end in pairwise([0, *stops])])


def _ratios(precise: int, predicted: int, recalled: int, gold: int) -> SpanRatios:
    precision, recall = ratio(precise, predicted), ratio(recalled, gold)
    return SpanRatios(precision, recall, f1(recall, precision))


def _mean_ratio(numerator: IntArray, denominator: IntArray) -> float:
    counted = denominator > 0
    return ratio(float((numerator[counted] / denominator[counted]).sum()), int(counted.sum()))

"""The gap of a knowledge base: the share of mentions whose entity it lacks, estimated from the scores of a run.

A mention whose entity is there is mostly far nearer to it than to the next entity; one whose entity is missing hardly
ever is. How often the first is so depends on how many spellings the knowledge base knows: the names whose words another
name of their entity has, in another order or form, say it. The constants were chosen on the development parts of seven
corpora, and of the same with 30 % of the entities removed; see `benchmarks/default.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from arbo.data import KnowledgeBase
from arbo.data.arrow import codes_of
from arbo.engine import Neighbors
from arbo.text.names import normalize_names

_LEAST_MENTIONS, _LEAST_NAMES = 200, 100
_CLEAR = 0.3
"""A mention is clear if its nearest entity is nearer than the second one by this factor, or if both are equal to it."""
_EQUAL = 0.001
_CLEAR_IF_MISSING = 0.07
_CLEAR_IF_THERE = (0.53, 0.33)
"""The share of clear mentions, and what it gains with the share of names that have a twin."""
_GAPS, _THRESHOLDS = (0.05, 0.15), (0.55, 0.12)
_SAMPLE = 2_000


def estimated_gap(entities: Neighbors, names: Sequence[str], kb: KnowledgeBase) -> float | None:
    """Return the share of mentions whose entity is missing; None for fewer than 200 mentions, or 100 different names.

    ``entities`` are the nearest entities of each mention, by n-grams, and ``names`` what is compared.
    """
    if entities.ids.shape[1] < 2 or len(set(names)) < _LEAST_NAMES:
        return None
    nearest, second = entities.dissimilarity[:, :2].T.astype(np.float64)
    known = np.isfinite(second)
    if known.sum() < _LEAST_MENTIONS:
        return None
    is_clear = (nearest < _CLEAR * second)[known] | (second < _EQUAL)[known]
    expected = _CLEAR_IF_THERE[0] + _CLEAR_IF_THERE[1] * share_of_twins(kb)
    return float(np.clip((expected - is_clear.mean()) / (expected - _CLEAR_IF_MISSING), 0, 1))


def threshold_for(gap: float) -> float:
    """Return the entity threshold for a gap: 0.55 for hardly any, 0.12 from 15 % on.

    >>> threshold_for(0.0), threshold_for(0.1), threshold_for(0.5)
    (0.55, 0.335, 0.12)
    """
    return round(float(np.interp(gap, _GAPS, _THRESHOLDS)), 6)


def share_of_twins(kb: KnowledgeBase) -> float:
    """Return the share of aliases that have the words of another name of their entity, in any order.

    It is the mean over 2,000 entities with aliases, chosen by the hashes of their ids; 0 if no entity has aliases.
    """
    has_aliases = pc.greater(pc.fill_null(pc.list_value_length(kb.table["aliases"]), 0), 0).to_numpy(False)
    rows = np.flatnonzero(has_aliases)
    rows = rows[np.argsort(kb.keys.ids[rows], kind="stable")[:_SAMPLE]]
    if not len(rows):
        return 0.0
    names, aliases = kb.taken(("name", "aliases"), rows)
    size = 1 + pc.list_value_length(aliases).to_numpy(False).astype(np.int64)
    texts = [text for name, more in zip(names.to_pylist(), aliases.to_pylist(), strict=True) for text in (name, *more)]
    keys = [" ".join(sorted({*name.split()})) for name in normalize_names(texts)]
    owner, begin = np.repeat(np.arange(len(rows)), size), np.cumsum(size) - size
    which = codes_of(zip(owner.tolist(), keys, strict=True))
    has_twin = np.bincount(which)[which] > 1
    has_twin[begin] = False  # of the aliases alone
    return float((np.bincount(owner, has_twin) / (size - 1)).mean())

"""Gold annotations of mentions: for each mention, the entities that are correct."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, IntArray, boolean_array, integer_array

OUTSIDE = -1
"""A gold id that the knowledge base does not have."""
_CELLS = 1 << 20  # number of candidates to compare at once, which bounds the memory


@dataclass(frozen=True, eq=False)
class Gold:
    """The gold ids of each mention, any of which is correct.

    Mention ``i`` has the ids ``indices[indptr[i] : indptr[i + 1]]``: entities of the knowledge base (KB), or `OUTSIDE`
    for an id that is not in it. A mention with a gold id has a concept. Four cases follow:

    ============================  ==============================================
    some id is in the KB          it has a concept, and can be linked
    all ids are outside           it has a concept, and is NIL
    no id, but annotated          it has no concept, and is NIL
    no id, and not annotated      it is unknown, and is left out everywhere
    ============================  ==============================================
    """

    indptr: IntArray  # (mentions + 1,) from 0 to ``len(indices)``, never decreasing
    indices: IntArray  # (gold ids,) entity, or `OUTSIDE`
    annotated: BoolArray  # (mentions,)

    @classmethod
    def from_arrays(
        cls, indptr: npt.ArrayLike, indices: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
    ) -> Self:
        """Check and convert the arrays; without `annotated`, a mention is annotated if it has an id.

        Raise ValueError if ``indptr`` does not fit ``indices``, an index is below -1, or a mention has ids but is not
        annotated, and TypeError if ids are not integers or ``annotated`` does not hold booleans.
        """
        if _has_rows(indices):
            span = "gold_indices[gold_indptr[i] : gold_indptr[i + 1]]"
            raise ValueError(f"gold_indices has rows; concatenate them, so that mention i has the ids {span}")
        pointers = integer_array(indptr, name="gold_indptr")
        ids = integer_array(indices, name="gold_indices", low=OUTSIDE)
        if not len(pointers) or pointers[0] != 0 or pointers[-1] != len(ids):
            problem = f"goes from {pointers[0]} to {pointers[-1]}" if len(pointers) else "is empty"
            raise ValueError(f"gold_indptr must go from 0 to {len(ids)}, the number of gold ids, but {problem}")
        lengths = np.diff(pointers)
        if (lengths < 0).any():
            raise ValueError(f"gold_indptr decreases after position {np.argmax(lengths < 0)} (from 0), but must not")
        if annotated is None:
            return cls(pointers, ids, lengths > 0)
        flags = boolean_array(annotated, name="annotated", length=len(lengths))
        odd = np.flatnonzero(~flags & (lengths > 0))
        if len(odd):
            problem = f"annotated is False for mention {odd[0]} (from 0), which has gold ids"
            raise ValueError(f"{problem} (such mentions: {len(odd)}); set it to True, or remove the ids")
        return cls(pointers, ids, flags)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def mention(self) -> IntArray:
        """(gold ids,) the mention of each gold id."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @property
    def has_concept(self) -> BoolArray:
        """(mentions,) whether a mention has a gold id, inside or outside the KB."""
        return np.diff(self.indptr) > 0

    @property
    def in_kb(self) -> BoolArray:
        """(mentions,) whether a mention has a gold id inside the KB."""
        inside = np.zeros(len(self), np.bool_)
        inside[self.mention[self.indices != OUTSIDE]] = True
        return inside

    def accepts(self, entity: IntArray) -> BoolArray:
        """Return, for each mention, whether its entity in ``entity`` is one of its gold ids."""
        mention = self.mention
        right = np.zeros(len(self), np.bool_)
        right[mention[(entity[mention] == self.indices) & (self.indices != OUTSIDE)]] = True
        return right

    def first_accepted(self, candidates: IntArray) -> IntArray:
        """Return the position, from 0, of each mention's first candidate that is a gold id, or ``width`` without one.

        The candidates have the shape (mentions, width). O(gold ids x width) time.
        """
        width = candidates.shape[1]
        position = np.full(len(self), width)
        inside = self.indices != OUTSIDE
        mention, entity = self.mention[inside], self.indices[inside]
        step = max(1, _CELLS // max(1, width))
        for start in range(0, len(entity), step):
            block = slice(start, start + step)
            row, column = np.nonzero(candidates[mention[block]] == entity[block, None])
            np.minimum.at(position, mention[block][row], column)
        return position


def _has_rows(values: npt.ArrayLike) -> bool:
    try:
        return np.ndim(values) > 1
    except ValueError:  # rows of different lengths
        return True

"""Of entities that are equally near, the one that is spelled like the mention comes first.

The compared form of a name forgets case, accents, the order of words and repeated words: "mM" and "mm" are equally near
to both. So lists of candidates have a digit after the dissimilarity: how far the spelling of the nearest name is.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from arbo.data import KnowledgeBase
from arbo.engine import Neighbors
from arbo.retrieval.retrieval import Retrieval
from arbo.text.names import normalize_name, without_marks

_NEVER = 9


def spelled(nearest: Retrieval, kb: KnowledgeBase) -> Retrieval:
    """Order the equally nearest entities of each list by their spelling, then by their rows."""
    ids, dissimilarity = nearest.entities
    if ids.shape[1] < 2:
        return nearest
    rows = np.flatnonzero((ids[:, 1] >= 0) & (dissimilarity[:, 0] == dissimilarity[:, 1]))
    expansions = nearest.inputs.taken(rows).column("expansion")  # how an abbreviation is spelled says nothing
    rows = rows[np.array([expansion is None for expansion in expansions], np.bool_)]
    if not len(rows):
        return nearest
    some, is_tied = ids[rows], dissimilarity[rows] == dissimilarity[rows, :1]
    spellings = nearest.inputs.taken(rows).column("text")
    entities, place = np.unique(some[is_tied], return_inverse=True)
    columns = (column.to_pylist() for column in kb.taken(("name", "aliases"), entities))
    names = [(name, *aliases) for name, aliases in zip(*columns, strict=True)]
    far = np.full(some.shape, _NEVER)
    home = np.nonzero(is_tied)[0]
    far[is_tied] = [
        _distance(spellings[row], names[entity]) for row, entity in zip(home.tolist(), place.tolist(), strict=True)
    ]
    order = np.lexsort((np.where(is_tied, some, np.arange(some.shape[1])), far, ~is_tied), axis=1)
    ids = ids.copy()
    ids[rows] = np.take_along_axis(some, order, axis=1)
    far = np.take_along_axis(far, order, axis=1)
    by_spelling = np.zeros(len(ids), np.bool_)
    by_spelling[rows] = far[:, 0] < far[:, 1]
    return replace(nearest, entities=Neighbors(ids, dissimilarity), by_spelling=by_spelling)


@lru_cache(1 << 16)
def _forms(name: str) -> tuple[object, ...]:
    """Return the forms of a name that forget more and more: none, case, accents, signs and plurals, the order."""
    case = unicodedata.normalize("NFKC", name).casefold()
    plain = normalize_name(name)
    return name, case, without_marks(case), plain, tuple(sorted(plain.split()))


@lru_cache(1 << 16)
def _distance(spelling: str, names: Sequence[str]) -> int:
    """Return how many forms must be forgotten until one of the names is the spelling."""
    forms = _forms(spelling)
    alike = ([a == b for a, b in zip(forms, _forms(name), strict=True)] for name in names)
    return min(of.index(True) if True in of else len(of) for of in alike)

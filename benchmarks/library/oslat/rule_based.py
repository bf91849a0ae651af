"""The names of an entity looked up in a text, the first baseline of Li et al. 2022 (section 6.3)."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

import arbo
from arbo.spans.dictionary import Dictionary, Match
from arbo.spans.finding import Spans, without_overlaps
from arbo.text.words import fold
from clustering.arrays import Ids


def rule_based(
    texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, normalize: Callable[[str], str] = fold
) -> list[Spans]:
    """Return where the names of entity ``entity[i]`` are in text ``text[i]``; of names that overlap the longest.

    Names are compared word by word, as ``normalize`` leaves the words; case and stop words do not matter.

    >>> kb = arbo.KnowledgeBase([arbo.Entity("D1", "cancer of the breast", ("breast cancer", "cancer"))])
    >>> rule_based(["Breast cancer is cancer."], kb, np.array([0]), np.array([0]))
    [((0, 13), (17, 23))]
    """
    dictionary = Dictionary(normalize).add(kb, np.unique(entity).tolist())
    named: dict[int, defaultdict[int, list[Match]]] = {}
    for row in np.unique(text).tolist():
        named[row] = defaultdict(list)
        for match in dictionary.matches(texts[row]):
            for owner in match.entities:
                named[row][owner].append(match)
    found = []
    for row, owner in zip(text.tolist(), entity.tolist(), strict=True):
        own = named[row][owner]
        spans = [((match.begin, match.end),) for match in own]
        kept = without_overlaps(spans, [match.size for match in own])
        found.append(tuple(spans[place][0] for place in kept))
    return found

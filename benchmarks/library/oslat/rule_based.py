"""The names of an entity looked up in a text, the first baseline of Li et al. 2022 (section 6.3)."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

import arbo
from arbo.spans.dictionary import Dictionary, Match
from arbo.spans.finding import Proposal, Spans, without_overlaps
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
        own = (Proposal(0, ((match.begin, match.end),), owner, match.size) for match in named[row][owner])
        found.append(tuple(one.spans[0] for one in without_overlaps(own)))
    return found

"""The pairs of mentions to compare: near in their document, alike in words, or neighbours by the encoder."""

import numpy as np

from arbo.edges.facts import Facts
from arbo.engine import Ids, Neighbors

_WINDOW = 60  # number of mentions just before a mention, in its document, that it is paired with
_ALIKE = 40  # the same among the mentions of the document that share a word with it, for each word


def mention_pairs(facts: Facts, groups: Ids, neighbors: Neighbors) -> tuple[Ids, Ids]:
    """Return the distinct pairs of mentions to compare; the mention of lower ``rank`` comes first in each pair.

    Both mentions of a pair have the same group, for which ``groups``, (mentions,), has a code (see
    `arbo.retrieval.groups`). Mentions that name nothing (see `Facts.nameless`) are compared only within their document.
    ``neighbors`` are the nearest mentions by an encoder.
    """
    pairs = searched(facts, neighbors).values()
    first, second = (np.concatenate(sides) for sides in zip(*pairs, strict=True))
    inside = groups[first] == groups[second]
    return distinct(first[inside], second[inside], len(facts))


def distinct(first: Ids, second: Ids, n: int) -> tuple[Ids, Ids]:
    """Return pairs of mentions without repetition, in ascending order; ``n`` is the number of mentions."""
    key = np.unique(first * n + second)
    return key // max(n, 1), key % max(n, 1)


def searched(facts: Facts, neighbors: Neighbors) -> dict[str, tuple[Ids, Ids]]:
    """Return the pairs that each search finds, by its name.

    ``near``: mentions near each other in a document; ``words``: mentions of a document that share a word; ``names``:
    neighbours in different documents. Several searches can find the same pair.
    """
    of = facts.columns
    content = facts.names.content
    owner = np.repeat(np.arange(len(facts)), np.diff(content.indptr))
    word = of["document"][owner] * content.shape[1] + content.indices
    target, at = np.nonzero(neighbors.ids >= 0)
    source = neighbors.ids[target, at].astype(np.int64)
    is_named = of["document"][source] != of["document"][target]
    is_named &= ~(facts.nameless[source] | facts.nameless[target])
    source, target = source[is_named], target[is_named]
    swap = of["rank"][source] > of["rank"][target]
    return {
        "near": _preceding(np.arange(len(facts)), of["document"], of["place"], _WINDOW),
        "words": _preceding(owner, word, of["place"][owner], _ALIKE),
        "names": (np.where(swap, target, source), np.where(swap, source, target)),
    }


def _preceding(item: Ids, group: Ids, place: Ids, most: int) -> tuple[Ids, Ids]:
    """Pair each item with the ``most`` items before it in its group."""
    order = np.lexsort((place, group))
    item, group = item[order], group[order]
    firsts, seconds = [item[:0]], [item[:0]]
    for step in range(1, min(most, max(len(item) - 1, 0)) + 1):
        together = group[:-step] == group[step:]
        if not together.any():
            break
        firsts.append(item[:-step][together])
        seconds.append(item[step:][together])
    return np.concatenate(firsts), np.concatenate(seconds)

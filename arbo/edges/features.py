"""The pairs of mentions to compare, and the features of pairs: two mentions, or a mention and a name of an entity.

Mentions are compared that are near in their document, alike in words, or neighbours by the encoder.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from arbo.data import KnowledgeBase
from arbo.edges.facts import Facts, Names, hashed_words
from arbo.engine import Bools, Floats, Ids, Neighbors, ranges, sorted_unique

_KINDS = ("class", "pronoun", "start", "before", "after", "capitals", "head_capital", "plural", "words")
_EITHER = (*_KINDS, "in_sentence", "same_text", "same_head")
_COMPARED = (
    *("same_text", "same_words", "initials", "shared", "union", "share_of_first", "share_of_second"),
    *("same_head", "head_in_first", "head_in_second", "letters"),
)
_WINDOW = 60  # number of mentions just before a mention, in its document, that it is paired with
_ALIKE = 40  # the same among the mentions of the document that share a word with it, for each word
_IN_MEMORY = 4_000_000  # numbers of a sparse matrix
_WITHIN = ("sentences", "mentions", "words_between", "place", "inside", "same_begin", "alike", "names")
MENTION_FEATURES = (
    *(f"{side}_{name}" for side in ("first", "second") for name in _EITHER),
    *_COMPARED,
    *("same_type", "same_class", "context", "documents"),
    *_WITHIN,
)
"""The columns of `mention_features`."""


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
    key = sorted_unique(first * n + second)
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


def mention_features(facts: Facts, first: Ids, second: Ids) -> Floats:
    """Return the features of pairs of mentions; (pairs, features).

    If both mentions of a pair are of one document, ``first`` must be the earlier one. Distances and places are NaN for
    mentions of different documents.
    """
    of, names = facts.columns, facts.names
    document = of["document"]
    columns: list[Any] = [of[name][side] for side in (first, second) for name in _EITHER]
    columns += compared(names, names, first, second)
    columns += [of[name][first] == of[name][second] for name in ("type", "class")]
    columns.append(products(facts.context, facts.context, first, second))
    columns.append(products(facts.documents, facts.documents, document[first], document[second]))
    apart = document[first] != document[second]
    columns += [np.where(apart, np.nan, column) for column in _within(facts, first, second)]
    return np.stack(columns, axis=1, dtype=np.float32, casting="unsafe")


def compared(firsts: Names, seconds: Names, first: Ids, second: Ids) -> list[Any]:
    """Compare row ``first[i]`` of ``firsts`` with row ``second[i]`` of ``seconds``; return the columns `_COMPARED`."""
    one, other = firsts.keys[first], seconds.keys[second]
    shared = products(firsts.content, seconds.content, first, second)
    n_first, n_second = firsts.n_words[first], seconds.n_words[second]
    return [
        one[:, 0] == other[:, 0],
        one[:, 1] == other[:, 1],
        ((one[:, 2] == other[:, 3]) & (one[:, 2] != "")) | ((one[:, 3] == other[:, 2]) & (other[:, 2] != "")),
        shared,
        shared / np.maximum(n_first + n_second - shared, 1),
        shared / np.maximum(n_first, 1),
        shared / np.maximum(n_second, 1),
        products(firsts.head, seconds.head, first, second),
        products(firsts.content, seconds.head, first, second),
        products(firsts.head, seconds.content, first, second),
        products(firsts.letters, seconds.letters, first, second),
    ]


def products(left: csr_matrix, right: csr_matrix, rows: Ids, others: Ids) -> Floats:
    """Return the inner product of row ``rows[i]`` of ``left`` and row ``others[i]`` of ``right``; (pairs,)."""
    key, which = np.unique(rows * right.shape[0] + others, return_inverse=True)
    rows, others = key // max(right.shape[0], 1), key % max(right.shape[0], 1)
    values = np.empty(len(rows), np.float32)
    step = _IN_MEMORY // max(int(np.diff(left.indptr).max(initial=1)), 1) + 1
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        values[part] = np.asarray(left[rows[part]].multiply(right[others[part]]).sum(axis=1)).ravel()
    return values[which]


def _within(facts: Facts, first: Ids, second: Ids) -> list[Any]:
    """Return the columns `_WITHIN`: where the two mentions of each pair are in their document."""
    of = facts.columns
    names = (of["head_capital"] > 0) & (of["pronoun"] == 0)
    return [
        of["sentence"][second] - of["sentence"][first],
        of["place"][second] - of["place"][first],
        np.clip(of["begin"][second] - of["end"][first], -20, 400),
        of["place"][first],
        of["end"][second] <= of["end"][first],
        of["begin"][first] == of["begin"][second],
        _between(facts, of["class"], of["class"][second], first, second),
        _between(facts, names.astype(np.int64), 1, first, second),
    ]


def _between(facts: Facts, group: Ids, counted: Ids | int, first: Ids, second: Ids) -> Ids:
    """Count the mentions between two whose group is the wanted one; (pairs,)."""
    rank = facts.columns["rank"]
    counts = np.zeros((len(rank) + 1, int(group.max(initial=1)) + 1), np.int64)
    counts[rank + 1, group] = 1
    counts = counts.cumsum(axis=0)
    return np.asarray(counts[rank[second], counted] - counts[rank[first] + 1, counted])


_OF_NAME = ("preferred", "name_words", "name_capital", "in_brackets")
ENTITY_FEATURES = (*_EITHER, *_COMPARED, *_OF_NAME, "definition_context", "definition_document", "similarity")
"""The columns of `entity_features`."""


def entity_features(facts: Facts, entities: EntityNames, mention: Ids, entity: Ids, similarity: Floats) -> Floats:
    """Return the features of pairs of a mention and an entity; (pairs, features).

    Of the names of the entity, the mention is compared with the most similar one. For each pair, ``mention`` is a row
    of ``facts``, ``entity`` a row of the knowledge base, and ``similarity`` that by the encoder.
    """
    row = np.searchsorted(entities.entities, entity)
    name = entities.most_alike(facts.names, mention, row)
    columns: list[Any] = [facts.columns[column][mention] for column in _EITHER]
    columns += compared(facts.names, entities.names, mention, name)
    columns += [entities.columns[column][name] for column in _OF_NAME]
    document = facts.columns["document"][mention]
    for matrix, at in ((facts.context, mention), (facts.documents, document)):
        about = products(matrix, entities.definitions, at, row)
        columns.append(np.where(entities.defined[row], about, np.nan))
    return np.stack([*columns, similarity], axis=1, dtype=np.float32, casting="unsafe")


class EntityNames(NamedTuple):
    """The names of some entities of a knowledge base."""

    entities: Ids
    """(entities,) rows of the knowledge base, ascending."""
    begin: Ids
    """(entities + 1,) the index in ``names`` of the first name of each entity, its preferred name."""
    names: Names
    columns: dict[str, Ids]
    """The columns `_OF_NAME`, with a value for each name."""
    definitions: csr_matrix
    """(entities, hashes): the words of each definition, see `hashed_words`."""
    defined: Bools
    """(entities,) whether the entity has a definition."""

    @classmethod
    def of(cls, kb: KnowledgeBase, entities: Ids) -> EntityNames:
        """Collect the names of entities, given by their distinct rows in ascending order."""
        chosen = [kb.entities[row] for row in entities]
        texts = [list(dict.fromkeys((entity.name, *entity.aliases))) for entity in chosen]
        begin = np.cumsum([0, *map(len, texts)])
        flat = [text for some in texts for text in some]
        first = np.isin(np.arange(len(flat)), begin[:-1])
        columns = {
            "preferred": first.astype(np.int64),
            "name_words": np.array([len(text.split()) for text in flat], np.int64),
            "name_capital": np.array([text[:1].isupper() for text in flat], np.int64),
            "in_brackets": np.array(["(" in text for text in flat], np.int64),
        }
        definitions = [entity.definition or "" for entity in chosen]
        defined = np.array([bool(text) for text in definitions], np.bool_)
        return cls(entities, begin, Names.of(flat), columns, hashed_words(definitions), defined)

    def most_alike(self, mentions: Names, mention: Ids, row: Ids) -> Ids:
        """Return the index in ``names`` of the entity's name whose letters are most similar to the mention's; (pairs,).

        Of equally similar names, the first one is returned. Pair ``i`` is row ``mention[i]`` of ``mentions``, and the
        entity at index ``row[i]`` in ``entities``.
        """
        count = np.diff(self.begin)[row]
        name = ranges(self.begin[row], count)
        pair = np.repeat(np.arange(len(row)), count)
        alike = products(mentions.letters, self.names.letters, mention[pair], name)
        order = np.lexsort((name, -alike, pair))
        return np.asarray(name[order[np.cumsum(count) - count]])

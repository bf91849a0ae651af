"""Domains: independent parts of the data, such as wikis or hospitals, each with its own entities.

A mention has the domain of its document; an entity has its own. Neighbours are searched within a domain, so that no
edge of the graph and no cluster joins two domains. Mentions and entities without a domain belong to the domain None.
The order of equally near neighbours does not depend on other domains.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from arbo.engine import Embeddings, Metric, Neighbors, Progress, Searchable, SearchMethod, measured_recall, nearest
from arbo.errors import UsageError
from arbo.retrieval.gpu import best_scanner

Rows = npt.NDArray[np.int32]


class Part(NamedTuple):
    """Ascending rows, in one domain, of mentions (``queries``) and of the mentions or entities to compare them with."""

    queries: Rows
    things: Rows


def mention_parts(mentions: Sequence[Hashable]) -> list[Part]:
    """Return a part for each domain, in which its mentions are compared with each other.

    >>> [part.things.tolist() for part in mention_parts(["lego", "yugioh", "lego"])]
    [[0, 2], [1]]
    """
    return [Part(rows, rows) for rows in _rows(mentions, mentions)]


def entity_parts(mentions: Sequence[Hashable], entities: Sequence[Hashable]) -> list[Part]:
    """Return a part for each domain of the mentions: these mentions, and the entities (perhaps none) of the domain.

    Raise UsageError if no mention has an entity in its domain, for example if only the documents have domains.

    >>> parts = entity_parts(["lego", "yugioh", "lego"], ["muppets", "lego", "lego"])
    >>> [(part.queries.tolist(), part.things.tolist()) for part in parts]
    [([0, 2], [1, 2]), ([1], [])]
    """
    parts = [Part(*rows) for rows in zip(_rows(mentions, mentions), _rows(mentions, entities), strict=True)]
    if len(mentions) and len(entities) and not any(len(part.things) for part in parts):
        raise UsageError(
            f"no entity is in a domain of the documents: the documents have {_named(mentions)}, the knowledge base "
            f"{_named(entities)}; mentions are compared only with entities of their own domain, so use the same "
            "domains in both, or leave them out"
        )
    return parts


def nearest_within(
    parts: Sequence[Part],
    queries: Embeddings,
    things: Searchable,
    k: int,
    *,
    metric: Metric,
    search: SearchMethod,
    progress: Progress,
) -> Neighbors:
    """Find the ``k`` things nearest to each query within its part; see `clustering.comparison.nearest`.

    If things and queries are the same object, a query is not its own neighbour. Lists of fewer than ``k`` are padded
    with -1 and infinity.
    """
    scanner = best_scanner()

    def search_part(part: Part) -> Neighbors:
        some, others, own = _inside(part, queries, things)
        return nearest(some, others, k, metric=metric, search=search, scanner=scanner, self_ids=own, progress=progress)

    if len(parts) == 1 and len(parts[0].things) == things.n:
        return search_part(parts[0])
    found = Neighbors(np.full((queries.n, k), -1, np.int32), np.full((queries.n, k), np.inf, np.float32))
    for part in parts:
        if len(part.things):
            ids, found.dissimilarity[part.queries] = search_part(part)
            found.ids[part.queries] = np.where(ids >= 0, part.things[ids], -1)
    return found


def recall_within(
    parts: Sequence[Part], found: Neighbors, queries: Embeddings, things: Searchable, *, metric: Metric
) -> float:
    """Return the share of exact neighbours that `nearest_within` found, measured on a sample of each part.

    The shares of the parts are weighted by their numbers of neighbours; without neighbours the result is 1.
    """
    n_there, n_right = 0, 0.0
    for part in parts:
        lists = Neighbors(found.ids[part.queries], found.dissimilarity[part.queries])
        if n_neighbors := int((lists.ids >= 0).sum()):
            some, others, own = _inside(part, queries, things)
            n_right += n_neighbors * measured_recall(lists, some, others, metric=metric, self_ids=own)
            n_there += n_neighbors
    return n_right / n_there if n_there else 1.0


def _rows(domains: Sequence[Hashable], of: Sequence[Hashable]) -> list[Rows]:
    """Return the rows of ``of`` in each distinct domain of ``domains``, in order of first appearance."""
    number = {domain: place for place, domain in enumerate(dict.fromkeys(domains))}
    label = np.fromiter((number.get(domain, len(number)) for domain in of), np.int32, len(of))
    order = np.argsort(label, kind="stable").astype(np.int32)
    bounds = np.searchsorted(label[order], np.arange(len(number) + 1))
    return [order[begin:end] for begin, end in pairwise(bounds)]


def _inside(part: Part, queries: Embeddings, things: Searchable) -> tuple[Embeddings, Searchable, Rows | None]:
    """Return the queries and things of a part, and the index of each query among the things if it is one of them."""
    some = queries.taken(part.queries)
    if things is queries:
        return some, some, np.arange(len(some), dtype=np.int32)
    return some, things.taken(part.things), None


def _named(domains: Sequence[Hashable], most: int = 3) -> str:
    distinct = list(dict.fromkeys(domains))
    shown = ["none" if domain is None else f"{domain!r:.60}" for domain in distinct[:most]]
    return ", ".join(shown) + (f" and {len(distinct) - most:,} more" if len(distinct) > most else "")

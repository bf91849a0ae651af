"""Domains: independent parts of the data, such as wikis or hospitals, each with its own entities.

A mention has the domain of its document; an entity has its own. Neighbours are searched within a domain, so that no
edge of the graph and no cluster joins two domains. Mentions and entities without a domain belong to the domain None.
The order of equally near neighbours does not depend on other domains.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from arbo import engine
from arbo.engine import Embeddings, Metric, Neighbors, Progress, Searchable, SearchMethod
from arbo.errors import UsageError, listed
from arbo.retrieval.gpu import best_scanner

Rows = npt.NDArray[np.int32]

_SMALL = 128
"""In parts of at most so many mentions, such as documents, all pairs are compared: that is faster than a search."""
_TOGETHER = 100  # number of such parts whose pairs are in memory


class Part(NamedTuple):
    """Ascending rows, in one domain, of mentions (``queries``) and of the mentions or entities to compare them with."""

    queries: Rows
    things: Rows
    domain: Hashable


@dataclass(frozen=True, eq=False, slots=True)
class Divided:
    """Entities by domain; the entities of a domain are selected when a search first needs them, and kept."""

    whole: Searchable
    rows: Mapping[Hashable, Rows]
    """The ascending rows of each domain."""
    _taken: dict[Hashable, Searchable] = field(default_factory=dict, repr=False)

    def within(self, domain: Hashable) -> Searchable:
        """Return the entities of a domain."""
        if len(self.rows[domain]) == self.whole.n:
            return self.whole
        if domain not in self._taken:
            self._taken[domain] = self.whole.taken(self.rows[domain])
        return self._taken[domain]


class Wanted(NamedTuple):
    """A search: queries, things, and the id of each query among the things, or None if they are not among them."""

    queries: Embeddings
    things: Searchable
    self_ids: Rows | None


class How(TypedDict):
    """The options of a search, for functions that pass them on; see `clustering.comparison.nearest`."""

    metric: Metric
    search: SearchMethod
    progress: Progress
    within: NotRequired[float | None]


def search_all(wanted: Iterable[Wanted], k: int, **how: Unpack[How]) -> Iterator[Neighbors]:
    """Search in this process, one after the other, and yield the lists."""
    for queries, things, own in wanted:
        yield engine.nearest(queries, things, k, self_ids=own, scanner=best_scanner(), **how)


SearchAll: TypeAlias = Callable[..., Iterable[Neighbors]]
"""A function like `search_all`, which may search elsewhere, such as `arbo.scale.work.Work.search_all`."""


def mention_parts(mentions: Sequence[Hashable]) -> list[Part]:
    """Return a part for each domain, in which its mentions are compared with each other.

    >>> [part.things.tolist() for part in mention_parts(["lego", "yugioh", "lego"])]
    [[0, 2], [1]]
    """
    return [Part(rows, rows, domain) for domain, rows in rows_by(mentions).items()]


def entity_parts(mentions: Sequence[Hashable], entities: Mapping[Hashable, Rows]) -> list[Part]:
    """Return a part for each domain of the mentions: these mentions, and the entities (perhaps none) of the domain.

    ``entities`` are the rows of the entities of each domain, see `rows_by`. Raise UsageError if no mention has an
    entity in its domain, for example if only the documents have domains.

    >>> parts = entity_parts(["lego", "yugioh", "lego"], rows_by(["muppets", "lego", "lego"]))
    >>> [(part.queries.tolist(), part.things.tolist()) for part in parts]
    [([0, 2], [1, 2]), ([1], [])]
    """
    none = np.empty(0, np.int32)
    parts = [Part(rows, entities.get(domain, none), domain) for domain, rows in rows_by(mentions).items()]
    if len(mentions) and len(entities) and {*map(_domain_of, mentions)}.isdisjoint(map(_domain_of, entities)):
        raise UsageError(
            f"no entity is in a domain of the documents: the documents have {_named(mentions)}, the knowledge base "
            f"{_named(entities)}; mentions are compared only with entities of their own domain, so use the same "
            "domains in both, or leave them out"
        )
    return parts


def nearest_within(
    parts: Sequence[Part],
    queries: Embeddings,
    things: Embeddings | Divided,
    k: int,
    search_all: SearchAll = search_all,
    **how: Unpack[How],
) -> Neighbors:
    """Find the ``k`` things nearest to each query within its part; ``search_all`` makes the searches.

    The things are entities, or the queries themselves; then a query is not its own neighbour. Things more dissimilar
    than ``within`` are left out. Lists of fewer than ``k`` are padded with -1 and infinity.
    """
    n = things.whole.n if isinstance(things, Divided) else things.n
    if len(parts) == 1 and len(parts[0].things) == n:
        (whole,) = search_all([_inside(parts[0], queries, things)], k, **how)
        return whole
    found = Neighbors.empty(queries.n, k)
    within = np.inf if (limit := how.get("within")) is None else limit
    most = _SMALL if how["search"] == "exact" and not isinstance(things, Divided) else 0
    small = [part for part in parts if len(part.things) <= most]
    for begin in range(0, len(small), _TOGETHER) if most else ():
        _compare_all(small[begin : begin + _TOGETHER], queries, found, how["metric"], within)
    large = [part for part in parts if len(part.things) > most]
    lists = search_all((_inside(part, queries, things) for part in large), k, **how)
    for part, (ids, found.dissimilarity[part.queries]) in zip(large, lists, strict=True):
        found.ids[part.queries] = np.where(ids >= 0, part.things[ids], -1)
    return found


def _compare_all(parts: Sequence[Part], queries: Embeddings, found: Neighbors, metric: Metric, within: float) -> None:
    """Write the lists of the mentions of small parts, as `nearest` finds them, by comparing all pairs in each part."""
    query = np.concatenate([np.repeat(part.queries, len(part.queries)) for part in parts])
    thing = np.concatenate([np.tile(part.queries, len(part.queries)) for part in parts])
    query, thing = query[query != thing], thing[query != thing]
    dissimilarity = engine.pair_dissimilarity(queries, queries, query, thing, metric=metric)
    near = dissimilarity <= np.float32(within)
    query, thing, dissimilarity = query[near], thing[near], dissimilarity[near]
    order = np.lexsort((thing, dissimilarity, query))
    query = query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    order, query, place = (values[place < found.ids.shape[1]] for values in (order, query, place))
    found.ids[query, place], found.dissimilarity[query, place] = thing[order], dissimilarity[order]


def recall_within(
    parts: Sequence[Part], found: Neighbors, queries: Embeddings, things: Embeddings | Divided, *, metric: Metric
) -> float:
    """Return the share of exact neighbours that `nearest_within` found, measured on a sample of each part.

    The shares of the parts are weighted by their numbers of neighbours; without neighbours the result is 1.
    """
    n_there, n_right = 0, 0.0
    for part in parts:
        lists = Neighbors(found.ids[part.queries], found.dissimilarity[part.queries])
        if n_neighbors := int((lists.ids >= 0).sum()):
            some, others, own = _inside(part, queries, things)
            n_right += n_neighbors * engine.measured_recall(lists, some, others, metric=metric, self_ids=own)
            n_there += n_neighbors
    return n_right / n_there if n_there else 1.0


def rows_by(values: Iterable[Hashable]) -> dict[Hashable, Rows]:
    """Return the ascending rows of each distinct value, in order of first appearance.

    >>> {value: rows.tolist() for value, rows in rows_by(["lego", "yugioh", "lego"]).items()}
    {'lego': [0, 2], 'yugioh': [1]}
    """
    given = list(values)
    number = {value: place for place, value in enumerate(dict.fromkeys(given))}
    label = np.fromiter(map(number.__getitem__, given), np.int32, len(given))
    order = np.argsort(label, kind="stable").astype(np.int32)
    bounds = np.cumsum([0, *np.bincount(label, minlength=len(number)).tolist()])
    return {value: order[begin:end] for value, (begin, end) in zip(number, pairwise(bounds), strict=True)}


def _inside(part: Part, queries: Embeddings, things: Embeddings | Divided) -> Wanted:
    """Return the search of the queries of a part among its things."""
    some = queries.taken(part.queries)
    if isinstance(things, Divided):
        return Wanted(some, things.within(part.domain), None)
    return Wanted(some, some, np.arange(len(some), dtype=np.int32))


def _domain_of(world: Hashable) -> Hashable:
    return world[0] if isinstance(world, tuple) else world  # with mapped types, a domain and a group of types


def _named(worlds: Iterable[Hashable]) -> str:
    distinct = dict.fromkeys(map(_domain_of, worlds))
    return listed(("none" if domain is None else f"{domain!r:.60}" for domain in distinct), 3)

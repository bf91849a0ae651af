"""Groups: the mentions and entities that are compared with each other, by domain, mapped type and document.

A mention has the domain of its document, such as a wiki or a hospital; an entity has its own, or None. Types of
mentions can be mapped to types of entities (`LinkerConfig.map_types`). The group of a mention is then its domain and
its kind: types that the map joins, directly or through other types, form a kind, and all other types form a further
one. An entity with types of several kinds belongs to that of its first mapped type.

Neighbours are searched within a group, so that no edge of the graph and no cluster joins two groups. The order of
equally near neighbours does not depend on other groups.
"""

import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo import engine
from arbo.data import Inputs, KnowledgeBase, coded, codes_of, names_in, numbers
from arbo.data.columns import cells_of, columns_named
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import Entities, encoded
from arbo.encoders.ngrams import NamedEntities
from arbo.engine import Floats, Ids, Metric, Neighbors, Progress, Scanner, Searchable, Vectors, offer
from arbo.errors import UsageError, listed
from arbo.progress import Announce, quiet

_SMALL = 128  # in groups of at most so many mentions, such as documents, comparing all pairs is faster than a search
_TOGETHER = 100  # number of such groups whose pairs are in memory


class Group(NamedTuple):
    """Ascending rows of the mentions of a group (``queries``), and of the mentions or entities to compare them with."""

    queries: Ids
    things: Ids
    key: Hashable


@dataclass(frozen=True, eq=False, slots=True)
class GroupedEntities:
    """Entities by group; the entities of a group are selected when a search first needs them, and kept."""

    entities: Searchable | NamedEntities
    rows: Mapping[Hashable, Ids]  # the ascending rows of each group
    _taken: dict[Hashable, Searchable] = field(default_factory=dict, repr=False)

    @property
    def whole(self) -> Searchable:
        """All entities."""
        return self.entities.whole if isinstance(self.entities, NamedEntities) else self.entities

    def within(self, key: Hashable, queries: Vectors, k: int) -> Searchable:
        """Return the entities of a group, or all of them that may be among the ``k`` nearest of some queries."""
        if len(self.rows[key]) == self.entities.n:
            near = self.entities.near(queries, k) if isinstance(self.entities, NamedEntities) else None
            return near or self.whole
        if key not in self._taken:
            self._taken[key] = self.whole.taken(self.rows[key])
        return self._taken[key]


class Search(NamedTuple):
    """A search: queries, things, and the id of each query among the things, or None if they are not among them."""

    queries: Vectors
    things: Searchable
    self_ids: Ids | None


def best_scanner() -> Scanner:
    """Return a scanner by torch if it is loaded and has a GPU, or a processor that multiplies bytes; else by faiss."""
    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    if torch is None or not (has_gpu or getattr(torch.cpu, "_is_vnni_supported", bool)()):
        return engine.faiss_scanner
    from arbo.retrieval.gpu import byte_scanner, torch_scanner

    return torch_scanner("cuda") if has_gpu else byte_scanner


def search_all(searches: Iterable[Search], k: int, **options: Any) -> Iterator[Neighbors]:
    """Search in this process, one by one, and yield the lists; for options see `clustering.knn.nearest`."""
    for queries, things, self_ids in searches:
        yield engine.nearest(queries, things, k, self_ids=self_ids, scanner=best_scanner(), **options)


SearchAll: TypeAlias = Callable[..., Iterable[Neighbors]]  # a function like `search_all`, which may search elsewhere


def groups_of_mentions(inputs: Inputs, map_types: str | None, *, check: bool = True) -> Sequence[Hashable]:
    """Return the group of each mention: its domain and, with ``map_types``, its kind; a blank name has its own group.

    Raise UsageError if ``map_types`` is malformed or, with ``check``, if no mention has a mapped type.
    """
    domains = inputs.column("domain")
    groups: list[Hashable] = domains
    if map_types is not None:
        pairs, types = type_pairs(map_types), inputs.column("type")
        kinds = [*map(_kinds(pairs).get, (("mention", type_ or "") for type_ in types))]
        if check and set(kinds) == {None}:
            raise _unknown("mention", (one for one, _ in pairs), types)
        groups = list(zip(domains, kinds, strict=True))
    for row in np.flatnonzero(inputs.corpus.tables.is_blank[inputs.rows]).tolist():
        groups[row] = (domains[row], object())  # unlike all others, in this search and in any other
    return groups


def rows_of_entities(kb: KnowledgeBase, map_types: str | None) -> dict[Hashable, Ids]:
    """Return the ascending rows of the entities of each group.

    Raise UsageError if no entity has a type to which one is mapped, or if ``map_types`` is malformed.
    """
    if map_types is None:
        if kb.table["domain"].null_count == len(kb):
            return {None: np.arange(len(kb), dtype=np.int32)} if len(kb) else {}
        return rows_by(domain for (domain,) in kb.columns("domain"))
    pairs = type_pairs(map_types)
    kind_of = _kinds(pairs)
    rows = rows_by(
        (domain, next((kind_of["entity", type_] for type_ in types if ("entity", type_) in kind_of), None))
        for domain, types in kb.columns("domain", "types")
    )
    kinds = {group[1] for group in rows if isinstance(group, tuple)}
    if missing := [other for _, other in pairs if kind_of["entity", other] not in kinds]:
        raise _unknown("entity", missing, (type_ for (types,) in kb.columns("types") for type_ in types))
    return rows


@dataclass(eq=False, slots=True)
class EncodedKb:
    """The entities of a knowledge base, which are encoded when they are first needed, by an encoder fitted to them."""

    kb: KnowledgeBase
    encoder: Encoder  # the encoder before it is fitted
    announce: Announce = quiet
    _encoded: tuple[Encoder, Entities] | None = None
    _grouped: dict[str | None, GroupedEntities] = field(default_factory=dict)

    @property
    def fitted(self) -> Encoder:
        """The encoder, fitted."""
        return self._made()[0]

    def by_group(self, map_types: str | None) -> GroupedEntities:
        """Return the entities of each group, see `rows_of_entities`."""
        if map_types not in self._grouped:
            self._grouped[map_types] = GroupedEntities(self._made()[1], rows_of_entities(self.kb, map_types))
        return self._grouped[map_types]

    def in_one_group(self) -> "EncodedKb":
        """Return the same entities in one group, that of mentions without a domain; they are encoded now."""
        whole = self.by_group(None).whole
        one = GroupedEntities(whole, {None: np.arange(whole.n, dtype=np.int32)})
        return EncodedKb(self.kb, self.encoder, self.announce, self._encoded, {None: one})

    def _made(self) -> tuple[Encoder, Entities]:
        if self._encoded is None:
            self._encoded = encoded(self.kb, self.encoder, self.announce)
        return self._encoded


def unmapped(inputs: Inputs, map_types: str | None) -> str | None:
    """Describe the mentions without a mapped type, if there are some."""
    if map_types is None:
        return None
    mapped = {one for one, _ in type_pairs(map_types)}
    if not (others := [type_ or "" for type_ in inputs.column("type") if type_ not in mapped]):
        return None
    shown = listed((type_ or "empty" for type_ in sorted(set(others))), 5)
    effect = "they are compared only with each other and with entities without a mapped type"
    return f"{len(others):,} of {len(inputs):,} mentions have no mapped type ({shown}): {effect}"


def type_pairs(map_types: str) -> list[tuple[str, str]]:
    """Return the pairs of a mention type and an entity type; raise UsageError if the text is malformed.

    >>> type_pairs("Chemical=drug, Disease=disease")
    [('Chemical', 'drug'), ('Disease', 'disease')]
    >>> type_pairs("T103=Element, Ion, or Isotope,T038=Mental Process")
    [('T103', 'Element, Ion, or Isotope'), ('T038', 'Mental Process')]
    """
    pairs = [[type_.strip() for type_ in pair.split("=")] for pair in re.split(",(?=[^,]*=|$)", map_types)]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        form = "'Chemical=drug,Disease=disease' (type of mentions=type of entities)"
        raise UsageError(f"map_types must be like {form}, not {map_types!r:.80}")
    return [(one, other) for one, other in pairs]


def among_mentions(groups: Sequence[Hashable], first: Ids | None = None) -> list[Group]:
    """Return the groups of two and more mentions, to compare the mentions of each group with each other.

    With ``first``, (mentions,), see `first_alike`, mentions that are one with an earlier one are left out.

    >>> [group.things.tolist() for group in among_mentions(["lego", "yugioh", "lego"])]
    [[0, 2]]
    """
    rows_of = rows_by(groups)
    if first is not None:
        rows_of = {key: rows[first[rows] == rows] for key, rows in rows_of.items()}
    return [Group(rows, rows, key) for key, rows in rows_of.items() if len(rows) > 1]


def first_alike(
    inputs: Inputs, groups: Sequence[Hashable], apart: Collection[str], evidence: str | None, earlier: Any = None
) -> Ids:
    """Return the first mention with the same name, type, group and evidence, but for sources and sets; (mentions,).

    It is the mention itself if its name is blank, which is its own group, or its id is in ``apart``; for ``evidence``
    see `LinkerConfig`. An `EarlierSearch` without corrections, of which nothing is gone, knows that of names not new.
    """
    place = np.arange(len(inputs))
    if earlier is not None and 0 < len(old := np.flatnonzero(earlier.row >= 0)) == len(earlier.mentions.ids):
        ids, dissimilarity = earlier.mentions.of_width(1).of(earlier.row)
        first, names = np.where(dissimilarity[:, 0] == engine.SAME, old[ids[:, 0]], place), inputs.names_at(place)
        some = np.flatnonzero(pc.is_in(names, names.take(numbers(np.flatnonzero(earlier.row < 0)))))
        first[some] = some[first_alike(inputs.taken(some), [groups[row] for row in some.tolist()], apart, evidence)]
        return first
    if evidence is not None:
        cells = cells_of(inputs, named := columns_named(evidence), check=False)
        groups = list(zip(groups, *(cells[name] for name, kind in named if kind not in ("source", "set")), strict=True))
    group = codes_of(groups)
    columns = ["mention_id", "text", "expansion", "type"]
    mentions = inputs.corpus.tables.mentions.select(columns).take(numbers(inputs.rows))
    names = names_in(mentions)
    name, type_ = (coded(pc.fill_null(column, ""))[0] for column in (names, mentions["type"]))
    key = (name * (type_.max(initial=0) + 1) + type_) * (group.max(initial=0) + 1) + group
    is_apart = np.asarray(pc.is_in(mentions["mention_id"], pa.array(sorted(apart), pa.string())))
    _, first, which = np.unique(np.where(is_apart, -1 - place, key), return_index=True, return_inverse=True)
    return np.asarray(first[which], np.int64)


def with_entities(groups: Sequence[Hashable], entities: Mapping[Hashable, Ids]) -> list[Group]:
    """Return the groups of mentions that have entities, to compare them with the entities of the same group.

    ``entities`` are the rows of the entities of each group, see `rows_by`. Raise UsageError if no mention has an entity
    in its domain, for example if only the documents have domains.

    >>> groups = with_entities(["lego", "yugioh", "lego"], rows_by(["muppets", "lego", "lego"]))
    >>> [(group.queries.tolist(), group.things.tolist()) for group in groups]
    [([0, 2], [1, 2])]
    """
    if len(groups) and len(entities) and {*map(_domain_of, groups)}.isdisjoint(map(_domain_of, entities)):
        known = f"the documents have {_domains(groups)}, the knowledge base {_domains(entities)}"
        rule = "mentions are compared only with entities of their own domain"
        advice = f"{rule}, so use the same domains in both, or leave them out"
        raise UsageError(f"no entity is in a domain of the documents: {known}; {advice}")
    return [Group(rows, entities[key], key) for key, rows in rows_by(groups).items() if key in entities]


def nearest_within(
    groups: Sequence[Group],
    queries: Vectors,
    things: Vectors | GroupedEntities,
    k: int,
    search_all: SearchAll = search_all,
    *,
    metric: Metric,
    progress: Progress,
    within: float | None = None,
) -> Neighbors:
    """Find the ``k`` things nearest to each query within its group; ``search_all`` makes the searches.

    The things are entities, or the queries themselves; then a query is not its own neighbour. Things more dissimilar
    than ``within`` are left out. Lists of fewer than ``k`` are padded with -1 and infinity.
    """
    n = things.entities.n if isinstance(things, GroupedEntities) else things.n
    options: Any = {"metric": metric, "progress": progress, "within": within}
    if len(groups) == 1 and (len(groups[0].queries), len(groups[0].things)) == (queries.n, n):
        (lists,) = search_all([_search(groups[0], queries, things, k)], k, **options)
        return lists
    lists = Neighbors.empty(queries.n, k)
    most = 0 if isinstance(things, GroupedEntities) else _SMALL
    small = [group for group in groups if len(group.things) <= most]
    for begin in range(0, len(small), _TOGETHER) if most and k else ():
        _compare_all(small[begin : begin + _TOGETHER], queries, lists, metric, np.inf if within is None else within)
    large = [group for group in groups if len(group.things) > most]
    results = search_all((_search(group, queries, things, k) for group in large), k, **options)
    for group, (ids, lists.dissimilarity[group.queries]) in zip(large, results, strict=True):
        lists.ids[group.queries] = np.where(ids >= 0, group.things[ids], -1)
    return lists


def _compare_all(groups: Sequence[Group], queries: Vectors, lists: Neighbors, metric: Metric, within: float) -> None:
    """Write the lists of the mentions of small groups, as `nearest` finds them, by comparing all pairs in each."""
    query = np.concatenate([np.repeat(group.queries, len(group.queries)) for group in groups])
    thing = np.concatenate([np.tile(group.queries, len(group.queries)) for group in groups])
    query, thing = query[query != thing], thing[query != thing]
    dissimilarity = engine.pair_dissimilarity(queries, queries, query, thing, metric=metric)
    near = dissimilarity <= np.float32(within)
    fill(lists, query[near], thing[near], dissimilarity[near])


@engine.kernel
def fill(lists: Neighbors, query: Ids, thing: Ids, dissimilarity: Floats) -> None:
    """Offer distinct pairs to the lists of their queries, which have at least one place; see `clustering.search`."""
    for i in range(len(query)):
        offer(lists.ids[query[i]], lists.dissimilarity[query[i]], thing[i], dissimilarity[i], False)


def rows_by(values: Iterable[Hashable]) -> dict[Hashable, Ids]:
    """Return the ascending rows of each distinct value, in order of first appearance.

    >>> {value: rows.tolist() for value, rows in rows_by(["lego", "yugioh", "lego"]).items()}
    {'lego': [0, 2], 'yugioh': [1]}
    """
    items = list(values)
    code = codes_of(items)
    order, bounds = np.argsort(code, kind="stable").astype(np.int32), np.cumsum([0, *np.bincount(code).tolist()])
    return {value: order[begin:end] for value, (begin, end) in zip(dict.fromkeys(items), pairwise(bounds), strict=True)}


def _search(group: Group, queries: Vectors, things: Vectors | GroupedEntities, k: int) -> Search:
    """Return the search of the queries of a group for their ``k`` nearest among its things."""
    some = queries.taken(group.queries)
    if isinstance(things, GroupedEntities):
        return Search(some, things.within(group.key, some, k), None)
    return Search(some, some, np.arange(len(some), dtype=np.int32))


def _domain_of(group: Hashable) -> Hashable:
    return group[0] if isinstance(group, tuple) else group


def _domains(groups: Iterable[Hashable]) -> str:
    distinct = dict.fromkeys(map(_domain_of, groups))
    return listed(("none" if domain is None else f"{domain!r:.60}" for domain in distinct), 3)


def _kinds(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the code of the kind of each type; a type is (``mention`` or ``entity``, name)."""
    kind_of: dict[tuple[str, str], int] = {}
    for number, (one, other) in enumerate(pairs):
        pair = [("mention", one), ("entity", other)]
        joined = {kind_of[type_] for type_ in pair if type_ in kind_of}
        kind_of |= dict.fromkeys([*pair, *(type_ for type_, kind in kind_of.items() if kind in joined)], number)
    return kind_of


def _unknown(side: str, mapped: Iterable[str], types: Iterable[str | None]) -> UsageError:
    known = sorted({type_ for type_ in types if type_ is not None})
    mapped = " or ".join(dict.fromkeys(mapped))
    return UsageError(f"map_types: no {side} has the type {mapped}; {side} types found: {listed(known, 12) or 'none'}")

"""From mentions to the graph: encode, search neighbours, and keep the data for explanations."""

import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from scipy.sparse import issparse

from arbo import engine
from arbo.data import Inputs, KnowledgeBase
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Bools, Decisions, Floats, Graph, Ids, Metric, Neighbors, Searchable, Vectors, Weights
from arbo.progress import Announce
from arbo.retrieval import groups
from arbo.retrieval.groups import Group, GroupedEntities, Search, SearchAll, nearest_within
from arbo.text.names import normalize_name, without_marks

_LISTS = "mentions", "mention_dissimilarity", "entities", "entity_dissimilarity"
FROZEN = "encoder."  # what the names of the arrays of a fitted encoder begin with


class PairScores(NamedTuple):
    """(pairs, 2) mentions with rows of entities, or two mentions, and (pairs,) their scores."""

    pairs: Ids
    scores: Any


class Mentions(NamedTuple):
    """Mentions in the order of a search, mostly `Corpus.order`, and how to encode them."""

    encoder: Encoder  # the encoder, fitted
    inputs: Inputs
    encode: Callable[[], Vectors]  # returns their vectors, always the same
    earlier: "EarlierSearch | None" = None  # an earlier search, with which that of their neighbours begins
    known: PairScores | None = None  # known scores of a reranker, see `arbo.retrieval.reranking`

    @classmethod
    def of(cls, inputs: Inputs, order: Ids, encoder: Encoder, announce: Announce) -> Self:
        """Take the mentions of a corpus in an order; the encoder encodes them in the order of ``inputs``."""
        return cls(encoder, inputs.taken(order), cache(lambda: encoder.encode_mentions(inputs, announce).taken(order)))

    def arrays(self, unfitted: Encoder) -> dict[str, npt.NDArray[Any]]:
        """Return the vectors or, of n-grams, the fitted state, for a later search; {} if neither can be kept."""
        if isinstance(self.encoder, NgramEncoder) and self.encoder.frequencies is not None:
            return {f"{FROZEN}{name}": array for name, array in self.encoder.frequencies.arrays().items()}
        vectors = self.encode()
        if self.encoder is not unfitted or issparse(vectors.matrix):
            return {}
        used, row = np.unique(vectors.row, return_inverse=True)  # without the vectors of removed mentions
        matrix = vectors.matrix if len(used) == len(vectors.matrix) else vectors.matrix[used]
        return {"vectors": matrix, "vector_row": row.astype(np.int32)}


class SearchSettings(NamedTuple):
    """The numbers of neighbours to search for, and where."""

    kb: KnowledgeBase | None
    entities: GroupedEntities | None  # the encoded entities of the knowledge base; None without one
    groups: Sequence[Hashable]  # (mentions,) the group of each mention, see `arbo.retrieval.groups`
    k: int  # number of nearest other mentions per mention
    candidates: int  # number of nearest entities per mention
    within: float | None = None  # largest dissimilarity of mentions to list; None for no limit
    per_document: bool = False  # whether mentions are compared only with mentions of their own document
    first: Ids | None = None
    """(mentions,) the first mention of the same name, see `arbo.retrieval.groups.first_alike`; only these are compared,
    and all others have one neighbour, this one, at `clustering.average.SAME`. None compares all mentions."""


class Reasons(NamedTuple):
    """The features that counted most for the weights of edges, largest first."""

    features: npt.NDArray[np.object_]
    """(edges, most) names of features; NaN for an edge that the edge model did not weigh."""
    log_odds: Floats  # (edges, most) the share of each feature in the log-odds of the edge

    @classmethod
    def of(cls, features: npt.NDArray[np.object_], shares: Weights, most: int | None = None) -> Self:
        """Take the largest shares in log-odds, (edges, features) both."""
        order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :most]
        largest = np.take_along_axis(shares, order, axis=1).astype(np.float32)
        return cls(np.take_along_axis(features, order, axis=1), largest)


@dataclass(frozen=True, eq=False, slots=True)
class Retrieval:
    """The nearest entities and mentions of each mention, and all that later steps need."""

    inputs: Inputs
    groups: Sequence[Hashable]  # (mentions,) the group of each mention, see `arbo.retrieval.groups`
    n_entities: int
    entities: Neighbors  # (mentions, candidates) rows of the knowledge base, and their dissimilarities, nearest first
    mentions: Neighbors  # (mentions, k) other mentions, and their dissimilarities, nearest first
    distance: Callable[[Ids, Ids], Floats]
    """Returns the dissimilarity of pairs of mentions and entities that are not neighbours."""
    offset: float
    """The similarity is this value minus the dissimilarity: 1 for cosines and probabilities, 0 for inner products."""
    threshold: tuple[float, float]  # default thresholds on entity edges and on mention edges
    settings: dict[str, Any]  # the values that identify encoder and reranker in a manifest
    within: float | None = None
    """Beyond this dissimilarity, ``mentions`` lists nothing, so that larger thresholds need another search; None if it
    is complete."""
    limit: Weights | None = None
    """(mentions,) the largest dissimilarity of an entity to each mention; None if all have the same threshold."""
    by_spelling: Bools | None = None  # (mentions,) whether spelling chose between equally near entities
    reasons: Callable[[Ids, Ids], Reasons] | None = None
    """Returns the reasons for edges from nodes of the graph to mentions; None without an edge model."""
    as_before: Ids | None = None
    """(mentions,) the row in an earlier run of each mention that has the neighbours of then; -1 for others."""
    links: Callable[[Ids, list[str]], Any] | None = None  # columns in rows of `as_before`; None if reasons may change
    alike: Callable[[Ids, Ids], Floats] | None = None  # the similarity of pairs of mentions; None by n-grams
    kept: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Arrays that an edge model or a reranker needs again when the run grows."""

    def graph(self, k: int, decisions: Decisions | None = None, more: int = 0) -> Graph:
        """Build the graph, with edges into each mention from its ``k`` nearest mentions and its nearest entity.

        ``more`` roots for decisions follow the entities. A mention with an entity ruled out has edges from all its
        candidates.
        """
        entities = self.entities.first(1)
        if decisions is not None and len(decisions.wrong):
            has_all = np.zeros((len(self.inputs), 1), np.bool_)
            has_all[decisions.wrong_ones()[:, 0]] = True
            is_first = np.arange(self.entities.ids.shape[1]) == 0
            entities = self.entities._replace(ids=np.where(has_all | is_first, self.entities.ids, np.int32(-1)))
        if self.limit is not None:
            is_near = entities.dissimilarity <= self.limit.astype(np.float32)[:, None]
            entities = entities._replace(ids=np.where(is_near, entities.ids, np.int32(-1)))
        return Graph.from_neighbors(self.mentions.first(k), entities, n_entities=self.n_entities + more)

    @property
    def lists(self) -> dict[str, npt.NDArray[Any]]:
        """The lists of neighbours, as arrays by the names under which a run keeps them."""
        return dict(zip(_LISTS, (*self.mentions, *self.entities), strict=True))

    def has_type(self, type_: str) -> Bools:
        """Return (mentions,) whether each mention has a type; with "", all have it."""
        if not type_:
            return np.ones(len(self.inputs), np.bool_)
        has_it = pc.fill_null(pc.equal(self.inputs.corpus.tables.mentions["type"], type_), False)
        return np.asarray(has_it.to_numpy()[self.inputs.rows])

    def similarity(self, dissimilarity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Convert dissimilarities to similarities (higher is closer)."""
        return np.float32(self.offset) - dissimilarity

    def sure(self, entity: Ids, least: float) -> Ids:
        """Return the ``entity`` of each mention, or -1 if its cosine or probability is below ``least``."""
        ids, dissimilarity = self.entities
        is_sure = (ids == entity[:, None]) & (self.similarity(dissimilarity) >= least) & (self.offset == 1)
        return np.asarray(np.where(is_sure.any(axis=1), entity, -1), np.int64)

    def dissimilarity_to(self, entity: npt.NDArray[np.int32], mention: Ids) -> npt.NDArray[np.float32]:
        """Return the dissimilarity of ``mention[i]`` to ``entity[i]``; infinity for -1."""
        of_pair = np.full(len(entity), np.inf, np.float32)
        ids, dissimilarity = self.entities.of(mention)
        pair, place = np.nonzero((ids == entity[:, None]) & (entity >= 0)[:, None])
        of_pair[pair] = dissimilarity[pair, place]
        if len(other := np.flatnonzero((entity >= 0) & np.isinf(of_pair))):
            of_pair[other] = self.distance(mention[other], entity[other])
        return of_pair

    def evidence(self, entity: npt.NDArray[np.int32], mention: Ids) -> Floats:
        """Return (mentions, 2): the similarity of ``mention[i]`` and ``entity[i]``, and the lead over other candidates.

        Without another candidate, its similarity counts as 0. For a mention without an entity (-1), both are -inf.
        """
        similarity = self.similarity(self.dissimilarity_to(entity, mention))
        ids, dissimilarity = self.entities.of(mention)
        others = np.where(ids == entity[:, None], -np.inf, self.similarity(dissimilarity)).max(1, initial=-np.inf)
        return np.column_stack([similarity, similarity - np.where(others > -np.inf, others, 0)])


@dataclass(frozen=True, eq=False, slots=True)
class EarlierSearch:
    """The lists of an earlier search, since which mentions and entities went and came: searches begin with them."""

    mentions: Neighbors  # (earlier mentions, k) rows of earlier mentions
    entities: Neighbors  # (earlier mentions, candidates) rows of the earlier knowledge base
    row: Ids  # (mentions,) the row of each mention in these lists, or -1 for a new mention; rows ascend
    encoded: Callable[[Ids], Vectors]  # returns the vectors of these mentions
    near: Callable[[Ids, float], Ids] | None
    """Returns these mentions and all that may be within a dissimilarity of one, ascending, without vectors of all; None
    if vectors are known."""
    number: Ids
    """(earlier entities,) the row of each entity in the knowledge base of now, ascending, or -1 for an entity that is
    gone or has changed; without a knowledge base, nothing."""
    search_all: SearchAll  # searches what is not known, see `arbo.retrieval.groups.search_all`
    links: Callable[[Ids, list[str]], Any] | None  # see `Retrieval`

    def nearest_within(
        self, groups: Sequence[Group], things: GroupedEntities | None, k: int, within: float | None = None, **how: Any
    ) -> Neighbors:
        """Return the lists of `arbo.retrieval.groups.nearest_within`, but search only what may have changed.

        Without ``things``, neighbours are other mentions. ``how`` has the metric and what shows progress.
        """
        if things is not None:
            return self._entities_within(groups, things, k, how)
        lists = Neighbors.empty(len(self.row), k)
        known = self.mentions.of_width(k)
        row = self._still_compared(groups, known)
        queries = self._compared(row, known.ids, within)
        for group in groups:
            rows = group.queries
            ids, lists.dissimilarity[rows] = engine.updated(
                known, queries.taken(rows), row[rows], find=self._find, within=within, **how
            )
            lists.ids[rows] = np.where(ids >= 0, rows[ids], -1)
        return lists

    def as_before(self, lists: Neighbors) -> Ids:
        """Return the row here of each mention whose list of other mentions is still the same; -1 for others."""
        old, number = np.flatnonzero(self.row >= 0), np.full(len(self.mentions.ids) + 1, -1)
        number[self.row[old]] = old
        ids, dissimilarity = self.mentions.of_width(lists.ids.shape[1]).of(self.row[old])
        is_same = ((number[ids] == lists.ids[old]) & (dissimilarity == lists.dissimilarity[old])).all(axis=1)
        row = np.full(len(self.row), -1)
        row[old[is_same]] = self.row[old[is_same]]
        return row

    def _find(
        self, queries: Vectors, things: Searchable, k: int, *, self_ids: Ids | None = None, **how: Any
    ) -> Neighbors:
        """Search as `clustering.knn.nearest` does."""
        (lists,) = self.search_all([Search(queries, things, self_ids)], k, **how)
        return lists

    def _still_compared(self, groups: Sequence[Group], known: Neighbors) -> Ids:
        """Return `row`, but -1 for a mention that is compared now and was one with another before, or the reverse."""
        is_compared, was = np.zeros(len(self.row), np.bool_), np.append(known.dissimilarity[:, :1] != engine.SAME, True)
        for group in groups:
            is_compared[group.queries] = True
        return np.where(is_compared == was[self.row], self.row, -1) if known.ids.shape[1] else self.row

    def _compared(self, row: Ids, ids: Ids, within: float | None) -> Vectors:
        """Return vectors of the mentions for `updated`: those that cannot be near one that is sought may have none."""
        is_gone = np.ones(len(ids) + 1, np.bool_)
        is_gone[-1] = is_gone[row[row >= 0]] = False
        is_sought = row < 0
        if is_gone.any():
            is_sought |= (ids[row, -1:] >= 0).any(axis=1) & is_gone[ids[row]].any(axis=1)
        rows = np.arange(len(row), dtype=np.int32)
        if self.near is not None and within is not None and np.count_nonzero(is_sought) <= engine.FEW:
            rows = self.near(np.flatnonzero(is_sought), within).astype(np.int32)
        some = self.encoded(rows)
        return Vectors(some.matrix, some.row, rows[some.owner], len(row))

    def _entities_within(
        self, groups: Sequence[Group], things: GroupedEntities, k: int, how: Mapping[str, Any]
    ) -> Neighbors:
        """Search all entities for new mentions and for full lists that lost one; add the new entities to the others."""
        old = np.flatnonzero(self.row >= 0)
        before = self.entities.of(self.row[old])
        known = engine.renumbered(before, self.number).of_width(k)
        is_torn = (before.ids[:, -1:] >= 0).any(axis=1) & (known.ids[:, -1:] < 0).any(axis=1)
        lists = Neighbors.empty(len(self.row), k)
        lists.ids[old], lists.dissimilarity[old] = known
        some = np.sort(np.concatenate([np.flatnonzero(self.row < 0), old[is_torn]]))
        searched = [(group, np.flatnonzero(np.isin(some, group.queries)).astype(np.int32)) for group in groups]
        lists.ids[some], lists.dissimilarity[some] = nearest_within(
            [group._replace(queries=queries) for group, queries in searched if len(queries)],
            self.encoded(some),
            things,
            k,
            self.search_all,
            **how,
        )
        is_new = np.ones(things.entities.n, np.bool_)
        is_new[self.number[self.number >= 0]] = False
        is_left = np.isin(np.arange(len(self.row)), some, invert=True)
        for group in groups if is_new.any() else []:
            rows, new = group.queries[is_left[group.queries]], group.things[is_new[group.things]]
            if len(rows) and len(new):
                within = lists.dissimilarity[rows, -1]
                entering = self._find(self.encoded(rows), things.whole.taken(new), k, within=within, **how)
                both = lists.of(rows), engine.renumbered(entering, new)
                lists.ids[rows], lists.dissimilarity[rows] = engine.merged(both, k)
        return lists


def retrieve(mentions: Mentions, settings: SearchSettings, announce: Announce, search_all: SearchAll) -> Retrieval:
    """Find the nearest entities and the nearest other mentions of each mention, as many as ``settings`` says.

    Neighbours belong to the group of the mention; if it has too few, lists are padded with -1 and infinity. Of equally
    near entities, the one that is spelled like the mention comes first. Raise UsageError if no mention has an entity in
    its group.
    """
    encoder, inputs, encode, earlier, _ = mentions
    entities, groups_of, first = settings.entities, settings.groups, settings.first
    entity_groups = [] if entities is None else groups.with_entities(groups_of, entities.rows)
    if settings.per_document:
        groups_of = list(zip(groups_of, inputs.column("document_id"), strict=True))
    vectors: Any = encode() if earlier is None else None
    anew = partial(nearest_within, queries=vectors, search_all=search_all)
    search: Callable[..., Neighbors] = anew if earlier is None else earlier.nearest_within
    candidates = neighbors = Neighbors.empty(n := len(inputs), 0)
    if entities is not None and inputs:
        how: Any = {"metric": encoder.metric, "progress": announce("nearest entities")}
        candidates = search(entity_groups, things=entities, k=min(settings.candidates, entities.entities.n), **how)
    if inputs:
        how = {"metric": encoder.metric, "progress": announce("nearest mentions"), "within": settings.within}
        neighbors = search(groups.among_mentions(groups_of, first), things=vectors, k=min(settings.k, n - 1), **how)
    if first is not None and neighbors.ids.shape[1]:
        more = np.flatnonzero(first != np.arange(len(first)))
        neighbors.ids[more, 0], neighbors.dissimilarity[more, 0] = first[more], engine.SAME

    def distance(mention: Ids, entity: Ids) -> Floats:
        assert entities is not None  # otherwise there is no entity to ask for
        return engine.pair_dissimilarity(encode(), entities.whole, mention, entity, metric=encoder.metric)

    nearest = Retrieval(
        inputs,
        groups_of,
        0 if entities is None else entities.entities.n,
        candidates,
        neighbors,
        distance,
        engine.offset_of(encoder.metric),
        encoder.threshold,
        encoder.settings,
        settings.within,
        as_before=None if earlier is None else earlier.as_before(neighbors),
        links=None if earlier is None else earlier.links,
        alike=None if isinstance(encoder, NgramEncoder) else partial(_similarity, encode, encoder.metric),
    )
    return _spelled(nearest, settings.kb) if settings.kb else nearest


def _similarity(encode: Callable[[], Vectors], metric: Metric, first: Ids, second: Ids) -> Floats:
    return engine.offset_of(metric) - engine.pair_dissimilarity(encode(), encode(), first, second, metric=metric)


def _spelled(nearest: Retrieval, kb: KnowledgeBase) -> Retrieval:
    """Order the equally nearest entities of each list by their spelling, which "mM" and "mm" share, then by rows."""
    ids, dissimilarity = nearest.entities
    if ids.shape[1] < 2:
        return nearest
    rows = np.flatnonzero((ids[:, 1] >= 0) & (dissimilarity[:, 0] == dissimilarity[:, 1]))
    expansions = nearest.inputs.taken(rows).column("expansion")  # how an abbreviation is spelled says nothing
    if not len(rows := rows[np.array([expansion is None for expansion in expansions], np.bool_)]):
        return nearest
    some, is_tied = ids[rows], dissimilarity[rows] == dissimilarity[rows, :1]
    spellings = nearest.inputs.taken(rows).column("text")
    entities, place = np.unique(some[is_tied], return_inverse=True)
    columns = (column.to_pylist() for column in kb.taken(("name", "aliases"), entities))
    names = [(name, *aliases) for name, aliases in zip(*columns, strict=True)]
    far = np.full(some.shape, 9)  # more forms than there are
    tied = zip(np.nonzero(is_tied)[0].tolist(), place.tolist(), strict=True)
    far[is_tied] = [_spelling_distance(spellings[row], names[entity]) for row, entity in tied]
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
def _spelling_distance(spelling: str, names: Sequence[str]) -> int:
    """Return how many forms must be forgotten until one of the names is the spelling."""
    forms = _forms(spelling)
    return min([*(a == b for a, b in zip(forms, _forms(name), strict=True)), True].index(True) for name in names)

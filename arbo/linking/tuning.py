"""Choose k, method and thresholds on documents with gold annotations, by one search and many cheap partitions.

If the results at different thresholds are nested, one partition contains them all, and gives the exact score at every
threshold. The results of discovery are nested in the threshold of its linkage, and form one merge tree. Those of
`independent`, `minimax` and `undirected` are nested in the larger of the two thresholds: these methods take edges from
the lightest to the heaviest, and a smaller threshold only stops them earlier. A mention is then linked if and only if
its bottleneck is at most the threshold, and always to the same entity. `arborescence` is not nested, so it is tried at
quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from arbo.data.arrow import codes_of
from arbo.data.gold import Gold
from arbo.engine import MergeTree, Method, Neighbors, Partition, Progress, all_cuts, average_tree, merge_tree, partition
from arbo.errors import DataError
from arbo.linking.confidence import Confidence, Reliability, calibrate
from arbo.linking.config import LINKING, LinkerConfig, Objective
from arbo.retrieval.retrieval import Retrieval

_K = (1, 2, 4, 8)
_ENTITY_THRESHOLDS = 24
_MENTION_THRESHOLDS = 6
_SAMPLE = "the threshold stays, since all names have a label: a sample lacks the names near them; give the whole list"
_CHECK = "check that gold ids and domains match (--kb-xrefs MSH accepts MeSH ids), or tune discovery without --kb"


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration and its score; a threshold of None means no threshold."""

    method: Method
    k: int
    entity_threshold: float | None
    mention_threshold: float | None
    score: float
    nil_threshold: float | None = None  # the threshold of average linkage; None also under single linkage

    @property
    def limits(self) -> tuple[float, float]:
        """The thresholds on (entity, mention) edges; infinity means no threshold."""
        entity, mention = self.entity_threshold, self.mention_threshold
        return np.inf if entity is None else entity, np.inf if mention is None else mention


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of tuning: the chosen configuration and all trials."""

    objective: Objective
    best: Trial
    trials: tuple[Trial, ...] = field(repr=False)
    """All trials; of trials that differ in one threshold only, the best if one partition has them all."""
    confidence: Confidence | None = None
    """The confidence fitted to the links of ``best``; None in discovery, or with too few links, see `calibrate`."""
    reliability: Reliability | None = None
    """How well fits of the confidence predict the links of documents that they leave out."""
    note: str | None = None
    """What could not be chosen, and why."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields but ``confidence``, ready for JSON; trials as columns."""
        return {
            "objective": self.objective,
            "best": asdict(self.best),
            "trials": {field.name: [getattr(trial, field.name) for trial in self.trials] for field in fields(Trial)},
            "reliability": self.reliability and self.reliability.as_dict(),
            "note": self.note,
        }

    def applied(self, config: LinkerConfig) -> LinkerConfig:
        """Return a configuration with the chosen settings."""
        links, averages = self.objective in LINKING, config.nil_linkage == "average"
        is_chosen = {"k": True, "method": links, "entity_threshold": links}
        is_chosen |= {"mention_threshold": links or not averages, "nil_threshold": averages}
        chosen: dict[str, Any] = {name: getattr(self.best, name) for name, is_so in is_chosen.items() if is_so}
        return replace(config, **chosen, confidence=self.confidence)


def choose(
    retrieval: Retrieval,
    gold: Gold,
    config: LinkerConfig,
    objective: Objective,
    progress: Progress,
    method: Method | None = None,
) -> Tuning:
    """Choose the best configuration; see `Linker.tune`.

    ``retrieval`` has at least as many neighbours of each mention as the largest of `ks_of`. Ties go to `independent`,
    small k, the mention threshold of ``config`` or else the smallest, and no entity threshold or else the largest.
    """
    scoring = _Scoring.of(gold, objective) if objective in LINKING else None
    if scoring is None:
        plan = _discovery_plan(retrieval, gold, config, objective)
    else:
        plan = _linking_plan(retrieval, scoring, config, method)
    trials = tuple(progress((trial() for trial in plan), len(plan)))
    best = max(trials, key=lambda trial: trial.score)  # ties go to the first
    if scoring and config.nil_linkage == "average":
        best = replace(best, nil_threshold=_nil_threshold(retrieval, gold, best, config.nil_limit(retrieval.threshold)))
    confidence, reliability = (scoring and _calibrated(retrieval, scoring, best)) or (None, None)
    return Tuning(objective, best, trials, confidence, reliability, _SAMPLE if _may_be_sample(config, gold) else None)


def _calibrated(retrieval: Retrieval, scoring: _Scoring, best: Trial) -> tuple[Confidence, Reliability] | None:
    """Fit the confidence of the links of the best trial; raise DataError if none of them is right."""
    linked = partition(retrieval.graph(best.k), best.method, best.limits).entity
    if not scoring.rightly(linked).any() and "reranker" not in retrieval.settings:  # which may know nothing yet
        n, in_kb = scoring.annotated.sum(), (scoring.annotated & ~scoring.is_nil).sum()
        raise DataError(f"no setting links a mention rightly, with an entity for {in_kb:,} of {n:,} mentions; {_CHECK}")
    rows = np.flatnonzero((linked >= 0) & scoring.annotated)
    document = codes_of(retrieval.inputs.column("document_id"))
    return calibrate(retrieval.evidence(linked[rows], rows), scoring.rightly(linked)[rows], document[rows])


def ks_of(config: LinkerConfig) -> list[int]:
    """Return the values of k to try: for a list of names one, since a sample of a list has lost neighbours."""
    return [config.k] if config.treat_as == "list" else sorted({*_K, config.k})


def _linking_plan(
    retrieval: Retrieval, scoring: _Scoring, config: LinkerConfig, method: Method | None
) -> list[Callable[[], Trial]]:
    """Plan the trials of each method (or only ``method``), k and pair of thresholds; the first best is chosen."""
    # The linker's own thresholds are included, so that no worse configuration is chosen. A trial of a nested method is
    # the best threshold of one partition, with all thresholds of one kind above one of the other.
    ks, usual = ks_of(config), config.limits(retrieval.threshold)
    entity_limits = _limits(retrieval.entities.dissimilarity[:, :1], _ENTITY_THRESHOLDS, usual[0])[::-1]
    mention_limits = _limits(retrieval.mentions.dissimilarity, _MENTION_THRESHOLDS, usual[1])
    mention_limits.sort(key=lambda limit: limit != usual[1])
    tried: tuple[Method, ...] = (method,) if method else get_args(Method)
    nested = [one for one in tried if one in ("minimax", "undirected")]
    retrieval, scoring = _nearest_alone(retrieval, scoring)
    graphs = {k: retrieval.graph(k) for k in ks}

    def best_entity_threshold(method: Method, k: int, limit: float, least: float) -> Trial:
        steps = scoring.steps(partition(graphs[k], method, (np.inf, limit)), least=least)
        return steps.best_entity_threshold(Trial(method, k, None, _finite(limit), 0))

    def best_mention_threshold(method: Method, k: int, limit: float) -> Trial:
        steps = scoring.steps(partition(graphs[k], method, (limit, np.inf)), least=limit)
        return steps.best_mention_threshold(Trial(method, k, limit, None, 0), usual[1])

    def at_both(method: Method, k: int, mention: float, entity: float) -> Trial:
        score = scoring.score(partition(graphs[k], method, (entity, mention)).entity)
        return Trial(method, k, _finite(entity), _finite(mention), score)

    plan: list[Callable[[], Trial]] = []
    if "independent" in tried:
        plan += [partial(best_entity_threshold, "independent", config.k, usual[1], -np.inf)]
    for k in ks:
        if "arborescence" in tried:
            plan += [partial(at_both, "arborescence", k, *limits) for limits in product(mention_limits, entity_limits)]
        for one in nested:
            plan += [partial(best_entity_threshold, one, k, mention, mention) for mention in mention_limits]
            plan += [partial(best_mention_threshold, one, k, entity) for entity in entity_limits if entity != np.inf]
    return plan


def _nearest_alone(retrieval: Retrieval, scoring: _Scoring) -> tuple[Retrieval, _Scoring]:
    """Leave out the entities that are nearest to no mention, since each partition takes time for every entity."""
    ids, dissimilarity = retrieval.entities.first(1)
    if len(near := np.unique(ids[ids >= 0])) == 0:
        return retrieval, scoring
    place = np.minimum(np.searchsorted(near, scoring.entity), len(near) - 1)
    entity = np.where(near[place] == scoring.entity, place, -2)
    ids = np.where(ids >= 0, np.searchsorted(near, ids), -1).astype(np.int32)
    nearest = Neighbors(ids, dissimilarity)
    return replace(retrieval, entities=nearest, n_entities=len(near)), replace(scoring, entity=entity)


def _discovery_plan(
    retrieval: Retrieval, gold: Gold, config: LinkerConfig, objective: Objective
) -> list[Callable[[], Trial]]:
    """Plan a tree for each k; ties go to small k, then the threshold of ``config``, then a small one."""
    classes = gold.classes
    if (classes < 0).all():
        raise DataError("tuning needs mentions with gold ids or clusters, but these documents have none")
    if not _are_comparable(classes):
        wrong = "tuning needs two mentions of the same entity and two of different entities"
        raise DataError(f"{wrong}, but the gold ids or clusters give only one kind; add documents")
    average = config.nil_linkage == "average"
    usual = config.nil_limit(retrieval.threshold) if average else config.limits(retrieval.threshold)[1]

    def best(k: int) -> Trial:
        tree = average_tree(retrieval.graph(k)) if average else merge_tree(retrieval.graph(k))
        steps = _steps_of_tree(tree, classes, objective)
        start = Trial("arborescence", k, None, None, 0)
        name = "nil_threshold" if average else "mention_threshold"
        return steps.best_mention_threshold(start, usual, name, kept=_may_be_sample(config, gold))

    return [partial(best, k) for k in ks_of(config)]


def _may_be_sample(config: LinkerConfig, gold: Gold) -> bool:
    """Return whether names are perhaps some of a longer list: the names near them are missing, so that none fits."""
    return config.treat_as == "list" and bool((gold.classes >= 0).all())


def _are_comparable(classes: npt.NDArray[np.integer[Any]]) -> bool:
    """Whether the mentions with a class have both pairs of the same class and pairs of different classes."""
    n, sizes = int((classes >= 0).sum()), np.bincount(classes[classes >= 0])
    return bool(1 < sizes.max(initial=0) < n)


def _steps_of_tree(tree: MergeTree, classes: npt.NDArray[np.integer[Any]], objective: Objective) -> _Steps:
    cuts = all_cuts(classes, tree.left, tree.right, tree.height)
    score = cuts.conll() if objective == "conll" else {"ari": cuts.ari, "b3": cuts.b3.f1, "lea": cuts.lea.f1}[objective]
    return _Steps.of(cuts.threshold.astype(tree.height.dtype), score)


def _nil_threshold(retrieval: Retrieval, gold: Gold, best: Trial, usual: float) -> float | None:
    """Choose the threshold of average linkage by the ARI of the mentions that are NIL."""
    clusters = partition(retrieval.graph(best.k), best.method, best.limits, nil_linkage="average")
    assert clusters.nil_tree is not None
    if not _are_comparable(classes := np.where(clusters.entity < 0, gold.classes, -1)):
        return _finite(usual)
    steps = _steps_of_tree(clusters.nil_tree, classes, "ari")
    return steps.best_mention_threshold(best, usual, "nil_threshold").nil_threshold


@dataclass(frozen=True, eq=False, slots=True)
class _Scoring:
    """Scores links and NIL decisions against the correct entities of each mention."""

    objective: Objective
    annotated: npt.NDArray[np.bool_]
    is_nil: npt.NDArray[np.bool_]
    mention: npt.NDArray[np.integer[Any]]
    entity: npt.NDArray[np.integer[Any]]  # (pairs,) both: each mention with each of its correct entities

    @classmethod
    def of(cls, gold: Gold, objective: Objective) -> Self:
        if not gold.annotated.any():
            raise DataError("tuning needs mentions with gold annotations, but these documents have none")
        if not gold.in_kb.any():
            wrong = f"but no annotated mention (of {int(gold.annotated.sum()):,}) has one"
            raise DataError(f"tuning needs mentions with an entity of the knowledge base, {wrong}; {_CHECK}")
        if objective == "nil_f1" and not gold.is_nil.any():
            wrong = "tuning for NIL needs NIL mentions, but the knowledge base has an entity for each annotated mention"
            raise DataError(f"{wrong}; withhold some entities from it")
        return cls(objective, gold.annotated, gold.is_nil, gold.mention, gold.rows)

    def score(self, linked: npt.NDArray[np.integer[Any]]) -> float:
        """Score the links of all mentions: ``linked``, (mentions,), has rows of entities, or -1 for NIL."""
        return float(self._score(self._flags(linked).sum(axis=0)))

    def rightly(self, linked: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Mark the mentions that are linked to one of their correct entities."""
        rightly = np.zeros(len(linked), np.bool_)
        rightly[self.mention[linked[self.mention] == self.entity]] = True
        return rightly

    def steps(self, clusters: Partition, *, least: float) -> _Steps:
        """Score a nested partition at all thresholds from ``least`` on."""
        reached = clusters.entity >= 0
        bottleneck = clusters.bottleneck[clusters.n_entities :][reached]
        start = bottleneck.dtype.type(least)
        threshold, place = np.unique(np.maximum(bottleneck, start), return_inverse=True)
        flags = self._flags(clusters.entity)[reached]
        counts = [np.cumsum(np.bincount(place, flag, minlength=len(threshold))) for flag in flags.T]
        score = self._score(np.column_stack(counts))
        if not len(threshold) or threshold[0] > start:
            threshold, score = np.append(start, threshold), np.append(self._score(np.zeros(3)), score)
        return _Steps.of(threshold, score)

    def _flags(self, linked: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Mark the mentions that are linked correctly, linked although NIL, and linked and annotated; (mentions, 3)."""
        return np.column_stack([self.rightly(linked), self.is_nil, self.annotated]) & (linked >= 0)[:, None]

    def _score(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Compute the score, (...), from sums of flags, (..., 3)."""
        rightly, wrongly, linked = np.moveaxis(counts, -1, 0)
        n_annotated, n_nil = self.annotated.sum(), self.is_nil.sum()
        nil_rightly = n_nil - wrongly
        if self.objective == "nil_f1":
            return np.asarray(2 * nil_rightly / (n_nil + n_annotated - linked))
        return np.asarray((rightly + nil_rightly) / n_annotated)


class _Steps(NamedTuple):
    """A score that changes only at thresholds; each value holds up to the next threshold, the last to infinity."""

    threshold: npt.NDArray[np.floating[Any]]
    score: npt.NDArray[np.float64]

    @classmethod
    def of(cls, threshold: npt.NDArray[np.floating[Any]], score: npt.NDArray[np.float64]) -> Self:
        """Leave out the thresholds at which the score does not change."""
        changes = np.append(True, score[1:] != score[:-1])
        return cls(threshold[changes], score[changes])

    def best_entity_threshold(self, start: Trial) -> Trial:
        """Return the trial with the middle of the last range with the best score; None for the range without an end."""
        place = int(np.flatnonzero(self.score == self.score.max())[-1])
        chosen = None if place + 1 == len(self.score) else self._middle(place)
        return replace(start, entity_threshold=chosen, score=float(self.score[place]))

    def best_mention_threshold(
        self, start: Trial, usual: float, name: str = "mention_threshold", *, kept: bool = False
    ) -> Trial:
        """Return the trial with ``usual`` if that is best or ``kept``, else the middle of the first best range."""
        with np.errstate(over="ignore"):
            own_place = int(np.searchsorted(self.threshold, self.threshold.dtype.type(usual), side="right")) - 1
        place = int(np.nanargmax(self.score))
        if own_place >= 0 and (kept or self.score[own_place] == self.score[place]):
            place, chosen = own_place, _finite(usual)
        else:
            chosen = self._middle(place)
        return replace(start, **{name: chosen, "score": float(self.score[place])})  # type: ignore[arg-type]

    def _middle(self, place: int) -> float:
        """Return the middle of the thresholds with this point's score, or the smallest if they have no upper limit."""
        begin = self.threshold[place]
        if place + 1 == len(self.score):
            return float(begin)
        end = self.threshold[place + 1]
        if begin == -np.inf:
            return float(end - max(1, abs(end)))
        middle = self.threshold.dtype.type(begin + (end - begin) / 2)  # float64 until NumPy 2
        return float(middle if middle < end else begin)


def _limits(dissimilarity: npt.NDArray[np.float32], n: int, usual: float) -> list[float]:
    """Return quantiles of the dissimilarities, ``usual``, and infinity (no threshold), ascending."""
    chosen = {usual, np.inf}
    if len(finite := dissimilarity[np.isfinite(dissimilarity)]):
        chosen |= set(np.quantile(finite, np.linspace(0, 1, n + 1), method="inverted_cdf").tolist())
    return sorted(chosen)


def _finite(limit: float) -> float | None:
    return None if limit == np.inf else limit

"""Choosing k, method and thresholds on documents with gold annotations: one search, then many cheap partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arbo.documents import Corpus
from arbo.errors import DataError
from arbo.knowledge_base import KnowledgeBase
from arbo.retrieval import Retrieval
from arbo.tables import gold_entities
from clustering import Method, merge_tree, partition
from eval import adjusted_rand_index

if TYPE_CHECKING:
    from arbo.linker import Linker

_K = (1, 2, 4, 8)
_ENTITY_THRESHOLDS = 24
_MENTION_THRESHOLDS = 6
_DISCOVERY_THRESHOLDS = 100


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration and how good it was; a threshold of None is no threshold."""

    method: Method
    k: int
    entity_threshold: float | None
    mention_threshold: float | None
    score: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a configuration was chosen."""

    objective: str
    """What ``score`` is: ``accuracy_with_nil`` over links and NIL decisions, or ``ari`` of discovered clusters."""
    best: Trial
    trials: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON; the trials as columns."""
        columns = {field.name: [getattr(trial, field.name) for trial in self.trials] for field in fields(Trial)}
        return {"objective": self.objective, "best": asdict(self.best), "trials": columns}


def tune(linker: Linker, corpus: Corpus) -> Linker:
    """Return the linker with the best configuration on a corpus; see `Linker.tune`."""
    ks = sorted({*_K, linker.config.k})
    retrieval = linker.retrieve(corpus, k=max(ks), discover=linker.kb is None)
    own = linker.config.limits(retrieval.encoder.threshold)
    if linker.kb is None:
        objective, n_trials, trials = "ari", len(ks), _discovery_trials(retrieval, corpus, ks, own[1])
    else:
        objective = "accuracy_with_nil"
        n_trials, trials = _linking_trials(retrieval, _linking_score(corpus, linker.kb), ks, own)
    tried = tuple(linker.announce("tuning")(trials, n_trials))
    best = max(tried, key=lambda trial: trial.score)  # of equals the first
    config = replace(
        linker.config,
        method=best.method,
        k=best.k,
        entity_threshold=best.entity_threshold,
        mention_threshold=best.mention_threshold,
    )
    return linker.configured(config=config, tuning=Tuning(objective, best, tried))


def _linking_trials(
    retrieval: Retrieval,
    score: Callable[[npt.NDArray[np.int32]], float],
    ks: list[int],
    own: tuple[float, float],
) -> tuple[int, Iterator[Trial]]:
    """Try every method, k and pair of thresholds; the first of equals wins.

    First come no threshold for entities, the linker's own between mentions and then the smallest, and a small k. The
    linker's ``own`` thresholds are among them: tuning never chooses worse than what it starts from.
    """
    entity_limits = _limits(retrieval.entities.dissimilarity[:, :1], _ENTITY_THRESHOLDS, own[0])
    mention_limits = _limits(retrieval.mentions.dissimilarity, _MENTION_THRESHOLDS, own[1])
    mention_limits.sort(key=lambda limit: (limit != own[1], np.inf if limit is None else limit))
    plan: list[tuple[Method, int, float | None]] = [("independent", max(ks), _finite(own[1]))]
    methods: tuple[Method, ...] = ("arborescence", "minimax", "undirected")
    plan += [(method, k, limit) for k in ks for method in methods for limit in mention_limits]
    graphs = {k: retrieval.graph(k) for k in ks}

    def run() -> Iterator[Trial]:
        for method, k, mention in plan:
            for entity in entity_limits:
                pair = tuple(np.inf if limit is None else limit for limit in (entity, mention))
                linked = partition(graphs[k], method, (pair[0], pair[1])).entity
                yield Trial(method, k, entity, mention, score(linked))

    return len(plan) * len(entity_limits), run()


def _discovery_trials(retrieval: Retrieval, corpus: Corpus, ks: list[int], own: float) -> Iterator[Trial]:
    """Cut one merge tree a k at many thresholds, the linker's ``own`` among them."""
    classes: dict[frozenset[str], int] = {}
    gold = np.array(
        [classes.setdefault(frozenset(m.gold), len(classes)) if m.gold else -1 for m in corpus.mentions],
        np.int64,
    )
    if not classes:
        raise DataError("tuning needs mentions with gold ids, and these documents have none")
    for k in ks:
        tree = merge_tree(retrieval.graph(k))
        for limit in _limits(tree.height[:, None], _DISCOVERY_THRESHOLDS, own)[1:] or [None]:
            cut = tree.cut() if limit is None else tree.cut(limit)
            ari = adjusted_rand_index(gold[gold >= 0], cut[gold >= 0])
            yield Trial("arborescence", k, None, limit, ari)


def _linking_score(corpus: Corpus, kb: KnowledgeBase) -> Callable[[npt.NDArray[np.int32]], float]:
    """Share of the annotated mentions that are linked to a gold entity, or are NIL and called so."""
    annotated = np.array([m.gold is not None for m in corpus.mentions], np.bool_)
    if not annotated.any():
        raise DataError("tuning needs mentions with gold annotations, and these documents have none")
    accepted = [(row, kb.row_of[id_]) for row, m in enumerate(corpus.mentions) for id_ in gold_entities(m.gold, kb)]
    mention, entity = np.array(accepted, np.int64).reshape(-1, 2).T
    is_nil = annotated.copy()
    is_nil[mention] = False

    def score(linked: npt.NDArray[np.int32]) -> float:
        right = is_nil & (linked < 0)
        right[mention[linked[mention] == entity]] = True
        return float(right.sum() / annotated.sum())

    return score


def _limits(dissimilarity: npt.NDArray[np.float32], n: int, own: float) -> list[float | None]:
    """No limit, and quantiles of the dissimilarities and ``own``, the largest first."""
    chosen = {own} - {np.inf}
    finite = dissimilarity[np.isfinite(dissimilarity)]
    if len(finite):
        chosen |= set(np.quantile(finite, np.linspace(0, 1, n + 1), method="inverted_cdf").tolist())
    return [None, *sorted(chosen, reverse=True)]


def _finite(limit: float) -> float | None:
    return None if limit == np.inf else limit

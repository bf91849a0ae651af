"""The settings of a linker, and what follows the gap of a knowledge base by default: entity threshold, confidence.

The gap is the share of mentions whose entity the knowledge base lacks, estimated from the scores of a run, for all
mentions and for each type. A mention whose entity is there is mostly far nearer to it than to the next entity, the
more often, the more spellings the knowledge base knows; one whose entity is missing hardly ever is. The constants were
chosen on development parts of seven corpora, also with 30 % of the entities removed; see `benchmarks/default.py`.

The odds of a link by n-grams are the ratio of its lead and its dissimilarity, times a constant that falls with the gap.
Of the NIL decisions, as many are right as the gap says, or more if the threshold does not explain them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from os import fspath
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pyarrow.compute as pc

from arbo.data import KnowledgeBase
from arbo.data.arrow import codes_of, strings
from arbo.data.columns import columns_named
from arbo.engine import Bools, Method, Metric, Neighbors, NilLinkage, Weights
from arbo.errors import DataError, UsageError
from arbo.files import PathLike
from arbo.linking.confidence import Confidence
from arbo.retrieval.groups import type_pairs
from arbo.settings import Count, NotBelow0, Number, Settings, check_choice, read_json
from arbo.text.names import normalize_names

Spread = Literal["none", "same-name", "unlinked", "graph"]
"""How far a correction spreads; see `arbo.corrections.constraints`."""
Limit = float | Literal["default"] | None
"""Largest dissimilarity of an edge; None for no limit, and ``"default"`` for the threshold of the model that weighs the
edge: the encoder, a reranker or an edge model."""

Reading = Literal["auto", "list", "text"]  # how names are clustered, see `LinkerConfig.treat_as`
Objective = Literal["accuracy_with_nil", "nil_f1", "ari", "b3", "conll", "lea"]
"""The score to maximise: with a knowledge base, the share of correct links and NIL decisions, or F1 of NIL decisions;
without one, ARI of the clusters, or F1 of B-cubed, CoNLL or LEA."""
LINKING: tuple[Objective, ...] = ("accuracy_with_nil", "nil_f1")
DISCOVERY: tuple[Objective, ...] = ("ari", "b3", "conll", "lea")

_OF_LIST = 8
_THRESHOLDS = ("mention_threshold", "entity_threshold", "nil_threshold")

_LEAST_MENTIONS, _LEAST_NAMES = 200, 100
_CLEAR = 0.3
"""A mention is clear if its nearest entity is nearer than the second one by this factor, or if both are equal to it."""
_EQUAL = 0.001
_CLEAR_IF_MISSING = 0.07
_CLEAR_IF_THERE = (0.53, 0.33)
"""The share of clear mentions, and what it gains with the share of names that have a twin."""
_GAPS, _OF_GAPS = (0.05, 0.15), (0.55, 0.12)
_SAMPLE = 2_000
_LEAST = 0.02  # added to lead and dissimilarity, so that the ratio of small ones does not count too much
_UNKNOWN_GAP, _UNKNOWN_NIL = 0.1, 0.33
_LOG_ODDS, _PER_GAP = 0.8, -3.0
_MORE_NILS, _MOST = 0.05, 0.95
_WRONG_NILS = (0.05, 0.15), (0.03, 0.35)
"""Two gaps, and the largest share of mentions that their thresholds leave NIL though the entity is there."""


@dataclass(frozen=True, slots=True)
class LinkerConfig(Settings):
    """Settings of linking. The defaults suit a first run without gold data; `Linker.tune` chooses better settings."""

    method: Method = "arborescence"
    """How to cluster the graph: ``arborescence``, ``minimax``, ``undirected`` or ``independent``. See
    `clustering.partition`."""
    k: Number = 4
    """Number of nearest mentions to connect to each mention; with 0, each mention is linked alone."""
    entity_threshold: Limit = "default"
    """Largest dissimilarity of an edge from an entity; mentions that no entity reaches are NIL. With n-grams, the
    default follows the estimated share of mentions whose entity the knowledge base lacks, for all mentions and for each
    type with 200 or more, see `estimated_gaps`."""
    mention_threshold: Limit = "default"
    """Largest dissimilarity of an edge between mentions."""
    nil_linkage: NilLinkage = "single"
    """How to cluster the mentions that no entity reaches (in discovery, all mentions): ``single``, by the edges up to
    the mention threshold; or ``average``, which merges the clusters with the smallest average dissimilarity, see
    `clustering.average_tree`. Mentions that are not among each other's ``k`` nearest then count as different."""
    nil_threshold: Limit = "default"
    """Largest average dissimilarity of clusters that average linkage merges, whatever the mention threshold; the
    default is the threshold of the encoder, reranker or edge model on mention edges."""
    candidates: Count = 16
    """Number of nearest entities to keep for each mention, for margins, recall@k and a reranker."""
    skip_margin: NotBelow0 | None = None
    """Do not rerank mentions whose nearest entity is more similar than the second by at least this margin; None reranks
    all mentions."""
    expand_abbreviations: bool = True
    """Whether to replace abbreviations that a document defines by their long forms before encoding."""
    map_types: str | None = None
    """Types of mentions and the types of entities to compare them with, such as ``Chemical=drug,Gene=gene``; all other
    types are compared with each other. See `arbo.retrieval.groups`."""
    per_document: bool = False
    """Whether each document is linked alone, in a graph of its own, so that its links do not depend on the others. But
    `discover` fits n-grams to all names, and a correction ``same`` joins documents. All documents are still searched
    together, which is much faster than a call for each. A correction of a mention then spreads to no other document,
    and ``map_types`` may map types that no mention has."""
    spread: Spread = "unlinked"
    """How far a correction spreads: to no other mention (``none``); to mentions of the same name, type and domain
    (``same-name``); along the edges of the graph to mentions without an entity too (``unlinked``), or to all
    (``graph``). See `arbo.corrections.constraints`."""
    treat_as: Reading = "auto"
    """How `discover` clusters names by n-grams: as a ``list`` of names without a context, in which equal names are one,
    the names model weighs pairs, and clusters are merged by the average of all pairs; or as the names of a ``text``, by
    their letters. ``auto`` recognises a list by documents that are nothing but a name."""
    kb_complete: bool = False
    """Whether the knowledge base has an entity for every mention, so that n-grams need not estimate what it lacks."""
    evidence: str | None = None
    """Columns beside the names (for `link`, with `--set`, of the knowledge base too) that weigh pairs of rows, with or
    without their kind, such as ``country,vat:exact``: text (or place), number, code (or date), exact, set (values
    divided by semicolons), or source, the table from which a row comes if no entity is twice in a table. Their weights
    are estimated, see `arbo.edges.evidence`. By default, nodes of a graph have the texts in which they occur."""
    confidence: Confidence | None = None
    """Computes the probability that a link is correct; `Linker.tune` fits it to gold annotations."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        if self.confidence is not None and not isinstance(self.confidence, Confidence):
            object.__setattr__(self, "confidence", Confidence.from_dict(self.confidence))
        if self.map_types is not None:
            type_pairs(self.map_types)
        if self.evidence is not None:
            columns_named(self.evidence)
        for name in _THRESHOLDS:
            value = getattr(self, name)
            is_number = type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)
            if value not in (None, "default") and not (is_number and value > float("-inf")):
                raise UsageError(f"{name} must be a number, None or 'default', not {value!r:.60}")
        if self.nil_threshold != "default" and self.nil_linkage == "single":
            remedy = "for 'single', set mention_threshold instead, the M of --threshold E,M"
            raise UsageError(f"nil_threshold needs nil_linkage 'average'; {remedy}")

    def of_list(self) -> Self:
        """Return the settings for a list of names: at least 8 neighbours, average linkage, and no abbreviations."""
        limit = self.nil_threshold if self.mention_threshold == "default" else self.mention_threshold
        more: Any = {"expand_abbreviations": False, "nil_linkage": "average", "nil_threshold": limit}
        return replace(self, treat_as="list", k=max(self.k, _OF_LIST), **more)

    def limits(self, defaults: tuple[float, float]) -> tuple[float, float]:
        """Return the thresholds on (entity, mention) edges; ``"default"`` is replaced by its value in ``defaults``."""
        return _limit(self.entity_threshold, defaults[0]), _limit(self.mention_threshold, defaults[1])

    def nil_limit(self, defaults: tuple[float, float]) -> float:
        """Return the threshold of average linkage; ``defaults`` are the same as for `limits`."""
        return _limit(self.nil_threshold, defaults[1])

    def check_limits(self, metric: Metric, *, learnt: bool = False) -> None:
        """Raise UsageError for a threshold that no dissimilarity reaches, and for average linkage of inner products.

        Edges that are ``learnt`` by a model have probabilities, not inner products.
        """
        limits = {name: getattr(self, name) for name in _THRESHOLDS} if metric == "cosine" or learnt else {}
        least = {"entity_threshold": float("-inf")}  # scores of a reranker have no limit; -0.01, as numbers are rounded
        reach = ((f"{name}={value}", least.get(name, -0.01), _limit(value, 0)) for name, value in limits.items())
        if above := [what for what, low, limit in reach if not low <= limit <= 2 and limit < float("inf")]:
            scale = "dissimilarities are from 0 (equal) to 1 (nothing in common), at most 2"
            raise UsageError(f"{above[0]}: {scale}; for a similarity of 80 % write 0.2, and None for no limit")
        if self.nil_linkage == "average" and metric != "cosine" and not learnt:
            wrong = "average linkage needs similarities of at most 1, but the encoder compares by inner products"
            remedy = "choose an encoder with the metric cosine, an edge model, or nil_linkage 'single'"
            raise UsageError(f"{wrong}; {remedy}")

    @classmethod
    def from_json(cls, path: PathLike) -> Self:
        """Read the ``config`` of a file that `arbo tune` wrote; raise DataError for any other file."""
        return cls.from_dict(_tuned(path)["config"], file=fspath(path))


def _limit(value: Limit, default: float) -> float:
    return default if value == "default" else float("inf") if value is None else float(value)


def tuned_model(path: PathLike | None, part: Literal["encoder", "reranker", "edges"]) -> dict[str, Any]:
    """Read a model's settings from a file of `arbo tune`; {} if there are none. Raise DataError for any other file."""
    if path is None or (settings := _tuned(path).get(part)) is None:
        return {}
    if not (isinstance(settings, dict) and isinstance(settings.get("model", ""), str)):
        problem = f"`{part}` must be an object, and its `model` a string; give a file that `arbo tune` wrote"
        raise DataError(problem, file=fspath(path))
    return settings


def _tuned(path: PathLike) -> dict[str, Any]:
    content = read_json(path, "the configuration")
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise DataError('the file has no {"config": {...}}; give a file that `arbo tune` wrote', file=fspath(path))
    return content


def objective_of(objective: Objective | None, method: Method | None = None, *, discovers: bool) -> Objective:
    """Return the objective, or the default one for None; ``discovers`` means that there is no knowledge base.

    Raise UsageError if the objective does not exist with (or without) a knowledge base, if ``method`` is unknown, or if
    a method is given without a knowledge base.
    """
    if method is not None and discovers:
        raise UsageError(f"without a knowledge base, all methods give the same clusters; leave method {method!r} out")
    if method is not None:
        check_choice("method", method, get_args(Method))
    possible = DISCOVERY if discovers else LINKING
    if objective is not None:
        check_choice(f"{'without' if discovers else 'with'} a knowledge base, the objective", objective, possible)
    return objective or possible[0]


def estimated_gaps(
    entities: Neighbors, names: Sequence[str], types: Sequence[str | None], kb: KnowledgeBase
) -> dict[str, float]:
    """Return the share of mentions whose entity is missing, of all mentions (at "") and of each type.

    There is no value for fewer than 200 mentions or 100 different names. ``entities`` are the nearest entities of each
    mention, by n-grams, ``names`` what is compared, and ``types`` those of the mentions; a type that all have is none.
    """
    gaps, twins = dict[str, float](), 0.0
    if entities.ids.shape[1] < 2:
        return gaps
    nearest, second = entities.dissimilarity[:, :2].T.astype(np.float64)
    known, kind = np.isfinite(second), codes_of(types)
    name = np.asarray(strings(names).dictionary_encode().indices)
    is_clear = (nearest < _CLEAR * second) | (second < _EQUAL)
    number = dict(zip(dict.fromkeys(types), count(), strict=False))
    for type_ in ("", *sorted(filter(None, number))):
        rows = known & (kind == number[type_]) if type_ else known
        is_enough = rows.sum() >= _LEAST_MENTIONS and np.count_nonzero(np.bincount(name[rows])) >= _LEAST_NAMES
        if is_enough and not (type_ and np.array_equal(rows, known)):
            twins = twins if gaps else _share_of_twins(kb)
            expected = _CLEAR_IF_THERE[0] + _CLEAR_IF_THERE[1] * twins
            gaps[type_] = float(np.clip((expected - is_clear[rows].mean()) / (expected - _CLEAR_IF_MISSING), 0, 1))
    return gaps


def threshold_for(gap: float) -> float:
    """Return the entity threshold for a gap: 0.55 for hardly any, 0.12 from 15 % on.

    >>> threshold_for(0.0), threshold_for(0.1), threshold_for(0.5)
    (0.55, 0.335, 0.12)
    """
    return round(float(np.interp(gap, _GAPS, _OF_GAPS)), 6)


def _share_of_twins(kb: KnowledgeBase) -> float:
    """Return the share of aliases with the words of another name of their entity, in any order, of 2,000 entities."""
    rows = np.flatnonzero(pc.greater(pc.fill_null(pc.list_value_length(kb.table["aliases"]), 0), 0).to_numpy(False))
    if not len(rows := rows[np.argsort(kb.keys.ids[rows], kind="stable")[:_SAMPLE]]):
        return 0.0
    names, aliases = kb.taken(("name", "aliases"), rows)
    size = 1 + pc.list_value_length(aliases).to_numpy(False).astype(np.int64)
    texts = [text for name, more in zip(names.to_pylist(), aliases.to_pylist(), strict=True) for text in (name, *more)]
    keys = [" ".join(sorted({*name.split()})) for name in normalize_names(texts)]
    owner, begin = np.repeat(np.arange(len(rows)), size), np.cumsum(size) - size
    which = codes_of(zip(owner.tolist(), keys, strict=True))
    has_twin = np.bincount(which)[which] > 1
    has_twin[begin] = False  # of the aliases alone
    return float((np.bincount(owner, has_twin) / (size - 1)).mean())


class DefaultConfidence(NamedTuple):
    """The confidence of decisions by n-grams, without annotations."""

    log_odds: float  # logarithm of the odds of a link whose lead equals its dissimilarity
    nil: float  # probability that a NIL decision is correct

    @classmethod
    def for_gap(cls, gap: float | None, is_nil: Bools) -> Self:
        """Return the confidence for a gap, None if it is unknown, and the NIL mentions by its entity threshold."""
        if gap is None:
            return cls(_LOG_ODDS + _PER_GAP * _UNKNOWN_GAP, _UNKNOWN_NIL)
        nils, usual = float(is_nil.sum() / max(len(is_nil), 1)), float(np.interp(gap, *_WRONG_NILS))
        right = max(gap / (nils + _MORE_NILS), 1 - usual / max(nils, usual))
        return cls(_LOG_ODDS + _PER_GAP * gap, min(right, _MOST))

    def of(self, evidence: Weights) -> Weights:
        """Return the probability that each link is correct; ``evidence`` is that of `Retrieval.evidence`."""
        similarity, lead = evidence.astype(np.float64).T
        odds = np.exp(self.log_odds) * ((np.maximum(lead, 0) + _LEAST) / (np.maximum(1 - similarity, 0) + _LEAST))
        return np.asarray(odds / (1 + odds))


AnyConfidence = Confidence | DefaultConfidence

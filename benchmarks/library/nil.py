"""Which mentions are NIL, and how well a threshold on their best entity tells it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import arbo
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.retrieval.retrieval import Retrieval
from eval import linking_outcomes, nil_as_class, nil_curve, nil_scores
from library.results import Row

CANDIDATES = 64

Ints = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """Documents and what they are linked to."""

    documents: Corpus
    kb: arbo.KnowledgeBase


class NilGold(NamedTuple):
    """What is true of each mention."""

    annotated: Bools
    is_nil: Bools
    new: Ints
    """class of a NIL mention with an id, -1 for every other mention"""
    document: Ints

    @classmethod
    def of(cls, part: Part) -> "NilGold":
        """Read the annotations."""
        gold = Gold.of(part.documents, part.kb)
        document = np.repeat(np.arange(len(part.documents)), [len(own.mentions) for own in part.documents])
        return cls(gold.annotated, gold.is_nil, np.where(gold.is_nil, gold.classes, -1), document)


def by_threshold(part: Part, retrieval: Retrieval, threshold: float) -> Row:
    """Score NIL by a threshold on the best entity: table 4 of Wiatrak et al. 2022."""
    gold, ids, nearest = NilGold.of(part), retrieval.entities.ids, retrieval.entities.dissimilarity[:, 0]
    called = nearest > np.float32(threshold)
    scores = nil_scores(gold.is_nil, called, annotated=gold.annotated)
    curve = nil_curve(gold.is_nil, -nearest.astype(np.float64), annotated=gold.annotated)
    accepted = Gold.of(part.documents, part.kb).accepted
    outcomes = linking_outcomes(*accepted, ids[:, 0], annotated=gold.annotated, candidates=ids)
    counts = nil_as_class(outcomes, called).count(k=[1, CANDIDATES])
    return {
        "mentions": int(gold.annotated.sum()),
        "NIL": int(gold.is_nil.sum()),
        "with an id": int((gold.new >= 0).sum()),
        "auPR": curve.average_precision,
        "precision": scores.precision,
        "recall": scores.recall,
        "NIL F1": scores.f1,
        "best F1 on test": curve.best.f1,
        "recall@1 with NIL": counts.recall[1],
        f"recall@{CANDIDATES} with NIL": counts.recall[CANDIDATES],
    }

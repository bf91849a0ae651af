"""Which mentions are NIL, and how well a threshold on their best entity tells it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import arbo
from arbo.data.corpus import Corpus
from arbo.retrieval.retrieval import Retrieval
from eval import linking_outcomes, nil_as_class, nil_curve, nil_scores
from library.results import Row

CANDIDATES = 64

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """Documents and what they are linked to."""

    documents: Corpus
    kb: arbo.KnowledgeBase

    def rows(self) -> list[tuple[int, ...]]:
        """Return the entities that each mention accepts, none of a NIL mention."""
        return [
            self.kb.rows_within(mention.gold or (), document.domain)
            for document in self.documents
            for mention in document.mentions
        ]


class Gold(NamedTuple):
    """What is true of each mention."""

    annotated: Bools
    is_nil: Bools
    new: Ints
    """class of a NIL mention with an id, -1 for every other mention"""
    document: Ints

    @classmethod
    def of(cls, part: Part) -> "Gold":
        """Read the annotations."""
        number: dict[frozenset[str], int] = {}
        gold = [mention.gold for mention in part.documents.mentions]
        is_nil = [ids is not None and not rows for ids, rows in zip(gold, part.rows(), strict=True)]
        new = [
            number.setdefault(frozenset(ids), len(number)) if nil and ids else -1
            for ids, nil in zip(gold, is_nil, strict=True)
        ]
        document = np.repeat(np.arange(len(part.documents)), [len(own.mentions) for own in part.documents])
        annotated = np.array([ids is not None for ids in gold], np.bool_)
        return cls(annotated, np.array(is_nil, np.bool_), np.array(new, np.int64), document)


def by_threshold(part: Part, retrieval: Retrieval, threshold: float) -> Row:
    """Score NIL by a threshold on the best entity: table 4 of Wiatrak et al. 2022."""
    gold, ids, nearest = Gold.of(part), retrieval.entities.ids, retrieval.entities.dissimilarity[:, 0]
    called = nearest > np.float32(threshold)
    scores = nil_scores(gold.is_nil, called, annotated=gold.annotated)
    curve = nil_curve(gold.is_nil, -nearest.astype(np.float64), annotated=gold.annotated)
    has_id = [bool(mention.gold) for mention in part.documents.mentions]
    rows = [own or ((-1,) if known else ()) for own, known in zip(part.rows(), has_id, strict=True)]
    outcomes = linking_outcomes(
        np.cumsum([0, *map(len, rows)]),
        [entity for own in rows for entity in own],
        ids[:, 0],
        annotated=gold.annotated,
        candidates=ids,
    )
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

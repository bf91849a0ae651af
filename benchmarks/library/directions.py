"""Edges of GUM whose weight depends on their direction: from an earlier mention to a later one, or back.

Edges between documents always lead both ways, since documents have no order. Within a document each edge leads from the
earlier mention to the later one, and a direction says which edges lead back:

- ``both ways``: all of them.
- ``not out of nameless``: those out of a mention that names something, see `Facts.nameless`.
- ``forward``: none.
- ``names to nameless``: those from a mention that names something to one that names nothing, as arbo has them.
- ``learnt``: all, with a probability of their own, learnt from the pairs in which the later mention names something,
  means the same, and no mention before the earlier one does both.

Each direction is an edge model, which differs from the trained one in its edges between mentions alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

import arbo
from arbo.data.arrow import codes_of
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.edges.features import MENTION_FEATURES, Facts, mention_features, mention_pairs
from arbo.edges.model import EdgeModel
from arbo.edges.trees import Trees
from arbo.engine import Bools, Floats, Ids, Method, Neighbors, partition, silent
from arbo.linking.tuning import choose
from arbo.retrieval.groups import fill
from arbo.retrieval.retrieval import Retrieval
from arbo.training.edges import thinned
from clustering import METHODS
from library.annotated import Parts
from library.cells import Cell

DIRECTIONS = ("both ways", "not out of nameless", "forward", "names to nameless", "learnt")
THRESHOLDS: Mapping[str, tuple[float, float] | None] = {"0.5": (0.5, 0.5), "none, 0.9": (np.inf, 0.9), "tuned": None}
"""Thresholds on entity and mention edges; None: chosen on the development part for each method, with k."""
_K = arbo.LinkerConfig().k
_MOST = 400_000  # pairs that teach
_DRAWS = 2_000


@dataclass(frozen=True, eq=False)
class Directed(EdgeModel):
    """An edge model whose edges within documents lead back by another rule."""

    direction: str = "both ways"
    back: Trees | None = None
    """The probability of edges back; None for that of the edges forward."""

    def _mentions(self, facts: Facts, retrieval: Retrieval, k: int) -> Neighbors:
        first, second = mention_pairs(facts, codes_of(retrieval.groups), retrieval.mentions)
        within = facts.columns["document"][first] == facts.columns["document"][second]
        features = mention_features(facts, first, second)
        trace = 2.0**-20 * (1 - features[:, MENTION_FEATURES.index("letters")])
        forward = back = np.asarray(expit(-self.mentions.scores(features)) + trace, np.float32)
        if self.back is not None:
            back = np.where(within, expit(-self.back.scores(features)) + trace, forward).astype(np.float32)
        named = ~facts.nameless
        kept: Bools = {
            "both ways": np.ones(len(first), np.bool_),
            "not out of nameless": named[second],
            "forward": ~within,
            "names to nameless": ~within | (named[second] & ~named[first]),
            "learnt": np.ones(len(first), np.bool_),
        }[self.direction]
        source, target = np.concatenate([first, second[kept]]), np.concatenate([second, first[kept]])
        lists, rank = Neighbors.empty(len(facts), k), facts.columns["rank"]
        fill(lists, target, rank[source], np.concatenate([forward, back[kept]]))
        return lists._replace(ids=np.append(np.argsort(rank), -1).astype(np.int32)[lists.ids])


class Directions:
    """Accuracy of links by direction, with one trained edge model."""

    def __init__(self, model: EdgeModel, parts: Parts, kb: arbo.KnowledgeBase) -> None:
        self.model, self.parts, self.kb = model, parts, kb
        self.found = cache(self._found)

    def accuracies(self, cell: Cell) -> dict[str, float]:
        """Return the accuracy of each method among the mentions with a gold title, and intervals of two differences.

        An interval is the middle 95 % of 2,000 draws of documents.
        """
        corpus = self.parts[cell["part"]]
        gold, found = Gold.of(corpus, self.kb), self.found(cell["direction"], cell["part"])
        right = {}
        for method in METHODS:
            limits = THRESHOLDS[cell["thresholds"]]
            k, limits = (_K, limits) if limits else self._tuned(cell["direction"], method)
            linked = partition(found.graph(k), method, limits).entity
            right[method] = np.zeros(len(linked), np.bool_)
            right[method][gold.mention[linked[gold.mention] == gold.rows]] = True
        figures: dict[str, float] = {method: float(flags[gold.has_id].mean()) for method, flags in right.items()}
        document = codes_of([item.document.id for item in found.inputs])[gold.has_id]
        for method in ("minimax", "undirected"):
            gain = right[method][gold.has_id].astype(int) - right["arborescence"][gold.has_id]
            low, high = interval(gain, document)
            figures |= {f"{method} less arborescence, low": low, f"{method} less arborescence, high": high}
        return figures

    def _found(self, direction: str, part: str) -> Retrieval:
        """Return the retrieval of a part with edges of a direction."""
        trees = None
        if direction == "learnt":
            train, dev = self.parts["train"], self.parts["dev"]
            trees = Trees.fit(*_referring_back(train, _MOST)).calibrated(*_referring_back(dev, None))
        edges = Directed(self.model.mentions, self.model.entities, self.model.trained, direction=direction, back=trees)
        return arbo.Linker(self.kb, edges=edges).retrieve(self.parts[part], k=8)

    def _tuned(self, direction: str, method: Method) -> tuple[int, tuple[float, float]]:
        """Choose k and the thresholds of a method on the development part."""
        gold, found = Gold.of(self.parts["dev"], self.kb), self.found(direction, "dev")
        best = choose(found, gold, arbo.LinkerConfig(), "accuracy_with_nil", silent, method).best
        return best.k, best.limits


def interval(gain: Ids, document: Ids) -> tuple[float, float]:
    """Return the middle 95 % of the mean gain of a mention over draws of documents."""
    total, size = np.bincount(document, gain), np.bincount(document)
    drawn = np.random.default_rng(0).integers(len(size), size=(_DRAWS, len(size)))
    low, high = np.quantile(total[drawn].sum(axis=1) / size[drawn].sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


def _referring_back(corpus: Corpus, most: int | None) -> tuple[Floats, Bools]:
    """Return features of the pairs within documents, and whether the later mention is the antecedent of the earlier."""
    found = arbo.Linker().retrieve(corpus, k=EdgeModel.neighbors)
    facts, label = Facts.of(found.inputs), Gold.of(corpus).classes
    first, second = mention_pairs(facts, codes_of(found.groups), found.mentions)
    document = facts.columns["document"]
    kept = (document[first] == document[second]) & (label[first] >= 0) & (label[second] >= 0)
    first, second = first[kept], second[kept]
    named = ~facts.nameless
    correct = (label[first] == label[second]) & named[second] & _unnamed_before(facts, label)[first]
    if most is not None:
        kept = thinned(np.zeros(len(first), np.int64), correct, most)
        first, second, correct = first[kept], second[kept], correct[kept]
    return mention_features(facts, first, second), correct


def _unnamed_before(facts: Facts, label: Ids) -> Bools:
    """Tell for each mention that no earlier one of its document and gold cluster names something; (mentions,)."""
    of = facts.columns
    chain = codes_of(list(zip(of["document"].tolist(), label.tolist(), strict=True)))
    place = np.full(int(chain.max(initial=0)) + 1, len(facts))
    named = np.flatnonzero(~facts.nameless)
    np.minimum.at(place, chain[named], of["place"][named])
    return np.asarray(of["place"] <= place[chain])

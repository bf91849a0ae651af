"""Train an edge model on documents with gold clusters, gold entities, or both."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.arrow import codes_of
from arbo.data.fingerprint import are_known, learnt_from
from arbo.data.gold import Gold
from arbo.edges.features import EntityNames, Facts, distinct, entity_features, mention_features, mention_pairs, searched
from arbo.edges.model import THRESHOLD, EdgeModel
from arbo.edges.trees import Trees
from arbo.engine import Bools, Floats, Ids
from arbo.errors import DataError
from arbo.linker import Linker
from arbo.retrieval.retrieval import Retrieval

Examples = tuple[Floats, Bools]  # features of pairs, (pairs, features), and whether each pair is right
_MOST = 250_000  # number of pairs of a group that teach, so that time does not grow with the square of a document


class Compared(NamedTuple):
    """Annotated pairs of mentions; the arrays have a value for each pair."""

    retrieval: Retrieval
    facts: Facts
    features: Floats
    correct: Bools

    @classmethod
    def of(cls, linker: Linker, corpus: Corpus, most: float = np.inf) -> Self:
        """Collect the pairs of a corpus; of a group with more than ``most``, some of the wrong ones are left out."""
        retrieval = linker.retrieve(corpus, k=EdgeModel.neighbors)
        alike = retrieval.alike
        if alike is not None:
            learnt = are_known(corpus.tables, getattr(linker.encoder, "learnt", ""))
            alike = partial(_unlearnt, alike, learnt[corpus.tables.home[retrieval.inputs.rows]])
        facts, classes = Facts.of(retrieval.inputs, alike), Gold.of(corpus)
        facts = facts.with_stories() if linker.kb is None else facts
        first, second = mention_pairs(facts, codes_of(retrieval.groups), retrieval.mentions)
        label = classes.classes
        document, known = facts.columns["document"], known_elsewhere(retrieval, classes)
        chosen = classes.annotated[first] & classes.annotated[second]
        chosen &= (document[first] == document[second]) | known[first] | known[second]
        first, second = first[chosen], second[chosen]
        correct = (label[first] == label[second]) & (label[first] >= 0)
        chosen = thinned(codes_of(retrieval.groups)[first], correct, most)
        first, second, correct = first[chosen], second[chosen], correct[chosen]
        return cls(retrieval, facts, mention_features(facts, first, second), correct)


def _unlearnt(alike: Callable[[Ids, Ids], Floats], learnt: Bools, first: Ids, second: Ids) -> Floats:
    """Return similarities of pairs, but NaN in documents from which the encoder has learnt: there it knows too much."""
    return np.where(learnt[first] | learnt[second], np.nan, alike(first, second))


def train_edges(
    documents: Iterable[Any],
    dev: Iterable[Any],
    kb: KnowledgeBase | None = None,
    *,
    linker: Linker | None = None,
    names: bool = False,
) -> EdgeModel:
    """Train a model to predict whether two mentions mean the same and, with ``kb``, whether a mention means an entity.

    Two mentions mean the same if they have the same gold ids or, without any, the same gold cluster. Boosted trees are
    fitted to pairs of ``documents``, and their probabilities are calibrated on pairs of ``dev`` (Platt scaling), which
    also chooses the settings of linking or, by CoNLL, of discovery, see `Linker.tune`.

    Args:
        documents: training documents, see `Linker.link`.
        dev: annotated documents that are not among the training documents.
        kb: the knowledge base of the gold entities; None to learn edges between mentions alone.
        linker: finds neighbours and candidates, and should have the encoder that links later; the default uses
            character n-grams.
        names: with ``kb``, learn also from entities to which the names of other training documents are added as
            aliases, for linking with ``kb.with_names_of(documents)``.

    Raise DataError if in ``documents`` or in ``dev`` the pairs of two mentions, or of a mention and an entity, are all
    correct or all wrong.
    """
    searching = (linker or Linker()).configured(kb=kb, reranker=None, edges=None)
    train, held_out = Corpus.of(documents), Corpus.of(dev)
    compared = Compared.of(searching, train, _MOST), Compared.of(searching, held_out)
    parts = [examples(pairs, corpus, searching.kb) for pairs, corpus in zip(compared, (train, held_out), strict=True)]
    if kb is not None and names:
        for part, more in zip(parts, named_examples(searching, train, held_out), strict=True):
            features, correct = zip(part[1], *more, strict=True)
            part[1] = np.concatenate(features), np.concatenate(correct)
    forests = [Trees.fit(*train).calibrated(*other) for train, other in zip(*parts, strict=True)]
    pairs = [len(correct) for _, correct in parts[0]]
    trained = {"pairs": pairs, "recall": recall(compared[1], held_out), "encoder": searching.encoder.settings}
    model = EdgeModel(forests[0], forests[1] if kb is not None else None, trained, learnt_from(train.tables))
    if kb is None and not known_elsewhere(compared[1].retrieval, Gold.of(held_out)).any():
        return model
    expand = searching.config.expand_abbreviations
    named = kb.with_names_of(train, expand_abbreviations=expand) if kb is not None and names else kb
    score: Any = {"objective": "conll"} if kb is None else {"method": "minimax"}
    config = searching.configured(edges=model, kb=named).tune(held_out, **score).config
    if kb is None:  # no edge that is more likely wrong than right, which fits the clusters of other documents less
        config = replace(config, mention_threshold=min(THRESHOLD, config.limits((THRESHOLD, THRESHOLD))[1]))
    return replace(model, config=config.as_dict())


def examples(pairs: Compared, corpus: Corpus, kb: KnowledgeBase | None) -> list[Examples]:
    """Return features and correctness of pairs of mentions and, with a knowledge base, of mentions and candidates."""
    parts = [(pairs.features, pairs.correct)]
    if kb is not None:
        parts.append(_entity_examples(pairs.retrieval, pairs.facts, corpus, kb))
    for (_, correct), what in zip(parts, ("two mentions", "a mention and an entity"), strict=False):
        if correct.all() or not correct.any():
            wrong = f"{int(correct.sum()):,} of {len(correct):,} pairs of {what} mean the same"
            needed = f"{wrong}, but training needs pairs that do and pairs that do not"
            raise DataError(f"{needed}; check gold ids and clusters, and whether the knowledge base has them")
    return parts


def _entity_examples(retrieval: Retrieval, facts: Facts, corpus: Corpus, kb: KnowledgeBase) -> Examples:
    gold, ids = Gold.of(corpus, kb), retrieval.entities.ids
    mention, entity = np.nonzero(ids >= 0)[0], ids[ids >= 0]
    features = entity_features(facts, EntityNames.of(kb, entity), facts.with_documents(retrieval), mention, entity)
    right, known = gold.mention * len(kb) + gold.rows, gold.annotated[mention]
    return features[known], np.isin(mention * len(kb) + entity, right)[known]


def named_examples(linker: Linker, train: Corpus, dev: Corpus) -> tuple[list[Examples], list[Examples]]:
    """Return examples to fit and to calibrate, with names of other training documents as aliases.

    Each half of them gets the names of the other half: with its own, each mention's name would be an alias of its gold
    entity. Without gold entities in both halves, there are no examples.
    """
    assert linker.kb is not None
    halves = train[::2], train[1::2]
    if not all(Gold.of(half, linker.kb).in_kb.any() for half in halves):
        return [], []
    parts = []
    for corpus, others in ((halves[0], halves[1]), (halves[1], halves[0]), (dev, train)):
        named = linker.kb.with_names_of(others, expand_abbreviations=linker.config.expand_abbreviations)
        retrieval = linker.configured(kb=named).retrieve(corpus, k=0)
        parts.append(_entity_examples(retrieval, Facts.of(retrieval.inputs), corpus, named))
    return parts[:2], parts[2:]


def recall(compared: Compared, corpus: Corpus) -> dict[str, float]:
    """Return the share of the pairs of mentions that mean the same that each search finds, and ``all`` together."""
    retrieval, facts = compared.retrieval, compared.facts
    label, group = Gold.of(corpus).classes, codes_of(retrieval.groups)
    cluster = codes_of(zip(label.tolist(), group.tolist(), strict=True))
    size = np.bincount(cluster[label >= 0])
    shares = {}
    searches = searched(facts, retrieval.mentions)
    first, second = (np.concatenate(sides) for sides in zip(*searches.values(), strict=True))
    for name, pairs in (searches | {"all": (first, second)}).items():
        first, second = distinct(pairs[0], pairs[1], len(facts))
        right = (cluster[first] == cluster[second]) & (label[first] >= 0)
        shares[name] = float(right.sum() / max((size * (size - 1) // 2).sum(), 1))
    return shares


def thinned(group: Ids, correct: Bools, most: float) -> Bools:
    """Keep all correct pairs and, at even steps, wrong ones, so that no group has more than ``most``; (pairs,)."""
    chosen = np.ones(len(group), np.bool_)
    for large in np.flatnonzero(np.bincount(group) > most):
        wrong = np.flatnonzero((group == large) & ~correct)
        room = max(most - int(correct[group == large].sum()), 0)
        chosen[wrong] = False
        chosen[wrong[np.arange(room) * len(wrong) // max(room, 1)]] = True
    return chosen


def known_elsewhere(retrieval: Retrieval, classes: Gold) -> Bools:
    """Tell for each mention whether its annotation says what it means in other documents too; (mentions,).

    A gold id does. Gold clusters do if one of them, in the same group, has mentions of several documents: otherwise
    they are chains inside documents.
    """
    by_id = np.array([bool(gold) for gold in retrieval.inputs.column("gold")], np.bool_)
    group, document = codes_of(retrieval.groups), codes_of(retrieval.inputs.column("document_id"))
    chained = np.flatnonzero(~by_id & (classes.classes >= 0))
    distinct = np.unique(np.stack([classes.classes[chained], document[chained]]), axis=1)[0]
    across = np.flatnonzero(np.bincount(distinct) > 1)
    return by_id | np.isin(group, group[chained[np.isin(classes.classes[chained], across)]])

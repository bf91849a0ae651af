"""Train an edge model on documents with gold clusters, gold entities, or both."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.codes import codes_of
from arbo.data.gold import Gold
from arbo.edges.facts import Facts
from arbo.edges.features import Matrix
from arbo.edges.model import CandidatePairs, EdgeModel
from arbo.edges.pairs import distinct, searched
from arbo.edges.trees import Trees
from arbo.encoders.by_name import encoder_of
from arbo.encoders.cross import PairEncoder
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder
from arbo.encoders.model_folder import check_model_replaceable
from arbo.encoders.pretrained import MINILM
from arbo.engine import Bools
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, real
from arbo.linker import Linker
from arbo.retrieval.retrieval import Retrieval
from arbo.training.config import DoubtfulConfig, RunOptions
from arbo.training.data import job_of
from arbo.training.pairs import Compared

Examples = tuple[Matrix, Bools]
"""Features of pairs, (pairs, features), and whether each pair is right."""
_MOST = 250_000  # number of pairs of a group that teach, so that time does not grow with the square of a document


def train_edges(
    documents: Iterable[Any],
    dev: Iterable[Any],
    kb: KnowledgeBase | None = None,
    *,
    linker: Linker | None = None,
    names: bool = False,
    cross: Encoder | PathLike | None = None,
    out: PathLike | None = None,
    config: DoubtfulConfig | None = None,
) -> EdgeModel:
    """Train a model to predict whether two mentions mean the same and, with ``kb``, whether a mention means an entity.

    Two mentions mean the same if they have the same gold ids or, without any, the same gold cluster. Boosted trees are
    fitted to pairs of ``documents``, and their probabilities are calibrated on pairs of ``dev`` (Platt scaling).

    Args:
        documents: training documents, see `Linker.link`.
        dev: annotated documents that are not among the training documents.
        kb: the knowledge base of the gold entities; None to learn edges between mentions alone.
        linker: finds neighbours and candidates, and should have the encoder that links later; the default uses
            character n-grams.
        names: with ``kb``, learn also from entities to which the names of other training documents are added as
            aliases, for linking with ``kb.with_names_of(documents)``.
        cross: a transformer, or its name, from which a cross-encoder is trained that reads the pairs of mentions that
            the trees leave doubtful, see `arbo.training.doubtful`; None for trees alone.
        out: with ``cross``, the folder to write the model to. A killed training resumes from ``OUT.training``.
        config: settings of the training of the cross-encoder.

    Raises:
        DataError: in ``documents`` or in ``dev``, the pairs of two mentions, or of a mention and an entity, are all
            correct or all wrong; or a cross-encoder has no doubtful pairs to learn from, or the pairs of one half of
            ``documents`` are all correct or all wrong.
        UsageError: ``cross`` is given without ``out``, or is no transformer, or ``out`` has other files.
    """
    start = None if cross is None else _start(cross, out)
    searching = (linker or Linker()).configured(kb=kb, reranker=None, edges=None)
    train, held_out = Corpus.of(documents), Corpus.of(dev)
    compared = Compared.of(searching, train, _MOST), Compared.of(searching, held_out)
    parts = [_examples(pairs, corpus, searching.kb) for pairs, corpus in zip(compared, (train, held_out), strict=True)]
    if kb is not None and names:
        for part, more in zip(parts, named_examples(searching, train, held_out), strict=True):
            features, correct = zip(part[1], *more, strict=True)
            part[1] = np.concatenate(features), np.concatenate(correct)
    forests = [Trees.fit(*train).calibrated(*other) for train, other in zip(*parts, strict=True)]
    trained = {
        "pairs": [len(correct) for _, correct in parts[0]],
        "recall": recall(compared[1], held_out),
        "encoder": searching.encoder.settings,
    }
    model = EdgeModel(forests[0], forests[1] if kb is not None else None, trained)
    if start is None or out is None:
        return model
    from arbo.training.doubtful import with_reader  # which needs torch

    config = config or DoubtfulConfig()
    corpora = {"documents": train, "dev": held_out}
    job = job_of(corpora, kb or KnowledgeBase(), config=config, cross=start.settings, trees=model.settings)
    options = RunOptions(announce=searching.announce)
    return with_reader(model, start, *compared, out=out, job=job, config=config, options=options)


def _start(cross: Encoder | PathLike, out: PathLike | None) -> PairEncoder:
    """Make an untrained cross-encoder, before any other work; see `train_edges` for the errors."""
    if out is None:
        raise UsageError("an edge model with a cross-encoder is written to a folder; name the folder: out=...")
    check_model_replaceable(real(out))
    encoder = encoder_of(cross)
    if not isinstance(encoder, DualEncoder):
        raise UsageError(f"a cross-encoder starts from a transformer, such as {MINILM}, not from {cross}")
    return replace(PairEncoder.of(encoder.mention_tower).with_markers(), name=encoder.name)


def examples(linker: Linker, corpus: Corpus) -> list[Examples]:
    """Return features and correctness of pairs of mentions and, with a knowledge base, of mentions and candidates.

    Raise DataError if the pairs of one kind are all correct or all wrong.
    """
    return _examples(Compared.of(linker, corpus), corpus, linker.kb)


def _examples(pairs: Compared, corpus: Corpus, kb: KnowledgeBase | None) -> list[Examples]:
    parts = [(pairs.features, pairs.correct)]
    if kb is not None:
        parts.append(_entity_examples(pairs.retrieval, pairs.facts, corpus, kb))
    for (_, correct), what in zip(parts, ("two mentions", "a mention and an entity"), strict=False):
        if correct.all() or not correct.any():
            raise DataError(
                f"{int(correct.sum()):,} of {len(correct):,} pairs of {what} mean the same, but training needs both "
                "pairs that do and pairs that do not; check the gold ids or gold clusters of the documents and, if "
                "there is a knowledge base, that it has the ids"
            )
    return parts


def _entity_examples(retrieval: Retrieval, facts: Facts, corpus: Corpus, kb: KnowledgeBase) -> Examples:
    gold, pairs = Gold.of(corpus, kb), CandidatePairs.of(retrieval, kb)
    features = pairs.features(facts, slice(None))
    right = gold.mention * len(kb) + gold.rows
    known = gold.annotated[pairs.mention]
    return features[known], np.isin(pairs.mention * len(kb) + pairs.entity, right)[known]


def named_examples(linker: Linker, train: Corpus, dev: Corpus) -> tuple[list[Examples], list[Examples]]:
    """Return examples to fit and to calibrate, with entities that have names of other training documents as aliases.

    Each half of the training documents gets the names of the other half: with its own names, each mention's name would
    be an alias of its gold entity. Without gold entities in both halves, there are no examples.
    """
    assert linker.kb is not None
    halves = train[::2], train[1::2]
    if not all(Gold.of(half, linker.kb).in_kb.any() for half in halves):
        return [], []
    parts = []
    for corpus, others in ((halves[0], halves[1]), (halves[1], halves[0]), (dev, train)):
        named = linker.kb.with_names_of(others, expand_abbreviations=linker.config.expand_abbreviations)
        retrieval = linker.configured(kb=named).retrieve(corpus, k=0, discover=False)
        parts.append(_entity_examples(retrieval, Facts.of(retrieval.inputs), corpus, named))
    return parts[:2], parts[2:]


def recall(compared: Compared, corpus: Corpus) -> dict[str, float]:
    """Return, by the name of each search, the share that it finds of the pairs of mentions that mean the same.

    The name ``all`` stands for all searches together; see `arbo.edges.pairs.searched`.
    """
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

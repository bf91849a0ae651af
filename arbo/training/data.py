"""Training data: the mentions of annotated documents, with their entities or gold clusters, and their vectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from arbo.data import Corpus, Gold, KnowledgeBase, MentionInput, codes_of, mention_inputs
from arbo.data.tables import labels_in
from arbo.encoders.dual import DualEncoder
from arbo.engine import Bools, Ids, Metric, Vectors, pairs_of
from arbo.errors import DataError
from arbo.progress import Announce, quiet
from arbo.training.config import LoopConfig


class Rivals(NamedTuple):
    """The gold ids and gold cluster of each mention, as numbers, and the domains of mentions and entities."""

    mention: Ids  # (gold ids,) the mention of each gold id, ascending
    id: Ids  # (gold ids,) the index of an entity, or a higher number
    domain: Ids  # (mentions,) the code of each mention's domain
    entity_domain: Ids  # (entities,)

    @classmethod
    def of(
        cls, rows: Sequence[Iterable[int]], domains: Sequence[str | None], entity_domains: Sequence[str | None]
    ) -> Self:
        """Make rivals from the gold ids of each mention, and the domains of mentions and entities."""
        pairs = [(place, id_) for place, row in enumerate(rows) for id_ in dict.fromkeys(row)]
        domain, entity_domain = np.split(codes_of([*domains, *entity_domains]), [len(domains)])
        mention, ids = np.array(pairs, np.int64).reshape(-1, 2).T
        return cls(mention, ids, domain, entity_domain)

    def is_wrong(self, mention: Ids, entity: Ids) -> Bools:
        """Return whether ``entity[i]`` is in the domain of ``mention[i]`` and not among its gold ids; (pairs,)."""
        return np.asarray(self.domain[mention] == self.entity_domain[entity]) & ~self._holds(mention, entity)

    def are_apart(self, a: Ids, b: Ids) -> Bools:
        """Return whether mentions ``a[i]`` and ``b[i]`` differ, have one domain, and share no gold id; (pairs,)."""
        place, pair = pairs_of(self.mention, b)
        n_shared = np.bincount(pair[self._holds(a[pair], self.id[place])], minlength=len(b))
        return np.asarray((n_shared == 0) & (a != b) & (self.domain[a] == self.domain[b]))

    def _holds(self, mention: Ids, id_: Ids) -> Bools:
        """Return, for each pair, whether the id is among the mention's gold ids; (pairs,)."""
        width = np.int64(1 + max(self.id.max(initial=0), id_.max(initial=0)))
        return np.isin(mention * width + id_, self.mention * width + self.id)


@dataclass(frozen=True, eq=False, slots=True)
class TrainingSet:
    """Mentions with gold ids or gold clusters, and a knowledge base, which is empty if there is none."""

    rows: Ids  # (mentions,) the row of each mention among all mentions of the documents
    inputs: Sequence[MentionInput]
    kb: KnowledgeBase
    gold: Gold
    rivals: Rivals
    cluster: Ids  # (mentions,) the first gold entity, or else a number of at least ``len(kb)``; -1: not trained on

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        kb: KnowledgeBase,
        *,
        clusters: bool = False,
        expand_abbreviations: bool = True,
        purpose: str = "train on",
    ) -> Self:
        """Make a training set of the annotated mentions of documents; errors begin with "nothing to" and ``purpose``.

        With ``clusters``, mentions without an entity in the knowledge base are trained on too if another mention of
        their domain has the same gold ids or, without any, the same gold cluster. Mentions that are not trained on can
        only be negatives. Raise DataError if no mention is trained on, or none has an entity of a non-empty ``kb``.
        """
        labels = labels_in(corpus.tables.mentions) if clusters else corpus.tables.mentions["gold"].to_pylist()
        chosen = np.array([*map(bool, labels)], np.bool_)
        annotated = corpus.of_tables(corpus.tables.of_mentions(chosen))
        gold = Gold.of(annotated, kb if len(kb) else None)
        if not (inputs := mention_inputs(annotated, expand_abbreviations=expand_abbreviations)):
            what = "a gold id or gold cluster" if clusters else "a gold id"
            raise DataError(f"nothing to {purpose}: no mention (of {corpus.n_mentions:,}) has {what}; annotate some")
        domains = [item.document.domain for item in inputs]
        rivals = Rivals.of(_codes(gold, kb, inputs), domains, [entity.domain for entity in kb])
        cluster = _clusters(gold.first, gold.classes, rivals.domain, len(kb)) if clusters else gold.first
        if not gold.in_kb.any() if len(kb) else (cluster < 0).all():
            missing = "an entity of the knowledge base" if len(kb) else "the gold id or gold cluster of another"
            wrong = f"no annotated mention (of {len(inputs):,}) has {missing} in its domain"
            raise DataError(f"nothing to {purpose}: {wrong}; check that the ids and the domains match")
        return cls(np.flatnonzero(chosen), inputs, kb, gold, rivals, cluster)

    @property
    def queries(self) -> Ids:
        """The mentions to train on."""
        return np.flatnonzero(self.cluster >= 0)


def _codes(gold: Gold, kb: KnowledgeBase, inputs: Sequence[MentionInput]) -> list[Iterable[int]]:
    """Return numbers for the gold ids of each mention; mentions of a cluster share theirs, and are not negatives."""
    number: dict[tuple[str, str], int] = {}
    clusters: dict[str, dict[int, None]] = {}
    rows: list[Iterable[int]] = []
    for entities, ids, item in zip(gold.lists, gold.ids, inputs, strict=True):
        outside = [("id", id_) for id_ in ids or () if not kb.rows_within((id_,), item.document.domain)]
        shared: dict[int, None] = {}
        if (name := item.mention.cluster) is not None:
            shared = clusters.setdefault(name, shared)
            outside.append(("cluster", name))
        shared |= dict.fromkeys([*entities, *(len(kb) + number.setdefault(id_, len(number)) for id_ in outside)])
        rows.append(shared)
    return rows


def _clusters(entity: Ids, classes: Ids, domain: Ids, n_entities: int) -> Ids:
    """Return each mention's entity or, without one, the number of its class in its domain; -1 if it is alone there."""
    _, group, count = np.unique(domain * (1 + classes.max()) + classes, return_inverse=True, return_counts=True)
    return np.where(entity >= 0, entity, np.where(count[group] > 1, n_entities + group, -1))


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """Vectors of the training data from the model at one step, in evaluation mode.

    Its nodes are numbered from 0: first the entity texts (the names of each entity, or one text), then the mentions.
    """

    entities: Vectors  # pair ``i`` is entity text ``i``
    mentions: Vectors
    gold: Ids  # (mentions,) the gold entity of each mention, or a larger number for a cluster without one, or -1
    metric: Metric

    @classmethod
    def of(cls, data: TrainingSet, encoder: DualEncoder, announce: Announce = quiet) -> Self:
        """Embed all entities and mentions with the current encoder, in evaluation mode."""
        entities, mentions = encoder.encode_entities(data.kb, announce), encoder.encode_mentions(data.inputs, announce)
        return cls(entities, mentions, data.cluster, encoder.metric)

    @classmethod
    def unread(cls, data: TrainingSet, owner: Ids, metric: Metric) -> Self:
        """Return vectors of zeros, for choices that do not depend on them; ``owner`` has the entity of each text."""
        entities = Vectors.of(np.zeros((len(owner), 1)), owner, n=len(data.kb))
        return cls(entities, Vectors.of(np.zeros((len(data.inputs), 1))), data.cluster, metric)

    @property
    def n_texts(self) -> int:
        """Number of entity texts; also the node of the first mention."""
        return len(self.entities.row)


def sets_of(
    documents: Iterable[Any], dev: Iterable[Any] | None, kb: KnowledgeBase, **how: Any
) -> tuple[dict[str, Corpus], dict[str, TrainingSet]]:
    """Return the corpora ``documents`` and, if it is given, ``dev``, by these names, and `TrainingSet.of` each."""
    corpora = {"documents": Corpus.of(documents)} | ({} if dev is None else {"dev": Corpus.of(dev)})
    purpose = {"documents": "train on", "dev": "choose the best model by"}
    return corpora, {name: TrainingSet.of(one, kb, purpose=purpose[name], **how) for name, one in corpora.items()}


def job_of(corpora: Mapping[str, Corpus], kb: KnowledgeBase, config: LoopConfig, **what: Any) -> dict[str, Any]:
    """Return the values that identify a training run: settings, ``what`` (models) and the fingerprints of its data."""
    values = config.as_dict()
    del values["micro_batch"]  # a resumed training may change it
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items()}
    return {"config": values, **what, **fingerprints, "knowledge_base": kb.fingerprint}

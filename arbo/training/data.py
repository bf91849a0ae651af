"""Training data: the mentions of annotated documents, and their entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Bools, Ids, ranges
from arbo.errors import DataError
from arbo.training.config import LoopConfig


class Rivals(NamedTuple):
    """The gold ids of each mention, as rows of entities or higher codes, and the domains of mentions and entities."""

    indptr: Ids  # (mentions + 1,)
    id: Ids  # (gold ids,) distinct gold ids; those of mention ``m`` begin at ``indptr[m]``
    domain: Ids  # (mentions,) the code of each mention's domain
    entity_domain: Ids  # (entities,)

    @classmethod
    def of(
        cls, rows: Sequence[Iterable[int]], domains: Sequence[str | None], entity_domains: Sequence[str | None]
    ) -> Self:
        """Make rivals from the gold ids of each mention, and the domains of mentions and entities."""
        distinct = [list(dict.fromkeys(row)) for row in rows]
        number = {name: place for place, name in enumerate(dict.fromkeys([*domains, *entity_domains]))}
        own, others = (np.array([number[name] for name in names], np.int64) for names in (domains, entity_domains))
        ids = np.array([id_ for row in distinct for id_ in row], np.int64)
        return cls(np.cumsum([0, *map(len, distinct)]), ids, own, others)

    def is_wrong(self, mention: Ids, entity: Ids) -> Bools:
        """Return, for each pair, whether the entity is in the mention's domain and not among its gold ids."""
        inside: Bools = self.domain[mention] == self.entity_domain[entity]
        return inside & ~self._holds(mention, entity)

    def are_apart(self, a: Ids, b: Ids) -> Bools:
        """Return, for each pair, whether it is of two different mentions of one domain without a common gold id."""
        count = np.diff(self.indptr)[b]
        place, pair = ranges(self.indptr[b], count), np.repeat(np.arange(len(b)), count)
        shared = self._holds(a[pair], self.id[place])
        n_shared = np.bincount(pair[shared], minlength=len(b))
        apart: Bools = (n_shared == 0) & (a != b) & (self.domain[a] == self.domain[b])
        return apart

    def _holds(self, mention: Ids, id_: Ids) -> Bools:
        """Whether an id is among a mention's gold ids; (pairs,)."""
        width = np.int64(1 + max(self.id.max(initial=0), id_.max(initial=0)))
        own = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr)) * width + self.id
        return np.isin(mention * width + id_, own)


PURPOSES = {"documents": "train on", "dev": "choose the best model by"}
"""What each argument with documents is for; errors say that there is "nothing to" do so."""


@dataclass(frozen=True, eq=False, slots=True)
class TrainingSet:
    """Mentions with gold ids, and a knowledge base."""

    inputs: list[MentionInput]  # the mentions that have gold ids
    kb: KnowledgeBase
    gold: Gold
    rivals: Rivals

    @classmethod
    def of(
        cls, corpus: Corpus, kb: KnowledgeBase, *, expand_abbreviations: bool = True, purpose: str = "train on"
    ) -> Self:
        """Take the annotated mentions of documents; errors say that there is nothing to ``purpose``.

        Raise DataError if no mention has a gold id that the knowledge base holds in its domain.
        """
        annotated = corpus.of_documents(
            replace(d, mentions=tuple(mention for mention in d.mentions if mention.gold)) for d in corpus
        )
        gold, inputs = Gold.of(annotated, kb), mention_inputs(annotated, expand_abbreviations=expand_abbreviations)
        if not inputs:
            raise DataError(
                f"nothing to {purpose}: none of {len(corpus.mentions):,} mentions is annotated with the id of an entity"
            )
        if not gold.in_kb.any():
            raise DataError(
                f"nothing to {purpose}: none of {len(inputs):,} mentions has a gold id that the knowledge base holds "
                "in the domain of the document; check that the ids and the domains match"
            )
        domains = [item.document.domain for item in inputs]
        outside: dict[str, int] = {}
        rows = [
            [
                *own,
                *(
                    len(kb) + outside.setdefault(id_, len(outside))
                    for id_ in ids or ()
                    if not kb.rows_within((id_,), domain)
                ),
            ]
            for own, ids, domain in zip(gold.lists, gold.ids, domains, strict=True)
        ]
        return cls(inputs, kb, gold, Rivals.of(rows, domains, [entity.domain for entity in kb]))

    @property
    def entity(self) -> Ids:
        """(mentions,) the first gold entity of each mention, -1 for a mention whose gold ids name no entity.

        Mentions with a gold entity are trained on; the others can only be negatives.
        """
        return self.gold.first

    @property
    def queries(self) -> Ids:
        """The mentions to train on."""
        return np.flatnonzero(self.entity >= 0)


def corpora_of(documents: Iterable[Any], dev: Iterable[Any] | None) -> dict[str, Corpus]:
    """Return the corpora ``documents`` and, if it is given, ``dev``, by these names."""
    return {"documents": Corpus.of(documents)} | ({} if dev is None else {"dev": Corpus.of(dev)})


def training_sets(
    corpora: Mapping[str, Corpus], kb: KnowledgeBase, *, expand_abbreviations: bool
) -> dict[str, TrainingSet]:
    """Collect the mentions of each corpus from `corpora_of`."""
    return {
        name: TrainingSet.of(corpus, kb, expand_abbreviations=expand_abbreviations, purpose=PURPOSES[name])
        for name, corpus in corpora.items()
    }


def job_of(corpora: Mapping[str, Corpus], kb: KnowledgeBase, **what: Any) -> dict[str, Any]:
    """Return the values that identify a training run.

    They are the settings and models in ``what``, without the settings that do not affect the result, and the
    fingerprints of the documents and of the knowledge base.
    """
    settings = {name: value.decisive if isinstance(value, LoopConfig) else value for name, value in what.items()}
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items()}
    return {**settings, **fingerprints, "knowledge_base": kb.fingerprint}

"""A knowledge base with its encoder and its vectors, by the groups in which mentions are compared with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from arbo.data import KnowledgeBase
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import Entities, encoded, searchable
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import GroupedEntities, rows_of_entities


@dataclass(eq=False, slots=True)
class EncodedKb:
    """The entities of a knowledge base, which are encoded when they are first needed, and kept.

    The encoder is fitted only to the entities, so that links do not depend on other documents.
    """

    kb: KnowledgeBase
    encoder: Encoder
    """The encoder before it is fitted."""
    announce: Announce = quiet
    _encoded: tuple[Encoder, Entities] | None = None
    _grouped: dict[str | None, GroupedEntities] = field(default_factory=dict)

    @property
    def fitted(self) -> Encoder:
        """The encoder, fitted."""
        return self._made()[0]

    def by_group(self, map_types: str | None) -> GroupedEntities:
        """Return the entities of each group, see `rows_of_entities`."""
        if map_types not in self._grouped:
            self._grouped[map_types] = GroupedEntities(self._made()[1], rows_of_entities(self.kb, map_types))
        return self._grouped[map_types]

    def in_one_group(self) -> EncodedKb:
        """Return the same entities in one group, that of mentions without a domain; they are encoded now."""
        whole = self.by_group(None).whole
        one = GroupedEntities(whole, {None: np.arange(whole.n, dtype=np.int32)})
        return EncodedKb(self.kb, self.encoder, self.announce, self._encoded, {None: one})

    def with_fitted(self, fitted: Encoder) -> EncodedKb:
        """Return the same entities encoded by an encoder that is fitted already."""
        return EncodedKb(self.kb, self.encoder, self.announce, (fitted, searchable(self.kb, fitted, self.announce)))

    def _made(self) -> tuple[Encoder, Entities]:
        if self._encoded is None:
            self._encoded = encoded(self.kb, self.encoder, self.announce)
        return self._encoded

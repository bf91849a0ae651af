"""A knowledge base with its encoder and its vectors, divided into the worlds in which mentions are compared with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from arbo.data import KnowledgeBase
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import encoded, searchable
from arbo.engine import Searchable
from arbo.progress import Announce, quiet
from arbo.retrieval.domains import Divided
from arbo.retrieval.worlds import entity_worlds


@dataclass(eq=False, slots=True)
class EncodedKb:
    """The entities of a knowledge base, which are encoded when they are first needed, and kept.

    The encoder is fitted only to the entities, so that links do not depend on other documents.
    """

    kb: KnowledgeBase
    encoder: Encoder
    """The encoder before it is fitted."""
    announce: Announce = quiet
    _encoded: tuple[Encoder, Searchable] | None = None
    _divided: dict[str | None, Divided] = field(default_factory=dict)

    @property
    def fitted(self) -> Encoder:
        """The encoder, fitted."""
        return self._made()[0]

    def divided(self, map_types: str | None) -> Divided:
        """Return the entities of each world, see `entity_worlds`."""
        if map_types not in self._divided:
            self._divided[map_types] = Divided(self._made()[1], entity_worlds(self.kb, map_types))
        return self._divided[map_types]

    def undivided(self) -> EncodedKb:
        """Return the same entities in one world, that of mentions without a domain; they are encoded now."""
        whole = self._made()[1]
        one = Divided(whole, {None: np.arange(whole.n, dtype=np.int32)})
        return EncodedKb(self.kb, self.encoder, self.announce, self._encoded, {None: one})

    def with_fitted(self, fitted: Encoder) -> EncodedKb:
        """Return the same entities encoded by an encoder that is fitted already; they are encoded now."""
        return EncodedKb(self.kb, self.encoder, self.announce, (fitted, searchable(self.kb, fitted, self.announce)))

    def _made(self) -> tuple[Encoder, Searchable]:
        if self._encoded is None:
            self._encoded = encoded(self.kb, self.encoder, self.announce)
        return self._encoded

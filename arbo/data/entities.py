"""Entities: the entries of a knowledge base."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arbo.text.checks import check_metadata, check_name, check_text, check_texts


@dataclass(frozen=True, slots=True)
class Entity:
    """An entry of a knowledge base.

    Gold annotations may use its id or one of its `alternative_ids`. `xrefs` are its ids in other knowledge bases, and
    `domain` is the domain of the mentions that can be linked to it. `metadata` holds further keys or columns of the
    source, which affect neither results nor comparisons.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    definition: str | None = None
    types: tuple[str, ...] = ()
    alternative_ids: tuple[str, ...] = ()
    xrefs: tuple[str, ...] = ()
    domain: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_name(self.id, "the entity id")
        check_name(self.name, "the entity's name", of=self.id)
        for what in ("aliases", "types", "xrefs"):
            check_texts(getattr(self, what), what, of=self.id)
        check_texts(self.alternative_ids, "alternative_ids", of=self.id, blank=False)
        for what in ("definition", "domain"):
            if getattr(self, what) is not None:
                check_text(getattr(self, what), what, of=self.id)
        check_metadata(self.metadata, of=self.id)

"""The settings of the transformer encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from arbo.encoders.pooling import Pooling
from arbo.encoders.templates import ENTITY_FIELDS, MENTION_FIELDS, Template
from arbo.engine import Metric
from arbo.settings import Count, Finite, Number, Settings

EntityView = Literal["names", "whole"]


@dataclass(frozen=True, slots=True)
class EncoderConfig(Settings):
    """What a transformer reads of a mention and of an entity, and how its output becomes a vector, or several.

    The defaults suit a general sentence encoder that was never trained to link: names without context. What ArboEL
    trains is `EncoderConfig.in_context()`.
    """

    format: ClassVar[str] = "arbo-model"
    called: ClassVar[str] = "the encoder's configuration"

    mention: str = "[CLS] {mention} [SEP]"
    """Template of a mention; fields: left, mention, right."""
    entity: str = "[CLS] {name} [SEP]"
    """Template of an entity; fields: name, definition, aliases, types, and description: the definition, or the
    aliases of an entity without one."""
    entity_view: EntityView = "names"
    """One vector for each name of an entity, or one for the whole entity."""
    pooling: Pooling = "mean"
    """The first token's vector (``cls``), the mean of all, or the mean over the mention's (or name's) own tokens; or no
    pooling: the vectors of all ``tokens`` are kept, and each of the mention's is compared with its best match
    (`clustering.late_interaction`)."""
    context: Number | None = None
    """Words on either side of the mention; None for as many as fit."""
    within_line: bool = False
    """Whether the context ends where the mention's line does: for texts of one sentence a line."""
    max_length: Count = 128
    """Tokens of one text, markers included; a mention is never cut off unless it is longer itself."""
    metric: Metric = "cosine"
    """How vectors are compared."""
    entity_threshold: Finite | None = None
    """Default threshold between entity and mention; None for that of the metric, `DEFAULT_THRESHOLD`."""
    mention_threshold: Finite | None = None
    """Default threshold between mentions."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        self.templates()

    @classmethod
    def in_context(cls, **changes: Any) -> Self:
        """Return the inputs of the ArboEL paper (section 2.1): mentions in context, entities with a description."""
        preset: dict[str, Any] = {
            "mention": "[CLS] {left} [START] {mention} [END] {right} [SEP]",
            "entity": "[CLS] {name} [TITLE] {description} [SEP]",
            "entity_view": "whole",
            "pooling": "cls",
            "metric": "dot",
        }
        return cls(**(preset | changes))

    def templates(self) -> tuple[Template, Template]:
        """Parse the templates of mentions and of entities."""
        return (
            Template.parse(self.mention, MENTION_FIELDS, focus="mention"),
            Template.parse(self.entity, ENTITY_FIELDS, focus="name"),
        )

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
    """Settings of the transformer encoder: its input for mentions and entities, and the pooling of its output.

    The defaults suit a general sentence encoder that is not trained to link: names without context. ArboEL uses
    `EncoderConfig.in_context()`.
    """

    format: ClassVar[str] = "arbo-model"
    called: ClassVar[str] = "the encoder's configuration"

    mention: str = "[CLS] {mention} [SEP]"
    """Template of a mention; fields: left, mention, right."""
    entity: str = "[CLS] {name} [SEP]"
    """Template of an entity; fields: name, definition, aliases, types, and description, which is the definition, or the
    aliases if there is no definition."""
    entity_view: EntityView = "names"
    """One vector for each name of an entity, or one for the whole entity."""
    pooling: Pooling = "mean"
    """The first token's vector (``cls``), the mean of all tokens (``mean``), the mean over the tokens of the mention or
    name (``mention``), or no pooling (``tokens``): all token vectors are kept, and each one of the mention is compared
    with its best match (`clustering.late_interaction`)."""
    context: Number | None = None
    """Words on either side of the mention; None for as many as fit."""
    within_line: bool = False
    """Restrict the context to the line of the mention, for texts with one sentence per line."""
    max_length: Count = 128
    """Tokens per text, special tokens included; mentions are cut only if they are longer than this themselves."""
    metric: Metric = "cosine"
    """Similarity of vectors."""
    entity_threshold: Finite | None = None
    """Default threshold between entity and mention; None for the default of the metric, `DEFAULT_THRESHOLD`."""
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

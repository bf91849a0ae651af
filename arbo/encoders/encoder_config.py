"""The settings of the transformer encoder."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from arbo.encoders.templates import ENTITY_FIELDS, MENTION_FIELDS, Template
from arbo.engine import Metric
from arbo.settings import Count, Finite, Number, Settings

EntityView = Literal["names", "whole"]
Pooling = Literal["cls", "mean", "mention"]


@dataclass(frozen=True, slots=True)
class EncoderConfig(Settings):
    """Settings of the transformer encoder: its input for mentions and entities, and the pooling of its output.

    The defaults suit a general sentence encoder that is not trained to link: names without context. ArboEL uses
    `EncoderConfig.in_context()`.
    """

    format: ClassVar[str] = "arbo-model"

    mention: str = "[CLS] {mention} [SEP]"
    """Template of a mention, with the fields left, mention and right."""
    entity: str = "[CLS] {name} [SEP]"
    """Template of an entity, with the fields name, definition, aliases, types and description; the description is the
    definition, or the aliases if there is no definition."""
    entity_view: EntityView = "names"
    """``names`` gives one vector for each name of an entity, ``whole`` one vector for the entity."""
    pooling: Pooling = "mean"
    """How the token vectors of a text are pooled: the vector of the first token (``cls``), the mean of all tokens
    (``mean``), or the mean over the tokens of the mention or name (``mention``)."""
    context: Number | None = None
    """Maximum number of words on either side of the mention; None means as many as fit."""
    within_line: bool = False
    """Restrict the context to the line of the mention, for texts with one sentence per line."""
    max_length: Count = 128
    """Maximum number of tokens per text, including special tokens; the context is truncated before the mention is."""
    metric: Metric = "cosine"
    """Measure of similarity between vectors: ``cosine``, or ``dot`` for the inner product."""
    entity_threshold: Finite | None = None
    """Default threshold on the dissimilarity of entity and mention; None means that of the metric: 0.35 for cosine, 0
    for dot."""
    mention_threshold: Finite | None = None
    """Default threshold on the dissimilarity of two mentions; None means that of the metric: 0.2 for cosine, 0 for
    dot."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        self.templates()

    @classmethod
    def in_context(cls, **changes: Any) -> Self:
        """Return the settings of the ArboEL paper (section 2.1): mentions in context, entities with descriptions."""
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
        mention = Template.parse(self.mention, MENTION_FIELDS, focus="mention")
        return mention, Template.parse(self.entity, ENTITY_FIELDS, focus="name")

"""The settings of the transformer encoder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar, Literal, Self, get_args

from arbo.encoders.pooling import POOLINGS, Pooling
from arbo.encoders.templates import ENTITY_FIELDS, MENTION_FIELDS, Template
from arbo.errors import UsageError
from arbo.settings import read_json, settings_of
from clustering.vectors import METRICS, Metric

EntityView = Literal["names", "whole"]


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """What a transformer reads of a mention and of an entity, and how its output becomes a vector, or several.

    The defaults suit a general sentence encoder that was never trained to link: names without context. What ArboEL
    trains is `EncoderConfig.in_context()`.
    """

    format: ClassVar[str] = "arbo-model"
    kind: ClassVar[str] = "a dual-encoder"

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
    context: int | None = None
    """Words on either side of the mention; None for as many as fit."""
    within_line: bool = False
    """Whether the context ends where the mention's line does: for texts of one sentence a line."""
    max_length: int = 128
    """Tokens of one text, markers included; a mention is never cut off unless it is longer itself."""
    metric: Metric = "cosine"
    """How vectors are compared."""
    entity_threshold: float | None = None
    """Default threshold between entity and mention; None for that of the metric, `DEFAULT_THRESHOLD`."""
    mention_threshold: float | None = None
    """Default threshold between mentions."""

    def __post_init__(self) -> None:
        self.templates()
        choices: dict[str, tuple[Any, ...]] = {
            "pooling": POOLINGS,
            "entity_view": get_args(EntityView),
            "metric": METRICS,
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} {getattr(self, name)!r} is not one of {', '.join(known)}")
        if type(self.max_length) is not int or self.max_length < 1:
            raise UsageError(f"max_length must be a number of tokens, not {self.max_length!r}")
        if self.context is not None and (type(self.context) is not int or self.context < 0):
            raise UsageError(f"context must be a number of words or None, not {self.context!r}")
        if type(self.within_line) is not bool:
            raise UsageError(f"within_line must be true or false, not {self.within_line!r}")
        for name in ("entity_threshold", "mention_threshold"):
            value = getattr(self, name)
            if value is not None and (type(value) not in (int, float) or not abs(value) < math.inf):
                raise UsageError(f"{name} must be a finite number or None, not {value!r}")

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

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Self:
        """Read an object of these fields; unknown ones are an error."""
        return cls.from_dict(read_json(path, "the encoder's configuration"), file=fspath(path))

    @classmethod
    def from_dict(cls, values: object, *, file: str | None = None) -> Self:
        """Make a configuration of named values; unknown names are an error."""
        return settings_of(cls, values, file=file)

    def templates(self) -> tuple[Template, Template]:
        """Parse the templates of mentions and of entities."""
        if not isinstance(self.mention, str) or not isinstance(self.entity, str):
            raise UsageError("the templates mention and entity must be strings")
        return (
            Template.parse(self.mention, MENTION_FIELDS, focus="mention"),
            Template.parse(self.entity, ENTITY_FIELDS, focus="name"),
        )

"""Settings of which a JSON file changes single fields."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from arbo.settings import read_json, settings_of

if TYPE_CHECKING:
    from arbo.encoders.cross_config import CrossEncoderConfig
    from arbo.encoders.encoder_config import EncoderConfig
    from arbo.spans.config import LabelAttentionConfig
    from arbo.training.config import LoopConfig

Settings = TypeVar("Settings", bound="LoopConfig | EncoderConfig | CrossEncoderConfig | LabelAttentionConfig")


def overridden(base: Settings, file: Path | None, what: str) -> Settings:
    """Change the fields that a JSON file gives; ``what`` names its content in errors.

    Raises:
        DataError: the file cannot be read, or names an unknown field.

    """
    return base if file is None else changed(base, read_json(file, what), file)


def changed(base: Settings, values: object, file: Path) -> Settings:
    """Change the fields that an object of a JSON file gives; an unknown field is a DataError."""
    return settings_of(type(base), asdict(base) | values if isinstance(values, dict) else values, file=str(file))

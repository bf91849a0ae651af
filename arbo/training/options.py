"""Options of a training run, for all models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from arbo.errors import UsageError
from arbo.progress import Announce, quiet


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options that do not affect the result of training. Raise UsageError if ``checkpoint_every`` is below 1."""

    checkpoint_every: int = 500
    """Number of steps between two checkpoints; an epoch ends with a checkpoint too."""
    tensorboard: str | PathLike[str] | None = None
    """Folder for a second log, in the format of TensorBoard."""
    announce: Announce = quiet
    """Shows progress."""
    on_log: Callable[[dict[str, Any]], None] = lambda figures: None
    """Called with each line of the log: the figures of a step and, at the end of an epoch, the scores on ``dev``."""

    def __post_init__(self) -> None:
        if self.checkpoint_every < 1:
            raise UsageError(f"checkpoint_every must be at least 1 step, not {self.checkpoint_every}")

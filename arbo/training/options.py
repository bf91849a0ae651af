"""How a training runs, whatever is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from arbo.errors import UsageError
from arbo.progress import Announce, quiet


def _tell_nobody(figures: dict[str, Any]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a training runs; nothing here changes what is learnt.

    All trainings (`arbo.train` and ``arbo.train_...``) share these arguments. The model that they are given is where
    they start, and is not changed. ``documents`` and ``dev`` are annotated, or whatever `Corpus.of` makes documents of;
    by ``dev`` the best model is chosen at the end of each epoch, and without them the last one is kept. ``config`` says
    what is learnt and how, ``options`` how the training runs. The model is written to the folder ``out``; a training
    that was interrupted goes on where ``OUT.training`` has it, with the same losses.

    Raises:
        DataError: no document has an entity that the knowledge base holds, or a checkpoint cannot be read.
        TrainingError: the loss is NaN or infinite.
        UsageError: the folder cannot be written, or holds anything but a model that arbo saved; ``OUT.training`` is
            of another training, or another process works in it; the device does not compute in that precision;
            TensorBoard is not installed.

    """

    checkpoint_every: int = 500
    """Steps between two checkpoints."""
    tensorboard: str | PathLike[str] | None = None
    """A folder for the log in the format of TensorBoard too."""
    announce: Announce = quiet
    """Shows progress."""
    on_log: Callable[[dict[str, Any]], None] = _tell_nobody
    """Is given each line of the log: the figures of a step, at the end of an epoch those of ``dev`` too."""

    def __post_init__(self) -> None:
        if self.checkpoint_every < 1:
            raise UsageError(f"checkpoint_every must be at least 1 step, not {self.checkpoint_every}")

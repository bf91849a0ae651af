"""The options, the groups of settings and the final report that the trainings share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import arbo
from arbo.cli import console, options
from arbo.cli.fields import Chosen, Group
from arbo.settings import Count, Settings

TRAINING, ALIGNMENT, RERANKING, OSLAT = (
    Group("training", "arbo.training.config", settings)
    for settings in ("TrainingConfig", "SelfAlignmentConfig", "RerankingConfig", "OslatTraining")
)


@dataclass(frozen=True, slots=True)
class LogConfig(Settings):
    """What a training writes besides the model."""

    checkpoint_every: Count = 500
    """Number of steps between two checkpoints; an epoch ends with a checkpoint too."""


LOG = Group("log", __name__, "LogConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The model that a training starts from, and that which it writes."""

    out: options.ModelOut
    encoder: options.Start
    as_json: options.Json = False

    def run(
        self, how: Chosen, scores: Callable[[Mapping[str, Any]], str | None] = lambda figures: None
    ) -> arbo.RunOptions:
        """Return the options of a run that shows its progress, and the scores of the model after each epoch."""
        from arbo.progress import bars

        def tell(figures: dict[str, Any]) -> None:
            text = scores(figures)
            if text is not None:
                place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
                console.say(f"{place}; on the development documents {text}")

        log = how.of(LOG, LogConfig())
        return arbo.RunOptions(log.checkpoint_every, announce=bars, on_log=tell)

    def report(self, settings: Mapping[str, Any], training: Mapping[str, Any], text: str) -> None:
        """Print where the model was written, and what to do next."""
        made = {"model": str(self.out), "settings": settings, "training": training}
        written = f"written to {self.out}; log of all steps: {self.out}.log.jsonl\n{text}"
        console.answer(made, written, as_json=self.as_json)


def preset(text: str) -> Any:
    """Return the option of the presets of a training."""
    return options.option("--preset", metavar="PRESET", help=f"Start from the settings of a paper: {text}")

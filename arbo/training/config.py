"""Training settings: those of the training loop, those of each kind of model, and options of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from arbo.progress import Announce, on_screen
from arbo.settings import Above0, Count, NotBelow0, Number, Settings, Share

PresetName = Literal["arboel", "pel", "amh-dual", "amh-mean", "context"]
RerankingPresetName = Literal["arboel", "pel"]
PositiveStrategy = Literal["entity", "arborescence", "1nn", "1rand", "all"]
NegativeStrategy = Literal["in-batch", "in-batch-hard", "in-batch-mixed", "in-batch+knn", "random", "knn", "mixed"]
LossName = Literal["arborescence", "cross-entropy", "proxy", "bce"]
Schedule = Literal["linear", "exponential", "late-exponential", "constant"]
Optimizer = Literal["adam", "adamw"]
TrainingPrecision = Literal["float32", "bfloat16", "float16"]
Selection = Literal[
    "recall@1", "recall@2", "recall@4", "recall@8", "recall@16", "recall@32", "recall@64", "ari", "b3", "conll"
]


@dataclass(frozen=True, slots=True)
class RunOptions(Settings):
    """Options that do not affect the result of training."""

    checkpoint_every: Count = 500
    """Number of steps between two checkpoints; an epoch ends with a checkpoint too."""
    announce: Announce = on_screen
    """Shows progress."""
    on_log: Callable[[dict[str, Any]], None] = lambda figures: None
    """Called with each line of the log: the figures of a step and, at the end of an epoch, the scores on ``dev``."""


@dataclass(frozen=True, slots=True)
class LoopConfig(Settings):
    """Settings common to all kinds of training."""

    epochs: Count = 5
    """Number of passes over the data."""
    steps: Count | None = None
    """Maximum number of steps; None means all steps of the epochs. The schedule ends with the last step."""
    batch_size: Count = 32
    """Number of mentions per step; of names, texts or pairs, where the class says so."""
    micro_batch: Count = 32
    """Number of mentions (names, texts or pairs) in memory at once; it affects memory, speed and dropout masks."""
    optimizer: Optimizer = "adam"
    """``adam``, or ``adamw``, which takes the weight decay apart from the gradient."""
    learning_rate: Above0 = 5e-5
    """Learning rate after the warm-up."""
    weight_decay: NotBelow0 = 0.0
    """Weight decay of ``adamw``; ``adam`` has none."""
    schedule: Schedule = "linear"
    """How the learning rate changes after the warm-up: linearly to 0, exponentially to a hundredth, or not at all."""
    warmup: Share = 0.1
    """Share of the steps over which the learning rate rises or, with ``late-exponential``, is constant."""
    clip: Above0 | None = 1.0
    """Maximum norm of the gradient; None turns clipping off."""
    precision: TrainingPrecision = "float32"
    """Precision of the forward pass; weights stay in float32."""
    seed: Number = 0
    """Random seed."""

    def learning_rate_at(self, step: int, n_steps: int) -> float:
        """Return the learning rate at `step`, counted from 0, of `n_steps` steps.

        >>> [TrainingConfig(learning_rate=1.0, warmup=0.5).learning_rate_at(step, 4) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
        """
        n_warm = round(self.warmup * n_steps)
        if step < n_warm:
            return self.learning_rate * (1 if self.schedule == "late-exponential" else (step + 1) / n_warm)
        left = (n_steps - step) / max(1, n_steps - n_warm)
        exponential: float = 0.01 ** (1 - left)
        return self.learning_rate * {"linear": left, "constant": 1.0}.get(self.schedule, exponential)


@dataclass(frozen=True, slots=True)
class TrainingConfig(LoopConfig):
    """Training settings of a dual-encoder; `arbo.training.presets` has those of papers.

    The defaults are a good start; see "Where to start" in docs/train.md. With a micro-batch smaller than the batch,
    which saves memory, each text is encoded twice.
    """

    positives: PositiveStrategy = "entity"
    """How to choose the entity or mention that each mention is moved towards, see `arbo.training.dual.plan`."""
    negatives: NegativeStrategy = "in-batch+knn"
    """How to choose what each mention is moved away from, see `arbo.training.dual.plan`."""
    n_negatives: Count = 4
    """Number of negatives per mention, or fewer if there are not as many; ``in-batch`` uses all of the batch, and
    ``in-batch+knn`` these and as many near ones as this."""
    hard_share: Share = 0.5
    """For ``mixed`` and ``in-batch-mixed``: share of negatives that are near the mention."""
    mixup: Above0 | None = None
    """Maximum weight of the positive added to each negative, see `arbo.training.losses`; None adds nothing."""
    mixup_gradient: bool = True
    """Whether gradients flow through what mixup adds to the negatives."""
    loss: LossName = "cross-entropy"
    """See `arbo.training.losses`."""
    scale: Above0 | None = None
    """Factor by which the loss multiplies similarities; None means 32 for ``proxy``, and for other losses 1 for inner
    products and 20 for cosines."""
    margin: NotBelow0 = 0.0
    """For ``proxy``: similarities of positives are pulled above this value, those of negatives below minus it."""
    refresh: Count | None = None
    """Number of steps after which positives and negatives are chosen again; None chooses them once per epoch."""
    best: Selection = "recall@1"
    """Score on the development documents that selects the model; those of clusters (``ari``, ``b3`` and ``conll``) are
    taken at their best thresholds."""


WITHOUT_KB = TrainingConfig(positives="arborescence", negatives="knn", best="ari")
"""The defaults of a training without a knowledge base."""


@dataclass(frozen=True, slots=True)
class RerankingConfig(LoopConfig):
    """Training settings of a cross-encoder; the defaults are those of the ArboEL paper (appendix A.1)."""

    batch_size: Count = 2
    micro_batch: Count = 1
    learning_rate: Above0 = 2e-5


@dataclass(frozen=True, slots=True)
class SelfAlignmentConfig(LoopConfig):
    """Training settings of self-alignment (OSLAT, section 3.1); a batch consists of names.

    The defaults come from the paper (sections 3.3 and 6.1, appendix B) if it gives them. Over the first tenth of the
    steps, the learning rate rises; in the paper it is constant (schedule ``late-exponential``).
    """

    epochs: Count = 20
    learning_rate: Above0 = 2e-3
    schedule: Schedule = "exponential"
    n_positives: Count = 8
    """Maximum number of synonyms per name, sampled if there are more. The paper uses all of them."""
    n_negatives: Count = 50
    """Number of names of other entities to compare each name with, see `arbo.training.oslat`."""


@dataclass(frozen=True, slots=True)
class OslatTraining(SelfAlignmentConfig):
    """Training settings of OSLAT, sections 3.2 and 3.3; a batch consists of pairs of a sentence and an entity."""

    epochs: Count = 10
    learning_rate: Above0 = 2e-4
    n_negatives: Count = 100

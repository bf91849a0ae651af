"""Training settings: those of the loop, which all trainings share, and those of each model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from arbo.engine import Metric
from arbo.settings import Above0, Count, NotBelow0, Number, Settings, Share

PresetName = Literal["arboel", "pel", "pel-fgsm", "amh-dual", "amh-mean", "amh-som"]
RerankingPresetName = Literal["arboel", "pel"]
PositiveStrategy = Literal["entity", "arborescence", "1nn", "1rand", "1nn-cluster", "1rand-cluster"]
NegativeStrategy = Literal["in-batch", "in-batch-hard", "in-batch-mixed", "random", "knn", "mixed"]
LossName = Literal["arborescence", "cross-entropy", "proxy", "bce"]
AlignmentLoss = Literal["nt-xent", "multi-similarity"]
HeadKind = Literal["comparison", "linear"]
Regulariser = Literal["none", "fgsm"]
Schedule = Literal["linear", "exponential", "constant"]
Optimizer = Literal["adam", "adamw"]
TrainingPrecision = Literal["float32", "bfloat16", "float16"]
Selection = Literal["recall@1", "recall@64", "ari"]


@dataclass(frozen=True, slots=True)
class LoopConfig(Settings):
    """Settings that all trainings share, see `arbo.training.loop`."""

    called: ClassVar[str] = "the training's configuration"

    regulariser: Regulariser = "none"
    """Term added to the loss; ``fgsm`` adds the loss of perturbed copies, see `arbo.training.fgsm`."""
    epsilon: Above0 = 0.01
    """For ``fgsm``: size of the perturbation of each component of the input embeddings."""
    adversarial_weight: Above0 = 1.0
    """For ``fgsm``: weight of the loss of perturbed copies."""
    epochs: Count = 5
    steps: Count | None = None
    """Stop after this many steps, if the epochs do not end before; the schedule ends there too."""
    batch_size: Count = 32
    """Mentions per step."""
    micro_batch: Count = 32
    """Mentions whose texts are in memory at once; affects memory and speed, and otherwise only the dropout masks."""
    optimizer: Optimizer = "adam"
    learning_rate: Above0 = 5e-5
    weight_decay: NotBelow0 = 0.0
    """For ``adamw``."""
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: falls linearly to 0, falls exponentially to a hundredth, or stays constant."""
    warmup: Share = 0.1
    """Share of the steps over which the learning rate rises."""
    clip: Above0 | None = 1.0
    """Largest norm of the gradient; None for no clipping."""
    precision: TrainingPrecision = "float32"
    """Precision of the forward pass; weights stay in float32."""
    seed: Number = 0

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that determine the result: all except ``micro_batch``."""
        return {name: value for name, value in self.as_dict().items() if name != "micro_batch"}

    def learning_rate_at(self, step: int, n_steps: int) -> float:
        """Learning rate at `step` (from 0) of `n_steps`.

        >>> [TrainingConfig(learning_rate=1.0, warmup=0.5).learning_rate_at(step, 4) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
        """
        n_warm = round(self.warmup * n_steps)
        if step < n_warm:
            return self.learning_rate * (step + 1) / n_warm
        left = (n_steps - step) / max(1, n_steps - n_warm)
        falls: dict[Schedule, float] = {"linear": left, "exponential": 0.01 ** (1 - left), "constant": 1.0}
        return self.learning_rate * falls[self.schedule]


@dataclass(frozen=True, slots=True)
class TrainingConfig(LoopConfig):
    """Training settings of a dual-encoder.

    The defaults are a good start, see "Where to start" in docs/train.md; `arbo.training.presets` has the settings of
    papers. Each text is encoded twice, once without gradients, if the micro-batch is smaller than the batch, and always
    with ``fgsm``.
    """

    positives: PositiveStrategy = "entity"
    """Choice of each mention's positive, see `arbo.training.dual.positives`."""
    negatives: NegativeStrategy = "knn"
    """Choice of each mention's negatives, see `arbo.training.dual.negatives`."""
    n_negatives: Count = 4
    """Negatives per mention; ``in-batch`` takes all that the batch has, and its variants take no more than that."""
    hard_share: Share = 0.5
    """For ``mixed`` and ``in-batch-mixed``: share of near negatives."""
    mixup: Above0 | None = None
    """Largest share of the positive mixed into the negatives; None for no mixup, see `arbo.training.dual.objective`."""
    mixup_gradient: bool = True
    """Whether gradients flow through the share of the positive in the negatives."""
    loss: LossName = "cross-entropy"
    """See `arbo.training.losses`."""
    scale: Above0 | None = None
    """Factor of similarities in the loss; None for 1 with inner products and 20 with cosines. ``proxy`` uses ``alpha``
    instead."""
    alpha: Above0 = 32.0
    """For ``proxy``: factor of similarities, as ``scale`` for the other losses."""
    margin: NotBelow0 = 0.0
    """For ``proxy``: margin of positives above 0 and of negatives below 0."""
    refresh: Count | None = None
    """Steps between two choices of positives and negatives; None for one choice per epoch."""
    best: Selection = "recall@1"
    """Score on the development documents that selects the best model."""

    def scale_of(self, metric: Metric) -> float:
        """Return the factor of similarities in the loss."""
        if self.loss == "proxy":
            return self.alpha
        defaults: dict[Metric, float] = {"dot": 1.0, "cosine": 20.0}
        return defaults[metric] if self.scale is None else self.scale


@dataclass(frozen=True, slots=True)
class RerankingConfig(LoopConfig):
    """Training settings of a cross-encoder; the defaults are those of the ArboEL paper (appendix A.1)."""

    batch_size: Count = 2
    micro_batch: Count = 1
    learning_rate: Above0 = 2e-5


@dataclass(frozen=True, slots=True)
class ContrastiveConfig(LoopConfig):
    """Settings that the first two trainings of OSLAT share; both contrast names with their synonyms.

    The defaults of all three trainings are those of the paper (appendix B) where it gives them. The warm-up differs:
    over the first tenth of the steps the paper's learning rate is constant, and this one rises.
    """

    regulariser: Literal["none"] = "none"
    schedule: Schedule = "exponential"
    temperature: Above0 = 0.07
    """Divisor of similarities in the loss."""
    n_positives: Count = 8
    """Largest number of synonyms per name, sampled at random if there are more. The paper takes all."""
    n_negatives: Count = 100
    """Names of other entities per name; `arbo.training.oslat.contrastive` says how they are sampled."""


@dataclass(frozen=True, slots=True)
class SelfAlignmentConfig(ContrastiveConfig):
    """Training settings of self-alignment (OSLAT, section 3.1); a batch consists of names."""

    epochs: Count = 20
    learning_rate: Above0 = 2e-3
    n_negatives: Count = 50
    loss: AlignmentLoss = "nt-xent"
    """``multi-similarity`` is the loss of SapBERT, over cosines without a temperature."""
    projection: Count = 128
    """Dimension of the vectors in the loss, the output of two layers that are discarded after training."""


@dataclass(frozen=True, slots=True)
class LabelAttentionTraining(ContrastiveConfig):
    """Training settings of label attention (OSLAT, section 3.2); a batch consists of pairs of text and entity."""

    epochs: Count = 10
    learning_rate: Above0 = 2e-4
    normalized: bool = True
    """Compare the text's vectors for two names by cosine, as the name of the loss says; False: by inner product, as its
    formula says."""


@dataclass(frozen=True, slots=True)
class LinkingHeadConfig(LoopConfig):
    """Training settings of the linking head (OSLAT, section 3.3); a batch consists of texts."""

    epochs: Count = 10
    regulariser: Literal["none"] = "none"
    learning_rate: Above0 = 2e-4
    schedule: Schedule = "exponential"
    n_negatives: Count = 100
    """Names per text of entities that are not in the text."""
    alpha: Share = 0.25
    """For the focal loss: weight of the positives."""
    gamma: NotBelow0 = 2.0
    """For the focal loss: focusing exponent; larger values reduce the weight of easy examples."""
    kind: HeadKind = "comparison"
    """Compare the text's vector with the name, or score the text's vector alone (``linear``), as in the paper."""

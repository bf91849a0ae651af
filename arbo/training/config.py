"""The settings of a training: those of the loop, which all trainings share, and those of what is trained."""

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
    """What `arbo.training.loop` asks for, whatever is trained."""

    called: ClassVar[str] = "the training's configuration"

    regulariser: Regulariser = "none"
    """What is added to the loss; ``fgsm`` is that of perturbed copies, see `arbo.training.fgsm`."""
    epsilon: Above0 = 0.01
    """Of ``fgsm``: how much each number of the input embeddings is changed."""
    adversarial_weight: Above0 = 1.0
    """Of ``fgsm``: what its loss is multiplied with."""
    epochs: Count = 5
    steps: Count | None = None
    """Where training ends, if before its epochs do; the schedule ends there too."""
    batch_size: Count = 32
    """Mentions a step."""
    micro_batch: Count = 32
    """Mentions whose texts are in memory at once; changes nothing but memory and speed, but for what dropout draws."""
    optimizer: Optimizer = "adam"
    learning_rate: Above0 = 5e-5
    weight_decay: NotBelow0 = 0.0
    """Of ``adamw``."""
    schedule: Schedule = "linear"
    """How the learning rate falls after the warm-up: in a line to 0, by a factor a step to a hundredth, or not."""
    warmup: Share = 0.1
    """The share of the steps over which it rises."""
    clip: Above0 | None = 1.0
    """Largest norm of a gradient; None for any."""
    precision: TrainingPrecision = "float32"
    """Of the forward pass; weights are kept in float32."""
    seed: Number = 0

    @property
    def decisive(self) -> dict[str, Any]:
        """The values that a result depends on: all but ``micro_batch``."""
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
    """How a dual-encoder is trained.

    The defaults are what to start with, see "Where to start" in docs/train.md; what papers train is in
    `arbo.training.presets`. Where a micro-batch is smaller than the batch, and with ``fgsm`` in any case, each text is
    read twice, once without gradients.
    """

    positives: PositiveStrategy = "entity"
    """What a mention is drawn towards, see `arbo.training.dual.positives`."""
    negatives: NegativeStrategy = "knn"
    """What it is pushed away from, see `arbo.training.dual.negatives`."""
    n_negatives: Count = 4
    """How many of them; ``in-batch`` has as many as the batch offers, the others of a batch no more than that."""
    hard_share: Share = 0.5
    """Of ``mixed`` and ``in-batch-mixed``: the share of near ones."""
    mixup: Above0 | None = None
    """How much of the positive is mixed into the negatives at most; None for none, see `arbo.training.dual.mixup`."""
    mixup_gradient: bool = True
    """Whether what is mixed into them is differentiated too."""
    loss: LossName = "cross-entropy"
    """See `arbo.training.losses`."""
    scale: Above0 | None = None
    """What similarities are multiplied with before the loss; None for 1 with inner products and 20 with cosines.
    ``proxy`` has ``alpha`` in its place."""
    alpha: Above0 = 32.0
    """Of ``proxy``: how strongly pairs that are on the wrong side of the margin pull and push."""
    margin: NotBelow0 = 0.0
    """Of ``proxy``: how much above 0 the positive's similarity is wanted, and how much below 0 the negatives'."""
    refresh: Count | None = None
    """Steps after which positives and negatives are chosen anew; None for once an epoch."""
    best: Selection = "recall@1"
    """What the model that is kept is best in, on the development documents."""

    def scale_of(self, metric: Metric) -> float:
        """Return what similarities of a metric are multiplied with."""
        if self.loss == "proxy":
            return self.alpha
        defaults: dict[Metric, float] = {"dot": 1.0, "cosine": 20.0}
        return defaults[metric] if self.scale is None else self.scale


@dataclass(frozen=True, slots=True)
class RerankingConfig(LoopConfig):
    """How a cross-encoder is trained; the defaults are what the ArboEL paper says of its own (appendix A.1)."""

    batch_size: Count = 2
    micro_batch: Count = 1
    learning_rate: Above0 = 2e-5


@dataclass(frozen=True, slots=True)
class ContrastiveConfig(LoopConfig):
    """What the first two trainings of OSLAT share: names that are drawn towards their synonyms.

    The defaults of all three are those of the paper (appendix B), as far as it says, but for the warm-up: the paper's
    rate is constant over the first tenth of the steps, where this one rises.
    """

    regulariser: Literal["none"] = "none"
    schedule: Schedule = "exponential"
    temperature: Above0 = 0.07
    """What similarities are divided by."""
    n_positives: Count = 8
    """Synonyms that a name is drawn towards, at most: drawn at random where there are more. The paper takes all."""
    n_negatives: Count = 100
    """Names of others that it is pushed away from; see `arbo.training.oslat.contrastive` for how they are drawn."""


@dataclass(frozen=True, slots=True)
class SelfAlignmentConfig(ContrastiveConfig):
    """How the names of a knowledge base are aligned (OSLAT, section 3.1); a batch is of names."""

    epochs: Count = 20
    learning_rate: Above0 = 2e-3
    n_negatives: Count = 50
    loss: AlignmentLoss = "nt-xent"
    """Or ``multi-similarity``, as SapBERT has it: of cosines, which no temperature divides."""
    projection: Count = 128
    """Numbers of the vectors that are compared while training: two layers make them, which are then thrown away."""


@dataclass(frozen=True, slots=True)
class LabelAttentionTraining(ContrastiveConfig):
    """How label attention is trained (OSLAT, section 3.2); a batch is of pairs of a text and an entity in it."""

    epochs: Count = 10
    learning_rate: Above0 = 2e-4
    normalized: bool = True
    """Whether what a text says of two names is compared by cosine, as the loss's name says, or by inner product, as it
    is printed."""


@dataclass(frozen=True, slots=True)
class LinkingHeadConfig(LoopConfig):
    """How the linking head is trained (OSLAT, section 3.3); a batch is of texts."""

    epochs: Count = 10
    regulariser: Literal["none"] = "none"
    learning_rate: Above0 = 2e-4
    schedule: Schedule = "exponential"
    n_negatives: Count = 100
    """Names of entities that are not in a text."""
    alpha: Share = 0.25
    """Of the focal loss: the share of the positives."""
    gamma: NotBelow0 = 2.0
    """Of the focal loss: how fast what is certain fades."""
    kind: HeadKind = "comparison"
    """Whether what a text says is compared with the name, or judged alone (``linear``), as in the paper."""

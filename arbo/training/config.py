"""The settings of a training: those of the loop, which all trainings share, and those of what is trained."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from arbo.errors import UsageError
from arbo.settings import read_json, settings_of

if TYPE_CHECKING:
    from clustering.vectors import Metric

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
class LoopConfig:
    """What `arbo.training.loop` asks for, whatever is trained."""

    regulariser: Regulariser = "none"
    """What is added to the loss; ``fgsm`` is that of perturbed copies, see `arbo.training.fgsm`."""
    epsilon: float = 0.01
    """Of ``fgsm``: how much each number of the input embeddings is changed."""
    adversarial_weight: float = 1.0
    """Of ``fgsm``: what its loss is multiplied with."""
    epochs: int = 5
    steps: int | None = None
    """Where training ends, if before its epochs do; the schedule ends there too."""
    batch_size: int = 32
    """Mentions a step."""
    micro_batch: int = 32
    """Mentions whose texts are in memory at once; changes nothing but memory and speed, but for what dropout draws."""
    optimizer: Optimizer = "adam"
    learning_rate: float = 5e-5
    weight_decay: float = 0.0
    """Of ``adamw``."""
    schedule: Schedule = "linear"
    """How the learning rate falls after the warm-up: in a line to 0, by a factor a step to a hundredth, or not."""
    warmup: float = 0.1
    """The share of the steps over which it rises."""
    clip: float | None = 1.0
    """Largest norm of a gradient; None for any."""
    precision: TrainingPrecision = "float32"
    """Of the forward pass; weights are kept in float32."""
    seed: int = 0

    _CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "regulariser": get_args(Regulariser),
        "schedule": get_args(Schedule),
        "optimizer": get_args(Optimizer),
        "precision": get_args(TrainingPrecision),
    }
    _COUNTS: ClassVar[tuple[str, ...]] = ("epochs", "steps", "batch_size", "micro_batch")
    _SHARES: ClassVar[tuple[str, ...]] = ("warmup",)
    _ABOVE_0: ClassVar[tuple[str, ...]] = ("learning_rate", "epsilon", "adversarial_weight", "clip")
    _NOT_BELOW_0: ClassVar[tuple[str, ...]] = ("weight_decay",)
    _FLAGS: ClassVar[tuple[str, ...]] = ()
    _OR_NONE: ClassVar[tuple[str, ...]] = ("steps", "clip")

    def __post_init__(self) -> None:
        for name, known in self._CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} {getattr(self, name)!r} is not one of {', '.join(known)}")

        def check(names: tuple[str, ...], what: str, kinds: tuple[type, ...], least: float, most: float) -> None:
            for name in names:
                value, or_none = getattr(self, name), name in self._OR_NONE
                if value is None and or_none:
                    continue
                if type(value) not in kinds or not least <= value <= most:
                    raise UsageError(f"{name} must be {what}{' or None' if or_none else ''}, not {value!r}")

        number, tiny, huge = (int, float), math.ulp(0), sys.float_info.max
        check(self._COUNTS, "an integer of at least 1", (int,), 1, math.inf)
        check(("seed",), "an integer of at least 0", (int,), 0, math.inf)
        check(self._SHARES, "between 0 and 1", number, 0, 1)
        check(self._ABOVE_0, "a number above 0", number, tiny, huge)
        check(self._NOT_BELOW_0, "a number of at least 0", number, 0, huge)
        check(self._FLAGS, "true or false", (bool,), 0, 1)

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Self:
        """Read an object of these fields; unknown ones are an error."""
        return settings_of(cls, read_json(path, "the training's configuration"), file=fspath(path))

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name, ready for JSON."""
        return asdict(self)

    @property
    def decisive(self) -> dict[str, Any]:
        """The values that a result depends on: all but ``micro_batch``."""
        return {name: value for name, value in self.as_dict().items() if name != "micro_batch"}

    def learning_rate_at(self, step: int, n_steps: int) -> float:
        """Return the learning rate of a step, counted from 0, of so many.

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
    """What a mention is drawn towards, see `arbo.training.positives`."""
    negatives: NegativeStrategy = "knn"
    """What it is pushed away from, see `arbo.training.negatives`."""
    n_negatives: int = 4
    """How many of them; ``in-batch`` has as many as the batch offers, the others of a batch no more than that."""
    hard_share: float = 0.5
    """Of ``mixed`` and ``in-batch-mixed``: the share of near ones."""
    mixup: float | None = None
    """How much of the positive is mixed into the negatives at most; None for none, see `arbo.training.mixup`."""
    mixup_gradient: bool = True
    """Whether what is mixed into them is differentiated too."""
    loss: LossName = "cross-entropy"
    """See `arbo.training.losses`."""
    scale: float | None = None
    """What similarities are multiplied with before the loss; None for 1 with inner products and 20 with cosines.
    ``proxy`` has ``alpha`` in its place."""
    alpha: float = 32.0
    """Of ``proxy``: how strongly pairs that are on the wrong side of the margin pull and push."""
    margin: float = 0.0
    """Of ``proxy``: how much above 0 the positive's similarity is wanted, and how much below 0 the negatives'."""
    refresh: int | None = None
    """Steps after which positives and negatives are chosen anew; None for once an epoch."""
    best: Selection = "recall@1"
    """What the model that is kept is best in, on the development documents."""

    _CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "positives": get_args(PositiveStrategy),
        "negatives": get_args(NegativeStrategy),
        "loss": get_args(LossName),
        "best": get_args(Selection),
        **LoopConfig._CHOICES,
    }
    _COUNTS = ("n_negatives", "refresh", *LoopConfig._COUNTS)
    _SHARES = ("hard_share", *LoopConfig._SHARES)
    _ABOVE_0 = ("scale", "alpha", "mixup", *LoopConfig._ABOVE_0)
    _NOT_BELOW_0 = ("margin", *LoopConfig._NOT_BELOW_0)
    _FLAGS = ("mixup_gradient",)
    _OR_NONE = ("refresh", "scale", "mixup", *LoopConfig._OR_NONE)

    def scale_of(self, metric: Metric) -> float:
        """Return what similarities of a metric are multiplied with."""
        if self.loss == "proxy":
            return self.alpha
        defaults: dict[Metric, float] = {"dot": 1.0, "cosine": 20.0}
        return defaults[metric] if self.scale is None else self.scale


@dataclass(frozen=True, slots=True)
class RerankingConfig(LoopConfig):
    """How a cross-encoder is trained; the defaults are what the ArboEL paper says of its own (appendix A.1)."""

    batch_size: int = 2
    micro_batch: int = 1
    learning_rate: float = 2e-5


@dataclass(frozen=True, slots=True)
class ContrastiveConfig(LoopConfig):
    """What the first two trainings of OSLAT share: names that are drawn towards their synonyms.

    The defaults of all three are those of the paper (appendix B), as far as it says, but for the warm-up: the paper's
    rate is constant over the first tenth of the steps, where this one rises.
    """

    schedule: Schedule = "exponential"
    temperature: float = 0.07
    """What similarities are divided by."""
    n_positives: int = 8
    """Synonyms that a name is drawn towards, at most: drawn at random where there are more. The paper takes all."""
    n_negatives: int = 100
    """Names of others that it is pushed away from; see `arbo.training.contrastive` for how they are drawn."""

    _CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {**LoopConfig._CHOICES, "regulariser": ("none",)}
    _COUNTS = ("n_positives", "n_negatives", *LoopConfig._COUNTS)
    _ABOVE_0 = ("temperature", *LoopConfig._ABOVE_0)


@dataclass(frozen=True, slots=True)
class SelfAlignmentConfig(ContrastiveConfig):
    """How the names of a knowledge base are aligned (OSLAT, section 3.1); a batch is of names."""

    epochs: int = 20
    learning_rate: float = 2e-3
    n_negatives: int = 50
    loss: AlignmentLoss = "nt-xent"
    """Or ``multi-similarity``, as SapBERT has it: of cosines, which no temperature divides."""
    projection: int = 128
    """Numbers of the vectors that are compared while training: two layers make them, which are then thrown away."""

    _CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {**ContrastiveConfig._CHOICES, "loss": get_args(AlignmentLoss)}
    _COUNTS = ("projection", *ContrastiveConfig._COUNTS)


@dataclass(frozen=True, slots=True)
class LabelAttentionTraining(ContrastiveConfig):
    """How label attention is trained (OSLAT, section 3.2); a batch is of pairs of a text and an entity in it."""

    epochs: int = 10
    learning_rate: float = 2e-4
    normalized: bool = True
    """Whether what a text says of two names is compared by cosine, as the loss's name says, or by inner product, as it
    is printed."""

    _FLAGS = ("normalized", *ContrastiveConfig._FLAGS)


@dataclass(frozen=True, slots=True)
class LinkingHeadConfig(LoopConfig):
    """How the linking head is trained (OSLAT, section 3.3); a batch is of texts."""

    epochs: int = 10
    learning_rate: float = 2e-4
    schedule: Schedule = "exponential"
    n_negatives: int = 100
    """Names of entities that are not in a text."""
    alpha: float = 0.25
    """Of the focal loss: the share of the positives."""
    gamma: float = 2.0
    """Of the focal loss: how fast what is certain fades."""
    kind: HeadKind = "comparison"
    """Whether what a text says is compared with the name, or judged alone (``linear``), as in the paper."""

    _CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **LoopConfig._CHOICES,
        "regulariser": ("none",),
        "kind": get_args(HeadKind),
    }
    _COUNTS = ("n_negatives", *LoopConfig._COUNTS)
    _SHARES = ("alpha", *LoopConfig._SHARES)
    _NOT_BELOW_0 = ("gamma", *LoopConfig._NOT_BELOW_0)

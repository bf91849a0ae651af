"""Self-alignment: draws names of one entity together and names of different entities apart (OSLAT, section 3.1).

Each name with synonyms is compared with some of them and with names of other entities. The loss compares the output of
two further layers, which are discarded after training. Documents are not needed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from arbo.data import KnowledgeBase
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder_config import EncoderConfig
from arbo.errors import UsageError
from arbo.training.config import RunOptions, SelfAlignmentConfig
from arbo.training.data import job_of
from arbo.training.frame import check_start, training
from arbo.training.oslat.contrastive import Contrast, ContrastiveTrainer, check_contrasts, read_names
from arbo.training.oslat.synonyms import Contrasts

_HEAD = "head.safetensors"


@dataclass(frozen=True, eq=False, slots=True)
class Aligning:
    """An encoder, and the two layers that are added for self-alignment."""

    encoder: DualEncoder
    head: torch.nn.Sequential

    @classmethod
    def of(cls, encoder: DualEncoder, dim: int, seed: int) -> Self:
        """Add two untrained layers with an output of ``dim`` dimensions to an encoder; ``seed`` sets their weights."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            head = _head(encoder.entity_tower.dim, encoder.entity_tower.dim, dim)
        return cls(encoder, head.to(encoder.entity_tower.model.device))

    @classmethod
    def from_pretrained(cls, model: Path, config: EncoderConfig, /) -> Self:
        """Load what `save_pretrained` wrote."""
        encoder, weights = DualEncoder.from_pretrained(model / "encoder", config), load_file(model / _HEAD)
        (width, inputs), (dim, _) = (weights[f"{layer}.weight"].shape for layer in (0, 2))
        head = _head(inputs, width, dim)
        head.load_state_dict(weights)
        return cls(encoder, head.to(encoder.entity_tower.model.device))

    def save_pretrained(self, folder: Path, /) -> None:
        """Write the encoder and the layers."""
        self.encoder.save_pretrained(folder / "encoder")
        save_file(self.head.state_dict(), folder / _HEAD)

    def copy(self) -> Self:
        """Return a copy with its own weights."""
        return replace(self, encoder=self.encoder.copy(), head=deepcopy(self.head))

    @property
    def config(self) -> EncoderConfig:
        """The settings of the encoder."""
        return self.encoder.config

    @property
    def module(self) -> torch.nn.ModuleList:
        """The modules with weights."""
        return torch.nn.ModuleList([*self.encoder.module, self.head])


@dataclass(eq=False)
class SelfAlignmentTrainer(ContrastiveTrainer[Aligning]):
    """Trains an encoder by self-alignment, for `train_self_alignment`."""

    data: Contrasts
    dev: None
    config: SelfAlignmentConfig

    def reading(self) -> Callable[..., Tensor]:
        """Collect the names, and return the function that computes the vectors that the loss compares."""
        encoder, head = self.model.encoder, self.model.head
        tower, texts = encoder.entity_tower, encoder.entity_texts(self.data.kb)

        def read(batch: Contrast) -> Tensor:
            vectors: Tensor = head(read_names(tower, texts, self.data.synonyms, batch.name, encoder.config.pooling))
            return vectors

        return read


def train_self_alignment(
    encoder: DualEncoder,
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    config: SelfAlignmentConfig | None = None,
    options: RunOptions | None = None,
) -> DualEncoder:
    """Train an encoder to map the names of an entity to similar vectors, and write it to a folder.

    See `arbo.train` for further arguments and errors.

    Raises:
        DataError: no entity has two names, or all names are of one entity.
        UsageError: the encoder has two towers, the entity view ``whole``, or the pooling ``tokens``.
    """
    check_start(out, kb)
    config = config or SelfAlignmentConfig()
    if not encoder.shared:
        raise UsageError("the encoder has a separate tower for mentions; start from an encoder with one tower for both")
    if encoder.config.entity_view != "names" or encoder.config.pooling == "tokens":
        raise UsageError(
            "self-alignment needs one vector per name; choose entity_view 'names' and a pooling other than 'tokens'"
        )
    data = Contrasts.of_names(kb)
    check_contrasts(data, "align")
    start = encoder.copy()
    start = replace(start, config=replace(start.config, entity_threshold=None, mention_threshold=None))
    with training(out, job_of({}, kb, config=config, encoder=encoder.settings), config, options) as workplace:
        aligning = Aligning.of(start, config.projection, config.seed)
        trainer = SelfAlignmentTrainer(aligning, data, None, config, workplace)
        trainer.run()
        if workplace.is_first:
            trainer.final.encoder.save_pretrained(workplace.target)
    return DualEncoder.from_pretrained(workplace.target)


def _head(inputs: int, width: int, dim: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, dim))

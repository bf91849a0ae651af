"""Model folders: towers in the layout of transformers, with arbo's configuration and hashes.

A shared or single tower is in the folder itself, where `AutoModel.from_pretrained` can load it; two towers are in the
subfolders `mention` and `entity`. `arbo.json` has the configuration and the hashes of all files. Models in the
layout of sentence-transformers are read too: a transformer, its pooling, and perhaps normalisation.
"""

from dataclasses import dataclass, field, replace
from os import fspath
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, Unpack

import torch

from arbo import files
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.pretrained import MANIFEST, MODULES, TOWERS, find_folder, first_line
from arbo.encoders.tower import Loading, Tower
from arbo.errors import DataError, UsageError
from arbo.files import real
from arbo.settings import Settings, read_json

Config = TypeVar("Config", bound=Settings)

FORMATS = {
    "arbo-model": "a dual-encoder",
    "arbo-cross-encoder": "a cross-encoder",
    "arbo-label-attention": "a label-attention model (of arbo train finder)",
}
"""The kinds of models by their `format` in manifests, and their names in errors."""
_VERSIONS = ("arbo", "safetensors", "tokenizers", "torch", "transformers")
_KEYS = {"versions": dict, "config": dict, "learnt": str, "shared": bool, "files": dict}
_ADVICE = "save the model again, or fetch it again"
_MODES: dict[Any, Any] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_MODES |= {mode: mode for mode in _MODES.values()}  # as newer versions write them


class TowerModel(Protocol):
    """A model of one tower or two, which can be saved to a folder and identified in manifests."""

    kind: ClassVar[str]  # the name of this kind in manifests
    config: Any
    name: str
    learnt: str  # hashes of the documents that it was trained on, see `arbo.data.fingerprint`

    @classmethod
    def from_pretrained(cls, model: files.PathLike, config: Any = None) -> Self:
        """Load a saved model, with the saved configuration unless another is given."""

    def copy(self) -> Self:
        """Return a copy with its own weights, in evaluation mode and without cache."""

    @property
    def towers(self) -> tuple[Tower, ...]:
        """The tower, or those of mentions and of entities."""

    def save_pretrained(self, folder: files.PathLike) -> None:
        """Write towers, projections and configuration in the layout of transformers, completely or not at all.

        ``AutoModel.from_pretrained(folder)`` reads a single tower too, without its projection. An earlier model of arbo
        is replaced. Raise UsageError if the folder has other content, its manifest is damaged, or it cannot be written.
        """
        target, shared = real(folder), len(self.towers) == 1
        check_model_replaceable(target)
        try:
            with files.whole_folder(target) as partial:
                for tower, place in zip(self.towers, _places(partial, shared), strict=True):
                    tower.save(place)
                manifest = {"config": self.config.as_dict(), "learnt": self.learnt, "shared": shared}
                _format(self.config.format).write(partial, manifest)
        except Exception as error:  # transformers and safetensors let any error of their parts through
            raise UsageError(f"cannot write the model folder {target}: {first_line(error)}") from error

    @property
    def module(self) -> torch.nn.ModuleList:
        """All modules with weights, without repetition, for an optimiser or for ``train()`` or ``to(device)``."""
        return torch.nn.ModuleList(dict.fromkeys(module for tower in self.towers for module in tower.modules))

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        weights = list(dict.fromkeys(tower.fingerprint for tower in self.towers))
        return {"encoder": self.kind, "model": self.name, "weights": weights, "config": self.config.as_dict()}


@dataclass(frozen=True, eq=False)
class OneTower(TowerModel, Generic[Config]):
    """A model of one tower, with its own class of settings."""

    settings_class: ClassVar[type[Settings]]
    tower: Tower
    config: Config
    name: str = ""  # the folder or hub name from which it was loaded
    learnt: str = field(default="", repr=False)

    @classmethod
    def from_pretrained(cls, model: files.PathLike, config: Config | None = None, **how: Unpack[Loading]) -> Self:
        """Load what `save_pretrained` wrote, with the saved configuration unless another is given; see `load_model`."""
        saved: Any
        (tower, *_), saved, learnt = load_model(model, cls.settings_class, **how)
        return cls(tower, config or saved, fspath(model), learnt)

    def copy(self) -> Self:
        """Return a copy with its own weights, in evaluation mode."""
        return replace(self, tower=self.tower.copy())

    @property
    def towers(self) -> tuple[Tower]:
        """The tower."""
        return (self.tower,)

    @property
    def threshold(self) -> float:
        """The default ``entity_threshold``, from the configuration."""
        config: Any = self.config
        return float(config.entity_threshold)


def load_model(
    name: files.PathLike, kind: type[Config], **how: Unpack[Loading]
) -> tuple[tuple[Tower, ...], Config | None, str]:
    """Load towers, settings and `TowerModel.learnt` of a model that arbo saved; any other gives one tower.

    Its settings are None, unless it is a model of sentence-transformers. See `Tower.load` for arguments and errors.
    Raise DataError also for a missing or changed file of a model that arbo saved, a model of another ``kind`` (any
    other transformer is a dual-encoder), or one that a newer arbo saved.
    """
    folder, learnt = find_folder(name), ""
    places: tuple[Path, ...] = (folder,)
    config: Any = None
    if (folder / MANIFEST).is_file():
        manifest = _format(kind.format).read(folder)
        files.check_hashes(folder, manifest["files"], _ADVICE)
        places = _places(folder, manifest["shared"])
        config = kind.from_dict(manifest["config"], file=str(folder / MANIFEST))
        learnt = manifest["learnt"]
    elif kind is not EncoderConfig:
        problem = f"this is not {_format(kind.format).what}: it has no {MANIFEST}"
        raise DataError(f"{problem}; choose another folder", file=str(folder))
    elif (folder / MODULES).is_file():
        place, config = _read_modules(folder)
        places = (place,)
    return tuple(Tower.load(place, **how) for place in places), config, learnt


def _read_modules(folder: Path) -> tuple[Path, EncoderConfig]:
    """Return the folder of the transformer, and the settings of a model of sentence-transformers."""
    modules = read_json(folder / MODULES, "the list of modules")
    try:
        places = {module["type"].rpartition(".")[2]: folder / Path(module["path"]).name for module in modules}
        pooling = _optional(places["Pooling"], "config.json")
        chosen = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
        (mode,) = chosen or [pooling["pooling_mode"]]
        config = EncoderConfig(pooling=_MODES[mode])
    except (TypeError, KeyError, ValueError, AttributeError):
        places = {}
    if [*places] not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        expected = "a Transformer, a Pooling (cls or mean) and, perhaps, a Normalize"
        raise DataError(f"the modules must be {expected}, in this order; choose another model", file=str(folder))
    similarity = _optional(folder, "config_sentence_transformers.json").get("similarity_fn_name")
    longest = _optional(places["Transformer"], "sentence_bert_config.json").get("max_seq_length") or config.max_length
    is_dot = similarity in ("dot", "dot_product") and "Normalize" not in places
    changes = {"metric": "dot" if is_dot else "cosine", "max_length": min(longest, config.max_length)}
    return places["Transformer"], EncoderConfig.from_dict(config.as_dict() | changes, file=str(folder))


def _optional(place: Path, name: str) -> dict[str, Any]:
    return dict(read_json(place / name, "the module")) if (place / name).is_file() else {}


def check_model_replaceable(target: Path) -> None:
    """Raise UsageError unless the folder is missing, empty, or an earlier model of arbo; see `TowerModel`."""
    _format(EncoderConfig.format).check_replaceable(target, *FORMATS)


def _places(folder: Path, shared: bool) -> tuple[Path, ...]:
    return (folder,) if shared else tuple(folder / tower for tower in TOWERS)


def _format(name: str) -> files.Format:
    return files.Format(name, 1, _KEYS, f"{FORMATS[name]} that arbo saved", _ADVICE, MANIFEST, _VERSIONS)

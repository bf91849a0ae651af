"""Model folders: towers in the layout of transformers, with arbo's configuration and hashes.

A shared or single tower is in the folder itself, where `AutoModel.from_pretrained` can load it; two towers are in the
subfolders `mention` and `entity`. `arbo.json` has the configuration and the hashes of all files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, Unpack, cast

from arbo import files
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.model_card import CARD
from arbo.encoders.pretrained import MANIFEST, TOWERS, find_folder, first_line
from arbo.encoders.sentence_transformers import load_modules
from arbo.encoders.tower import Loading, Tower
from arbo.errors import DataError, UsageError
from arbo.files import real
from arbo.settings import read_json

if TYPE_CHECKING:
    import torch


class ModelConfig(Protocol):
    """The settings of a kind of model, and the `format` that identifies its folders."""

    format: ClassVar[str]
    """Name of the kind in manifests."""

    @classmethod
    def from_dict(cls, values: object, *, file: str | None = None) -> Self:
        """Make settings from a dict."""


Config = TypeVar("Config", bound=ModelConfig)

FORMATS = {
    "arbo-model": "a dual-encoder",
    "arbo-cross-encoder": "a cross-encoder",
    "arbo-edges": "an edge model with a cross-encoder",
    "arbo-label-attention": "a label-attention model (of arbo train finder)",
}
"""All values of `ModelConfig.format`, and the name of each kind of model in errors."""
_VERSIONS = ("arbo", "safetensors", "tokenizers", "torch", "transformers")
_KEYS = {"versions": dict, "config": dict, "shared": bool, "files": dict}
_MEND = "save the model again, or fetch it again"


class _Manifest(NamedTuple, Generic[Config]):
    config: Config
    shared: bool
    files: dict[str, str]  # SHA-256 of each file by its relative path


def save_model(
    mention: Tower,
    entity: Tower,
    config: ModelConfig,
    folder: files.PathLike,
    more: Callable[[Path], object] | None = None,
) -> None:
    """Write towers and configuration, completely or not at all, replacing a model that arbo saved earlier.

    ``more`` writes further files of the model into the folder that it is given; the file `CARD` may change later.
    Raise UsageError if the folder has any other content, or cannot be written, and DataError if its manifest is
    damaged.
    """
    target = real(folder)
    check_model_replaceable(target)
    shared = mention is entity
    try:
        with files.whole_folder(target) as partial:
            for tower, place in zip((mention, entity), _places(partial, shared), strict=False):
                tower.save(place)
            if more is not None:
                more(partial)
            manifest = {
                **_format(config.format).head(*_VERSIONS),
                "config": asdict(config),  # type: ignore[call-overload]  # all of them are dataclasses
                "shared": shared,
                "files": {name: files.sha256_of(partial / name) for name in files.files_in(partial) if name != CARD},
            }
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    except Exception as error:  # transformers and safetensors let any error of their parts through
        raise UsageError(f"cannot write the model folder {target}: {first_line(error)}") from error


class OneTower:
    """A model of one tower, which can be saved to a folder and identified in manifests."""

    kind: ClassVar[str]  # the name of this kind in manifests
    tower: Tower
    config: Any
    name: str

    def save_pretrained(self, folder: files.PathLike) -> None:
        """Write the tower and the configuration to a folder; see `save_model`."""
        save_model(self.tower, self.tower, self.config, folder)

    @property
    def module(self) -> torch.nn.ModuleList:
        """All modules with weights, for an optimiser or for ``train()`` or ``to(device)``."""
        import torch

        return torch.nn.ModuleList(self.tower.modules)

    @property
    def threshold(self) -> float:
        """The default ``entity_threshold``, from the configuration."""
        return float(self.config.entity_threshold)

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        own = {"encoder": self.kind, "model": self.name, "weights": [self.tower.fingerprint]}
        return {**own, "config": asdict(self.config)}


def load_model(
    name: files.PathLike, kind: type[Config], **how: Unpack[Loading]
) -> tuple[tuple[Tower, ...], Config | None]:
    """Load the towers and settings of a model that arbo saved; any other transformer gives one tower, and None.

    A model of sentence-transformers gives one tower, and its settings.

    See `Tower.load` for arguments and errors. Raise DataError also for a missing or changed file of a model that arbo
    saved, a model of another ``kind`` (any other transformer is a dual-encoder), or one that a newer arbo saved.
    """
    folder = find_folder(name, how.pop("revision", None))
    manifest = _manifest_of(folder, kind)
    if manifest is None and kind.format != EncoderConfig.format:
        problem = f"this is not {FORMATS[kind.format]} that arbo saved: it has no {MANIFEST}"
        raise DataError(f"{problem}; choose another folder", file=str(folder))
    if manifest is not None:
        files.check_hashes(folder, manifest.files, _MEND)
    elif modules := load_modules(folder, **how):
        return (modules[0],), cast("Config", modules[1])  # it is a dual-encoder
    places = _places(folder, manifest is None or manifest.shared)
    towers = tuple(Tower.load(place, **how) for place in places)
    return towers, None if manifest is None else manifest.config


def load_single(name: files.PathLike, kind: type[Config], **how: Unpack[Loading]) -> tuple[Tower, Config]:
    """Load a model of one tower, such as a cross-encoder, that arbo saved; see `load_model`."""
    (tower, *_), config = load_model(name, kind, **how)
    assert config is not None  # only a dual-encoder need not be saved by arbo
    return tower, config


def check_model_replaceable(target: Path) -> None:
    """Raise UsageError unless the folder is missing, empty, or an earlier model of arbo; see `save_model`."""

    def files_of(folder: Path) -> list[str]:
        if not (folder / MANIFEST).is_file():  # another process may have moved it since
            return []
        return [*_read_manifest(folder)["files"], CARD]

    files.check_replaceable(target, "model folder of arbo", MANIFEST, files_of)


def _places(folder: Path, shared: bool) -> tuple[Path, ...]:
    return (folder,) if shared else tuple(folder / tower for tower in TOWERS)


def _manifest_of(folder: Path, kind: type[Config]) -> _Manifest[Config] | None:
    """Read the manifest of a model of this kind; None for a model that arbo did not save."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    manifest = _read_manifest(folder)
    if manifest["format"] != kind.format:
        mend = "choose another folder"
        raise DataError(f"this is {FORMATS[manifest['format']]}, not {FORMATS[kind.format]}; {mend}", file=str(folder))
    config = kind.from_dict(manifest["config"], file=str(path))
    return _Manifest(config, manifest["shared"], manifest["files"])


def _format(name: str) -> files.Format:
    return files.Format(name, 1, _KEYS, "a model that arbo saved", _MEND)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    values = read_json(path, "the manifest of the model")
    name = values.get("format") if isinstance(values, dict) else None
    known = isinstance(name, str) and name in FORMATS
    return files.check_manifest(values, _format(str(name) if known else " or ".join(FORMATS)), path)


def same_model(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the settings of two models are equal, wherever they were loaded from."""
    first, second = ({**files.json_ready(settings), "model": None} for settings in (one, other))
    return first == second

"""Model folders: towers in the layout of transformers, with arbo's configuration and hashes.

A shared or single tower is in the folder itself, where `AutoModel.from_pretrained` can load it; two towers are in the
subfolders `mention` and `entity`. `arbo.json` has the configuration and the hashes of all files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack

from arbo import files
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.pretrained import MANIFEST, MODULES, TOWERS, find_folder, first_line
from arbo.encoders.sentence_transformers import read_modules
from arbo.encoders.tower import Loading, Tower
from arbo.errors import DataError, UsageError
from arbo.files import real
from arbo.settings import Settings, read_json

if TYPE_CHECKING:
    import torch


Config = TypeVar("Config", bound=Settings)

FORMATS = {
    "arbo-model": "a dual-encoder",
    "arbo-cross-encoder": "a cross-encoder",
    "arbo-label-attention": "a label-attention model (of arbo train finder)",
}
"""The kinds of models by their `format` in manifests, and their names in errors."""
_VERSIONS = ("arbo", "safetensors", "tokenizers", "torch", "transformers")
_KEYS = {"versions": dict, "config": dict, "shared": bool, "files": dict}
_ADVICE = "save the model again, or fetch it again"


def save_model(mention: Tower, entity: Tower, config: Settings, folder: files.PathLike) -> None:
    """Write towers and configuration, completely or not at all, replacing a model that arbo saved earlier.

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
            manifest = {
                **_format(config.format).head(*_VERSIONS),
                "config": config.as_dict(),
                "shared": shared,
                "files": {name: files.sha256_of(partial / name) for name in files.files_in(partial)},
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
        model = {"encoder": self.kind, "model": self.name, "weights": [self.tower.fingerprint]}
        return {**model, "config": self.config.as_dict()}


def load_model(
    name: files.PathLike, kind: type[Config], **how: Unpack[Loading]
) -> tuple[tuple[Tower, ...], Config | None]:
    """Load the towers and settings of a model that arbo saved; any other transformer gives one tower, and None.

    A model of sentence-transformers gives one tower, and its settings.

    See `Tower.load` for arguments and errors. Raise DataError also for a missing or changed file of a model that arbo
    saved, a model of another ``kind`` (any other transformer is a dual-encoder), or one that a newer arbo saved.
    """
    folder = find_folder(name, how.pop("revision", None))
    places: tuple[Path, ...] = (folder,)
    config: Any = None
    if (folder / MANIFEST).is_file():
        manifest = _read_manifest(folder)
        if manifest["format"] != kind.format:
            problem = f"this is {FORMATS[manifest['format']]}, not {FORMATS[kind.format]}"
            raise DataError(f"{problem}; choose another folder", file=str(folder))
        files.check_hashes(folder, manifest["files"], _ADVICE)
        places = _places(folder, manifest["shared"])
        config = kind.from_dict(manifest["config"], file=str(folder / MANIFEST))
    elif kind is not EncoderConfig:
        problem = f"this is not {FORMATS[kind.format]} that arbo saved: it has no {MANIFEST}"
        raise DataError(f"{problem}; choose another folder", file=str(folder))
    elif (folder / MODULES).is_file():
        place, config = read_modules(folder)
        places = (place,)
    return tuple(Tower.load(place, **how) for place in places), config


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
        return [*_read_manifest(folder)["files"]]

    files.check_replaceable(target, "model folder of arbo", MANIFEST, files_of)


def _places(folder: Path, shared: bool) -> tuple[Path, ...]:
    return (folder,) if shared else tuple(folder / tower for tower in TOWERS)


def _format(name: str) -> files.Format:
    return files.Format(name, 1, _KEYS, "a model that arbo saved", _ADVICE)


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

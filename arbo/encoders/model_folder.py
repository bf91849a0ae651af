"""Model folders: trained towers in the layout of transformers and what arbo knows of them, complete or absent.

A tower that mentions and entities share, or the only one of another model, lies in the folder itself, where
`AutoModel.from_pretrained` finds it; two lie in its subfolders `mention` and `entity`. Beside them stands `arbo.json`:
how the encoder reads, and the hashes of all files.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from arbo.encoders.cross_config import CrossEncoderConfig
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.label_attention_config import LabelAttentionConfig
from arbo.encoders.pretrained import MANIFEST, TOWERS, find_folder, first_line
from arbo.encoders.tower import Precision, Tower
from arbo.errors import DataError, UsageError
from arbo.settings import read_json
from arbo.store import beside, check_writable, move_into_place, sha256_of, version_of

AnyConfig = EncoderConfig | CrossEncoderConfig | LabelAttentionConfig
Config = TypeVar("Config", bound=AnyConfig)

FORMATS: Mapping[str, type[AnyConfig]] = {
    "arbo-model": EncoderConfig,
    "arbo-cross-encoder": CrossEncoderConfig,
    "arbo-label-attention": LabelAttentionConfig,
}
FORMAT_VERSION = 1
_CALLED: Mapping[type, str] = {
    EncoderConfig: "a dual-encoder",
    CrossEncoderConfig: "a cross-encoder",
    LabelAttentionConfig: "a label-attention model (of arbo train-finder)",
}
_VERSIONS = ("arbo", "safetensors", "tokenizers", "torch", "transformers")
_KEYS = {"format": str, "format_version": int, "versions": dict, "config": dict, "shared": bool, "files": dict}
_MEND = "save the model again, or fetch it again"


class SavedModel(NamedTuple):
    """What a model folder holds."""

    mention_tower: Tower
    entity_tower: Tower
    """The same object as the other, where they are shared."""
    config: EncoderConfig | None
    """How the encoder reads; None for a model that arbo did not save."""


class _Manifest(NamedTuple, Generic[Config]):
    config: Config
    shared: bool
    files: dict[str, str]
    """SHA-256 of each file, by its name relative to the folder."""


def save_model(mention: Tower, entity: Tower, config: AnyConfig, folder: str | PathLike[str]) -> None:
    """Write towers and configuration beside their place, then move them there in one step.

    An earlier model of arbo is replaced, and nothing else ever is.

    Raises:
        UsageError: the folder cannot be written, or holds anything but a model that arbo saved.

    """
    target = Path(folder).resolve()
    check_replaceable(target)
    partial = beside(target, "partial")
    shared = mention is entity
    try:
        for tower, place in zip((mention, entity), _places(partial, shared), strict=False):
            tower.save(place)
        manifest = {
            "format": next(name for name, kind in FORMATS.items() if kind is type(config)),
            "format_version": FORMAT_VERSION,
            "versions": {name: version_of(name) for name in _VERSIONS} | {"python": platform.python_version()},
            "config": asdict(config),
            "shared": shared,
            "files": {name: sha256_of(partial / name) for name in _files(partial)},
        }
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        move_into_place(partial, target)
    except Exception as error:  # transformers and safetensors raise whatever their parts raise
        raise UsageError(f"cannot write the model folder {target}: {first_line(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_model(
    name: str | PathLike[str], *, revision: str | None, device: str | None, precision: Precision
) -> SavedModel:
    """Load a model that arbo saved, or one tower of any other model; see `Tower.load` for arguments and errors.

    Raises:
        DataError: also for a model that arbo saved, of which a file is missing or is not the one that was saved, or
            that a newer arbo saved.

    """
    folder = find_folder(name, revision)
    manifest = _manifest_of(folder, EncoderConfig)
    if manifest is None:
        tower = Tower.load(folder, device=device, precision=precision)
        return SavedModel(tower, tower, None)
    _check_files(folder, manifest.files)
    towers = [Tower.load(place, device=device, precision=precision) for place in _places(folder, manifest.shared)]
    return SavedModel(towers[0], towers[-1], manifest.config)


def load_single(
    name: str | PathLike[str], kind: type[Config], *, revision: str | None, device: str | None, precision: Precision
) -> tuple[Tower, Config]:
    """Load a model of one tower that arbo saved, such as a cross-encoder, by what configures it; see `load_model`.

    Raises:
        DataError: also for any other model: what it would make of its input is not trained.

    """
    folder = find_folder(name, revision)
    manifest = _manifest_of(folder, kind)
    if manifest is None:
        raise DataError(f"this is a transformer, not {_CALLED[kind]} that arbo saved; name one", file=str(folder))
    _check_files(folder, manifest.files)
    return Tower.load(folder, device=device, precision=precision), manifest.config


def check_replaceable(target: Path) -> None:
    """Raise unless a model may be written here: nothing there, an empty folder, or an earlier model of arbo."""
    check_writable(target)
    if target.is_dir():
        manifest, found = _read_manifest(target), set(_files(target))
        if manifest is not None:
            foreign = sorted(found - {MANIFEST, *manifest.files})
            if foreign:
                raise UsageError(
                    f"{target} is a model folder that holds other files too ({', '.join(foreign[:3])}); "
                    "writing a model would delete them: move them, or name another folder"
                )
            return
        if not found:
            return
    elif not target.exists():
        return
    raise UsageError(f"{target} exists and is not a model that arbo saved; name another folder, or remove it first")


def _places(folder: Path, shared: bool) -> tuple[Path, ...]:
    """Folders of the towers."""
    return (folder,) if shared else tuple(folder / tower for tower in TOWERS)


def _files(folder: Path) -> list[str]:
    """Name all that is in a folder and its subfolders."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _manifest_of(folder: Path, kind: type[Config]) -> _Manifest[Config] | None:
    """Read what arbo wrote beside a model of this kind."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return None
    if not isinstance(manifest.config, kind):
        raise DataError(
            f"this is {_CALLED[type(manifest.config)]}; what is wanted here is {_CALLED[kind]}", file=str(folder)
        )
    return _Manifest(manifest.config, manifest.shared, manifest.files)


def _read_manifest(folder: Path) -> _Manifest[AnyConfig] | None:
    """Read what arbo wrote beside a model; None where it did not."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    values, file = read_json(path, "what arbo knows of the model"), str(path)
    kind = FORMATS.get(str(values.get("format"))) if isinstance(values, dict) else None
    if kind is None:
        raise DataError(f"this is not of a model that arbo saved ({' or '.join(map(repr, FORMATS))})", file=file)
    written_by = values.get("format_version")
    if isinstance(written_by, int) and written_by > FORMAT_VERSION:
        raise DataError(
            f"the model was saved by a newer arbo (format {written_by}, this one reads up to {FORMAT_VERSION}); "
            "run: pip install --upgrade arbo",
            file=file,
        )
    unknown = sorted(set(values) - set(_KEYS))
    if unknown:
        raise DataError(f"unknown: {', '.join(map(repr, unknown))}; known are {', '.join(_KEYS)}", file=file)
    wrong = [name for name, expected in _KEYS.items() if type(values.get(name)) is not expected]
    if wrong or written_by != FORMAT_VERSION:
        raise DataError(f"it is incomplete: {', '.join(wrong or ['format_version'])}; {_MEND}", file=file)
    config = kind.from_dict(values["config"], file=file)
    return _Manifest(config, values["shared"], values["files"])


def _check_files(folder: Path, digests: Mapping[str, str]) -> None:
    """Raise unless the files are those that were saved; what holds no weights may lie beside them."""
    found = _files(folder)
    for name, digest in digests.items():
        file = str(folder / name)
        try:
            if name not in found:  # which also keeps names such as /dev/zero from being opened
                raise DataError(f"the file is missing; {_MEND}", file=file)
            if sha256_of(folder / name) != digest:
                raise DataError(f"the file is not the one that was saved; {_MEND}", file=file)
        except OSError as error:
            raise DataError(f"the file cannot be read ({error.strerror}); {_MEND}", file=file) from None
    for name in found:
        if name.endswith(".safetensors") and name not in digests:
            raise DataError(f"the file was not saved with the model; remove it, or {_MEND}", file=str(folder / name))

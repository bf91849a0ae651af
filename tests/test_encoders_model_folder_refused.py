"""Model folders that are spoiled, hostile or of another version are refused when they are read."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import Bomb, edit_json
from model_folders import HF, MAKE, apart, load, shared
from safetensors.torch import load_file, save_file

from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError


@pytest.fixture
def folder(bert: Tower, tmp_path: Path) -> Path:
    """A model with a projection, in one tower."""
    MAKE["shared, projected"](bert).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def vouch(folder: Path, *files: str) -> None:
    """Write the hashes that files have now, as who changes a model on purpose would."""
    known = json.loads((folder / "arbo.json").read_text("utf-8"))["files"]
    own = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}
    edit_json(folder / "arbo.json", files=known | own)


@pytest.mark.parametrize("file", [*sorted(HF), "projection.safetensors"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:-10]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes() + b" "),
        lambda file: (file.unlink(), file.mkdir()),
    ],
    ids=["missing", "truncated", "empty", "changed", "a folder"],
)
def test_a_spoiled_file(folder: Path, file: str, spoil: Callable[[Path], object]) -> None:
    spoil(folder / file)
    with pytest.raises(DataError, match=rf"model/{file}: the file .*; save the model again, or fetch it again"):
        load(folder)


def test_a_tower_that_is_missing(bert: Tower, tmp_path: Path) -> None:
    apart(bert).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "entity").rename(tmp_path / "entity")
    with pytest.raises(DataError, match=r"model/entity/1_Pooling/config\.json: the file is missing"):
        load(tmp_path / "model")


@pytest.mark.parametrize("file", ["projection.safetensors", "model-00001-of-00002.safetensors"])
def test_weights_that_were_not_saved_with_the_model(bert: Tower, tmp_path: Path, file: str) -> None:
    shared(bert).save_pretrained(tmp_path)
    save_file({"weight": torch.ones(2, 64)}, tmp_path / file)
    with pytest.raises(DataError, match=f"{file}: the file was not saved with the model; remove it"):
        load(tmp_path)


def test_a_card_of_the_model_may_lie_beside_it(folder: Path) -> None:
    (folder / "README.md").write_text("# A model")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs")
    load(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "projection.safetensors", "arbo.json"])
@pytest.mark.parametrize("write", [lambda x, file: file.write_bytes(pickle.dumps(x)), torch.save])
def test_a_pickle_is_never_unpickled(
    folder: Path, tmp_path: Path, file: str, write: Callable[[object, Path], None]
) -> None:
    write(Bomb(tmp_path / "exploded"), folder / file)
    if file != "arbo.json":
        vouch(folder, file)
    with pytest.raises(DataError, match=r"cannot load the|cannot read the manifest"):
        load(folder)
    assert not (tmp_path / "exploded").exists()


def test_pickles_beside_a_model_are_no_fallback(folder: Path, tmp_path: Path) -> None:
    torch.save(Bomb(tmp_path / "exploded"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"model.safetensors: the file is missing"):
        load(folder)
    known = json.loads((folder / "arbo.json").read_text())["files"]
    del known["model.safetensors"]
    edit_json(folder / "arbo.json", files=known)
    with pytest.raises(DataError, match=r"the model has no model\.safetensors"):
        load(folder)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"weight": torch.ones(16, 63)}, "the projection needs vectors of 63 dimensions, but the model returns 64"),
        ({"weight": torch.ones(64)}, "the projection has no matrix `weight`"),
        ({"weight": torch.ones(2, 3, 64)}, "the projection has no matrix `weight`"),
        ({"other": torch.ones(16, 64)}, "the projection has no matrix `weight`"),
        ({"weight": torch.ones(16, 64), "bias": torch.ones(15)}, "cannot load the projection: "),
        ({"weight": torch.ones(16, 64), "other": torch.ones(1)}, "cannot load the projection: "),
    ],
)
def test_a_projection_of_the_wrong_shape(folder: Path, weights: dict[str, torch.Tensor], problem: str) -> None:
    save_file(weights, folder / "projection.safetensors")
    vouch(folder, "projection.safetensors")
    with pytest.raises(DataError, match=rf"projection.safetensors: .*{problem}"):
        load(folder)


def test_projections_into_different_spaces(bert: Tower, tmp_path: Path) -> None:
    apart(bert).save_pretrained(tmp_path)
    file = "entity/projection.safetensors"
    save_file({"weight": load_file(tmp_path / file)["weight"][:8]}, tmp_path / file)
    vouch(tmp_path, file)
    with pytest.raises(UsageError, match="vectors of mentions have 16 dimensions, but vectors of entities have 8"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "cannot read the manifest of the model"),
        ("[" * 10**5, "cannot read the manifest of the model"),
        ("[]", "this is not a .* that arbo saved: its format is"),
        ('{"format": "arbo-run"}', "this is not a .* that arbo saved: its format is"),
        ('{"format": {}}', "this is not a .* that arbo saved: its format is"),
        (
            '{"format": "arbo-model"}',
            "the manifest has no valid format_version, versions, config, shared, files; save",
        ),
    ],
)
def test_manifests_that_cannot_be_read(bert: Tower, folder: Path, content: str, problem: str) -> None:
    (folder / "arbo.json").write_text(content)
    with pytest.raises(DataError, match=rf"arbo\.json: {problem}"):
        load(folder)
    with pytest.raises(DataError, match=rf"arbo\.json: {problem}"):
        shared(bert).save_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"format_version": 2, "new": 1},
            "a newer arbo wrote this .format 2; the installed one reads up to 1.; run: pip install",
        ),
        ({"format_version": 0}, "the manifest has no valid format_version"),
        ({"format_version": True}, "the manifest has no valid format_version"),
        ({"format_version": "1"}, "the manifest has no valid format_version"),
        ({"shared": 1}, "the manifest has no valid shared"),
        ({"files": []}, "the manifest has no valid files"),
        ({"config": None}, "the manifest has no valid config"),
        ({"poolin": "cls", "code": ""}, "unknown keys: 'code', 'poolin'; known are format, "),
        ({"config": {"poolin": "cls"}}, "unknown setting: 'poolin'"),
        ({"config": {"pooling": "max"}}, "pooling 'max' is not one of"),
    ],
)
def test_manifests_that_are_not_of_this_version(folder: Path, changes: dict[str, Any], problem: str) -> None:
    edit_json(folder / "arbo.json", **changes)
    with pytest.raises(DataError, match=rf"arbo\.json: .*{problem}"):
        load(folder)


@pytest.mark.parametrize("file", ["/dev/zero", "../outside.txt", "mention/../config.json", ".", "x\0", ""])
def test_names_that_lead_elsewhere_are_not_opened(folder: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "outside.txt").write_text("")
    edit_json(folder / "arbo.json", files={file: hashlib.sha256(b"").hexdigest()})
    with pytest.raises(DataError, match="the file is missing"):
        load(folder)

"""Model folders: complete or absent, the same model again or an error, and nothing else is ever touched."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import huggingface_hub
import numpy as np
import pytest
import torch
from builders import dual_encoder, files_in, save_data
from conftest import Run
from model_folders import CONFIG, HF, MAKE, OWN, PROJECTED, TWO, apart, load, shared

import arbo
from arbo import files
from arbo.data.inputs import mention_inputs
from arbo.encoders.model_folder import check_model_replaceable
from arbo.encoders.tower import Precision, Tower
from arbo.errors import UsageError


@pytest.fixture
def folder(bert: Tower, tmp_path: Path) -> Path:
    """A model with a projection, in one tower."""
    MAKE["shared, projected"](bert).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


# There and back


@pytest.mark.parametrize("kind", MAKE)
def test_what_was_saved_is_loaded(bert: Tower, tmp_path: Path, kind: str) -> None:
    encoder = MAKE[kind](bert)
    encoder.module.train()
    encoder.save_pretrained(tmp_path / "model")
    assert all(module.training for module in encoder.module)
    again = load(tmp_path / "model")
    assert (again.config, again.threshold, again.shared) == (CONFIG, (-0.25, 1), encoder.shared)
    assert again.settings == {**encoder.settings, "model": str(tmp_path / "model")}
    assert not any(module.training for module in again.module)
    documents, kb = arbo.load_sample()
    inputs = mention_inputs(documents, expand_abbreviations=True)
    for one, other in (
        (encoder.encode_mentions(inputs), again.encode_mentions(inputs)),
        (encoder.encode_entities(kb), again.encode_entities(kb)),
    ):
        assert np.array_equal(one.matrix, other.matrix)
        assert one.matrix.shape[1] == encoder.entity_tower.dim
    again.save_pretrained(tmp_path / "twice")
    assert json.loads((tmp_path / "twice" / "arbo.json").read_text()) == json.loads(
        (tmp_path / "model" / "arbo.json").read_text()
    )


def test_a_tower_of_another_kind(roberta: Tower, tmp_path: Path) -> None:
    encoder = shared(roberta)
    encoder.save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").settings["weights"] == encoder.settings["weights"]


@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.slow
def test_precisions(bert_folder: Path, tmp_path: Path, precision: Precision) -> None:
    coarse = load(bert_folder, config=CONFIG, precision=precision).with_markers().with_projection(16)
    coarse.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model", precision=precision)
    assert again.settings["weights"] == coarse.settings["weights"]
    assert next(again.mention_tower.model.parameters()).dtype == getattr(torch, precision)
    assert again.mention_tower.projection is not None
    assert again.mention_tower.projection.weight.dtype == torch.float32
    kb = arbo.load_sample()[1]
    assert np.array_equal(again.encode_entities(kb).matrix, coarse.encode_entities(kb).matrix)
    assert load(tmp_path / "model").mention_tower.model.dtype == torch.float32


def test_a_bias_of_the_projection(bert: Tower, tmp_path: Path) -> None:
    tower = Tower.of(bert.model, bert.tokenizer, torch.nn.Linear(64, 8))
    encoder = dual_encoder(tower)
    encoder.save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").settings["weights"] == encoder.settings["weights"]


def test_another_configuration_and_a_plain_model(folder: Path, bert_folder: Path) -> None:
    other = arbo.EncoderConfig(pooling="mention")
    assert load(folder, config=other).config == other
    assert load(bert_folder).config == arbo.EncoderConfig()


@pytest.mark.parametrize("kind", ["shared", "apart"])
def test_transformers_reads_it(bert: Tower, tmp_path: Path, kind: str) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = MAKE[kind](bert)
    encoder.save_pretrained(tmp_path)
    place: dict[str, Any] = {} if encoder.shared else {"subfolder": "mention"}
    model, tokenizer = AutoModel.from_pretrained(tmp_path, **place), AutoTokenizer.from_pretrained(tmp_path, **place)
    ids = tokenizer("the [START] fever [END]", return_tensors="pt")["input_ids"]
    start, end = tokenizer.convert_tokens_to_ids(["[START]", "[END]"])
    assert {start, end} <= set(ids[0].tolist())
    with torch.inference_mode():
        assert torch.equal(model(ids).last_hidden_state, encoder.mention_tower.model(ids).last_hidden_state)


# What is written


def test_a_model_folder_is_what_the_documentation_says(bert: Tower, tmp_path: Path) -> None:
    for kind, expected in (
        ("shared", HF),
        ("shared, projected", PROJECTED),
        ("apart", TWO),
    ):
        MAKE[kind](bert).save_pretrained(tmp_path / kind)
        manifest = json.loads((tmp_path / kind / "arbo.json").read_text("utf-8"))
        assert files_in(tmp_path / kind) == expected | OWN
        assert manifest["files"] == {
            name: hashlib.sha256((tmp_path / kind / name).read_bytes()).hexdigest() for name in expected
        }
        assert (manifest["format"], manifest["format_version"]) == ("arbo-model", 1)
        assert manifest["shared"] is (kind != "apart")
        assert arbo.EncoderConfig.from_dict(manifest["config"]) == CONFIG
        assert torch.__version__.startswith(manifest["versions"]["torch"])
        assert {"arbo", "transformers", "python"} <= set(manifest["versions"])
    assert {path.name for path in tmp_path.iterdir()} == set(MAKE)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_others_may_read_a_model_as_they_may_read_any_file(bert: Tower, tmp_path: Path) -> None:
    apart(bert).save_pretrained(tmp_path / "model")
    (tmp_path / "plain").touch()
    mode = (tmp_path / "plain").stat().st_mode
    assert {(tmp_path / "model" / name).stat().st_mode for name in files_in(tmp_path / "model")} == {mode}


@pytest.mark.parametrize("name", ["with blank", "ünïcode 病気", "[b]", "deep/er/model"])
def test_any_path(bert: Tower, tmp_path: Path, name: str) -> None:
    encoder = shared(bert)
    encoder.save_pretrained(tmp_path / name)
    encoder.save_pretrained(tmp_path / name)
    assert load(tmp_path / name).settings["weights"] == encoder.settings["weights"]
    assert not [path for path in tmp_path.rglob("*") if "arbo-" in path.name]


# What is replaced, and what never is


@pytest.mark.parametrize("before", MAKE)
@pytest.mark.parametrize("after", ["shared", "apart"])
def test_an_earlier_model_is_replaced(bert: Tower, tmp_path: Path, before: str, after: str) -> None:
    MAKE[before](bert).save_pretrained(tmp_path / "model")
    encoder = MAKE[after](bert)
    encoder.save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").settings["weights"] == encoder.settings["weights"]
    assert files_in(tmp_path / "model") == (TWO if after == "apart" else HF) | OWN
    assert os.listdir(tmp_path) == ["model"]


def test_an_empty_folder_is_filled(bert: Tower, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    shared(bert).save_pretrained(tmp_path / "model")
    assert files_in(tmp_path / "model") == HF | OWN


@pytest.mark.parametrize("content", ["thesis.txt", "deep/thesis.txt", "config.json", "manifest.json"])
def test_a_folder_that_is_no_model_of_arbo_is_refused(bert: Tower, tmp_path: Path, content: str) -> None:
    file = tmp_path / "model" / content
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(UsageError, match="exists and is not a model folder of arbo"):
        shared(bert).save_pretrained(tmp_path / "model")
    assert files_in(tmp_path) == {f"model/{content}"}


@pytest.mark.parametrize("content", ["thesis.txt", "mention/thesis.txt", "checkpoints/1"])
def test_other_files_in_a_model_folder_are_kept(bert: Tower, folder: Path, content: str) -> None:
    (folder / content).parent.mkdir(exist_ok=True)
    (folder / content).write_text("precious")
    before = files_in(folder)
    with pytest.raises(UsageError, match=f"also has files that would be deleted, such as {content};"):
        shared(bert).save_pretrained(folder)
    assert files_in(folder) == before
    load(folder)


@pytest.mark.parametrize("place", [".", "deep/model"])
def test_a_file_is_refused(bert: Tower, tmp_path: Path, place: str) -> None:
    (tmp_path / "model").write_text("precious")
    with pytest.raises(UsageError, match=r"not a model folder of arbo|cannot write"):
        shared(bert).save_pretrained(tmp_path / "model" / place)
    assert (tmp_path / "model").read_text() == "precious"
    assert files_in(tmp_path) == {"model"}


def test_whether_a_place_will_do_is_known_before_the_work(folder: Path, tmp_path: Path) -> None:
    check_model_replaceable(folder)
    check_model_replaceable(tmp_path / "new")
    with pytest.raises(UsageError):
        check_model_replaceable(tmp_path)


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("step", ["tower", "projection", "manifest", "move"])
@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), RuntimeError("I/O error"), SystemExit(130)]
)
@pytest.mark.slow
def test_a_failure_leaves_what_was_there(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool, step: str, failure: BaseException
) -> None:
    target = tmp_path / "model"
    if earlier:
        shared(bert).save_pretrained(target)
    before = {name: (target / name).read_bytes() for name in files_in(target)}
    encoder = apart(bert)
    save, write_bytes, write_text, replace = Tower.save, Path.write_bytes, Path.write_text, os.replace

    def fail_at(place: str) -> None:
        if place == step:
            raise failure

    def tower(self: Tower, folder: Path) -> None:
        save(self, folder)
        fail_at("tower" if folder.name == "entity" else "")

    def content(path: Path, data: bytes) -> int:
        fail_at("projection" if path.parent.name == "entity" else "")
        return write_bytes(path, data)

    def text(path: Path, *args: Any) -> int:
        fail_at("manifest")
        return write_text(path, *args)

    def move(source: Path, to: Path) -> None:
        fail_at("move" if "partial" in Path(source).name else "")
        replace(source, to)

    monkeypatch.setattr(Tower, "save", tower)
    monkeypatch.setattr(Path, "write_bytes", content)
    monkeypatch.setattr(Path, "write_text", text)
    monkeypatch.setattr(os, "replace", move)
    with pytest.raises((UsageError, SystemExit), match=f"cannot write the model folder {target}: |130"):
        encoder.save_pretrained(target)
    monkeypatch.undo()
    assert {name: (target / name).read_bytes() for name in files_in(target)} == before
    assert os.listdir(tmp_path) == (["model"] if earlier else [])
    encoder.save_pretrained(target)
    assert load(target).settings["weights"] == encoder.settings["weights"]


# The hub


@pytest.mark.parametrize("kind", MAKE)
def test_a_model_on_the_hub(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What the hub would send is copied to where it would put it."""
    encoder = MAKE[kind](bert)
    encoder.save_pretrained(tmp_path / "origin")
    for extra in ("onnx/config.json", "README.md", "pytorch_model.bin", "mention/pytorch_model.bin", "mention/x.py"):
        (tmp_path / "origin" / extra).parent.mkdir(exist_ok=True)
        (tmp_path / "origin" / extra).write_text("{}")
    asked = []

    def fetch(name: str, *, revision: str | None, **patterns: Any) -> str:
        asked.append((name, revision))
        commit = tmp_path / "0123abc"
        for file in huggingface_hub.utils.filter_repo_objects(sorted(files_in(tmp_path / "origin")), **patterns):
            (commit / file).parent.mkdir(exist_ok=True, parents=True)
            (commit / file).write_bytes((tmp_path / "origin" / file).read_bytes())
        return str(commit)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    again = load("org/tiny", revision="v1")
    assert again.settings == {**encoder.settings, "model": "org/tiny"}
    assert asked == [("org/tiny", "v1"), ("org/tiny", "0123abc")]
    expected = {"shared": HF, "shared, projected": PROJECTED, "apart": TWO}[kind]
    assert files_in(tmp_path / "0123abc") == expected | {"arbo.json"}


def test_a_model_that_came_from_the_hub_before(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    commit = "0" * 40
    repository = tmp_path / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    encoder = apart(bert)
    encoder.save_pretrained(repository / "snapshots" / commit)
    assert load("org/tiny").settings["weights"] == encoder.settings["weights"]


# The command line


@pytest.mark.slow
def test_two_processes_write_one_folder(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other, target = shared(bert), apart(bert), tmp_path / "model"
    model.save_pretrained(target)
    move, moved = os.replace, []

    def racing(source: Path, place: Path) -> None:
        move(source, place)
        moved.append(place)
        if len(moved) == 1:  # the earlier model has just been moved out of the way: another process puts its own there
            other.save_pretrained(target)

    monkeypatch.setattr(files, "_exchange", lambda one, other: False)  # as on disks that cannot do so
    monkeypatch.setattr(os, "replace", racing)
    model.save_pretrained(target)
    monkeypatch.undo()
    assert load(target).settings["weights"] == model.settings["weights"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_link_and_discover_with_a_model_folder(bert: Tower, tmp_path: Path, run: Run) -> None:
    apart(bert).save_pretrained(tmp_path / "model")
    documents, kb = arbo.load_sample()
    data = save_data(tmp_path, documents[:9], kb)
    model = ("--encoder", tmp_path / "model", "--cache", tmp_path / "cache")
    assert run("link", *data, *model, "--out", tmp_path / "run").code == 0
    linked = arbo.Result.load(tmp_path / "run")
    assert linked.manifest["encoder"] == json.loads(json.dumps(load(tmp_path / "model").settings))
    assert linked.manifest["threshold"] == {"entity": -0.25, "mention": 1}
    expected = arbo.Linker(kb, load(tmp_path / "model")).link(documents[:9])
    assert linked.link_table == expected.link_table

    (tmp_path / "reader.json").write_text('{"pooling": "mention"}')
    own = ("--encoder-config", tmp_path / "reader.json", "--out", tmp_path / "found")
    assert run("discover", *data[:3], *model, *own).code == 0
    config = arbo.Result.load(tmp_path / "found").manifest["encoder"]["config"]
    changed = replace(CONFIG, pooling="mention", entity_threshold=None, mention_threshold=None)
    assert arbo.EncoderConfig.from_dict(config) == changed

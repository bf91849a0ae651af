"""Models of sentence-transformers are read with their pooling, metric and length; other modules are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from model_folders import load

import arbo
from arbo.encoders.tower import Tower

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
    bert: Tower, bert_folder: Path, tmp_path: Path, pooling: Any, kinds: list[str], files: Any, expected: Any
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
def test_modules_that_are_refused(
    bert_folder: Path, tmp_path: Path, pooling: Any, kinds: list[str], files: Any, problem: str
) -> None:
    with pytest.raises(arbo.DataError, match=problem):
        load(module_folder(bert_folder, tmp_path, pooling, kinds, **files))

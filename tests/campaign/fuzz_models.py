"""Folders of models whose settings, tokenizers or weights were changed, and whose hashes were computed again."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import model_folders
import mutations
import tiny_models
from commands import asked

import arbo
from campaign.fuzz_folders import _array, originals
from campaign.runner import Campaign

_KEPT = TemporaryDirectory(prefix="arbo-campaign-models-")


@cache
def _models(kind: str) -> list[Path]:
    """Save models of a kind, once in a process."""
    from torch.nn import Linear

    from arbo.encoders.cross import CrossEncoder
    from arbo.encoders.cross_config import CrossEncoderConfig
    from arbo.encoders.tower import Tower
    from arbo.spans.config import LabelAttentionConfig
    from arbo.spans.model import LabelAttention

    root, found = Path(_KEPT.name, kind), []
    bert = Tower.load(tiny_models.bert(root / "bert"), device="cpu")

    def finder() -> LabelAttention:
        return LabelAttention.of(bert, LabelAttentionConfig(max_length=64, max_name_length=16))

    made: list[Any] = {
        "encoder": lambda: [make(bert) for make in model_folders.MAKE.values()],
        "reranker": lambda: [CrossEncoder.of(bert, CrossEncoderConfig(max_length=40, candidates=3)).with_markers()],
        "finder": lambda: [own := finder(), own.with_head(Linear(bert.dim, 1))],
    }[kind]()
    for place, model in enumerate(made):
        model.save_pretrained(folder := root / str(place))
        found.append(folder)
    return found


def _damage(file: Path, chance: random.Random) -> None:
    """Change a value of JSON, or a tensor."""
    if file.suffix == ".safetensors":
        from safetensors.numpy import load_file, save_file

        tensors = load_file(file)
        name = chance.choice(sorted(tensors))
        tensors[name] = _array(tensors[name], chance)
        if tensors[name].dtype.kind == "U":
            raise ValueError("no tensor has texts")
        if chance.random() < 0.1:
            del tensors[name]
        save_file(tensors, file, {"format": "pt"})
    elif chance.random() < 0.1:
        file.write_bytes(mutations.mutated(file.read_bytes(), chance))
    else:
        file.write_text(json.dumps(mutations.changed(json.loads(file.read_bytes()), chance)), "utf-8")


def _model(kind: str, option: str, seed: int, folder: Path) -> None:
    """Link with a damaged model: an error, or a run whose scores are numbers."""
    chance, files, model = random.Random(seed), originals(), folder / "model"
    shutil.copytree(chance.choice(_models(kind)), model)
    described = model / "arbo.json"
    file = chance.choice(sorted(one for one in model.rglob("*") if one.suffix in (".json", ".safetensors")))
    with suppress(KeyError, ValueError, TypeError, OverflowError):  # no such value fits
        _damage(file, chance)
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        known = json.loads(described.read_bytes())
        known["files"] = {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in known["files"]}
        described.write_text(json.dumps(known), "utf-8")
    told = asked(
        "link", files["docs.jsonl"], "--kb", files["kb.jsonl"], option, model, "--out", folder / "run", "--json"
    )
    if isinstance(told, dict):
        for link in arbo.Result.load(folder / "run").links:
            assert link.score is None or abs(link.score) < float("inf")


_OPTIONS = {"encoder": "--encoder", "reranker": "--reranker", "finder": "--find-mentions"}
CAMPAIGNS = {
    f"{kind}s": Campaign(
        partial(_model, kind, option),
        f"a damaged {kind} whose hashes fit is refused, or used without a traceback",
        2_000,
        4,
    )
    for kind, option in _OPTIONS.items()
}

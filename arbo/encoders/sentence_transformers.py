"""The layout of sentence-transformers: a transformer, its pooling, perhaps a linear layer, and normalisation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.pretrained import MODULES, load_projection
from arbo.encoders.tower import Loading, Tower
from arbo.errors import DataError
from arbo.settings import read_json

_POOLINGS = ("cls", "mean")
_MODES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
"""Poolings by their names in the settings; all others begin with `pooling_mode_` too."""
_ORDERS = [["Transformer", "Pooling", *more] for more in ([], ["Normalize"], ["Dense"], ["Dense", "Normalize"])]
_WANTED = "a Transformer, a Pooling (cls or mean) and, perhaps, a Dense without activation, a Normalize, in this order"


def load_modules(folder: Path, **how: Unpack[Loading]) -> tuple[Tower, EncoderConfig] | None:
    """Load a model of sentence-transformers; return None for a folder without `MODULES`.

    Prompts are not read. Raise DataError for modules that arbo has not, and the errors of `Tower.load`.
    """
    if not (folder / MODULES).is_file():
        return None
    modules = read_json(folder / MODULES, "the list of modules")
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        places = {kind: folder / Path(module["path"]).name for kind, module in zip(kinds, modules, strict=True)}
    except (TypeError, KeyError):
        kinds, places = [], {}
    pooling, dense = _settings(places.get("Pooling", folder)), places.get("Dense")
    chosen = {name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True}
    modes: list[Any] = [_MODES.get(name) for name in chosen] or [pooling.get("pooling_mode")]
    activation = str(_settings(dense).get("activation_function")) if dense else "Identity"
    if kinds not in _ORDERS or len(modes) != 1 or modes[0] not in _POOLINGS or not activation.endswith("Identity"):
        problem = f"the modules of this model of sentence-transformers must be {_WANTED}; choose another model"
        raise DataError(problem, file=str(folder))
    similarity = _settings(folder, "config_sentence_transformers.json").get("similarity_fn_name")
    is_dot = similarity in ("dot", "dot_product") and "Normalize" not in places
    config = EncoderConfig(pooling=modes[0], metric="dot" if is_dot else "cosine")
    longest = _settings(places["Transformer"], "sentence_bert_config.json").get("max_seq_length")
    if type(longest) is int and 0 < longest < config.max_length:
        config = replace(config, max_length=longest)
    tower = Tower.load(places["Transformer"], **how)
    if dense is not None:
        linear = load_projection(dense / "model.safetensors", tower.model.config.hidden_size)
        tower = Tower.of(tower.model, tower.tokenizer, linear.to(tower.model.device))
    return tower, config


def _settings(place: Path, name: str = "config.json") -> dict[str, Any]:
    values = read_json(place / name, "the module") if (place / name).is_file() else {}
    return values if isinstance(values, dict) else {}


def write_modules(tower: Tower, config: EncoderConfig, folder: Path) -> bool:
    """Write the files with which sentence-transformers loads a tower in a folder; return False if it cannot.

    It can if the pooling is ``cls`` or ``mean``; texts are then those of the template without ``[CLS]`` and ``[SEP]``.
    """
    if config.pooling not in _POOLINGS:
        return False
    size = tower.model.config.hidden_size
    kinds = ["Transformer", "Pooling", *["Dense"] * (tower.projection is not None)]
    kinds += ["Normalize"] * (config.metric == "cosine")
    paths = [f"{number}_{kind}" if number else "" for number, kind in enumerate(kinds)]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    modes = {name: mode == config.pooling for name, mode in _MODES.items()}
    files: dict[str, Any] = {
        MODULES: modules,
        "sentence_bert_config.json": {"max_seq_length": config.max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {"similarity_fn_name": config.metric},
        "1_Pooling/config.json": {"word_embedding_dimension": size, **modes},
    }
    if tower.projection is not None:
        linear = {"in_features": size, "out_features": tower.dim, "bias": tower.projection.bias is not None}
        files["2_Dense/config.json"] = {**linear, "activation_function": "torch.nn.modules.linear.Identity"}
    for name, values in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", "utf-8")
    if tower.projection is not None:
        from safetensors.torch import save

        weights = {f"linear.{name}": value for name, value in tower.projection.state_dict().items()}
        (folder / "2_Dense/model.safetensors").write_bytes(save(weights))
    return True

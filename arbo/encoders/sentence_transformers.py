"""The layout of sentence-transformers: a transformer, its pooling, and perhaps normalisation."""

from pathlib import Path
from typing import Any

from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.pretrained import MODULES
from arbo.errors import DataError
from arbo.settings import read_json

_MODES: dict[Any, Any] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_MODES |= {mode: mode for mode in _MODES.values()}  # as newer versions write them
_ORDERS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])


def read_modules(folder: Path) -> tuple[Path, EncoderConfig]:
    """Return the folder of the transformer, and the settings of a model of sentence-transformers.

    Prompts are not read. Raise DataError for modules other than a transformer, a pooling and a normalisation.
    """
    modules = read_json(folder / MODULES, "the list of modules")
    try:
        places = {module["type"].rpartition(".")[2]: folder / Path(module["path"]).name for module in modules}
        pooling = _settings(places["Pooling"], "config.json")
        chosen = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
        (mode,) = chosen or [pooling["pooling_mode"]]
        config = EncoderConfig(pooling=_MODES[mode])
    except (TypeError, KeyError, ValueError, AttributeError):
        places = {}
    if [*places] not in _ORDERS:
        expected = "a Transformer, a Pooling (cls or mean) and, perhaps, a Normalize"
        raise DataError(f"the modules must be {expected}, in this order; choose another model", file=str(folder))
    similarity = _settings(folder, "config_sentence_transformers.json").get("similarity_fn_name")
    longest = _settings(places["Transformer"], "sentence_bert_config.json").get("max_seq_length") or config.max_length
    is_dot = similarity in ("dot", "dot_product") and "Normalize" not in places
    changes = {"metric": "dot" if is_dot else "cosine", "max_length": min(longest, config.max_length)}
    return places["Transformer"], config.changed_by(changes, file=str(folder))


def _settings(place: Path, name: str) -> dict[str, Any]:
    return dict(read_json(place / name, "the module")) if (place / name).is_file() else {}

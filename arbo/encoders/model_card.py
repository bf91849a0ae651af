"""Model cards: a README.md with the front matter of Hugging Face, how to use the model, and how it was trained."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.pretrained import MINILM

CARD = "README.md"

_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The content of a card besides the configuration of the model; paths of files do not belong here."""

    base_model: str | None = None
    """The name on the hub of the model that was trained; any other name is left out."""
    datasets: Sequence[str] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores on the development documents."""


def write_card(card: ModelCard, config: EncoderConfig, folder: Path, *, sentences: bool) -> None:
    """Write the card; ``sentences`` says whether sentence-transformers can load the folder."""
    library = "sentence-transformers" if sentences else "transformers"
    front: dict[str, Any] = {"library_name": library, "pipeline_tag": "feature-extraction"}
    front["tags"] = ["arbo", "entity-linking", *["sentence-transformers"] * sentences]
    base = f"sentence-transformers/{MINILM}" if card.base_model == MINILM else card.base_model or ""
    if _ON_HUB.fullmatch(base) and not Path(base).exists():
        front["base_model"] = base
    front |= {"datasets": [*card.datasets]} if card.datasets else {}
    front |= {"metrics": [*card.scores]} if card.scores else {}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", ""]
    lines += ["# An encoder of mentions and entities", "", "It was made by arbo, which links mentions to entities."]
    lines += ["", "```python", "import arbo", "", 'linker = arbo.Linker(kb, "path/to/this/model")', "```", ""]
    if sentences:
        lines += [f"sentence-transformers loads it too. A mention is written as `{config.mention}`, and an entity as"]
        lines += [f"`{config.entity}`; the tokenizer itself adds `[CLS]` and `[SEP]`.", ""]
    tables = {"Scores on the development documents": card.scores, "Training": card.training}
    for title, values in [*tables.items(), ("Configuration", asdict(config))]:
        if values:
            lines += [f"## {title}", "", "| | |", "|---|---|"]
            lines += [f"| {name} | {_cell(value)} |" for name, value in values.items()] + [""]
    (folder / CARD).write_text("\n".join(lines), "utf-8")


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"`{text}`".replace("|", "\\|").replace("\n", " ")

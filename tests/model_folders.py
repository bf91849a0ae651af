"""Models to be saved, and what their folders hold."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from builders import dual_encoder, projecting

import arbo
from arbo.encoders.tower import Tower

CONFIG = arbo.EncoderConfig.in_context(max_length=40, entity_threshold=-0.25, mention_threshold=1, context=7)

HF = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
HF |= {"special_tokens_map.json"} if transformers.__version__.startswith("4.") else set()
PROJECTED = {*HF, "projection.safetensors"}
TWO = {f"{tower}/{file}" for tower in ("mention", "entity") for file in PROJECTED}
OWN = {"arbo.json"}


def shared(bert: Tower) -> arbo.DualEncoder:
    """Make a model with markers, in one tower."""
    return dual_encoder(bert, CONFIG).with_markers()


def projected(model: arbo.DualEncoder) -> arbo.DualEncoder:
    """Project the vectors of a model, that of one tower for both or of two towers."""
    mention = projecting(model.mention_tower, 16)
    entity = mention if model.shared else projecting(model.entity_tower, 16)
    return replace(model, mention_tower=mention, entity_tower=entity)


def apart(bert: Tower) -> arbo.DualEncoder:
    """Make two towers with other markers and other weights each, and a projection."""
    two = projected(dual_encoder(bert, CONFIG).with_two_towers()).with_markers()
    with torch.no_grad():
        for parameter in two.entity_tower.model.parameters():
            parameter.mul_(1.01)
    return two.copy()


MAKE: dict[str, Callable[[Tower], arbo.DualEncoder]] = {"shared": shared, "apart": apart}
MAKE["shared, projected"] = lambda bert: projected(shared(bert))


def load(folder: str | Path, **options: Any) -> arbo.DualEncoder:
    return arbo.DualEncoder.from_pretrained(folder, device="cpu", **options)

"""The verb that aligns the names of a knowledge base: train-names."""

from __future__ import annotations

from typing import Annotated

import arbo
from arbo.cli import console
from arbo.cli.inputs import Kb
from arbo.cli.models import reading
from arbo.cli.train_options import EncoderConfig, Training, oslat_preset
from arbo.training.config import FinderPresetName, SelfAlignmentConfig

_Preset = Annotated[
    FinderPresetName | None, oslat_preset("at a rate that does not rise. [default: none, with those below]")
]


def train_names(
    kb: Kb,
    training: Annotated[Training, SelfAlignmentConfig],
    encoder_config: EncoderConfig = None,
    preset: _Preset = None,
) -> None:
    """Train an encoder to map all names of an entity to similar vectors.

    `arbo train-names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`. The result is an encoder
    like any other and a good start for `arbo train` and `arbo train-finder`.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.training.presets import FINDER_PRESETS

    settings = training.settings(SelfAlignmentConfig() if preset is None else FINDER_PRESETS[preset].alignment)
    # OSLAT, section 3.1: the first token's vector is aligned.
    start = reading(
        arbo.DualEncoder.from_pretrained(training.encoder, arbo.EncoderConfig(pooling="cls")), encoder_config
    )
    entities = kb.read()
    console.say(f"aligning the names of {len(entities):,} entities")
    trained = arbo.train_self_alignment(start, entities, out=training.out, config=settings, options=training.run())
    encoder = f"DOCS --encoder {training.out} ..."
    following = f"next: arbo train-finder {encoder}, or arbo link {encoder}"
    training.report(trained.settings, settings.as_dict(), following)

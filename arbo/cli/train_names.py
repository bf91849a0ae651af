"""The verb `train names`."""

from __future__ import annotations

from typing import Annotated

import arbo
from arbo.cli import console
from arbo.cli.fields import ENCODER, READING, Chosen, Shown
from arbo.cli.inputs import Kb, ReadingConfig
from arbo.cli.training import ALIGNMENT, LOG, Training, preset as preset_option
from arbo.training.config import FinderPresetName, SelfAlignmentConfig

_PRESET = "oslat, at a rate that does not rise. [default: none]"


def train_names(
    kb: Kb,
    training: Training,
    how: Annotated[Chosen, Shown((ALIGNMENT, ENCODER, READING, LOG))],
    preset: Annotated[FinderPresetName | None, preset_option(_PRESET)] = None,
) -> None:
    """Train an encoder to map all names of an entity to similar vectors.

    `arbo train names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`. The result is an encoder like any other
    and a good start for `arbo train encoder` and `arbo train finder`.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.pipeline.named_linker import changed_encoder
    from arbo.training.presets import FINDER_PRESETS

    settings = how.of(ALIGNMENT, SelfAlignmentConfig() if preset is None else FINDER_PRESETS[preset].alignment)
    # OSLAT, section 3.1: the first token's vector is aligned.
    start = arbo.DualEncoder.from_pretrained(training.encoder, arbo.EncoderConfig(pooling="cls"))
    start = changed_encoder(start, how.given(ENCODER))
    entities = kb.read(how.of(READING, ReadingConfig()))
    console.say(f"aligning the names of {len(entities):,} entities")
    trained = arbo.train_self_alignment(start, entities, out=training.out, config=settings, options=training.run(how))
    encoder = f"DOCS --encoder {training.out} ..."
    following = f"next: arbo train finder {encoder}, or arbo link {encoder}"
    training.report(trained.settings, settings.as_dict(), following)

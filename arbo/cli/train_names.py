"""The verb that aligns the names of a knowledge base: train-names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument

import arbo
from arbo.cli import console
from arbo.cli.inputs import Kb, Reading, tell_known
from arbo.cli.models import reading
from arbo.cli.train_options import EncoderConfig, Training, oslat_preset
from arbo.training.config import FinderPresetName, SelfAlignmentConfig

_DOCUMENTS = (
    "Annotated documents, as files or folders, to align only the names of the entities in them. Without DOCS, all "
    "names are aligned."
)
_Preset = Annotated[
    FinderPresetName | None, oslat_preset("at a rate that does not rise. [default: none, with those below]")
]
_Documents = Annotated[list[Path] | None, Argument(metavar="[DOCS]", help=_DOCUMENTS, show_default=False)]


def train_names(
    kb: Kb,
    how: Reading,
    training: Annotated[Training, SelfAlignmentConfig],
    docs: _Documents = None,
    encoder_config: EncoderConfig = None,
    preset: _Preset = None,
) -> None:
    """Train an encoder to map all names of an entity to similar vectors; documents are optional.

    `arbo train-names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`. The result is an encoder
    like any other and a good start for `arbo train` and `arbo train-finder`.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.training.presets import FINDER_PRESETS

    if not docs and (how.types or how.format_ or how.ids):
        raise arbo.UsageError("--types, --format and --ids need DOCS; give DOCS, or leave the options out")
    base = SelfAlignmentConfig() if preset is None else FINDER_PRESETS[preset].alignment
    settings = training.settings(base)
    # OSLAT, section 3.1: the first token's vector is aligned.
    start = reading(
        arbo.DualEncoder.from_pretrained(training.encoder, arbo.EncoderConfig(pooling="cls")), encoder_config
    )
    entities, documents = kb.read(), None
    if not docs:
        console.say(f"aligning the names of all {len(entities):,} entities; give DOCS to align only those in documents")
    else:
        documents = how.corpus(docs, how.ids)
        tell_known(documents, entities)
    told: dict[str, Any] = {"out": training.out, "config": settings, "options": training.run()}
    trained = arbo.train_self_alignment(start, entities, documents=documents, **told)
    encoder = f"DOCS --encoder {training.out} ..."
    following = f"next: arbo train-finder {encoder}, or arbo link {encoder}"
    training.report(trained.settings, settings.as_dict(), following)

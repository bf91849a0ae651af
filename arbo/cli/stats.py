"""The verb `stats`."""

from __future__ import annotations

from typing import Annotated

import typer

from arbo.cli import console, options
from arbo.cli.inputs import read_kb, read_parts
from arbo.cli.reporting import name_systems
from arbo.errors import UsageError


def stats(
    docs: options.Parts,
    kb: options.OptionalKb = None,
    format_: options.Format = None,
    kb_format: options.KbFormat = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    types: options.Types = None,
    ids: options.PartIds = None,
    frequent: Annotated[
        int,
        typer.Option("--examples", metavar="N", min=0, help="Number of most frequent entities to show of each part."),
    ] = 5,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Count the documents, mentions and entities of each part of a data set, and what the parts share.

    `arbo stats train.txt dev.txt test.txt --kb medic.txt`. Unseen (zero-shot) are the entities without a mention in the
    first part. Without --kb, an entity is a gold id or gold cluster. `arbo kb stats` counts a knowledge base.
    """
    from arbo.results.corpus_stats import corpus_stats

    if kb is None and kb_types:
        raise UsageError("--kb-types needs --kb; add it, or leave --kb-types out")
    parts = name_systems(docs, what="part")
    base = None if kb is None else read_kb(kb, kb_format, kb_xrefs, kb_types)
    found = corpus_stats(read_parts(parts, format_, types, on_error, ids), base, frequent=frequent)
    if as_json:
        console.print_json(found.as_dict())
    else:
        console.show(found)

"""The verb `stats`."""

from typing import Annotated

from typer import Option

from arbo.cli import console, options
from arbo.cli.inputs import OptionalKb, Parts, warn_of_missing_ids
from arbo.errors import UsageError


def stats(
    docs: Parts,
    kb: OptionalKb,
    frequent: Annotated[
        int, Option("--examples", metavar="N", min=0, help="Number of most frequent entities to show of each part.")
    ] = 5,
    as_json: options.Json = False,
) -> None:
    """Count the documents, mentions and entities of each part of a data set, and what the parts share.

    `arbo stats train.txt dev.txt test.txt --kb medic.txt`. Unseen (zero-shot) are the entities without a mention in the
    first part. Without --kb, an entity is a gold id or gold cluster. `arbo kb stats` counts a knowledge base.
    """
    from arbo.results.corpus_stats import corpus_stats

    for option, given in {"--kb-types": kb.kb_types, "--kb-xrefs": kb.kb_xrefs, "--kb-format": kb.kb_format}.items():
        if kb.path is None and given:
            raise UsageError(f"{option} needs --kb; add it, or leave {option} out")
    parts, entities = docs.read(), kb.read()
    if entities is not None:
        warn_of_missing_ids(next(iter(parts.values())), entities)
    found = corpus_stats(parts, entities, frequent=frequent)
    console.answer(found.as_dict(), found, as_json=as_json)

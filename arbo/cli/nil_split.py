"""The verb `nil-split`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from arbo.cli import console, options
from arbo.cli.inputs import Kb, Parts, warn_of_missing_ids
from arbo.cli.reporting import check_jsonl_output
from arbo.errors import UsageError

_TYPES = "Withhold entities of this type, or of the set `pel-nil` of UMLS; may be repeated."
_BRANCHES = "Withhold the entity with this id and all its is_a descendants (OBO files only); may be repeated."


def nil_split(
    docs: Parts,
    kb: Kb,
    out: Annotated[Path, Option(help="File to write the smaller knowledge base to, as JSON lines.")],
    withheld_types: Annotated[list[str] | None, Option("--withhold-type", metavar="TYPE", help=_TYPES)] = None,
    withheld_ids: Annotated[
        list[str] | None,
        Option("--withhold-id", metavar="ID", help="Withhold the entity with this id; may be repeated."),
    ] = None,
    branches: Annotated[list[str] | None, Option("--withhold-branch", metavar="ID", help=_BRANCHES)] = None,
    as_json: options.Json = False,
) -> None:
    """Withhold entities from a knowledge base, so that their mentions become NIL, and check the effect on DOCS.

    `arbo nil-split train dev --kb UBERON.obo --withhold-branch UBERON:0000062 --out
    smaller.jsonl`, then `arbo tune train --kb smaller.jsonl --objective nil_f1 --out tuned.json`.

    The documents do not change: a gold id that is missing from the knowledge base counts as NIL. The checks show
    whether NIL mentions also differ from all mentions in other ways: in the share of entities, mentions and names that
    occur in training, and in the definitions of their entities.
    """
    import arbo
    from arbo.readers.obo import read_obo_parents

    if branches and kb.kb_format not in (None, "obo"):
        mend = "for other formats use --withhold-type or --withhold-id"
        raise UsageError(f"--withhold-branch needs the is_a relations of an OBO file; {mend}")
    if branches and not kb.path.is_file() and not kb.path.is_dir():
        raise UsageError(f"--withhold-branch needs an existing file or folder as --kb; {kb.path} is neither")
    check_jsonl_output(out, kb.path, *docs.inputs)
    parents = read_obo_parents(kb.path) if branches else None
    if parents is not None and not any(parents.values()):
        raise UsageError(
            f"--withhold-branch needs is_a relations, but {kb.path} has none; use --withhold-type or --withhold-id"
        )
    parts = docs.read()
    base = kb.read()
    split = arbo.nil_split(
        base, parts, types=withheld_types or (), ids=withheld_ids or (), branches=branches or (), parents=parents
    )
    split.kb.to_jsonl(out)
    if not any(part.nil.mentions for part in split.checks.values()):
        console.warn("no mention of DOCS became NIL: none has only entities that are withheld")
        warn_of_missing_ids(next(iter(parts.values())), base)
    console.answer({"kb": str(out), **split.as_dict()}, f"{split}\n\nwritten to {out}", as_json=as_json)

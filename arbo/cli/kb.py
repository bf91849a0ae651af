"""The verbs of `arbo kb`: stats, validate, convert, index, add-names, add-discovered and remove-names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.console import counted
from arbo.cli.groups import spread
from arbo.cli.inputs import Docs, KbFile, read_kb, tell_format
from arbo.cli.models import load_encoder
from arbo.cli.reporting import check_jsonl_output
from arbo.cli.work import Shards
from arbo.errors import UsageError, listed
from arbo.formats import read_knowledge_base
from arbo.formats.files import read_lines
from arbo.text.names import normalize_name

app = typer.Typer(help="Inspect, convert or change a knowledge base.", no_args_is_help=True)

_OUTPUT = "File to write, in the format of its ending: .jsonl, .jsonl.gz, .tsv, .tsv.gz or .parquet."
Output = Annotated[Path, Option("--out", help=_OUTPUT)]


def stats(
    kb: KbFile,
    as_json: options.Json = False,
) -> None:
    """Count entities, names, definitions, types and ids, and the names that several entities share."""
    base = kb.read()
    found = base.stats()
    if as_json:
        console.print_json(found.as_dict())
    else:
        console.print_stats(found)


def validate(
    kb: options.KbArgument,
    kb_format: options.KbFormat = None,
    kb_types: options.KbTypes = None,
    examples: Annotated[
        int, Option(metavar="N", min=0, help="Number of examples to show of each kind of problem.")
    ] = 3,
    as_json: options.Json = False,
) -> None:
    """List the problems of a knowledge base, and how to solve them.

    Errors lose data or make an entity unreachable, such as malformed entries, or ids and names that nothing can match.
    If there is any error, the exit code is 3. Warnings, such as names that several entities share, are for you to
    judge; if there are only warnings, the exit code is 0. Of an index, all files are compared with their hashes, and
    all vectors are read.
    """
    from arbo.encoders.index import check_index

    told = tell_format(kb.name, "--kb-format")
    base = read_knowledge_base(kb, kb_format, on_error="skip", told=told, types=kb_types)
    check_index(base)
    found = base.problems(examples=examples)
    errors = sum(problem.severity == "error" for problem in found)
    if as_json:
        counts = {"entities": len(base), "errors": errors, "warnings": len(found) - errors}
        console.print_json({**counts, "problems": [problem.as_dict() for problem in found]})
    else:
        console.print_problems(found)
    if errors:
        raise typer.Exit(3)


def add_names(
    kb: KbFile, docs: Docs, out: Output, expand: options.Abbreviations = None, as_json: options.Json = False
) -> None:
    """Add the names that annotated DOCS use for entities to these entities as aliases.

    `arbo kb add-names medic.txt train.txt --out kb.jsonl`, then
    `arbo link test.txt --kb kb.jsonl --out run`.

    A name becomes an alias of the entity that it is annotated with most often. Other entities of its
    domain lose it as an alias, but keep it as a preferred name. Do not add names from documents that you evaluate on.
    """
    _check_output(out, kb.path, *docs.inputs)
    base = kb.read()
    documents = docs.read()
    named = base.with_names_of(documents, expand_abbreviations=expand is None)
    before, after = set(zip(*base.names(), strict=True)), set(zip(*named.names(), strict=True))
    changes = {"added": len(after - before), "taken_away": len(before - after)}
    said = f"{counted(changes['added'], 'name')} added, {changes['taken_away']:,} removed as names of another entity"
    _write(named, out, said, changes, as_json=as_json)


def add_discovered(
    run: options.Run,
    out: Output,
    kb: options.OptionalKb = None,
    kb_format: options.KbFormat = None,
    kb_types: options.KbTypes = None,
    as_json: options.Json = False,
) -> None:
    """Make entities of the discovered entities of RUN that corrections name as new.

    `arbo kb add-discovered run --kb medic.txt --out kb.jsonl`, then `arbo link DOCS --kb kb.jsonl --out run2`. Before
    you link with `--corrections` again, remove from that file the lines with the key `new` for these entities, or they
    become new once more.

    Without `--kb`, the file has these entities alone. Their ids are those of their clusters, and the names of their
    mentions become aliases.
    """
    from arbo.linking.new_entities import new_entities

    _check_output(out, run, kb)
    base = read_kb(kb, kb_format, None, kb_types) if kb else arbo.KnowledgeBase()
    added = new_entities(arbo.Result.load(run))
    if not added:
        raise UsageError(f"corrections of {run} name no new entity; write some with the key `new`, and link again")
    said = f"{counted(len(added), 'entity')} added"
    _write(base.changed([*base, *added]), out, said, {"added": len(added)}, as_json=as_json)


_NAMES = "A name to remove, or @FILE with one on each line; may be repeated."


def remove_names(
    kb: KbFile,
    out: Output,
    names: Annotated[list[str] | None, Option(metavar="NAME|@FILE", help=_NAMES)] = None,
    generic: Annotated[
        bool, Option("--generic", help="Remove all generic names, such as `disease`; `arbo kb validate` shows some.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove names from all entities, also in spellings that differ in case, plural or punctuation.

    If an entity loses its preferred name, its first remaining alias becomes its name. An entity that loses all names is
    left out, and its mentions count as NIL.
    """
    if not names and not generic:
        raise UsageError("no names to remove; give --names or --generic")
    files = [Path(given[1:]) for given in names or () if given.startswith("@")]
    _check_output(out, kb.path, *files)
    base = kb.read()
    removed = [given for given in names or () if not given.startswith("@")]
    removed += [line.strip() for file in files for _, line in read_lines(file) if line.strip()]
    held = set(map(normalize_name, base.names().names))
    if unknown := [name for name in removed if normalize_name(name) not in held]:
        console.warn(f"not names of the knowledge base: {listed(map(repr, unknown), 3)}")
    changed = base.without_names([*removed, *(base.generic_names() if generic else ())])
    changes = {"removed": len(base.names().names) - len(changed.names().names), "left_out": len(base) - len(changed)}
    lost = counted(changes["left_out"], "entity")
    said = f"{counted(changes['removed'], 'name')} removed, {lost} without any other name left out"
    _write(changed, out, said, changes, as_json=as_json)


def convert(
    kb: KbFile,
    out: Output,
    columns: Annotated[
        str | None, Option(metavar="KEY=COLUMN,...", help="Columns of CSV or TSV, e.g. id=code,name=label.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a knowledge base in another format, which the ending of --out chooses."""
    pairs = [pair.partition("=") for pair in (columns or "").split(",") if pair]
    if wrong := next((key for key, sign, column in pairs if not (key and sign and column)), None):
        raise UsageError(f"--columns must be KEY=COLUMN,..., but {wrong!r:.60} has no column")
    _check_output(out, kb.path)
    base = kb.read(columns={key.strip(): column.strip() for key, _, column in pairs})
    _write(base, out, counted(len(base), "entity"), {"entities": len(base)}, as_json=as_json)


def index(
    kb: KbFile,
    out: Annotated[Path, Option(help="Folder to write; an earlier index there is replaced.")],
    no_generic_names: options.NoGenericNames = False,
    encoder: options.EncoderModel = None,
    encoder_config: options.EncoderConfigFile = None,
    cache: options.Cache = None,
    *,
    shards: Shards,
    as_json: options.Json = False,
) -> None:
    """Encode a knowledge base once, and keep it in a folder that opens at once and takes little memory.

    `arbo kb index medic.txt --out medic.index`, then `arbo link DOCS --kb medic.index --out run/`. Links are the same
    as without an index.

    Every verb with `--kb` reads it, and processes share its memory. It is made for one encoder: name the same
    `--encoder` when you link, otherwise the entities are encoded again. After a change of names, as by
    `arbo kb add-names`, make the index again. With a transformer, `--workers` and `--ray` spread its work.
    """
    from arbo.data.index_folder import check_index_replaceable
    from arbo.progress import bars

    check_index_replaceable(out)
    maker = load_encoder(encoder, encoder_config, cache, None)
    if shards.is_spread and isinstance(maker, arbo.NgramEncoder):
        raise UsageError("an index is spread only for a transformer (--encoder); leave out --workers, --work and --ray")
    if shards.shard_size:
        raise UsageError("a transformer reads slices of one size; leave out --shard-size")
    base = kb.read(no_generic_names=no_generic_names)
    with shards.over(arbo.Linker(encoder=maker), out) as linker:
        arbo.build_index(base, out, encoder=linker.encoder, announce=bars)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    told = {"index": str(out), "entities": len(base), "bytes": size}
    console.answer(told, f"{counted(len(base), 'entity')}, {size / 1e6:,.1f} MB; written to {out}", as_json=as_json)


def _check_output(out: Path, *inputs: Path | None) -> None:
    from arbo.kb.saving import ENDINGS

    check_jsonl_output(out, *inputs, endings=ENDINGS)


def _write(kb: arbo.KnowledgeBase, out: Path, said: str, changes: Mapping[str, int], *, as_json: bool) -> None:
    """Write a knowledge base; print the changes, and warn of items that the format cannot hold."""
    if lost := ", ".join(f"{what} ({count:,})" for what, count in kb.save(out).items()):
        console.warn(f"{out.name} cannot hold {lost}; .jsonl and .parquet can")
    console.answer({"kb": str(out), **changes}, f"{said}; written to {out}", as_json=as_json)


for _verb in (stats, validate, add_names, add_discovered, remove_names, convert, index):
    app.command()(spread(_verb))

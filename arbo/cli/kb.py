"""The verbs of `arbo kb`: check, edit, convert and index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer
from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import JOB, MODELS, READING, check_output, load_encoder
from arbo.cli.options import ABBREVIATIONS, DOCS, ENCODER, KB, Chosen, Shown
from arbo.errors import UsageError, counted, listed
from arbo.formats import KnowledgeBaseFormat, read_knowledge_base
from arbo.formats.files import read_lines
from arbo.progress import bars
from arbo.text.names import normalize_name, normalize_names

_OUTPUT = "File to write, in the format of its ending: .jsonl, .jsonl.gz, .tsv, .tsv.gz or .parquet."
Output = Annotated[Path, Option("--out", help=_OUTPUT)]

_FORMAT = f"Format of the knowledge base: {', '.join(sorted(get_args(KnowledgeBaseFormat)))}. [default: guessed]"


def check(
    kb: options.KbArgument,
    kb_format: Annotated[KnowledgeBaseFormat | None, options.option(metavar="FORMAT", help=_FORMAT)] = None,
) -> None:
    """Count a knowledge base, and list its problems and how to solve them.

    Errors lose data or make an entity unreachable, such as malformed entries, or ids that nothing can match; the exit
    code is then 3. Warnings, such as names that several entities share, are for you to judge; if there are only
    warnings, the exit code is 0. Of an index, all files are compared with their hashes, and all vectors are read.
    """
    from arbo.encoders.index import check_index
    from arbo.kb.problems import figure_cells, figures_of, problems_of

    def announce(guess: str) -> None:
        console.say(f"{kb.name}: read as {guess} (--kb-format overrides)")

    base = read_knowledge_base(kb, kb_format, on_error="skip", announce_format=announce)
    check_index(base)
    counts, problems = figures_of(base), problems_of(base)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    if console.as_json:
        counts |= {"errors": errors, "warnings": warnings}
        console.print_json(counts | {"problems": [problem.as_dict() for problem in problems]})
    else:
        console.print_table(("", "", ""), (figure_cells(*one) for one in counts.items()))
        for problem in problems:
            console.print_title(f"{problem.severity} ({problem.count:,}): {problem.wrong}")
            console.show(f"  {problem.solution}")
            for example in problem.examples:
                console.show(f"    {example}", dim=True)
        counted = f"kinds of errors: {errors}, kinds of warnings: {warnings}" if problems else "no problems found"
        console.show(f"\n{counted}")
    if errors:
        raise typer.Exit(3)


_ADD_NAMES = "Add the names that these annotated documents use for entities to them as aliases; may be repeated."
_ADD_DISCOVERED = (
    "Make entities of the discovered entities of this run that corrections name as new. Their ids are those of their "
    "clusters, and the names of their mentions become aliases."
)
_REMOVE_NAMES = "Remove this name from all entities, or the names in @FILE, one on each line; may be repeated."


def edit(
    kb: options.KbArgument,
    out: Output,
    how: Annotated[Chosen, Shown((READING, ABBREVIATIONS), DOCS + KB)],
    docs: Annotated[list[Path] | None, Option("--add-names", metavar="DOCS", help=_ADD_NAMES)] = None,
    discovered: Annotated[Path | None, Option("--add-discovered", metavar="RUN", help=_ADD_DISCOVERED)] = None,
    names: Annotated[list[str] | None, Option("--remove-names", metavar="NAME|@FILE", help=_REMOVE_NAMES)] = None,
) -> None:
    """Add names or entities to a knowledge base, or remove names from it, in this order.

    `arbo kb edit medic.txt --add-names train.txt --out kb.jsonl`, then `arbo link test.txt --kb kb.jsonl --out run`.

    A name of `--add-names` becomes an alias of the entity that it is annotated with most often. Other entities of its
    domain lose it as an alias, but keep it as a preferred name. Do not add names from documents that you evaluate on.

    `--set generic_names=false` removes generic names, such as `disease`. `--remove-names` also removes spellings that
    differ in case, plural or punctuation. If an entity loses its preferred name, its first remaining alias becomes its
    name. An entity that loses all names is left out, and its mentions count as NIL.
    """
    from arbo.kb.saving import ENDINGS

    reading, changes = how.of(READING), dict[str, int]()
    if not (docs or discovered or names or not reading.generic_names):
        raise UsageError("nothing to edit: give --add-names, --add-discovered, --remove-names or generic_names=false")
    check_output(out, "entities", ENDINGS, kb, discovered, *(docs or ()))
    base = replace(reading, generic_names=True).knowledge_base(kb)
    if docs:
        corpus, before = reading.documents(docs), set(zip(*base.names(), strict=True))
        base = base.with_names_of(corpus, expand_abbreviations=how.of(ABBREVIATIONS).expand_abbreviations)
        after = set(zip(*base.names(), strict=True))
        changes |= {"names_added": len(after - before), "names_moved": len(before - after)}
    if discovered:
        added = _named_entities(arbo.Result.load(discovered))
        if not added:
            raise UsageError(f"no correction of {discovered} has the key `new`; write some, and link again")
        base = base.changed([*base, *added])
        changes["entities_added"] = len(added)
    if names or not reading.generic_names:
        generic = () if reading.generic_names else base.generic_names()
        fewer = base.without_names([*_listed_names(base, names or ()), *generic])
        changes["names_removed"] = len(base.names().names) - len(fewer.names().names)
        changes["entities_left_out"] = len(base) - len(fewer)
        base = fewer
    _write(base, out, changes)


def _named_entities(result: arbo.Result) -> list[arbo.Entity]:
    """Return the discovered entities that people named in corrections, in the order of the run."""
    from arbo.text.phrases import refers_back

    records = (row["record"] for row in result.corrections if row["status"] == "obeyed")
    rows = {int(result.cluster_rows[result.row_of[record["mention"]]]) for record in records if "new" in record}
    entities = []
    for cluster in (result.clusters[row] for row in sorted(rows)):
        names = dict.fromkeys(result.link_of(one.id).name for one in cluster.mentions)
        aliases = tuple(name for name in names if name != cluster.name and not refers_back(name))
        types = tuple(sorted({one.type for one in cluster.mentions if one.type is not None}))
        domain = result.mention_table["domain"][result.row_of[cluster.mentions[0].id]].as_py()
        entities.append(arbo.Entity(cluster.id, cluster.name, aliases, types=types, domain=domain))
    return entities


def _listed_names(kb: arbo.KnowledgeBase, words: Sequence[str]) -> list[str]:
    """Return names, and those in the files of names like `@FILE`; warn of names that no entity has."""
    names = [word for word in words if not word.startswith("@")]
    for file in (Path(word[1:]) for word in words if word.startswith("@")):
        names += [line.strip() for _, line in read_lines(file) if line.strip()]
    known = {*normalize_names(kb.names().names)}
    if unknown := [name for name in names if normalize_name(name) not in known]:
        console.warn(f"not names of the knowledge base: {listed(map(repr, unknown), 3)}")
    return names


_COLUMNS = "Columns of CSV or TSV, e.g. id=code,name=label."


def convert(
    kb: options.KbArgument,
    out: Output,
    how: Annotated[Chosen, Shown((READING,), KB)],
    columns: Annotated[str | None, Option(metavar="KEY=COLUMN,...", help=_COLUMNS)] = None,
) -> None:
    """Write a knowledge base in another format, which the ending of --out chooses."""
    from arbo.kb.saving import ENDINGS

    pairs = [pair.partition("=") for pair in columns.split(",")] if columns else []
    names = {key.strip(): column.strip() for key, _, column in pairs}
    if not all(names.values()):
        raise UsageError(f"--columns must be KEY=COLUMN,..., not {columns!r}")
    check_output(out, "entities", ENDINGS, kb)
    base = how.of(READING).knowledge_base(kb, names)
    _write(base, out, {"entities": len(base)})


def index(
    kb: options.KbArgument,
    out: Annotated[Path, Option(help="Folder to write; an earlier index there is replaced.")],
    how: Annotated[Chosen, Shown((MODELS._replace(only="encoder"), ENCODER, READING, JOB), KB)],
) -> None:
    """Encode a knowledge base once, and keep it in a folder that opens at once and takes little memory.

    `arbo kb index medic.txt --out medic.index`, then `arbo link DOCS --kb medic.index --out run/`. Links are the same
    as without an index.

    Every verb with `--kb` reads it, and processes share its memory. It is made for one encoder: name the same
    `--encoder` when you link, otherwise the entities are encoded again. After a change of names, as by
    `arbo kb edit`, make the index again. With a transformer, `--set workers=4` and `--set ray=ADDRESS` share its work.
    """
    from arbo.data.knowledge_base import FORMAT

    FORMAT.check_replaceable(out)
    model, job = load_encoder(how.of(MODELS).encoder, how), how.of(JOB)
    base = how.of(READING).knowledge_base(kb)
    with job.over(arbo.Linker(encoder=model), out) as linker:
        arbo.build_index(base, out, encoder=linker.encoder, announce=bars)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    value = {"index": str(out), "entities": len(base), "bytes": size}
    console.answer(value, f"{counted(len(base), 'entities')}, {size / 1e6:,.1f} MB; written to {out}")


def _write(kb: arbo.KnowledgeBase, out: Path, changes: Mapping[str, int]) -> None:
    """Write a knowledge base; print the changes, and warn of items that the format cannot hold."""
    from arbo.kb.saving import save

    if lost := ", ".join(f"{what} ({count:,})" for what, count in save(kb, out).items()):
        console.warn(f"{out.name} cannot hold {lost}; .jsonl and .parquet can")
    text = ", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in changes.items())
    console.answer({"kb": str(out), **changes}, f"{text}; written to {out}")

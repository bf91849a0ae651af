"""Reports and output files: names of systems, checks of outputs, tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from arbo.cli.fields import Group
from arbo.errors import UsageError
from arbo.files import real
from arbo.settings import Number, Settings

if TYPE_CHECKING:
    from arbo.engine import Line, Report, Table

_SAVE = "Also write the table to FILE, in the format of its ending: .md, .tex, .csv, .txt or .json; may be repeated."
Save = Annotated[list[Path] | None, Option("--save", metavar="FILE", help=_SAVE)]


@dataclass(frozen=True, slots=True)
class ScoringConfig(Settings):
    """How clusters are scored."""

    remove_singletons: bool = False
    """Leave out clusters of one mention, both true and predicted ones, as the CorefUD scorer does, and coval with
    `remove_singletons`."""
    seed: Number = 0
    """Random seed of confidence intervals and significance tests."""


SCORING = Group("scoring", __name__, "ScoringConfig")


def name_systems(paths: Sequence[Path], what: str = "system") -> dict[str, Path]:
    """Return the path of each system by its name: the NAME of `NAME=PATH`, or else the name of the file or folder.

    If two files or folders have the same name, their paths are the names. ``what`` is the word for a system in error
    messages. Raise UsageError if two systems get the same name, or a path is empty.
    """
    given = [str(path).partition("=") if not path.exists() else ("", "", "") for path in paths]
    if empty := [name for name, sign, real in given if sign and name and not real]:
        raise UsageError(f"no path after {empty[0]}=; is a shell variable unset?")
    paths = [Path(real) if sign and name else path for (name, sign, real), path in zip(given, paths, strict=True)]
    files = [path.name for path in paths]
    plain = [path.name if path.name and files.count(path.name) == 1 else str(path) for path in paths]
    named = [name if sign and name else other for (name, sign, _), other in zip(given, plain, strict=True)]
    names = dict(zip(named, paths, strict=True))
    if len(names) < len(paths):
        twice = next(name for name in named if named.count(name) > 1)
        raise UsageError(f"two {what}s are named {twice}; leave one out, or rename it as NAME=PATH")
    return names


def of_systems(scores: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of one system; those of several systems are under the key ``systems``, by name."""
    return {"systems": scores} if len(scores) > 1 else next(iter(scores.values()))


def check_outputs(
    inputs: Sequence[Path | None], save: Sequence[Path] | None, plot: Path | None = None, *, plotted_by: str = "--plot"
) -> None:
    """Raise UsageError, before the work, if a report or plot cannot be written or would replace an input."""
    from arbo.engine import plots, report
    from arbo.files import check_writable

    outputs = [("--save", file, list(report.FORMATS)) for file in save or ()]
    outputs += [(plotted_by, plot, list(plots.FORMATS))] if plot is not None else []
    for option, file, suffixes in outputs:
        if file.suffix.lower() not in suffixes:
            raise UsageError(f"{option} {file}: the file's ending must be one of {', '.join(suffixes)}")
        check_no_input(option, file, inputs)
        if not real(file).parent.is_dir():
            raise UsageError(f"{option} {file}: the folder {file.parent} does not exist; create it")
        check_writable(file)
    if plot is not None and find_spec("matplotlib") is None:
        raise UsageError(f"{plotted_by} needs matplotlib: pip install 'arbo[plot]'")


def check_jsonl_output(out: Path, *inputs: Path | None, endings: Sequence[str] = (".jsonl", ".jsonl.gz")) -> None:
    """Create the folder of an output file.

    Raise UsageError if the file has another ending than ``endings``, cannot be written, is a folder, or would replace
    an input.
    """
    from arbo.files import check_writable

    if not out.name.lower().endswith(tuple(endings)):
        raise UsageError(f"--out {out}: the file's ending must be {', '.join(endings[:-1])} or {endings[-1]}")
    check_no_input("--out", out, inputs)
    check_writable(out)
    if out.is_dir():
        raise UsageError(f"cannot write {out}: it is a folder; choose another path")
    out.parent.mkdir(parents=True, exist_ok=True)


def check_no_input(option: str, file: Path, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError if an output is an input, matches the pattern of one, or lies in an input folder."""
    from arbo.formats import expanded

    target = real(file)
    for path in (Path(one) for given in inputs if given is not None for one in expanded(given)):
        if real(path) in {target, *target.parents}:
            raise UsageError(f"{option} {file} would change the input {path}; choose another file")


def save_report(report: Report, files: Sequence[Path] | None) -> None:
    """Write a report to each file, in the format of its ending; raise UsageError if that fails."""
    for file in files or ():
        try:
            report.save(file)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from error


def table_of_groups(groups: Mapping[str, Mapping[str, Sequence[Line]]], title: str, score: str) -> Table:
    """Make a table with a row for each group of documents: all scores of one system, or one ``score`` of several.

    ``groups`` are the lines of each system, by group.
    """
    from arbo.engine import Table, Value

    rows: dict[str, dict[str, Line]] = {}
    for group, systems in groups.items():
        if len(systems) > 1:
            rows[group] = {name: line for name, lines in systems.items() for line in lines if line.name == score}
        else:
            rows[group] = {line.name: line for lines in systems.values() for line in lines}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [
        (group, *(str(Value.of(row[name].score)) if name in row else "" for name in columns))
        for group, row in rows.items()
    ]
    return Table.of_texts(title, ("", *columns), cells)


@contextmanager
def drawing(path: Path, option: str = "--plot") -> Iterator[None]:
    """Turn exceptions in drawing and writing a plot into UsageError."""
    try:
        yield
    except (ImportError, ValueError) as error:
        raise UsageError(f"{option}: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error

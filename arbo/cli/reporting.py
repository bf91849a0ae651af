"""What verbs have in common: names of systems, and where reports and JSON lines go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eval import Report

Save = Annotated[
    list[Path] | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Write the table to FILE too, as its ending says: .md, .tex, .txt or .json; may be repeated.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the samples behind intervals and significance tests.")
]


def name_systems(paths: Sequence[Path], what: str = "system") -> dict[str, Path]:
    """Name each system, or what else they are, by its file or folder, or by the whole path where two have one name."""
    from arbo import UsageError

    files = [path.name for path in paths]
    names = {path.name if path.name and files.count(path.name) == 1 else str(path): path for path in paths}
    if len(names) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"the {what} {twice} is given twice; name each {what} once")
    return names


def check_outputs(inputs: Iterable[Path], save: Sequence[Path] | None, plot: Path | None = None) -> None:
    """Raise before the work is done where its results could not be written after it, or would replace an input."""
    from arbo import UsageError
    from arbo.files import check_writable
    from eval import plots, report

    given = {path.resolve() for path in inputs}
    outputs = [("--save", file, list(report.FORMATS)) for file in save or ()]
    outputs += [("--plot", plot, list(plots.FORMATS))] if plot is not None else []
    for option, file, suffixes in outputs:
        place = file.resolve()
        if file.suffix.lower() not in suffixes:
            raise UsageError(f"{option} {file}: the file's ending must be one of {', '.join(suffixes)}")
        if given & {place, *place.parents}:
            raise UsageError(f"{option} {file} would overwrite an input; name another file")
        if not place.parent.is_dir():
            raise UsageError(f"{option} {file}: there is no folder {file.parent}")
        check_writable(file)
    if plot is not None and find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'arbo[plot]'")


def check_jsonl_output(out: Path, *inputs: Path) -> None:
    """Make the folder of JSON lines to be written; raise where it could not be, or would replace an input."""
    from arbo import UsageError
    from arbo.files import check_writable

    if not out.name.lower().endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"--out {out}: the file's ending must be .jsonl or .jsonl.gz")
    if {path.resolve() for path in inputs} & {out.resolve(), *out.resolve().parents}:
        raise UsageError(f"--out {out} would overwrite an input; name another file")
    check_writable(out)
    out.parent.mkdir(parents=True, exist_ok=True)


def save_report(report: Report, files: Sequence[Path] | None) -> None:
    """Write a report to each file, in the form that its ending names."""
    from arbo import UsageError

    for file in files or ():
        try:
            report.save(file)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from error


@contextmanager
def drawing(path: Path) -> Iterator[None]:
    """Turn what can go wrong with a picture into what a user can mend."""
    from arbo import UsageError

    try:
        yield
    except (ImportError, ValueError) as error:
        raise UsageError(f"--plot: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error

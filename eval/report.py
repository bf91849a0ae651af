"""Reports: the lines of one system, or of several side by side, as text, Markdown, LaTeX and JSON."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from io import StringIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

from .figures import Figure, Resampling
from .lines import Line
from .table import Cell, Table

_USUAL = Resampling()


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The lines of one system with their intervals, or of several with tests against the first.

    `Report.of` makes a report and computes everything; printing and saving compute nothing.
    """

    title: str
    systems: Mapping[str, Mapping[str, Line]]  # the computed lines by system, then by name
    how: Resampling | None

    @classmethod
    def of(cls, systems: Mapping[str, Sequence[Line]], *, title: str = "", how: Resampling | None = _USUAL) -> Self:
        """Compute the lines of one or more systems, with intervals and tests unless ``how`` is None.

        Each later system is compared with the first on lines of the same name, which need the same documents in the
        same order. Raise ValueError if two figures cannot be compared.

        >>> lines = [Line.of_counts("NIL", [[1, 2, 1, 1], [1, 2, 1, 3], [2, 2, 2, 2]], over="4 of 6")]
        >>> print(Report.of({"ours": lines}, title="Marsh plants"))
        Marsh plants
        <BLANKLINE>
             recall  precision   score      95% interval  over
        NIL  0.6667     0.6667  0.6667  [0.4000, 1.0000]  4 of 6
        <BLANKLINE>
        95% interval: 1,000 bootstrap samples of 3 documents, seed 0
        """
        lines = {system: {line.name: line for line in of_system} for system, of_system in systems.items()}
        if how is None:
            return cls(title, lines, how)
        first = next(iter(lines), "")
        for system, of_system in lines.items():
            for name, line in of_system.items():
                interval, base = line.score.interval(how), None if system == first else lines[first].get(name)
                try:
                    comparison = None if base is None else line.score.against(base.score, how)
                except ValueError as error:
                    what = f"line {name!r} of {system!r} cannot be compared with that of {first!r}"
                    raise ValueError(f"{what}: {error}") from None
                method = line.score.method(how) if interval or comparison else None
                of_system[name] = replace(line, interval=interval, comparison=comparison, method=method)
        return cls(title, lines, how)

    @property
    def table(self) -> Table:
        """The figures as a table of strings with marks and remarks, for text, Markdown and LaTeX.

        >>> report = Report.of({"ours": [Line.of_counts("NIL", [[1, 2, 1, 1]])]}, how=None)
        >>> report.table.header, report.table.rows
        (('', 'recall', 'precision', 'score'), [('NIL', '0.5000', '1.0000', '0.6667')])
        """
        return _one_system(self) if len(self.systems) == 1 else _several_systems(self)

    def __str__(self) -> str:
        return str(self.table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table.to_html()

    def to_markdown(self) -> str:
        """Return the table in the Markdown of GitHub."""
        return self.table.to_markdown()

    def to_latex(self) -> str:
        """Return the table as LaTeX with booktabs."""
        return self.table.to_latex()

    def to_csv(self) -> str:
        """Return a row for each system and line as CSV, in full precision; missing values are empty."""
        names = ("system", "line", "score", "recall", "precision", "low", "high", "p_value", "over")
        rows = StringIO()
        writer = csv.DictWriter(rows, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for system, entries in self.systems.items():
            for line, entry in entries.items():
                ends = {} if entry.interval is None else entry.interval._asdict()
                tests = {} if entry.comparison is None else entry.comparison._asdict()
                writer.writerow({**entry.as_dict(), **ends, **tests, "system": system, "line": line})
        return rows.getvalue().rstrip("\n")

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by system and line, ready for JSON; NaN and infinities are None."""
        return {
            "title": self.title,
            "resampling": None if self.how is None else asdict(self.how),
            "systems": {
                system: {name: entry.as_dict() for name, entry in entries.items()}
                for system, entries in self.systems.items()
            },
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report in the format of the suffix: .csv, .json, .md (Markdown), .tex (LaTeX) or .txt.

        Raise ValueError for another suffix.
        """
        if (suffix := Path(path).suffix.lower()) not in FORMATS:
            raise ValueError(f"path={fspath(path)!r} must end in one of {', '.join(FORMATS)}")
        Path(path).write_text(f"{FORMATS[suffix](self)}\n", "utf-8")


FORMATS: dict[str, Callable[[Report], str]] = {
    ".csv": Report.to_csv,
    ".json": lambda report: json.dumps(report.as_dict(), indent=2),
    ".md": Report.to_markdown,
    ".tex": Report.to_latex,
    ".txt": Report.__str__,
}
"""The formats of reports by suffix."""


def _one_system(report: Report) -> Table:
    """Make the table of one system: recall, precision, score, interval and counts, without empty columns."""
    ((system, entries),) = report.systems.items()
    figures = {name: [getattr(entry, name) for entry in entries.values()] for name in ("recall", "precision", "score")}
    columns = {name: [*map(text_of, values)] for name, values in figures.items()}
    intervals = (entry.interval and [*map(_number, entry.interval)] for entry in entries.values())
    columns[_interval_name(report)] = [f"[{', '.join(ends)}]" if ends else "" for ends in intervals]
    columns["over"] = [entry.over for entry in entries.values()]
    shown = {name: column for name, column in columns.items() if any(column)}
    methods = {name: entry.method["interval"] for name, entry in entries.items() if entry.method and entry.interval}
    values = (value for of_name in figures.values() for value in of_name)
    return Table(
        title=report.title or system,
        names=("", *shown),
        is_number=(False, *(name != "over" for name in shown)),
        cells=[tuple(map(Cell, row)) for row in zip(entries, *shown.values(), strict=True)],
        remarks=[*_by_method(_interval_name(report), methods, report.how), *_undefined_remarks(values)],
    )


def _several_systems(report: Report) -> Table:
    """Make the table of several systems, with marks for the best score of a line and stars for significance."""
    items = [item for entries in report.systems.values() for item in entries.items()]
    methods = {name: entry.method["test"] for name, entry in items if entry.method and entry.comparison}
    first = next(iter(report.systems), "")
    legend = f"* p < 0.05, ** p < 0.01 against {first}: two-sided, not corrected for multiple comparisons"
    return Table(
        title=report.title,
        names=("", *report.systems),
        is_number=(False, *(True for _ in report.systems)),
        cells=[
            (Cell(name), *_scores([of_system.get(name) for of_system in report.systems.values()]))
            for name in dict(items)
        ],
        remarks=[
            *([legend] if any(entry.stars for _, entry in items) else []),
            *_by_method("p-value", methods, report.how),
            *_undefined_remarks(entry.score for _, entry in items),
        ],
    )


def _scores(entries: Sequence[Line | None]) -> Iterator[Cell]:
    scores = [entry.score.value for entry in entries if entry and entry.score.is_defined]
    best = _number(max(scores, default=0))
    has_best = any(_number(score) != best for score in scores)  # equal scores have no best one
    for entry in entries:
        if entry is None:
            yield Cell("-")
        else:
            yield Cell(text_of(entry.score), has_best and _number(entry.score.value) == best, entry.stars)


def _by_method(what: str, methods: Mapping[str, str], how: Resampling | None) -> list[str]:
    """Describe how values were computed: first for most lines, then for the lines with another method."""
    if how is None:
        return []
    lines: dict[str, list[str]] = {}
    for name, method in methods.items():
        lines.setdefault(method, []).append(name)
    most = max(lines, key=lambda method: len(lines[method]), default="")
    others = [f"{what} of {', '.join(lines[method])}: {method}, seed {how.seed}" for method in lines if method != most]
    return [f"{what}: {most}, seed {how.seed}", *others] if most else []


def _undefined_remarks(shown: Iterable[Figure | None]) -> list[str]:
    return ["-: nothing to divide by (0/0)"] if any(v and not v.is_defined for v in shown) else []


def _interval_name(report: Report) -> str:
    return "" if report.how is None else f"{100 * report.how.level:g}% interval"


def _number(value: float) -> str:
    return f"{value:z.4f}"


def text_of(figure: Figure | None) -> str:
    """Return the value of a figure with four decimals, or a dash for 0/0; empty without a figure."""
    return "" if figure is None else _number(figure.value) if figure.is_defined else "-"

"""BENCHMARKS.md and the pages in reports/, made of the results of all benchmarks.

A script `benchmarks/NAME.py` measures, collects a flat mapping from a dotted key to a number, and calls
`library.results.record(NAME, figures)`. `python benchmarks/report.py` then makes again

- `reports/NAME.md`: the script's docstring, its targets, `notes/NAME.md`, what was tried and found, and all its tables
  and figures;
- `BENCHMARKS.md`: the summary, from `summary.md`, in which every number of arbo is a reference (`library.references`).

Targets are in `targets.toml`, under the name and the figure's key; one that is missed or not measured says why.
"""

import ast
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from library.folders import BENCHMARKS, REPORTS, RESULTS, ROOT
from library.references import filled
from library.results import NO_COMMIT, Figures, Result, Row, replace_file, say

MADE = "Made by `python benchmarks/report.py`: do not edit.\n"
KEEPS_CELLS = "`--record`"
"""The option of the scripts that keep cells, in their docstrings."""
MISSED = "**missed**"
ABOUT_NOTES = (
    "A number here that is neither in a table of this page nor a paper's was measured once, while trying: no command "
    "repeats it."
)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure, and the better one that was aimed at, if any."""

    bound: float
    at_least: bool
    aim: float | None
    why: str | None
    """Why it is missed, or not measured."""

    @classmethod
    def from_toml(cls, key: str, given: Mapping[str, Any]) -> "Target":
        """Read `{ at_most = 1 }` or `{ at_least = 1 }`, with `aim` and `why` if you like."""
        direction = sorted(given.keys() - {"aim", "why"})
        if direction not in (["at_least"], ["at_most"]):
            raise ValueError(
                f"target of {key}: {dict(given)} must hold either at_most or at_least, and may hold aim and why"
            )
        return cls(given[direction[0]], direction == ["at_least"], given.get("aim"), given.get("why"))

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        aim = f" (aim {number(self.aim)})" if self.aim is not None else ""
        return f"{sign} {number(self.bound)}{aim}"

    def verdict(self, value: float) -> str:
        """Say whether the value meets the bound and the aim."""
        if not self._meets(value, self.bound):
            return MISSED
        return "yes, and the aim" if self.aim is not None and self._meets(value, self.aim) else "yes"

    def _meets(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


def number(value: float) -> str:
    """Write a number as a person would read it.

    >>> number(9_000_000), number(1234.5), number(0.34567), number(0.0000123)
    ('9,000,000', '1,234', '0.346', '1.23e-05')
    """
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


Targets = Mapping[str, Mapping[str, Target]]


def write_report() -> None:
    """Make all pages again, and delete those of scripts that are gone."""
    made = pages()
    REPORTS.mkdir(exist_ok=True)
    for path, text in made.items():
        replace_file(path, text)
    for path in set(REPORTS.glob("*.md")) - made.keys():
        path.unlink()
    say(f"wrote BENCHMARKS.md and {len(made) - 1} pages in {REPORTS.relative_to(ROOT)}")


def pages() -> dict[Path, str]:
    """Every page that is made of the results, targets, notes, docstrings and the summary."""
    results: dict[str, Result] = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    }
    targets = {
        name: {key: Target.from_toml(f"{name}: {key}", given) for key, given in of_name.items()}
        for name, of_name in tomllib.loads((BENCHMARKS / "targets.toml").read_text(encoding="utf-8")).items()
    }
    names = sorted({*targets, *results})
    made = {
        REPORTS / f"{name}.md": report(name, results.get(name), targets.get(name, {}), _docstring(name), _note(name))
        for name in names
    }
    template = (BENCHMARKS / "summary.md").read_text(encoding="utf-8")
    return made | {ROOT / "BENCHMARKS.md": summary(template, results, targets)}


def summary(template: str, results: Mapping[str, Result], targets: Targets) -> str:
    """Fill the template: its references, the targets, and the list of reports."""
    met = [target.verdict(value) != MISSED for _, _, target, value in _judged(results, targets) if value is not None]
    n_open = sum(map(len, targets.values())) - len(met)
    parts = {
        "made": MADE.strip(),
        "targets": f"{sum(met)} met, {met.count(False)} missed, {n_open} not measured",
        "missed": "\n".join(_missed(results, targets)),
        "reports": ", ".join(_reports(results, targets)),
    }
    for name, text in parts.items():
        template = template.replace(f"{{{name}}}", text)
    return filled(template, results)


def _judged(results: Mapping[str, Result], targets: Targets) -> Iterator[tuple[str, str, Target, float | None]]:
    """Yield script, figure, target and value of every target."""
    for name, of_name in targets.items():
        figures = results[name]["figures"] if name in results else {}
        for key, target in of_name.items():
            yield name, key, target, figures.get(key)


def _missed(results: Mapping[str, Result], targets: Targets) -> Iterator[str]:
    """Yield a line for each target that is missed or not measured."""
    for name, key, target, value in _judged(results, targets):
        if value is None or target.verdict(value) == MISSED:
            if target.why is None:
                raise ValueError(f"target of {name}: {key} is missed or not measured, and targets.toml has no why")
            shown = "not measured" if value is None else number(value)
            yield f"| [{name}](benchmarks/reports/{name}.md): `{key}` | {target} | {shown} | {target.why} |"


def _reports(results: Mapping[str, Result], targets: Targets) -> Iterator[str]:
    """Link each page, and tell which is of no result."""
    for name in sorted({*targets, *results}):
        yield f"[{name}](benchmarks/reports/{name}.md)" + ("" if name in results else " (not measured)")


def report(name: str, result: Result | None, targets: Mapping[str, Target], about: str, note: str) -> str:
    """Make the page of a script, given its docstring and its note."""
    lines = [f"# {name}", "", MADE]
    if about:
        lines += [about, ""]
    figures: Figures = result["figures"] if result else {}
    if result is None:
        lines += ["Not measured yet.", ""]
    else:
        lines += [_command(result, about), f"- machine: {result['machine']}"]
        lines += [f"- commit {result['commit']}, {result['date']}", *_cells(result, about), ""]
    if targets:
        lines += ["| figure | value | target | met? |", "|---|---:|---|---|"]
    for key, target in targets.items():
        value = figures.get(key)
        shown, met = ("not measured", "") if value is None else (number(value), target.verdict(value))
        lines.append(f"| `{key}` | {shown} | {target} | {met} |")
    if note:
        lines += ["", "## Notes", "", ABOUT_NOTES, "", note]
    tables = result.get("tables", {}) if result else {}
    lines += ["", "## Tables"] * bool(tables)
    for title, rows in tables.items():
        lines += ["", f"**{title}**", "", *_table(rows)]
    if others := [key for key in figures if key not in targets]:
        lines += ["", "## Figures without a target", "", "| figure | value |", "|---|---:|"]
        lines += [f"| `{key}` | {number(figures[key])} |" for key in others]
    return "\n".join([*lines, ""])


def _command(result: Result, about: str) -> str:
    """Name the command that makes the page's figures, or that records what other commands have made."""
    if KEEPS_CELLS in about:
        return f"- command: `{result['command']} --record`, once the commands above have made the cells"
    return f"- command: `{result['command']}`"


def _cells(result: Result, about: str) -> list[str]:
    """Tell which commits made the cells of the tables, where it is not the one that recorded them."""
    if KEEPS_CELLS not in about:
        return []
    if "cells" not in result:
        return [f"- cells: {NO_COMMIT}; other code than that of the commit above may have made them"]
    others = {made: n for made, n in result["cells"].items() if made != result["commit"]}
    if not others:
        return ["- cells: all made by that commit"]
    told = ", ".join(f"{made} ({n})" for made, n in others.items())
    return [f"- cells: {sum(others.values())} of {sum(result['cells'].values())} were made by other commits: {told}"]


def _table(rows: Sequence[Row]) -> list[str]:
    """Write rows as Markdown; a value equal to the one above in the leading text columns is left blank."""
    columns = list(rows[0])
    texts = [column for column in columns if isinstance(rows[0][column], str)]
    lines = [f"| {' | '.join(columns)} |", "|" + "".join("---|" if column in texts else "---:|" for column in columns)]
    above: Row = {}
    for row in rows:
        is_new = False
        cells = []
        for column in columns:
            is_new |= column not in texts or row[column] != above.get(column)
            shown = f"{row[column]:.3f}" if isinstance(row[column], float) else str(row[column])
            cells.append(shown if is_new else "")
        lines.append(f"| {' | '.join(cells)} |")
        above = row
    return lines


def _docstring(name: str) -> str:
    script = BENCHMARKS / f"{name}.py"
    if not script.exists():
        return ""
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def _note(name: str) -> str:
    note = BENCHMARKS / "notes" / f"{name}.md"
    return note.read_text(encoding="utf-8").strip() if note.exists() else ""


if __name__ == "__main__":
    write_report()

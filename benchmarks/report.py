"""BENCHMARKS.md, made of the results of all benchmarks.

A script `benchmarks/NAME.py` measures, collects a flat mapping from a dotted key to a number, and calls
`library.results.record(NAME, figures)`. Its docstring is the text about it in BENCHMARKS.md. Targets are in
`targets.toml`, under the name and the figure's key; what was tried, or why a target is missed, may be told
in `notes/NAME.md`. `python benchmarks/report.py` makes BENCHMARKS.md again from what is there.
"""

import ast
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from library.folders import BENCHMARKS, RESULTS, ROOT
from library.results import Figures, Result, Row, replace_file, say

_PREFACE = """\
# Benchmarks

Made by `python benchmarks/report.py` from `benchmarks/results/` and `benchmarks/targets.toml`: do not edit.
Each section names the command that makes its figures. Seconds depend on the machine; only ratios
within one run can be compared between machines.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure, and the better one that was aimed at, if any."""

    bound: float
    at_least: bool
    aim: float | None

    @classmethod
    def from_toml(cls, key: str, given: Mapping[str, Any]) -> "Target":
        """Read `{ at_most = 1 }` or `{ at_least = 1 }`, with `aim` if you like."""
        direction = sorted(given.keys() - {"aim"})
        if direction not in (["at_least"], ["at_most"]):
            raise ValueError(f"target of {key}: {dict(given)} must hold either at_most or at_least, and may hold aim")
        return cls(given[direction[0]], direction == ["at_least"], given.get("aim"))

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        aim = f" (aim {number(self.aim)})" if self.aim is not None else ""
        return f"{sign} {number(self.bound)}{aim}"

    def verdict(self, value: float) -> str:
        """Say whether the value meets the bound and the aim."""
        if not self._meets(value, self.bound):
            return "**missed**"
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


def write_report() -> None:
    """Make BENCHMARKS.md of the results, targets, notes and docstrings."""
    results: dict[str, Result] = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")
    }
    targets = {
        name: {key: Target.from_toml(f"{name}: {key}", given) for key, given in of_name.items()}
        for name, of_name in tomllib.loads((BENCHMARKS / "targets.toml").read_text(encoding="utf-8")).items()
    }
    names = [*targets, *sorted(results.keys() - targets.keys())]
    sections = [_section(name, results.get(name), targets.get(name, {})) for name in names]
    replace_file(ROOT / "BENCHMARKS.md", "\n".join([_PREFACE, _summary(results, targets), *sections]))
    say("wrote BENCHMARKS.md")


def _summary(results: Mapping[str, Result], targets: Mapping[str, Mapping[str, Target]]) -> str:
    n_met = n_missed = n_open = 0
    for name, of_name in targets.items():
        figures = results[name]["figures"] if name in results else {}
        for key, target in of_name.items():
            if key not in figures:
                n_open += 1
            elif target.verdict(figures[key]) == "**missed**":
                n_missed += 1
            else:
                n_met += 1
    return f"Targets: {n_met} met, {n_missed} missed, {n_open} not measured.\n"


def _section(name: str, result: Result | None, targets: Mapping[str, Target]) -> str:
    lines = [f"## {name}", ""]
    if about := _docstring(name):
        lines += [about, ""]
    if result is None:
        lines += ["Not measured yet.", ""]
        figures: Figures = {}
    else:
        lines += [f"- command: `{result['command']}`", f"- machine: {result['machine']}"]
        lines += [f"- commit {result['commit']}, {result['date']}", ""]
        figures = result["figures"]
    lines += ["| figure | value | target | met? |", "|---|---:|---|---|"]
    for key in [*figures, *(key for key in targets if key not in figures)]:
        target, value = targets.get(key), figures.get(key)
        shown = "not measured" if value is None else number(value)
        met = target.verdict(value) if target and value is not None else ""
        lines.append(f"| `{key}` | {shown} | {target or ''} | {met} |")
    for title, rows in (result.get("tables", {}) if result else {}).items():
        lines += ["", f"**{title}**", "", *_table(rows)]
    note = BENCHMARKS / "notes" / f"{name}.md"
    if note.exists():
        lines += ["", note.read_text(encoding="utf-8").strip()]
    return "\n".join([*lines, ""])


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


if __name__ == "__main__":
    write_report()

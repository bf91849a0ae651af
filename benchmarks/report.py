"""Results of the benchmarks: how a script records its figures, and BENCHMARKS.md made of all of them.

A script `benchmarks/NAME.py` measures, collects a flat mapping from a dotted key to a number, and calls
`record(NAME, command, figures)`. Its docstring is the text about it in BENCHMARKS.md. Targets are in
`targets.toml`, under the name and the figure's key; what was tried, or why a target is missed, may be told
in `notes/NAME.md`. `python benchmarks/report.py` makes BENCHMARKS.md again from what is there.
"""

import ast
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

_PREFACE = """\
# Benchmarks

Made by `python benchmarks/report.py` from `benchmarks/results/` and `benchmarks/targets.toml`: do not edit.
Each section names the command that makes its figures. Seconds depend on the machine; only ratios
within one run can be compared between machines.
"""


class Result(TypedDict):
    """One file in `benchmarks/results/`."""

    name: str
    command: str
    commit: str
    machine: str
    date: str
    figures: dict[str, float]
    tables: NotRequired[dict[str, list[dict[str, Any]]]]


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


def record(
    name: str,
    command: str,
    figures: Mapping[str, float],
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Path:
    """Write `benchmarks/results/NAME.json` in one step, and return its path.

    `tables` holds, by title, rows of equal columns: what people compare rather than look up.

    Raises:
        ValueError: a figure is not a finite number.

    """
    for key, value in figures.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"figure {key} of {name} is {value!r}, not a finite number")
    result: Result = {
        "name": name,
        "command": command,
        "commit": _commit(),
        "machine": _machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "figures": {key: _rounded(value) for key, value in figures.items()},
    }
    if tables:
        result["tables"] = {
            title: [{column: _rounded(value) for column, value in row.items()} for row in rows]
            for title, rows in tables.items()
        }
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    _replace(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return path


def number(value: float) -> str:
    """Write a number as a person would read it.

    >>> number(9_000_000), number(1234.5), number(0.34567), number(0.0000123)
    ('9,000,000', '1,234', '0.346', '1.23e-05')
    """
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_report() -> Path:
    """Make BENCHMARKS.md of the results, targets, notes and docstrings, and return its path."""
    results: dict[str, Result] = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (HERE / "results").glob("*.json")
    }
    targets = {
        name: {key: Target.from_toml(f"{name}: {key}", given) for key, given in of_name.items()}
        for name, of_name in tomllib.loads((HERE / "targets.toml").read_text(encoding="utf-8")).items()
    }
    names = [*targets, *sorted(results.keys() - targets.keys())]
    sections = [_section(name, results.get(name), targets.get(name, {})) for name in names]
    path = ROOT / "BENCHMARKS.md"
    _replace(path, "\n".join([_PREFACE, _summary(results, targets), *sections]))
    return path


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
        figures: dict[str, float] = {}
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
    for title, rows in (result or {}).get("tables", {}).items():
        lines += ["", f"**{title}**", "", *_table(rows)]
    note = HERE / "notes" / f"{name}.md"
    if note.exists():
        lines += ["", note.read_text(encoding="utf-8").strip()]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write rows as Markdown; a value equal to the one above in the leading text columns is left blank."""
    columns = list(rows[0])
    texts = [column for column in columns if isinstance(rows[0][column], str)]
    lines = [f"| {' | '.join(columns)} |", "|" + "".join("---|" if column in texts else "---:|" for column in columns)]
    above: Mapping[str, Any] = {}
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
    script = HERE / f"{name}.py"
    if not script.exists():
        return ""
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def _commit() -> str:
    """Short hash, and whether anything but results differs from it."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        made = ":!benchmarks/results", ":!BENCHMARKS.md"
        return commit + ("+changes" if _git("status", "--porcelain", "--", ".", *made) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    system = f"{_system()}, Python {platform.python_version()}, {packages}"
    return f"{_processor()}, {cores} cores, {memory:.0f} GiB; {system}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _replace(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        file.write(text)
    try:
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    print(f"wrote {write_report().name}", file=sys.stderr)

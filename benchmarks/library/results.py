"""The results of a benchmark: a flat mapping from dotted keys to numbers, and tables, in `results/NAME.json`."""

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from library.folders import RESULTS, ROOT

Figures = dict[str, float]
Row = dict[str, Any]
Tables = dict[str, list[Row]]
NO_COMMIT = "commit not recorded"
"""The commit of a cell that was kept before commits were."""


class Result(TypedDict):
    """One file in `benchmarks/results/`."""

    name: str
    command: str
    commit: str
    machine: str
    date: str
    figures: Figures
    tables: NotRequired[Tables]
    cells: NotRequired[dict[str, int]]
    """Commits that made the cells of the tables, with the number of their cells; absent in older results."""


def record(
    name: str,
    figures: Mapping[str, float],
    tables: Mapping[str, Sequence[Row]] | None = None,
    *,
    options: str = "",
    cells: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Write the results of `benchmarks/NAME.py` in one step.

    ``tables`` holds rows by title: what people compare rather than look up. All rows of a table get the same columns,
    empty where a row has none; a table without rows is left out. ``options`` are those of the command. ``cells``: the
    kept cells that the tables are made of, whose commits may differ from this one.

    Raises:
        ValueError: a figure is not a finite number.
    """
    for figure, value in figures.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"figure {figure} of {name} is {value!r}, not a finite number")
    result: Result = {
        "name": name,
        "command": f"python benchmarks/{name}.py {options}".rstrip(),
        "commit": commit(),
        "machine": _machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "figures": _rounded(figures),
    }
    if kept := {title: [_rounded(row) for row in _even(rows)] for title, rows in (tables or {}).items() if rows}:
        result["tables"] = kept
    if cells is not None:
        result["cells"] = dict(Counter(cell["commit"] for cell in cells))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    replace_file(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    say(f"wrote {path.name}")


def record_table(name: str, title: str, rows: Sequence[Row], figures: Mapping[str, float] | None = None) -> None:
    """Replace one table of the results that `record` wrote, and its figures."""
    path = RESULTS / f"{name}.json"
    result: Result = json.loads(path.read_text("utf-8"))
    result["figures"] |= _rounded(figures or {})
    result["tables"] = {**result.get("tables", {}), title: [_rounded(row) for row in _even(rows)]}
    replace_file(path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    say(f"wrote {title} of {path.name}")


def collected(figures: Iterable[tuple[str, float]], prefix: str = "") -> Figures:
    """Collect figures as they are measured, and show each; ``prefix`` comes before every key."""
    made: Figures = {}
    for name, value in figures:
        made[prefix + name] = value
        say(f"{prefix}{name} {value:.4g}")
    return made


def collected_rows(tables: Tables, rows: Iterable[tuple[str, Row]]) -> None:
    """Add rows to the tables of their titles as they are measured, and show each."""
    for title, row in rows:
        tables.setdefault(title, []).append(row)
        say(" ".join(map(str, (title, *row.values()))))


def say(text: str) -> None:
    """Show a person what happens."""
    print(text, file=sys.stderr, flush=True)


def replace_file(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        file.write(text)
    try:
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise


def _even(rows: Sequence[Row]) -> list[Row]:
    names = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
    return [{name: row.get(name, "") for name in names} for row in rows]


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in values.items()}


def commit() -> str:
    """Short hash, and whether anything but what is made from results differs from it."""
    try:
        short = _git("rev-parse", "--short", "HEAD")
        places = ("results", "reports", "plots", "cells")
        made = *(f":!benchmarks/{place}" for place in places), ":!BENCHMARKS.md"
        return short + ("+changes" if _git("status", "--porcelain", "--", ".", *made) else "")
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

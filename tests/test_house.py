"""The limits of the house: how long functions and files are, how they are documented, what a saved run loads."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from builders import document, linker, python

import arbo

ROOT = Path(__file__).resolve().parent.parent
PRODUCT, ALL = ("arbo", "clustering", "eval"), ("arbo", "clustering", "eval", "tests", "benchmarks")
SECTIONS = {"Args", "Returns", "Yields", "Raises", "Examples"}
EXCEPTIONS: set[str] = set()
"""Functions that may be longer, as `room/file.py::function`."""
LIKE_SCIKIT_LEARN = "clustering/estimator.py::"
"""An estimator documents itself as scikit-learn's do."""


def files(*rooms: str) -> list[Path]:
    return [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]


def documented(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, ast.AST, str]]:
    """Name every module, class or function of the product, with its tree and its docstring."""
    for file in files(*PRODUCT):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, kind):
                name = f"{file.relative_to(ROOT).as_posix()}::{getattr(node, 'name', '')}"
                yield name, node, ast.get_docstring(node, clean=False) or ""  # type: ignore[arg-type]


def test_no_function_is_longer_than_60_lines() -> None:
    """Docstrings do not count, nor do the kernels that numba compiles."""
    long = {}
    for name, node, docstring in documented((ast.FunctionDef, ast.AsyncFunctionDef)):
        n_lines = node.end_lineno - node.lineno + 1 - len(docstring.splitlines())  # type: ignore[attr-defined]
        if n_lines > 60 and not any("kernel" in ast.unparse(one) for one in node.decorator_list):  # type: ignore[attr-defined]
            long[name] = n_lines
    assert {name: n_lines for name, n_lines in long.items() if name not in EXCEPTIONS} == {}
    assert set(long) >= EXCEPTIONS


def test_no_file_is_longer_than_500_lines() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in files(*ALL)}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


@pytest.mark.parametrize(
    ("fault", "pattern"),
    [
        ("underlined section", r"^ *[-=]{3,} *$"),
        ("field list", r"^ *:(param|type|returns?|rtype|raises?)\b"),
        ("unknown section", rf"^ *(?!(?:{'|'.join(sorted(SECTIONS))}):)[A-Z][a-z]+: *$"),
    ],
)
def test_docstrings_have_one_convention(fault: str, pattern: str) -> None:
    """What ruff does not check: sections are `Args:`, `Returns:`, `Yields:`, `Raises:` and `Examples:`."""
    nodes = documented((ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    faulty = [name for name, _, docstring in nodes if re.search(pattern, docstring, re.M)]
    assert [name for name in faulty if not name.startswith(LIKE_SCIKIT_LEARN)] == [], fault


def test_reading_a_saved_run_loads_nothing_heavy(tmp_path: Path) -> None:
    """No encoder, and nothing that encodes, searches or compiles."""
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")])
    linker(kb).link([document("d", "marsh fever", "zzz")]).save(tmp_path / "run")
    code = "import sys, arbo\nfrom arbo import Result\nResult.load(sys.argv[1])\nprint(*sys.modules)"
    modules = python(code, tmp_path / "run").split()
    heavy = [name for name in modules if re.match(r"(torch|transformers|faiss|numba|arbo\.encoders)\b", name)]
    assert heavy == []


def test_the_oldest_versions_are_those_that_pyproject_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {name: own for name, own in project["optional-dependencies"].items() if name not in UNTRIED}
    allowed = {
        found[1]: found[2]
        for one in [*project["dependencies"], *chain(*extras.values())]
        if (found := re.match(r"([\w-]+)>=([\d.]+)", one))
    }
    lines = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned.keys() == allowed.keys()
    assert all(f"{pinned[name]}.".startswith(f"{version}.") for name, version in allowed.items())


UNTRIED = ("check", "minilm", "neo4j")
"""Extras whose oldest versions are not tested."""

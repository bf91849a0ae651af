"""A user's own `eval.py` or `clustering.py`: arbo works beside it, installed or not, and it stays theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINK = """
import arbo

documents, kb = arbo.load_sample()
result = arbo.Linker(kb).link(documents[:9])
print(result.evaluate().accuracy_with_nil > 0.5, len(result.discovered) > 0)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a built wheel, without what it depends on, into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = folder / "source"  # a copy, as a build writes into its source, and several processes may build at once
    for package in ("arbo", "clustering", "eval"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("arbo-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "installed", built], check=True)
    return folder / "installed"


@pytest.fixture(params=[pytest.param("wheel", marks=pytest.mark.slow), "checkout"])
def home(request: pytest.FixtureRequest) -> Path:
    """Give the folder that arbo is imported from."""
    if request.param == "checkout":
        return ROOT
    installed: Path = request.getfixturevalue("wheel")
    return installed


NAMES = ["eval/__init__.py", "clustering.py", "clustering/__init__.py"]


@pytest.fixture(params=["eval.py", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES)])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write a module of the user's that must not be executed unless the user asks for it."""
    file = tmp_path / request.param
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('executed')\nMINE = 1\n")
    return file


def run(home: Path, folder: Path, *arguments: str) -> list[str]:
    """Run Python in a folder; return what it prints, line by line."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_script_a_notebook_and_the_command_line_beside_it(home: Path, theirs: Path, tmp_path: Path) -> None:
    """A kernel imports from the folder that it runs in, as `python -c` does."""
    (tmp_path / "script.py").write_text(LINK)
    for arguments in (("script.py",), ("-c", LINK)):
        assert run(home, tmp_path, *arguments) == ["True True"]
    sample = ("sample/documents.jsonl", "--format", "jsonl", "--out", "run")
    for verb in (("demo", "--files", "sample"), ("discover", *sample), ("evaluate", "run")):
        assert "executed" not in run(home, tmp_path, "-m", "arbo", *verb)


@pytest.mark.parametrize("first", [True, False])
def test_it_stays_theirs(home: Path, theirs: Path, tmp_path: Path, first: bool) -> None:
    name = ".".join(theirs.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
    own = f"import {name}\nprint({name}.MINE)\n"
    printed = run(home, tmp_path, "-c", own + LINK if first else LINK + own)
    assert sorted(printed) == ["1", "True True", "executed"]


def test_a_script_of_that_name(home: Path, tmp_path: Path) -> None:
    (tmp_path / "eval.py").write_text(LINK)
    assert run(home, tmp_path, "eval.py") == ["True True"]


def test_without_such_a_file_there_is_one_module(home: Path, tmp_path: Path) -> None:
    code = """
from clustering import Graph, partition
from eval import Report, coreference_scores

import arbo.engine

print(arbo.engine.Graph is Graph, arbo.engine.Report is Report)
documents, kb = arbo.load_sample()
evaluation = arbo.Linker(kb).link(documents[:9]).evaluate()
print(isinstance(evaluation.report(), Report), arbo.engine.proportion.__module__)
"""
    assert run(home, tmp_path, "-c", code) == ["True True", "True eval.ratio"]


def test_the_engine_names_what_there_is() -> None:
    import arbo.engine

    assert all(getattr(arbo.engine, name) is not None for name in arbo.engine._HOME if name != "*")
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        arbo.engine.nobody  # noqa: B018

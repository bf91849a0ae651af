"""The options: each is explained, each choice is of the type that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from cli_builders import linking, sample_files
from conftest import Run
from typer.testing import CliRunner

import arbo
from arbo.cli import app
from arbo.readers import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, DocumentFormat, KnowledgeBaseFormat
from clustering import METHODS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def verbs(group: Any, name: str = "") -> dict[str, Any]:
    """Every verb by its name, those of a group as `kb stats`."""
    found = {}
    for key, command in group.commands.items():
        assert command.help, key
        found |= verbs(command, f"{key} ") if hasattr(command, "commands") else {name + key: command}
    return found


def test_every_option_is_explained() -> None:
    found = verbs(typer.main.get_command(app))
    expected = {"demo", "link", "discover", "tune", "evaluate", "explain", "score", "kb stats", "kb validate"}
    assert expected <= set(found)
    for verb in found.values():
        for parameter in verb.params:
            assert parameter.help, (verb.name, parameter.name)
        assert any("--json" in parameter.opts for parameter in verb.params), verb.name


def test_formats_have_readers() -> None:
    assert {*get_args(DocumentFormat)} == {*DOCUMENT_FORMATS}
    assert {*get_args(KnowledgeBaseFormat)} == {*KNOWLEDGE_BASE_FORMATS}


def test_the_case_of_a_choice_does_not_matter(run: Run, folder: Path, tmp_path: Path) -> None:
    job = [folder / "test.jsonl", "--format", "JSONL", "--kb", folder / "kb.jsonl", "--kb-format", "Jsonl"]
    options = ["--method", "MiniMax", "--search", "EXACT", "--on-error", "Skip", "--out", tmp_path / "run"]
    assert run("link", *job, *options).code == 0
    config = arbo.Result.load(tmp_path / "run").manifest["config"]
    assert (config["method"], config["search"]) == ("minimax", "exact")


def test_an_unknown_choice_is_told_with_the_known_ones(run: Run, folder: Path, tmp_path: Path) -> None:
    outcome = run("link", *linking(folder), "--out", tmp_path / "run", "--method", "kmeans")
    assert outcome.code == 2
    for method in METHODS:
        assert method in outcome.err


@pytest.mark.parametrize("verb", ["link", "discover", "tune", "spans", "evaluate", "score", "nil-split"])
def test_a_help_text_fits_two_screens(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 100

"""The options: each is explained, each choice is of the type that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import typer
from cli_builders import linking, sample_files
from conftest import Run
from typer.testing import CliRunner

import arbo
from arbo.cli import app
from arbo.cli.groups import spread
from arbo.formats import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, DocumentFormat, KnowledgeBaseFormat
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


@pytest.mark.parametrize("verb", ["link", "discover", "tune", "spans", "evaluate", "score", "train"])
def test_a_help_text_fits_two_screens(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 100


def test_a_wrong_choice_is_told_without_the_words_of_a_library(run: Run, folder: Path, tmp_path: Path) -> None:
    told = run("export", tmp_path, "--to", "xlsx", "--out", tmp_path / "x").told
    assert "'xlsx' is not one of 'csv', 'tsv', 'jsonl'" in told
    assert "Value error" not in told
    assert "Value error" not in run("kb", "stats", folder / "kb.jsonl", "--kb-format", "xml").told


@pytest.mark.parametrize("verb", [[], ["link"], ["kb"], ["kb", "stats"]])
def test_h_is_help(verb: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*verb, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)


def test_a_missing_or_misspelt_configuration_is_told_plainly(run: Run, folder: Path, tmp_path: Path) -> None:
    missing = run("link", *linking(folder), "--out", tmp_path / "run", "--config", tmp_path / "nope.json")
    assert (missing.code, "Errno" in missing.err) == (3, False)
    assert "cannot read the configuration: No such file or directory; check the path" in missing.told
    (tmp_path / "tuned.json").write_text('{"config": {"treshold": 1}}')
    misspelt = run("link", *linking(folder), "--out", tmp_path / "run", "--config", tmp_path / "tuned.json")
    assert "tuned.json: unknown setting: 'treshold'; did you mean 'nil_threshold' instead of" in misspelt.told
    with pytest.raises(arbo.UsageError, match=r"unknown setting: 'methd'; did you mean 'method' instead of 'methd'\?"):
        arbo.LinkerConfig(methd="minimax")  # type: ignore[call-arg]
    with pytest.raises(arbo.UsageError, match="unknown setting: 'zzz'; known: method, k, entity_threshold"):
        arbo.LinkerConfig(zzz=1)  # type: ignore[call-arg]


@dataclass(kw_only=True)
class Shared:
    n: Annotated[int, typer.Option("--n", help="A number.")] = 1


def one_of(about: type) -> Any:
    return typer.Option("--of", help=f"One of {about.__name__}.")


@dataclass(kw_only=True)
class Group(Shared):
    of: Annotated[str, one_of]
    more: Annotated[int, typer.Option("--more", help="Another number.")] = 2


seen: list[tuple[Group, bool]] = []


def verb(
    flag: Annotated[bool, typer.Option("--flag", help="A flag.")] = False, *, group: Annotated[Group, Path]
) -> None:
    """Keep what is given."""
    seen.append((group, flag))


def test_a_group_is_given_to_a_verb_whose_options_are_single() -> None:
    made = typer.Typer()
    made.command()(spread(verb))
    assert CliRunner().invoke(made, ["--of", "x", "--more", "3"]).exit_code == 0
    assert seen == [(Group(of="x", more=3), False)]
    options = {option.name: option for option in typer.main.get_command(made).params}
    assert [*options][:4] == ["of", "flag", "more", "n"]  # the required first, then what a group adds to another
    assert getattr(options["of"], "help", "") == "One of Path."
    assert CliRunner().invoke(made, []).exit_code == 2

"""The options: each is explained, each choice is of the type that it names."""

from __future__ import annotations

import re
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
from arbo.cli.fields import ENCODER, LINKER, READING, Chosen, Shown, spread
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
    expected = {"demo", "link", "discover", "tune", "evaluate", "explain", "score", "kb check", "train encoder"}
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
    options = ["--method", "MiniMax", "--set", "search=EXACT", "--set", "on_error=Skip", "--out", tmp_path / "run"]
    assert run("link", *job, *options).code == 0
    config = arbo.Result.load(tmp_path / "run").manifest["config"]
    assert (config["method"], config["search"]) == ("minimax", "exact")


def test_an_unknown_choice_is_told_with_the_known_ones(run: Run, folder: Path, tmp_path: Path) -> None:
    outcome = run("link", *linking(folder), "--out", tmp_path / "run", "--method", "kmeans")
    assert outcome.code == 2
    for method in METHODS:
        assert method in outcome.err


@pytest.mark.parametrize("verb", ["link", "discover", "tune", "find", "evaluate", "score"])
def test_a_help_text_fits_two_screens(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 100


def test_a_wrong_choice_is_told_without_the_words_of_a_library(run: Run, folder: Path, tmp_path: Path) -> None:
    told = run("export", tmp_path, "--to", "xlsx", "--out", tmp_path / "x").told
    assert "'xlsx' is not one of 'csv', 'tsv', 'jsonl'" in told
    assert "Value error" not in told
    assert "Value error" not in run("kb", "check", folder / "kb.jsonl", "--kb-format", "xml").told


@pytest.mark.parametrize("verb", [[], ["link"], ["kb"], ["kb", "check"]])
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


@dataclass(kw_only=True)
class Group(Shared):
    of: Annotated[str, typer.Option("--of", help="A text.")]
    more: Annotated[int, typer.Option("--more", help="Another number.")] = 2


SHOWN = Shown((LINKER, ENCODER, READING), {"Clustering": "k", "Knowledge base": "kb_types"})
seen: list[tuple[Group, bool, Chosen]] = []


def verb(
    flag: Annotated[bool, typer.Option("--flag", help="A flag.")] = False,
    *,
    group: Group,
    how: Annotated[Chosen, SHOWN],
) -> None:
    """Keep what is given."""
    seen.append((group, flag, how))


def ask(*words: str) -> Any:
    made = typer.Typer()
    made.command()(spread(verb))
    return CliRunner().invoke(made, ["--of", "x", *words])


def test_a_group_is_given_to_a_verb_whose_options_are_single() -> None:
    assert ask("--more", "3").exit_code == 0
    assert seen.pop() == (Group(of="x", more=3), False, Chosen())
    made = typer.Typer()
    made.command()(spread(verb))
    options = {option.name: option for option in typer.main.get_command(made).params}
    assert [*options][:4] == ["of", "flag", "more", "n"]  # the required first, then what a group adds to another
    assert CliRunner().invoke(made, []).exit_code == 2
    texts = LINKER.texts
    assert getattr(options["k"], "help", "").startswith(texts["k"].summary)
    assert texts["k"].default == str(arbo.LinkerConfig().k)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--k", "8"], {"linker": {"k": "8"}}),
        (["--set", "k=8", "--k", "9"], {"linker": {"k": "9"}}),
        (["--set", "context=25"], {"encoder": {"context": "25"}}),
        (["--set", "mention_threshold=0.3"], {"linker": {"mention_threshold": "0.3"}}),
        (["--set", "encoder.mention_threshold=0.3"], {"encoder": {"mention_threshold": "0.3"}}),
        (["--set", "map_types=Chemical=drug"], {"linker": {"map_types": "Chemical=drug"}}),
        (["--kb-types", "A", "--kb-types", "B"], {"reading": {"kb_types": ["A", "B"]}}),
        (["--set", "kb_types=A", "--set", "kb_types=B"], {"reading": {"kb_types": ["A", "B"]}}),
    ],
)
def test_fields_are_set_by_name(words: list[str], expected: dict[str, Any]) -> None:
    assert ask(*words).exit_code == 0
    assert seen.pop()[2].values == expected


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("treshold=1", "unknown setting 'treshold'; did you mean "),
        ("zzz=1", "unknown setting 'zzz'; known: method, k, entity_threshold"),
        ("encoder.k=1", "unknown setting 'encoder.k'"),
        ("k", "--set k: write NAME=VALUE, such as k=8, or @FILE"),
    ],
)
def test_a_mistake_in_set_is_told(pair: str, said: str) -> None:
    error = ask("--set", pair).exception
    assert isinstance(error, arbo.UsageError)
    assert said in str(error)


@pytest.mark.parametrize(
    ("field", "word", "value"),
    [
        ("k", "8", 8),
        ("method", "MiniMax", "minimax"),
        ("entity_threshold", "none", None),
        ("entity_threshold", "default", "default"),
        ("entity_threshold", "0.5", 0.5),
        ("skip_margin", "1", 1),
        ("expand_abbreviations", "False", False),
        ("map_types", "A=B", "A=B"),
    ],
)
def test_words_become_values(field: str, word: str, value: object) -> None:
    assert getattr(arbo.LinkerConfig().changed_by_words({field: word}), field) == value


@pytest.mark.parametrize(
    ("field", "word", "said"),
    [
        ("k", "many", "k must be an integer of at least 0, not 'many'"),
        ("k", "-1", "k must be an integer of at least 0, not -1"),
        ("method", "kmeans", "method 'kmeans' is not one of arborescence, minimax, undirected, independent"),
        ("expand_abbreviations", "maybe", "expand_abbreviations must be true or false, not 'maybe'"),
    ],
)
def test_wrong_words_are_refused(field: str, word: str, said: str) -> None:
    with pytest.raises(arbo.UsageError, match=re.escape(said)):
        arbo.LinkerConfig().changed_by_words({field: word})


def test_a_file_sets_fields_of_groups(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"k": 3, "encoder": {"context": 5}}', "utf-8")
    assert ask("--set", f"@{file}").exit_code == 0
    assert seen.pop()[2].values == {"linker": {"k": 3}, "encoder": {"context": 5}}
    file.write_text("[1]", "utf-8")
    assert "must have a JSON object" in str(ask("--set", f"@{file}").exception)


def test_every_field_of_settings_is_explained(run: Run) -> None:
    found = verbs(typer.main.get_command(app))
    with_settings = [name for name, one in found.items() if any("--settings" in own.opts for own in one.params)]
    assert {"link", "discover", "tune", "train encoder", "train finder"} <= set(with_settings)
    for name in with_settings:
        shown = run(*name.split(), "--settings")
        assert (shown.code, shown.err) == (0, ""), name
        lines = shown.out.splitlines()
        explained = [lines[row + 1].strip() for row, line in enumerate(lines) if line[:1].strip() and "=" in line]
        assert explained
        assert all(explained), name

"""The options: each is explained, each choice is of the type that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from cli_builders import sample_files
from conftest import Run
from typer.testing import CliRunner

import arbo
from arbo.cli import app
from arbo.cli.fields import ENCODER, LINKER, READING, Chosen, Shown, spread


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


def test_the_case_of_a_choice_does_not_matter(run: Run, folder: Path, tmp_path: Path) -> None:
    job = [folder / "test.jsonl", "--format", "JSONL", "--kb", folder / "kb.jsonl", "--kb-format", "Jsonl"]
    options = ["--method", "MiniMax", "--set", "search=EXACT", "--set", "on_error=Skip", "--out", tmp_path / "run"]
    assert run("link", *job, *options).code == 0
    config = arbo.Result.load(tmp_path / "run").manifest["config"]
    assert (config["method"], config["search"]) == ("minimax", "exact")


@pytest.mark.parametrize("verb", ["link", "discover", "tune", "find", "evaluate", "score"])
def test_a_help_text_fits_two_screens(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 100


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


def test_a_file_sets_fields_of_groups(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"k": 3, "encoder.context": 5}', "utf-8")
    assert ask("--set", f"@{file}").exit_code == 0
    assert seen.pop()[2].values == {"linker": {"k": 3}, "encoder": {"context": 5}}


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

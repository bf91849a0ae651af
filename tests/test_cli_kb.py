"""`arbo kb stats` and `arbo kb validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_builders import arbo_process, sample_files
from conftest import Run

import arbo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_kb_stats(run: Run, folder: Path) -> None:
    shown = run("kb", "stats", folder / "kb.jsonl", "--kb-format", "jsonl")
    assert (shown.code, shown.err) == (0, "")
    assert "entities" in shown.out
    assert "120" in shown.out
    counted = run("kb", "stats", folder / "kb.jsonl", "--kb-format", "jsonl", "--examples", 1, "--json")
    stats = arbo.load_sample()[1].stats(examples=1)
    assert counted.json == json.loads(json.dumps(stats.as_dict()))


def test_kb_stats_through_xrefs(run: Run, tmp_path: Path) -> None:
    arbo.KnowledgeBase([arbo.Entity("A", "a [b]c[/b]", xrefs=("MSH:D1",))]).to_jsonl(tmp_path / "kb.jsonl")
    command = ["kb", "stats", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--json"]
    assert run(*command).json["alternative_ids"] == 0
    assert run(*command, "--kb-xrefs", "MSH").json["alternative_ids"] == 4
    assert run(*command, "--kb-xrefs", "UMLS").code == 2


def test_kb_validate_tells_errors_from_warnings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    command = ["kb", "validate", path, "--kb-format", "jsonl"]
    lines = ['{"id": "A", "name": "flu"}', '{"id": "B", "name": "[bold]x[/bold]", "aliases": ["Flu", ":smile:"]}']
    path.write_text(lines[0])
    assert run(*command).out == "no problem\n"
    assert run(*command, "--json").json == {"entities": 1, "errors": 0, "warnings": 0, "problems": []}

    path.write_text("\n".join(lines))
    warned = run(*command, "--json")
    assert warned.code == 0
    assert [problem["kind"] for problem in warned.json["problems"]] == ["name-is-alias"]  # type: ignore[attr-defined]
    shown = run(*command)
    assert (shown.code, shown.err) == (0, "")
    assert '"flu", "Flu": A, B' in shown.out
    assert "kinds of errors: 0, kinds of warnings: 1" in shown.out
    assert '"flu", "Flu"' not in run(*command, "--examples", 0).out

    path.write_text("\n".join((*lines, '{"id": "C"}', '{"id": " D", "name": "[bold]x[/bold]"}')))
    failed = run(*command, "--json")
    assert failed.code == 3
    assert (failed.json["entities"], failed.json["errors"], failed.json["warnings"]) == (3, 2, 2)
    text = run(*command)
    assert text.code == 3
    assert text.out.startswith("error (1): malformed entities skipped")
    assert '"[bold]x[/bold]": B,  D' in text.out


def test_kb_that_cannot_be_read(run: Run, folder: Path, tmp_path: Path) -> None:
    for verb in ("stats", "validate"):
        for arguments, code in (
            ([tmp_path / "absent", "--kb-format", "obo"], 3),
            ([folder / "kb.jsonl", "--kb-format", "word"], 2),
            ([folder / "kb.jsonl", "--kb-format", "obo"], 3),
            ([folder / "kb.jsonl", "--kb-format", "jsonl", "--examples", -1], 2),
        ):
            outcome = run("kb", verb, *arguments)
            assert (outcome.code, outcome.out) == (code, ""), arguments
            assert outcome.err
            assert "Traceback" not in outcome.err
    bad = tmp_path / "kb.tsv"
    bad.write_text("D1\tflu\nD2\n")
    assert f"{bad}, line 2, 'D2'" in run("kb", "stats", bad, "--kb-format", "tsv").err
    assert run("kb").code == 2


def test_where_the_malformed_entities_stand_is_said_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "kb.obo"
    path.write_text("[Term]\nid: A\nname: a flu\nsynonym: bare EXACT []\n[Term]\nid: B\nbroken\n")
    done = arbo_process("kb", "validate", path, "--kb-format", "obo", "--json")
    assert done.returncode == 3
    assert done.stderr == f"skipped: {path}, line 7, 'B': expected a line of the form `tag: value`\n"
    assert [p["kind"] for p in json.loads(done.stdout)["problems"]] == ["malformed-synonym", "malformed-entity"]

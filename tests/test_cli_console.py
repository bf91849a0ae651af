"""Names and paths of anybody's files are shown as they are."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from cli_builders import arbo_process, linking, sample_files
from conftest import Run
from rich.console import Console

import arbo
from arbo.cli import console
from arbo.data.corpus import Corpus
from arbo.results.views import mention_view


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_a_path_that_looks_like_markup(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "[b] a :smile: [" / "run"
    linked = run("link", *linking(folder, docs="test.jsonl"), "--out", out)
    assert linked.code == 0
    assert str(out) in linked.out
    assert run("evaluate", out).code == 0


def test_names_that_look_like_markup_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    names = ["[bold]ghost[/bold]", "[/nothing]", "<script>x</script>", "=cmd()", ":smile:"]
    documents = []
    for i, name in enumerate(names):
        mention = arbo.Mention(f"m{i}", f"[d{i}]", ((0, len(name)),), name)
        documents.append(arbo.Document(f"[d{i}]", name, (mention,)))
    Corpus.of(documents).to_jsonl(tmp_path / "docs.jsonl")
    found = run("discover", tmp_path / "docs.jsonl", "--format", "jsonl", "--out", tmp_path / "run")
    assert found.code == 0
    shown = " ".join(found.out.split())
    assert all(name in shown for name in names[:2])
    explained = run("explain", tmp_path / "run", *(f"m{i}" for i in range(len(names))))
    assert all(f'"{name}" in [d{i}]' in explained.out for i, name in enumerate(names))


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ghost\x1b[2J\x9b31m\x07\u202etsohg\u2066"
    mention = arbo.Mention("m", "d", ((0, len(name)),), name)
    Corpus.of([arbo.Document("d", name, (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    found = run("discover", tmp_path / "docs.jsonl", "--format", "jsonl", "--out", tmp_path / "run")
    explained = run("explain", tmp_path / "run", "m")
    for shown in (found.out, explained.out):
        assert "ghost\\x1b[2J\\x9b31m\\x07\\u202etsohg\\u2066" in " ".join(shown.split())
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u2066"} & set(shown)
    shown = run("explain", tmp_path / "run", "m", "--json").out
    assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u2066"} & set(shown)
    assert json.dumps(name)[1:-1] in json.dumps(json.loads(shown))
    monkeypatch.setattr(sys, "stdin", StringIO("e\n"))
    asked = run("review", tmp_path / "run")
    assert "name of the new entity [ghost\\x1b" in asked.out
    assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u2066"} & set(asked.out)


def test_a_view_of_mentions_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    shown = StringIO()
    monkeypatch.setattr(console, "out", Console(file=shown, width=80, highlight=False))
    result = arbo.Linker(kb).link(documents)
    ids = result.mention_table["mention_id"].to_pylist()
    console.print_view(mention_view(result, np.array([ids.index("D06-3"), ids.index("D05-4")])), as_table=True)
    lines = shown.getvalue().splitlines()
    assert lines[0].split() == ["mention", "id", "text", "type", "link", "score", "margin"]
    assert "DS:0001 fungal root rot" in shown.getvalue()
    assert "NIL, new-D05-4" in shown.getvalue()
    assert len(lines) <= 4


def test_rows_in_a_pipe_are_whole(folder: Path, tmp_path: Path) -> None:
    docs, kb = folder / "test.jsonl", folder / "kb.jsonl"
    discovered = arbo_process("discover", docs, "--out", tmp_path / "run").stdout
    table = discovered.split("for instance")[1].split("\n\n")[0].splitlines()
    assert len(table) == 6  # the header's end, and a line for each of five clusters
    for limit in ((), ("--limit", 3)):
        found = arbo_process("find", docs, "--kb", kb, *limit).stdout.split("\n\n")[0].splitlines()
        assert len(found) == (6 if limit else 2 + int(found[0].split()[0]))


def test_empty_texts_and_types_of_entities_are_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "docs.txt").write_text("A flu.")
    (tmp_path / "kb.obo").write_text("[Term]\nid: D:1\nname: flu\nnamespace: diseases\n")
    empty = run("find", tmp_path / "empty.txt", "--kb", tmp_path / "kb.obo").told
    assert "no mentions found; the texts are empty" in empty
    assert "empty.txt: 1 empty texts" in empty
    assert "language" not in empty
    told = run("find", tmp_path / "docs.txt", "--kb", tmp_path / "kb.obo").told
    assert "the found mentions have the types of their entities (in OBO, the namespace): diseases" in told

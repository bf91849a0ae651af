"""The verb `add`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import data_arguments, edit_json, save_data
from conftest import Run, Sample

import arbo
from arbo.data.corpus import Corpus


@pytest.fixture
def folder(tmp_path: Path, sample: Sample, run: Run) -> Path:
    """Return a folder with the sample in two parts, and a run on the first part."""
    documents, kb = sample
    save_data(tmp_path, documents[:60], kb)
    Corpus.of(documents[60:]).to_jsonl(tmp_path / "more.jsonl")
    assert run("link", *data_arguments(tmp_path), "--out", tmp_path / "one", "--k", 3).code == 0
    return tmp_path


def test_a_run_that_a_function_reranked_is_changed_in_python(folder: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    config = arbo.LinkerConfig(skip_margin=0.1)
    linker = arbo.Linker(kb, config=config, reranker=lambda _, lists: [[*range(len(own))] for own in lists])  # type: ignore[arg-type]
    linker.link(documents[:60]).save(folder / "asked")
    refused = run("add", "--anew", folder / "asked", "--kb", folder / "kb.jsonl", "--out", folder / "again")
    assert (refused.code, "was reranked by the function" in refused.told) == (2, True)
    assert "use Linker.add, Linker.remove or Linker.refit in Python" in refused.told


def test_runs_grow_shrink_and_are_refitted(folder: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    base = ["--kb", folder / "kb.jsonl"]
    told = run("add", folder / "one", folder / "more.jsonl", *base, "--out", folder / "two")
    assert told.code == 0, told.err
    assert "mentions: " in told.out
    assert f"arbo diff {folder / 'one'} {folder / 'two'}" in told.out.replace("\n", "")
    grown = arbo.Result.load(folder / "two")
    assert grown.link_table == arbo.Linker(kb, config=arbo.LinkerConfig(k=3)).link(documents).link_table
    refit = run("add", "--anew", folder / "two", *base, "--out", folder / "three", "--json").json
    assert (refit["clusters"], refit["mentions"]) == ([], [])
    ids = [document.id for document in documents[60:]]
    assert (
        run(
            "add",
            folder / "three",
            *(word for id_ in ids for word in ("--remove", id_)),
            *base,
            "--out",
            folder / "four",
        ).code
        == 0
    )
    assert arbo.Result.load(folder / "four").link_table == arbo.Result.load(folder / "one").link_table


def test_a_run_knows_the_run_of_which_it_was_made(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "two runs" in run("diff", folder / "one").err
    monkeypatch.chdir(folder)
    assert run("add", "one", "more.jsonl", "--out", "two").code == 0
    assert arbo.Result.load("two").manifest["parent"]["path"] == "one"
    told = run("diff", "one", "two", "--json").json
    assert told["clusters"]
    assert run("diff", "two", "--json").json == told
    monkeypatch.chdir("/")
    assert run("diff", folder / "two", "--json").json == told  # beside the run
    arbo.Result.load(folder / "two").save(folder / "one")
    refused = run("diff", folder / "two")
    assert refused.code == 2
    assert f"is no longer there, or has changed; give its place: `arbo diff PLACE {folder / 'two'}`" in refused.told
    assert refused.told.count("two was made") == 1
    assert "not known" not in refused.told


def test_a_parent_may_be_the_present_folder_or_another(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "one")
    assert run("add", ".", "--remove", "D06", "--out", "../two").code == 0
    monkeypatch.chdir("/")
    told = run("diff", folder / "two", "--json")
    assert (told.code, told.json) == (0, run("diff", folder / "one", folder / "two", "--json").json)
    file = folder / "two" / "manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    edit_json(file, parent={**manifest["parent"], "path": "."})
    refused = run("diff", folder / "two")
    assert refused.code == 2
    assert "or has changed" in " ".join(refused.err.split())


def test_types_that_the_run_has_not_are_told(tmp_path: Path, run: Run) -> None:
    for name, types in (("one", ["Disease"]), ("more", ["Disease", "Chemical", "Chemical"]), ("none", ["", "Gene"])):
        mentions = [{"spans": [[i, i + 1]], **({"type": kind} if kind else {})} for i, kind in enumerate(types)]
        text = json.dumps({"id": name, "text": "abc", "mentions": mentions})
        (tmp_path / f"{name}.jsonl").write_text(text + "\n", "utf-8")
    assert run("discover", tmp_path / "one.jsonl", "--out", tmp_path / "run").code == 0
    add = ["add", tmp_path / "run", tmp_path / "more.jsonl", "--out", tmp_path / "run2"]
    told = " ".join(run(*add).err.split())
    assert "2 of 3 new mentions have a type that the run has not (Chemical); --types Disease leaves them out" in told
    assert "that the run has not" not in run(*add, "--types", "Disease").err
    assert run("discover", tmp_path / "none.jsonl", "--out", tmp_path / "run").code == 0
    assert "that the run has not" not in run(*add).err


def test_discovered_entities_grow_without_a_knowledge_base(folder: Path, run: Run) -> None:
    docs = [folder / "docs.jsonl", "--format", "jsonl"]
    assert run("discover", *docs, "--out", folder / "one").code == 0
    assert run("add", folder / "one", folder / "more.jsonl", "--out", folder / "two").code == 0
    again = run("add", "--anew", folder / "two", "--out", folder / "three", "--json").json
    assert again["mentions"] == []


def test_mistakes_are_told_before_anything_is_written(folder: Path, run: Run) -> None:
    more, base = folder / "more.jsonl", ["--kb", folder / "kb.jsonl"]
    for words, message in (
        (["add", folder / "one", "--out", folder / "two"], "nothing to add"),
        (
            ["add", folder / "one", more, *base, "--out", folder / "one"],
            "is the run itself or inside it, which is not changed",
        ),
        (["add", folder / "one", more, "--out", folder / "one" / "in" / "it"], "is the run itself or inside it"),
        (
            ["add", folder / "one", "--remove", "nothing", *base, "--out", folder / "two"],
            "no document or mention 'nothing'",
        ),
    ):
        told = run(*words)
        assert told.code == 2
        assert message in told.err
    assert not (folder / "two").exists()


def test_a_run_finds_its_knowledge_base_and_follows_a_new_release(folder: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    told = run("add", folder / "one", folder / "more.jsonl", "--out", folder / "two")
    assert told.code == 0, told.err
    own = arbo.Linker(kb, config=arbo.LinkerConfig(k=3))
    assert arbo.Result.load(folder / "two").link_table == own.link(documents).link_table

    release = arbo.KnowledgeBase([*kb.entities[3:], arbo.Entity("N1", "kelp lung")])
    release.to_jsonl(folder / "kb.jsonl")
    for verb in (["add", folder / "two", folder / "more.jsonl"], ["add", "--anew", folder / "two"]):
        told = run(*verb, "--out", folder / "three")
        assert told.code == 2
        assert "kb.jsonl has changed since" in told.err
    told = run("add", folder / "two", "--kb", folder / "kb.jsonl", "--out", folder / "three")
    assert told.code == 0, told.err
    assert "knowledge base: 1 new, 3 gone\n" in told.out
    assert run("add", "--anew", folder / "three", "--out", folder / "four", "--json").json["mentions"] == []
    assert "\tcause\t" in run("diff", folder / "two", folder / "three").out.splitlines()[0]

    (folder / "kb.jsonl").unlink()
    told = run("add", folder / "three", "--remove", documents[0].id, "--out", folder / "four")
    assert told.code == 2
    assert "is no longer at" in told.err


def test_another_file_is_read_like_the_knowledge_base_of_the_run(folder: Path, sample: Sample, run: Run) -> None:
    """The cross-references are those of the run, whether its file has moved, has changed, or was only named again."""
    documents, kb = sample
    kb = arbo.KnowledgeBase(
        [
            replace(kb.entities[0], xrefs=("MSH:D1",)),
            *kb.entities[1:],
            arbo.Entity("M1", "hay fever", xrefs=("MSH:D2",)),
        ]
    )
    kb.to_jsonl(folder / "kb.jsonl")
    reading = ["--kb-xrefs", "MSH", "--set", "generic_names=false"]
    assert run("link", *data_arguments(folder), *reading, "--out", folder / "one").code == 0
    (folder / "kb.jsonl").rename(folder / "moved.jsonl")
    moved, out = ["--kb", folder / "moved.jsonl"], ["--out", folder / "two"]
    for verb in (
        ["add", folder / "one", "--remove", documents[0].id],
        ["add", "--anew", folder / "one"],
        ["add", folder / "one"],
    ):
        told = run(*verb, *moved, *out)
        assert told.code == 0, told.err
        two, one = (arbo.Result.load(folder / name).manifest["knowledge_base"] for name in ("two", "one"))
        assert two["fingerprint"] == one["fingerprint"]
    arbo.KnowledgeBase(kb.entities[:-1]).to_jsonl(folder / "kb.jsonl")
    advised = run("add", "--anew", folder / "one", "--out", folder / "three").err.replace("\n", " ").split("`")[1]
    assert run(*advised.replace("NEW", str(folder / "three")).split()[1:]).code == 0
    assert arbo.Result.load(folder / "three").manifest["kb_source"]["xrefs"] == ["MSH"]
    again = run("add", folder / "three", folder / "more.jsonl", "--set", "kb_xrefs=HULL", "--out", folder / "four")
    assert again.code == 0, again.err
    assert arbo.Result.load(folder / "four").manifest["kb_source"]["xrefs"] == ["HULL"]
    assert run("discover", folder / "docs.jsonl", "--out", folder / "five").code == 0
    refused = run("add", folder / "five", folder / "more.jsonl", "--set", "kb_xrefs=MSH", "--out", folder / "six")
    assert (refused.code, "has no knowledge base; leave --kb" in refused.err) == (2, True)

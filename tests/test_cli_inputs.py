"""Options that every verb shares which reads documents or a knowledge base: ids, types of entities, abbreviations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from builders import document, save_lines
from cli_builders import linking, sample_files
from conftest import Run

import arbo
from arbo import Entity, KnowledgeBase
from arbo.cli import app
from arbo.cli.inputs import ReadingConfig, read_documents
from arbo.data.corpus import Corpus
from arbo.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize(
    ("verb", "option", "told"),
    [
        ("link", "--ids", "keep only the documents with these ids"),
        ("link", "--find-mentions", "or a model folder"),
        ("link", "--kb-types", "`ST21pv`"),
    ],
)
def test_the_help_says_what_an_option_takes(verb: str, option: str, told: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    assert told in next(one.help for one in command.params if option in one.opts)


# Ids


def test_only_listed_documents_are_read(run: Run, folder: Path, tmp_path: Path) -> None:
    ids = save_lines(tmp_path / "ids.txt", "# a split", "", " D03 ", "D01", "D03", "Z9", "Z8", "Z7", "Z6")
    done = run("link", *linking(folder), "--ids", ids, "--out", tmp_path / "run")
    assert done.code == 0
    assert "ids.txt: no documents for 4 of the 6 ids: 'Z9', 'Z8', 'Z7', ..." in done.told
    result = arbo.Result.load(tmp_path / "run")
    assert {link.mention.document_id for link in result.links} == {"D01", "D03"}
    exact = read_documents(
        folder / "all.jsonl", "jsonl", None, ReadingConfig(ids=str(save_lines(tmp_path / "exact.txt", "D02")))
    )
    assert [one.id for one in exact] == ["D02"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            ["Z9", "Z8"],
            "ids: no documents for 2 of the 2 ids: 'Z9', 'Z8'; the documents have 'D01', for example; check the ids",
        ),
        (["# none"], "ids: the file has no ids"),
    ],
    ids=["unknown", "empty"],
)
def test_a_list_without_a_document_is_an_error(
    run: Run, folder: Path, tmp_path: Path, lines: list[str], told: str
) -> None:
    done = run(
        "discover",
        folder / "all.jsonl",
        "--set",
        f"ids={save_lines(tmp_path / 'ids', *lines)}",
        "--out",
        tmp_path / "r",
    )
    assert done.code == 3
    assert told in done.told
    assert not (tmp_path / "r").exists()
    job = [save_lines(tmp_path / "empty.csv", "name"), "--text-column", "name", "--ids", tmp_path / "ids"]
    empty = run("link", *job, "--kb", folder / "kb.jsonl", "--out", tmp_path / "r")
    assert empty.code == 3
    assert ("there are no documents" if told.startswith("ids: no") else told) in empty.told


def test_notes_of_a_reader_are_about_all_documents(run: Run, tmp_path: Path) -> None:
    lines = ["1|t|fever", "1|a|", "1\t0\t5\tfever\tD\tA|B", "", "2|t|fever", "2|a|", "2\t0\t5\tfever\tD\tA|B"]
    docs = save_lines(tmp_path / "docs.txt", *lines)
    note = "2 mentions with several concept ids"
    assert f"docs.txt: {note}" in run("discover", docs, "--out", tmp_path / "run").told
    assert (
        f"docs.txt, in all documents: {note}"
        in run("discover", docs, "--set", f"ids={save_lines(tmp_path / 'ids', '1')}", "--out", tmp_path / "run").told
    )


# Types of entities


def test_entities_of_other_types_are_left_out(run: Run, folder: Path, tmp_path: Path) -> None:
    kb = KnowledgeBase.from_jsonl(folder / "kb.jsonl")
    kept = kb.of_types("Species")
    assert 0 < len(kept) < len(kb)
    assert {entity.id for entity in kept} == {entity.id for entity in kb if "Species" in entity.types}
    assert run("link", *linking(folder), "--kb-types", "Species", "--out", tmp_path / "run").code == 0
    result = arbo.Result.load(tmp_path / "run")
    assert {link.entity for link in result.links} - {None} <= {entity.id for entity in kept}
    assert result.manifest["knowledge_base"]["fingerprint"] == kept.fingerprint
    assert result.manifest["kb_source"]["types"] == ["Species"]
    assert run("add", "--anew", tmp_path / "run", "--out", tmp_path / "again").code == 0
    wrong = run("kb", "convert", folder / "kb.jsonl", "--set", "kb_types=Specie", "--out", tmp_path / "x.jsonl")
    assert (wrong.code, "no entity has the type 'Specie'; types of entities: " in wrong.told) == (2, True)


def test_an_index_is_told_that_it_is_encoded_again(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("kb", "index", folder / "kb.jsonl", "--out", tmp_path / "index", "--set", "kb_types=Species").code == 0
    stored = KnowledgeBase.from_index(tmp_path / "index")
    assert stored == KnowledgeBase.from_jsonl(folder / "kb.jsonl").of_types("Species")
    told = run("kb", "convert", tmp_path / "index", "--set", "kb_types=Species", "--out", tmp_path / "x.jsonl").told
    assert "kb_types changes the knowledge base, so that its entities are encoded again" in told
    assert "encoded again" not in run("kb", "check", tmp_path / "index").told


# Abbreviations

DOCS = [document("d", ("quartz fever (QF)", None), ("QF", None))]
NAMES = KnowledgeBase([Entity("A", "quartz fever"), Entity("B", "QF")])


@pytest.mark.parametrize(
    ("options", "entity"), [([], "A"), (["--set", "expand_abbreviations=false"], "B")], ids=["expanded", "plain"]
)
def test_abbreviations_stay_as_they_are(run: Run, tmp_path: Path, options: list[str], entity: str) -> None:
    Corpus.of(DOCS).to_jsonl(tmp_path / "docs.jsonl")
    NAMES.to_jsonl(tmp_path / "kb.jsonl")
    job = [tmp_path / "docs.jsonl", "--kb", tmp_path / "kb.jsonl", *options]
    assert run("link", *job, "--method", "independent", "--out", tmp_path / "run").code == 0
    result = arbo.Result.load(tmp_path / "run")
    assert [link.entity for link in result.links][1] == entity
    assert result.manifest["config"]["expand_abbreviations"] is not bool(options)
    found = run("find", *job, "--json").json["found"]
    assert {one["entity"] for one in found if one["text"] == "QF"} == {entity}  # type: ignore[attr-defined]
    assert run("link", *job, "--find-mentions", "dictionary", "--out", tmp_path / "found").code == 0
    links = arbo.Result.load(tmp_path / "found").links
    assert {link.entity for link in links if link.mention.text == "QF"} == {entity}


def test_finders_follow_the_configuration(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.of(DOCS).to_jsonl(tmp_path / "docs.jsonl")
    NAMES.to_jsonl(tmp_path / "kb.jsonl")
    tuned = save_lines(tmp_path / "tuned.json", '{"config": {"expand_abbreviations": false}}')
    job = ["--kb", tmp_path / "kb.jsonl", "--config", tuned]
    linked = run("link", tmp_path / "docs.jsonl", *job, "--find-mentions", "dictionary", "--out", tmp_path / "run")
    assert linked.code == 0, linked.err
    links = arbo.Result.load(tmp_path / "run").links
    assert {link.entity for link in links if link.mention.text == "QF"} == {"B"}
    pytest.importorskip("uvicorn")
    served: list[Any] = []
    monkeypatch.setattr("arbo.serve.app.run", lambda service, *_, **__: served.append(service))
    assert run("serve", *job, "--port", 0).code == 0
    assert served[0].finder.abbreviations is False


@pytest.mark.parametrize("verb", ["encoder", "edges", "finder", "reranker"])
def test_training_reads_what_is_chosen(
    run: Run, folder: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    given: list[Any] = []

    def train(*arguments: Any, **named: Any) -> None:
        given.extend([*arguments, named, *named.values()])
        raise UsageError("enough")

    monkeypatch.setattr(arbo, {"encoder": "train", "finder": "train_oslat"}.get(verb, f"train_{verb}"), train)
    ids = save_lines(tmp_path / "ids", "D01", "D02"), save_lines(tmp_path / "dev", "D03")
    job = [
        "train",
        verb,
        *linking(folder),
        "--set",
        "kb_types=Species",
        "--dev",
        folder / "all.jsonl",
        "--out",
        tmp_path / "model",
    ]
    job += ["--set", f"ids={ids[0]}", "--set", f"dev_ids={ids[1]}"]
    reads = save_lines(tmp_path / "reads.json", '{"max_length": 64}')
    job += [] if verb == "edges" else ["--encoder", bert_folder, "--set", f"@{reads}"]
    job += ["--set", "expand_abbreviations=false"]
    assert "enough" in run(*job).told
    if verb != "edges":
        at = job.index("--dev")
        assert "dev_ids needs --dev" in run(*job[:at], *job[at + 2 :]).told
    corpora = [[one.id for one in value] for value in given if isinstance(value, Corpus)]
    assert corpora == [["D01", "D02"], ["D03"]]
    linkers = [value for value in given if isinstance(value, arbo.Linker)]
    bases = [value for value in given if isinstance(value, KnowledgeBase)] + [one.kb for one in linkers if one.kb]
    assert {type_ for kb in bases for entity in kb for type_ in entity.types} == {"Species"}
    assert not any(one.config.expand_abbreviations for one in linkers)
    if verb in ("encoder", "finder"):
        assert given[3]["expand_abbreviations"] is False

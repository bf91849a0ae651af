"""The verbs of `arbo kb`."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from cli_builders import arbo_process, sample_files
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_kb_validate_tells_errors_from_warnings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    command = ["kb", "check", path, "--kb-format", "jsonl"]
    lines = ['{"id": "A", "name": "flu"}', '{"id": "B", "name": "[bold]x[/bold]", "aliases": ["Flu", ":smile:"]}']
    path.write_text(lines[0])
    shown = run(*command)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("entities")
    assert shown.out.endswith("\nProblems\nno problems found\n")
    counts = json.loads(json.dumps(arbo.read_knowledge_base(path, "jsonl").stats().as_dict()))
    assert run(*command, "--json").json == counts | {"errors": 0, "warnings": 0, "problems": []}

    path.write_text("\n".join(lines))
    warned = run(*command, "--json")
    assert warned.code == 0
    assert [problem["kind"] for problem in warned.json["problems"]] == ["name-is-alias"]  # type: ignore[attr-defined]
    shown = run(*command)
    assert (shown.code, shown.err) == (0, "")
    assert '"flu", "Flu": A, B' in shown.out
    assert "kinds of errors: 0, kinds of warnings: 1" in shown.out

    path.write_text("\n".join((*lines, '{"id": "C"}', '{"id": " D", "name": "[bold]x[/bold]"}')))
    failed = run(*command, "--json")
    assert failed.code == 3
    assert (failed.json["entities"], failed.json["errors"], failed.json["warnings"]) == (3, 2, 2)
    text = run(*command)
    assert text.code == 3
    assert "\nProblems\nerror (1): malformed entities skipped" in text.out
    assert '"[bold]x[/bold]": B,  D' in text.out


def test_kb_that_cannot_be_read(run: Run, folder: Path, tmp_path: Path) -> None:
    for verb in ("check",):
        for arguments, code in (
            ([tmp_path / "absent", "--kb-format", "obo"], 3),
            ([folder / "kb.jsonl", "--kb-format", "word"], 2),
            ([folder / "kb.jsonl", "--kb-format", "obo"], 3),
        ):
            outcome = run("kb", verb, *arguments)
            assert (outcome.code, outcome.out) == (code, ""), arguments
            assert outcome.err
            assert "Traceback" not in outcome.err
    bad = tmp_path / "kb.tsv"
    bad.write_text("D1\tflu\nD2\n")
    assert f"{bad}, line 2, 'D2'" in run("kb", "convert", bad, "--kb-format", "tsv", "--out", tmp_path / "x.jsonl").err
    assert run("kb").code == 2


def test_where_the_malformed_entities_stand_is_said_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "kb.obo"
    path.write_text("[Term]\nid: A\nname: a flu\nsynonym: bare EXACT []\n[Term]\nid: B\nbroken\n")
    done = arbo_process("kb", "check", path, "--kb-format", "obo", "--json")
    assert done.returncode == 3
    assert done.stderr == f"skipped: {path}, line 7, 'B': expected a line of the form `tag: value`\n"
    assert [p["kind"] for p in json.loads(done.stdout)["problems"]] == ["malformed-synonym", "malformed-entity"]


def test_kb_convert_writes_the_format_of_the_ending(run: Run, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([
        arbo.Entity("A", "flu", ("grippe", "a|b"), "A fever.\nIt spreads.", ("Disease",), ("X1",), ("MSH:D1",), "d"),
        arbo.Entity("B", "cold"),
    ])  # fmt: skip
    kb.to_jsonl(tmp_path / "kb.jsonl")
    command = ["kb", "convert", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--out"]
    for ending in (".jsonl", ".jsonl.gz", ".parquet"):
        written = run(*command, tmp_path / f"new{ending}", "--json")
        assert (written.code, written.json["entities"], written.err) == (0, 2, "")
    assert arbo.KnowledgeBase.from_jsonl(tmp_path / "new.jsonl.gz") == kb
    assert arbo.KnowledgeBase.of(pq.read_table(tmp_path / "new.parquet")) == kb
    lossy = run(*command, tmp_path / "new.tsv")
    assert "new.tsv cannot hold types (1), alternative ids (1), xrefs (1), domains (1), aliases with" in lossy.err
    assert lossy.out == f"2 entities; written to {tmp_path / 'new.tsv'}\n"
    assert list(arbo.read_knowledge_base(tmp_path / "new.tsv", "tsv")) == [
        arbo.Entity("A", "flu", ("grippe",), "A fever.\nIt spreads."),
        arbo.Entity("B", "cold"),
    ]
    assert "must be .jsonl, .jsonl.gz, .tsv, .tsv.gz or .parquet" in run(*command, tmp_path / "new.csv").err
    assert "would change the input" in run(*command, tmp_path / "kb.jsonl").err
    with pytest.raises(arbo.UsageError, match=r"new\.csv: the file's ending must be one of \.jsonl"):
        kb.save(tmp_path / "new.csv")
    with pytest.raises(arbo.DataError, match=r"' ab': TSV cannot hold the white space around this id"):
        arbo.KnowledgeBase([arbo.Entity(" ab", "x")]).save(tmp_path / "new.tsv")


_CELLS = st.text("ab\"'\t\n\r |=", max_size=6)
_NAMES = _CELLS.filter(str.strip)


@given(
    kb=st.builds(arbo.Entity, _NAMES, _NAMES, st.lists(_CELLS, max_size=3).map(tuple), st.none() | _CELLS).map(
        lambda entity: arbo.KnowledgeBase([entity])
    )
)
@settings(max_examples=200, deadline=None)
def test_tsv_is_read_as_it_was_or_its_losses_are_counted(kb: arbo.KnowledgeBase) -> None:
    with TemporaryDirectory() as folder:
        try:
            lost = kb.save(Path(folder, "kb.tsv"))
        except arbo.DataError:
            assert kb.entities[0].id != kb.entities[0].id.strip()
            return
        assert (list(arbo.read_knowledge_base(Path(folder, "kb.tsv"), "tsv")) == list(kb)) == (not lost), lost


def test_kb_remove_names(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [arbo.Entity(f"E{row}", f"{row}th fever", ("x",)) for row in range(20)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", "Fever"), arbo.Entity("B", "Colds", ("sniffles",)), *heads])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "names.txt").write_text("cold\n\n4th FEVERS\n")
    command = ["kb", "edit", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--out", tmp_path / "new.jsonl"]
    removed = run(
        *command,
        "--remove-names",
        f"@{tmp_path / 'names.txt'}",
        "--remove-names",
        "sneezes",
        "--set",
        "generic_names=false",
    )
    assert "3 names removed, 1 entity without a name left out; written to" in removed.out
    assert "not names of the knowledge base: 'sneezes'" in removed.err
    new = arbo.KnowledgeBase.from_jsonl(tmp_path / "new.jsonl")
    assert "A" not in new
    assert (new["B"], new["E4"]) == (arbo.Entity("B", "sniffles"), arbo.Entity("E4", "x"))
    assert "nothing to edit: give --add-names" in run(*command).err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("colds\n")
    assert "20 names removed" in run(*command, "--remove-names", "x").out  # the name, although a file has it too
    assert "missing.txt: cannot be read: No such file" in run(*command, "--remove-names", "@missing.txt").err
    with pytest.raises(arbo.DataError, match="no entity would keep a name"):
        arbo.KnowledgeBase(kb.entities[:1]).without_names("fever")


@pytest.mark.parametrize(
    ("n", "name", "others", "generic"),
    [
        (20, "Diseases", "{} disease", ["Diseases"]),
        (20, "disease", "Disease, {}", ["disease"]),
        (19, "disease", "{} disease", []),  # too few
        (20, "disease", "{} disease 7", []),  # not the head
        (20, "old disease", "{} old disease", []),  # more than a word
        (260, "disease", "{} disease", ["disease"]),
    ],
)
def test_a_generic_name_heads_the_names_of_many_others(n: int, name: str, others: str, generic: list[str]) -> None:
    heads = [arbo.Entity(f"E{row}", others.format(f"x{row}")) for row in range(n)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", name), *heads, *(arbo.Entity(f"F{row}", "flu") for row in range(200))])
    assert kb.generic_names() == generic
    found = [problem for problem in kb.problems() if problem.kind == "generic-name"]
    assert [problem.examples[0].entities for problem in found] == ([("A",)] if generic else [])
    few = arbo.KnowledgeBase([*kb, *(arbo.Entity(f"G{row}", "flu") for row in range(4000))])  # less than 8 %
    assert few.generic_names() == []


def test_kb_convert_of_a_table_with_other_columns(run: Run, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,label,synonyms\nD1,flu,grippe|influenza\n")
    command = ["kb", "convert", tmp_path / "codes.csv", "--out", tmp_path / "kb.jsonl"]
    assert run(*command, "--columns", "id=code, name=label,aliases=synonyms").code == 0
    (entity,) = arbo.read_knowledge_base(tmp_path / "kb.jsonl")
    assert (entity.id, entity.name, entity.aliases) == ("D1", "flu", ("grippe", "influenza"))
    assert run(*command, "--columns", "id=kode").code == 3
    told = run(*command, "--columns", "id")
    assert told.code == 2
    assert "--columns must be KEY=COLUMN" in told.err

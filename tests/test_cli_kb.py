"""The verbs of `arbo kb`, and the verbs that read an index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_builders import linking, sample_files
from conftest import Run

import arbo
from arbo.results.result import Result


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
    assert shown.out.endswith("\nno problems found\n")
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
    assert "\nerror (1): malformed entities skipped" in text.out
    assert '"[bold]x[/bold]": B,  D' in text.out


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
    assert lossy.out == f"entities: 2; written to {tmp_path / 'new.tsv'}\n"
    assert list(arbo.read_knowledge_base(tmp_path / "new.tsv", "tsv")) == [
        arbo.Entity("A", "flu", ("grippe",), "A fever.\nIt spreads."),
        arbo.Entity("B", "cold"),
    ]
    assert "would change the input" in run(*command, tmp_path / "kb.jsonl").err
    with pytest.raises(arbo.UsageError, match=r"new\.csv: the file's ending must be one of \.jsonl"):
        kb.save(tmp_path / "new.csv")
    with pytest.raises(arbo.DataError, match=r"' ab': TSV cannot hold the white space around this id"):
        arbo.KnowledgeBase([arbo.Entity(" ab", "x")]).save(tmp_path / "new.tsv")


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
    assert "names removed: 3, entities left out: 1; written to" in removed.out
    assert "not names of the knowledge base: 'sneezes'" in removed.err
    new = arbo.KnowledgeBase.from_jsonl(tmp_path / "new.jsonl")
    assert "A" not in new
    assert (new["B"], new["E4"]) == (arbo.Entity("B", "sniffles"), arbo.Entity("E4", "x"))
    assert "nothing to edit: give --add-names" in run(*command).err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("colds\n")
    assert "names removed: 20" in run(*command, "--remove-names", "x").out  # the name, although a file has it too
    assert "missing.txt: cannot be read: No such file" in run(*command, "--remove-names", "@missing.txt").err
    with pytest.raises(arbo.DataError, match="no entity would keep a name"):
        arbo.KnowledgeBase(kb.entities[:1]).without_names("fever")


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


_BOTH = ("kb.jsonl", "kb.index")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The indexed of `sample_files`, with the index `kb.index`."""
    indexed = sample_files(tmp_path_factory.mktemp("files"))
    arbo.build_index(arbo.load_sample()[1], indexed / "kb.index")
    return indexed


def test_an_index_is_built_and_read(run: Run, indexed: Path, tmp_path: Path) -> None:
    made = run("kb", "index", indexed / "kb.jsonl", "--out", tmp_path / "index")
    assert (made.code, made.err) == (0, "kb.jsonl: read as jsonl (--kb-format overrides)\n")
    assert made.out.startswith("120 entities, ")
    again = run("kb", "index", indexed / "kb.jsonl", "--out", tmp_path / "index", "--json")
    assert again.json["entities"] == 120
    assert again.json["index"] == str(tmp_path / "index")
    assert again.json["bytes"] == sum(file.stat().st_size for file in (tmp_path / "index").rglob("*.*"))

    linked = run("link", indexed / "all.jsonl", "--kb", tmp_path / "index", "--out", tmp_path / "run")
    assert linked.code == 0
    assert "index: read as index (--kb-format overrides)" in linked.err
    assert run("link", *linking(indexed), "--out", tmp_path / "other").code == 0
    one, other = (Result.load(tmp_path / name) for name in ("run", "other"))
    assert one.link_table == other.link_table
    assert one.manifest["knowledge_base"] == other.manifest["knowledge_base"]


@pytest.mark.parametrize(
    "verb",
    [
        ["kb", "check", "KB"],
        ["find", "test.jsonl", "--kb", "KB"],
        ["tune", "train.jsonl", "--kb", "KB", "--method", "minimax", "--out", "tuned.json"],
        ["link", "test.jsonl", "--kb", "KB", "--find-mentions", "dictionary", "--out", "run"],
        ["kb", "convert", "KB", "--out", "kb.tsv"],
        ["kb", "edit", "KB", "--add-names", "train.jsonl", "--out", "kb.parquet"],
        ["kb", "edit", "KB", "--remove-names", "flu", "--out", "kb.parquet"],
    ],
)
def test_every_verb_answers_as_without_an_index(
    verb: list[str], run: Run, indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(indexed, tmp_path, dirs_exist_ok=True)
    told = [run(*(kb if word == "KB" else word for word in verb), "--json") for kb in ("kb.jsonl", "kb.index")]
    assert told[0].code == told[1].code == 0
    one, other = ({**shown.json, "seconds": None, "kb": None} for shown in told)
    assert one == other


def test_damage_is_found(run: Run, indexed: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    shutil.copytree(indexed / "kb.index", index)
    file = index / "vectors" / "matrix.1.npy"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    checked = run("kb", "check", index)
    assert checked.code == 3
    assert "matrix.1.npy: the file was changed after it was written; build the index again" in checked.told
    file.write_bytes(content[:-1])
    for verb in (["kb", "check", index], ["link", indexed / "all.jsonl", "--kb", index, "--out", tmp_path / "run"]):
        refused = run(*verb)
        assert (refused.code, refused.out) == (3, "")
        assert "matrix.1.npy: the file has" in refused.told
    file.unlink()
    assert "matrix.1.npy: the file cannot be read" in run("kb", "check", index).told

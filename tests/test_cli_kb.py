"""The verbs of `arbo kb`, and the verbs that read an index."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from builders import linking, save_lines
from conftest import Run

import arbo
from arbo.kb.problems import figures_of
from arbo.results.result import Result


def test_kb_check_tells_errors_from_warnings(run: Run, tmp_path: Path) -> None:
    lines = ['{"id": "A", "name": "flu"}', '{"id": "B", "name": "[bold]x[/bold]", "aliases": ["Flu", ":smile:"]}']
    lines += ['{"id": "C"}', '{"id": " D", "name": "[bold]x[/bold]"}']
    for n_lines, code, errors, warnings, said in (
        (1, 0, 0, 0, ["entities", "\nno problems found\n"]),
        (2, 0, 0, 1, ['"flu", "Flu": A, B', "kinds of errors: 0, kinds of warnings: 1"]),
        (4, 3, 2, 2, ["\nerror (1): malformed entities skipped", '"[bold]x[/bold]": B,  D']),
    ):
        path = save_lines(tmp_path / "kb.jsonl", *lines[:n_lines])
        shown, told = (run("kb", "check", path, "--kb-format", "jsonl", *how) for how in ([], ["--json"]))
        assert (shown.code, told.code) == (code, code)
        assert all(words in shown.out for words in said)
        assert (told.json["errors"], told.json["warnings"]) == (errors, warnings)
        if not code:
            counts = json.loads(json.dumps(figures_of(arbo.read_knowledge_base(path, "jsonl"))))
            assert told.json.items() >= counts.items()
            assert shown.err == ""
            kinds = [problem["kind"] for problem in told.json["problems"]]
            assert kinds == ["name-is-alias"] * warnings


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
    assert arbo.read_knowledge_base(tmp_path / "new.jsonl.gz") == kb
    assert arbo.KnowledgeBase.of(pq.read_table(tmp_path / "new.parquet")) == kb
    lossy = run(*command, tmp_path / "new.tsv")
    assert "new.tsv cannot hold types (1), alternative ids (1), xrefs (1), domains (1), aliases with" in lossy.err
    assert lossy.out == f"entities: 2; written to {tmp_path / 'new.tsv'}\n"
    assert list(arbo.read_knowledge_base(tmp_path / "new.tsv", "tsv")) == [
        arbo.Entity("A", "flu", ("grippe",), "A fever.\nIt spreads."),
        arbo.Entity("B", "cold"),
    ]


def test_kb_remove_names(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [arbo.Entity(f"E{row}", f"{row}th fever", ("x",)) for row in range(20)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", "Fever"), arbo.Entity("B", "Colds", ("sniffles",)), *heads])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    names = save_lines(tmp_path / "names.txt", "cold", "", "4th FEVERS")
    command = ["kb", "edit", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--out", tmp_path / "new.jsonl"]
    remove = ["--remove-names", f"@{names}", "--remove-names", "sneezes", "--set", "generic_names=false"]
    removed = run(*command, *remove)
    assert "names removed: 3, entities left out: 1; written to" in removed.out
    assert "not names of the knowledge base: 'sneezes'" in removed.err
    new = arbo.read_knowledge_base(tmp_path / "new.jsonl")
    assert "A" not in new
    assert (new["B"], new["E4"]) == (arbo.Entity("B", "sniffles"), arbo.Entity("E4", "x"))
    monkeypatch.chdir(tmp_path)
    save_lines(tmp_path / "x", "colds")
    assert "names removed: 20" in run(*command, "--remove-names", "x").out  # the name, although a file has it too
    with pytest.raises(arbo.DataError, match="no entity would keep a name"):
        arbo.KnowledgeBase(kb.entities[:1]).without_names("fever")


def test_kb_convert_of_a_table_with_other_columns(run: Run, tmp_path: Path) -> None:
    file = save_lines(tmp_path / "codes.csv", "code,label,synonyms", "D1,flu,grippe|influenza")
    command = ["kb", "convert", file, "--out", tmp_path / "kb.jsonl", "--columns"]
    assert run(*command, "id=code, name=label,aliases=synonyms").code == 0
    assert [*arbo.read_knowledge_base(tmp_path / "kb.jsonl")] == [arbo.Entity("D1", "flu", ("grippe", "influenza"))]
    assert run(*command, "id=kode").code == 3


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indices") / "kb.index"
    arbo.build_index(arbo.load_sample()[1], folder)
    return folder


def test_an_index_is_built_and_read(run: Run, files: Path, tmp_path: Path) -> None:
    index, how = tmp_path / "index", "(--kb-format overrides)\n"
    made = run("kb", "index", files / "kb.jsonl", "--out", index)
    assert (made.code, made.err) == (0, f"kb.jsonl: read as jsonl {how}")
    assert made.out.startswith("120 entities, ")
    again = run("kb", "index", files / "kb.jsonl", "--out", index, "--json").json
    n_bytes = sum(file.stat().st_size for file in index.rglob("*.*"))
    assert (again["entities"], again["index"], again["bytes"]) == (120, str(index), n_bytes)
    linked = run("link", files / "all.jsonl", "--kb", index, "--out", tmp_path / "run")
    assert (linked.code, f"index: read as index {how}" in linked.err) == (0, True)
    assert run("link", *linking(files), "--out", tmp_path / "other").code == 0
    one, other = (Result.load(tmp_path / name) for name in ("run", "other"))
    assert one.link_table == other.link_table
    assert one.manifest["knowledge_base"] == other.manifest["knowledge_base"]


@pytest.mark.parametrize(
    "verb",
    [
        "kb check KB",
        "find test.jsonl --kb KB",
        "tune train.jsonl --kb KB --method minimax --out tuned.json",
        "link test.jsonl --kb KB --find-mentions dictionary --out run",
        "kb convert KB --out kb.tsv",
        "kb edit KB --add-names train.jsonl --out kb.parquet",
        "kb edit KB --remove-names flu --out kb.parquet",
    ],
)
def test_every_verb_answers_as_without_an_index(
    verb: str, run: Run, files: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"test.jsonl": files / "test.jsonl", "train.jsonl": files / "train.jsonl"}
    told = [
        run(*((places | {"KB": kb}).get(word, word) for word in verb.split()), "--json")
        for kb in (files / "kb.jsonl", index)
    ]
    assert told[0].code == told[1].code == 0
    one, other = ({**shown.json, "seconds": None, "kb": None} for shown in told)
    assert one == other


def test_damage_is_found(run: Run, files: Path, index: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(index, tmp_path / "index"))
    file = copy / "vectors" / "matrix.1.npy"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    checked = run("kb", "check", copy)
    assert checked.code == 3
    assert "matrix.1.npy: the file was changed after it was written; build the index again" in checked.told
    file.write_bytes(content[:-1])
    refused = run("link", files / "all.jsonl", "--kb", copy, "--out", tmp_path / "run")
    assert (refused.code, refused.out, "matrix.1.npy: the array cannot be read" in refused.told) == (3, "", True)
    file.unlink()
    assert "matrix.1.npy: the file is missing" in run("kb", "check", copy).told

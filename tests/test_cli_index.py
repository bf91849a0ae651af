"""`arbo kb index`, and the verbs that read an index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_builders import arbo_process, linking, sample_files
from conftest import Run

import arbo
from arbo.results.result import Result

_BOTH = ("kb.jsonl", "kb.index")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`, with the index `kb.index`."""
    folder = sample_files(tmp_path_factory.mktemp("files"))
    arbo.build_index(arbo.load_sample()[1], folder / "kb.index")
    return folder


def test_an_index_is_built_and_read(run: Run, folder: Path, tmp_path: Path) -> None:
    made = run("kb", "index", folder / "kb.jsonl", "--out", tmp_path / "index")
    assert (made.code, made.err) == (0, "kb.jsonl: read as jsonl (--kb-format overrides)\n")
    assert made.out.startswith("120 entities, ")
    again = run("kb", "index", folder / "kb.jsonl", "--out", tmp_path / "index", "--json")
    assert again.json["entities"] == 120
    assert again.json["index"] == str(tmp_path / "index")
    assert again.json["bytes"] == sum(file.stat().st_size for file in (tmp_path / "index").rglob("*.*"))

    linked = run("link", folder / "all.jsonl", "--kb", tmp_path / "index", "--out", tmp_path / "run")
    assert linked.code == 0
    assert "index: read as index (--kb-format overrides)" in linked.err
    assert run("link", *linking(folder), "--out", tmp_path / "other").code == 0
    one, other = (Result.load(tmp_path / name) for name in ("run", "other"))
    assert one.link_table == other.link_table
    assert one.manifest["knowledge_base"] == other.manifest["knowledge_base"]


@pytest.mark.parametrize(
    "verb",
    [
        ["kb", "check", "KB"],
        ["find", "test.jsonl", "--kb", "KB"],
        ["find", "test.jsonl", "--kb", "KB", "--finder", "fuzzy"],
        ["tune", "train.jsonl", "--kb", "KB", "--method", "minimax", "--out", "tuned.json"],
        ["link", "test.jsonl", "--kb", "KB", "--find-mentions", "dictionary", "--out", "run"],
        ["kb", "convert", "KB", "--out", "kb.tsv"],
        ["kb", "edit", "KB", "--add-names", "train.jsonl", "--out", "kb.parquet"],
        ["kb", "edit", "KB", "--remove-names", "flu", "--out", "kb.parquet"],
    ],
)
def test_every_verb_answers_as_without_an_index(
    verb: list[str], run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    told = [run(*(kb if word == "KB" else word for word in verb), "--json") for kb in ("kb.jsonl", "kb.index")]
    assert told[0].code == told[1].code == 0
    one, other = ({**shown.json, "seconds": None, "kb": None} for shown in told)
    assert one == other


@pytest.mark.parametrize("field", ["generic_names=false", "kb_xrefs=MSH"])
def test_what_changes_the_knowledge_base_belongs_to_the_index(field: str, run: Run, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("A", "flu", xrefs=("MSH:D1",)), arbo.Entity("B", "cold")])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    (tmp_path / "names.jsonl").write_text('{"id": "1", "text": "flu", "mentions": [{"spans": [[0, 3]]}]}')
    command = ["link", tmp_path / "names.jsonl", "--out", tmp_path / "run"]
    assert run("kb", "index", tmp_path / "kb.jsonl", "--out", tmp_path / "plain").code == 0
    late = run(*command, "--kb", tmp_path / "plain", "--set", field)
    assert late.code == 0
    assert (
        f"plain: {field.partition('=')[0]} changes the knowledge base, so that its entities are encoded again"
        in late.told
    )
    assert run("kb", "index", tmp_path / "kb.jsonl", "--set", field, "--out", tmp_path / "changed").code == 0
    early = run(*command, "--kb", tmp_path / "changed")
    assert (early.code, "again" in early.err) == (0, False)


def test_damage_is_found(run: Run, folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    shutil.copytree(folder / "kb.index", index)
    file = index / "vectors" / "matrix.1.npy"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    checked = run("kb", "check", index)
    assert checked.code == 3
    assert "matrix.1.npy: the file was changed after it was written; build the index again" in checked.told
    file.write_bytes(content[:-1])
    for verb in (["kb", "check", index], ["link", folder / "all.jsonl", "--kb", index, "--out", tmp_path / "run"]):
        refused = run(*verb)
        assert (refused.code, refused.out) == (3, "")
        assert "matrix.1.npy: the file has" in refused.told
    file.unlink()
    assert "matrix.1.npy: the file cannot be read" in run("kb", "check", index).told


def test_other_folders_are_no_index(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("empty", "file", "nothing"):
        refused = run("kb", "check", tmp_path / name, "--kb-format", "index")
        assert refused.code == 3
        assert "not an index of a knowledge base: arbo-index.json cannot be read" in refused.told
    assert run("kb", "check", tmp_path / "empty").code == 3
    (tmp_path / "empty" / "arbo-index.json").write_text('{"format": "arbo-run"}')
    assert "this is not an index of a knowledge base" in run("kb", "check", tmp_path / "empty").told
    for target in (tmp_path, tmp_path / "file", folder / "kb.jsonl", "/dev/null", "-", "/proc/index"):
        refused = run("kb", "index", folder / "kb.jsonl", "--out", target)
        assert refused.code == 2
    assert run("kb", "index", folder / "all.jsonl", "--kb-format", "obo", "--out", tmp_path / "none").code == 3
    assert run("link", folder / "kb.index", "--kb", folder / "kb.index", "--out", tmp_path / "run").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_the_index_of_another_encoder(folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    """A warning on stderr names the encoder; the run is that of the encoder that was asked for."""
    index = tmp_path / "index"
    made = arbo_process("kb", "index", folder / "kb.jsonl", "--encoder", bert_folder, "--out", index, "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["entities"] == 120
    link = ["link", folder / "test.jsonl", "--kb", index]
    own = arbo_process(*link, "--encoder", bert_folder, "--out", tmp_path / "own")
    assert (own.returncode, "again" in own.stderr) == (0, False)
    other = arbo_process(*link, "--out", tmp_path / "other")
    assert other.returncode == 0
    assert f"was built for the encoder {bert_folder}, not ngram, so the entities are encoded again" in other.stderr
    plain = arbo_process("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "plain")
    assert plain.returncode == 0
    assert Result.load(tmp_path / "other").link_table == Result.load(tmp_path / "plain").link_table

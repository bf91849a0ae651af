"""Run folders: complete or absent, themselves again or an error, and nothing else is ever touched."""

import hashlib
import json
import pickle
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import Bomb, document, edit_json, linker

import arbo
from arbo.linking.config import Limit
from arbo.results import run_folder

TABLES = ("mentions", "links", "clusters", "documents", "entities")
FILES = {"manifest.json", "growth.npz", *(f"{name}.parquet" for name in TABLES)}


def make(limit: Limit = "default") -> arbo.Result:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])
    return linker(kb, entity_threshold=limit).link([document("m", "marsh fever", "zzz")])


@pytest.fixture(scope="module")
def result() -> arbo.Result:
    return make()


@pytest.fixture
def run(result: arbo.Result, tmp_path: Path) -> Path:
    result.save(tmp_path / "run")
    return tmp_path / "run"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_run_folder_is_what_the_documentation_says(run: Path) -> None:
    assert (names(run), names(run.parent)) == (FILES, {"run"})
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    assert (manifest["format"], set(manifest["files"])) == ("arbo-run", FILES - {"manifest.json"})
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((run / name).read_bytes()).hexdigest() == digest
    assert {"arbo", "python", "numpy"} <= set(manifest["versions"])
    assert pq.read_table(run / "links.parquet")["entity_id"].to_pylist() == ["E1", None]


def test_a_run_keeps_further_columns_unless_it_is_saved_without_texts(tmp_path: Path) -> None:
    mention = {"spans": [[0, 3]], "by": "Ann", "index": 7}
    rows = [{"id": "d1", "text": "flu", "year": 2024, "mentions": [mention]}, {"id": "d2", "text": "cold"}]
    result = arbo.Linker(None).discover(rows)
    result.save(tmp_path / "run")
    loaded = arbo.Result.load(tmp_path / "run")
    assert loaded.links[0].mention.metadata == {"by": "Ann", "index": 7}
    assert loaded.document_table["metadata"].to_pylist() == ['{"year": 2024}', None]
    table = pq.read_table(tmp_path / "run" / "links.parquet")
    replace_table(tmp_path / "run", "links", table.append_column("note", pa.array([7])))
    assert arbo.Result.load(tmp_path / "run").link_table["note"].to_pylist() == [7]
    result.save(tmp_path / "run", texts=False)
    lean = arbo.Result.load(tmp_path / "run")
    assert (lean.links[0].mention, lean.links[0].mention.metadata) == (loaded.links[0].mention, {})
    assert lean.document_table.column_names == ["document_id", "domain"]


def test_infinities_are_null_in_json(tmp_path: Path) -> None:
    make(float("inf")).save(tmp_path / "run")
    text = (tmp_path / "run" / "manifest.json").read_text("utf-8")
    manifest = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert manifest["threshold"]["entity"] is None
    assert arbo.Result.load(tmp_path / "run").manifest["threshold"]["entity"] == float("inf")


@pytest.mark.parametrize("name", ["with blank", "ünïcode 病気 \U0001f98a", "a=1", "[b]", "n" * 250, "deep/er/run"])
def test_any_path(result: arbo.Result, tmp_path: Path, name: str) -> None:
    result.save(tmp_path / name)
    result.save(tmp_path / name)
    assert (arbo.Result.load(tmp_path / name).link_table, list(tmp_path.rglob("*arbo-*"))) == (result.link_table, [])


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("step", ["arbo.results.run_folder.write_table", "pathlib.Path.write_text", "os.replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), SystemExit(130)])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool, step: str, failure: BaseException
) -> None:
    if earlier:
        make(0.01).save(tmp_path / "run")
    result = make()
    with monkeypatch.context() as patch:
        patch.setattr("arbo.files._exchange", lambda one, other: False)
        patch.setattr(step, Mock(side_effect=failure))
        with pytest.raises((arbo.UsageError, SystemExit)):
            result.save(tmp_path / "run")
    assert names(tmp_path) == ({"run"} if earlier else set())
    if earlier:
        assert arbo.Result.load(tmp_path / "run").manifest["config"]["entity_threshold"] == 0.01
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").manifest["config"]["entity_threshold"] == "default"
    assert (names(tmp_path), names(tmp_path / "run")) == ({"run"}, FILES)


def replace_table(run: Path, name: str, table: pa.Table) -> None:
    """Write another table, with the right hash."""
    file = run / f"{name}.parquet"
    pq.write_table(table, file)
    files = json.loads((run / "manifest.json").read_text("utf-8"))["files"]
    edit_json(run / "manifest.json", files=files | {file.name: hashlib.sha256(file.read_bytes()).hexdigest()})


@pytest.mark.parametrize(
    ("name", "column", "values", "wrong"),
    [
        ("mentions", "text", None, "the table has no column text"),
        ("links", "candidates", None, "the table has no column candidates"),
        ("clusters", "size", None, "the table has no column size"),
        ("links", "parent_is_mention", pa.array(["no", "no"]), "the column parent_is_mention has the type string, not"),
        ("links", "score", pa.array([None, None]), "the column score has the type null, not float"),
        ("mentions", "text", pa.array(["marsh fever", None]), "the column text has empty values"),
    ],
)
def test_a_table_with_another_schema(run: Path, name: str, column: str, values: pa.Array | None, wrong: str) -> None:
    table = pq.read_table(run / f"{name}.parquet")
    place = table.column_names.index(column)
    table = table.remove_column(place) if values is None else table.set_column(place, column, values)
    replace_table(run, name, table)
    with pytest.raises(arbo.DataError, match=rf"{name}\.parquet: {wrong}.*; run the job again"):
        arbo.Result.load(run)


@pytest.mark.parametrize("name", [*(f"{table}.parquet" for table in TABLES), "growth.npz", "manifest.json"])
def test_a_pickle_is_never_unpickled(run: Path, tmp_path: Path, name: str) -> None:
    pickled = pickle.dumps(Bomb(tmp_path / "exploded"))
    (run / name).write_bytes(pickled)
    if name != "manifest.json":  # with the right hash, too
        files = json.loads((run / "manifest.json").read_text("utf-8"))["files"]
        edit_json(run / "manifest.json", files=files | {name: hashlib.sha256(pickled).hexdigest()})
    with pytest.raises(arbo.DataError, match=name):
        arbo.Result.load(run).arrays()
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickled)  # noqa: S301  the bomb works
    assert (tmp_path / "exploded").exists()


def test_a_manifest_of_a_newer_version(run: Path) -> None:
    edit_json(run / "manifest.json", format_version=run_folder.FORMAT.version + 1)
    with pytest.raises(arbo.DataError, match="newer arbo"):
        arbo.Result.load(run)
    make().save(run)  # it may be replaced: it is a run
    arbo.Result.load(run)


_RUN = '{"format": "arbo-run", "format_version": 1'


def test_a_manifest_that_is_none(run: Path) -> None:
    for text in (
        *("", "{", "[]", "{}", "null", "[" * 100_000, '{"format": "arbo-run"}', f"{_RUN}}}"),
        *(f'{_RUN}, "files": {files}, "threshold": {{}}, "notes": {{}}}}' for files in ("[]", "{}")),
        *('{"format": "arbo-run", "format_version": "1"}', '{"format": "arbo-index", "format_version": 2}'),
    ):
        (run / "manifest.json").write_text(text)
        with pytest.raises(arbo.DataError, match=str(run)):
            arbo.Result.load(run)


def test_a_manifest_that_was_changed(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    changed = manifest | {"config": manifest["config"] | {"k": manifest["config"]["k"] ^ 1}}
    parts = [{key: value for key, value in manifest.items() if key != part} for part in manifest]
    for content in (changed, manifest | {"further": 1}, *parts):
        (run / "manifest.json").write_text(json.dumps(content), "utf-8")
        with pytest.raises(arbo.DataError, match="manifest"):
            arbo.Result.load(run)


def test_no_run_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(arbo.DataError, match="not a run folder"):
            arbo.Result.load(path)

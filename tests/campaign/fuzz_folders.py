"""Damaged run folders, indexes, models, candidates, work folders and corrections, whose hashes were computed again."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mutations
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from builders import document
from commands import asked

import arbo
from arbo.cli.explore import page_of
from arbo.data.corpus import Corpus
from arbo.edges.model import EdgeModel
from arbo.retrieval.candidates import union
from campaign.runner import Campaign

KB = arbo.KnowledgeBase(
    [
        arbo.Entity("E1", "marsh fever", ("swamp fever",), "A fever.", ("Disease",), ("9",), ("M:1",)),
        arbo.Entity("E2", "kelp blight", metadata={"year": 1990}),
        arbo.Entity("E3", "fever"),
    ]
)
_KEPT = TemporaryDirectory(prefix="arbo-campaign-folders-")


def _corpus() -> Corpus:
    rows = [
        document("a", ("marsh fever", ["E1"]), ("zzz", []), "kelp"),
        document("b", "marsh fevers", "zzz", ("fever", ["E3", "E1"])),
        document("c", "kelp blight", "zzzz"),
    ]
    texts = [{"id": d.id, "text": d.text, "year": 3, "mentions": [
        {"id": m.id, "spans": [[m.start, m.end]], "type": "X", "note": "n", "entities": m.gold} for m in d.mentions
    ]} for d in rows]  # fmt: skip
    return Corpus.of(texts)


_CORRECTIONS = [
    {"mention": "a-0", "entity": "E1", "author": "x"},
    {"mention": "b-1", "new": "zed"},
    {"same": ["a-1", "b-1"]},
    {"different": ["a-0", "b-2"]},
    {"document": "c", "spans": [[0, 4]], "add": True, "type": "X"},
]


@cache
def originals() -> dict[str, Path]:
    """Make one undamaged folder or file of each kind, once in a process."""
    root = Path(_KEPT.name)
    documents = _corpus()
    documents.to_jsonl(root / "docs.jsonl")
    documents[:2].to_jsonl(root / "two.jsonl")
    KB.to_jsonl(root / "kb.jsonl")
    (root / "corrections.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in _CORRECTIONS), "utf-8")
    config = arbo.LinkerConfig(k=2, candidates=3)
    made = {name: root / name for name in ("docs.jsonl", "two.jsonl", "kb.jsonl", "corrections.jsonl")}
    base = arbo.formats.read_knowledge_base(root / "kb.jsonl")
    linker = arbo.Linker(base, config=config)
    runs = {
        "plain": linker.link(documents[:2]),
        "corrected": linker.link(documents, root / "corrections.jsonl"),
        "found": arbo.Linker(config=config).discover(documents),
        "edges": arbo.Linker(base, config=config, edges=EdgeModel.load("english")).link(documents),
    }
    for name, run in runs.items():
        run.save(root / name)
    runs["corrected"].save(root / "no texts", texts=False)
    first = root / "version 1"
    shutil.copytree(root / "plain", first)
    manifest = json.loads((first / "manifest.json").read_text())
    for name in ("documents.parquet", "entities.parquet", "growth.npz"):
        (first / name).unlink()
        del manifest["files"][name]
    (first / "manifest.json").write_text(json.dumps({**manifest, "format_version": 1}))
    return made | {name: root / name for name in (*runs, "no texts", "version 1")}


RUNS = ("plain", "corrected", "found", "edges", "no texts", "version 1")


def _column(column: pa.ChunkedArray, chance: random.Random) -> Any:
    """Change the values or the type of a column."""
    values = column.to_pylist()
    how = chance.randrange(9)
    if not values or how == 0:
        return pa.array([None] * len(values), chance.choice([pa.null(), column.type]))
    at, other = chance.randrange(len(values)), chance.randrange(len(values))
    if how == 1:
        values[at] = None
    elif how == 2:
        values[at] = values[other]
    elif how == 3:
        values = values[::-1]
    elif how in (4, 5):
        values[at] = mutations.changed(values[at], chance)
    elif how == 6:
        kind = chance.choice(
            [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.large_string(), pa.binary(), pa.int8()]
        )
        return column.cast(kind, safe=False)
    elif how == 7:
        return column.dictionary_encode()
    else:
        values = [values[at]] * len(values)
    return pa.array(values, column.type)


def _table(table: pa.Table, chance: random.Random) -> pa.Table:
    """Change a column, a name or the rows of a table."""
    how = chance.randrange(10)
    place = chance.randrange(table.num_columns)
    name = table.column_names[place]
    if how == 0:
        return table.drop_columns([name])
    if how == 1:
        return table.rename_columns(
            [*table.column_names[:place], mutations.text(chance), *table.column_names[place + 1 :]]
        )
    if how == 2:
        rows = [chance.randrange(len(table)) for _ in range(chance.randrange(len(table) + 2))] if len(table) else []
        return table.take(pa.array(rows, pa.int64()))
    if how == 3:
        return table.append_column(name, table[name])
    return table.set_column(place, name, _column(table[name], chance))


def _array(array: np.ndarray[Any, Any], chance: random.Random) -> np.ndarray[Any, Any]:
    """Change the values, the type or the shape of an array."""
    array, how = array.copy(), chance.randrange(7)
    if how == 0:
        return array.astype(chance.choice([np.int8, np.int64, np.float32, np.float64, np.uint8, np.bool_, "U3"]))
    if how == 1:
        return array[: chance.randrange(len(array) + 1)] if array.ndim else array.reshape(1)
    if how == 2:
        return array.reshape(-1) if array.ndim != 1 else array[:, None]
    if how == 3:
        return np.concatenate([array, array]) if array.ndim else array
    if how == 4:
        return array.T.copy() if array.ndim != 1 else array[::-1].copy()
    if array.size:
        extreme = chance.choice([-1, 0, 1, 2**31 - 1, -(2**31), 1e30, float("nan"), float("inf"), -float("inf"), 10**6])
        with np.errstate(all="ignore"):
            array.reshape(-1)[chance.randrange(array.size)] = np.array(extreme).astype(array.dtype)
    return array


def damaged_run(folder: Path, chance: random.Random) -> str:
    """Change a run folder, and write the hashes anew; return which file was changed."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    name = chance.choice(["manifest.json", "links.parquet", "mentions.parquet", *manifest["files"]])
    file = folder / name
    if chance.random() < 0.05:
        file.write_bytes(mutations.mutated(file.read_bytes(), chance))
    elif name == "manifest.json":
        manifest = mutations.changed(manifest, chance)
    elif name.endswith(".npz"):
        with np.load(file) as stored:
            arrays = dict(stored)
        key = chance.choice(sorted(arrays))
        arrays[key] = _array(arrays[key], chance)
        if chance.random() < 0.15:
            del arrays[key]
        np.savez(file, **arrays)
    else:
        pq.write_table(_table(pq.read_table(file), chance), file)
    if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict):
        for one in manifest["files"]:
            if (folder / one).is_file():
                manifest["files"][one] = hashlib.sha256((folder / one).read_bytes()).hexdigest()
    if name != "manifest.json" or chance.random() < 0.95:
        (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return name


def _run(seed: int, folder: Path) -> None:
    chance, made = random.Random(seed), originals()
    kind = chance.choice(RUNS)
    run = folder / "run"
    shutil.copytree(made[kind], run)
    for _ in range(chance.choice([1, 1, 2])):
        with suppress(pa.ArrowException, OSError, ValueError, OverflowError, TypeError):  # no such value fits
            damaged_run(run, chance)
    try:
        result = arbo.Result.load(run)
    except arbo.ArboError:
        shown = asked("show", run, "--json")
        assert isinstance(shown, arbo.ArboError), "the verb read what the library refuses"
        return
    for use in chance.sample(_USES, 3):
        with suppress(arbo.ArboError):
            use(result, run, folder, chance)
    for words in chance.sample(_VERBS, 2):
        told = asked(*(_named(word, run, folder) for word in words))
        if words[0] in ("add", "refit", "remove") and not isinstance(told, (arbo.ArboError, int)):
            arbo.Result.load(folder / "out")


def _named(word: str, run: Path, folder: Path) -> str:
    """Replace a name in braces by its path."""
    for name, path in {**originals(), "run": run, "out": folder / "out"}.items():
        word = word.replace(f"{{{name}}}", str(path))
    return word


def _look(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    for link in result.links:
        assert str(result.explain(link))
        assert link.mention.id in {mention.id for mention in result.cluster_of(link).mentions}
        result.explain(link.mention.id)
    assert sum(len(cluster.mentions) for cluster in result.clusters) == len(result.links)
    str(result), result.giants, result.warnings, result.corrections, result.discovered[:3], result._repr_html_()


def _save(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    result.save(folder / "saved")
    again = arbo.Result.load(folder / "saved")
    for name in ("mention_table", "link_table", "cluster_table", "document_table", "entity_table"):
        assert repr(getattr(again, name)) == repr(getattr(result, name)), name


def _score(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    str(result.evaluate(per_document=chance.random() < 0.5, singletons=chance.random() < 0.5))


def _export(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    for format_ in ("csv", "jsonl", "pubtator", "pubannotation", "bioc", "brat", "conll", "clusters"):
        result.export(folder / f"out.{format_}", format_, ids=chance.choice(["links", "gold"]))
    result.to_pandas()


def _differ(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    place = originals()[chance.choice(RUNS)]
    for one, two in ((result, other := arbo.Result.load(place)), (other, result)):
        str(arbo.diff(one, two)), arbo.diff(one, two).as_dict()
    assert arbo.diff(run, place) == arbo.diff(result, other)


def _page(result: arbo.Result, run: Path, folder: Path, chance: random.Random) -> None:
    page = page_of(run, None, folder / "answers.jsonl", None, (None, None), folder / "reviewed")
    views = page.views
    for answer in (
        views.overview(),
        views.mentions(),
        views.clusters(sort="nearness"),
        views.documents(),
        views.search("z"),
    ):
        json.dumps(arbo.files.json_ready(answer), allow_nan=False)
    for row in views.mentions()["rows"]:
        views.mention(row["mention_id"]), views.cluster(row["cluster_id"]), views.document(row["document_id"])
    for _ in range(2):
        page.reviewing.next()


_USES: list[Callable[..., None]] = [_look, _save, _score, _export, _differ, _page]
_VERBS: list[tuple[str, ...]] = [
    ("show", "{run}", "--json"), ("show", "{run}", "--clusters"), ("show", "{run}", "--lowest-margin"),
    ("explain", "{run}", "a-1", "--json"), ("explain", "{run}", "b"), ("evaluate", "{run}", "--json"),
    ("evaluate", "{run}", "{corrected}"), ("diff", "{run}", "{corrected}", "--json"), ("diff", "{plain}", "{run}"),
    ("export", "{run}", "--to", "tsv", "--out", "{out}"), ("export", "{run}", "--to", "brat", "--out", "{out}"),
    ("review", "{run}", "--json"), ("report", "{run}", "--out", "{out}"),
    ("add", "{run}", "{docs.jsonl}", "--out", "{out}"),
    ("add", "{run}", "--corrections", "{corrections.jsonl}", "--out", "{out}"), ("refit", "{run}", "--out", "{out}"),
    ("add", "{run}", "--kb", "{kb.jsonl}", "--out", "{out}"), ("remove", "{run}", "a", "--out", "{out}", "--json"),
    ("kb", "add-discovered", "{run}", "--out", "{out}.jsonl"),
]  # fmt: skip


@cache
def others() -> dict[str, Path]:
    """Make an index, an edge model, candidates and a work folder, once in a process."""
    root = Path(_KEPT.name)
    files = originals()
    base = arbo.formats.read_knowledge_base(files["kb.jsonl"])
    arbo.build_index(base, root / "kb.index")
    arbo.Candidates.of_result(arbo.Result.load(files["plain"]), base).save(root / "candidates.parquet")
    linked = (
        "link",
        files["docs.jsonl"],
        "--kb",
        files["kb.jsonl"],
        "--out",
        root / "w",
        "--work",
        root / "work",
        "--workers",
        1,
    )
    assert not isinstance(asked(*linked, "--json"), (int, arbo.ArboError))
    return {"index": root / "kb.index", "candidates": root / "candidates.parquet", "work": root / "work"}


def _damaged_index(folder: Path, chance: random.Random) -> None:
    """Change an array or the manifest of an index, and write the sizes, hashes and the checksum anew."""
    from arbo.data.index_folder import _checksum, _described

    manifest = json.loads((folder / "arbo-index.json").read_text("utf-8"))
    name = chance.choice(["arbo-index.json", *manifest["files"]])
    if name.endswith(".npy"):
        np.save(folder / name, _array(np.load(folder / name), chance))
    elif name.endswith(".arrow"):
        table = _table(pa.ipc.open_file(folder / name).read_all(), chance)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        manifest = mutations.changed(manifest, chance)
    manifest["files"] = {one: _described(folder / one) if (folder / one).is_file() else {} for one in manifest["files"]}
    manifest.pop("checksum", None)
    (folder / "arbo-index.json").write_text(json.dumps(manifest | {"checksum": _checksum(manifest)}), "utf-8")


def _index(seed: int, folder: Path) -> None:
    chance, index, files = random.Random(seed), folder / "kb.index", originals()
    shutil.copytree(others()["index"], index)
    with suppress(pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError, AttributeError):
        _damaged_index(index, chance)
    try:
        kb = arbo.KnowledgeBase.from_index(index)
        list(kb), kb.stats(), [kb.rows(id_) for id_ in (*islice(kb.row_of, 9), "9", "x")], kb.names()
    except arbo.ArboError:
        pass
    asked("link", files["docs.jsonl"], "--kb", index, "--out", folder / "run", "--json")
    asked("kb", "validate", index)
    asked("kb", "stats", index, "--json")
    asked("kb", "convert", index, "--out", folder / "kb.tsv")


def _file(seed: int, folder: Path) -> None:
    """Damage corrections, candidates, an edge model or a work folder, and use them."""
    chance, files = random.Random(seed), originals()
    kind, docs, kb = (
        chance.choice(["corrections", "candidates", "edges", "work"]),
        files["docs.jsonl"],
        files["kb.jsonl"],
    )
    linked: tuple[object, ...] = ("link", docs, "--kb", kb, "--out", folder / "run", "--json")
    if kind == "corrections":
        file = folder / "corrections.jsonl"
        file.write_bytes(mutations.mutated(files["corrections.jsonl"].read_bytes(), chance))
        told = asked(*linked, "--corrections", file)
        if isinstance(told, dict):
            asked("add", folder / "run", docs, "--out", folder / "more", "--json")
            asked("refit", folder / "run", "--out", folder / "again", "--json")
        asked("review", files["plain"], "--corrections", file, "--json")
    elif kind == "candidates":
        table = pq.read_table(others()["candidates"])
        own = json.loads(table.schema.metadata[b"arbo-candidates"])
        with suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
            table = _table(table, chance) if chance.random() < 0.7 else table
            own = mutations.changed(own, chance) if chance.random() < 0.5 else own
        pq.write_table(table.replace_schema_metadata({"arbo-candidates": json.dumps(own)}), folder / "c.parquet")
        with suppress(arbo.ArboError):
            found = arbo.Candidates.load(folder / "c.parquet")
            base, documents = arbo.read_knowledge_base(kb), arbo.read_documents(files["two.jsonl"])
            found.check(documents, base)
            found.save(folder / "again.parquet")
            again = arbo.Candidates.load(folder / "again.parquet")
            assert np.array_equal(again.entities, found.entities)
            union(again, found.first(1))
    elif kind == "edges":
        model = mutations.changed(_edges(), chance)
        (folder / "edges.json").write_text(json.dumps(model), "utf-8")
        asked(*linked, "--edges", folder / "edges.json")
    else:
        shutil.copytree(others()["work"], folder / "work")
        file = chance.choice(sorted(path for path in (folder / "work").rglob("*") if path.is_file()))
        if file.suffix == ".npy" and chance.random() < 0.6:
            np.save(file, _array(np.load(file), chance))
        else:
            file.write_bytes(mutations.mutated(file.read_bytes(), chance))
        asked("status", folder / "work", "--json")
        told = asked(*linked, "--work", folder / "work", "--workers", 1)
        if isinstance(told, dict):
            right, found = (pq.read_table(run / "links.parquet") for run in (Path(_KEPT.name) / "w", folder / "run"))
            assert found.equals(right), "a damaged part changes the result"


@cache
def _edges() -> dict[str, Any]:
    """Return a small edge model: the first trees of the one for English."""
    from importlib.resources import files

    model = json.loads(files("arbo.edges").joinpath("english.json").read_text("utf-8"))
    for name in ("mentions", "entities"):
        if trees := model.get(name):
            cut = trees["roots"][3]
            trees.update(
                {key: one[:cut] for key, one in trees.items() if isinstance(one, list)}, roots=trees["roots"][:3]
            )
    return dict(model)


CAMPAIGNS = {
    "runs": Campaign(
        _run, "a damaged run whose hashes fit is refused, or used without a traceback", many=60_000, few=15, seconds=120
    ),
    "indexes": Campaign(_index, "a damaged index is refused, or used without a traceback", many=20_000, few=10),
    "files": Campaign(
        _file, "damaged corrections, candidates, models and parts are refused, or used", many=20_000, few=10
    ),
}

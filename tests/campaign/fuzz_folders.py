"""Damaged files: folders whose files were changed, cut or removed, and corrections and models that people write."""

import json
import random
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import model_folders
import mutations
import pyarrow.parquet as pq
import tiny_models
from builders import document, kb_of, sample_edges
from commands import asked

import arbo
from arbo.encoders.index import check_index
from campaign.runner import Campaign

_E1 = arbo.Entity("E1", "marsh fever", ("swamp fever",), "A fever.", ("Disease",), ("9",), ("M:1",))
KB = kb_of(_E1, arbo.Entity("E2", "kelp blight", metadata={"year": 1990}), arbo.Entity("E3", "fever"))
_KEPT = TemporaryDirectory(prefix="arbo-campaign-folders-")


def _corpus() -> arbo.Corpus:
    rows = [document("a", ("marsh fever", ["E1"]), ("zzz", []), "kelp"), document("c", "kelp blight", "zzzz")]
    rows.insert(1, document("b", "marsh fevers", "zzz", ("fever", ["E3", "E1"])))
    texts = [{"id": d.id, "text": d.text, "year": 3, "mentions": [
        {"id": m.id, "spans": [[m.start, m.end]], "type": "X", "note": "n", "entities": m.gold} for m in d.mentions
    ]} for d in rows]  # fmt: skip
    return arbo.Corpus.of(texts)


_CORRECTIONS = [{"mention": "a-0", "entity": "E1", "author": "x"}, {"mention": "b-1", "new": "zed"}]
_CORRECTIONS += [{"same": ["a-1", "b-1"]}, {"different": ["a-0", "b-2"]}]
_CORRECTIONS += [{"document": "c", "spans": [[0, 4]], "add": True, "type": "X"}]


@cache
def originals() -> dict[str, Path]:
    """Make one undamaged run of each kind, and the files that it is made from, once in a process."""
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
        "edges": arbo.Linker(base, config=config, edges=sample_edges()).link(documents),
    }
    for name, run in runs.items():
        run.save(root / name)
    runs["corrected"].save(root / "no texts", texts=False)
    return made | {name: root / name for name in (*runs, "no texts")}


RUNS = ("plain", "corrected", "found", "edges", "no texts")


@cache
def _others() -> dict[str, Path]:
    """Make an index, a model of an encoder and a work folder, once in a process."""
    from arbo.encoders.tower import Tower

    root, files = Path(_KEPT.name), originals()
    base = arbo.formats.read_knowledge_base(files["kb.jsonl"])
    arbo.build_index(base, root / "index")
    model_folders.shared(Tower.load(tiny_models.bert(root / "bert"), device="cpu")).save_pretrained(root / "model")
    linked = asked(*_linked(root / "w"), "--set", f"work={root / 'work'}", "--workers", 1)
    assert not isinstance(linked, (int, arbo.ArboError))
    return {name: root / name for name in ("index", "model", "work")}


def _linked(out: Path) -> tuple[object, ...]:
    files = originals()
    return "link", files["docs.jsonl"], "--kb", files["kb.jsonl"], "--out", out, "--json"


def _damage(folder: Path, names: list[str], chance: random.Random) -> str:
    """Remove one of these files, change it or cut it; return its name."""
    name = chance.choice(sorted(names))
    content, file = (folder / name).read_bytes(), folder / name
    damaged = content
    while damaged == content:
        damaged = mutations.mutated(content, chance)
    if chance.random() < 0.1:
        file.unlink()
    else:
        file.write_bytes(damaged)
    return name


def _load(folder: Path) -> None:
    arbo.Result.load(folder).arrays()


def _folder(kind: str, seed: int, folder: Path) -> None:
    """Damage a file of a folder: an error names it, though a manifest that still fits its format is read."""
    chance, copy, (read, manifest) = random.Random(seed), folder / "copy", _FOLDERS[kind]
    shutil.copytree((originals() | _others())[chance.choice(RUNS) if kind == "run" else kind], copy)
    files = [*json.loads((copy / manifest).read_bytes())["files"], manifest]
    name = _damage(copy, files, chance)
    problem = "nobody says so"
    try:
        read(copy)
    except arbo.DataError as error:
        problem = str(error)
    assert name == manifest or name in problem, f"{name} is damaged: {problem}"


def _file(seed: int, folder: Path) -> None:
    """Damage corrections, an edge model or a work folder, and use them."""
    chance, files = random.Random(seed), originals()
    kind, linked = chance.choice(["corrections", "edges", "work"]), _linked(folder / "run")
    if kind == "corrections":
        file = folder / "corrections.jsonl"
        file.write_bytes(mutations.mutated(files["corrections.jsonl"].read_bytes(), chance))
        if isinstance(asked(*linked, "--corrections", file), dict):
            asked("add", folder / "run", files["docs.jsonl"], "--out", folder / "more", "--json")
            asked("add", "--anew", folder / "run", "--out", folder / "again", "--json")
        asked("review", files["plain"], "--corrections", file, "--json")
    elif kind == "edges":
        (folder / "edges.json").write_text(json.dumps(mutations.changed(_edges(), chance)), "utf-8")
        asked(*linked, "--edges", folder / "edges.json")
    else:
        shutil.copytree(_others()["work"], folder / "work")
        parts = [str(path.relative_to(folder / "work")) for path in (folder / "work").rglob("*") if path.is_file()]
        _damage(folder / "work", parts, chance)
        if isinstance(asked(*linked, "--set", f"work={folder / 'work'}", "--workers", 1), dict):
            right, found = (pq.read_table(run / "links.parquet") for run in (Path(_KEPT.name) / "w", folder / "run"))
            assert found.equals(right), "a damaged part changes the result"


@cache
def _edges() -> dict[str, Any]:
    """Return a small edge model: the first trees of one of the sample."""
    sample_edges().save(file := Path(_KEPT.name) / "edges.json")
    model = json.loads(file.read_text("utf-8"))
    for name in ("mentions", "entities"):
        if trees := model.get(name):
            cut = trees["roots"][3]
            trees |= {key: one[:cut] for key, one in trees.items() if isinstance(one, list)}
            trees["roots"] = trees["roots"][:3]
    return dict(model)


_FOLDERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "run": (_load, "manifest.json"),
    "index": (lambda folder: check_index(arbo.KnowledgeBase.from_index(folder)), "arbo-index.json"),
    "model": (lambda folder: arbo.DualEncoder.from_pretrained(folder, device="cpu"), "arbo.json"),
}
CAMPAIGNS = {
    "runs": Campaign(partial(_folder, "run"), "an error names the damaged file of a run", many=60_000, few=15),
    "indexes": Campaign(partial(_folder, "index"), "an error names the damaged file of an index", many=20_000, few=10),
    "models": Campaign(partial(_folder, "model"), "an error names the damaged file of a model", many=2_000, few=4),
    "files": Campaign(_file, "damaged corrections, models and parts are refused, or used", many=20_000, few=10),
}

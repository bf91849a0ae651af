"""A mention is never lost: what goes into a verb or a writer comes back once, or an error or a note says so."""

import csv
import json
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import histories
import numpy as np

import arbo
from arbo.data.documents import text_of
from arbo.data.gold import Gold
from arbo.formats import GRAPHS, TABLES, WRITERS, read_documents, writer
from arbo.formats.xlsx import read_cells
from arbo.spans.finding import LEFT_OUT
from arbo.spans.model import Pieces
from campaign.runner import Campaign
from clustering import METHODS

LETTERS = [*"aekszASZ01", *"  \n-.ßé中\U0001f9a0\u0301\u200b\ufeff\t|"]
ODD_IDS = ["CON", "nul.x", "a/../b", "../up", "C:\\x", ".h", "a", "A", "é", "e\u0301"]
PLAIN = "ab ceg kmo\n"
NAMES = [*histories.NAMES, "Wilson disease (WD) and WD", "İstanbul", "ﬁsh", "she"]
IDS = ["E1", "E2", "E3", "E9", "MESH:D1", "C0000001"]
_OF = ("she", None, "T"), ("marsh fever", None, "T"), ("kelp blight", None, "U"), ("zzz", "x", ""), ("she", "x", "TU")
KB = [arbo.Entity(f"E{i}", name, domain=own, types=tuple(types)) for i, (name, own, types) in enumerate(_OF)]


def _one(rng: np.random.Generator, among: Any) -> Any:
    return among[rng.integers(len(among))]


def _text(rng: np.random.Generator) -> str:
    if rng.random() < 0.5:
        return "\n".join(_one(rng, NAMES) for _ in range(rng.integers(0, 6)))
    return "".join(_one(rng, LETTERS if rng.random() < 0.7 else PLAIN) for _ in range(rng.integers(0, 30)))


def _spans(rng: np.random.Generator, length: int) -> tuple[tuple[int, int], ...]:
    made = []
    for _ in range(_one(rng, [1, 1, 1, 2, 3])):
        start = int(rng.integers(0, length))
        made.append((start, int(rng.integers(start + 1, min(length, start + 9) + 1))))
    return tuple(made)


def _documents(rng: np.random.Generator, *, odd_ids: bool = False, domains: bool = True) -> list[arbo.Document]:
    """Draw documents; mentions nest, cross, repeat spans, have several ids or chains, and consist of blanks."""
    made, odd = [], rng.permutation(ODD_IDS).tolist()
    for i in range(rng.integers(0, 6)):
        name = f"d{i}" + (_one(rng, ["", " ", "/", "é", ".x", "%", "|", ":"]) if odd_ids else "")
        text, mentions = _text(rng), []
        name = name if name.strip() == name else f"{name}z"
        name = odd[i] if odd_ids and rng.random() < 0.5 else name
        for number in range(rng.integers(0, 6) if text else 0):
            spans = _spans(rng, len(text))
            if mentions and rng.random() < 0.3:
                spans = _one(rng, mentions).spans
            gold = _one(rng, [None, None, (), ("E1",), tuple(rng.choice(IDS, 2, replace=False).tolist())])
            kind = _one(rng, [None, "T", "Disease", "", "a b"])
            chain = _one(rng, [None, None, None, "c1", "c2"])
            id_ = _one(rng, [f"{name}:{number}", f"{name}-{number}é", f"m {name} {number}"])
            where = {"metadata": {"note": number}} if rng.random() < 0.2 else {}
            mentions.append(arbo.Mention(id_, name, spans, text_of(spans, text), kind, gold, cluster=chain, **where))
        made.append(arbo.Document(name, text, tuple(mentions), _one(rng, [None, "x"]) if domains else None))
    return made


def _mentions(documents: Any) -> list[Any]:
    return [mention for one in documents for mention in one.mentions]


def _is_complete(result: arbo.Result, documents: Any) -> None:
    """Each mention has one link, is in one cluster and one row of each table, and is as it was given."""
    given = _mentions(documents)
    assert [link.mention for link in result.links] == given
    clustered = [mention.id for cluster in result.clusters for mention in cluster.mentions]
    assert Counter(clustered) == Counter(mention.id for mention in given)
    assert result.mention_table["mention_id"].to_pylist() == [mention.id for mention in given]
    assert result.link_table["mention_id"].to_pylist() == [mention.id for mention in given]
    assert sum(result.cluster_table["size"].to_pylist()) == len(given)
    table = result.document_table
    assert table["document_id"].to_pylist() == [one.id for one in documents]
    assert table["text"].to_pylist() == [one.text for one in documents]
    for link in result.links:
        assert (link.entity is None) == (link.cluster not in {entity.id for entity in KB})


def _config(rng: np.random.Generator) -> arbo.LinkerConfig:
    options: dict[str, Any] = {"method": _one(rng, METHODS), "k": int(rng.integers(0, 4))}
    options |= {"candidates": int(rng.integers(1, 4)), "per_document": bool(rng.random() < 0.3)}
    if rng.random() < 0.3:
        options |= {"nil_linkage": "average", "nil_threshold": 0.3}
    if rng.random() < 0.3:
        options |= {"entity_threshold": None, "mention_threshold": None}
    return arbo.LinkerConfig(**options)


def _verbs(seed: int, folder: Path) -> None:
    """Link or discover; then add, remove, correct, save and load, and refit."""
    rng = np.random.default_rng(seed)
    documents, discovers = _documents(rng), bool(rng.integers(2))
    kb = None if discovers else arbo.KnowledgeBase(KB)
    encoder = histories.LettersEncoder({}, {}) if rng.random() < 0.7 else arbo.NgramEncoder()
    linker = arbo.Linker(kb, encoder, _config(rng))
    n = int(rng.integers(0, len(documents) + 1))
    result = (linker.discover if discovers else linker.link)(documents[:n])
    _is_complete(result, documents[:n])
    result = linker.add(result, documents[n:])
    _is_complete(result, documents)
    if rng.random() < 0.5:
        result.save(folder / "run")
        result = arbo.Result.load(folder / "run")
        _is_complete(result, documents)
    ids = [mention.id for mention in _mentions(documents)]
    if ids:
        told = [{"mention": _one(rng, ids), "new": "N"}, {"mention": _one(rng, ids), "entity": _one(rng, ["E1", None])}]
        result = linker.add(result, [], told[: rng.integers(1, 3)])
        _is_complete(result, documents)
        gone = {_one(rng, ids)} if rng.random() < 0.5 else {_one(rng, documents).id}
        result = linker.remove(result, gone)
        kept = [(one, tuple(m for m in one.mentions if m.id not in gone)) for one in documents if one.id not in gone]
        documents = [replace(one, mentions=own) for one, own in kept]
        _is_complete(result, documents)
    _is_complete(linker.refit(result), documents)


def _lost(notes: dict[str, int]) -> int:
    """Return how many mentions a writer says to have left out."""
    return sum(n for note, n in notes.items() if "left out" in note and note.split()[0] in ("mentions", "repeated"))


def _check_written(format_: str, path: Path, given: Any, notes: dict[str, int], *, links: bool = False) -> None:
    here = _mentions(given)
    if format_ == "clusters":
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found = Counter(id_ for line in lines for id_ in line["mentions"])
        assert sum(found.values()) == len(here) - _lost(notes)
        assert found.keys() <= {mention.id for mention in here}
        return
    if not given:
        return
    again = read_documents(path, format_)
    back = _mentions(again)
    crossing = sum(n for note, n in notes.items() if "take as nested" in note)
    # Either of two that cross may be read as a third mention of their chain.
    assert 0 <= len(here) - _lost(notes) - len(back) <= 2 * crossing, (len(back), len(here), notes)
    assert len(again) == len(given)
    if format_ == "jsonl":
        assert list(again) == given
    elif format_ == "bioc":
        assert sorted(sorted(m.spans) for m in back) == sorted(sorted(m.spans) for m in here)
    elif not notes and format_ != "conll":
        own = [sorted((m.spans, not links and (m.gold or ())) for m in side) for side in (back, here)]
        assert own[0] == own[1], format_


def _writers(seed: int, folder: Path) -> None:
    """Each writer of documents, on what was given, with its notes."""
    rng = np.random.default_rng(seed)
    documents = _documents(rng, odd_ids=rng.random() < 0.3)
    for format_ in WRITERS:
        if format_ in (*TABLES, *GRAPHS):
            continue
        path = folder / f"out-{format_}"
        with suppress(arbo.DataError):  # an id that the format cannot hold
            notes = {note: n for note, n in writer(format_)(documents, path, {}).items() if n}
            _check_written(format_, path, documents, notes)
    assert {file.name for file in folder.iterdir()} <= {f"out-{format_}" for format_ in WRITERS}
    files = [file.name for path in folder.iterdir() if path.is_dir() for file in path.iterdir()]
    assert len({unicodedata.normalize("NFC", name.casefold()) for name in files}) == len(files), "the same in any case"
    assert not [name for name in files if name.startswith((".", "CON.", "nul."))]


def _exports(seed: int, folder: Path) -> None:
    """Each export of a run, with links or gold ids."""
    rng = np.random.default_rng(seed)
    documents = _documents(rng)
    linker = arbo.Linker(arbo.KnowledgeBase(KB), histories.LettersEncoder({}, {}), _config(rng))
    result = linker.link(documents)
    for to in [name for name in WRITERS if name not in GRAPHS]:
        path, ids = folder / f"out-{to}", _one(rng, ["links", "links", "gold"])
        if ids == "gold" and not any(mention.gold is not None for mention in _mentions(documents)):
            continue  # refused
        notes = result.export(path, to, ids=ids)
        if to == "xlsx":
            (_, names), *rows = read_cells(path, "mention_id")
            assert [row[names.index("mention_id")] for _, row in rows] == [one.id for one in _mentions(documents)]
        elif to in ("csv", "tsv"):
            with path.open(encoding="utf-8-sig", newline="") as stream:
                rows = list(csv.DictReader(stream, delimiter="," if to == "csv" else "\t"))
            assert len(rows) == len(_mentions(documents))
            if to == "tsv":
                assert [row["mention_id"] for row in rows] == [mention.id for mention in _mentions(documents)]
                assert [row["text"] for row in rows] == [mention.text for mention in _mentions(documents)]
        elif ids == "links" and to != "jsonl":
            own = {note: n for note, n in notes.items() if not note.startswith("gold")}
            _check_written(to, path, documents, own, links=True)
        elif to == "jsonl" and documents:
            assert len(_mentions(read_documents(path, "jsonl"))) == len(_mentions(documents))
    frame = result.to_pandas()
    assert list(frame["mention_id"]) == [mention.id for mention in _mentions(documents)]


def _splits(seed: int, folder: Path) -> None:
    """Splits by entity, finding of mentions, frames, types, pieces, candidates and rows."""
    rng = np.random.default_rng(seed)
    documents, kb = _documents(rng), arbo.KnowledgeBase(KB)
    corpus, here = arbo.Corpus.of(documents), _mentions(documents)
    found = arbo.find_mentions(arbo.DictionaryFinder(), documents, kb)
    assert [(one.id, one.text, one.domain) for one in found] == [(one.id, one.text, one.domain) for one in documents]
    assert found.notes.get(LEFT_OUT, 0) == len(here)
    cut = Pieces.of(corpus)
    places = zip(cut.document.tolist(), cut.begin.tolist(), cut.texts, strict=True)
    assert all(corpus[row].text[begin : begin + len(text)] == text for row, begin, text in places)
    home = [row for row, document in enumerate(corpus) for _ in document.mentions]
    gold = list(zip(home, here, Gold.of(corpus, kb).lists, strict=True))
    text, entity = cut.entities(kb)
    pairs = set(zip(cut.document[text].tolist(), entity.tolist(), strict=True))
    assert {(row, one) for row, mention, rows in gold if mention.text.strip() for one in rows} <= pairs
    assert pairs <= {(row, one) for row, _, rows in gold for one in rows}
    kinds = {mention.type for mention in here if mention.type}
    assert sum(len(corpus.of_types({kind}).mentions) for kind in kinds) == sum(bool(m.type) for m in here)
    assert len(arbo.Linker(kb).candidates(documents, k=2).entities) == len(here)


CAMPAIGNS = {
    "verbs": Campaign(_verbs, "each mention comes back once from link, discover, add, remove and refit", 30_000, 2),
    "writers": Campaign(_writers, "each mention is in the file of each writer, or its notes say so", 30_000, 15),
    "exports": Campaign(_exports, "each mention is in each export of a run, or its notes say so", 20_000, 8),
    "splits": Campaign(_splits, "splits, candidates and rows hold what was given", 20_000, 10),
}

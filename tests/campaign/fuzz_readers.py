"""Damaged files of every format: an error that says so, or data that survive each writer and reader."""

import random
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import format_files
import mutations

import arbo
from arbo.data.documents import text_of
from arbo.formats import read_documents, read_knowledge_base, writer
from arbo.kb.problems import figures_of, problems_of
from arbo.kb.saving import save
from campaign.runner import Campaign

Files = Mapping[str, bytes]
"""The content of files by name; the first one is damaged most often."""


def _filled(samples: dict[str, dict[str, str]]) -> dict[str, Files]:
    def files_of(files: dict[str, str]) -> Files:
        return {file: format_files.filled(text).encode() for file, text in files.items()}

    return {name: files_of(files) for name, files in samples.items()}


DOCUMENTS, ENTITIES = _filled(format_files.DOCUMENTS), _filled(format_files.ENTITIES)


@cache
def _binary() -> tuple[dict[str, Files], dict[str, Files]]:
    """Make the files that are no text: tables of Parquet, and documents of spaCy."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import spacy
    from spacy.tokens import DocBin

    with TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        rows: dict[str, Any] = {"document_id": ["d", "d"], "text": ["flu and"] * 2, "start": [0, 4], "end": [3, 7]}
        rows["entity"] = ["D1", None]
        pq.write_table(pa.table(rows), file)
        documents = {"parquet": {"docs.parquet": file.read_bytes()}}
        save(arbo.KnowledgeBase([arbo.Entity("D1", "flu", ("grippe",))]), f := Path(folder) / "kb.parquet")
        entities = {"parquet": {"kb.parquet": f.read_bytes()}}
    doc = spacy.blank("en")("Marsh fever is bad")
    doc.set_ents([doc.char_span(0, 11, "Disease", kb_id="D1")])
    return {**documents, "docbin": {"docs.spacy": DocBin(docs=[doc], store_user_data=True).to_bytes()}}, entities


def written(documents: Iterable[arbo.Document]) -> list[Any]:
    """Return all of documents that JSON lines keep, in a form that distinguishes 1, 1.0 and True."""
    own = ((d, [(m, _keys(m.metadata), m.score) for m in d.mentions]) for d in documents)
    return [repr((d.id, d.text, d.domain, _keys(d.metadata), mentions)) for d, mentions in own]


def _keys(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the `_` that a key like one of arbo's own gets in JSON lines."""
    return {key.rstrip("_"): value for key, value in metadata.items()}


def _seen(documents: Iterable[arbo.Document], *, in_order: bool) -> list[str]:
    """Return texts and mentions; an id that is given twice is one. In BioC, passages order the mentions."""

    def mentions(one: arbo.Document) -> list[str]:
        found = [repr((m.spans, m.type, m.gold and (*dict.fromkeys(m.gold),))) for m in one.mentions]
        return found if in_order else sorted(found)

    return sorted(repr((one.id, one.text, mentions(one))) for one in documents)


def _documents_survive(corpus: arbo.Corpus, folder: Path, chance: random.Random) -> None:
    assert all(m.text == text_of(m.spans, d.text) for d in corpus for m in d.mentions)
    corpus.to_jsonl(folder / "again.jsonl")
    again = read_documents(folder / "again.jsonl", "jsonl")
    assert written(again) == written(corpus), "JSON lines"
    assert again.fingerprint == corpus.fingerprint
    format_ = chance.choice(["bioc", "brat", "pubtator", "conll"])
    try:
        notes = {note: n for note, n in writer(format_)(corpus, folder / "out", {}).items() if n}
    except arbo.ArboError:  # an id that the format cannot hold
        return
    other = read_documents(folder / "out", format_)
    assert len(other) == len(corpus), format_
    if not notes and format_ != "conll":
        in_order = format_ != "bioc"
        assert _seen(other, in_order=in_order) == _seen(corpus, in_order=in_order), format_


def _entities_survive(kb: arbo.KnowledgeBase, folder: Path, chance: random.Random) -> None:
    save(kb, folder / "again.jsonl")
    again = read_knowledge_base(folder / "again.jsonl", "jsonl")
    read, given = ([repr((one, _keys(one.metadata))) for one in side] for side in (again, kb))
    assert read == given, "JSON lines"
    assert again.fingerprint == kb.fingerprint
    ending = chance.choice(["parquet", "tsv"])
    try:
        lost = save(kb, folder / f"again.{ending}")
    except arbo.DataError:
        assert ending == "tsv"
        return
    if not {*lost} - {"further keys"}:
        assert list(read_knowledge_base(folder / f"again.{ending}")) == list(kb), ending
    problems_of(kb), figures_of(kb)


def _case(samples: dict[str, Files], read: Any, survive: Any, seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    name, files = chance.choice(sorted(samples.items()))
    file = chance.choice([next(iter(files)), *files])
    (folder / "in").mkdir()
    for one, content in files.items():
        (folder / "in" / one).parent.mkdir(exist_ok=True)
        (folder / "in" / one).write_bytes(mutations.mutated(content, chance) if one == file else content)
    path = folder / "in" / next(iter(files)) if len(files) == 1 else folder / "in"
    format_ = None if chance.random() < 0.15 else name.split()[0]
    found: dict[str, Any] = {}
    for on_error in ("fail", "skip"):
        try:
            found[on_error] = read(path, format_, on_error=on_error)
        except arbo.ArboError as error:
            told = str(error)
            assert told
    if "fail" in found:
        assert list(found["skip"]) == list(found["fail"]), "what is read without an error needs no skipping"
    if found:
        survive(next(iter(found.values())), folder, chance)


def _documents(seed: int, folder: Path) -> None:
    _case({**DOCUMENTS, **_binary()[0]}, read_documents, _documents_survive, seed, folder)


def _knowledge_bases(seed: int, folder: Path) -> None:
    _case({**ENTITIES, **_binary()[1]}, read_knowledge_base, _entities_survive, seed, folder)


_ASKS = "a damaged file is refused by a clear error, or what was read comes back from every writer"
CAMPAIGNS = {
    "documents": Campaign(_documents, _ASKS, many=200_000, few=200, seconds=60, gigabytes=6),
    "knowledge_bases": Campaign(_knowledge_bases, _ASKS, many=150_000, few=150, seconds=60, gigabytes=6),
}

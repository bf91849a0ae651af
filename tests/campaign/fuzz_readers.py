"""Damaged files of every format: an error that says so, or data that survive each writer and reader."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mutations
import test_readers_bioc
import test_readers_hipe
import test_readers_obo
import test_readers_obographs
import test_readers_pubannotation
import test_readers_skos
import test_readers_umls
import test_readers_zeshel

import arbo
from arbo.formats import read_documents, read_knowledge_base, writer
from campaign.runner import Campaign

Files = Mapping[str, bytes]
"""The content of files by name; the first one is damaged most often."""


def _lines(*lines: object) -> bytes:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()


_ZESHEL = test_readers_zeshel
_DOCUMENT = {
    "id": "d1",
    "text": "Left and right kidney.\nFlu \U0001f98a (WD)",
    "domain": "x",
    "topic": 3,
    "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["A:1", "A:2"], "score": 0.5},
        {"spans": [[23, 26]], "text": "Flu", "entities": [], "cluster": "c", "x": {"y": [1]}},
        {"start": 9, "end": 21},
    ],
}
_ENTITY = {
    "id": "D1",
    "name": "flu",
    "aliases": ["grippe", "a|b"],
    "definition": "A fever.",
    "types": ["Disease"],
    "alternative_ids": ["12"],
    "xrefs": ["M:1"],
    "domain": "x",
    "year": 1990,
}
_CONLL = ("a/b 0 0 The DT (12", "a/b 0 1 mayor NN 12)|(7)", "", "a/b 0 0 He PRP (12)")
_WORDS = ("1_1ecb 0 0 Perry HUM1", "1_1ecb 0 1 left -", "1_1ecb 0 2 rehab LOC1", "", "1_1ecb 3 0 She HUM1")
_PERRY = {"doc_id": "1_1ecb", "sent_id": 0, "tokens_number": [0, 1], "coref_chain": "HUM1", "mention_type": "HUM"}
_HIPE = ("Dr B-pers O Q5 NoSpaceAfter", ". I-pers O Q5 _", "Klee I-pers O Q5 LED0.00", "Wien B-loc O NIL _")
_UMLS = test_readers_umls

DOCUMENTS: dict[str, Files] = {
    "bioc": {"docs.json": json.dumps({"documents": [test_readers_bioc.DOCUMENT]}).encode()},
    "bioc xml": {"docs.xml": test_readers_bioc.XML.encode()},
    "blink": {
        "docs.jsonl": _lines(
            {"context_left": "the painter", "mention": "Klee", "context_right": "died .", "label_id": 3, "world": "w"},
            {"context_left": "", "mention": "flu", "context_right": "", "label_id": "D1", "id": "x"},
        )
    },
    "brat": {
        "d.ann": _lines(
            "T1\tUBERON 0 4;15 21\tLeft kidney", "N1\tReference T1 UBERON:0004538\tleft kidney",
            "#1\tAnnotatorNotes T1\tC0227613", "T2\tMONDO 23 26\tFlu", "A1\tside T1 left",
        ),
        "d.txt": b"Left and right kidney. Flu.\n",
    },
    "conll": {"docs.conll": _lines("#begin document (a/b); part 000", *_CONLL, "#end document")},
    "csv": {
        "docs.csv": _lines(
            "document_id,text,start,end,mention_id,type,entity,year", 'd1,"Flu, and cold",0,3,m1,Disease,D1|D2,1990',
            'd1,"Flu, and cold",9,13,m2,,,', "d2,nothing,,,,,,",
        )
    },
    "ecbplus": {
        "X_corpus.txt": _lines(*(line.replace(" ", "\t") for line in _WORDS)),
        "X_Entity_gold_mentions.json": json.dumps([_PERRY, {**_PERRY, "sent_id": 3, "tokens_number": [0]}]).encode(),
    },
    "gsc": {"docs.tsv": _lines("11", "Renal cysts.", "0\t11\tRenal cysts\tHP:0000107", "6\t11\tcysts\tHP:1")},
    "hipe": {
        "docs.tsv": _lines(
            test_readers_hipe.HEADER, test_readers_hipe.ID, *(line.replace(" ", "\t") for line in _HIPE)
        )
    },
    "jsonl": {"docs.jsonl": _lines(_DOCUMENT, {**_DOCUMENT, "id": "d2", "mentions": []}, {"id": "d3", "text": "flu"})},
    "pubannotation": {"docs.json": json.dumps([test_readers_pubannotation.DOCUMENT]).encode()},
    "pubtator": {
        "docs.txt": _lines(
            "1|t|Flu and cold.", "1|a|Influenza (flu) is not a cold.", "1\t0\t3\tFlu\tDisease\tD1|D2",
            "1\t14\t23\tInfluenza\tDisease\t-1", "1\t8\t12\tcold\tDisease", "", "2|t|x", "2|a|",
        )
    },
    "text": {"docs.txt": "Marsh fever (MF).\n\u00e9\n".encode()},
    "tsv": {"docs.tsv": _lines("document_id\ttext\tstart\tend\tentity", "d\tflu and\t0\t3\tD1", 'e\t"a ""b"""\t\t\t')},
    "zeshel": {
        "mentions/test.json": _lines(
            _ZESHEL.mention(), _ZESHEL.mention("M2", start_index=2, end_index=3, text="Ann Droid")
        ),
        "documents/lego.json": _lines(_ZESHEL.ROBOT, _ZESHEL.PIRATE),
    },
}  # fmt: skip
ENTITIES: dict[str, Files] = {
    "blink": {"kb.jsonl": _lines({"title": "Paul Klee", "text": " Paul Klee was an artist ", "idx": "https://x?curid=3"})},
    "csv": {"kb.csv": _lines("ID;Name;Aliases;Definition;Types", 'D1;"flu; the";a|b;"x ""y""";Disease', "D2;cold;;;")},
    "jsonl": {"kb.jsonl": _lines(_ENTITY, {"id": "D2", "name": "cold"})},
    "medic": {"kb.txt": _lines("D1|12|C3||flu|grippe|influenza", "C4||cold")},
    "obo": {"kb.obo": (test_readers_obo.HEADER + "\n" + test_readers_obo.KIDNEY).encode()},
    "obographs": {"kb.json": json.dumps(test_readers_obographs.GRAPH).encode()},
    "skos": {"kb.ttl": test_readers_skos.TURTLE.encode()},
    "skos xml": {"kb.rdf": test_readers_skos.XML.encode()},
    "tsv": {"kb.tsv": _lines("id\tname\taliases\tdefinition", "D1\tflu\ta|b\tx", "D2\tcold\t\t")},
    "umls": {
        "MRCONSO.RRF": _lines(
            _UMLS.name("C1", "flu", "A1"), _UMLS.name("C1", "grippe", "A2", "S VO N"), _UMLS.name("C2", "cold", "A3")
        ),
        "MRSTY.RRF": _lines(_UMLS.semantic_type("C1", "T047"), _UMLS.semantic_type("C2", "T046")),
        "MRDEF.RRF": _lines(_UMLS.definition("C1", "A1", "A fever.")),
    },
    "zeshel": {"lego.json": _lines(_ZESHEL.ROBOT, _ZESHEL.PIRATE)},
}  # fmt: skip


@cache
def _binary() -> tuple[dict[str, Files], dict[str, Files]]:
    """Make the files that are no text: tables of Parquet, and documents of spaCy."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import spacy
    from spacy.tokens import DocBin

    with TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        rows = {
            "document_id": ["d", "d"],
            "text": ["flu and"] * 2,
            "start": [0, 4],
            "end": [3, 7],
            "entity": ["D1", None],
        }
        pq.write_table(pa.table(rows), file)
        documents = {"parquet": {"docs.parquet": file.read_bytes()}}
        arbo.KnowledgeBase([arbo.Entity("D1", "flu", ("grippe",))]).save(f := Path(folder) / "kb.parquet")
        entities = {"parquet": {"kb.parquet": f.read_bytes()}}
    doc = spacy.blank("en")("Marsh fever is bad")
    doc.set_ents([doc.char_span(0, 11, "Disease", kb_id="D1")])
    return {**documents, "docbin": {"docs.spacy": DocBin(docs=[doc], store_user_data=True).to_bytes()}}, entities


def written(documents: Iterable[arbo.Document]) -> list[Any]:
    """Return all of documents that JSON lines keep, in a form that distinguishes 1, 1.0 and True."""
    return [
        repr((d.id, d.text, d.domain, _keys(d.metadata), [(m, _keys(m.metadata), m.score) for m in d.mentions]))
        for d in documents
    ]


def _keys(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the `_` that a key like one of arbo's own gets in JSON lines."""
    return {key.rstrip("_"): value for key, value in metadata.items()}


def _seen(documents: Iterable[arbo.Document], *, in_order: bool) -> list[str]:
    """Return texts and mentions; an id that is given twice is one. In BioC, passages order the mentions."""
    mentions = {
        d.id: [repr((m.spans, m.type, m.gold and (*dict.fromkeys(m.gold),))) for m in d.mentions] for d in documents
    }
    return sorted(repr((d.id, d.text, mentions[d.id] if in_order else sorted(mentions[d.id]))) for d in documents)


def _documents_survive(corpus: arbo.Corpus, folder: Path, chance: random.Random) -> None:
    assert all(m.text == arbo_text(m, d) for d in corpus for m in d.mentions)
    corpus.to_jsonl(folder / "again.jsonl")
    again = read_documents(folder / "again.jsonl", "jsonl")
    assert written(again) == written(corpus), "JSON lines"
    assert again.fingerprint == corpus.fingerprint
    format_ = chance.choice(["bioc", "brat", "pubannotation", "pubtator", "conll"])
    try:
        notes = {note: n for note, n in writer(format_)(corpus, folder / "out", {}).items() if n}
    except arbo.ArboError:  # an id that the format cannot hold
        return
    other = read_documents(folder / "out", format_)
    assert len(other) == len(corpus), format_
    if not notes and format_ != "conll":
        in_order = format_ != "bioc"
        assert _seen(other, in_order=in_order) == _seen(corpus, in_order=in_order), format_


def arbo_text(mention: arbo.Mention, document: arbo.Document) -> str:
    """Return the text at the spans of a mention."""
    from arbo.data.documents import text_of

    return text_of(mention.spans, document.text)


def _entities_survive(kb: arbo.KnowledgeBase, folder: Path, chance: random.Random) -> None:
    kb.save(folder / "again.jsonl")
    again = read_knowledge_base(folder / "again.jsonl", "jsonl")
    read, given = ([repr((one, _keys(one.metadata))) for one in side] for side in (again, kb))
    assert read == given, "JSON lines"
    assert again.fingerprint == kb.fingerprint
    ending = chance.choice(["parquet", "tsv"])
    try:
        lost = kb.save(folder / f"again.{ending}")
    except arbo.DataError:
        assert ending == "tsv"
        return
    if not {*lost} - {"further keys"}:
        assert list(read_knowledge_base(folder / f"again.{ending}")) == list(kb), ending
    kb.problems(), kb.stats()


def _case(
    samples: Callable[[], dict[str, Files]],
    read: Callable[..., Any],
    survive: Callable[..., None],
    seed: int,
    folder: Path,
) -> None:
    chance = random.Random(seed)
    name, files = chance.choice(sorted(samples().items()))
    file = chance.choice([next(iter(files)), *files])
    (folder / "in").mkdir()
    for one, content in files.items():
        (folder / "in" / one).parent.mkdir(exist_ok=True)
        (folder / "in" / one).write_bytes(mutations.mutated(content, chance) if one == file else content)
    path = folder / "in" / next(iter(files)) if len(files) == 1 or name == "zeshel" else folder / "in"
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
    _case(lambda: {**DOCUMENTS, **_binary()[0]}, read_documents, _documents_survive, seed, folder)


def _knowledge_bases(seed: int, folder: Path) -> None:
    _case(lambda: {**ENTITIES, **_binary()[1]}, read_knowledge_base, _entities_survive, seed, folder)


_ASKS = "a damaged file is refused by a clear error, or what was read comes back from every writer"
CAMPAIGNS = {
    "documents": Campaign(_documents, _ASKS, many=200_000, few=200, seconds=60, gigabytes=6),
    "knowledge_bases": Campaign(_knowledge_bases, _ASKS, many=150_000, few=150, seconds=60, gigabytes=6),
}

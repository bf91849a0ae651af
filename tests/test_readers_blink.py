from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.formats.blink import read_blink, read_blink_entities
from arbo.formats.zeshel import read_zeshel_entities

Write = Callable[..., Path]


def mention(**changes: Any) -> dict[str, Any]:
    record = {"context_left": "the painter", "mention": "Klee", "context_right": "died .", "label_id": 34398}
    return {key: value for key, value in {**record, **changes}.items() if value != "absent"}


def entity(**changes: Any) -> dict[str, Any]:
    record = {
        "title": "Paul Klee",
        "text": " Paul Klee was an artist ",
        "idx": "https://en.wikipedia.org/wiki?curid=34398",
    }
    return {key: value for key, value in {**record, **changes}.items() if value != "absent"}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*records: object, name: str = "test.jsonl") -> Path:
        return save_lines(tmp_path / name, *records)

    return write


# Mentions


def test_each_line_is_a_document(write: Write) -> None:
    corpus = read_blink(write(mention(), "", mention(context_left="", label="Paul Klee was", label_title="Paul Klee")))
    assert [(d.id, d.text, d.domain) for d in corpus] == [
        ("test:1", "the painter Klee died .", None),
        ("test:3", "Klee died .", None),
    ]
    assert [(m.id, m.spans, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("test:1:12-16", ((12, 16),), "Klee", None, ("34398",)),
        ("test:3:0-4", ((0, 4),), "Klee", None, ("34398",)),
    ]


@pytest.mark.parametrize(
    ("left", "name", "right", "text"),
    [
        ("a", "b", "c", "a b c"),
        ("a ", "b", " c", "a b c"),
        ("a\n", "b", "\u2003c", "a\nb\u2003c"),
        ("a", " b ", "c", "a b c"),
        ("", "b", "", "b"),
        ("(", "b", ")", "( b )"),
    ],
)
def test_a_blank_is_put_where_pieces_would_touch(write: Write, left: str, name: str, right: str, text: str) -> None:
    document = read_blink(write(mention(context_left=left, mention=name, context_right=right)))[0]
    assert document.text == text
    assert document.mentions[0].text == name


@pytest.mark.parametrize(
    ("label", "world", "gold"),
    [
        (0, "absent", ("0",)),
        ("Q7", "absent", ("Q7",)),
        ("E0690454", "lego", ("E0690454",)),
        (12, "lego", ("lego/12",)),
        (12, None, ("12",)),
        (-1, "lego", None),
        ("-1", "absent", None),
        ("", "absent", None),
        (None, "absent", None),
        ("absent", "absent", None),
    ],
)
def test_labels_are_gold(write: Write, label: object, world: str | None, gold: tuple[str, ...] | None) -> None:
    document = read_blink(write(mention(label_id=label, world=world)))[0]
    assert document.mentions[0].gold == gold
    assert document.domain == (None if world == "absent" else world)


def test_given_ids_name_documents(write: Write, tmp_path: Path) -> None:
    given = ({"id": 7, "query_id": "EL1"}, {"mention_id": "M", "id": None, "query_id": "EL2"}, {"query_id": "EL3"}, {})
    path = write(*(mention(**ids) for ids in given), name="AIDA.testa.jsonl")
    ids = ["7", "M", "EL3", "AIDA.testa:4"]
    assert [document.id for document in read_blink(path)] == ids
    zipped = tmp_path / "AIDA.testa.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert [document.id for document in read_blink(zipped)] == ids


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (mention(mention=" "), "'test:2': the mention is empty"),
        (mention(context_right="absent", id="x"), "'x': a mention needs the key 'context_right'"),
        (mention(context_left=None), "'context_left' of a mention must be a string"),
        (mention(label_id=True), "'label_id' of a mention must be a string or a whole number, not true"),
        (mention(label_id=1.5), "not 1.5"),
        (mention(id=["x"]), "'id' of a mention must be a string or a whole number"),
        (mention(id=""), "the mention id is empty|the document id is empty"),
        (mention(id="a", context_left="other"), r"'a': this id is already taken, with different content \(.*line 1\)"),
        (mention(context_left="a\0b"), "NUL"),
        (mention(mention="\udc00"), "a surrogate"),
        ("7", "a mention must be a JSON object, not a number"),
        ('{"mention": "x"', "not JSON"),
        ('{"mention": "x", "mention": "y"}', "the key 'mention' occurs twice"),
    ],
)
def test_a_malformed_mention_fails_by_place_or_is_skipped(write: Write, record: object, problem: str) -> None:
    path = write(mention(id="a"), record, mention(id="b"))
    with pytest.raises(DataError, match=problem) as caught:
        read_blink(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    corpus = read_blink(path, on_error="skip")
    assert [document.id for document in corpus] == ["a", "b"]
    assert corpus.notes == {"malformed documents skipped": 1}


# Entities


def test_entities_of_wikipedia_are_named_by_page(write: Write) -> None:
    kb = read_blink_entities(write(entity(entity="Paul Klee"), entity(title="Muralto", idx=" 12 ", text="absent")))
    assert [(e.id, e.name, e.definition, e.alternative_ids, e.domain) for e in kb] == [
        ("34398", "Paul Klee", "Paul Klee was an artist", (), None),
        ("12", "Muralto", None, (), None),
    ]


def test_an_entity_answers_to_all_of_its_ids(write: Write) -> None:
    kb = read_blink_entities(write(entity(kb_idx="E12", entity_id=7, id=None, document_id="P1", world="lego")))
    assert (kb.entities[0].id, kb.entities[0].alternative_ids, kb.entities[0].domain) == (
        "34398",
        ("P1", "7", "E12"),
        "lego",
    )


def test_entities_without_an_id_are_named_by_line(write: Write) -> None:
    kb = read_blink_entities(write(entity(idx="absent"), entity(idx=None, world="lego"), entity(idx="absent")))
    assert [e.id for e in kb] == ["0", "lego/1", "2"]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (entity(title="absent"), "an entity needs the key 'title'"),
        (entity(title=" "), "the entity's name is empty"),
        (entity(idx=1.5), "'idx' of an entity must be a string or a whole number, not 1.5"),
        (entity(idx="curid="), "the entity id is empty"),
        (entity(text=7), "'text' of an entity must be a string"),
        (entity(text="other"), "'34398': this id is already taken"),
    ],
)
def test_a_malformed_entity_fails_by_place_or_is_skipped(write: Write, record: object, problem: str) -> None:
    path = write(entity(), record, entity())
    with pytest.raises(DataError, match=problem) as caught:
        read_blink_entities(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    kb = read_blink_entities(path, on_error="skip")
    assert kb.notes == {"malformed entities skipped": 1, "duplicate entities dropped": 1}


def test_labels_of_worlds_are_lines_of_zeshel(write: Write) -> None:
    """BLINK's form of ZeShEL numbers the pages of each world from 0."""
    for world in ("lego", "yugioh"):
        pages = ({"document_id": f"{world}{i}", "title": "x", "text": "x"} for i in range(3))
        folder = write(*pages, name=f"{world}.json").parent
    corpus: Corpus = read_blink(write(mention(label_id=2, world="lego"), mention(label_id=0, world="yugioh")))
    kb: KnowledgeBase = read_zeshel_entities(folder)
    assert [kb[m.gold[0]].id for m in corpus.mentions if m.gold] == ["lego2", "yugioh0"]


@pytest.mark.parametrize("read", [read_blink, read_blink_entities])
def test_a_damaged_file_is_never_skipped(read: Callable[..., object], tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl.gz"
    for content, problem in (
        (gzip.compress(json.dumps(entity()).encode() * 99, mtime=0)[:-20], "is truncated"),
        (gzip.compress(b"\xff", mtime=0), "line 1: not UTF-8"),
        (gzip.compress(b"{\0}", mtime=0), "character 2 of the line is NUL"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=problem):
            read(path, on_error="skip")

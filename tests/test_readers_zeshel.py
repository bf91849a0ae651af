from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines

import arbo
from arbo.data.corpus import Corpus
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.formats.zeshel import read_zeshel, read_zeshel_entities

Write = Callable[..., Path]

ROBOT = {"document_id": "P1", "title": "Ann Droid", "text": "Ann Droid Ann Droid is a robot . She likes robots"}
PIRATE = {"document_id": "P2", "title": "Pirate", "text": "Pirate A pirate  sails ."}
CARD = {"document_id": "P3", "title": "Card", "text": "Card A card ."}


def mention(id_: str = "M1", **changes: Any) -> dict[str, Any]:
    record = {
        "mention_id": id_, "context_document_id": "P1", "corpus": "lego", "start_index": 6, "end_index": 6,
        "text": "robot", "label_document_id": "P2", "category": "LOW_OVERLAP",
    }  # fmt: skip
    return {key: value for key, value in {**record, **changes}.items() if value != "absent"}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write two worlds and a file of mentions, and return its path."""

    def write(*mentions: object, lego: tuple[object, ...] = (ROBOT, PIRATE), name: str = "test.json") -> Path:
        for folder, file, records in (
            ("documents", "lego.json", lego),
            ("documents", "yugioh.json", (CARD,)),
            ("mentions", name, mentions),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            save_lines(tmp_path / folder / file, *records)
        return tmp_path / "mentions" / name

    return write


# Documents


def test_token_indices_become_spans(write: Write) -> None:
    corpus = read_zeshel(
        write(
            mention("M1"),
            mention("M2", start_index=2, end_index=3, text="Ann Droid", label_document_id="P1"),
            "",
            mention("M3", corpus="yugioh", context_document_id="P3", start_index=2, end_index=2, text="card"),
            mention("M4", start_index=10, end_index=10, text="robots", label_document_id=None, category=None),
            mention("M5", start_index=0, end_index=0, text="Ann", label_document_id="absent", category="absent"),
        )
    )
    assert [(d.id, d.text, d.domain) for d in corpus] == [
        ("P1", ROBOT["text"], "lego"),
        ("P3", CARD["text"], "yugioh"),
    ]
    assert [(m.id, m.spans, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("M1", ((25, 30),), "robot", "LOW_OVERLAP", ("P2",)),
        ("M2", ((10, 19),), "Ann Droid", "LOW_OVERLAP", ("P1",)),
        ("M4", ((43, 49),), "robots", None, None),
        ("M5", ((0, 3),), "Ann", None, None),
        ("M3", ((7, 11),), "card", "LOW_OVERLAP", ("P2",)),
    ]
    assert corpus.notes == {}


def test_tokens_are_what_python_splits(write: Write) -> None:
    text = "\u00a0a\u2003b\u0085c\x1cd \u200b e\u3000"
    page = {"document_id": "P1", "title": "a", "text": text}
    for place, token in enumerate(text.split()):
        corpus = read_zeshel(write(mention(start_index=place, end_index=place, text=token), lego=(page,)))
        assert corpus.mentions[0].text == token


def test_tokens_win_over_the_text_where_white_space_differs(write: Write) -> None:
    corpus = read_zeshel(
        write(
            mention("M1", context_document_id="P2", start_index=2, end_index=3, text="pirate sails"),
            mention("M2", context_document_id="P2", start_index=2, end_index=3, text="pirate  sails"),
        )
    )
    assert [m.text for m in corpus.mentions] == ["pirate  sails"] * 2
    assert corpus.notes == {"mention texts that differ from their words in white space": 1}


def test_a_folder_holds_splits_and_zipped_files(write: Write) -> None:
    write(mention("M1"), name="train.json")
    write(mention("M2", start_index=0, end_index=0, text="Ann"), name="heldout_train_seen.json.gz")
    corpus = read_zeshel(write(mention("M1")).parent)
    assert [m.id for m in corpus[0].mentions] == ["M2", "M1"]
    assert corpus.notes == {"duplicate mentions dropped": 1}


def test_a_zipped_world_is_found(write: Write, tmp_path: Path) -> None:
    path = write(mention())
    plain = tmp_path / "documents" / "lego.json"
    (tmp_path / "documents" / "lego.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert read_zeshel(path).mentions[0].text == "robot"
    assert read_zeshel_entities(tmp_path / "documents")["P1"].domain == "lego"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"start_index": 11, "end_index": 11},
            r"'M2': words 11 to 11 do not fulfil .* end_index < 11, the number of words of document 'P1'",
        ),
        ({"start_index": 9, "end_index": 11}, "words 9 to 11 do not fulfil"),
        ({"start_index": 7}, "words 7 to 6 do not fulfil"),
        ({"start_index": -1}, "words -1 to 6 do not fulfil"),
        ({"text": "Robot"}, "the text of the mention differs from words 6 to 6 of its document"),
        ({"start_index": 6.0}, "'M2': 'start_index' of a mention must be a whole number, not 6.0"),
        ({"end_index": True}, "'end_index' of a mention must be a whole number, not true"),
        ({"start_index": "absent"}, "'M2': a mention needs the key 'start_index'"),
        ({"label_document_id": 7}, "'label_document_id' of a mention must be a string"),
        ({"mention_id": ""}, "the mention id is empty"),
        ({"text": "ro\0bot"}, "the text of the mention differs from words"),
        ({"category": "\ud800"}, "the type of the mention has a surrogate"),
    ],
)
def test_a_malformed_mention_fails_by_place_or_is_skipped(
    write: Write, changes: dict[str, Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(mention("M1"), mention("M2", **changes), mention("M3", start_index=0, end_index=0, text="Ann"))
    with pytest.raises(DataError, match=problem) as caught:
        read_zeshel(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    with caplog.at_level(logging.WARNING):
        corpus = read_zeshel(path, on_error="skip")
    assert [m.id for m in corpus.mentions] == ["M1", "M3"]
    assert corpus.notes == {"malformed mentions skipped": 1}
    assert "likes" not in caplog.text


def test_a_second_mention_of_one_id_must_be_equal(write: Write) -> None:
    with pytest.raises(DataError, match=r"line 2, 'M1': this id is already taken, with different content \(.*line 1"):
        read_zeshel(write(mention("M1"), mention("M1", label_document_id="P1")))
    corpus = read_zeshel(write(mention("M1"), mention("M1")))
    assert len(corpus.mentions) == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"corpus": "muppets"}, r"'M2': .*documents has no file for the world 'muppets'"),
        ({"corpus": "../mentions/test"}, r"has no file for the world '../mentions/test'"),
        ({"corpus": "yugioh"}, r"'M2': .*yugioh\.json has no document 'P1'"),
        ({"context_document_id": "P9"}, r"lego\.json has no document 'P9'"),
    ],
)
def test_a_document_that_is_not_there(write: Write, changes: dict[str, Any], problem: str) -> None:
    path = write(mention("M1"), mention("M2", **changes))
    with pytest.raises(DataError, match=problem) as caught:
        read_zeshel(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    corpus = read_zeshel(path, on_error="skip")
    assert [m.id for m in corpus.mentions] == ["M1"]
    assert corpus.notes == {"malformed documents skipped": 1}


def test_the_folder_of_documents_stands_beside_that_of_mentions(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "test.json").write_text(json.dumps(mention()))
    with pytest.raises(DataError, match="documents: the folder of the texts is missing; put it beside"):
        read_zeshel(tmp_path / "m" / "test.json")


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ({**ROBOT, "text": "other"}, "'P1': two different documents have this id"),
        ({"document_id": "P9", "title": "x"}, "'P9': a document needs the key 'text'"),
        ("[1]", "a document must be a JSON object, not this list"),
        ('{"document_id": "P9"', "not JSON"),
    ],
)
def test_a_malformed_page_fails_by_place_or_is_skipped(write: Write, page: object, problem: str) -> None:
    path = write(mention(), lego=(ROBOT, page, ROBOT))
    with pytest.raises(DataError, match=f"lego.json, line 2.*{problem}"):
        read_zeshel(path)
    corpus = read_zeshel(path, on_error="skip")
    assert [m.text for m in corpus.mentions] == ["robot"]
    assert corpus.notes == {"malformed documents skipped": 1}


# Entities


def test_pages_are_entities(write: Write) -> None:
    kb = read_zeshel_entities(write().parent.parent / "documents")
    assert [(e.id, e.name, e.definition, e.domain) for e in kb] == [
        ("P1", "Ann Droid", "Ann Droid is a robot . She likes robots", "lego"),
        ("P2", "Pirate", "A pirate  sails .", "lego"),
        ("P3", "Card", "A card .", "yugioh"),
    ]
    assert [kb[name].id for name in ("lego/0", "lego/1", "yugioh/0")] == ["P1", "P2", "P3"]
    assert len(read_zeshel_entities(write().parent.parent / "documents" / "yugioh.json")) == 1


@pytest.mark.parametrize(
    ("title", "text", "definition"),
    [
        ("Klee", "Klee Klee was", "Klee was"),
        ("C.W. Jessen", "C . W . Jessen was born", "was born"),
        ("Klee", "Kleenex is", "Kleenex is"),
        ("Klee Foot", "Klee", "Klee"),
        ("Klee", "Klee", None),
        ("Klee", "  Klee\n", None),
        ("Klee", "", None),
        ("Klee", "The painter Klee", "The painter Klee"),
    ],
)
def test_a_definition_is_what_follows_the_title(write: Write, title: str, text: str, definition: str | None) -> None:
    page = {"document_id": "P1", "title": title, "text": text}
    assert read_zeshel_entities(write(lego=(page,)).parent.parent / "documents")["P1"].definition == definition


def test_malformed_entities(write: Write) -> None:
    folder = write(lego=(ROBOT, {**PIRATE, "title": " "}, {**ROBOT, "title": "Ann"}, ROBOT)).parent.parent / "documents"
    with pytest.raises(DataError, match=r"lego\.json, line 2, 'P2': the entity's name is empty"):
        read_zeshel_entities(folder)
    kb = read_zeshel_entities(folder, on_error="skip")
    assert [e.id for e in kb] == ["P1", "P3"]
    # The same page further down is another line, and so another number.
    assert kb.notes == {"malformed entities skipped": 3}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(json.dumps(ROBOT).encode() * 99, mtime=0)[:-20], "the compressed file is truncated"),
        (gzip.compress(b'{"document_id": "P1", "title": "\xff', mtime=0), "line 1: not UTF-8"),
        (gzip.compress(b'{"document_id": "P1\0', mtime=0), "line 1: character"),
        (b"\x1f\x8bplain text", "the gzip file or archive is damaged"),
    ],
)
def test_a_damaged_file_is_never_skipped(write: Write, content: bytes, problem: str) -> None:
    path = write(mention())
    world = path.parent.parent / "documents" / "lego.json"
    world.unlink()
    world.with_name("lego.json.gz").write_bytes(content)
    for read in (read_zeshel_entities, lambda _, **options: read_zeshel(path, **options)):
        with pytest.raises(DataError, match=problem):
            read(world.parent, on_error="skip")  # type: ignore[operator]


def test_links_stay_in_the_world_and_labels_outside_of_it_are_nil(write: Write) -> None:
    """Each world has a robot of its own; one label is of no entity."""
    robot = {"document_id": "P4", "title": "robot", "text": "robot A robot ."}
    other = {**CARD, "text": "Card A robot card ."}
    path = write(mention("M1", label_document_id="P4"), mention("M2", start_index=0, end_index=1, text="Ann Droid"),
                 lego=(ROBOT, robot))  # fmt: skip
    (path.parent.parent / "documents" / "yugioh.json").write_text(json.dumps(other))
    path.write_text(
        path.read_text()
        + json.dumps(mention("M3", corpus="yugioh", context_document_id="P3", start_index=2, end_index=2))
        + "\n"
    )
    corpus: Corpus = arbo.read_documents(path, "zeshel")
    kb: KnowledgeBase = read_zeshel_entities(path.parent.parent / "documents")
    result = arbo.Linker(kb).link(corpus)
    assert {link.mention.id: link.entity for link in result.links} == {"M1": "P4", "M2": "P1", "M3": None}
    assert result.links[2].candidates[0][0] == "P3"
    golds = dict(
        zip(*(result.mention_table[name].to_pylist() for name in ("mention_id", "gold_entities")), strict=True)
    )
    assert golds == {"M1": ["P4"], "M2": [], "M3": []}

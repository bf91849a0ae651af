from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from builders import drawn_documents, save_lines
from hypothesis import given

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.formats.jsonl import read_entities, read_jsonl

DOCUMENT = {
    "id": "d1",
    "text": "Left and right kidney.",
    "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["U1", "U2"]},
        {"spans": [[9, 21]], "entities": []},
        {"spans": [[9, 21]], "type": None, "entities": None, "id": None},
    ],
}
ENTITY = {"id": "D1", "name": "flu"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write lines, or objects as lines, to a JSONL file."""
    return partial(save_lines, tmp_path / "data.jsonl")


def test_a_document_with_all_its_fields(write: Callable[..., Path]) -> None:
    corpus = read_jsonl(write(DOCUMENT))
    first, second, third = corpus.mentions
    assert first == Mention("m1", "d1", ((0, 4), (15, 21)), "Left kidney", "Organ", ("U1", "U2"))
    assert second == Mention("d1:9-21", "d1", ((9, 21),), "right kidney", None, ())
    assert third == Mention("d1:9-21#2", "d1", ((9, 21),), "right kidney", None, None)
    assert corpus.notes == {}


def test_mentions_may_be_absent_and_lines_blank(write: Callable[..., Path]) -> None:
    corpus = read_jsonl(write("\ufeff" + json.dumps({"id": "a", "text": ""}), "", {"id": "b", "text": " \n"}))
    assert [(d.id, d.text, d.mentions) for d in corpus] == [("a", "", ()), ("b", " \n", ())]


def test_strings_keep_their_line_ends_and_separators(write: Callable[..., Path]) -> None:
    text = "a\r\nb\u2028c\x85\U0001f600 e\u0301 flu"
    record = {"id": "d", "text": text, "mentions": [{"spans": [[len(text) - 3, len(text)]]}]}
    for line in (json.dumps(record), json.dumps(record, ensure_ascii=False)):
        document = read_jsonl(write(line, end="\r\n"))[0]
        assert document.text == text
        assert document.mentions[0].text == "flu"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON: .* at character 2; write each object on one line"),
        ('{"id": "x"} {"id": "y"}', "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 10_000 + "}", "a number with thousands of digits"),
        ("[]", "a document must be a JSON object, not this list"),
        ("null", "a document must be a JSON object, not null"),
        ('{"id": "x", "id": "y", "text": ""}', "the key 'id' occurs twice"),
        ({"id": "x"}, "'x': a document needs the key 'text'"),
        ({"text": "x"}, "a document needs the key 'id'"),
        ('{"id": "x", "text": "", "by": "\\udfff"}', r"'x': the metadata has a surrogate \(U\+DFFF\)"),
        ('{"id": "x", "text": "", "by": ' + "[" * 5_000 + "]" * 5_000 + "}", "nested too deeply"),
        ({"id": 7, "text": ""}, r"'id' of a document must be a string \(in quotes\), not a number"),
        ({"id": "x", "text": None}, "'x': 'text' of a document must be a string .*, not null"),
        ({"id": "x", "text": "", "mentions": {}}, "'mentions' of a document must be a list, not an object"),
        ({"id": "", "text": ""}, "document id is empty"),
        ('{"id": "x", "text": "\\ud800"}', r"'x': the text of the document has a surrogate \(U\+D800\)"),
        ('{"id": "x", "text": "a\\u0000"}', "'x': the text of the document has a NUL at character 1"),
    ],
)
def test_a_malformed_document_fails_by_place_or_is_skipped(
    write: Callable[..., Path], line: object, problem: str
) -> None:
    path = write(DOCUMENT, line, {"id": "d2", "text": ""})
    with pytest.raises(DataError, match=problem) as caught:
        read_jsonl(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    corpus = read_jsonl(path, on_error="skip")
    assert [document.id for document in corpus] == ["d1", "d2"]
    assert corpus.notes == {"malformed documents skipped": 1}


@pytest.mark.parametrize(
    ("mention", "problem"),
    [
        (5, "'x': a mention must be a JSON object, not a number"),
        ({}, "'x': a mention needs the key 'spans'"),
        ({"id": "m"}, "'m': a mention needs the key 'spans'"),
        ({"start": 0, "end": 3}, "a mention needs the key 'spans'"),
        (
            {"id": "m", "spans": [[1, 3]], "text": "flu"},
            "'m': the text of the mention is 'flu', but the text at 1 to 3 is 'lu'; "
            "the mention's text was found at 0 to 3; correct",
        ),
        ({"spans": [[0, 3]], "text": 5}, "'text' of a mention must be a string"),
        ({"spans": [0, 1]}, r"'spans' of a mention must be a list of pairs \[start, end\], not this list"),
        ({"spans": []}, "one or more spans"),
        ({"spans": [[0]]}, "pair of integers"),
        ({"spans": [[0, 1.0]]}, "pair of integers"),
        ({"spans": [[False, True]]}, "pair of integers"),
        ({"spans": [["0", "1"]]}, "pair of integers"),
        ({"spans": [[1, 1]]}, "span 1 to 1 is empty"),
        ({"spans": [[-1, 1]]}, "begins before the document"),
        ({"spans": [[0, 4]]}, "'x:0-4': a span ends at 4, but document 'x' has 3 characters"),
        (
            {"spans": [[0, 3]], "entities": "D1"},
            "'entities' of a mention must be a list of strings, not a str",
        ),
        ({"spans": [[0, 3]], "entities": [1]}, "'entities' of a mention must be a list of strings"),
        ({"spans": [[0, 3]], "entities": [""]}, "an item of the gold ids is empty"),
        ({"spans": [[0, 3]], "type": ["D"]}, "'type' of a mention must be a string"),
        ({"id": "", "spans": [[0, 3]]}, "mention id is empty"),
    ],
)
def test_a_malformed_mention_fails_by_place(write: Callable[..., Path], mention: object, problem: str) -> None:
    path = write(DOCUMENT, {"id": "x", "text": "flu", "mentions": [mention]})
    with pytest.raises(DataError, match=problem) as caught:
        read_jsonl(path)
    assert caught.value.line == 2


def test_duplicate_documents_are_dropped_if_equal_and_refused_if_not(write: Callable[..., Path]) -> None:
    assert read_jsonl(write(DOCUMENT, DOCUMENT)).notes == {"duplicate documents dropped": 1}
    with pytest.raises(DataError, match=r"line 2, 'd1': .* different content \(.*data\.jsonl, line 1\)"):
        read_jsonl(write(DOCUMENT, {"id": "d1", "text": ""}))


def test_further_keys_are_kept_and_written_again(write: Callable[..., Path], tmp_path: Path) -> None:
    mention = {"spans": [[0, 3]], "text": "flu", "by": {"name": "Ann", "sure": True}}
    path = write({"id": "d", "text": "flu", "title": "Ü", "metadata": [1], "mentions": [mention]})
    read_jsonl(path).to_jsonl(tmp_path / "again.jsonl")
    for corpus in (read_jsonl(path), read_jsonl(tmp_path / "again.jsonl")):
        assert corpus[0].metadata == {"title": "Ü", "metadata": [1]}
        assert corpus.mentions[0].metadata == {"by": {"name": "Ann", "sure": True}}
    kb = read_entities(write({"id": "D1", "name": "flu", "parents": ["D0"]}))
    kb.to_jsonl(tmp_path / "kb.jsonl")
    assert read_entities(tmp_path / "kb.jsonl")["D1"].metadata == {"parents": ["D0"]}
    assert kb.fingerprint == KnowledgeBase([Entity("D1", "flu")]).fingerprint
    assert hash(kb["D1"]) == hash(Entity("D1", "flu"))


def test_a_mention_id_of_another_document_is_refused(write: Callable[..., Path]) -> None:
    one = {"id": "m", "spans": [[0, 1]]}
    with pytest.raises(DataError, match="'m': documents 'a' and 'b' both have a mention with this id"):
        read_jsonl(write(*({"id": name, "text": "x", "mentions": [one]} for name in "ab")))


def test_a_large_document_is_read_and_written(write: Callable[..., Path], tmp_path: Path) -> None:
    mentions = [{"spans": [[i, i + 5]]} for i in range(0, 60_000, 6)]
    corpus = read_jsonl(write({"id": "d", "text": "grand " * 1_700_000, "mentions": mentions}))
    assert len(corpus.mentions) == 10_000
    Corpus.of(corpus).to_jsonl(tmp_path / "again.jsonl.gz")
    assert read_jsonl(tmp_path / "again.jsonl.gz") == corpus


def test_an_unknown_way_with_errors_is_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="on_error must be 'fail' or 'skip', not 'ignore'"):
        read_jsonl(write(DOCUMENT), on_error="ignore")  # type: ignore[arg-type]


@given(drawn_documents())
def test_documents_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, written: tuple[Document, ...]
) -> None:
    path = tmp_path_factory.mktemp("docs") / "docs.jsonl"
    Corpus.of(written).to_jsonl(path)
    assert read_jsonl(path) == Corpus(written)


def test_an_entity_with_all_its_fields(write: Callable[..., Path], tmp_path: Path) -> None:
    record = {
        **ENTITY,
        "aliases": ["grippe", ""],
        "definition": "A viral disease.",
        "types": ["Disease"],
        "alternative_ids": ["MESH:D1"],
        "xrefs": ["DOID:1"],
        "domain": "medicine",
    }
    kb = read_entities(write(record, {"id": "D2", "name": "cold", "definition": None}))
    assert kb["MESH:D1"].aliases == ("grippe",)
    assert kb["D1"].domain == "medicine"
    assert kb.notes == {"empty aliases dropped": 1}
    kb.to_jsonl(tmp_path / "kb.jsonl.gz")
    assert read_entities(tmp_path / "kb.jsonl.gz") == kb


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ({"id": "x"}, "'x': an entity needs the key 'name'"),
        ({"id": "x", "name": " "}, "'x': the entity's name is empty"),
        ({"id": "x", "name": 5}, "'name' of an entity must be a string"),
        (
            {"id": "x", "name": "x", "aliases": "flu"},
            "'aliases' of an entity must be a list of strings, not a s",
        ),
        (
            {"id": "x", "name": "x", "aliases": None},
            "'aliases' of an entity must be a list of strings, not null",
        ),
        (
            {"id": "x", "name": "x", "definition": True},
            "'definition' of an entity must be a string .*, not true",
        ),
        (
            {**ENTITY, "name": "cold"},
            r"'D1': this id is already taken, with different content \(.*, line 1\)",
        ),
    ],
)
def test_a_malformed_entity_fails_by_place_or_is_skipped(
    write: Callable[..., Path], line: object, problem: str
) -> None:
    path = write(ENTITY, line, ENTITY)
    with pytest.raises(DataError, match=problem) as caught:
        read_entities(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    kb = read_entities(path, on_error="skip")
    assert kb.notes == {"malformed entities skipped": 1, "duplicate entities dropped": 1}

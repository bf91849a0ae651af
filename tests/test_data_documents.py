from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention, compare, mention_ids, text_of
from arbo.errors import ArboError, DataError, UsageError

TEXT = "Left and right kidney."


def mention(*spans: tuple[int, int], name: str = "m1", text: str = TEXT, **more: Any) -> Mention:
    return Mention(name, "d1", spans, text_of(spans, text), **more)


def document(*mentions: Mention, name: str = "d1", text: str = TEXT) -> Document:
    return Document(name, text, mentions)


def test_a_mention_knows_where_it_begins_and_ends() -> None:
    discontinuous = mention((15, 21), (0, 4))
    assert (discontinuous.start, discontinuous.end) == (0, 21)
    assert discontinuous.text == "kidney Left"


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ((), "one or more spans"),
        ([(0, 4)], "must be a tuple of pairs .start, end., not list"),
        (((4, 4),), "span 4 to 4 is empty"),
        (((5, 3),), "span 5 to 3 is empty"),
        (((-1, 3),), "begins before the document"),
        (((0, 4), (9, 9)), "span 9 to 9 is empty"),
        (((0, 4, 5),), "pair of integers"),
        (((0.0, 4.0),), "pair of integers"),
        (((False, True),), "pair of integers"),
        (("04",), "pair of integers"),
    ],
)
def test_impossible_spans_are_refused(spans: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        Mention("m1", "d1", spans, "Left")
    assert caught.value.id == "m1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": ""}, "mention id is empty"),
        ({"id": 7}, "mention id must be a string, not int"),
        ({"document_id": None}, "document id must be a string"),
        ({"text": b"Left"}, "text of the mention must be a string, not bytes"),
        ({"type": 3}, "type of the mention must be a string"),
        ({"gold": "D1"}, "gold ids must be a tuple of strings, not str"),
        ({"gold": (1,)}, "an item of the gold ids must be a string"),
        ({"gold": (" ",)}, "an item of the gold ids is empty"),
        ({"id": "a\0b"}, "NUL at character 1"),
        ({"id": "a\ud800"}, r"surrogate \(U\+D800\) at character 1"),
    ],
)
def test_fields_of_a_mention_are_checked(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        replace(mention((0, 4)), **change)


@pytest.mark.parametrize("text", ["nul \0 inside", "half a pair \ud83d", "\udcff"])
def test_text_that_cannot_be_stored_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(DataError) as caught:
        Document("d1", text)
    assert caught.value.id == "d1"
    assert text not in str(caught.value)


def test_a_span_out_of_range_names_document_and_mention() -> None:
    with pytest.raises(DataError, match=r"^'m1': a span ends at 30, but document 'd1' has 22 characters"):
        document(mention((15, 30)))


def test_a_mention_text_that_is_not_under_its_spans_is_refused() -> None:
    with pytest.raises(DataError, match="differs from the text at its spans in document 'd1'"):
        document(Mention("m1", "d1", ((0, 4),), "Right"))


def test_a_wrong_text_beside_a_surrogate_is_told() -> None:
    with pytest.raises(DataError, match="the text of the mention is 'flu', but the text at 0 to 3"):
        compare("flu", ((0, 3),), "a\ud800b", Counter(), of="m")


def test_a_mention_of_another_document_is_refused() -> None:
    with pytest.raises(DataError, match="has the document id 'd1', but is in document 'd2'"):
        document(mention((0, 4)), name="d2")


def test_two_mentions_with_one_id_are_refused_within_and_across_documents() -> None:
    with pytest.raises(DataError, match=r"^'m1': document 'd1' has two mentions with this id"):
        document(mention((0, 4)), mention((9, 14)))
    other = Document("d2", TEXT, (Mention("m1", "d2", ((0, 4),), "Left"),))
    with pytest.raises(DataError, match=r"^'m1': documents 'd1' and 'd2' both have a mention"):
        Corpus([document(mention((0, 4))), other])


def test_two_documents_with_one_id_are_refused() -> None:
    with pytest.raises(DataError, match=r"^'d1': two documents have this id"):
        Corpus([document(), document()])


def test_lists_in_place_of_tuples_are_refused() -> None:
    with pytest.raises(DataError, match="mentions must be a tuple of Mention, not list"):
        Document("d1", TEXT, [mention((0, 4))])  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", " ", " \n\t\u3000"])
def test_empty_and_blank_documents_are_documents(text: str) -> None:
    corpus = Corpus([Document("d1", text)])
    assert len(corpus) == 1
    assert corpus.mentions == ()


def test_nested_overlapping_and_identical_spans_live_together() -> None:
    mentions = [mention((0, 21), name="a"), mention((0, 4), name="b"), mention((2, 10), name="c")]
    twins = [mention((5, 8), name="d", gold=("X",)), mention((5, 8), name="e", gold=("Y",))]
    corpus = Corpus([document(*mentions, *twins)])
    assert [m.id for m in corpus.mentions] == ["a", "b", "c", "d", "e"]


def test_offsets_count_code_points() -> None:
    text = "e\u0301 \U0001f600 flu"  # e with a combining accent, an emoji of four bytes
    assert len(text) == 8
    assert Document("d1", text, (mention((5, 8), text=text),)).mentions[0].text == "flu"


def test_a_corpus_is_a_sequence() -> None:
    documents = [Document("d1", TEXT, (mention((0, 4)),)), Document("d2", "")]
    corpus = Corpus(iter(documents), notes={"quirks": 2})
    assert isinstance(corpus, Sequence)
    assert list(corpus) == documents
    assert corpus[1] is documents[1]
    assert corpus[-1:] == Corpus(documents[1:])
    assert corpus[:1].notes == {"quirks": 2}
    assert documents[0] in corpus
    assert hash(corpus) == hash(Corpus(documents))
    assert len(Corpus()) == 0


def test_of_types_keeps_documents_and_drops_other_mentions() -> None:
    corpus = Corpus(
        [document(mention((0, 4), name="a", type="Side"), mention((15, 21), name="b", type="Organ"))],
        {"q": 1},
    )
    for types in ("Organ", ["Organ"], {"Organ", "Nothing"}):
        assert [m.id for m in corpus.of_types(types).mentions] == ["b"]
    assert len(corpus.of_types(())) == 1
    assert corpus.of_types("Organ").notes == {"q": 1}
    assert len(corpus.mentions) == 2


def test_values_are_frozen_copyable_and_do_not_print_the_text() -> None:
    corpus = Corpus([document(mention((0, 4)))])
    with pytest.raises(FrozenInstanceError):
        corpus.documents = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        corpus[0].text = ""  # type: ignore[misc]
    assert copy.deepcopy(corpus) == corpus
    assert pickle.loads(pickle.dumps(corpus)) == corpus  # noqa: S301
    assert TEXT not in repr(corpus) + repr(corpus[0])


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 6)), min_size=1, max_size=2)))
def test_made_mention_ids_are_distinct_and_repeatable(spans: list[list[tuple[int, int]]]) -> None:
    names = mention_ids("d", spans)
    assert len(set(names)) == len(spans)
    assert names == mention_ids("d", spans)


def test_errors_keep_their_place_when_pickled() -> None:
    error = DataError("broken", id="m1").at("docs.txt", 3).at("other.txt", 4)
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(twin) == str(error) == "docs.txt, line 3, 'm1': broken"
    assert (twin.file, twin.line, twin.id) == ("docs.txt", 3, "m1")
    assert isinstance(error, ArboError)
    assert isinstance(error, ValueError)
    assert str(DataError("broken")) == "broken"


@pytest.mark.parametrize("items", [["d1"], [{"id": "d1", "text": TEXT}], [document(), None]])
def test_a_corpus_holds_documents_alone(items: list[Any]) -> None:
    with pytest.raises(UsageError, match=rf"expected documents, not {type(items[-1]).__name__}; make them"):
        Corpus(items)

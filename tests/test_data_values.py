"""Documents, mentions and entities as checked values, and the collections of them."""

import copy
import pickle
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Entity, Mention, text_of
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import ArboError, DataError

TEXT = "Left and right kidney."


def mention(*spans: tuple[int, int], name: str = "m1", text: str = TEXT, **more: Any) -> Mention:
    return Mention(name, "d1", spans, text_of(spans, text), **more)


LEFT = mention((0, 4))
DOCUMENT = Document("d1", TEXT, (LEFT,))
FLU = Entity("D1", "flu", ("influenza", "grippe"), alternative_ids=("X1",))
COLD = Entity("D2", "cold", ("common cold",), alternative_ids=("X2", "X3"))


@pytest.mark.parametrize(
    ("value", "change", "problem"),
    [
        (LEFT, {"spans": ()}, "^'m1': .*one or more spans"),
        (LEFT, {"spans": [(0, 4)]}, "must be a tuple of pairs .start, end., not list"),
        (LEFT, {"spans": ((4, 4),)}, "span 4 to 4 is empty"),
        (LEFT, {"spans": ((-1, 3),)}, "begins before the document"),
        (LEFT, {"spans": ((0, 4), (9, 9))}, "span 9 to 9 is empty"),
        (LEFT, {"spans": ((0, 4, 5),)}, "pair of integers"),
        (LEFT, {"spans": ((False, True),)}, "pair of integers"),
        (LEFT, {"id": ""}, "mention id is empty"),
        (LEFT, {"id": 7}, "mention id must be a string, not int"),
        (LEFT, {"id": "a\0b"}, "NUL at character 1"),
        (LEFT, {"id": "a\ud800"}, r"surrogate \(U\+D800\) at character 1"),
        (LEFT, {"document_id": None}, "document id must be a string"),
        (LEFT, {"text": b"Left"}, "text of the mention must be a string, not bytes"),
        (LEFT, {"type": 3}, "type of the mention must be a string"),
        (LEFT, {"gold": "D1"}, "gold ids must be a tuple of strings, not str"),
        (LEFT, {"gold": (1,)}, "an item of the gold ids must be a string"),
        (LEFT, {"gold": (" ",)}, "an item of the gold ids is empty"),
        (DOCUMENT, {"id": "d2"}, "^'m1': the mention has the document id 'd1', but is in document 'd2'"),
        (DOCUMENT, {"mentions": [LEFT]}, "mentions must be a tuple of Mention, not list"),
        (DOCUMENT, {"mentions": (LEFT, mention((9, 14)))}, "^'m1': document 'd1' has two mentions with this id"),
        (DOCUMENT, {"mentions": (mention((15, 30)),)}, "^'m1': a span ends at 30, but document 'd1' has 22 characters"),
        (DOCUMENT, {"mentions": (replace(LEFT, text="Right"),)}, "differs from the text at its spans in document 'd1'"),
        (FLU, {"id": ""}, "entity id is empty"),
        (FLU, {"id": 5}, "entity id must be a string, not int"),
        (FLU, {"name": ""}, "^'D1': the entity's name is empty"),
        (FLU, {"name": "a\0"}, "NUL at character 1"),
        (FLU, {"aliases": ["influenza"]}, "aliases must be a tuple of strings, not list"),
        (FLU, {"aliases": ("a", None)}, "an item of aliases must be a string, not NoneType"),
        (FLU, {"alternative_ids": ("",)}, "an item of alternative_ids is empty"),
        (FLU, {"types": (1,)}, "an item of types must be a string"),
        (FLU, {"xrefs": None}, "xrefs must be a tuple"),
        (FLU, {"definition": 1}, "definition must be a string"),
        (FLU, {"domain": 1}, "domain must be a string"),
    ],
)
def test_an_invalid_field_is_refused(value: Any, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        replace(value, **change)


@pytest.mark.parametrize("text", ["nul \0 inside", "half a pair \ud83d"])
def test_text_that_cannot_be_stored_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(DataError, match=r"^'d1': ") as caught:
        Document("d1", text)
    assert text not in str(caught.value)


def test_offsets_count_code_points() -> None:
    discontinuous = mention((15, 21), (0, 4))
    assert (discontinuous.start, discontinuous.end, discontinuous.text) == (0, 21, "kidney Left")
    text = "e\u0301 \U0001f600 flu"  # e with a combining accent, an emoji of four bytes
    assert Document("d1", text, (mention((5, 8), text=text),)).mentions[0].text == "flu"


def test_errors_keep_their_place_when_pickled() -> None:
    error = DataError("broken", id="m1").at("docs.txt", 3).at("other.txt", 4)
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(twin) == str(error) == "docs.txt, line 3, 'm1': broken"
    assert (twin.file, twin.line, twin.id) == ("docs.txt", 3, "m1")
    assert issubclass(DataError, ArboError)
    assert issubclass(DataError, ValueError)


# A corpus


def test_a_corpus_is_a_sequence() -> None:
    documents = [DOCUMENT, Document("d2", "")]
    corpus = Corpus(iter(documents), notes={"quirks": 2})
    assert isinstance(corpus, Sequence)
    assert list(corpus) == documents
    assert corpus[1] == documents[1]
    assert corpus[-1:] == Corpus(documents[1:])
    assert corpus[:1].notes == {"quirks": 2}
    assert documents[0] in corpus
    assert hash(corpus) == hash(Corpus(documents))
    with pytest.raises(DataError, match=r"^'d1': two documents have this id"):
        Corpus([DOCUMENT, DOCUMENT])


def test_values_are_copyable_and_do_not_print_the_text() -> None:
    corpus = Corpus([DOCUMENT])
    with pytest.raises(FrozenInstanceError):
        corpus[0].text = ""  # type: ignore[misc]
    assert copy.deepcopy(corpus) == corpus
    assert pickle.loads(pickle.dumps(corpus)) == corpus  # noqa: S301
    assert TEXT not in repr(corpus) + repr(corpus[0])


# A knowledge base


def test_entities_are_found_by_id_and_by_alternative_id() -> None:
    kb = KnowledgeBase([FLU, COLD])
    assert list(kb) == [FLU, COLD]
    assert kb["D2"] == kb["X3"] == COLD
    assert kb.index("X2") == kb.index("D2") == 1
    assert "X1" in kb
    assert "nothing" not in kb
    with pytest.raises(KeyError, match="no entity has the id or alternative id 'nothing'"):
        kb["nothing"]
    assert (len(KnowledgeBase()), len(KnowledgeBase().names().names), KnowledgeBase().rows("D1")) == (0, 0, ())


def test_an_alternative_id_never_hides_an_entity() -> None:
    thief = Entity("D3", "thief", alternative_ids=("D3", "D2", "X1"))
    kb = KnowledgeBase([thief, FLU, COLD])
    assert (kb["D2"], kb["X1"]) == (COLD, thief)
    assert kb.notes == {
        "alternative ids ignored, since they are another entity's own id": 1,
        "alternative ids shared with an earlier entity": 1,
    }


def test_names_are_distinct_within_an_entity_and_shared_between_entities() -> None:
    kb = KnowledgeBase([Entity("a", "flu", ("Flu", "flu", "cold", "", " ")), Entity("b", "cold", ("flu",))])
    names, rows = kb.names()
    assert (list(names), rows.tolist()) == (["flu", "Flu", "cold", "cold", "flu"], [0, 0, 0, 1, 1])
    assert kb.notes == {"empty aliases dropped": 2}


def test_equal_duplicates_are_dropped_and_different_ones_refused() -> None:
    kb = KnowledgeBase([FLU, COLD, replace(FLU)], notes={"seen before": 1})
    assert [entity.id for entity in kb] == ["D1", "D2"]
    assert kb.notes == {"seen before": 1, "duplicate entities dropped": 1}
    with pytest.raises(DataError, match=r"^'D1': two different entities have this id"):
        KnowledgeBase([FLU, replace(FLU, name="Flu")])


def test_the_fingerprint_follows_the_content_alone() -> None:
    first = KnowledgeBase([FLU, COLD])
    same = [replace(FLU, metadata={"year": 1990}), COLD, COLD]
    assert first.fingerprint == KnowledgeBase(same, notes={"anything": 1}).fingerprint
    assert first.fingerprint == "59a824cbee8cf9371a50adc7effd0487037b6eded31276bde033014b0b062a80"
    compared = {column.name: getattr(FLU, column.name) for column in fields(Entity) if column.compare}
    new = [{name: ("new",) if isinstance(value, tuple) else "new"} for name, value in compared.items()]
    others = [(COLD, FLU), (), *((replace(FLU, **change), COLD) for change in new)]
    fingerprints = {KnowledgeBase(entities).fingerprint for entities in others}
    assert len(fingerprints - {first.fingerprint}) == len(others)

"""Documents, mentions and entities as checked values, the collections of them, and their tables."""

import copy
import json
import pickle
import random
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data import records
from arbo.data.arrow import rows_among
from arbo.data.documents import Document, Entity, Mention, text_of
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.objects import to_document
from arbo.data.records import Records
from arbo.data.tables import metadata_in
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
        (LEFT, {"spans": ()}, "^'m1': .*one or more pairs"),
        (LEFT, {"spans": [(0, 4)]}, r"one or more pairs .start, end., not \[\(0"),
        (LEFT, {"spans": ((4, 4),)}, "span 4 to 4 is not one with"),
        (LEFT, {"spans": ((-1, 3),)}, "span -1 to 3 is not one with"),
        (LEFT, {"spans": ((0, 4), (9, 9))}, "span 9 to 9 is not one with"),
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
    assert {ArboError, ValueError} <= {*DataError.__mro__}


def test_a_corpus_is_a_sequence_that_is_copied_and_does_not_print_texts() -> None:
    documents = [DOCUMENT, Document("d2", "")]
    corpus = arbo.Corpus(iter(documents), notes={"quirks": 2})
    assert isinstance(corpus, Sequence)
    assert [*corpus] == [corpus[0], corpus[1]] == documents
    assert (corpus[-1:], corpus[:1].notes) == (arbo.Corpus(documents[1:]), {"quirks": 2})
    assert documents[0] in corpus
    with pytest.raises(DataError, match=r"^'d1': two documents have this id"):
        arbo.Corpus([DOCUMENT, DOCUMENT])
    corpus = arbo.Corpus([DOCUMENT])
    with pytest.raises(FrozenInstanceError):
        corpus[0].text = ""  # type: ignore[misc]
    assert copy.deepcopy(corpus) == corpus
    assert pickle.loads(pickle.dumps(corpus)) == corpus  # noqa: S301
    assert TEXT not in repr(corpus) + repr(corpus[0])


def test_entities_are_found_by_id_and_by_alternative_ids_that_hide_none() -> None:
    kb = KnowledgeBase([FLU, COLD])
    assert [*kb] == [FLU, COLD] == [FLU, kb["D2"]] == [FLU, kb["X3"]]
    assert kb.index("X2") == kb.index("D2") == 1
    assert ("X1" in kb, "nothing" in kb) == (True, False)
    with pytest.raises(KeyError, match="no entity has the id or alternative id 'nothing'"):
        kb["nothing"]
    assert (len(KnowledgeBase()), len(KnowledgeBase().names().names), KnowledgeBase().rows("D1")) == (0, 0, ())
    thief = Entity("D3", "thief", alternative_ids=("D3", "D2", "X1"))
    kb = KnowledgeBase([thief, FLU, COLD])
    assert (kb["D2"], kb["X1"]) == (COLD, thief)
    ignored = "alternative ids equal to another entity's own id ignored"
    assert kb.notes == {ignored: 1, "alternative ids shared with an earlier entity": 1}


def test_names_are_distinct_within_an_entity_and_equal_entities_dropped() -> None:
    kb = KnowledgeBase([Entity("a", "flu", ("Flu", "flu", "cold", "", " ")), Entity("b", "cold", ("flu",))])
    names, rows = kb.names()
    assert (list(names), rows.tolist()) == (["flu", "Flu", "cold", "cold", "flu"], [0, 0, 0, 1, 1])
    assert kb.notes == {"empty aliases dropped": 2}
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


NAMES = ["Wilson disease", "WD", "copper", "naïve 😀", "Leber's", "x"]


def lines(seed: int, n: int = 7) -> list[str]:
    """Return documents with abbreviations, types, gold ids, clusters, scores and metadata, some without mentions."""
    drawn = random.Random(seed)

    def one(number: int) -> str:
        text, mentions = "Wilson disease (WD). ", []
        for _ in range(drawn.randrange(4)):
            name = drawn.choice(NAMES)
            own = {"spans": [[len(text), len(text) + len(name)]], "type": drawn.choice([None, "T", "U"])}
            own |= {"entities": drawn.choice([None, [], ["E1"], ["E1", "E2"]]), "cluster": drawn.choice([None, "c"])}
            own |= drawn.choice([{}, {"score": 0.5}, {"further": [number]}])
            mentions.append(own)
            text += name + ", "
        more = drawn.choice([{}, {"topic": "é"}, {"domain": "d"}])
        return json.dumps({"id": f"d{number}", "text": text, "mentions": mentions, **more}) + "\n"

    return [one(number) for number in range(n)]


PLAIN = '{"id": "e", "text": "copper", "mentions": [{"spans": [[0, 6]], "type": "V"}]}\n'
"""A document that has no optional columns."""


def read(folder: Path, content: list[str], most: int) -> arbo.Corpus:
    (folder / "documents.jsonl").write_text("".join(content), "utf-8")
    with mock.patch.object(records, "_MOST_ITEMS", most):
        return arbo.read_documents(folder / "documents.jsonl", on_error="skip")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 4))
def test_a_corpus_has_what_its_documents_have(tmp_path_factory: pytest.TempPathFactory, seed: int, most: int) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    documents = [to_document(json.loads(line)) for line in lines(seed)]
    mentions = [mention for one in documents for mention in one.mentions]
    corpus = read(folder, lines(seed), most)
    assert (len(corpus), corpus.n_mentions) == (len(documents), len(mentions))
    keys = [(mention.document_id, mention.spans, mention.id) for mention in mentions]
    assert corpus.order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)
    assert metadata_in(corpus.tables.mentions) == [one.metadata for one in mentions]
    assert metadata_in(corpus.tables.documents) == [one.metadata for one in documents]
    assert corpus.types == [one.type for one in mentions]
    assert corpus.with_ids(["d3", "d0", "no"]) == {f"d{i}": documents[i] for i in (0, 3)}
    ids = [None if of is None else [*of] for of in Gold.of(corpus).ids]
    assert ids == [None if one.labels is None else [*one.labels] for one in mentions]
    of_type = [replace(d, mentions=tuple(m for m in d.mentions if m.type == "T")) for d in documents]
    assert ([*corpus.of_types("T")], [*corpus.mentions]) == (of_type, mentions)
    assert [one.metadata for one in corpus.mentions] == [one.metadata for one in mentions]
    assert [one.score for one in corpus.mentions] == [one.score for one in mentions]
    assert corpus == arbo.Corpus(documents)
    assert corpus.fingerprint == arbo.Corpus(documents).fingerprint


@pytest.mark.parametrize(("types", "with_kb"), [(["T", "U"], True), (["V"], False)])
def test_the_run_is_the_same_bytes_and_needs_no_objects(tmp_path: Path, types: list[str], with_kb: bool) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "Wilson disease"), arbo.Entity("E2", "copper", domain="d")])
    for name, most in (("plain", 100), ("packed", 2)):
        corpus = read(tmp_path, [*lines(1, 40), PLAIN], most).of_types(types)
        linker = arbo.Linker(kb) if with_kb else arbo.Linker()
        result = linker.link(corpus) if with_kb else linker.discover(corpus)
        result.save(tmp_path / name)
        assert "documents" not in vars(corpus)
    for file in (tmp_path / "plain").glob("*.parquet"):
        assert file.read_bytes() == (tmp_path / "packed" / file.name).read_bytes()


@mock.patch.object(records, "_MOST_ITEMS", 2)
def test_an_equal_document_is_dropped_and_another_with_its_id_refused() -> None:
    found: Records[Document] = Records("documents")
    for number in [0, 1, 2, 3, 4, 1, 4]:
        found.add(Document(f"d{number}", str(number)), "file", number + 1)
    assert found.notes == {"duplicate documents dropped": 2}
    with pytest.raises(DataError, match=r"different content \(file, line 2\)"):
        found.add(Document("d1", "other"), "file", 9)
    assert [one.id for one in found] == ["d0", "d1", "d2", "d3", "d4"]
    assert [one.text for one in arbo.Corpus(found)] == ["0", "1", "2", "3", "4"]


def test_a_mention_id_in_two_documents_is_refused_with_both(tmp_path: Path) -> None:
    mentions = [[{"id": f"m{i % 3}", "spans": [[0, 1]]}] for i in range(4)]
    content = [f"{json.dumps({'id': f'd{i}', 'text': 'ab', 'mentions': own})}\n" for i, own in enumerate(mentions)]
    for most in (2, 100):
        with pytest.raises(DataError, match=r"^'m0': two mentions have this id; change"):
            read(tmp_path, content, most)


letters = st.lists(st.sampled_from("abcdefg"), max_size=12)


@given(st.lists(st.sampled_from("abcdefg") | st.none(), max_size=12), letters, st.integers(0, 12), st.booleans())
def test_rows_are_the_first_of_each_value(values: list[str | None], known: list[str], cut: int, long: bool) -> None:
    kind = pa.large_string() if long else pa.string()
    columns = (pa.chunked_array([own[:cut], own[cut:]] if own else [], kind) for own in (values, known))
    assert rows_among(*columns).tolist() == [known.index(v) if v in known else -1 for v in values]

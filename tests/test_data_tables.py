"""Documents are tables, of which objects are views."""

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data import records
from arbo.data.arrow import rows_among
from arbo.data.documents import Document
from arbo.data.gold import Gold
from arbo.data.objects import to_document
from arbo.data.records import Records
from arbo.data.tables import metadata_in
from arbo.errors import DataError

NAMES = ["Wilson disease", "WD", "copper", "naïve 😀", "Leber's", "x"]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep two documents as objects at most."""
    monkeypatch.setattr(records, "_MOST_ITEMS", 2)


def lines(seed: int, n: int = 7) -> list[str]:
    """Return documents with abbreviations, types, gold ids, clusters, scores and metadata, some without mentions."""
    import random

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
    assert [*corpus.of_types("T")] == of_type
    assert [*corpus.mentions] == mentions
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


@pytest.mark.usefixtures("packed")
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
    content = [
        json.dumps({"id": f"d{i}", "text": "ab", "mentions": [{"id": f"m{i % 3}", "spans": [[0, 1]]}]}) + "\n"
        for i in range(4)
    ]
    for most in (2, 100):
        with pytest.raises(DataError, match=r"^'m0': documents 'd0' and 'd3' both have a mention with this id; change"):
            read(tmp_path, content, most)


letters = st.lists(st.sampled_from("abcdefg"), max_size=12)


@given(st.lists(st.sampled_from("abcdefg") | st.none(), max_size=12), letters, st.integers(0, 12), st.booleans())
def test_rows_are_the_first_of_each_value(values: list[str | None], known: list[str], cut: int, long: bool) -> None:
    kind = pa.large_string() if long else pa.string()
    columns = (pa.chunked_array([own[:cut], own[cut:]] if own else [], kind) for own in (values, known))
    assert rows_among(*columns).tolist() == [known.index(v) if v in known else -1 for v in values]

"""The tables from which a run is described."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data.fingerprint import fingerprint_of
from arbo.data.tables import Tables

KB = arbo.KnowledgeBase(
    [arbo.Entity("x", "plain"), arbo.Entity("E2", "naïve", domain="x"), arbo.Entity("E3", "pl", domain="")]
)
TEXTS = ["plain", 'a "quoted" \\ text\n\x7f', "naïve 😀 \u2028", " "]


def drawn(seed: int) -> arbo.Corpus:
    rng = np.random.default_rng(seed)

    def one(i: int) -> arbo.Document:
        text = str(rng.choice(TEXTS)) + " and more"
        mentions = tuple(
            arbo.Mention(
                f"{i}-{j}{rng.choice(TEXTS)}",
                f"d{i}é",
                spans,
                " ".join(text[a:b] for a, b in spans),
                [None, "T", 'q"'][rng.integers(3)],
                [None, (), ("x",), ("é", 'y"')][rng.integers(4)],
                cluster=[None, "c\n"][rng.integers(2)],
            )
            for j in range(rng.integers(3))
            for spans in [[((0, 3),), ((0, 2), (3, 5))][rng.integers(2)]]
        )
        return arbo.Document(f"d{i}é", text, mentions, [None, "", "x"][rng.integers(3)])

    return arbo.Corpus(one(i) for i in range(rng.integers(5)))


def values(corpus: arbo.Corpus) -> str:
    """Return what the fingerprint covers, written plainly."""
    return repr([(d.id, d.text, d.domain, [replace(m, score=None, metadata={}) for m in d.mentions]) for d in corpus])


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), other=st.integers(0, 2**32 - 1))
def test_the_fingerprint_follows_the_values_alone(seed: int, other: int) -> None:
    corpus, another = drawn(seed), drawn(other)
    chunked = Tables.joined([Tables.of([document]) for document in corpus] or [Tables.of([])])
    scored = arbo.Corpus(replace(d, mentions=tuple(replace(m, score=0.5) for m in d.mentions)) for d in corpus)
    assert corpus.fingerprint == fingerprint_of(chunked) == scored.fingerprint
    assert (corpus.fingerprint == another.fingerprint) == (values(corpus) == values(another))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_tables_that_grow_are_those_of_the_documents(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = drawn(seed), drawn(seed + 1)
    more = [arbo.Document(f"e{i}", one.text, metadata={"k": i}) for i, one in enumerate(second)]
    own = arbo.Linker(KB)
    result = own.link(first)
    with TemporaryDirectory() as folder:
        result.save(folder)
        result = own.add(arbo.Result.load(folder), more)
    gone = [one.id for one in (*first, *more) if rng.random() < 0.5]
    left = own.remove(result, gone)
    whole = own.link([one for one in (*first, *more) if one.id not in gone])
    back = own.add(left, [one for one in (*first, *more) if one.id in gone])
    for one, other in ((left, whole), (back, own.refit(back))):
        assert one.manifest["documents"] == other.manifest["documents"]
        for name in ("mention_table", "document_table", "link_table", "cluster_table"):
            tables = getattr(one, name), getattr(other, name)
            assert tables[0].column_names == tables[1].column_names
            assert str(tables[0].to_pylist()) == str(tables[1].to_pylist())


def test_documents_that_stay_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    for own in (arbo.Linker(kb), arbo.Linker()):
        (own.link if own.kb else own.discover)(documents[:60]).save(tmp_path / "run")
        read = arbo.Result.load(tmp_path / "run")
        expected = own.add(read, documents[60:])
        with monkeypatch.context() as patch:
            gone, more = documents[0].id, documents[60:]
            patch.setattr("arbo.data.tables.Documents._documents", None)
            assert own.add(read, more).link_table == expected.link_table
            assert len(own.remove(read, [gone]).document_table) == 59

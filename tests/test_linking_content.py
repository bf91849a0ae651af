"""The tables from which a run is described."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import drawn_documents
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data.fingerprint import fingerprint_of
from arbo.data.tables import Tables

MARKS = st.tuples(st.sampled_from([None, "", "x"]), st.sampled_from([None, "c\n"]))


def marked(documents: Iterable[arbo.Document], marks: tuple[str | None, str | None]) -> arbo.Corpus:
    """Give the documents a domain, and their mentions a cluster."""
    domain, cluster = marks
    return arbo.Corpus(
        replace(one, domain=domain, mentions=tuple(replace(mention, cluster=cluster) for mention in one.mentions))
        for one in documents
    )


def values(corpus: arbo.Corpus) -> str:
    """Return what the fingerprint covers, written plainly."""
    fields = ("id", "spans", "text", "type", "gold", "cluster")
    return repr([(d.id, d.text, d.domain, [[getattr(m, name) for name in fields] for m in d.mentions]) for d in corpus])


@settings(max_examples=80, deadline=None)
@given(drawn_documents(), drawn_documents(), st.booleans(), MARKS, MARKS)
def test_the_fingerprint_follows_the_values_alone(
    documents: tuple[arbo.Document, ...], others: tuple[arbo.Document, ...], same: bool, marks: Any, other_marks: Any
) -> None:
    corpus, another = marked(documents, marks), marked(documents if same else others, other_marks)
    chunked = Tables.joined([Tables.of([document]) for document in corpus] or [Tables.of([])])
    scored = arbo.Corpus(replace(d, mentions=tuple(replace(m, score=0.5) for m in d.mentions)) for d in corpus)
    assert corpus.fingerprint == fingerprint_of(chunked) == scored.fingerprint
    assert (corpus.fingerprint == another.fingerprint) == (values(corpus) == values(another))


def test_documents_that_stay_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    for own in (arbo.Linker(kb), arbo.Linker()):
        (own.link if own.kb else own.discover)(documents[:60]).save(tmp_path / "run")
        read = arbo.Result.load(tmp_path / "run")
        expected = own.add(read, documents[60:])
        with monkeypatch.context() as patch:
            gone, more = documents[0].id, documents[60:]
            patch.setattr("arbo.data.tables.Documents._make", None)
            assert own.add(read, more).link_table == expected.link_table
            assert len(own.remove(read, [gone]).document_table) == 59

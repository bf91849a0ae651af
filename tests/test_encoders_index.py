"""Linking from an index gives the results of linking without one, and encodes no entity."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from builders import NAMES_ONLY
from conftest import Sample

import arbo
from arbo.data.knowledge_base import ADVICE
from arbo.encoders import ngrams
from arbo.encoders.index import build_index
from arbo.encoders.ngrams import NamedEntities, NgramEncoder
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.results.result import Result

TABLES = ("mention_table", "link_table", "cluster_table", "entity_table")


def assert_same(one: Result, other: Result) -> None:
    for name in TABLES:
        assert getattr(one, name).equals(getattr(other, name)), name
    own, others = ({**result.manifest, "seconds": None} for result in (one, other))
    assert own == others


@pytest.mark.parametrize("config", [{}, {"k": 0}, {"method": "minimax", "k": 9}, {"nil_linkage": "average"}])
def test_links_are_the_same(sample: Sample, tmp_path: Path, config: dict[str, Any]) -> None:
    documents, kb = sample
    index = build_index(kb, tmp_path / "index")
    settings = arbo.LinkerConfig(**config)
    one, other = (arbo.Linker(base, config=settings) for base in (kb, index))
    for _ in range(2):
        assert_same(one.link(documents), other.link(documents))
    assert_same(one.tune(documents[:30]).link(documents[30:]), other.tune(documents[:30]).link(documents[30:]))


def test_few_mentions_need_only_entities_that_may_be_near(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    cases = [arbo.LinkerConfig(), arbo.LinkerConfig(candidates=1), arbo.LinkerConfig(k=0, candidates=2)]
    linked = [[arbo.Linker(kb, config=how).link([one]) for how in cases] for one in documents[:3]]
    monkeypatch.setattr(ngrams, "_NAMES_PER_QUERY", 0)
    encoded, encode = list[int](), NamedEntities.vectors
    monkeypatch.setattr(NamedEntities, "vectors", lambda own: encoded.append(len(own.owner)) or encode(own))
    for one, expected in zip(documents[:3], linked, strict=True):
        for how, result in zip(cases, expected, strict=True):
            encoded.clear()
            assert_same(arbo.Linker(kb, config=how).link([one]), result)
            assert how.candidates > 1 or max(encoded) < len(kb.names().names) / 4


def test_no_entity_is_encoded_again(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    index = build_index(kb, tmp_path / "index")
    monkeypatch.setattr(NgramEncoder, "named", lambda *_: pytest.fail("encoded"))
    monkeypatch.setattr(NgramEncoder, "fit", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr(arbo.KnowledgeBase, "names", lambda _: pytest.fail("listed"))
    monkeypatch.setattr(arbo.KnowledgeBase, "__iter__", lambda _: pytest.fail("read"))
    again = build_index(index, tmp_path / "copy")  # from an index
    assert len(arbo.Linker(again).link(documents).links) == len(documents.mentions)
    assert (tmp_path / "copy/vectors/matrix.2.npy").read_bytes() == (
        tmp_path / "index/vectors/matrix.2.npy"
    ).read_bytes()


@pytest.mark.parametrize(
    ("encoder", "told"),
    [(NgramEncoder(sizes=(3,)), "for other settings"), ("bert", "for the encoder ngram, not elsewhere")],
)
def test_another_encoder_encodes_again_and_says_so(
    encoder: Any, told: str, sample: Sample, bert: Tower, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents, kb = sample
    if encoder == "bert":
        encoder = arbo.DualEncoder(bert, bert, NAMES_ONLY, name="elsewhere")
    index = build_index(kb, tmp_path / "index")
    with caplog.at_level(logging.WARNING):
        assert_same(*(arbo.Linker(base, encoder).link(documents[:5]) for base in (kb, index)))
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'index'} was built {told}, so the entities are encoded again; {ADVICE}"
    ]


def test_changed_knowledge_bases_are_encoded_anew(sample: Sample, tmp_path: Path) -> None:
    documents, kb = sample
    index = build_index(kb, tmp_path / "index")
    named, other = (base.with_names_of(documents) for base in (kb, index))
    assert other.stored is None
    assert_same(*(arbo.Linker(base).link(documents[:9]) for base in (named, other)))


class Own:
    """An encoder of the user's own whose fitted state is unknown."""

    metric, threshold, settings = "cosine", (0.3, 0.2), {"encoder": "own"}

    def __init__(self, inner: NgramEncoder) -> None:
        self.encode_mentions, self.encode_entities = inner.encode_mentions, inner.encode_entities

    def fit(self, names: Any) -> Own:
        return Own(NgramEncoder().fit(names))


def test_what_cannot_be_stored_is_refused(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an index cannot hold a fitted Own"):
        build_index(sample[1], tmp_path / "index", encoder=Own(NgramEncoder()))
    assert not (tmp_path / "index").exists()


def test_arrays_that_do_not_fit_are_refused(sample: Sample, tmp_path: Path) -> None:
    documents, kb = sample
    index = build_index(kb, tmp_path / "index")
    del index.stored.manifest["files"]["encoder/words_text.npy"]
    with pytest.raises(DataError, match="the arrays do not fit together"):
        arbo.Linker(index).link(documents)

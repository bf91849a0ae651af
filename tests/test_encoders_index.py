"""A knowledge base opened from an index behaves as in memory and links alike; a damaged index is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from builders import NAMES_ONLY, drawn_entities
from conftest import Sample
from hypothesis import example, given, settings, strategies as st

import arbo
from arbo.data.knowledge_base import ADVICE
from arbo.encoders import ngrams
from arbo.encoders.ngrams import NamedEntities, NgramEncoder
from arbo.encoders.tower import Tower
from arbo.kb.saving import save


def assert_same(one: arbo.Result, other: arbo.Result) -> None:
    for name in ("mention_table", "link_table", "cluster_table", "entity_table"):
        assert getattr(one, name).equals(getattr(other, name)), name
    own, others = ({**result.manifest, "seconds": None} for result in (one, other))
    assert own == others


@pytest.mark.parametrize("config", [{}, {"k": 0}, {"method": "minimax", "k": 9}, {"nil_linkage": "average"}])
def test_links_are_the_same(sample: Sample, tmp_path: Path, config: dict[str, Any]) -> None:
    documents, kb = sample
    index = arbo.build_index(kb, tmp_path / "index")
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


def test_another_encoder_encodes_again(sample: Sample, bert: Tower, tmp_path: Path, caplog: Any) -> None:
    documents, kb = sample
    index, other = arbo.build_index(kb, tmp_path / "index"), arbo.DualEncoder(bert, bert, NAMES_ONLY, name="elsewhere")
    for encoder in (NgramEncoder(sizes=(3,)), other):
        assert_same(*(arbo.Linker(base, encoder).link(documents[:5]) for base in (kb, index)))
    said = "for other settings", "for the encoder ngram, not elsewhere"
    again = (f"{tmp_path / 'index'} was built {words}, so the entities are encoded again; {ADVICE}" for words in said)
    assert caplog.messages == [*again]


def test_none_is_encoded_again_but_of_changes(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    index = arbo.build_index(kb, tmp_path / "index")
    named, other = (base.with_names_of(documents) for base in (kb, index))
    assert other.stored is None
    assert_same(*(arbo.Linker(base).link(documents[:9]) for base in (named, other)))
    index = arbo.build_index(kb, tmp_path / "index")
    monkeypatch.setattr(NgramEncoder, "named", lambda *_: pytest.fail("encoded"))
    monkeypatch.setattr(NgramEncoder, "fit", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr(arbo.KnowledgeBase, "names", lambda _: pytest.fail("listed"))
    monkeypatch.setattr(arbo.KnowledgeBase, "__iter__", lambda _: pytest.fail("read"))
    again = arbo.build_index(index, tmp_path / "copy")  # from an index
    assert len(arbo.Linker(again).link(documents).links) == len(documents.mentions)
    one, other = ((tmp_path / name / "vectors/matrix.2.npy").read_bytes() for name in ("copy", "index"))
    assert one == other


class Own:
    """An encoder of the user's own whose fitted state is unknown."""

    metric, threshold, settings = "cosine", (0.3, 0.2), {"encoder": "own"}

    def __init__(self, inner: NgramEncoder) -> None:
        self.encode_mentions, self.encode_entities = inner.encode_mentions, inner.encode_entities

    def fit(self, names: Any) -> Own:
        return Own(NgramEncoder().fit(names))


def test_what_cannot_be_stored_or_does_not_fit_is_refused(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(arbo.UsageError, match="an index cannot hold a fitted Own"):
        arbo.build_index(sample[1], tmp_path / "index", encoder=Own(NgramEncoder()))
    assert not (tmp_path / "index").exists()
    documents, kb = sample
    index = arbo.build_index(kb, tmp_path / "index")
    del index.stored.manifest["files"]["encoder/words_text.npy"]
    with pytest.raises(arbo.DataError, match="the arrays do not fit together"):
        arbo.Linker(index).link(documents)


FLU = arbo.Entity("D1", "flu", ("influenza", "Flu", "flu"), "a fever", ("T1", "T2"), ("X1", "X2"), ("MSH:9",), "a")
COLD = arbo.Entity("D2", "cold", (" ", "flu"), "", (), ("X1", "D1"), (), None, {"source": {"n": [1, None]}})
HEAT = arbo.Entity("D3", "\u00e9t\u00e9 \U0001f321", alternative_ids=("X1",), domain="a")
KB = arbo.KnowledgeBase([FLU, COLD, HEAT], {"obsolete terms skipped": 2})


def stored(kb: arbo.KnowledgeBase, folder: Path) -> arbo.KnowledgeBase:
    return arbo.build_index(kb, folder / "index")


def answers(kb: arbo.KnowledgeBase, folder: Path) -> dict[str, Any]:
    """What the public methods return."""
    ids = [*(id_ for entity in kb for id_ in (entity.id, *entity.alternative_ids)), "nothing", "", "\ud800"]
    save(kb, folder / "kb.parquet")
    names, rows = kb.names()
    return {
        "entities": (list(kb), kb.entities[::-2], [kb.entities[row] for row in range(-len(kb), len(kb))]),
        "metadata": [entity.metadata for entity in kb],
        "of ids": [(id_ in kb, kb.rows(id_), kb.rows_within([id_], "a"), 5 in kb) for id_ in ids],
        "names": (list(names), rows.tolist()),
        "columns": list(kb.columns("domain", "aliases", "metadata")),
        "columns of rows": kb.taken(["id", "definition", "aliases"], np.arange(len(kb))[::-1]),
        "counted": (len(kb), kb.notes, kb.fingerprint, repr(kb), [keys.tolist() for keys in kb.keys]),
        "written": (folder / "kb.parquet").read_bytes(),
    }


@settings(max_examples=15, deadline=None)
@given(drawn_entities(st.sampled_from(("A", "B", "C", "D1", "\u00e9", " x"))).map(arbo.KnowledgeBase))
@example(KB)
def test_a_stored_knowledge_base_behaves_as_in_memory(kb: arbo.KnowledgeBase) -> None:
    with TemporaryDirectory() as folder:
        other = stored(kb, Path(folder))
        assert other == kb
        assert kb == other
        assert answers(other, Path(folder)) == answers(kb, Path(folder))


def test_an_index_replaces_itself_and_has_nothing_else(tmp_path: Path) -> None:
    other = stored(KB, tmp_path)
    assert other != arbo.KnowledgeBase(KB.entities[:2])
    assert other != "kb"
    with pytest.raises(KeyError, match="no entity has the id or alternative id 'D9'"):
        other["D9"]
    with pytest.raises(IndexError):
        other.entities[3]
    again = stored(other, tmp_path)  # in place of the index that it is read from
    assert (again, list(other)) == (KB, list(KB))


def test_ids_with_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {id_: KB.rows(id_) for id_ in ("D1", "D2", "D3", "X1", "X2", "Z9")}
    monkeypatch.setattr("arbo.data.knowledge_base.hash_of", lambda _: np.uint64(1))
    monkeypatch.setattr("arbo.data.entity_table.hashes_of", lambda ids: np.ones(len(ids), np.uint64))
    for kb in (arbo.KnowledgeBase(KB), stored(arbo.KnowledgeBase(KB), tmp_path)):
        assert {id_: kb.rows(id_) for id_ in expected} == expected
    assert arbo.KnowledgeBase(KB).notes.items() < KB.notes.items()


Damage = Callable[[Path], object]


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


def _newer(folder: Path) -> None:
    file = folder / "arbo-index.json"
    file.write_text(file.read_text().replace('"format_version": 4', '"format_version": 5'))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "kb/entities.arrow").unlink(), "entities.arrow: the file cannot be read .*No such"),
        (lambda folder: _cut(folder / "kb/places.npy"), "places.npy: the array cannot be read"),
        (lambda folder: _flip(folder / "kb/hashes.npy", 20), "hashes.npy: the array cannot be read"),
        (lambda folder: _flip(folder / "kb/entities.arrow", -9), "entities.arrow: the file cannot be read"),
        (lambda folder: _cut(folder / "arbo-index.json"), "the manifest is not JSON"),
        (lambda folder: _flip(folder / "arbo-index.json", -9), "the manifest was changed after it was written"),
        (_newer, "a newer arbo wrote this .format 5"),
        (shutil.rmtree, "not an index of a knowledge base: arbo-index.json cannot be read"),
    ],
)
def test_a_damaged_index_is_refused(damage: Damage, problem: str, tmp_path: Path) -> None:
    stored(KB, tmp_path)
    damage(tmp_path / "index")
    with pytest.raises(arbo.DataError, match=problem) as error:
        arbo.KnowledgeBase.from_index(tmp_path / "index")
    assert "arbo kb index" in str(error.value) or "upgrade" in str(error.value)

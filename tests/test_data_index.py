"""A knowledge base that is opened from an index behaves as in memory; a damaged index is refused."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from builders import drawn_entities
from hypothesis import example, given, settings, strategies as st

from arbo.data.documents import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.index import build_index
from arbo.errors import DataError
from arbo.kb.saving import save

KB = KnowledgeBase(
    [
        Entity("D1", "flu", ("influenza", "Flu", "flu"), "a fever", ("T1", "T2"), ("X1", "X2"), ("MSH:9",), "a"),
        Entity("D2", "cold", (" ", "flu"), "", (), ("X1", "D1"), (), None, {"source": {"n": [1, None]}}),
        Entity("D3", "\u00e9t\u00e9 \U0001f321", alternative_ids=("X1",), domain="a"),
    ],
    {"obsolete terms skipped": 2},
)


def stored(kb: KnowledgeBase, folder: Path) -> KnowledgeBase:
    return build_index(kb, folder / "index")


def answers(kb: KnowledgeBase, folder: Path) -> dict[str, Any]:
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
        "counted": (len(kb), kb.notes, kb.fingerprint, repr(kb), hash(kb), [keys.tolist() for keys in kb.keys]),
        "written": (folder / "kb.parquet").read_bytes(),
    }


@settings(max_examples=15, deadline=None)
@given(drawn_entities(st.sampled_from(("A", "B", "C", "D1", "\u00e9", " x"))).map(KnowledgeBase))
@example(KB)
def test_a_stored_knowledge_base_behaves_as_in_memory(kb: KnowledgeBase) -> None:
    with TemporaryDirectory() as folder:
        other = stored(kb, Path(folder))
        assert other == kb
        assert kb == other
        assert answers(other, Path(folder)) == answers(kb, Path(folder))


def test_an_index_replaces_itself_and_has_nothing_else(tmp_path: Path) -> None:
    other = stored(KB, tmp_path)
    assert other != KnowledgeBase(KB.entities[:2])
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
    for kb in (KnowledgeBase(KB), stored(KnowledgeBase(KB), tmp_path)):
        assert {id_: kb.rows(id_) for id_ in expected} == expected
    assert KnowledgeBase(KB).notes.items() < KB.notes.items()


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
    with pytest.raises(DataError, match=problem) as error:
        KnowledgeBase.from_index(tmp_path / "index")
    assert "arbo kb index" in str(error.value) or "upgrade" in str(error.value)

"""Embeddings on disk: what is there is never computed again, what is stale or broken is never found."""

import errno
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Bomb, batches, dual_encoder

import arbo
from arbo.encoders import dual
from arbo.encoders.dual import add_vectors, find_vectors, key_of
from arbo.encoders.tower import Tower

CONFIG = arbo.EncoderConfig(max_length=32)
WORDS = {"fever": 1, "marsh of": 2, "kidney": 3, "in the": 4}
NAMES = [f"{word} {letter * n}" for word, n in WORDS.items() for letter in "abcdefgh"]
KB = arbo.KnowledgeBase([arbo.Entity(name, name) for name in NAMES])


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "SLICE", 8)


def embed(tower: Tower, cache: Path | None, kb: arbo.KnowledgeBase = KB, **changes: Any) -> np.ndarray:
    """The vector of each entity."""
    vectors = dual_encoder(tower, CONFIG, cache, **changes).encode_entities(kb)
    return np.asarray(vectors.matrix)[vectors.row]


def files(cache: Path) -> list[Path]:
    return sorted(cache.glob("*/*.safetensors"), key=lambda file: file.stat().st_mtime_ns)


def some(n: int, dim: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random keys and vectors."""
    rng = np.random.default_rng(seed)
    return np.frombuffer(rng.bytes(16 * n), "S16"), rng.random((n, dim), np.float32)


def test_what_was_added_is_found_by_all_bytes_of_its_key(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "é" / "model"
    keys, vectors = some(20)
    add_vectors(folder, keys[:12], vectors[:12])
    add_vectors(folder, keys[10:15], vectors[10:15])
    into = np.zeros((20, 3), np.float32)
    order = np.random.default_rng(1).permutation(20)
    known = find_vectors(folder, keys[order], into)
    assert known.tolist() == (order < 15).tolist()
    assert np.array_equal(into[known], vectors[order][known])
    assert not into[~known].any()
    raw = [b"a" * 15 + b"\0", b"a" * 15 + b"\1", b"\0" * 16, b"\0" * 15 + b"a", b"a" + b"\0" * 15, b"\0a" + b"\0" * 14]
    keys, vectors = np.array(raw, "S16"), np.eye(6, dtype=np.float32)
    for place in (0, 2, 4):
        add_vectors(tmp_path, keys[place : place + 1], vectors[place : place + 1])
    into = np.zeros((6, 6), np.float32)
    assert find_vectors(tmp_path, keys, into).tolist() == [True, False] * 3
    assert np.array_equal(into[::2], vectors[::2])
    fields = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["c", "ab"], []]
    assert len({key_of(texts) for texts in fields}) == len(fields)


def test_damaged_files_are_made_again(tmp_path: Path, bert: Tower, caplog: pytest.LogCaptureFixture) -> None:
    whole = embed(bert, tmp_path)
    victim = files(tmp_path)[1]
    victim.write_bytes(pickle.dumps(Bomb(tmp_path / "trap")))
    with batches(bert) as seen:
        assert embed(bert, tmp_path).tobytes() == whole.tobytes()
    assert sum(n for n, _ in seen) == 8
    (said,) = caplog.messages
    assert said.startswith(f"{victim} is ignored")
    assert not (tmp_path / "trap").exists()
    (tmp_path / "file").touch()
    with pytest.raises(arbo.UsageError, match=r"cannot keep embeddings .*, or choose another \(--set cache=FOLDER\)"):
        embed(bert, tmp_path / "file")


@pytest.mark.parametrize(("step", "code"), [("fsync", errno.ENOSPC), ("replace", errno.EROFS)])
def test_no_room_on_disk(tmp_path: Path, bert: Tower, monkeypatch: pytest.MonkeyPatch, step: str, code: int) -> None:
    calls: list[object] = []
    works = getattr(os, step)

    def fail_third(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(code, os.strerror(code))
        return works(*arguments)

    monkeypatch.setattr(os, step, fail_third)
    with pytest.raises(arbo.UsageError, match=f"cannot keep embeddings in .*{os.strerror(code)}; free some space, or "):
        embed(bert, tmp_path)
    assert not list(tmp_path.glob("*/.arbo-partial-*"))
    monkeypatch.undo()
    monkeypatch.setattr(dual, "SLICE", 8)
    with batches(bert) as seen:
        assert embed(bert, tmp_path).tobytes() == embed(bert, None).tobytes()
    assert sum(n for n, _ in seen) == len(NAMES) - 16 + len(NAMES)


def test_only_new_texts_are_embedded(tmp_path: Path, bert: Tower, bert_folder: Path) -> None:
    embed(bert, tmp_path)
    old = (replace(entity, id=f"{entity.id}!", definition="changed") for entity in KB.entities[::-2])
    changed = arbo.KnowledgeBase([arbo.Entity("new", "cancer syndrome", aliases=("a new name",)), *old])
    with batches(bert) as seen:
        vectors = embed(bert, tmp_path, changed)
    assert sum(n for n, _ in seen) == 2
    np.testing.assert_allclose(vectors, embed(bert, None, changed), atol=1e-5)
    for precision, n in (("bfloat16", len(NAMES)), ("float32", 0)):
        tower = Tower.load(bert_folder, precision=precision, device="cpu")
        with batches(tower) as seen:
            embed(tower, tmp_path)
        assert sum(rows for rows, _ in seen) == n


NO_VECTOR_CHANGES = [{"metric": "dot"}, {"entity_threshold": 0.1}, {"context": 3}, {"mention": "{mention}"}]
TEMPLATE = {"entity": "[CLS] {types} {name} [SEP]"}
VECTORS_CHANGE = [{"pooling": "cls"}, {"pooling": "mention"}, {"max_length": 31}, TEMPLATE]


@pytest.mark.parametrize("changes", [*VECTORS_CHANGE, *NO_VECTOR_CHANGES])
def test_settings_that_change_a_vector_find_nothing(tmp_path: Path, bert: Tower, changes: dict[str, Any]) -> None:
    embed(bert, tmp_path)
    with batches(bert) as seen:
        vectors = embed(bert, tmp_path, **changes)
    assert sum(n for n, _ in seen) == (len(NAMES) if changes in VECTORS_CHANGE else 0)
    assert vectors.tobytes() == embed(bert, None, **changes).tobytes()

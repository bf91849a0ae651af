"""Embeddings on disk: what is there is never computed again, what is stale or broken is never found."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Bomb, dual_encoder
from safetensors.numpy import save

import arbo
from arbo.encoders import dual
from arbo.encoders.embedding_store import EmbeddingStore, key_of
from arbo.encoders.tower import Tower
from arbo.errors import UsageError

Batches = Callable[[Tower], AbstractContextManager[list[tuple[int, int]]]]

CONFIG = arbo.EncoderConfig(max_length=32)
NAMES = [
    f"{word} {letter * (n + 1)}"
    for n, word in enumerate(("fever", "marsh of", "kidney", "in the"))
    for letter in "abcdefgh"
]
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


# What is found


def test_what_was_added_is_found(tmp_path: Path) -> None:
    store = EmbeddingStore.open(tmp_path / "a b" / "é", "model", 3)
    keys, vectors = some(20)
    store.add(keys[:12], vectors[:12])
    store.add(keys[10:15], vectors[10:15])
    into = np.zeros((20, 3), np.float32)
    order = np.random.default_rng(1).permutation(20)
    known = EmbeddingStore.open(tmp_path / "a b" / "é", "model", 3).find(keys[order], into)
    assert known.tolist() == (order < 15).tolist()
    assert np.array_equal(into[known], vectors[order][known])
    assert not into[~known].any()


def test_keys_that_differ_in_zero_bytes_alone(tmp_path: Path) -> None:
    raw = [b"a" * 15 + b"\0", b"a" * 15 + b"\1", b"\0" * 16, b"\0" * 15 + b"a", b"a" + b"\0" * 15, b"\0a" + b"\0" * 14]
    keys, vectors = np.array(raw, "S16"), np.eye(6, dtype=np.float32)
    store = EmbeddingStore.open(tmp_path, "model", 6)
    for place in (0, 2, 4):
        store.add(keys[place : place + 1], vectors[place : place + 1])
    into = np.zeros((6, 6), np.float32)
    assert store.find(keys, into).tolist() == [True, False] * 3
    assert np.array_equal(into[::2], vectors[::2])


def test_nothing_to_find_and_nothing_to_add(tmp_path: Path) -> None:
    store = EmbeddingStore.open(tmp_path, "model", 3)
    keys, vectors = some(2)
    assert not store.find(keys, vectors).any()
    store.add(keys[:0], vectors[:0])
    assert not store.find(keys, vectors).any()
    assert store.find(keys[:0], vectors[:0]).shape == (0,)


def test_keys_tell_fields_apart() -> None:
    fields = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["c", "ab"], []]
    assert len({key_of(texts) for texts in fields}) == len(fields)


def test_files_are_read_one_by_one(tmp_path: Path) -> None:
    store = EmbeddingStore.open(tmp_path, "model", 256)
    parts = [some(1000, 256, seed) for seed in range(20)]
    for keys, vectors in parts:
        store.add(keys, vectors)
    wanted = np.concatenate([keys[:5] for keys, _ in parts])
    into = np.zeros((100, 256), np.float32)
    store.find(wanted, into)
    tracemalloc.start()
    assert store.find(wanted, into).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # of 20 MB


# Interrupted and simultaneous work

KILLED = """
import os, signal, sys
from pathlib import Path
import torch
import arbo
from arbo.encoders import dual
from arbo.encoders.tower import Tower

sys.path.insert(0, sys.argv[1])
from test_encoders_embedding_store import KB, embed

dual.SLICE = 8
torch.set_num_threads(1)
replace, calls = os.replace, []

def die_third(source, target):
    calls.append(target)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = die_third
embed(Tower.load(sys.argv[2], device="cpu"), Path(sys.argv[3]))
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_vectors(
    tmp_path: Path, bert_folder: Path, bert: Tower, batches: Batches
) -> None:
    whole = embed(bert, tmp_path / "whole")
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(bert_folder), str(tmp_path / "killed")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(files(tmp_path / "killed")) == 2
    assert len(list(tmp_path.glob("killed/*/.arbo-partial-*"))) == 1

    with batches(bert) as seen:
        resumed = embed(bert, tmp_path / "killed")
    assert sum(n for n, _ in seen) == len(NAMES) - 2 * 8
    assert resumed.tobytes() == whole.tobytes() == embed(bert, None).tobytes()
    assert [file.name for file in files(tmp_path / "killed")] == [file.name for file in files(tmp_path / "whole")]


BESIDE = """
import sys
import numpy as np
from arbo.encoders.embedding_store import EmbeddingStore

store = EmbeddingStore.open(sys.argv[1], "model", 64)
keys = np.array([str(i).encode() for i in range(200)], "S16")
vectors = np.repeat(np.arange(200, dtype=np.float32)[:, None], 64, axis=1)
print("ready", flush=True)
sys.stdin.readline()
for i in range(200):
    store.add(keys[i : i + 1], vectors[i : i + 1])
    found = np.zeros_like(vectors)
    if i % 20 == 0:
        known = store.find(keys, found)
        assert known[: i + 1].all() and np.array_equal(found[known], vectors[known])
"""


@pytest.mark.slow
def test_two_processes_write_one_store(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BESIDE, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for process in both:
        process.stdout.readline()
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        assert errors == ""
    assert len(files(tmp_path)) == 200
    assert not list(tmp_path.glob("*/.arbo-partial-*"))


# Broken files


def flip(content: bytes) -> bytes:
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


@pytest.mark.parametrize("damage", [flip, lambda content: content[:-100], lambda _: b""])
def test_damaged_files_are_made_again(
    tmp_path: Path,
    bert: Tower,
    batches: Batches,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    whole = embed(bert, tmp_path)
    victim = files(tmp_path)[1]
    victim.write_bytes(damage(victim.read_bytes()))
    with batches(bert) as seen:
        assert embed(bert, tmp_path).tobytes() == whole.tobytes()
    assert sum(n for n, _ in seen) == 8
    (said,) = caplog.messages
    assert said.startswith(f"{victim} is ignored")
    caplog.clear()
    with batches(bert) as seen:
        assert embed(bert, tmp_path).tobytes() == whole.tobytes()
    assert (seen, caplog.messages) == ([], [])


KEYS = np.zeros((8, 16), np.uint8)
VECTORS = np.zeros((8, 64), np.float32)
FOREIGN = {
    "dtype": {"keys": KEYS, "vectors": VECTORS.astype(np.float64)},
    "dimension": {"keys": KEYS, "vectors": VECTORS[:, :5].copy()},
    "rows": {"keys": KEYS, "vectors": VECTORS[:5].copy()},
    "flat": {"keys": KEYS, "vectors": VECTORS.ravel()},
    "scalar": {"keys": KEYS, "vectors": np.zeros((), np.float32)},
    "keys' dtype": {"keys": KEYS.view(np.int8), "vectors": VECTORS},
    "keys' shape": {"keys": KEYS[:, :8].copy(), "vectors": VECTORS},
    "no keys": {"vectors": VECTORS},
    "NaN": {"keys": KEYS, "vectors": VECTORS + np.float32(np.nan)},
}


@pytest.mark.parametrize("kind", [*FOREIGN, "pickle", "folder"])
def test_foreign_files_are_left_out(tmp_path: Path, bert: Tower, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    whole = embed(bert, tmp_path)
    content = pickle.dumps(Bomb(tmp_path / "trap")) if kind not in FOREIGN else save(FOREIGN[kind])
    foreign = files(tmp_path)[0].with_name(f"{hashlib.sha256(content).hexdigest()}.safetensors")
    if kind == "folder":
        foreign.mkdir()
    else:
        foreign.write_bytes(content)
    assert embed(bert, tmp_path).tobytes() == whole.tobytes()
    assert [said.startswith(f"{foreign} is ignored") for said in caplog.messages] == [True]
    assert not (tmp_path / "trap").exists()


# Folders that cannot be written


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_read_only_disk(
    tmp_path: Path, bert: Tower, batches: Batches, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    calls: list[object] = []
    works = getattr(os, step)

    def fail_third(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(code, os.strerror(code))
        return works(*arguments)

    monkeypatch.setattr(os, step, fail_third)
    with pytest.raises(
        UsageError, match=f"cannot keep embeddings in .*{os.strerror(code)}; free some space, or choose"
    ):
        embed(bert, tmp_path)
    assert not list(tmp_path.glob("*/.arbo-partial-*"))
    monkeypatch.undo()
    monkeypatch.setattr(dual, "SLICE", 8)
    with batches(bert) as seen:
        assert embed(bert, tmp_path).tobytes() == embed(bert, None).tobytes()
    assert sum(n for n, _ in seen) == len(NAMES) - 16 + len(NAMES)


def test_a_folder_that_cannot_be_made(tmp_path: Path, bert: Tower) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot keep embeddings in .*; choose another folder"):
        embed(bert, tmp_path / "file")


# What is new, what is stale


def test_only_new_texts_are_embedded(tmp_path: Path, bert: Tower, batches: Batches) -> None:
    embed(bert, tmp_path)
    changed = arbo.KnowledgeBase([
        arbo.Entity("new", "cancer syndrome", aliases=("a new name",)),
        *(replace(entity, id=f"{entity.id}!", definition="changed") for entity in KB.entities[::-2]),
    ])  # fmt: skip
    with batches(bert) as seen:
        vectors = embed(bert, tmp_path, changed)
    assert sum(n for n, _ in seen) == 2
    np.testing.assert_allclose(vectors, embed(bert, None, changed), atol=1e-5)


def test_slices_hold_texts_of_like_length_whatever_their_order(bert: Tower, batches: Batches) -> None:
    shapes = []
    for order in (KB.entities, KB.entities[::-1], KB.entities[::3] + KB.entities[1::3] + KB.entities[2::3]):
        with batches(bert) as seen:
            embed(bert, None, arbo.KnowledgeBase(order))
        shapes.append(seen)
    assert shapes[0] == shapes[1] == shapes[2]
    assert len(shapes[0]) == len(NAMES) / 8
    assert sorted(shapes[0]) == shapes[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"pooling": "cls"},
        {"pooling": "mention"},
        {"entity": "[CLS] {name} . [SEP]"},
        {"entity": "[CLS] {types} {name} [SEP]"},
        {"max_length": 31},
    ],
)
def test_other_settings_find_nothing(tmp_path: Path, bert: Tower, batches: Batches, changes: dict[str, Any]) -> None:
    embed(bert, tmp_path)
    with batches(bert) as seen:
        vectors = embed(bert, tmp_path, **changes)
    assert sum(n for n, _ in seen) == len(NAMES)
    assert vectors.tobytes() == embed(bert, None, **changes).tobytes()


def test_other_weights_find_nothing(tmp_path: Path, bert_folder: Path, bert: Tower, batches: Batches) -> None:
    embed(bert, tmp_path)
    coarse = Tower.load(bert_folder, precision="bfloat16", device="cpu")
    with batches(coarse) as seen:
        embed(coarse, tmp_path)
    assert sum(n for n, _ in seen) == len(NAMES)
    again = Tower.load(bert_folder, device="cpu")
    with batches(again) as seen:
        embed(again, tmp_path)
    assert seen == []


@pytest.mark.parametrize(
    "changes", [{"metric": "dot"}, {"entity_threshold": 0.1}, {"context": 3}, {"mention": "{mention}"}]
)
def test_settings_that_change_no_vector_share_what_is_known(
    tmp_path: Path, bert: Tower, batches: Batches, changes: dict[str, Any]
) -> None:
    embed(bert, tmp_path)
    with batches(bert) as seen:
        embed(bert, tmp_path, **changes)
    assert seen == []

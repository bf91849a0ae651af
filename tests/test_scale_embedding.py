"""Texts are embedded in several processes as in one."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_builders import arbo_process, sample_files
from conftest import Sample
from test_scale import Shuffled, few, hashes, parts_of

import arbo
from arbo.encoders import dual
from arbo.encoders.tower import Tower
from arbo.scale.parts import Part, code, read_manifest
from arbo.scale.work import opened, search_memory


def with_transformer(sample: Sample, tower: Tower, pooling: Any = "mean", **config: Any) -> arbo.Linker:
    encoder = arbo.DualEncoder(tower, tower, arbo.EncoderConfig(pooling=pooling), **config)
    return arbo.Linker(sample[1], encoder, arbo.LinkerConfig(entity_threshold=2, mention_threshold=2))


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_shards_do_not_change_a_run_with_a_transformer(
    sample: Sample, bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    monkeypatch.setattr(dual, "SLICE", 16)
    plain = with_transformer(sample, bert, pooling)
    told: list[str] = []
    expected = hashes(plain.link(few(sample)), tmp_path / "plain")
    for size in (7, 500):
        with opened(tmp_path / "work", shard_size=size, pool=Shuffled(), tell=told.append) as work:
            assert hashes(work.over(plain).link(few(sample)), tmp_path / "run") == expected
    assert len({line for line in told if line.startswith("embedding")}) == 2
    made = [part for name, part in parts_of(tmp_path / "work").items() if name.startswith("embedding")]
    assert len(made) > 4
    assert {part["made"] for part in made} == {1}


def test_processes_read_the_tower_and_go_on(
    sample: Sample, bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual, "SLICE", 32)
    plain = with_transformer(sample, bert, cache=tmp_path / "cache")
    documents = few(sample)
    told: list[str] = []
    with opened(tmp_path / "work", 2) as work:
        spread = work.over(plain)
        found = spread.link(documents[:8])
    expected = hashes(with_transformer(sample, bert).link(documents[:8]), tmp_path / "plain")
    assert hashes(found, tmp_path / "spread") == expected
    assert len([*(tmp_path / "work").glob("tower-*")]) == 1
    damaged = sorted((tmp_path / "work").glob("embedding-*"))[0] / "vectors.npy"
    np.save(damaged, np.zeros(3))
    plain = with_transformer(sample, bert)
    with opened(tmp_path / "work", tell=told.append) as work:
        assert hashes(work.over(plain).link(documents[:8]), tmp_path / "again") == expected
    n_damaged = {name for name, part in parts_of(tmp_path / "work").items() if part["made"] == 2}
    assert n_damaged == {damaged.parent.name}
    total = sum(name.startswith("embedding") for name in parts_of(tmp_path / "work"))
    taken = [int(line.split(": ")[1].split(" of ")[0]) for line in told if "embedding" in line]
    assert sum(taken) == total - 1


@pytest.mark.slow
def test_an_index_is_made_by_processes(bert_folder: Path, tmp_path: Path) -> None:
    command = ["kb", "index", sample_files(tmp_path) / "kb.jsonl", "--encoder", bert_folder]
    for name, spread in (("alone", []), ("spread", ["--set", "workers=2", "--set", f"work={tmp_path / 'work'}"])):
        done = arbo_process(*command, "--out", tmp_path / name, "--set", f"cache={tmp_path / f'{name}.cache'}", *spread)
        assert done.returncode == 0, done.stderr
    alone, spread = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in (tmp_path / "alone", tmp_path / "spread")
    )
    assert alone == spread
    assert sum(name.startswith("embedding") for name in parts_of(tmp_path / "work")) == 1


@pytest.mark.parametrize(
    ("spread", "wrong"),
    [
        (["--set", "workers=2"], "only a transformer shares the work of an index"),
        (["--encoder", "all-MiniLM-L6-v2", "--set", "shard_size=5"], "leave out job settings"),
    ],
)
def test_an_index_that_cannot_be_spread_is_told(spread: list[object], wrong: str, tmp_path: Path) -> None:
    told = arbo_process("kb", "index", sample_files(tmp_path) / "kb.jsonl", "--out", tmp_path / "index", *spread)
    assert told.returncode == 2
    assert wrong in told.stderr


class Elsewhere(Shuffled):
    """A cluster, which refuses all tasks and remembers what they ask for."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.memory, self.asked = device, 0, ("", "")

    def for_texts(self, memory: int) -> Elsewhere:
        self.memory = memory
        return self

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Any:
        """Refuse a call."""
        self.asked = call.__self__.name, args[2][1]
        raise LookupError


def test_tasks_use_the_device_of_their_pool_and_parts_name_its_kind(
    sample: Sample, bert: Tower, tmp_path: Path
) -> None:
    asked = []
    for device in ("cuda:0", "cuda:1", "cpu"):
        pool = Elsewhere(device)
        with pytest.raises(LookupError), opened(tmp_path / "work", pool=pool) as work:
            work.over(with_transformer(sample, bert)).link(few(sample))
        asked.append(pool.asked)
        assert 1_000_000_000 < pool.memory < 1_010_000_000
    assert [device for _, device in asked] == ["cuda:0", "cuda:1", "cpu"]
    assert asked[0][0] == asked[1][0] != asked[2][0]
    assert search_memory(1 << 19) == 986_432_000


def test_a_finished_part_is_not_replaced(tmp_path: Path) -> None:
    part = Part.of(tmp_path, "search", k=3)
    other = {"ids": np.arange(4)}

    def beaten(folder: Path) -> None:
        part.make(lambda: other)
        np.save(folder / "ids.npy", np.arange(3))

    part.written(beaten)
    assert part.arrays()["ids"].tolist() == [0, 1, 2, 3]
    np.save(part.folder / "ids.npy", np.arange(9))
    part.make(lambda: other)
    assert read_manifest(part.folder)["made"] == 2


@pytest.mark.parametrize("library", ["numpy", "scipy", "numba", "faiss-cpu", "torch"])
def test_parts_depend_on_the_libraries_that_compute_them(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code.__wrapped__()
    monkeypatch.setattr("arbo.scale.parts.version", lambda name: "0" if name == library else version(name))
    assert code.__wrapped__() != before

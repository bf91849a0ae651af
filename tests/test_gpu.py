"""What a GPU gives, where there is one: the search to the last bit, everything else but for rounding."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from builders import arbo_process, linking, sample_files
from training_builders import QUICK, Killed, dying, log_of, torch

import arbo
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.retrieval.gpu import torch_scanner
from arbo.retrieval.groups import best_scanner
from arbo.scale.executors import connected
from arbo.training.config import TrainingPrecision
from clustering.knn import nearest
from clustering.vectors import Metric, Vectors, unit

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)


@pytest.mark.parametrize("metric", get_args(Metric))
@pytest.mark.parametrize("kind", ["far", "ties", "near"])
def test_the_search_gives_the_bits_of_the_cpu(metric: Metric, kind: str) -> None:
    drawn = np.random.default_rng(0).normal(size=(50_000, 48)).astype(np.float32)
    near = drawn[0] + drawn * np.float32(1e-4)  # products in TF32 would not tell them apart
    rows = {"far": drawn, "ties": np.sign(drawn[:, :12]), "near": near}[kind]
    corpus, queries = Vectors.of(rows), Vectors.of(rows[:3000])
    there, here = (
        nearest(queries, corpus, 20, metric=metric, self_ids=np.arange(3000), scanner=torch_scanner(device))
        for device in ("cuda", "cpu")
    )
    assert there.ids.tobytes() == here.ids.tobytes()
    assert there.dissimilarity.tobytes() == here.dissimilarity.tobytes()
    assert best_scanner() is torch_scanner("cuda")


@pytest.mark.parametrize(("precision", "within"), [("float32", 1e-5), ("float16", 5e-3), ("bfloat16", 4e-2)])
def test_vectors_are_those_of_the_cpu(bert_folder: Path, precision: Any, within: float) -> None:
    _, kb = arbo.load_sample()
    there = arbo.DualEncoder.from_pretrained(bert_folder, precision=precision)
    here = arbo.DualEncoder.from_pretrained(bert_folder, device="cpu")
    assert there.entity_tower.model.device.type == "cuda"
    found, again, expected = (unit(encoder.encode_entities(kb).matrix) for encoder in (there, there, here))
    assert np.abs(found - expected).max() < within
    assert found.tobytes() == again.tobytes()


def test_batches_are_halved_where_memory_ends(bert_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, read, encode = Tower.load(bert_folder), list[int](), Tower.encode
    monkeypatch.setattr(Tower, "encode", lambda self, rows, *more: read.append(len(rows)) or encode(self, rows, *more))
    made = [TokenRow([7 + number % 50] * 100, 0, 1) for number in range(40_000)]
    expected, whole = there.embed(made, "mean"), len(read)
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(min(1.0, 2e9 / total))
    monkeypatch.setattr(Tower, "tokens_a_batch", 10**9)
    try:
        found = there.embed(made, "mean")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert read[whole] == len(made)
    assert read[whole + 1] == len(made) // 2
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("precision", get_args(TrainingPrecision))
@pytest.mark.parametrize("negatives", ["random", "in-batch+knn"])
def test_a_training_goes_on_after_a_kill(bert_folder: Path, tmp_path: Path, precision: Any, negatives: Any) -> None:
    documents, kb = arbo.load_sample()
    start = arbo.DualEncoder.from_pretrained(bert_folder)
    config = replace(QUICK, precision=precision, negatives=negatives, steps=8, loss="cross-entropy")
    parts = {"documents": documents[:40], "kb": kb, "config": config}
    arbo.train(start, **parts, out=tmp_path / "whole")
    dies = arbo.RunOptions(checkpoint_every=1, announce=dying(5))
    with pytest.raises(Killed):
        arbo.train(start, **parts, out=tmp_path / "parts", options=dies)
    again: list[dict[str, float]] = []
    trained = arbo.train(start, **parts, out=tmp_path / "parts", options=arbo.RunOptions(on_log=again.append))
    assert [line["step"] for line in again] == [6, 7, 8]
    assert trained.entity_tower.model.device.type == "cuda"
    losses = [[line["loss"] for line in log_of(tmp_path / out)] for out in ("whole", "parts")]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert sum(losses[0][-4:]) < sum(losses[0][:4])


def test_ray_gives_a_gpu_to_what_embeds(bert_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with connected("local", 2) as cluster:
        texts = cluster.for_texts(10**9)
        assert (texts.gpus, texts.device, cluster.device) == (1, "cuda", "cpu")
        assert texts.submit(torch.cuda.get_device_name).result(100) == torch.cuda.get_device_name()
    job = ["link", *linking(sample_files(tmp_path)), "--encoder", bert_folder]
    shards = ["--set", f"work={tmp_path / 'work'}", "--set", "shard_size=50", "--ray", "local"]
    for out, how in (("memory", []), ("ray", shards)):
        done = arbo_process(*job, "--out", tmp_path / out, *how)
        assert done.returncode == 0, done.stderr
    one, other = ((tmp_path / out / "manifest.json").read_text("utf-8") for out in ("memory", "ray"))
    assert json.loads(one)["files"] == json.loads(other)["files"]

"""Two processes of torchrun train what one does: each half of a batch, with the same losses but for rounding."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import edit_json
from cli_builders import sample_files
from training_builders import log_of, torch

import arbo

pytestmark = pytest.mark.slow
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

_TOLD = """
import os

from arbo.cli import main
from arbo.training.dual.trainer import DualTrainer

batch = DualTrainer.batch


def told(self, step, mentions, rows):
    with open(f"rank{os.environ.get('RANK')}", "a") as file:
        print(len(rows), file=file)
    return batch(self, step, mentions, rows)


DualTrainer.batch = told
main()
"""
"""`arbo`, which tells how many mentions of each batch a process takes."""


def test_two_processes_train_as_one(bert_folder: Path, tmp_path: Path) -> None:
    sample_files(tmp_path)
    shutil.copytree(bert_folder, tmp_path / "bert")
    edit_json(tmp_path / "bert" / "config.json", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (tmp_path / "told.py").write_text(_TOLD, "utf-8")
    words = ["train", "encoder", "train.jsonl", "--kb", "kb.jsonl", "--dev", "test.jsonl", "--encoder", "bert"]
    words += ["--set", "steps=12", "--set", "batch_size=16", "--set", "learning_rate=0.001", "--out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for out, begin in (("one", []), ("two", torchrun)):
        command = [sys.executable, *begin, "told.py", *words, out]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert (tmp_path / f"rank{rank}").read_text("utf-8").split() == ["8"] * 12
    one, two = (log_of(tmp_path / out) for out in ("one", "two"))
    assert [line["step"] for line in two] == [line["step"] for line in one]
    for name in ("loss", "gradient"):
        assert [line[name] for line in two] == pytest.approx([line[name] for line in one], rel=1e-3)
    assert not (tmp_path / "two.training").exists()
    assert arbo.DualEncoder.from_pretrained(tmp_path / "two").config.entity_threshold is not None

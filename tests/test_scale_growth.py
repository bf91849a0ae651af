"""Runs grow in shards as in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import linker
from cli_builders import arbo_process, linking, sample_files
from conftest import Sample
from test_scale import Shuffled, few, hashes, parts_of

import arbo
from arbo.encoders.tower import Tower
from arbo.scale.work import opened


def stages_of(folder: Path) -> set[str]:
    return {name.split("-")[0] for name in parts_of(folder)}


def test_documents_and_entities_are_added_and_removed_in_shards(sample: Sample, tmp_path: Path) -> None:
    documents, kb = few(sample), sample[1]
    fewer = linker(arbo.KnowledgeBase(kb.entities[: len(kb) // 2]))
    more = fewer.configured(kb=kb)
    before = fewer.link(documents[:9])
    added = more.add(before, documents[9:])
    whole = [hashes(run, tmp_path / "plain") for run in (added, more.remove(added, [documents[0].id]))]
    with opened(tmp_path / "work", shard_size=100, pool=Shuffled()) as work:
        spread = work.over(more)
        again = spread.add(before, documents[9:])
        assert stages_of(work.folder) == {"search", "things", "vectors"}
        assert hashes(again, tmp_path / "spread") == whole[0]
        assert hashes(spread.remove(again, [documents[0].id]), tmp_path / "spread") == whole[1]


def test_a_transformer_embeds_what_is_new_in_shards(sample: Sample, bert: Tower, tmp_path: Path) -> None:
    documents = few(sample)
    plain = arbo.Linker(None, arbo.DualEncoder(bert, bert, arbo.EncoderConfig()))
    before = plain.discover(documents[:9])
    expected = hashes(plain.add(before, documents[9:]), tmp_path / "plain")
    with opened(tmp_path / "work", shard_size=20, pool=Shuffled()) as work:
        assert hashes(work.over(plain).add(before, documents[9:]), tmp_path / "spread") == expected
        assert "embedding" in stages_of(work.folder)


@pytest.mark.slow
def test_verbs_that_grow_take_workers(tmp_path: Path) -> None:
    files = sample_files(tmp_path)
    assert arbo_process("link", *linking(files, docs="train.jsonl"), "--out", tmp_path / "run").returncode == 0
    how = ["--workers", 2, "--set", "shard_size=100", "--set", f"work={tmp_path / 'work'}"]
    told = arbo_process("add", tmp_path / "run", files / "test.jsonl", "--out", tmp_path / "more", *how)
    assert told.returncode == 0, told.stderr
    assert "search" in stages_of(tmp_path / "work")
    told = arbo_process("add", "--anew", tmp_path / "more", "--out", tmp_path / "again", *how, "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["clusters"] == json.loads(told.stdout)["mentions"] == []

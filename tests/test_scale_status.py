"""What is told of a job in a work folder: by the library, by the bar of a job that goes on, and when it stops."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from operator import length_hint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linker
from conftest import Sample
from engine_builders import vectors
from test_scale import few

import arbo
from arbo.cli.work import Shards
from arbo.files import discard
from arbo.retrieval.groups import Search
from arbo.scale.parts import MANIFEST, Part
from arbo.scale.work import opened, progress_of


def test_jobs_that_share_a_folder_are_all_told(sample: Sample, tmp_path: Path) -> None:
    with opened(tmp_path, job="one") as work:
        work.over(arbo.Linker(sample[1])).link(few(sample))
    assert [*progress_of(tmp_path)["one"]] == ["1. nearest entities", "2. nearest mentions"]
    for _ in range(2):  # a job that is started again is one
        with opened(tmp_path, job="other", shard_size=9) as work:
            work.over(arbo.Linker()).discover(few(sample))
    told = progress_of(tmp_path)
    assert {job: [*stages] for job, stages in told.items()} == {
        "one": ["1. nearest entities", "2. nearest mentions"],
        "other": ["1. nearest mentions", "2. partition"],
    }
    assert all(state["finished"] == state["parts"] for stages in told.values() for state in stages.values())


def test_a_part_that_does_not_tell_its_seconds_counts(tmp_path: Path) -> None:
    told = {"format": "arbo-work", "format_version": 1, "stages": {"s": ["p"]}}
    (tmp_path / "arbo-work.json").write_text(json.dumps(told), "utf-8")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "part.json").write_text('{"made": 1}', "utf-8")
    counts = {"parts": 1, "finished": 1, "seconds": 0, "seconds_left": 0, "workers": 1}
    assert progress_of(tmp_path)["arbo-work.json"]["s"] == counts


def test_the_time_left_is_that_of_the_workers(tmp_path: Path) -> None:
    part = Part.of(tmp_path, "search", k=3)
    with opened(tmp_path, pool=ThreadPoolExecutor(3), job="j") as work:
        part.make(lambda: {"ids": np.arange(3)})
        (part.folder / MANIFEST).write_text(json.dumps({"seconds": 10}), "utf-8")
        work._stages["1. search"] = [part.name, *"abcd"]
        work.write()
        assert progress_of(tmp_path)["j"]["1. search"]["seconds_left"] == 20


def test_the_bar_of_a_job_that_goes_on_begins_with_what_is_finished(tmp_path: Path) -> None:
    points, told = vectors(np.random.default_rng(0).random((40, 3))), list[tuple[int, int]]()

    def watched(items: Any, total: int) -> Any:
        told.append((total, length_hint(items, total)))
        return items

    how: dict[str, Any] = {"metric": "cosine", "search": "exact", "within": None, "progress": watched}
    for _ in range(2):
        with opened(tmp_path, shard_size=9) as work:
            list(work.search_all([Search(points, points, None)], 3, **how))
        discard(next(tmp_path.glob("search-*")))
    assert told == [(25, 25), (25, 1)]


@pytest.mark.parametrize("given", [True, False])
def test_a_job_that_fails_keeps_its_parts_and_says_so(
    tmp_path: Path, sample: Sample, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    shards = Shards(shard_size=200, work=tmp_path / "run.work" if given else None)

    def job(documents: arbo.Corpus | None) -> None:
        with shards.over(linker(None), tmp_path / "run") as spread:
            if documents is not None:
                spread.discover(documents)
            raise SystemExit(130)

    def interrupted(documents: arbo.Corpus | None) -> str:
        with pytest.raises(SystemExit):
            job(documents)
        return " ".join(capsys.readouterr().err.split())

    assert interrupted(None) == ""
    assert (tmp_path / "run.work").exists() == given  # one that is named may be that of other jobs too
    assert interrupted(sample[0]).endswith("run.work, and the same command takes them")
    assert [*(tmp_path / "run.work").glob("*/part.json")]
    assert interrupted(None) == ""  # no part of this job

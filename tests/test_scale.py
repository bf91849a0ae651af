"""One job in shards and processes: the same result, whatever is killed; no finished part is made twice."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import document, linker
from cli_builders import arbo_process, linking, sample_files
from conftest import Sample
from engine_builders import vectors
from hypothesis import given, settings, strategies as st

import arbo
from arbo.cli.work import JobConfig
from arbo.engine import Index, Vectors, nearest
from arbo.errors import ArboError, UsageError
from arbo.retrieval.groups import Search
from arbo.scale import executors
from arbo.scale.parts import MANIFEST, Part, read_manifest
from arbo.scale.search import _shards
from arbo.scale.work import opened

METHODS = ["arborescence", "minimax", "undirected", "independent"]


class Shuffled(Executor):
    """Threads that begin each call a little later or earlier than asked."""

    def __init__(self) -> None:
        self._pool, self._random = ThreadPoolExecutor(3), random.Random(5)

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """Submit a call."""
        seconds = self._random.choice([0, 0, 0.003])
        return self._pool.submit(_later, seconds, call, *args, **named)


def _later(seconds: float, call: Any, *args: Any, **named: Any) -> Any:
    time.sleep(seconds)
    return call(*args, **named)


def few(sample: Sample) -> list[arbo.Document]:
    return list(sample[0][:12])


def hashes(result: Any, folder: Path) -> dict[str, str]:
    """Save a run, and hash its tables and the arrays that it keeps."""
    result.save(folder)
    files = json.loads((folder / "manifest.json").read_text("utf-8"))["files"]
    return {name: digest for name, digest in files.items() if name.endswith(".parquet")} | {
        name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in result.arrays().items()
    }


def parts_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {part.name: read_manifest(part) for part in sorted(folder.iterdir()) if read_manifest(part)}


@pytest.mark.parametrize(
    ("size", "method"), [(60, method) for method in METHODS] + [(7, "minimax")], ids=[*METHODS, "small"]
)
def test_shards_do_not_change_a_run(sample: Sample, tmp_path: Path, size: int, method: str) -> None:
    made = linker(sample[1], method=method)
    expected = hashes(made.link(few(sample)), tmp_path / "run")
    with opened(tmp_path / "work", shard_size=size, pool=Shuffled()) as work:
        found = work.over(made).link(few(sample))
    assert hashes(found, tmp_path / "other") == expected


@pytest.mark.parametrize("size", [1, 3])
def test_shards_of_one_name(tmp_path: Path, size: int) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"marsh fever {i % 3}", ("bog fever",)) for i in range(6)])
    documents = [document(f"d{i}", "marsh fever", "bog fever", f"marsh fevers {i % 2}", "zz") for i in range(4)]
    for decide in ("link", "discover"):
        plain = linker(kb, mention_threshold=None)
        with opened(tmp_path / f"{decide}-{size}", shard_size=size) as work:
            spread = work.over(plain)
            found, expected = (getattr(one, decide)(documents) for one in (spread, plain))
        assert hashes(found, tmp_path / "one") == hashes(expected, tmp_path / "other")


def test_processes_corrections_and_growth(sample: Sample, tmp_path: Path) -> None:
    documents, (mention, other) = few(sample), (few(sample)[0].mentions[0], few(sample)[1].mentions[0])
    corrections = [{"mention": mention.id, "entity": None}, {"same": [other.id, mention.id]}]
    plain = linker(sample[1])
    whole = hashes(plain.link(documents, corrections), tmp_path / "whole")
    with opened(tmp_path / "work", 2, shard_size=60) as work:
        spread = work.over(plain)
        assert hashes(spread.link(documents, corrections), tmp_path / "spread") == whole
        grown = spread.link(documents[:9], corrections)
    again = plain.add(grown, documents[9:])
    assert {name: digest for name, digest in hashes(again, tmp_path / "grown").items() if "parquet" in name} == {
        name: digest for name, digest in whole.items() if "parquet" in name
    }
    assert {part["made"] for part in parts_of(tmp_path / "work").values()} == {1}


def test_domains_and_types_are_spread_together(tmp_path: Path) -> None:
    entities = [arbo.Entity(f"E{i}", f"fever {i}", domain="ab"[i % 2]) for i in range(10)]
    documents = [document(f"d{i}", f"fever {i}", "fevers", domain="ab"[i % 2]) for i in range(10)]
    plain = linker(arbo.KnowledgeBase(entities), mention_threshold=None)
    with opened(tmp_path / "work", shard_size=2) as work:
        found = work.over(plain).link(documents)
    assert found.link_table.equals(plain.link(documents).link_table)


@given(data=st.data())
@settings(max_examples=25)
def test_a_grid_gives_the_lists_of_one_search(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With many ties, things with several vectors or none, and queries that are things."""
    draw = data.draw
    metric: Any = draw(st.sampled_from(["cosine", "dot"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.integers(0, 3, (draw(st.integers(1, 20)), 3)).astype(np.float32)
    owner = np.sort(rng.integers(0, 8, len(points))) if draw(st.booleans()) else None
    form = draw(st.sampled_from(["dense", "csr_array"]))
    things = vectors(points, form) if owner is None else vectors(points, form, owner=owner, n=9)
    queries = vectors(points if owner is None else points[:5], form)
    own = np.arange(things.n, dtype=np.int32) if owner is None else None
    others: Vectors | Index = Index.of(things, metric) if draw(st.booleans()) else things
    k, within = draw(st.integers(1, 12)), draw(st.sampled_from([None, 0.2, -1.0]))
    expected = nearest(queries, others, k, metric=metric, self_ids=own, within=within)
    with opened(tmp_path_factory.mktemp("work"), shard_size=draw(st.integers(1, 9)), pool=Shuffled()) as work:
        wanted = [Search(queries, others, own)]
        how: dict[str, Any] = {
            "metric": metric,
            "search": "exact",
            "within": within,
            "progress": lambda items, _: items,
        }
        (found,) = work.search_all(wanted, k, **how)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.dissimilarity.tobytes() == expected.dissimilarity.tobytes()


def test_a_shard_counts_all_vectors_of_its_things() -> None:
    points = np.random.default_rng(0).random((400, 3))
    several = vectors(points, owner=np.repeat(np.arange(4), 100))
    assert [shard.tolist() for shard in _shards(several, 10)] == [[0], [1], [2], [3]]
    assert [shard.tolist() for shard in _shards(several, 200)] == [[0, 1], [2, 3]]


def test_a_search_that_may_miss_neighbours_is_not_divided(tmp_path: Path) -> None:
    points = vectors(np.random.default_rng(0).random((50, 4)))
    with opened(tmp_path / "work", shard_size=5) as work:
        how: dict[str, Any] = {"metric": "cosine", "within": None, "progress": lambda items, _: items}
        (found,) = work.search_all([Search(points, points, None)], 3, search="hnsw", **how)
        twice = vectors(points.matrix, owner=np.arange(50) // 2)
        with pytest.raises(ValueError, match="exactly one vector"):
            list(work.search_all([Search(twice, points, None)], 3, search="exact", **how))
    assert found.ids.shape == (50, 3)
    assert parts_of(tmp_path / "work") == {}


def test_a_damaged_part_alone_is_made_again(tmp_path: Path) -> None:
    part = Part.of(tmp_path, "search", k=3)
    assert not part.is_finished()
    part.make(lambda: {"ids": np.arange(3)})
    assert part.is_finished()
    assert part.arrays()["ids"].tolist() == [0, 1, 2]
    part.make(lambda: pytest.fail("called"))
    np.save(part.folder / "ids.npy", np.arange(4))
    assert not part.is_finished()
    part.make(lambda: {"ids": np.arange(3)})
    assert read_manifest(part.folder)["made"] == 2
    other = Part.of(tmp_path, "search", k=4)
    assert other.name != part.name
    arrays = {"ids": np.arange(4)}
    other.make(lambda: other.make(lambda: arrays) or arrays)  # type: ignore[func-returns-value]
    assert read_manifest(other.folder)["made"] == 1


@pytest.mark.parametrize("name", ["ids.npy", MANIFEST])
def test_a_part_that_a_power_failure_tore_is_made_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a part waits for the disk"))
    part, arrays = Part.of(tmp_path, "search", k=3), {"ids": np.arange(300)}
    part.make(lambda: arrays)
    whole = (part.folder / name).read_bytes()
    for torn in (b"", whole[:90], whole[:-9], b"\0" * len(whole)):
        (part.folder / name).write_bytes(torn)
        assert not part.is_finished()
        part.make(lambda: arrays)
        assert part.is_finished()
        assert part.arrays()["ids"].tolist() == arrays["ids"].tolist()


def test_a_killed_worker_is_told() -> None:
    with pytest.raises(ArboError, match="run the same command again"), executors.executor(2) as pool:
        list(executors.completed(pool, [(signal.raise_signal, signal.SIGKILL)]))


def test_an_error_in_a_worker_is_that_of_the_job() -> None:
    with pytest.raises(ZeroDivisionError), executors.executor(2) as pool:
        list(executors.completed(pool, [(divmod, 1, 0)] * 200))


def test_calls_wait_few_at_a_time() -> None:
    begun = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        nonlocal begun
        for begun in range(1, 301):  # noqa: B007
            yield (abs, -1)

    results = executors.completed(None, calls())
    assert next(results) == 1
    assert begun == 1
    assert len([*results]) == 299


def test_all_workers_have_calls() -> None:
    together = threading.Barrier(100, timeout=60)
    with ThreadPoolExecutor(100) as pool:
        assert len([*executors.completed(pool, [(together.wait,)] * 100)]) == 100


def test_a_worker_has_one_thread_if_the_script_imports_numpy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import numpy\nfrom threadpoolctl import threadpool_info\nfrom arbo.scale.executors import executor\n"
        "if __name__ == '__main__':\n    with executor(2) as pool:\n"
        "        print([library['num_threads'] for library in pool.submit(threadpool_info).result()])\n",
        "utf-8",
    )
    told = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True)
    assert set(json.loads(told.stdout)) == {1}


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and "Z" not in state(pid)]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the list of processes of Linux")
@pytest.mark.parametrize("who", ["driver", "worker", "interrupted"])
def test_the_same_command_goes_on_after_a_kill(tmp_path: Path, who: str) -> None:
    files, work = sample_files(tmp_path), tmp_path / "work"
    job = linking(files, docs="test.jsonl")
    assert arbo_process("link", *job, "--out", tmp_path / "plain").returncode == 0
    spread = [
        "link",
        *job,
        "--out",
        tmp_path / "run",
        "--workers",
        2,
        "--set",
        "shard_size=40",
        "--set",
        f"work={work}",
    ]
    process = subprocess.Popen([sys.executable, "-m", "arbo", *map(str, spread)], stderr=subprocess.PIPE, text=True)
    while not (before := {name for name in parts_of(work) if name.startswith("search")} if work.exists() else set()):
        time.sleep(0.02)
    workers = children(process.pid)
    os.kill(workers[-1] if who == "worker" else process.pid, signal.SIGINT if who == "interrupted" else signal.SIGKILL)
    told = process.communicate()[1]
    if who == "worker":
        assert process.returncode == 1
        assert "run the same command again" in told
    if who == "interrupted":
        kept = f"finished parts are kept in {work}, and the same command takes them"
        assert (process.returncode, told) == (130, f"interrupted\n{kept}\n")
    for _ in range(500):
        if not alive(workers):
            break
        time.sleep(0.02)
    assert not alive(workers)
    made = parts_of(work)
    stamps = {name: (work / name / "part.json").stat().st_mtime_ns for name in made}
    assert arbo_process(*spread).returncode == 0
    after = parts_of(work)
    assert before <= made.keys() < after.keys()
    assert {part["made"] for part in after.values()} == {1}
    assert {name: (work / name / "part.json").stat().st_mtime_ns for name in made} == stamps
    saved = [json.loads((tmp_path / run / "manifest.json").read_text("utf-8"))["files"] for run in ("plain", "run")]
    assert saved[0] == saved[1]


def test_the_folder_beside_a_run_is_removed_and_one_that_is_given_kept(tmp_path: Path) -> None:
    files = sample_files(tmp_path)
    job = ["discover", files / "test.jsonl", "--out", tmp_path / "run", "--set", "shard_size=200"]
    assert arbo_process(*job).returncode == 0
    assert not (tmp_path / "run.work").exists()
    assert arbo_process(*job, "--set", f"work={tmp_path / 'run.work'}").returncode == 0
    (tmp_path / "run.work" / ".arbo-partial-1").mkdir()
    (tmp_path / "run.work" / ".arbo-partial-2").write_text("documents of a job that was killed", "utf-8")
    (tmp_path / "run.work" / "notes").mkdir()
    assert arbo_process(*job).returncode == 0
    assert [path.name for path in (tmp_path / "run.work").iterdir()] == ["notes"]
    assert arbo_process(*job, "--set", f"work={tmp_path / 'work'}").returncode == 0
    assert len([name for name in parts_of(tmp_path / "work") if name.startswith("search")]) == 4


def test_a_pattern_matches_nothing_that_the_job_writes(tmp_path: Path) -> None:
    sample_files(tmp_path)
    told = arbo_process("discover", tmp_path / "**/*t.json*", "--out", tmp_path / "run", "--set", "shard_size=200")
    assert told.returncode == 0, told.stderr
    told = arbo_process("discover", tmp_path / "**/*work*.json", "--out", tmp_path / "other", "--set", "shard_size=200")
    assert "no file matches this pattern" in told.stderr


def test_a_failure_leaves_what_is_of_others(tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text("{}\n", "utf-8")
    with opened(tmp_path / "run.work"):
        (tmp_path / "run.work" / ".arbo-partial-live").mkdir()
        job = ["discover", tmp_path / "wrong.jsonl", "--out", tmp_path / "run", "--set", "shard_size=200"]
        assert arbo_process(*job).returncode == 3
        assert len([*(tmp_path / "run.work").iterdir()]) > 1


def test_wrong_documents_leave_no_folder(tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text("{}\n", "utf-8")
    told = arbo_process("discover", tmp_path / "wrong.jsonl", "--out", tmp_path / "run", "--set", "shard_size=200")
    assert (told.returncode, [*tmp_path.iterdir()]) == (3, [tmp_path / "wrong.jsonl"])


def test_the_folder_stands_beside_a_run_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    with JobConfig(workers=1, shard_size=9).over(linker(None), Path()):
        assert (tmp_path / "run.work").exists()


def test_a_work_folder_in_the_run_is_refused(tmp_path: Path) -> None:
    files = sample_files(tmp_path)
    told = arbo_process(
        "discover", files / "test.jsonl", "--out", tmp_path / "run", "--set", f"work={tmp_path / 'run' / 'work'}"
    )
    assert told.returncode == 2
    assert "is in a run folder" in told.stderr
    before = tmp_path / "before"
    for folder in (before, before / "parts"):
        with (
            pytest.raises(UsageError, match=r"the work folder .*before.* is in a run folder"),
            JobConfig(work=str(folder)).over(linker(None), tmp_path / "run", before),
        ):
            pass
    assert not before.exists()


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    files = sample_files(tmp_path)
    (tmp_path / "corrections.jsonl").write_text("", "utf-8")
    job = [
        "discover",
        files / "test.jsonl",
        "--out",
        tmp_path / "run",
        "--set",
        f"work={tmp_path / 'work'}",
        "--set",
        "preview=true",
    ]
    told = arbo_process(*job, "--corrections", tmp_path / "corrections.jsonl")
    assert told.returncode == 0, told.stderr
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1000, 5000])
def test_shards_do_not_change_runs_of_real_corpora(shared: Any, tmp_path: Path, size: int) -> None:
    diseases = arbo.read_knowledge_base(shared("data/medic/medic_06Jul2012.txt"))
    papers = arbo.read_documents(shared("data/bc5cdr/CDR_TestSet.PubTator.txt"))
    news = arbo.read_documents(shared("data/ecbplus"), format="ecbplus")
    for kb, documents in ((diseases, papers), (None, news)):
        plain = arbo.Linker(kb)
        with opened(tmp_path / "work", shard_size=size) as work:
            spread = work.over(plain)
            one, other = (made.link(documents) if kb else made.discover(documents) for made in (plain, spread))
        assert hashes(one, tmp_path / "one") == hashes(other, tmp_path / "other")


def test_a_folder_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine", "utf-8")
    with pytest.raises(UsageError, match="not a work folder"), opened(tmp_path):
        pass
    with pytest.raises(UsageError, match="at least 1"), opened(tmp_path / "new", 0):
        pass

"""A job on a Ray cluster: the result of one process, also if a node ends in the middle."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linker
from cli_builders import arbo_process, linking, sample_files
from conftest import Sample
from test_scale import few, hashes, parts_of

from arbo.errors import ArboError, DataError, UsageError
from arbo.scale import cluster, parts
from arbo.scale.cluster import Cluster, connected
from arbo.scale.executors import completed
from arbo.scale.parts import Part
from arbo.scale.work import opened

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:x"])
def test_a_cluster_that_does_not_answer_is_told(address: str) -> None:
    with pytest.raises(UsageError, match="cannot use the Ray cluster"), connected(address):
        pass


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Start a cluster of two nodes with a CPU each; it tells dead nodes within seconds."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray import cloudpickle
    from ray.cluster_utils import Cluster as Nodes

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it

    how = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    started = Nodes(initialize_head=True, head_node_args={**how, "_system_config": health})
    started.add_node(**how)
    yield started
    started.shutdown()


@pytest.fixture(scope="module")
def pool(nodes: Any) -> Iterator[Cluster]:
    with connected(nodes.address) as connected_:
        yield connected_


@pytest.mark.parametrize(
    ("size", "method"),
    [(60, "arborescence"), (60, "minimax"), (60, "undirected"), (60, "independent"), (25, "arborescence")],
)
def test_two_nodes_do_not_change_a_run(sample: Sample, tmp_path: Path, pool: Cluster, size: int, method: str) -> None:
    made = linker(sample[1], method=method)
    documents, (mention, other) = few(sample), (few(sample)[0].mentions[0], few(sample)[1].mentions[0])
    corrections = [{"mention": mention.id, "entity": None}, {"same": [other.id, mention.id]}]
    expected = hashes(made.link(documents, corrections), tmp_path / "run")
    with opened(tmp_path / "work", shard_size=size, pool=pool) as work:
        spread = made.configured(search_all=work.search_all)
        assert hashes(spread.link(documents, corrections), tmp_path / "spread") == expected
        grown = made.add(spread.link(documents[:9], corrections), documents[9:])
    tables = {name: digest for name, digest in expected.items() if "parquet" in name}
    assert hashes(grown, tmp_path / "grown").items() >= tables.items()
    assert {part["made"] for part in parts_of(tmp_path / "work").values()} == {1}


def make(number: int) -> dict[str, Any]:
    time.sleep(0.1)
    return {"number": np.array([number, os.getppid()])}  # the parent is the node


def test_a_node_that_ends_in_the_middle(tmp_path: Path, nodes: Any, pool: Cluster) -> None:
    third = nodes.add_node(num_cpus=2, object_store_memory=80_000_000)
    pid = third.all_processes["raylet"][0].process.pid
    asked: list[Part] = []
    before: dict[str, int] = {}

    def calls() -> Iterator[tuple[Any, ...]]:
        while not before or len(asked) < 60:
            asked.append(Part.of(tmp_path, "part", number=len(asked)))
            yield asked[-1].make, make, len(asked) - 1

    for _ in completed(pool, calls()):
        if not before and pid in {
            node for part in asked if part.is_finished() for _, node in [part.arrays()["number"]]
        }:
            before = {part.name: stamp(part) for part in asked if part.is_finished()}
            nodes.remove_node(third, allow_graceful=False)
    made = [part.arrays()["number"] for part in asked]
    assert [number for number, _ in made] == [*range(len(asked))]
    assert pid in {node for _, node in made}
    assert {part["made"] for part in parts_of(tmp_path).values()} == {1}
    assert {part.name: stamp(part) for part in asked if part.name in before} == before


def stamp(part: Part) -> int:
    return (part.folder / "part.json").stat().st_mtime_ns


def test_a_run_whose_node_ends(sample: Sample, tmp_path: Path, nodes: Any, pool: Cluster) -> None:
    plain, third = linker(sample[1]), nodes.add_node(num_cpus=2, object_store_memory=80_000_000)
    expected = hashes(plain.link(few(sample)), tmp_path / "plain")

    def end() -> None:
        while len(parts_of(tmp_path / "work")) < 40:
            time.sleep(0.02)
        nodes.remove_node(third, allow_graceful=False)

    (tmp_path / "work").mkdir()
    ends = threading.Thread(target=end)
    with opened(tmp_path / "work", shard_size=7, pool=pool) as work:
        ends.start()
        found = plain.configured(search_all=work.search_all).link(few(sample))
    ends.join()
    assert hashes(found, tmp_path / "run") == expected
    assert {part["made"] for part in parts_of(tmp_path / "work").values()} == {1}


def test_a_cluster_that_was_not_started_here_stays(tmp_path: Path, nodes: Any) -> None:
    job = linking(sample_files(tmp_path), docs="test.jsonl")
    assert arbo_process("link", *job, "--out", tmp_path / "plain").returncode == 0
    spread = ["link", *job, "--out", tmp_path / "run", "--shard-size", 60]
    for address in (nodes.address, nodes.address, "local"):
        told = arbo_process(*spread, "--ray", address, "--json", *(["--workers", 2] if address == "local" else []))
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["mentions"]
        saved = [json.loads((tmp_path / run / "manifest.json").read_text("utf-8"))["files"] for run in ("plain", "run")]
        assert saved[0] == saved[1]
    told = arbo_process(*spread, "--ray", nodes.address, "--workers", 2)
    assert told.returncode == 2
    assert "--workers is for --ray local" in told.stderr


def fail() -> None:
    raise DataError("there is a fault", file="file", line=3)


def test_an_error_of_a_task_is_that_of_the_job(pool: Cluster) -> None:
    with pytest.raises(DataError, match=r"^file, line 3: there is a fault$") as caught:
        list(completed(pool, [(fail,)] * 3))
    assert type(caught.value) is DataError


def test_a_task_whose_worker_ends_is_not_made_again(pool: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ArboError, match="run the same command again"):
        list(completed(pool, [(end_worker, tmp_path / "begun")]))
    assert (tmp_path / "begun").read_text("utf-8") == "x"


def end_worker(begun: Path) -> None:
    with begun.open("a", encoding="utf-8") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_has_one_thread(pool: Cluster) -> None:
    assert pool.submit(threads).result() == {1}


def threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {os.cpu_count() or 0, *(library["num_threads"] for library in threadpool_info())}


def test_more_calls_wait_for_more_workers(pool: Cluster) -> None:
    begun = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        nonlocal begun
        for begun in range(1, 301):  # noqa: B007
            yield (time.sleep, 0.01)

    results = completed(pool, calls())
    next(results)
    assert begun <= 65
    assert len([*results]) == 299


def test_what_a_cluster_lacks_is_told(pool: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no node of the Ray cluster"):
        Cluster(10**15)
    assert pool.on_gpu is pool
    monkeypatch.setattr(cluster, "_version", lambda: "other")
    with pytest.raises(UsageError, match="another version of arbo"):
        pool.submit(abs, -1).result()


def test_a_folder_that_a_machine_does_not_see_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part.of(tmp_path, "part", number=1)
    monkeypatch.setattr(parts, "_SEEN", 0)
    with pytest.raises(UsageError, match="on a disk that all nodes share"):
        part.arrays()
    monkeypatch.setattr(parts, "_SEEN", 60)
    late = threading.Timer(0.2, part.make, (make, 1))
    late.start()
    assert part.arrays()["number"][0] == 1
    late.join()
    with pytest.raises(UsageError, match="on a disk that all nodes share"):
        Part.of(tmp_path / "absent", "part").arrays()

"""A job on a Ray cluster: the result of one process, also if a node ends in the middle."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import arbo_process, linking
from conftest import Run, Sample
from test_scale import check_growth, few, hashes, parts_of, with_transformer

from arbo.encoders import dual
from arbo.encoders.tower import Tower
from arbo.errors import ArboError, DataError, UsageError
from arbo.scale import executors, parts
from arbo.scale.executors import Cluster, completed, connected
from arbo.scale.parts import Part
from arbo.scale.work import opened

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:x", "ray://one:10001"])
def test_a_cluster_that_does_not_answer_is_told(address: str) -> None:
    with pytest.raises(UsageError, match=r"cannot use the Ray cluster .*RAY_AUTH_MODE"), connected(address):
        pass


@pytest.mark.parametrize(("host", "family"), [("localhost", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_ray_is_given_the_number_of_a_host(host: str, family: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    asked: list[str] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda address, **_: asked.append(address))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(executors, "Cluster", lambda memory: None)
    with socket.socket(family) as listening:
        try:
            listening.bind((host, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listening.listen()
        port = listening.getsockname()[1]
        with connected(f"{host}:{port}"):
            pass
    assert asked == [f"127.0.0.1:{port}" if host == "localhost" else f"::1:{port}"]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Start a cluster of two nodes with a CPU each; it tells dead nodes within seconds."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray import cloudpickle
    from ray.cluster_utils import Cluster as Nodes

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it

    how = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")  # what a worker does not take
        started = Nodes(initialize_head=True, head_node_args={**how, "_system_config": health})
        started.add_node(**how)
    yield started
    started.shutdown()


@pytest.fixture(scope="module")
def pool(nodes: Any) -> Iterator[Cluster]:
    with connected(nodes.address) as connected_:
        yield connected_


def test_two_nodes_do_not_change_a_run(sample: Sample, tmp_path: Path, pool: Cluster) -> None:
    check_growth(sample, tmp_path, pool=pool)


def test_two_nodes_embed_as_one_process(
    sample: Sample, bert: Tower, tmp_path: Path, pool: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual, "SLICE", 64)
    plain = with_transformer(sample, bert)
    expected = hashes(plain.link(few(sample)), tmp_path / "plain")
    with opened(tmp_path / "work", pool=pool) as work:
        assert hashes(plain.configured(over=work).link(few(sample)), tmp_path / "spread") == expected
    assert sum(name.startswith("embedding") for name in parts_of(tmp_path / "work")) > 2


def make(number: int) -> dict[str, Any]:
    return {"number": np.array([number])}


def test_a_cluster_that_was_not_started_here_stays(
    tmp_path: Path, nodes: Any, pool: Cluster, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    job = linking(files, "test.jsonl")
    assert run("link", *job, "--out", tmp_path / "plain").code == 0
    spread = ["link", *job, "--out", tmp_path / "run", "--set", "shard_size=60"]
    for address in (nodes.address, "local"):
        told = arbo_process(*spread, "--ray", address, "--json", *(["--workers", 2] if address == "local" else []))
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["mentions"]
        saved = [json.loads((tmp_path / run / "manifest.json").read_text("utf-8")) for run in ("plain", "run")]
        assert saved[0]["files"] == saved[1]["files"]
    assert not (tmp_path / ".ray").exists()  # a token would be asked for by clusters that are started later
    assert pool.submit(abs, -1).result(60) == 1


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


def test_more_calls_wait_for_more_workers(pool: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_WAITING", 1)
    begun = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        nonlocal begun
        for begun in range(1, 11):  # noqa: B007
            yield (time.sleep, 0.3)

    results = completed(pool, calls())
    next(results)
    assert pool._max_workers == 2
    assert 1 < begun <= 4
    assert len([*results]) == 9


def test_what_a_cluster_lacks_is_told(pool: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no node of the Ray cluster"):
        Cluster(10**15)
    assert pool.for_texts(10**15).memory == 0
    monkeypatch.setattr(executors, "code", lambda: "other")
    with pytest.raises(UsageError, match="another version of arbo"):
        pool.submit(abs, -1).result()


def test_embedding_asks_for_a_gpu_if_a_node_has_all_of_it(nodes: Any, pool: Cluster) -> None:
    assert pool.for_texts(1).device == "cpu"
    how = {"num_cpus": 1, "num_gpus": 1, "memory": 200_000_000, "object_store_memory": 80_000_000}
    third, told = nodes.add_node(**how), Cluster(1)
    texts = told.for_texts(100_000_000)
    assert (texts.gpus, texts.device, texts.memory) == (1, "cuda", 100_000_000)
    assert (texts.submit(given_gpus).result(120), told.submit(given_gpus).result(120)) == (1, 0)
    assert told.for_texts(300_000_000).device == "cpu"
    nodes.remove_node(third)


def given_gpus() -> int:
    import ray

    return len(ray.get_gpu_ids())


def test_a_folder_that_a_machine_does_not_see_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part.of(tmp_path, "part", number=1)
    monkeypatch.setattr(parts, "_SEEN", 0)
    with pytest.raises(UsageError, match="on a disk of all nodes"):
        part.arrays()
    monkeypatch.setattr(parts, "_SEEN", 60)
    late = threading.Timer(0.2, part.make, (make, 1))
    late.start()
    assert part.arrays()["number"][0] == 1
    late.join()
    with pytest.raises(UsageError, match="on a disk of all nodes"):
        Part.of(tmp_path / "absent", "part").arrays()

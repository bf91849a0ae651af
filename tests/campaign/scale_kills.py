"""Kills of a job in shards: its workers, its driver and its nodes, at random times."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import arbo
from arbo.data.corpus import Corpus
from arbo.scale.parts import read_manifest
from campaign.runner import Campaign

_DOCUMENTS = 4


def _kills(seed: int, folder: Path, address: str | None = None) -> None:
    """Kill a job two to four times, give the same command again, and compare it with a run in memory."""
    random, stamps = Random(seed), dict[str, int]()
    given, expected = _plain()
    spread = ["--ray", address] if address else ["--workers", "2"]
    job = [*given, "--out", folder / "run", "--shard-size", "12", "--work", folder / "work", *spread]
    kills = random.randint(2, 4)
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "arbo", *map(str, job)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if kills:
            kills -= 1
            more = len(_parts(folder)) + random.randrange(80)
            while process.poll() is None and len(_parts(folder)) < more:
                time.sleep(0.005)
            time.sleep(random.random() / 20)
            victims = ["driver", "worker", "node"][: 3 if address else 2]
            _kill(random.choice(victims), process, address, random)
        told = process.communicate()[1]
        assert {name: stamp for name, stamp in _parts(folder).items() if name in stamps} == stamps, "made again"
        stamps |= _parts(folder)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL or "run the same command again" in told, told
    assert json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"] == expected
    assert {read_manifest(folder / "work" / name)["made"] for name in stamps} == {1}
    assert len([name for name in stamps if name.startswith("search")]) > 50


def _parts(folder: Path) -> dict[str, int]:
    """Return the time at which each finished part was written."""
    work = folder / "work"
    names = [path.name for path in work.iterdir()] if work.exists() else []
    return {
        name: (work / name / "part.json").stat().st_mtime_ns
        for name in names
        if not name.startswith(".") and (work / name / "part.json").exists()
    }


@cache
def _plain() -> tuple[list[Any], dict[str, str]]:
    """Write the inputs and a run in memory; return the command and the hashes of the run's files."""
    folder = Path(mkdtemp(prefix="arbo-campaign-plain-"))
    documents, kb = arbo.load_sample()
    Corpus.of(documents[:_DOCUMENTS]).to_jsonl(folder / "documents.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    job = ["link", folder / "documents.jsonl", "--kb", folder / "kb.jsonl"]
    subprocess.run([sys.executable, "-m", "arbo", *job, "--out", folder / "run"], check=True, capture_output=True)
    return job, json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"]


def _kill(what: str, process: subprocess.Popen[str], address: str | None, random: Random) -> None:
    above, victims = [process.pid], [process.pid] if what == "driver" else []
    if address:
        nodes = [node for node in _nodes().list_all_nodes()[1:] if node.all_processes.get("raylet")]
        above = [node.all_processes["raylet"][0].process.pid for node in nodes]
    if what == "node":
        _nodes().remove_node(random.choice(nodes), allow_graceful=False)
        _nodes().add_node(**_NODE)
        return
    while not victims and process.poll() is None:  # workers begin after the driver
        victims = [pid for one in above for pid in _children(one) if _is_worker(pid)]
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.kill(random.choice(victims or [process.pid]), signal.SIGKILL)


def _is_worker(pid: int) -> bool:
    try:
        told = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return told.startswith((b"ray::_call", b"ray::IDLE")) or b"spawn_main" in told


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]
    except OSError:
        return []


_NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}


@cache
def _nodes() -> Any:
    """Start a cluster of Ray with two nodes that make tasks and a head that makes none."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    nodes = Cluster(initialize_head=True, head_node_args={**_NODE, "num_cpus": 0, "_system_config": health})
    for _ in range(2):
        nodes.add_node(**_NODE)
    atexit.register(nodes.shutdown)
    return nodes


def _ray_kills(seed: int, folder: Path) -> None:
    _kills(seed, folder, _nodes().address)


_ASKS = "a job whose {} are killed goes on: the same tables, and no finished part is made again"
CAMPAIGNS = {  # a case has three kills on average; those of CI have eleven in all
    "processes": Campaign(_kills, _ASKS.format("workers or driver"), many=50, few=2, processes=True, slow=True),
    "ray": Campaign(
        _ray_kills, _ASKS.format("nodes, workers or driver"), many=50, few=2, gigabytes=64, processes=True, slow=True
    ),
}

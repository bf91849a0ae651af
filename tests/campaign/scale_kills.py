"""Kills of a job in shards: its workers, its driver and its nodes, at random times."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from builders import save_lines
from test_scale import children, parts_of
from tiny_models import bert

import arbo
from campaign.runner import Campaign, kills_made

_PARTS = {"link": ("search",), "add": ("search",), "embed": ("embedding", "search")}
"""Kinds of jobs, and the kinds of parts during which they are killed; each job has several of each."""
_COPIES = 10
"""Of each document."""


def _kills(seed: int, folder: Path, address: str | None = None) -> None:
    """Kill a job two to four times, give the same command again, and compare it with a run in memory."""
    random, stamps, (kind, parts) = Random(seed), dict[str, int](), [*_PARTS.items()][seed % len(_PARTS)]
    given, expected, totals = plain(kind)
    job = [*given, "--out", folder / "run", "--set", f"work={folder / 'work'}"]
    job += ["--set", f"cache={folder / 'cache'}"] if kind == "embed" else []
    job += ["--ray", address] if address else ["--workers", "2"]
    moments = sorted((random.randrange(len(parts)), random.random()) for _ in range(random.randint(2, 4)))
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "arbo", *map(str, job)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        while moments and process.poll() is None:
            (place, share), victim = moments[0], random.choice(["driver", "worker", "node"][: 3 if address else 2])
            while process.poll() is None and finished(folder, parts[place], totals) < share:
                time.sleep(0.002)
            time.sleep(random.random() / 50)
            if process.poll() is None:
                moments.pop(0)
                kills_made()[f"{victim}, {kind}, {parts[place]}"] += 1
                _kill(victim, process, address, random)
                if victim != "node":
                    break
        told = process.communicate()[1]
        now = parts_of(folder / "work")
        assert {name: now.get(name) for name in stamps} == stamps, "made again"
        stamps |= now
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL or "run the same command again" in told, told
    assert json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"] == expected
    counts = Counter(name.partition("-")[0] for name in stamps)
    assert min(counts[part] for part in parts) > 2, counts


def finished(folder: Path, kind: str, totals: Counter[str]) -> float:
    """Return the share of the parts of a kind that is finished."""
    return sum(name.partition("-")[0] == kind for name in parts_of(folder / "work")) / totals[kind]


@cache
def plain(kind: str) -> tuple[list[Any], dict[str, str], Counter[str]]:
    """Write inputs, and run them in memory and in shards; return the command, the hashes of the run, and its parts."""
    folder = Path(mkdtemp(prefix="arbo-campaign-plain-"))
    documents, kb = arbo.load_sample()
    arbo.KnowledgeBase(kb.entities[:20]).to_jsonl(folder / "kb.jsonl")
    rows = [(one, [{"spans": [(m.start, m.end)]} for m in one.mentions]) for one in documents[:4]]
    texts = [{"id": f"{one.id}.{i}", "text": one.text, "mentions": m} for one, m in rows for i in range(_COPIES)]
    known = texts[:-_COPIES] if kind == "add" else texts
    job = ["link", save_lines(folder / "known.jsonl", *known), "--kb", folder / "kb.jsonl"]
    size, how = "4", list[Any]()
    if kind == "add":
        _run(*job, "--out", folder / "before")
        job = ["add", folder / "before", save_lines(folder / "new.jsonl", *texts[-_COPIES:])]
    elif kind == "embed":
        names = [f"marsh fever {i}" for i in range(2500)]  # more than two slices
        texts = [{"id": name, "text": name, "mentions": [{"spans": [(0, len(name))]}]} for name in names]
        job = ["discover", save_lines(folder / "names.jsonl", *texts), "--encoder", bert(folder / "model")]
        size, how = "300", ["--set", f"cache={folder / 'cache'}"]
    _run(*job, "--out", folder / "run", *how)
    found = json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"]
    job += ["--set", f"shard_size={size}"]
    _run(*job, "--out", folder / "spread", "--set", f"work={folder / 'work'}")
    return job, found, Counter(name.partition("-")[0] for name in parts_of(folder / "work"))


def _run(*job: object) -> None:
    subprocess.run([sys.executable, "-m", "arbo", *map(str, job)], check=True, capture_output=True)


def _kill(what: str, process: subprocess.Popen[str], address: str | None, random: Random) -> None:
    above, victims = [process.pid], [process.pid] if what == "driver" else []
    if address:
        nodes = [node for node in cluster().list_all_nodes()[1:] if node.all_processes.get("raylet")]
        above = [node.all_processes["raylet"][0].process.pid for node in nodes]
    if what == "node":
        cluster().remove_node(random.choice(nodes), allow_graceful=False)
        cluster().add_node(**_NODE)
        return
    while not victims and process.poll() is None:  # workers begin after the driver
        victims = [pid for one in above for pid in children(one) if _is_worker(pid)]
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.kill(random.choice(victims or [process.pid]), signal.SIGKILL)


def _is_worker(pid: int) -> bool:
    try:
        told = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return told.startswith((b"ray::_call", b"ray::IDLE")) or b"spawn_main" in told


_NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}


@cache
def cluster() -> Any:
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
    _kills(seed, folder, cluster().address)


_ASKS = "a job whose {} are killed goes on: the same tables, and no finished part is made again"
_HOW: Any = {"many": 50, "few": 0, "processes": True, "slow": True}  # a case has two to four kills
CAMPAIGNS = {
    "processes": Campaign(_kills, _ASKS.format("workers or driver"), **_HOW),
    "ray": Campaign(_ray_kills, _ASKS.format("nodes, workers or driver"), **_HOW, gigabytes=64),
}

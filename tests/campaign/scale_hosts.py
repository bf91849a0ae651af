"""A Ray cluster by hand on two hosts, as docs/scale.md has it, and the cable between them pulled out.

The hosts are namespaces of Linux, each with an address, a name, processes and files of Ray of its own. It needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from unittest import SkipTest

from campaign.runner import Campaign
from campaign.scale_kills import finished, plain

_ADDRESSES = {"one": "10.77.0.1", "two": "10.77.0.2"}
_MOST = 600
"""Seconds of a job: Ray waits for answers of a host that is lost for seven minutes."""


def _case(seed: int, folder: Path) -> None:
    """Run a job on either host of a cluster, or on the first one while the second one is lost; compare the run."""
    random, is_cut = Random(seed), seed % 2 == 1
    given, expected, totals = plain(random.choice(["link", "add"]))
    with _hosts(folder) as (one, two):
        one.run("ray", "get-auth-token", "--generate")
        shutil.copytree(one.home / ".ray", two.home / ".ray")
        one.run("ray", "start", "--head", "--port", "6379", "--num-cpus", "2")
        two.run("ray", "start", "--address", f"{_ADDRESSES['one']}:6379", "--num-cpus", "2")
        driver, share, told = random.choice([one, one if is_cut else two]), random.random(), folder / "told"
        job = [*given, "--out", folder / "run", "--set", f"work={folder / 'work'}", "--ray", "one:6379"]
        process = driver.begin(told, sys.executable, "-m", "arbo", *job)
        if is_cut:
            while process.poll() is None and finished(folder, "search", totals) < share:
                time.sleep(0.005)
            _ip("netns", "exec", two.space, "ip", "link", "set", two.cable, "down")
            assert process.poll() is None, "it ended before the cable was pulled out"
        assert process.wait(_MOST) == 0, told.read_text("utf-8")
    assert json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"] == expected


class _Host:
    """Namespaces that a process keeps, which begins no other and ends with those in them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.home, self.space, self.cable = folder / name, f"arbo-{name}-{os.getpid()}", f"to-{name}"
        self.home.mkdir()
        mounts = f"mount -t tmpfs none /tmp/ray && mount --bind {folder}/hosts /etc/hosts"
        keep = ["unshare", "-mup", "--fork", "--mount-proc", "--kill-child", "--propagation", "private"]
        keep += ["sh", "-c", f"{mounts} && hostname {name} && echo && exec sleep infinity"]
        _ip("netns", "add", self.space)
        self.keeper = subprocess.Popen(["ip", "netns", "exec", self.space, *keep], stdout=subprocess.PIPE)

    def begin(self, told: Path, *command: object) -> subprocess.Popen[bytes]:
        """Start a command on the host; what it tells goes to a file, since `ray start` leaves processes behind."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {"HOME": str(self.home), "PATH": path, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
        children = Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text("utf-8")
        enter = ["nsenter", "-t", children.strip(), "-n", "-m", "-u", "-p", *map(str, command)]
        with told.open("w") as stream:
            return subprocess.Popen(enter, env=os.environ | given, stdout=stream, stderr=stream)

    def run(self, *command: object) -> None:
        """Run a command on the host."""
        told = self.home / "told"
        assert self.begin(told, *command).wait(60) == 0, told.read_text("utf-8")

    def end(self) -> None:
        """End all that runs on the host, and the host."""
        self.keeper.kill()
        self.keeper.wait()
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.space)


@contextmanager
def _hosts(folder: Path) -> Iterator[list[_Host]]:
    """Make two hosts with a cable between them."""
    if not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        raise SkipTest("needs ip, unshare and nsenter")
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in _ADDRESSES.items())]
    (folder / "hosts").write_text("\n".join(lines) + "\n", "utf-8")
    Path("/tmp/ray").mkdir(exist_ok=True)
    hosts: list[_Host] = []
    try:
        for name in _ADDRESSES:
            hosts.append(_Host(name, folder))
        ends = [["name", host.cable, "netns", host.space] for host in hosts]
        _ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for host, address in zip(hosts, _ADDRESSES.values(), strict=True):
            inside = ("netns", "exec", host.space, "ip")
            _ip(*inside, "link", "set", "lo", "up")
            _ip(*inside, "address", "add", f"{address}/24", "dev", host.cable)
            _ip(*inside, "link", "set", host.cable, "up")
            _ip(*inside, "route", "add", "default", "dev", host.cable)  # by which Ray finds its own address
            assert host.keeper.stdout is not None
            if not host.keeper.stdout.readline():
                raise SkipTest("namespaces cannot be made here")
        yield hosts
    except subprocess.CalledProcessError as error:
        raise SkipTest(f"namespaces cannot be made here: {error.stderr!r}") from error
    finally:
        for host in hosts:
            host.end()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


CAMPAIGNS = {
    "ray": Campaign(
        _case,
        "a job on two hosts, one of which may be lost, gives the same tables",
        many=10,
        few=0,
        seconds=900,
        gigabytes=64,
        processes=True,
        slow=True,
    )
}

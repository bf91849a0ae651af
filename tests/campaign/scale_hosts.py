"""A Ray cluster by hand on two hosts, as docs/scale.md has it, and the cable between them pulled out.

The hosts are namespaces of Linux, each with an address, a name and files of Ray of its own. It needs root, and `ip`.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from unittest import SkipTest

from campaign.runner import Campaign
from campaign.scale_kills import finished, plain

_ADDRESSES = {"one": "10.77.0.1", "two": "10.77.0.2"}
_TOOLS = ("ip", "unshare", "nsenter")


def _case(seed: int, folder: Path) -> None:
    """Run a job on either host of a cluster, or on the first one while the second one is lost; compare the run."""
    random, (one, two), is_cut = Random(seed), _hosts(), seed % 2 == 1
    given, expected = plain(random.choice(["link", "add"]))
    one.run("ray", "start", "--head", "--port", "6379", "--num-cpus", "2")
    try:
        two.run("ray", "start", "--address", f"{_ADDRESSES['one']}:6379", "--num-cpus", "2")
        driver, share, told = random.choice([one, one if is_cut else two]), random.random(), folder / "told"
        job = [*given, "--out", folder / "run", "--work", folder / "work", "--ray", "one:6379"]
        process = driver.begin(told, sys.executable, "-m", "arbo", *job)
        if is_cut:
            while process.poll() is None and finished(folder, "nearest entities", 0) < share:
                time.sleep(0.005)
            two.cable("down")
        assert process.wait(700) == 0, told.read_text("utf-8")
        assert json.loads((folder / "run" / "manifest.json").read_text("utf-8"))["files"] == expected
    finally:
        two.cable("up")
        for host in (two, one):
            host.run("ray", "stop", "--force")


class _Host:
    """Namespaces of the network, of mounts and of the host's name, which a process that sleeps keeps."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, home / name
        self.home.mkdir()
        mounts = f"mount --make-rprivate / && mount -t tmpfs none /tmp/ray && mount --bind {home}/hosts /etc/hosts"
        keep = ["unshare", "-m", "-u", "sh", "-c", f"{mounts} && hostname {name} && echo && exec sleep infinity"]
        self.keeper = subprocess.Popen(["ip", "netns", "exec", name, *keep], stdout=subprocess.PIPE)
        assert self.keeper.stdout is not None
        assert self.keeper.stdout.readline(), "the namespaces cannot be made"

    def begin(self, told: Path, *command: object) -> subprocess.Popen[bytes]:
        """Start a command on the host; what it tells goes to a file, since `ray start` leaves processes behind."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {"HOME": str(self.home), "PATH": path, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
        enter = ["nsenter", "-t", str(self.keeper.pid), "-n", "-m", "-u", *map(str, command)]
        with told.open("w") as stream:
            return subprocess.Popen(enter, env=os.environ | given, stdout=stream, stderr=stream)

    def run(self, *command: object) -> None:
        """Run a command on the host."""
        told = self.home / "told"
        assert self.begin(told, *command).wait(100) == 0, told.read_text("utf-8")

    def cable(self, state: str) -> None:
        """Plug the cable in, or pull it out."""
        _ip("netns", "exec", self.name, "ip", "link", "set", f"to-{self.name}", state)


@cache
def _hosts() -> tuple[_Host, _Host]:
    """Make two hosts with a cable between them, and a token of Ray on both."""
    if os.name != "posix" or os.geteuid() or not all(map(shutil.which, _TOOLS)):
        raise SkipTest(f"needs root, and {', '.join(_TOOLS)}")
    home = Path(mkdtemp(prefix="arbo-campaign-hosts-"))
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in _ADDRESSES.items())]
    (home / "hosts").write_text("\n".join(lines) + "\n", "utf-8")
    Path("/tmp/ray").mkdir(exist_ok=True)
    for name in _ADDRESSES:
        _ip("netns", "add", name)
        atexit.register(_ip, "netns", "delete", name)
    _ip("link", "add", "to-one", "netns", "one", "type", "veth", "peer", "name", "to-two", "netns", "two")
    for name, address in _ADDRESSES.items():
        inside = ("netns", "exec", name, "ip")
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "address", "add", f"{address}/24", "dev", f"to-{name}")
        _ip(*inside, "link", "set", f"to-{name}", "up")
        _ip(*inside, "route", "add", "default", "dev", f"to-{name}")  # by which Ray finds its own address
    one, two = (_Host(name, home) for name in _ADDRESSES)
    for host in (one, two):
        atexit.register(host.keeper.kill)
    one.run("ray", "get-auth-token", "--generate")
    shutil.copytree(one.home / ".ray", two.home / ".ray")
    return one, two


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


CAMPAIGNS = {
    "ray": Campaign(
        _case,
        "a job on two hosts, one of which may be lost, gives the same tables",
        many=10,
        seconds=900,
        few=0,
        gigabytes=64,
        processes=True,
        slow=True,
    )
}

"""A service under many clients, and a run under many additions: no error, and no growth that is not data.

A case of `service` is five seconds of 64 clients on loopback, and the service lives through all cases of a process: 120
of them are ten minutes. Besides requests that must be answered, there are slow and cancelled ones, invalid ones, and
bodies beyond the limit. The percentiles are printed at the end.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import arbo
from campaign.runner import Campaign

_CLIENTS = 64
_SECONDS = 5
_MOST_GROWTH = 100
"""Megabytes that the service may grow by after its first answers, in whatever time."""


@dataclass
class _Served:
    """A service, and what it answered."""

    port: int
    process: int
    took: list[float] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)

    def tell(self) -> None:
        """Print the percentiles."""
        ms = statistics.quantiles([1000 * one for one in self.took], n=100)
        told = f"p50 {ms[49]:.0f}, p95 {ms[94]:.0f}, p99 {ms[98]:.0f}, most {1000 * max(self.took):.0f} ms"
        first, *_, last = self.memory + self.memory
        memory = f"{first:.0f} MB after the first answers, at most {max(self.memory):.0f}, {last:.0f} at the end"
        print(f"\n{_CLIENTS} clients: {len(self.took):,} answers, {told}; {self.counts}; {memory}", file=sys.stderr)


@functools.cache
def _service() -> _Served:
    folder = Path(tempfile.mkdtemp(prefix="arbo-load-"))
    arbo.load_sample()[1].to_jsonl(folder / "kb.jsonl")
    log = folder / "log"
    command = [sys.executable, "-m", "arbo", "serve", "--kb", str(folder / "kb.jsonl"), "--port", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream)
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text("utf-8"))):
        assert process.poll() is None, log.read_text("utf-8")
        time.sleep(0.05)
    served = _Served(int(found[1]), process.pid)

    def end() -> None:
        process.terminate()
        process.wait()
        if len(served.took) > 1:
            served.tell()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return served


@functools.cache
def _texts() -> list[tuple[bytes, bytes]]:
    """Return pairs of a head line and a body, all to be answered with 200."""
    asked = []
    documents = arbo.load_sample()[0]
    for one in documents:
        spans = [[mention.start, mention.end - mention.start] for mention in one.mentions]
        asked.append((b"POST /link", json.dumps({"text": one.text, "spans": spans}).encode()))
        asked.append((b"POST /link", json.dumps({"text": one.text}).encode()))
        names = {f"q{place}": {"query": mention.text} for place, mention in enumerate(one.mentions)}
        asked.append((b"POST /reconcile", urlencode({"queries": json.dumps(names)}).encode()))
    return [*asked, (b"GET /health", b"")]


def _head(line: bytes, size: int) -> bytes:
    return line + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + str(size).encode() + b"\r\n\r\n"


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head.lower())
    assert size, head
    await reader.readexactly(int(size[1]))
    return int(head.split()[1])


async def _client(served: _Served, random: Random, end: float) -> None:
    """Ask until a time, on one connection as long as it lasts."""
    while time.monotonic() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        with contextlib.closing(writer):
            while time.monotonic() < end and await _ask(served, random, reader, writer):
                pass


async def _ask(served: _Served, random: Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Ask once; return whether the connection goes on."""
    line, body = random.choice(_texts())
    kind, wanted = random.random(), {200}
    if kind < 0.03:  # cancelled
        writer.write(_head(line, len(body)) + body[: random.randrange(len(body) + 1)])
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return False
    if kind < 0.04:
        line, body, wanted = b"POST /link", b'{"text": "' + b"x" * 2_100_000 + b'"}', {413}
    elif kind < 0.08:
        line, body, wanted = b"POST /link", random.randbytes(random.randrange(200)), {400}
    elif kind < 0.10:
        line, body, wanted = b"GET /nothing", b"", {404}
    begun = time.monotonic()
    writer.write(_head(line, len(body)))
    if 0.10 <= kind < 0.13 and body:  # slow
        for at in range(0, len(body), 1 + len(body) // 4):
            writer.write(body[at : at + 1 + len(body) // 4])
            await asyncio.sleep(random.random())
    else:
        writer.write(body)
        await writer.drain()
    status = await asyncio.wait_for(_answer(reader), 60)
    served.counts[status] = served.counts.get(status, 0) + 1
    assert status in wanted, f"{line!r} {body[:200]!r}: {status}"
    if kind >= 0.13:
        served.took.append(time.monotonic() - begun)
    return status == 200


async def _first(served: _Served) -> None:
    for line, body in _texts()[-31:]:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        with contextlib.closing(writer):
            writer.write(_head(line, len(body)) + body)
            assert await _answer(reader) == 200


def _memory(process: int | str) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _load(seed: int, folder: Path) -> None:
    served, random = _service(), Random(seed)
    if not served.memory:
        asyncio.run(_first(served))
        served.memory.append(_memory(served.process))
    end = time.monotonic() + _SECONDS

    async def clients() -> None:
        await asyncio.gather(*(_client(served, Random(random.random()), end) for _ in range(_CLIENTS)))

    asyncio.run(clients())
    served.memory.append(_memory(served.process))
    assert served.memory[-1] - served.memory[0] < _MOST_GROWTH, f"the service grew: {served.memory}"


_ADDITIONS = 10, 30, 100, 300, 1000


def _additions(seed: int, folder: Path) -> None:
    """Add documents one by one; the run must be its refit, and no larger."""
    random, n = Random(seed), _ADDITIONS[min(seed, len(_ADDITIONS) - 1)] if seed < 1000 else random_size(seed)
    documents, kb = arbo.load_sample()
    pool = list(documents)
    made = [_copy(random.choice(pool), number) for number in range(n + 1)]
    linker = arbo.Linker(kb if seed % 2 == 0 else None)
    result = linker.link(made[:1]) if seed % 2 == 0 else linker.discover(made[:1])
    half = 0.0
    for number, document in enumerate(made[1:], 1):
        result = linker.add(result, [document])
        if number == n // 2:
            half = _memory("self")
    growth = _memory("self") - half
    whole = linker.refit(result)
    result.save(folder / "grown")
    whole.save(folder / "whole")
    grown, at_once = (sum(file.stat().st_size for file in (folder / name).iterdir()) for name in ("grown", "whole"))
    assert result.link_table.equals(whole.link_table)
    assert grown < 1.05 * at_once + 20_000, f"{n} additions: {grown:,} bytes for {at_once:,}"
    assert growth < 20 + n / 4, f"the last half of {n} additions took {growth:.0f} MB"


def random_size(seed: int) -> int:
    """Return how many documents a case beyond the first ones adds."""
    return Random(seed).randrange(5, 60)


def _copy(document: arbo.Document, number: int) -> arbo.Document:
    from dataclasses import replace

    id_ = f"d{number}"
    mentions = [replace(one, id=f"{id_}-{place}", document_id=id_) for place, one in enumerate(document.mentions)]
    return replace(document, id=id_, mentions=tuple(mentions))


CAMPAIGNS = {
    "additions": Campaign(_additions, "up to a thousand additions to a run: its refit, no larger", 5, 2, slow=True),
    "service": Campaign(
        _load, "five seconds of 64 clients: no error, bounded memory", 120, 1, seconds=200, processes=True, slow=True
    ),
}

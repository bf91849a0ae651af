"""The HTTP service over MEDIC, from an index: milliseconds of requests, sixteen clients for a minute, matches.

`arbo serve` runs in a process of its own; clients keep their connections. All figures in milliseconds are what a client
waits for, for one client at a time, the best of three rounds; `processor_ms` is what a request takes of the processors.

**Texts**: `link.*` of the 100 abstracts of the test part of NCBI disease, with the spans of their mentions; `found.*`
without spans, so that the names of the knowledge base are found first. `linker.*` is `Linker.link` on the same texts in
this process.

**Reconciliation**: `reconcile.*` of batches of ten names, those of the mentions of the test part of BC5CDR diseases.

**Load**: 16 clients send texts, batches and searches for a minute, in a fixed order, as fast as they are answered.
`load.errors` counts answers other than 200, `load.growth_mb` is what the memory of the service grows by from the tenth
second to the end.

**Matches**: of the distinct names of mentions with a gold entity, `matched` is the share whose first candidate is a
match (`arbo.serve.reconciliation`), `matched.right` the share of the mentions with these names whose gold entity it is.

`--quick` measures a fifth of the requests and 10 seconds of load, prints the figures and leaves the results alone.
"""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from library.command import measure_or_try
from library.corpora import JOBS
from library.results import Figures, say

import arbo
from arbo.serve.reconciliation import Reconciliation
from arbo.serve.service import Service

CLIENTS = 16
Asked = tuple[str, str, str]
"""Method, path and body of a request."""


@contextmanager
def served(index: Path) -> Iterator[tuple[int, int]]:
    """Start the service; yield its port and the id of its process."""
    command = [sys.executable, "-m", "arbo", "serve", "--kb", str(index), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            port = next(int(found[1]) for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield port, process.pid
        finally:
            process.terminate()


class Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, asked: Asked) -> tuple[int, float]:
        """Return the status of the answer, and the milliseconds until it was read."""
        begin = time.perf_counter()
        self._connection.request(asked[0], asked[1], asked[2] or None)
        response = self._connection.getresponse()
        response.read()
        return response.status, 1000 * (time.perf_counter() - begin)


def texts(documents: Sequence[arbo.Document], *, spans: bool) -> list[Asked]:
    """Return requests to link documents."""
    made = []
    for one in documents:
        own: dict[str, Any] = {"text": one.text}
        if spans:
            own["spans"] = [[m.start, m.end - m.start] for m in one.mentions]
        made.append(("POST", "/link", json.dumps(own)))
    return made


def batches(names: Sequence[str], most: int) -> list[Asked]:
    """Return requests to reconcile ten names each."""
    made = []
    for first in range(0, min(10 * most, len(names) - 9), 10):
        queries = {f"q{i}": {"query": name} for i, name in enumerate(names[first : first + 10])}
        made.append(("POST", "/reconcile", urlencode({"queries": json.dumps(queries)})))
    return made


def timed(name: str, client: Client, process: int, asked: Sequence[Asked]) -> Figures:
    """Ask one request after another."""
    client.ask(asked[0])
    before = processor_ms(process)
    answers = [client.ask(one) for one in asked]
    assert {status for status, _ in answers} == {200}, name
    used = (processor_ms(process) - before) / len(asked)
    return {**spread(name, [took for _, took in answers]), f"{name}.processor_ms": used}


def linked(linker: arbo.Linker, documents: Sequence[arbo.Document]) -> Figures:
    """Link one document after another in this process."""
    took = []
    for document in documents:
        begin = time.perf_counter()
        linker.link([document])
        took.append(1000 * (time.perf_counter() - begin))
    return spread("linker", took)


def spread(name: str, took: Sequence[float]) -> Figures:
    """Return the median and the 95th percentile."""
    centiles = statistics.quantiles(took, n=20)
    say(f"{name}: median {centiles[9]:.1f} ms, 95th percentile {centiles[18]:.1f} ms")
    return {f"{name}.p50_ms": centiles[9], f"{name}.p95_ms": centiles[18]}


def processor_ms(process: int) -> float:
    """Return the milliseconds that a process has used of all processors."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def load(port: int, process: int, asked: Sequence[Asked], seconds: float) -> Figures:
    """Let many clients ask at the same time."""
    end, counts, errors = time.monotonic() + seconds, [0] * CLIENTS, [0] * CLIENTS

    def ask(number: int) -> None:
        client = Client(port)
        while time.monotonic() < end:
            status, _ = client.ask(asked[(counts[number] * CLIENTS + number) % len(asked)])
            counts[number] += 1
            errors[number] += status != 200

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for one in threads:
        one.start()
    time.sleep(min(10, seconds / 2))
    before = memory(process)
    for one in threads:
        one.join()
    growth = memory(process) - before
    say(f"{CLIENTS} clients: {sum(counts)} requests, {sum(errors)} errors, {growth:+.1f} MB")
    return {
        "load.clients": CLIENTS,
        "load.seconds": seconds,
        "load.requests_per_second": sum(counts) / seconds,
        "load.errors": sum(errors),
        "load.growth_mb": growth,
        "load.memory_mb": memory(process),
    }


def matches(kb: arbo.KnowledgeBase, corpus: str) -> Figures:
    """Judge the matches of the names of a corpus."""
    own = Reconciliation(Service(arbo.Linker(kb)))
    job = JOBS[corpus]
    gold: defaultdict[str, list[set[str]]] = defaultdict(list)
    for mention in job.documents(job.test).mentions:
        if found := {kb.entities[row].id for id_ in mention.gold or () for row in kb.rows(id_)}:
            gold[mention.text].append(found)
    names = list(gold)
    right: list[bool] = []
    matched = 0
    for first in range(0, len(names), 50):
        part = names[first : first + 50]
        answers = own.queries(json.dumps({name: {"query": name, "limit": 1} for name in part}))
        for name in part:
            (best, *_) = answers[name]["result"] or [{"match": False}]
            matched += best["match"]
            right += [best["id"] in one for one in gold[name]] if best["match"] else []
    key = corpus.replace(" ", "_").lower()
    say(f"{key}: {matched / len(names):.3f} of {len(names)} names are matched, {sum(right) / len(right):.3f} right")
    return {f"{key}.matched": matched / len(names), f"{key}.matched.right": sum(right) / len(right)}


def best(measured: Callable[[], Figures], rounds: int) -> Figures:
    """Return the smallest of each figure over some rounds."""
    every = [measured() for _ in range(rounds)]
    return {key: min(one[key] for one in every) for key in every[0]}


def measure(quick: bool) -> Figures:
    """Measure all."""
    ncbi, bc5cdr = JOBS["NCBI disease"], JOBS["BC5CDR disease"]
    documents = list(ncbi.documents(ncbi.test))
    names = list(dict.fromkeys(mention.text for mention in bc5cdr.documents(bc5cdr.test).mentions))
    rounds = 1 if quick else 3
    if quick:
        documents, names = documents[:20], names[:400]
    given, without, ten = texts(documents, spans=True), texts(documents, spans=False), batches(names, 200)
    searches = [("GET", f"/search?{urlencode({'q': name})}", "") for name in names[: len(documents)]]
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "medic.index"
        arbo.build_index(ncbi.knowledge_base(), index)
        kb = arbo.KnowledgeBase.from_index(index)
        figures: Figures = {"texts": len(documents), "batches": len(ten), "entities": len(kb)}
        with served(index) as (port, process):
            client = Client(port)
            for name, asked in (("link", given), ("found", without), ("reconcile", ten), ("search", searches)):
                figures |= best(lambda name=name, asked=asked: timed(name, client, process, asked), rounds)  # type: ignore[misc]
            mixed = [one for group in zip(given, without, ten, searches, strict=False) for one in group]
            figures |= load(port, process, mixed, 10 if quick else 60)
        linker = arbo.Linker(kb)
        linker.link(documents[:1])
        linker.link(documents[1:2])
        figures |= best(lambda: linked(linker, documents), rounds)
        for corpus in ("NCBI disease", "BC5CDR disease"):
            figures |= matches(kb, corpus)
    return figures


if __name__ == "__main__":
    measure_or_try("serve", __doc__, "a fifth of the requests and 10 seconds of load only", measure)

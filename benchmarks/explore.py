"""The served page of a run with 10^6 mentions: seconds of its start, milliseconds of its first view and of queries.

The run is synthetic: abstracts of five mentions, entities with three names each, the most frequent with 2.7 % of the
mentions, half of the mentions linked through another, a fifth NIL, eight candidates, four neighbours. `arbo explore`
runs in a process of its own, and all milliseconds are what a client waits for, from this computer, the best of three
rounds.

`start.seconds` is the time until the address is printed, `first.ms` that of the page, its files and its overview after
that. Queries ask for things at random: a hundred mentions far into a list (`page`), those with a word (`words`), a
search, clusters, documents, entities, trees and explanations; `review` is a question with what follows its answer.
`all.processor_ms` is what a query takes of the processors. `review.first_seconds` is the first question, for which all
names are ordered.

`--quick` measures 20,000 mentions, prints the figures and leaves the results alone.
"""

import http.client
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from library.command import measure_or_try
from library.results import Figures, say
from serve import best, memory, processor_ms, spread

import arbo

FILES = ("", "page.css", "app.js", "dom.js", "views.js", "remote.js", "review.js")
K, CANDIDATES, IN_DOCUMENT = 4, 8, 5


def synthetic(n: int) -> arbo.Result:
    """Make a run of ``n`` mentions, which mean nothing."""
    rng, n_entities = np.random.default_rng(0), n // 20
    words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "e", "io", "u") for c in ("l", "ra", "ne", "sti", "x")]
    drawn = rng.integers(len(words), size=(4 * n_entities, 3))
    names = [" ".join(words[word] for word in row) for row in drawn.tolist()]
    entity = (n_entities * rng.random(n) ** 3).astype(np.int64)
    nil = rng.random(n) < 0.2
    group = np.where(nil, n_entities + rng.integers(n_entities, size=n), entity)
    text = [
        names[row] for row in np.where(nil, 3 * n_entities + group % n_entities, 3 * entity + rng.integers(3, size=n))
    ]
    order = np.argsort(group, kind="stable")
    first = np.append(True, np.diff(group[order]) != 0)
    before, after = np.full(n, -1), np.full(n, -1)
    before[order[1:]] = np.where(first[1:], -1, order[:-1])
    after[order[:-1]] = np.where(first[1:], -1, order[1:])
    ids = [f"{row // IN_DOCUMENT:07}:{row % IN_DOCUMENT}" for row in range(n)]
    tables = _tables(rng, ids, text, nil, group, before, [f"E{row}" for row in range(n_entities)], names)
    near = np.column_stack([before, after, np.full((n, K - 2), -1)])
    weight = np.where(near >= 0, 0.1, np.inf).astype(np.float32)
    manifest = arbo.Linker(arbo.KnowledgeBase([arbo.Entity("E0", "x")])).link(["x"]).manifest
    kept = {"mentions": near, "mention_dissimilarity": weight}
    mentions, links, clusters, documents, known = tables
    return arbo.Result(mentions, links, clusters, manifest, documents, known, None, lambda: kept)


def _tables(
    rng: np.random.Generator,
    ids: list[str],
    text: list[str],
    nil: np.ndarray,
    group: np.ndarray,
    before: np.ndarray,
    entities: list[str],
    names: list[str],
) -> tuple[pa.Table, ...]:
    """Return the tables of mentions, links, clusters, documents and entities."""
    n, n_entities, filler = len(ids), len(entities), "It was seen again in the spring, as others had said before: "
    length = np.array([len(own) + len(filler) + 2 for own in text]).reshape(-1, IN_DOCUMENT)
    start = (np.cumsum(length, axis=1) - length + len(filler)).ravel()
    parts = [f"{filler}{own}. " for own in text]
    texts = ["".join(parts[row : row + IN_DOCUMENT]) for row in range(0, n, IN_DOCUMENT)]
    documents = [id_.partition(":")[0] for id_ in ids]
    spans = pa.StructArray.from_arrays(
        [pa.array(start, pa.int32()), pa.array(start + [len(own) for own in text], pa.int32())], ["start", "end"]
    )
    offsets = pa.array(np.arange(n + 1), pa.int32())
    used, size = np.unique(group, return_counts=True)
    place = {row: number for number, row in enumerate(used.tolist())}
    earliest = np.full(len(used), n)
    code = np.array([place[row] for row in group.tolist()])
    np.minimum.at(earliest, code, np.arange(n))
    new = used >= n_entities
    cluster = [f"new-{ids[at]}" if own else entities[row] for own, row, at in zip(new, used, earliest, strict=True)]
    shown = np.lexsort((-size, new))
    entity = pa.array(entities).take(pa.array(np.where(nil, 0, group)))
    near = np.column_stack([np.where(nil, 0, group), rng.integers(n_entities, size=(n, CANDIDATES - 1))])
    score = np.sort(rng.random((n, CANDIDATES)).astype(np.float32))[:, ::-1]
    lists = pa.array(np.arange(0, n * CANDIDATES + 1, CANDIDATES), pa.int32())
    hangs = (before >= 0) & ~nil & (rng.random(n) < 0.5)
    parent = pa.array(ids).take(pa.array(np.maximum(before, 0)))
    entity_names = pa.array(names[: 3 * n_entities : 3])
    nulls = pa.nulls(n, pa.string())
    mentions = {"mention_id": ids, "document_id": documents, "spans": pa.ListArray.from_arrays(offsets, spans)}
    mentions |= {"text": text, "expansion": nulls, "type": nulls, "domain": nulls}
    mentions |= {name: pa.nulls(n, pa.list_(pa.string())) for name in ("gold", "gold_entities")}
    whole = pa.compute.if_else(pa.array(nil), None, entity)
    links = {"mention_id": ids, "entity_id": whole, "entity_name": entity_names.take(pa.array(near[:, 0]))}
    links["entity_name"] = pa.compute.if_else(pa.array(nil), None, links["entity_name"])
    links |= {"cluster_id": pa.array(cluster).take(pa.array(code)), "score": pa.array(score[:, 0], mask=nil)}
    links |= {"margin": score[:, 0] - score[:, 1], "parent": pa.compute.if_else(pa.array(hangs), parent, whole)}
    links |= {"parent_is_mention": hangs, "step": pa.array(1 - score[:, 0], mask=nil)}
    links |= {"bottleneck": np.where(nil, np.inf, 1 - score[:, 0]).astype(np.float32)}
    links |= {"candidates": pa.ListArray.from_arrays(lists, pa.array(entities).take(pa.array(near.ravel())))}
    links |= {"candidate_scores": pa.ListArray.from_arrays(lists, pa.array(score.ravel()))}
    clusters = {"cluster_id": [cluster[row] for row in shown], "size": size[shown].astype(np.int32)}
    clusters["entity_id"] = [None if new[row] else cluster[row] for row in shown]
    clusters["name"] = [text[earliest[row]] for row in shown]
    clusters["weakest_join"] = pa.nulls(len(shown), pa.float32())
    known = {
        "entity_id": entities,
        "name": entity_names,
        "aliases": [names[3 * i + 1 : 3 * i + 3] for i in range(n_entities)],
    }
    own = {"document_id": documents[::IN_DOCUMENT], "domain": pa.nulls(len(texts), pa.string())}
    own["text"] = pa.array(texts, pa.large_string())
    return tuple(pa.table(columns) for columns in (mentions, links, clusters, own, known))


@contextmanager
def served(run: Path) -> Iterator[tuple[str, int, float]]:
    """Start the page; yield its address, the id of its process, and the seconds until the address was printed."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "arbo", "explore", str(run), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            head = "".join(iter(process.stdout.readline, "}\n")) + "}"
            yield json.loads(head)["address"], process.pid, time.perf_counter() - begin
        finally:
            process.terminate()


class Client:
    """A connection that is kept, with the token."""

    def __init__(self, address: str) -> None:
        host, _, token = address.removeprefix("http://").partition("/#token=")
        self._connection, self._headers = http.client.HTTPConnection(host, timeout=300), {"X-Arbo-Token": token}

    def ask(self, path: str) -> tuple[Any, float]:
        """Return the answer, and the milliseconds until it was read."""
        begin = time.perf_counter()
        self._connection.request("GET", f"/{path}", headers=self._headers)
        response = self._connection.getresponse()
        content = response.read()
        took = 1000 * (time.perf_counter() - begin)
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status}")
        return (json.loads(content) if path.startswith("api/") else None), took


def asked(client: Client, n: int, rounds: int) -> dict[str, list[str]]:
    """Return queries of each kind, about things at random."""
    draw = random.Random(0)
    rows = [client.ask(f"api/mentions?offset={draw.randrange(n)}&limit=1")[0]["rows"][0] for _ in range(rounds)]
    places = [draw.randrange(n - 100) for _ in rows]
    word = [row["text"].split()[0] for row in rows]
    return {
        "page": [f"mentions?offset={place}&limit=100" for place in places],
        "margin": [f"mentions?sort=margin&nil=true&offset={place // 6}&limit=100" for place in places],
        "words": [f"mentions?words={one}&limit=100" for one in word],
        "search": [f"search?words={one}" for one in word],
        "clusters": [f"clusters?nil=true&sort=nearness&offset={place // 50}&limit=100" for place in places],
        "cluster": [f"cluster?id={quote(row['cluster_id'])}" for row in rows],
        "mention": [f"mention?id={quote(row['mention_id'])}" for row in rows],
        "document": [f"document?id={row['document_id']}" for row in rows],
        "entity": [f"entity?id={row['entity_id']}" for row in rows if row["entity_id"]],
        "review": [f"review/question?id={quote(row['mention_id'])}" for row in rows],
    }


def measure(quick: bool) -> Figures:
    """Measure all."""
    n = 20_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        made: Callable[[], arbo.Result] = lambda: synthetic(n)  # noqa: E731
        made().save(run)
        say(f"a run of {n:,} mentions is made")
        with served(run) as (address, process, seconds):
            client = Client(address)
            figures: Figures = {"mentions": n, "start.seconds": seconds}
            figures["first.ms"] = sum(client.ask(path)[1] for path in (*FILES, "api/overview"))
            figures["review.first_seconds"] = client.ask("api/review/next")[1] / 1000
            say(json.dumps(figures))
            every: list[str] = []
            for name, paths in asked(client, n, 20 if quick else 100).items():
                every += paths
                client.ask(f"api/{paths[0]}")
                figures |= best(lambda name=name, paths=paths: timed(name, client, paths), 1 if quick else 3)  # type: ignore[misc]
            random.Random(1).shuffle(every)
            before = processor_ms(process)
            figures |= best(lambda: timed("all", client, every), 1 if quick else 3)
            figures["all.processor_ms"] = (processor_ms(process) - before) / len(every) / (1 if quick else 3)
            figures["memory_mb"] = memory(process)
    return figures


def timed(name: str, client: Client, paths: list[str]) -> Figures:
    """Ask one query after another."""
    return spread(name, [client.ask(f"api/{path}")[1] for path in paths])


if __name__ == "__main__":
    measure_or_try("explore", __doc__, "20,000 mentions only", measure)

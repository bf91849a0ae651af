"""The served page of a run with 10^6 mentions: seconds of its start, milliseconds of its first view and of others.

The run is synthetic: abstracts of five mentions, entities with three names each, the most frequent with 2.7 % of the
mentions, half of the mentions linked through another, a fifth NIL, eight candidates, four neighbours. `arbo explore`
runs in a process of its own, and Chromium without a window shows the page.

`start.seconds` is the time until the address is printed, `first.ms` that until the overview is drawn, and
`tables.seconds` that of the first list, for which the page reads all tables. The page is then asked for things at
random: a hundred mentions far into a list (`page`) or far down by margin (`margin`), searches, clusters, documents,
entities, trees and explanations; `review` is a question of the server. The first of each kind, which makes what the
others use, is `KIND.first_ms`; the others are the best of three rounds. `memory_mb` is that of the server.

`--quick` measures 20,000 mentions, prints the figures and leaves the results alone.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from library.command import measure_or_try
from library.folders import ROOT
from library.results import Figures, say
from serve import best, memory, spread

import arbo
from arbo.results.schema import SCHEMA

sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # type: ignore[import-not-found]

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
    near, scores = (links[name].combine_chunks().flatten() for name in ("candidates", "candidate_scores"))
    kept["entities"] = pa.compute.index_in(near, known["entity_id"].combine_chunks()).to_numpy().reshape(n, -1)
    kept["entity_dissimilarity"] = 1 - scores.to_numpy().reshape(n, -1)
    return arbo.Result(mentions, links, clusters, documents, known, None, manifest, lambda: kept)


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
    for name, columns in (("mentions", mentions), ("links", links)):
        empty = {"corrected": pa.array([False] * n), "gold_entities": pa.array([[]] * n, pa.list_(pa.string()))}
        missing = {key: one for key, one in SCHEMA[name].items() if key not in columns and not one.optional}
        columns |= {key: empty.get(key, pa.nulls(n, one.type)) for key, one in missing.items()}
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


_ASK = """(async (name, ...given) => {
  const start = performance.now();
  await arbo[name](...given);
  return performance.now() - start;
})"""


def asked(n: int, rounds: int, tables: arbo.Result) -> dict[str, list[list[Any]]]:
    """Return questions of each kind, about things at random: the name of a view, and what it takes."""
    draw = random.Random(0)
    rows = [draw.randrange(n) for _ in range(rounds)]
    links, mentions = (table.take(rows).to_pylist() for table in (tables.link_table, tables.mention_table))
    ids = [row["mention_id"] for row in mentions]
    nearness = {"nil": True, "sort": "nearness", "limit": 100}
    return {
        "page": [["mentions", {"offset": max(0, row - 100), "limit": 100}] for row in rows],
        "margin": [["mentions", {"sort": "margin", "nil": True, "offset": row // 6, "limit": 100}] for row in rows],
        "search": [["search", row["text"].split()[0]] for row in mentions],
        "clusters": [["clusters", nearness | {"offset": row // 50}] for row in rows],
        "cluster": [["cluster", row["cluster_id"]] for row in links],
        "mention": [["mention", id_] for id_ in ids],
        "document": [["document", row["document_id"]] for row in mentions],
        "entity": [["entity", row["entity_id"]] for row in links if row["entity_id"]],
        "review": [["ask", "review/question", {"id": id_}] for id_ in ids],
    }


def measure(quick: bool) -> Figures:
    """Measure all."""
    n, rounds = (20_000, 1) if quick else (1_000_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        tables = synthetic(n)
        tables.save(Path(folder) / "run")
        say(f"a run of {n:,} mentions is made")
        with served(Path(folder) / "run") as (address, process, seconds), Browser() as browser:
            browser.look()
            figures: Figures = {"mentions": n, "start.seconds": seconds}
            browser.navigate(address)
            figures["first.ms"] = browser.until("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")

            def timed(name: str, questions: list[list[Any]]) -> Figures:
                took = [browser.run(f"{_ASK}({', '.join(map(json.dumps, one))})") for one in questions]
                return spread(name, took)

            figures["tables.seconds"] = browser.run(f'{_ASK}("mentions", {{}})') / 1000
            say(json.dumps(figures))
            every: list[list[Any]] = []
            for name, questions in asked(n, 20 if quick else 100, tables).items():
                every += questions
                figures[f"{name}.first_ms"] = browser.run(f"{_ASK}({', '.join(map(json.dumps, questions[0]))})")
                figures |= best(lambda name=name, those=questions: timed(name, those), rounds)  # type: ignore[misc]
                say(json.dumps(figures))
            random.Random(1).shuffle(every)
            figures |= best(lambda: timed("all", every), rounds)
            figures["memory_mb"] = memory(process)
            assert not browser.messages, browser.messages
    return figures


if __name__ == "__main__":
    measure_or_try("explore", __doc__, "20,000 mentions only", measure)

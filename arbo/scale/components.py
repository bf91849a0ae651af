"""The partition of a graph as tasks, one for each bin of its connected components; see `clustering.bins`."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from arbo.engine import Bin, Bins, Decisions, Edges, Graph, Ids, described, partition
from arbo.scale.parts import Arrays, Part, Task

_BYTES = 200_000_000, 100, 70
"""Memory that a partition needs at most: for a process, for each mention, and for each edge."""


def tasks_of(work: Path, bins: Bins, how: dict[str, Any]) -> list[tuple[Ids, Ids, Task]]:
    """Write the bins, and plan their partitions; return the mentions and the entities of each, and its task.

    ``how`` are arguments of `partition`.
    """
    how = {name: own for name, own in how.items() if name != "decisions"}
    known = json.loads(json.dumps(how))  # as a part has it when it is read again

    def task(one: Bin) -> Task:
        given, memory = Part.given(work, "graph", _arrays(one)), _needed(len(one.mentions), one.graph.n_edges)
        part = Part.of(work, "partition", graph=given.name, **known)
        return Task(part, lambda: (partitioned, given.folder, how), _BYTES[0] + memory)

    return [(one.mentions, one.entities, task(one)) for one in map(bins.taken, range(bins.n_bins))]


def partitioned(folder: Path, how: dict[str, Any]) -> Arrays:
    """Partition a bin for `joined`; the first argument is the folder of its part."""
    arrays = Part(folder, {}).arrays()
    edges = Edges(*(arrays[name] for name in Edges._fields))
    decisions = Decisions(*(arrays[name] for name in Decisions._fields)) if "root" in arrays else None
    return described(partition(Graph(*edges, *arrays["counts"].tolist()), **how, decisions=decisions))


def _arrays(one: Bin) -> Arrays:
    graph, decisions = one.graph, one.decisions
    counts = np.array([graph.n_entities, graph.n_nodes])
    edges = {"source": graph.source, "target": graph.target, "weight": graph.weight, "counts": counts}
    return edges if decisions is None else edges | decisions._asdict()


def too_large(bins: Bins, size: int) -> str | None:
    """Return a message about the largest component if it has more mentions than a bin, which is ``size``."""
    counts = np.diff(bins.begin)
    which = int(np.argmax(counts))
    if counts[which] <= size:
        return None
    needed = _needed(counts[which], bins.n_edges(which)) / 1e9
    return (
        f"partition: the largest group of connected mentions has {counts[which]:,}, more than a bin of {size:,}; it is "
        f"partitioned at once in about {needed:.2f} GB; a lower --mention-threshold may split it, a smaller "
        "--shard-size does not"
    )


def _needed(n_mentions: int, n_edges: int) -> int:
    """Return the bytes of memory that a partition takes of a process that is there."""
    return int(_BYTES[1] * n_mentions + _BYTES[2] * n_edges)

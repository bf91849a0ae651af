"""The partition of a graph as tasks, one for each bin of its connected components; see `clustering.bins`."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from arbo.engine import Bin, Bins, Decisions, Edges, Graph, Ids, MergeTree, Partition, joined, partition
from arbo.scale.parts import Part, Task

_BYTES = 100, 70
"""Memory that a partition needs at most: for each mention, and for each edge."""
_BRIDGES = 3


class Components(NamedTuple):
    """The tasks of one partition."""

    graph: Graph
    tasks: list[Task]
    members: list[tuple[Ids, Ids]]
    """The mentions and the entities of each bin."""

    @classmethod
    def of(cls, work: Path, bins: Bins, how: dict[str, Any]) -> Self:
        """Write the bins, and plan their partitions; ``how`` are arguments of `partition`."""
        how = {name: own for name, own in how.items() if name != "decisions"}
        known = json.loads(json.dumps(how))  # as a part has it when it is read again

        def task(given: Part) -> Task:
            return Task(Part.of(work, "partition", graph=given.name, **known), lambda: (partitioned, given.folder, how))

        made = cls(bins.graph, [], [])
        for one in map(bins.taken, range(bins.n_bins)):
            made.tasks.append(task(Part.given(work, "graph", _arrays(one))))
            made.members.append((one.mentions, one.entities))
        return made

    def joined(self) -> Partition:
        """Return the partition of the graph, once every part is finished."""
        parts = zip(self.members, self.tasks, strict=True)
        return joined(self.graph, ((*own, _partition(task.part.arrays())) for own, task in parts))


def partitioned(folder: Path, how: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the partition of a bin; the first argument is the folder of its part."""
    arrays = Part(folder, {}).arrays()
    n_entities, n_nodes = arrays["counts"].tolist()
    graph = Graph(arrays["source"], arrays["target"], arrays["weight"], n_entities, n_nodes)
    told = Decisions(*(arrays[name] for name in Decisions._fields)) if "root" in arrays else None
    found = partition(graph, **how, decisions=told)
    arrays = vars(found) | {f"nil_{name}": own for name, own in found.nil_edges._asdict().items()}
    arrays |= {f"tree_{name}": getattr(found.nil_tree, name) for name in _TREE if found.nil_tree}
    return {name: own for name, own in arrays.items() if isinstance(own, np.ndarray)}


_TREE = "left", "right", "height", "source", "target"


def _partition(arrays: dict[str, npt.NDArray[Any]]) -> Partition:
    nil = Edges(*(arrays.pop(f"nil_{name}") for name in Edges._fields))
    tree = [arrays.pop(f"tree_{name}") for name in _TREE if f"tree_{name}" in arrays]
    return Partition(**arrays, nil_edges=nil, nil_tree=MergeTree(len(arrays["entity"]), *tree) if tree else None)


def _arrays(one: Bin) -> dict[str, npt.NDArray[Any]]:
    graph, told = one.graph, one.decisions
    counts = np.array([graph.n_entities, graph.n_nodes])
    edges = {"source": graph.source, "target": graph.target, "weight": graph.weight, "counts": counts}
    return edges if told is None else edges | told._asdict()


def too_large(bins: Bins, size: int, memory: int, names: Sequence[str]) -> Iterator[str]:
    """Tell of the largest component if it exceeds ``size``, and then which edges hold it together.

    A worker is told to have ``memory`` bytes; ``names`` are those of all mentions.
    """
    counts = np.diff(bins.begin)
    which = int(np.argmax(counts))
    if counts[which] <= size:
        return
    needed = int(_BYTES[0] * counts[which] + _BYTES[1] * np.diff(bins.edges_begin)[which])
    more = f", more than the {memory / 1e9:.2f} GB that a worker is told to need" if needed > memory else ""
    yield (
        f"partition: the largest group of connected mentions has {counts[which]:,}, more than a shard of {size:,}; it "
        f"is partitioned at once in about {needed / 1e9:.2f} GB{more}; a lower --mention-threshold splits it"
    )
    own = bins.taken(which)
    ranked = own.bridges().first(_BRIDGES)
    ends = [[names[own.mentions[end]] for end in side] for side in ranked.edges[:2]]
    held = [
        f'    {weight:.3f}  "{one}" ~ "{other}", between {a:,} and {b:,} mentions'
        for one, other, weight, (a, b) in zip(*ends, ranked.edges.weight, ranked.sides, strict=True)
    ]
    yield "\n".join(["its largest parts are joined by:", *held])

"""The partitions against SciPy's minimum spanning tree of the same edges.

Ours counts everything from unsorted int32 and float32 arrays to the finished result (`Graph.from_edges` and
`partition`); SciPy's counts `scipy.sparse.csgraph.minimum_spanning_tree` alone, without its conversion to
CSR. Best of three, in turns, in one process (of seven at 10^5 mentions, of two and without SciPy at 10^7).
Ours uses all cores for parts of the work.

Two graphs, edges in random order, 9 to a mention and an entity to every 4 mentions. **local**: the mentions
stand on a line in clusters of 4 to 8; each has edges from 8 others within 20 positions of it, a tenth of
them replaced by others from anywhere, and one from a random entity. Weights are uniform in 0..1, plus 0.8
across clusters, plus 0.3 for the entity edge. **unpruned**: the same with 3 added to the entity edges, so
that no edge can be dropped beforehand. `edges_kept` is the share of all edges, entity edges counted, that
is left after exact pruning.

`growth` is the exponent b of seconds proportional to mentions^b between 10^5 and 10^7 mentions.
`bytes_per_edge` is the peak of the resident memory above what was there before the call (the edges as given
not counted), in a process of its own, by edges given. `start` is what a first call costs more: importing
the package, and compiling all four methods and the merge tree or loading them from the cache, on a tiny
graph, in a process of its own. The merge tree is cut at its median height; `glued` is SciPy's minimum
spanning tree, its edges sorted, and fast_hdbscan's linkage of them, which is measured if that package is
installed. The script stops where a mention
is not linked, or where the bottlenecks of the methods contradict their definitions.

`--quick` measures 10^4 and 10^5 mentions, prints the figures and leaves the results alone.
"""

import importlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from library.command import measure_or_try
from library.results import Figures, say
from library.timing import in_process, resident, seconds

if TYPE_CHECKING:
    from clustering import Graph, MergeTree, Method, Partition

Ends = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]
METHODS: tuple["Method", ...] = ("arborescence", "minimax", "undirected", "independent")
N_NEIGHBORS, REACH, N_TINY = 8, 20, 200
ENTITY_EXTRA = {"local": 0.3, "unpruned": 3.3}


class Raw(NamedTuple):
    """A graph as a caller has it: unsorted arrays."""

    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float32]
    n_entities: int
    n_nodes: int

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.source)

    def graph(self) -> "Graph":
        """Sort and prune, as every method does first."""
        from clustering import Graph

        return Graph.from_edges(self.source, self.target, self.weight, n_entities=self.n_entities, n_nodes=self.n_nodes)


def line_graph(n_mentions: int, entity_extra: float, seed: int = 0) -> Raw:
    """Draw the graph that the docstring of this file describes; `n_mentions` must exceed twice the reach."""
    rng = np.random.default_rng(seed)
    n_entities = n_mentions // 4
    sizes = rng.integers(4, 9, n_mentions // 4 + 1)
    cluster = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[:n_mentions]
    mention = np.arange(n_mentions, dtype=np.int32)
    n_inner = N_NEIGHBORS * n_mentions
    source = np.empty(n_inner + n_mentions, np.int32)
    weight = rng.random(len(source), np.float32)
    window = np.clip(mention - REACH, 0, n_mentions - 2 * REACH - 1)
    for place, offset in enumerate(_distinct(rng, n_mentions, N_NEIGHBORS, 2 * REACH)):
        neighbor = window + offset
        neighbor += neighbor >= mention  # the mention itself is no neighbour
        anywhere = np.flatnonzero(rng.random(n_mentions, np.float32) < 0.1)
        drawn = rng.integers(0, n_mentions - 1, len(anywhere), np.int32)
        neighbor[anywhere] = drawn + (drawn >= mention[anywhere])
        part = slice(place * n_mentions, (place + 1) * n_mentions)
        source[part] = neighbor + n_entities
        weight[part] += np.float32(0.8) * (cluster[neighbor] != cluster)
    source[n_inner:] = rng.integers(0, n_entities, n_mentions, np.int32)
    weight[n_inner:] += np.float32(entity_extra)
    order = rng.permutation(len(source))
    target = (order % n_mentions).astype(np.int32) + np.int32(n_entities)  # each block lists all mentions in order
    return Raw(source[order], target, weight[order], n_entities, n_entities + n_mentions)


def _distinct(rng: np.random.Generator, n_rows: int, n_places: int, n_values: int) -> list[npt.NDArray[np.int32]]:
    """Draw `n_places` different values below `n_values` for each row, all sets alike (Floyd's way)."""
    columns: list[npt.NDArray[np.int32]] = []
    for highest in range(n_values - n_places, n_values):
        drawn = rng.integers(0, highest + 1, n_rows, np.int32)
        taken = np.zeros(n_rows, np.bool_)
        for column in columns:
            taken |= column == drawn
        drawn[taken] = highest
        columns.append(drawn)
    return columns


def link(raw: Raw, method: "Method") -> "Partition":
    """Do what is measured: from unsorted arrays to the finished partition."""
    from clustering import partition

    return partition(raw.graph(), method)


def warm_up() -> None:
    """Compile every kernel for these dtypes, or load it from the cache."""
    from clustering import merge_tree

    tiny = line_graph(N_TINY, ENTITY_EXTRA["local"])
    for method in METHODS:
        link(tiny, method)
    merge_tree(tiny.graph()).cut(0.5)


def check_bottlenecks(partitions: dict[str, "Partition"]) -> None:
    """Every mention is linked, and more freedom never makes a worse bottleneck."""
    for method, found in partitions.items():
        assert (found.entity >= 0).all(), f"{method} leaves {(found.entity < 0).sum()} mentions without an entity"
    for better, worse in (("minimax", "arborescence"), ("minimax", "independent"), ("undirected", "minimax")):
        n_wrong = int((partitions[better].bottleneck > partitions[worse].bottleneck).sum())
        assert n_wrong == 0, f"{better} has a heavier bottleneck than {worse} at {n_wrong} nodes"


def edges_kept(raw: Raw, *, directed: bool) -> float:
    """Share of all edges, entity edges counted, that exact pruning keeps, computed from its definition."""
    mentions = raw.n_nodes - raw.n_entities
    inner = raw.source >= raw.n_entities
    door = np.full(mentions, np.inf, np.float32)
    door[raw.target[~inner] - raw.n_entities] = raw.weight[~inner]  # one entity edge a mention
    limit = door[raw.target[inner] - raw.n_entities]
    if not directed:
        limit = np.maximum(limit, door[raw.source[inner] - raw.n_entities])
    return float((np.count_nonzero(raw.weight[inner] <= limit) + mentions) / raw.n_edges)


def beside_scipy(raw: Raw, prefix: str, repeats: int) -> Figures:
    """Time SciPy and each method in turns; best of the repeats."""
    import scipy.sparse
    from scipy.sparse.csgraph import minimum_spanning_tree

    entries = raw.weight.astype(np.float64), (raw.source, raw.target)
    matrix = scipy.sparse.coo_array(entries, shape=(raw.n_nodes, raw.n_nodes)).tocsr()
    del entries
    lost = raw.n_edges - matrix.nnz
    assert lost <= raw.n_edges / 10_000, f"SciPy merges {lost} duplicate edges: the runs are not comparable"
    best = best_in_turns(raw, prefix, repeats, scipy=partial(minimum_spanning_tree, matrix))
    figures = {f"{prefix}.{name}.seconds": s for name, s in best.items()}
    return figures | {f"{prefix}.{method}.ratio_to_scipy": best[method] / best["scipy"] for method in METHODS}


def best_in_turns(raw: Raw, prefix: str, repeats: int, **others: Callable[[], object]) -> Figures:
    """Time others and each method in turns; best of the repeats."""
    best: Figures = {}
    for _ in range(repeats):
        spent = {name: seconds(call)[0] for name, call in others.items()}
        partitions: dict[str, Partition] = {}
        for method in METHODS:
            spent[method], partitions[method] = seconds(link, raw, method)
        say(f"  {prefix}: " + ", ".join(f"{name} {s:.3f} s" for name, s in spent.items()))
        best = {name: min(s, best.get(name, math.inf)) for name, s in spent.items()}
        check_bottlenecks(partitions)
    return best


def neighbor_graphs(n: int) -> Iterator[tuple[str, Ends]]:
    """Draw graphs of `n` mentions without entities: **local** as above, shuffled and by target, and **random**."""
    raw = line_graph(n, ENTITY_EXTRA["local"])
    inner = raw.source >= raw.n_entities
    least = np.float32(2**-20)  # SciPy drops weights of 0
    shuffled = raw.source[inner] - raw.n_entities, raw.target[inner] - raw.n_entities, raw.weight[inner] + least
    yield "local", shuffled
    order = np.argsort(shuffled[1], kind="stable")
    yield "local_by_target", (shuffled[0][order], shuffled[1][order], shuffled[2][order])
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, n, (2, N_NEIGHBORS * n), np.int32)
    yield "random", (source, target, rng.random(len(source), np.float32) + least)


def merge_tree_times(n: int, repeats: int) -> Figures:
    """Time the merge tree beside SciPy's spanning tree and, where installed, fast_hdbscan's linkage of it, in turns."""
    import scipy.sparse
    from scipy.sparse.csgraph import minimum_spanning_tree

    from clustering import Graph, merge_tree

    try:
        linkage = importlib.import_module("fast_hdbscan.cluster_trees").mst_to_linkage_tree
    except ImportError:
        linkage = np.copy

    def ours(
        source: npt.NDArray[np.int32], target: npt.NDArray[np.int32], weight: npt.NDArray[np.float32]
    ) -> "MergeTree":
        return merge_tree(Graph.from_edges(source, target, weight, n_entities=0, n_nodes=n))

    def theirs(matrix: scipy.sparse.csr_array) -> npt.NDArray[np.float64]:
        tree = minimum_spanning_tree(matrix).tocoo()
        order = np.argsort(tree.data)
        linked: npt.NDArray[np.float64] = linkage(np.column_stack([tree.row[order], tree.col[order], tree.data[order]]))
        return linked

    linkage(np.array([[0.0, 1.0, 0.5]]))
    figures: Figures = {}
    for name, (source, target, weight) in neighbor_graphs(n):
        matrix = scipy.sparse.coo_array((weight.astype(np.float64), (source, target)), shape=(n, n)).tocsr()
        best = [math.inf] * 2
        for _ in range(repeats):
            spent = seconds(ours, source, target, weight), seconds(theirs, matrix)
            best = [min(held, new) for held, (new, _) in zip(best, spent, strict=True)]
        tree = spent[0][1]
        assert len(tree.height) == len(spent[1][1]), "the trees differ in length"
        middle = float(np.median(tree.height))
        cut = min(seconds(tree.cut, middle)[0] for _ in range(3))
        prefix = f"{name}.{_power(n)}.merge_tree"
        say(f"  {prefix}: {best[0]:.3f} s, SciPy with {linkage.__name__} {best[1]:.3f} s, a cut {cut:.3f} s")
        figures |= {f"{prefix}.build_seconds": best[0], f"{prefix}.cut_seconds": cut}
        if linkage is not np.copy:
            figures |= {f"{prefix}.glued_seconds": best[1], f"{prefix}.ratio_to_glued": best[0] / best[1]}
    return figures


def start_times() -> Figures:
    """Import and warm-up in fresh processes: with an empty cache of kernels, then with a full one."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as cache:
        for state in ("cold", "warm"):
            with patch.dict(os.environ, NUMBA_CACHE_DIR=cache):
                said = in_process(only_start)
            figures |= {f"start.{state}.{name}_seconds": s for name, s in said.items()}
            say(f"  start, {state} cache: import {said['import']:.2f} s, kernels {said['kernels']:.2f} s")
    return figures


def only_start() -> Figures:
    """Measure the start of this process."""
    imported, _ = seconds(importlib.import_module, "clustering")
    return {"import": imported, "kernels": seconds(warm_up)[0]}


def memory(raw: Raw, prefix: str) -> Figures:
    """Extra bytes an edge of each method, each in a process of its own; nothing where /proc does not tell."""
    if not Path("/proc/self/status").exists():
        return {}
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in Raw._fields[:3]:
            np.save(Path(folder) / f"{name}.npy", getattr(raw, name))
        for method in METHODS:
            extra = in_process(only_memory, method, folder, raw.n_entities, raw.n_nodes) / raw.n_edges
            figures[f"{prefix}.{method}.bytes_per_edge"] = extra
            say(f"  {prefix}: {method} {extra:.1f} extra bytes an edge")
    return figures


def only_memory(method: "Method", folder: str, n_entities: int, n_nodes: int) -> int:
    """Measure the extra bytes of this process during one partition; it has done nothing but load the edges."""
    warm_up()
    source, target, weight = (np.load(Path(folder) / f"{name}.npy") for name in Raw._fields[:3])
    raw = Raw(source, target, weight, n_entities, n_nodes)
    before = resident("VmRSS")
    link(raw, method)
    return resident("VmHWM") - before


def measure(quick: bool) -> Figures:
    """Run everything."""
    small, middle, large = (10**4, 10**5, None) if quick else (10**5, 10**6, 10**7)
    say("start")
    figures = start_times()
    warm_up()
    prefix = f"local.{_power(small)}"
    say(prefix)
    figures |= beside_scipy(line_graph(small, ENTITY_EXTRA["local"]), prefix, repeats=7)
    for graph, extra in ENTITY_EXTRA.items():
        prefix = f"{graph}.{_power(middle)}"
        say(prefix)
        raw = line_graph(middle, extra)
        figures[f"{prefix}.edges"] = raw.n_edges
        figures[f"{prefix}.edges_kept.directed"] = edges_kept(raw, directed=True)
        figures[f"{prefix}.edges_kept.undirected"] = edges_kept(raw, directed=False)
        figures |= beside_scipy(raw, prefix, repeats=3)
        figures |= memory(raw, prefix)
    figures |= merge_tree_times(small, 7) | merge_tree_times(middle, 3)
    if large is None:
        return figures
    prefix = f"local.{_power(large)}"
    say(f"{prefix} (making the graph takes half a minute)")
    best = best_in_turns(line_graph(large, ENTITY_EXTRA["local"]), prefix, repeats=2)
    figures |= {f"{prefix}.{method}.seconds": s for method, s in best.items()}
    for method in METHODS:
        times = [figures[f"local.{_power(n)}.{method}.seconds"] for n in (small, large)]
        figures[f"local.growth.{method}"] = math.log10(times[1] / times[0]) / math.log10(large / small)
    return figures


def _power(n: int) -> str:
    return f"1e{round(math.log10(n))}"


if __name__ == "__main__":
    measure_or_try("engine", __doc__, "10^4 and 10^5 mentions only", measure)

"""Average linkage against single linkage and other clusterings of the same edges, and its seconds.

**clusters**: gold mentions of the test part, no knowledge base, 16 nearest mentions each. *ECB+ entities*, and CRAFT
cells (`CRAFT CL`; its training part is divided, and its development part is the test). Edges are those of character
n-grams, or of `arbo.train_edges` on the training part (for CRAFT, its first 50 documents), calibrated on the
development part (the other 17). Every threshold is the one with the best ARI on the development part. `hdbscan` is
scikit-learn's on the matrix of dissimilarities, 1 without an edge; its `min_cluster_size` is chosen among 2 .. 10, and
mentions that it calls noise stay alone. `leiden` is
leidenalg's on the same similarities (constant Potts model), its resolution chosen among 0.05, 0.1 .. 0.95; it is left
out where the package is missing.

**seconds**: `clustering.average_tree`, one core, processor seconds. *local*: the graph of the benchmark `engine`
without entities, 8 edges to a mention; *random*: 9 edges to a mention, between any two.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names. `--seconds` measures only seconds.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from engine import ENTITY_EXTRA, line_graph
from library.cells import Cells, key
from library.corpora import JOBS
from library.folders import DATA
from library.results import Figures, Row, Tables, collected_rows, record, say

import arbo
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from clustering import Graph, average_tree, merge_tree
from eval import Contingency, all_cuts, clustering_scores, counts_from_contingency, scores_from_counts

K = 16
Labels = npt.NDArray[np.integer[Any]]
Clusterer = Callable[[Graph, float], Labels]


def parts_of(name: str) -> dict[str, Corpus]:
    """Read the training, development and test part of a corpus."""
    if name == "ECB+ entities":
        files = {part: DATA / f"ecbplus/ECB_{part.capitalize()}_corpus.txt" for part in ("train", "dev", "test")}
        return {part: arbo.read_documents(file, "ecbplus") for part, file in files.items()}
    job = JOBS[name]
    train = job.documents(job.dev)
    return {"train": train[:50], "dev": train[50:], "test": job.documents(job.test)}


def hdbscan(graph: Graph, size: float) -> Labels:
    """Cluster with scikit-learn's HDBSCAN; noise stays alone."""
    from sklearn.cluster import HDBSCAN

    distance = np.ones((graph.n_nodes, graph.n_nodes))
    for a, b in ((graph.source, graph.target), (graph.target, graph.source)):
        np.minimum.at(distance, (a, b), np.clip(graph.weight, 0, 1))
    np.fill_diagonal(distance, 0)
    model = HDBSCAN(min_cluster_size=int(size), metric="precomputed", copy=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        label = model.fit(distance).labels_
    return np.where(label < 0, np.arange(len(label)) + len(label), label)


def leiden(graph: Graph, resolution: float) -> Labels:
    """Cluster with leidenalg under the constant Potts model."""
    import igraph  # type: ignore[import-not-found, unused-ignore]
    import leidenalg  # type: ignore[import-not-found, unused-ignore]

    ends = np.minimum(graph.source, graph.target), np.maximum(graph.source, graph.target)
    pairs, place = np.unique(np.column_stack(ends), axis=0, return_inverse=True)
    weight = np.zeros(len(pairs))
    np.maximum.at(weight, place.ravel(), np.clip(1 - graph.weight, 0, 1))
    network, method = igraph.Graph(graph.n_nodes, pairs.tolist()), leidenalg.CPMVertexPartition
    found = leidenalg.find_partition(network, method, weights=weight, resolution_parameter=resolution, seed=0)
    return np.array(found.membership)


def ari(classes: Labels, label: Labels) -> float:
    """Score the mentions that have a class."""
    known = classes >= 0
    return float(clustering_scores(classes[known], label[known])["ari"])


def chosen(name: str, dev: Graph, classes: Labels) -> tuple[Clusterer, float]:
    """Choose the threshold of a clustering on the development part."""
    if name in ("single", "average"):
        build = merge_tree if name == "single" else average_tree
        tree = build(dev)
        cuts = all_cuts(classes, tree.left, tree.right, tree.height)
        return lambda graph, at: build(graph).cut(at), float(cuts.threshold[cuts.ari.argmax()])
    way: Clusterer = hdbscan if name == "hdbscan" else leiden
    tried = np.arange(2, 11) if name == "hdbscan" else np.arange(1, 20) / 20
    return way, float(max(tried, key=lambda at: ari(classes, way(dev, float(at)))))


def clusters(corpus: str, edges: str) -> Row:
    """Score every clustering of one corpus."""
    parts = parts_of(corpus)
    linker = arbo.Linker(config=arbo.LinkerConfig(k=K))
    if edges == "learnt":
        linker = replace(linker, edges=arbo.train_edges(parts["train"], parts["dev"], None))
    graphs = {part: linker.retrieve(parts[part], k=K).graph(K) for part in ("dev", "test")}
    gold = {part: Gold.of(parts[part], None).classes for part in graphs}
    row: Row = {}
    for name in ("single", "average", "hdbscan", *["leiden"] * bool(importlib.util.find_spec("leidenalg"))):
        way, at = chosen(name, graphs["dev"], gold["dev"])
        label, known = way(graphs["test"], at), gold["test"] >= 0
        table = Contingency.from_labels(gold["test"][known], label[known])
        scores = scores_from_counts(counts_from_contingency(table))
        row |= {
            f"{name} threshold": at,
            f"{name} ARI": ari(gold["test"], label),
            f"{name} B-cubed": scores["b3"]["f1"],
            f"{name} CoNLL": scores["conll"],
        }
    return row


def tree_seconds() -> Iterator[tuple[str, Row]]:
    """Time average linkage at growing sizes."""
    for n in (1_000, 10_000, 100_000, 1_000_000):
        raw, rng = line_graph(n, ENTITY_EXTRA["local"]), np.random.default_rng(0)
        inner = raw.source >= raw.n_entities
        local = (raw.source[inner] - raw.n_entities, raw.target[inner] - raw.n_entities, raw.weight[inner] / 2)
        anywhere = (*rng.integers(0, n, (2, 9 * n), np.int32), rng.random(9 * n, np.float32))
        row: Row = {"mentions": n}
        for name, arrays in (("local", local), ("random", anywhere)):
            graph = Graph.from_edges(*arrays, n_entities=0, n_nodes=n)
            begin = time.process_time()
            average_tree(graph)
            row[name] = time.process_time() - begin
        if n > 1_000:  # the first compiles
            yield "seconds", row


CELLS = Cells("average", lambda cell: (cell["corpus"], cell["edges"], K, bool(importlib.util.find_spec("leidenalg"))))


def main() -> None:
    """Make the cells that are missing, and record all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", action="store_true", help="measure only seconds, and print them")
    tables: Tables = {"clusters": [], "seconds": []}
    collected_rows(tables, tree_seconds())
    if parser.parse_args().seconds:
        return
    for corpus in ("ECB+ entities", "CRAFT CL"):
        for edges in ("n-grams", "learnt"):
            cell = {"corpus": corpus, "edges": edges}
            CELLS.keep(cell, lambda _, corpus=corpus, edges=edges: clusters(corpus, edges))  # type: ignore[misc]
    kept = CELLS.read()
    tables["clusters"] = [{name: value for name, value in cell.items() if name != "commit"} for cell in kept]
    figures: Figures = {}
    for row in tables["clusters"]:
        scores = {name: value for name, value in row.items() if name not in ("corpus", "edges")}
        figures |= {key(row["corpus"], row["edges"], name): value for name, value in scores.items()}
    for row in tables["seconds"]:
        figures |= {key("seconds", name, row["mentions"]): row[name] for name in ("local", "random")}
    say(f"{len(figures)} figures")
    record("average", figures, tables, cells=kept)


if __name__ == "__main__":
    main()

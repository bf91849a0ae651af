"""The engine, the metrics, the search and links against slow definitions, NetworkX, SciPy and scikit-learn."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import histories
import networkx as nx
import numpy as np
import pytest
import test_eval_clusters as by
from builders import document
from engine_builders import METRICS, assert_same, brute, faiss_threads, make, mention_graph, same, vectors
from oracles import decisions as decided, graphs, trees
from sklearn.metrics import average_precision_score, precision_recall_fscore_support
from sklearn.metrics.cluster import pair_confusion_matrix
from test_clustering_search import filtered, names, nearly_equal, rows, rows_of
from test_eval_mentions import by_brute_force, counted, csr

import arbo
import eval as metrics
from arbo.retrieval.groups import Search
from arbo.retrieval.retrieval import _spelling_distance
from arbo.scale.work import opened
from campaign.runner import Campaign
from clustering import METHODS, average_tree, dense_search, merge_tree, partition
from clustering.growth import renumbered, updated
from clustering.index import Index
from clustering.knn import merged, nearest, pair_dissimilarity, silent
from eval import linking

INF = float("inf")


def _one(rng: np.random.Generator, among: Any) -> Any:
    return among[rng.integers(len(among))]


def _graph(rng: np.random.Generator) -> tuple[Any, ...]:
    style, distinct = _one(rng, graphs.STYLES), bool(rng.integers(2))
    return graphs.random_case(rng, style, distinct, _one(rng, [4, 7, 9, 12]))


def _partition(seed: int, folder: Path) -> None:
    """Edges in any order, ids and weights of any type, and weights of any size."""
    rng = np.random.default_rng(seed)
    edges, n_entities, n_nodes, threshold = _graph(rng)
    shuffled = graphs.graph_of([edges[i] for i in rng.permutation(len(edges))], n_entities, n_nodes)
    graph = graphs.graph_of(edges, n_entities, n_nodes)
    ids, floats = _one(rng, [np.int64, np.uint8, np.uint64]), graph.weight.astype(np.float32)
    single = make(graph.source.astype(ids), graph.target.astype(ids), floats, n_entities, n_nodes)
    scale = _one(rng, [*graphs.SCALES.values()])
    scaled = [(u, v, scale(w)) for u, v, w in edges]
    for method in METHODS:
        found = graphs.check_partition(method, edges, n_entities, n_nodes, threshold)
        for other in (shuffled, single):  # these weights are exact in float32
            assert_same(found, partition(other, method, threshold))
        found = graphs.check_partition(method, scaled, n_entities, n_nodes, None)
        if method == "minimax":
            lightest = graphs.allowed(scaled, n_entities, None, directed=True)
            best = graphs.bottleneck_distances(lightest, n_nodes)[:n_entities].min(axis=0, initial=INF)
            assert found.bottleneck[n_entities:].tolist() == best[n_entities:].tolist()


def _networkx(seed: int, folder: Path) -> None:
    edges, n_entities, n_nodes, threshold = _graph(np.random.default_rng(seed))
    given = graphs.graph_of(edges, n_entities, n_nodes)
    allowed = graphs.allowed(edges, n_entities, threshold, directed=True)
    linked = graphs.reached(allowed, n_entities)
    inner = {ends: w for ends, w in allowed.items() if linked.issuperset(ends) and ends[1] >= n_entities}
    if 0 < len(inner) <= 50:  # sums of these powers of two stay exact in floats
        graph = nx.DiGraph()
        original = graphs.with_one_root(inner, n_entities, graph)
        expected = {original[ends] for ends in nx.minimum_spanning_arborescence(graph).edges}
        kept = graphs.kept_edges(partition(given, "arborescence", threshold), directed=True)
        assert {ends for ends in kept if ends[1] in linked} == expected
    both = nx.Graph()
    original = graphs.with_one_root(graphs.allowed(edges, n_entities, threshold, directed=False), n_entities, both)
    expected = {original[min(ends), max(ends)] for ends in nx.minimum_spanning_tree(both).edges}
    assert graphs.kept_edges(partition(given, "undirected", threshold), directed=False).keys() == expected


def _decisions(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    edges, n_entities, n_nodes, threshold = _graph(rng)
    graph, n = graphs.graph_of(edges, n_entities, n_nodes), n_nodes - n_entities
    told = decided.drawn_decisions(rng, n_entities, n)
    free = told._replace(different=told.different[:0])
    clipped = make(graph.source, graph.target, np.clip(graph.weight, 0, 2), n_entities, n_nodes)
    for method in METHODS:
        found = partition(graph, method, threshold, decisions=free)
        roots = decided.slow_roots(edges, n_entities, n, threshold, method, free)
        assert found.entity.tolist() == [root if root is not None and root >= 0 else -1 for root in roots]
        keys = decided.slow_clusters(edges, n_entities, n, threshold, free, roots)
        labels = found.labels[n_entities:]
        assert decided.same_clusters(labels.tolist(), keys)
        assert (labels >= n_entities)[found.entity < 0].all()
        apart = partition(graph, method, threshold, decisions=told)
        decided.check_obeyed(apart, told)
        average: Any = {"nil_linkage": "average", "nil_threshold": 0.5, "decisions": told}
        decided.check_obeyed(partition(clipped, method, threshold, **average), told)
        if not len(told.wrong):  # else the entity loses its edge, which is another graph
            after = apart.labels[n_entities:]
            violated = {labels[a] for a, b in told.different if labels[a] == labels[b]}
            untouched = ~np.isin(labels, list(violated))
            assert (labels[untouched] == after[untouched]).all()
            assert decided.same_clusters(after.tolist(), decided.kruskal(found, told, violated))
        plain = partition(graph, method, threshold)  # to decide what is so already changes nothing
        outside = dict.fromkeys(np.flatnonzero(plain.entity < 0).tolist(), decided.OUTSIDE)
        for same_again in (decided.decide(n), decided.decide(n, outside, alone=outside)):
            assert_same(plain, partition(graph, method, threshold, decisions=same_again))


def _trees(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    source, target = rng.integers(0, n, (2, rng.integers(0, 3 * n)))
    weight = _one(rng, [lambda: rng.random(len(source)), lambda: rng.integers(-1, 6, len(source)) / 5])()
    weight = weight.astype(_one(rng, [np.float32, np.float64]))
    graph = mention_graph(source, target, weight, n)
    tree = merge_tree(graph)
    for threshold in (-INF, INF, 0.3, *weight[:4].tolist()):
        light = weight <= weight.dtype.type(threshold)
        assert tree.cut(threshold).tolist() == trees.component_labels(source[light], target[light], n).tolist()
    assert len(tree.height) == n - len(set(tree.cut().tolist()))
    average = average_tree(graph)
    order, turned = rng.permutation(len(source)), rng.random(len(source)) < 0.5
    ends = (np.where(turned, one, other)[order] for one, other in ((source, target), (target, source)))
    again = mention_graph(*ends, weight[order], n)
    for one, other in ((tree, merge_tree(again)), (average, average_tree(again))):
        for name in ("left", "right", "height", "source", "target"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
    expected = trees.brute_force(source, target, weight, n)
    assert sorted(trees.merges_of(average), key=lambda merge: merge[0]) == sorted(expected)
    assert average.height.tolist() == sorted(average.height.tolist())
    for limit in (0.0, 0.3, *average.height.tolist()):
        assert average_tree(graph, limit).cut(limit).tolist() == average.cut(limit).tolist()
    metric, is_tied = _one(rng, METRICS), rng.random() < 0.5
    drawn = (rng.integers(-2, 3, shape) if is_tied else rng.normal(size=shape) for shape in ((n, 3), n))
    points, root = (array.astype(np.float32) for array in drawn)
    grown = trees.grown(points, root, metric, _one(rng, [0, 4096]))
    complete = trees.complete_graph(points, root, metric)
    is_tied = len(np.unique(complete.weight)) < n + n * (n - 1) // 2
    for method in ("minimax",) if is_tied else ("minimax", "arborescence"):
        found = partition(complete, method)
        assert grown.parent.tolist() == (found.parent[1:] - 1).tolist()
        assert grown.weight.tolist() == found.weight[1:].tolist()


def _clusters(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    n, kinds = int(rng.integers(1, 30)), int(rng.integers(1, 9))
    true, pred = rng.integers(-3, kinds - 3, (2, n)).tolist()
    scores, expected = metrics.clustering_scores(true, pred), by.from_sklearn(true, pred)
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    (neither, wrong), (missed, right) = (pair_confusion_matrix(true, pred) // 2).tolist()
    assert by.pair_counts(true, pred) == (right, wrong, missed, neither)
    draws = ([(int(m), int(rng.integers(0, 4))) for m in rng.permutation(7)[: rng.integers(0, 6)]] for _ in "12")
    sides = [by.clusters_of(dict(owner)) for owner in draws]
    counts = metrics.coreference_counts(*sides)
    for metric in ("muc", "b3", "ceafm", "ceafe", "lea"):
        slow = [*by.recall_by_definition(metric, *sides), *by.recall_by_definition(metric, *sides[::-1])]
        assert counts[metric] == pytest.approx(slow, abs=1e-12), metric
    rooted = list(range(n := int(rng.integers(0, 10))))
    left, right = [], []
    for i in range(int(rng.integers(0, max(1, n)))):
        left.append(rooted.pop(rng.integers(len(rooted))))
        right.append(rooted.pop(rng.integers(len(rooted))))
        rooted.append(n + i)
    forest = rng.integers(-1, 4, n).tolist(), left, right, sorted(rng.choice([-1.5, 0.0, 0.1, 2.0], len(left)).tolist())
    cuts = metrics.all_cuts(*forest)
    assert cuts.dendrogram_purity == pytest.approx(by.purity_by_pairs(*forest), abs=1e-14)
    by.assert_each_cut_is_right(cuts, range(len(cuts.threshold)), *forest)
    by.assert_conll_is_right(*forest)


def _mentions(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 10))
    gold = [rng.integers(-1, 6, rng.integers(0, 4)).tolist() for _ in range(n)]
    predicted, candidates = rng.integers(-1, 6, n).tolist(), rng.integers(-1, 6, (n, 4))
    seen, ks = rng.random(n) < 0.5, [4, 1, 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "_CELLS", int(rng.integers(1, 40)))  # blocks of any size
        scores = metrics.linking_scores(*csr(gold), predicted, candidates=candidates, k=ks, seen=seen)
    overall = metrics.linking_outcomes(*csr(gold), predicted, candidates=candidates).count(k=ks)
    assert vars(scores) == vars(scores) | vars(overall)
    for counts, group in ((overall, seen | True), (scores.seen, seen), (scores.unseen, ~seen)):
        assert counts == by_brute_force(np.flatnonzero(group).tolist(), gold, predicted, candidates, ks)
    flags, annotated = rng.random((2, n)) < 0.5, np.append(rng.random(n - 1) < 0.8, True)
    own = metrics.nil_scores(*flags, annotated=annotated)
    expected = precision_recall_fscore_support(*flags[:, annotated], labels=[True], average="micro", zero_division=0)
    assert (own.precision, own.recall, own.f1) == pytest.approx(expected[:3])
    score = rng.choice([-INF, -1.0, -0.0, 0.0, 0.25, 0.5, rng.random()], n)
    curve = metrics.nil_curve(flags[0], score, annotated=annotated)
    every = [metrics.nil_scores(flags[0], score < at, annotated=annotated) for at in curve.threshold]
    assert curve.f1.tolist() == pytest.approx([one.f1 for one in every], rel=1e-15)
    told = [(one.gold, one.predicted, one.correct, one.precision, one.recall) for one in every]
    columns = curve.predicted, curve.correct, curve.precision, curve.recall
    assert told == [(curve.gold, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    assert len({one.predicted for one in every}) == len(every) == 1 + len({*score[annotated].tolist()})
    some = np.isin(np.arange(n), np.flatnonzero(annotated))
    if flags[0][some].any():
        place = np.unique(score[some], return_inverse=True)[1]
        assert curve.average_precision == pytest.approx(average_precision_score(flags[0][some], -place))

    def mention() -> list[tuple[int, int]]:
        return [(int(b), int(b + size)) for b, size in rng.integers(1, 5, (rng.integers(1, 4), 2)) * [2, 1]]

    items = [[[mention(), mention()] for _ in range(n)] for _ in "12"]
    found = metrics.span_scores(*items)
    assert [tuple(row) for row in found.items.tolist()] == list(map(counted, *items))


def _problem(rng: np.random.Generator) -> dict[str, Any]:
    dim, n, n_queries = int(rng.integers(1, 5)), int(rng.integers(1, 11)), int(rng.integers(1, 6))
    low, size = -int(rng.integers(3)), int(rng.integers(0, 40 if rng.random() < 0.2 else 15))
    kind = _one(rng, ["ties", "names", "near", "gaussian"])
    if kind == "ties":
        corpus, queries = (rng.integers(low, 3, (m, dim)).astype(np.float32) for m in (size, n_queries))
    elif kind == "gaussian":
        corpus, queries = (rng.normal(size=(m, dim)).astype(np.float32) for m in (size, n_queries))
    else:
        made = names(size + n_queries, int(rng.integers(99)))
        if kind == "near":
            made = nearly_equal(size + n_queries, dim, int(rng.integers(99)))
        corpus, queries = made[:size], made[size:]
    given = {"queries": queries, "corpus": corpus, "owner": rng.integers(0, n, size), "n": n}
    return given | {"metric": _one(rng, METRICS), "self_ids": _one(rng, [None, rng.integers(0, n, n_queries)])}


def _search(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    given, k = _problem(rng), int(rng.integers(0, 13))
    how = {name: given[name] for name in ("metric", "self_ids")}
    everything = brute(**given, k=given["n"])
    there = np.append(everything.dissimilarity[np.isfinite(everything.dissimilarity)], np.float32(1))
    ends = ((_one(rng, there), np.float32(_one(rng, [-9, 9]))) for _ in given["queries"])
    limit = np.float32([np.nextafter(*own) for own in ends])
    limit = np.where(rng.random(len(limit)) < 0.4, rng.choice(there, len(limit)), limit)
    limit[rng.random(len(limit)) < 0.1] = _one(rng, [-INF, INF])
    form = _one(rng, ["dense", "sparse"])
    queries = vectors(given["queries"], form)
    things = vectors(given["corpus"], form, owner=given["owner"], n=given["n"])
    index = Index.of(things, given["metric"])
    same(nearest(queries, things, k, **how), brute(**given, k=k))
    same(nearest(queries, index, k, **how, within=limit), filtered(brute(**given, k=k), limit))
    plain = {name: value for name, value in given.items() if name != "self_ids"}
    expected, parts = brute(**plain, k=given["n"]), []
    for shard in np.array_split(rng.permutation(given["n"]), rng.integers(1, 4)):
        shard = np.sort(shard)
        if len(shard):
            part = nearest(queries, index.taken(shard), given["n"], metric=given["metric"])
            parts.append(renumbered(part, shard))
    same(merged(parts, given["n"]), expected)
    query, thing = np.divmod(np.arange(queries.n * given["n"]), given["n"])
    own = pair_dissimilarity(queries, things, query, thing, metric=given["metric"])
    table = np.full((queries.n, given["n"] + 1), np.inf, np.float32)
    np.put_along_axis(table, expected.ids, expected.dissimilarity, axis=1)
    assert own.tolist() == table[:, :-1].ravel().tolist()


def _growth(seed: int, folder: Path) -> None:
    rng, n = np.random.default_rng(seed), 20
    form, metric, k = _one(rng, ["dense", "sparse"]), _one(rng, ["cosine", "dot"]), int(rng.integers(0, 8))
    within = _one(rng, [None, -1.0, 0.0, 0.2, 0.7])
    every = rows(_one(rng, ["ties", "duplicates", "gaussian"]), n, rng)
    there, lists = rng.random(n) < 0.5, None
    for _ in range(4):
        after = np.where(rng.random(n) < rng.choice([0.1, 0.4, 0.9]), rng.random(n) < 0.6, there)
        if lists is None:
            own = vectors(every[there], form)
            lists = nearest(own, own, k, metric=metric, self_ids=np.arange(own.n), within=within)
        things = vectors(every[after], form)
        lists = updated(lists, things, rows_of(there, after), within=within, metric=metric)
        expected = brute(every[after], every[after], k, metric=metric, n=things.n, self_ids=np.arange(things.n))
        same(lists, filtered(expected, np.full(things.n, np.inf if within is None else within)))
        there = after


def _threads(seed: int, folder: Path) -> None:
    """A search in 1 to 8 threads, in chunks of any size, and a partition beside others."""
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(40, 160)), int(rng.integers(2, 9))
    matrix = np.concatenate([rng.normal(size=(n, dim)).astype(np.float32), nearly_equal(n // 2, dim, seed % 99)])
    matrix[rng.random(matrix.shape) < 0.3] = 0
    metric, k, own = _one(rng, ["cosine", "dot"]), int(rng.integers(1, 6)), np.arange(len(matrix))
    expected = brute(matrix, matrix, k, metric=metric, self_ids=own)
    for form in ("dense", "sparse"):
        points = vectors(matrix, form)
        for threads in rng.permutation(8)[:3] + 1:
            with pytest.MonkeyPatch.context() as patch, faiss_threads(int(threads)):
                patch.setattr(os, "cpu_count", lambda threads=int(threads): threads)
                patch.setattr(dense_search, "_CHUNK", int(rng.integers(1, 200)))
                same(nearest(points, points, k, metric=metric, self_ids=own), expected)


def _shards(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    given, k, form = _problem(rng), int(rng.integers(1, 13)), _one(rng, ["dense", "csr_array"])
    things = vectors(given["corpus"], form, owner=given["owner"], n=given["n"])
    others = Index.of(things, given["metric"]) if rng.random() < 0.5 else things
    within = _one(rng, [None, 0.2, -1.0])
    expected = brute(**given, k=k)
    if within is not None:
        expected = filtered(expected, np.full(len(given["queries"]), within))
    with opened(folder / "work", shard_size=int(rng.integers(1, 9))) as work:
        wanted = [Search(vectors(given["queries"], form), others, given["self_ids"])]
        how: Any = {"metric": given["metric"], "within": within, "progress": silent}
        (found,) = work.search_all(wanted, k, **how)
    same(found, expected)


def _links(seed: int, folder: Path) -> None:
    """Domains and documents alone, with each edge from a full scan, and the partition from its definition."""
    rng = np.random.default_rng(seed)
    texts = [rng.choice(histories.NAMES, rng.integers(0, 5)).tolist() for _ in range(rng.integers(1, 7))]
    documents = [document(f"d{i}", *own, domain=_one(rng, [None, "x"])) for i, own in enumerate(texts)]
    kb = [arbo.Entity(f"E{i}", str(_one(rng, histories.NAMES)), domain=[None, "x"][i % 2]) for i in range(5)]
    method, k, alone = _one(rng, METHODS), int(rng.integers(0, 4)), bool(rng.integers(2))
    metric: Any = _one(rng, ["cosine", "dot"])
    encoder = histories.LettersEncoder({}, {}, metric)
    mentions = [(m, d.id if alone else d.domain, d.domain) for d in documents for m in d.mentions]
    named, own = (encoder._of(names) for names in ([m.text for m, *_ in mentions], [entity.name for entity in kb]))
    points, own = named.matrix[named.row], own.matrix[own.row]
    limit = [float(x) * (1 if metric == "cosine" else -20) for x in rng.choice([0.0, 0.02, 0.1, 0.5, 1.5], 2)]
    if mentions and rng.random() < 0.5:  # at an edge between mentions, or just below it
        edge = np.float32(_one(rng, brute(points, points, len(points), metric=metric).dissimilarity.ravel()))
        limit[1] = float(_one(rng, [edge, np.nextafter(edge, np.float32(-np.inf)), edge - 1e-12]))
    limits: Any = {"entity_threshold": limit[0], "mention_threshold": limit[1]}
    config = arbo.LinkerConfig(method=method, k=k, per_document=alone, candidates=2, **limits)
    linker = arbo.Linker(arbo.KnowledgeBase(kb), encoder, config)
    documents = [documents[i] for i in rng.permutation(len(documents))]
    found = linker.link(documents)
    assert found.manifest["search"]["within"] == limit[1]
    if alone:
        average: Any = {"nil_linkage": "average", "nil_threshold": 0.3} if metric == "cosine" else {}
        each = linker.configured(config=replace(config, **_one(rng, [{}, average])))
        assert list(each.link(documents).links) == [link for one in documents for link in each.link([one]).links]
    n, edges = len(kb), []
    for i, (mention, world, domain) in enumerate(mentions):
        near = np.array([j for j, other in enumerate(mentions) if other[1] == world])
        for places, matrix, most, shift in (
            (np.array([j for j in range(n) if kb[j].domain == domain]), own, 2, 0),
            (near[near != i], points, k, n),
        ):
            if len(places) and most:
                lists = brute(points[[i]], matrix[places], most, metric=metric)
                listed = zip(lists.dissimilarity[0].tolist(), lists.ids[0], strict=True)
                found_ones = [(w, int(places[j])) for w, j in listed if j >= 0]
                if not shift:  # of two entities that are equally near, the one that is spelled like the mention
                    spelled = [(w, _spelling_distance(mention.text, (kb[j].name,)), j) for w, j in found_ones]
                    found_ones = [min(spelled)[::2]]
                edges += [(place + shift, n + i, w) for w, place in found_ones]
    allowed = [float(np.float32(x)) for x in limit]
    directed = method != "undirected"
    lightest = graphs.allowed(edges, n, tuple(allowed), directed=directed)
    kept = graphs.SLOW[method](lightest, n, n + len(mentions))
    where = {node: min(part) for part in graphs.components(kept, n + len(mentions)) for node in part}
    for one, link in {mentions[i][0].id: i for i in range(len(mentions))}.items():
        root = where[n + link]
        assert found.link_of(one).entity == (kb[root].id if root < n else None), (one, edges)
        first = found.link_of(one).cluster
        same_cluster = [found.link_of(m.id).cluster == first for m, *_ in mentions]
        assert same_cluster == [where[n + j] == root for j in range(len(mentions))]


CAMPAIGNS = {
    "partition": Campaign(_partition, "all methods give what their definitions give, ties included", 180_000, 300),
    "networkx": Campaign(_networkx, "arborescences and spanning trees are those of NetworkX", 180_000, 200),
    "decisions": Campaign(_decisions, "decisions are obeyed as their definition says", 60_000, 120),
    "trees": Campaign(_trees, "merge trees and cuts are those of brute force and SciPy", 60_000, 200),
    "clusters": Campaign(_clusters, "scores of clusters are those of definitions and scikit-learn", 20_000, 60),
    "mentions": Campaign(_mentions, "scores of mentions are those of definitions and scikit-learn", 60_000, 100),
    "search": Campaign(_search, "each search lists what a full scan in float64 lists, to the last bit", 120_000, 150),
    "growth": Campaign(_growth, "lists that grow and shrink are those of a full scan", 60_000, 80),
    "threads": Campaign(_threads, "1 to 8 threads, chunks of any size: the same lists", 10_000, 30),
    "shards": Campaign(_shards, "the search in shards is the plain search", 20_000, 10),
    "links": Campaign(_links, "links, domains and documents alone are those of a full scan", 20_000, 15),
}

"""Random graphs, and slow procedures that follow the definitions of the engine.

Ties are broken by (weight, source, target), for `undirected` by (weight, smaller end, larger end). So every
answer is unique and must match exactly, tied weights or not.
"""

from itertools import pairwise, product

import networkx as nx
import numpy as np

from clustering import Edges, Graph, partition
from clustering.arrays import concatenated

INF = float("inf")


def random_edges(rng, n_entities, n_nodes):
    return rng.integers(0, n_nodes, (rng.integers(0, 4 * n_nodes + 1), 2))


def neighbours(rng, n_entities, n_nodes):
    """Each mention has edges from a few near points on a line, and from one entity or none."""
    place = rng.random(n_nodes)
    mentions = range(n_entities, n_nodes)
    pairs = [(u, v) for v in mentions for u in np.argsort(abs(place - place[v]))[: rng.integers(1, 5)] if u in mentions]
    if n_entities:
        pairs += [(rng.integers(n_entities), v) for v in mentions if rng.random() < 0.6]
    return pairs


def cyclic(rng, n_entities, n_nodes):
    """Rings of mentions, chords and a few entity edges: much to contract."""
    ring = rng.permutation(np.arange(n_entities, n_nodes))
    pairs = list(zip(ring, np.roll(ring, 1), strict=True))
    cut = len(ring) // 2
    pairs += zip(ring[:cut], np.roll(ring[:cut], 1), strict=True)
    pairs += zip(ring, np.roll(ring, -1), strict=True)
    return pairs + list(rng.integers(0, n_nodes, (rng.integers(1, 5), 2)))


def chain(rng, n_entities, n_nodes):
    pairs = [(v, v + 1) for v in range(n_nodes - 1)]
    return pairs + [(v + 1, v) for v in range(n_nodes - 1) if rng.random() < 0.5]


def dense(rng, n_entities, n_nodes):
    return list(product(range(n_nodes), repeat=2))


def star(rng, n_entities, n_nodes):
    hub = rng.integers(n_nodes)
    spokes = [(hub, v) for v in range(n_nodes)] + [(v, hub) for v in range(n_nodes)]
    return spokes + list(rng.integers(0, n_nodes, (3, 2)))


STYLES = [random_edges, neighbours, cyclic, chain, dense, star]


def weights(rng, n, distinct):
    if distinct:
        return (rng.permutation(n) - n // 3) / 4  # negative, zero, positive; exact in float32
    return rng.integers(-2, rng.integers(-1, 4), n) / 2


def thresholds(rng, weight):
    """None, a number or a pair; most often exactly at the weight of an edge."""
    some = [float(w) for w in rng.permutation(weight)[:2]] + [0.125, -INF, INF][: rng.integers(4)]
    draw = rng.random()
    if draw < 0.5 or len(some) < 2:
        return None
    if draw < 0.75:
        return some[0]
    return tuple(some[i] for i in rng.permutation(len(some))[:2])


def random_case(rng, style, distinct, max_nodes=9):
    """Return edges, n_entities, n_nodes, threshold; some have no entity, no mention or no node."""
    n_nodes = int(rng.integers(0, max_nodes + 1))
    n_entities = int(rng.integers(0, min(n_nodes, 4) + 1))
    pairs = list(map(tuple, style(rng, n_entities, n_nodes))) if n_nodes else []
    if pairs and rng.random() < 0.4:  # copies, both directions, self-loops, edges into entities
        pairs += [pairs[i] for i in rng.integers(0, len(pairs), 3)]
        pairs += [pairs[i][::-1] for i in rng.integers(0, len(pairs), 3)]
        pairs += [(v, v) for v in rng.integers(0, n_nodes, 2)]
    pairs = [(int(u), int(v)) for u, v in rng.permutation(np.array(pairs, int).reshape(-1, 2))]
    values = weights(rng, len(pairs), distinct)
    edges = [(u, v, float(w)) for (u, v), w in zip(pairs, values, strict=True)]
    return edges, n_entities, n_nodes, thresholds(rng, values)


def graph_of(edges, n_entities, n_nodes):
    source, target = [e[0] for e in edges], [e[1] for e in edges]
    return Graph.from_edges(source, target, [e[2] for e in edges], n_entities=n_entities, n_nodes=n_nodes)


def allowed(edges, n_entities, threshold, *, directed):
    """Without self-loops, what the threshold removes, and all but the lightest copy; {(u, v): weight}."""
    limit = INF if threshold is None else threshold
    entity_limit, mention_limit = limit if isinstance(limit, tuple) else (limit, limit)
    lightest = {}
    for u, v, weight in edges:
        ends = (u, v) if directed else (min(u, v), max(u, v))
        if u == v or weight > (entity_limit if min(u, v) < n_entities else mention_limit):
            continue
        lightest[ends] = min(weight, lightest.get(ends, INF))
    return lightest


def in_order(lightest):
    return sorted((weight, u, v) for (u, v), weight in lightest.items())


def reached(ends, n_entities):
    found, stack = set(range(n_entities)), list(range(n_entities))
    while stack:
        u = stack.pop()
        for a, b in ends:
            if a == u and b not in found:
                found.add(b)
                stack.append(b)
    return found


def reverse_deletion(lightest, n_entities):
    """The procedure of the ArboEL paper, edge by edge, from the last in the order to the first."""
    remaining = dict(lightest)
    for _, u, v in reversed(in_order(lightest)):
        if v in reached(remaining.keys() - {(u, v)}, n_entities):
            del remaining[u, v]
    return remaining


def among_nil(lightest, linked, n_entities):
    return {(u, v): w for (u, v), w in lightest.items() if min(u, v) >= n_entities and not {u, v} & linked}


def prim(lightest, n_entities):
    """Attach, again and again, the first edge in the order that leaves what is reached."""
    found, kept = set(range(n_entities)), {}
    while True:
        leaving = [(w, u, v) for w, u, v in in_order(lightest) if u in found and v not in found]
        if not leaving:
            return kept | among_nil(lightest, found, n_entities)
        weight, u, v = leaving[0]
        kept[u, v] = weight
        found.add(v)


def nearest_entity(lightest, n_entities):
    kept = {}
    for weight, u, v in in_order(lightest):
        if u < n_entities <= v and all(child != v for _, child in kept):
            kept[u, v] = weight
    return kept | among_nil(lightest, {v for _, v in kept}, n_entities)


def kruskal(lightest, n_entities, n_nodes):
    """Join over the first edges in the order, never two components that both hold an entity."""
    component = {v: {v} for v in range(n_nodes)}
    kept = {}
    for weight, u, v in in_order(lightest):
        joined = component[u] | component[v]
        if component[u] is not component[v] and sum(node < n_entities for node in joined) <= 1:
            kept[u, v] = weight
            for node in joined:
                component[node] = joined
    return kept


def bottleneck_distances(lightest, n_nodes):
    """Floyd-Warshall in the (min, max) semiring."""
    distance = np.full((n_nodes, n_nodes), INF)
    np.fill_diagonal(distance, -INF)
    for (u, v), weight in lightest.items():
        distance[u, v] = min(distance[u, v], weight)
    for via in range(n_nodes):
        distance = np.minimum(distance, np.maximum(distance[:, [via]], distance[[via], :]))
    return distance


def components(kept, n_nodes):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(kept)
    return list(nx.weakly_connected_components(graph))


SLOW = {
    "arborescence": lambda lightest, n_entities, n_nodes: reverse_deletion(lightest, n_entities),
    "minimax": lambda lightest, n_entities, n_nodes: prim(lightest, n_entities),
    "undirected": kruskal,
    "independent": lambda lightest, n_entities, n_nodes: nearest_entity(lightest, n_entities),
}


def edges_of(result):
    """Each linked mention's edge from its parent, then the edges between NIL mentions, only the lightest of copies."""
    linked = np.flatnonzero(result.parent >= 0)
    order = np.lexsort((result.nil_edges.weight, result.nil_edges.target, result.nil_edges.source))
    nil = result.nil_edges.take(order)
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(nil.source) != 0) | (np.diff(nil.target) != 0)
    linked_edges = Edges(result.parent[linked], linked.astype(result.parent.dtype), result.weight[linked])
    return concatenated([linked_edges, nil.take(first)])


def kept_edges(result, *, directed):
    kept = {}
    for u, v, weight in zip(*(array.tolist() for array in edges_of(result)), strict=True):
        ends = (u, v) if directed else (min(u, v), max(u, v))
        assert ends not in kept, "an edge is listed twice"
        kept[ends] = weight
    return kept


def assert_describes(result, kept, n_entities, n_nodes):
    """Every field of the result follows from the kept edges."""
    neighbour = nx.Graph(list(kept))
    entity_of = np.full(n_nodes, -1)
    for cluster in components(kept, n_nodes):
        assert {int(result.labels[node]) for node in cluster} == {min(cluster)}
        entities = [node for node in cluster if node < n_entities]
        assert len(entities) <= 1
        entity_of[list(cluster)] = entities[0] if entities else -1
    assert result.entity.tolist() == entity_of[n_entities:].tolist()
    for node in range(n_nodes):
        if node < n_entities or entity_of[node] < 0:
            assert result.parent[node] == -1
            assert np.isnan(result.weight[node])
            assert (result.bottleneck[node], result.path(node)) == (-INF if node < n_entities else INF, [node])
        else:
            path = nx.shortest_path(neighbour, int(entity_of[node]), node)  # unique: a tree
            steps = [kept.get((u, v), kept.get((v, u))) for u, v in pairwise(path)]
            assert (result.path(node), result.parent[node]) == (path, path[-2])
            assert (result.weight[node], result.bottleneck[node]) == (steps[-1], max(steps))


def assert_weakest_joins(result):
    """Without the edges as heavy as its weakest join a NIL cluster falls apart; with it the cluster holds."""
    edges, joins, weakest = edges_of(result), result.joins(), result.weakest_joins()
    sizes, labels = np.bincount(result.labels), np.flatnonzero(weakest > -INF)
    assert labels.tolist() == [v for v in range(result.n_entities, len(sizes)) if sizes[v] > 1]
    source, target = joins.source + result.n_entities, joins.target + result.n_entities
    assert (result.labels[source] == result.labels[target]).all()
    listed = {(min(u, v), max(u, v), w) for u, v, w in zip(*(array.tolist() for array in edges), strict=True)}
    assert listed.issuperset(zip(source.tolist(), target.tolist(), joins.weight.tolist(), strict=True))
    for label, heaviest in zip(labels, weakest[labels], strict=True):
        inside = result.labels[edges.source] == label
        for is_whole, chosen in ((True, edges.weight <= heaviest), (False, edges.weight < heaviest)):
            ends = (array[inside & chosen].tolist() for array in edges[:2])
            graph = nx.Graph(zip(*ends, strict=True))
            graph.add_nodes_from(np.flatnonzero(result.labels == label).tolist())
            assert nx.is_connected(graph) == is_whole


def check_partition(method, edges, n_entities, n_nodes, threshold):
    """Compare a partition with its definition, and return it."""
    directed = method != "undirected"
    result = partition(graph_of(edges, n_entities, n_nodes), method, threshold)
    slow = SLOW[method](allowed(edges, n_entities, threshold, directed=directed), n_entities, n_nodes)
    assert kept_edges(result, directed=directed) == slow, (method, edges, n_entities, n_nodes, threshold)
    assert_describes(result, slow, n_entities, n_nodes)
    assert_weakest_joins(result)
    return result


SCALES = {
    "equal in float32": lambda w: 1 + w * 1e-12,
    "beyond float32": lambda w: w * 1e300,
    "below float32": lambda w: w * 1e-300,
    "infinity and zeros of float32": lambda w: (abs(w) * 1e39 if w > 1 else w * 1e-50) or -0.0,
}

ROOT = -1


def with_one_root(lightest, n_entities, graph):
    """Make all entities one node, and the weights powers of two: sums then compare as descending lists do."""
    original = {}
    for rank, (_, u, v) in enumerate(in_order(lightest)):
        ends = (u if u >= n_entities else ROOT, v if v >= n_entities else ROOT)
        if ends[0] != ends[1] and not graph.has_edge(*ends):  # of several, the first in the order counts
            original[ends] = u, v
            graph.add_edge(*ends, weight=2**rank)
    return original

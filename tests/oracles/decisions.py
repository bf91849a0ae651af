"""Decisions, drawn without a conflict, and slow procedures that follow the definition of how they are obeyed.

Mentions that are the same are contracted to one node here, a decided mention has no edge but the one from its root,
and ties between the remaining edges are broken by (weight, source, target) of the ends that they had before.
"""

import numpy as np

from clustering.decisions import NEW, OUTSIDE, UNDECIDED, Decisions
from oracles.graphs import allowed, edges_of

INF = float("inf")


def decide(n, root=None, passed_on=(), alone=(), same=(), different=(), wrong=()):
    roots = np.full(n, UNDECIDED)
    for mention, value in (root or {}).items():
        roots[mention] = value
    flags = [np.isin(np.arange(n), list(some)) for some in (passed_on, alone)]
    pairs = [np.array(list(some), np.int64).reshape(-1, 2) for some in (same, different, wrong)]
    return Decisions(roots, *flags, *pairs)


def groups_of(n, pairs):
    """Return the smallest member of the group of each mention."""
    group = list(range(n))
    for _ in range(n):
        for a, b in pairs:
            group[a] = group[b] = min(group[a], group[b])
    return group


def drawn_decisions(rng, n_entities, n):
    """Draw decisions without a conflict."""
    if not n:
        return decide(0)
    same = [tuple(rng.integers(0, n, 2)) for _ in range(rng.integers(0, 3))]
    group = groups_of(n, same)
    kinds = [*range(n_entities), OUTSIDE, NEW, NEW - 1]
    root_of, weak = {}, set()
    for g in sorted(set(group)):
        if rng.random() < 0.35:
            root_of[g] = kinds[rng.integers(len(kinds))]
            if rng.random() < 0.3:
                weak.add(g)
    root, passed_on = {}, set()
    for m in range(n):
        if group[m] in root_of and (m == group[m] or rng.random() < 0.3):
            root[m] = root_of[group[m]]
            if group[m] in weak:
                passed_on.add(m)
    different, wrong = [], []
    for a, b in rng.integers(0, n, (rng.integers(0, 4), 2)):
        roots = {root_of.get(group[m], m - 1000) for m in (a, b)} - {OUTSIDE}
        if group[a] != group[b] and (len(roots) == 2 or OUTSIDE in {root_of.get(group[m]) for m in (a, b)}):
            different.append((a, b))
    for m in rng.integers(0, n, rng.integers(0, 3) if n_entities else 0):
        entity = rng.integers(n_entities)
        if root_of.get(group[m]) != entity:
            wrong.append((m, entity))
    alone = [m for m in range(n) if m in root and rng.random() < 0.3]
    return decide(n, root, passed_on, alone, same, different, wrong)


def slow_roots(edges, n_entities, n, threshold, method, decisions):
    """Return the root of each mention: an entity, OUTSIDE, NEW - i, or None."""
    group = groups_of(n, decisions.same)
    wrong = {(int(e), m) for other, e in decisions.wrong for m in range(n) if group[m] == group[other]}
    isolated = set()
    while True:
        roots = slow_forest(edges, n_entities, n, threshold, method, decisions, wrong, isolated)
        more = {m for e, m in wrong if roots[m] == e} - isolated
        if not more:
            return roots
        isolated |= more


def slow_forest(edges, n_entities, n, threshold, method, decisions, wrong, isolated):
    group = groups_of(n, decisions.same)
    root_of = {group[m]: int(r) for m, r in enumerate(decisions.root) if r != UNDECIDED}
    alone = {m for m in range(n) if decisions.alone[m]}
    kept = []  # (weight, u, v, root or group, root or group)
    for (u, v), w in allowed(edges, n_entities, threshold, directed=method != "undirected").items():
        if v < n_entities:
            continue
        m = v - n_entities
        if u < n_entities:
            if (u, m) not in wrong:
                kept.append((w, u, v, ("root", u), group[m]))
            continue
        ends = {u - n_entities} if method != "undirected" else {u - n_entities, m}
        if method != "independent" and not ends & alone and not {u - n_entities, m} & isolated:
            kept.append((w, u, v, group[u - n_entities], group[m]))
    kept = sorted(edge for edge in kept if edge[3] != edge[4])
    found = dict(root_of)
    if method == "undirected":
        return [slow_undirected(kept, found, group).get(g) for g in group]
    kept = [edge for edge in kept if edge[4] not in root_of]
    if method == "minimax":
        while leaving := [e for e in kept if (isinstance(e[3], tuple) or e[3] in found) and e[4] not in found]:
            _, _, _, a, b = leaving[0]
            found[b] = a[1] if isinstance(a, tuple) else found[a]
    else:
        for edge in kept[::-1]:
            rest = [other for other in kept if other is not edge]
            if edge[4] in dict(spread_over(rest, found)):
                kept = rest
        found = dict(spread_over(kept, found))
    return [found.get(g) for g in group]


def spread_over(edges, found):
    """Return the root of each group that these edges reach."""
    found = dict(found)
    for _ in range(len(edges) + 1):
        for _, _, _, a, b in edges:
            if b not in found and (isinstance(a, tuple) or a in found):
                found[b] = a[1] if isinstance(a, tuple) else found[a]
    return found.items()


def slow_undirected(kept, found, group):
    """Join groups over the lightest edges, but never two that both have a root."""
    part = {g: {g} for g in group}
    root = {g: found.get(g) for g in group}
    for _, _, _, a, b in kept:
        if isinstance(a, tuple):
            if root[b] is None:
                for g in part[b]:
                    root[g] = a[1]
        elif part[a] is not part[b] and (root[a] is None or root[b] is None):
            joined, both = part[a] | part[b], root[a] if root[a] is not None else root[b]
            for g in joined:
                part[g], root[g] = joined, both
    return root


def slow_clusters(edges, n_entities, n, threshold, decisions, roots):
    """Return the clusters: of each root, and of the edges between all that have none in the knowledge base."""
    up = list(range(n))

    def top(m):
        return m if up[m] == m else top(up[m])

    outside = {m for m in range(n) if roots[m] in (None, OUTSIDE)}
    pairs = [(u - n_entities, v - n_entities) for u, v in allowed(edges, n_entities, threshold, directed=True)]
    for a, b in [*pairs, *decisions.same.tolist()]:
        if a in outside and b in outside:
            up[top(a)] = top(b)
    return [("NIL", top(m)) if m in outside else roots[m] for m in range(n)]


def same_clusters(labels, keys):
    return len(set(labels)) == len(set(keys)) == len(set(zip(labels, keys, strict=True)))


def kruskal(free, decisions, violated):
    n_entities, n = free.n_entities, len(free.entity)
    ties = {m: -1e35 if decisions.passed_on[m] else -1e36 for m in range(n)}
    edges = []
    for u, v, w in zip(*(array.tolist() for array in edges_of(free)), strict=True):
        is_root = v >= n_entities and w == -INF and u < n_entities
        edges.append((ties[v - n_entities] if is_root else -1e36 if w == -INF else w, u, v))
    hung = (free.parent[n_entities:] < 0) & (free.bottleneck[n_entities:] == -INF)
    for m in np.flatnonzero(hung):  # below the root of a new entity, which has an id between entities and mentions
        edges.append((ties[m], n_entities - 0.5 + (NEW - int(decisions.root[m])) / 10, int(m) + n_entities))
    label = {node: node for _, u, v in edges for node in (u, v)} | {m + n_entities: m + n_entities for m in range(n)}
    part = {node: {node} for node in label}
    for _, u, v in sorted(edges):
        joined = part[u] | part[v]
        bad = any({a + n_entities, b + n_entities} <= joined for a, b in decisions.different)
        if not bad or free.labels[v] not in violated:
            for node in joined:
                part[node] = joined
    return [min(part[m + n_entities]) for m in range(n)]


def check_obeyed(found, decisions):
    """Check that no decision is overruled, and that the weights of decisions are shown nowhere."""
    labels = found.labels[found.n_entities :]
    by_person = (decisions.root != UNDECIDED) & ~decisions.passed_on
    linked = by_person & (decisions.root >= 0)
    assert (found.entity[linked] == decisions.root[linked]).all()
    assert (found.entity[by_person & (decisions.root < 0)] == -1).all()
    for i in range(decisions.n_new):
        assert len(set(labels[by_person & (decisions.root == NEW - i)].tolist())) <= 1
    assert all(labels[a] == labels[b] for a, b in decisions.same)
    assert not any(labels[a] == labels[b] for a, b in decisions.different)
    assert not any(found.entity[m] == e for m, e in decisions.wrong)
    smallest = {label: i for i, label in reversed(list(enumerate(found.labels.tolist())))}
    assert all(label == smallest[label] for label in found.labels.tolist())
    assert not ((found.parent[found.n_entities :] < 0) & (found.entity >= 0)).any()
    for weights in (found.weight, found.bottleneck):
        assert not (weights <= -1e30)[np.isfinite(weights)].any()

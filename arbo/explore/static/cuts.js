// The partitions of the engine at other thresholds, from the run's own and their differences.
//
// A root is an entity, or the number of entities plus a mention, which stands for a cluster without an entity.
import { startsOf } from "./columns.js";

// Keep the first `most` of all items that are added, in the order of `before(a, b)`, which is quicker than to sort all.
function firstOf(most, before) {
  const items = [];
  return { items, add: (item) => {
    if (items.length === most && !before(item, items[most - 1])) return;
    let at = Math.min(items.length, most - 1);
    for (; at > 0 && before(item, items[at - 1]); at--) items[at] = items[at - 1];
    items[at] = item;
  } };
}

const SHOWN = 100, PARTS = 6;

// The partitions of a run from the block of its cuts: {cuts, at}, the values of both thresholds, and a function of places
// of both sliders, which returns {linked, nil, clusters, total, shown, changed}. `changed(first, last)` describes some of
// the changed clusters, until the function is called again.
export function cutterOf({ head, c, n, nKnown, isNew, clusterId, clusterName }, { head: { cuts, points }, columns }) {
  const nEntities = c.entity.length, nRoots = nEntities + n;
  const rootOf = (code) => (code >= 0 ? code : nEntities - 1 - code);
  const own = c.cluster.map((cluster) => (isNew(cluster) ? nEntities + columns["discovered.root"][cluster - nKnown] : cluster));
  const sizeOf = new Int32Array(head.clusters);
  for (const cluster of c.cluster) sizeOf[cluster]++;
  const now = own.slice(), start = startsOf(columns.count), root = columns.root.map(rootOf);
  const size = new Int32Array(nRoots), from = new Int32Array(nRoots), mixed = new Uint8Array(nRoots);
  const into = new Int32Array(head.clusters), torn = new Uint8Array(head.clusters);

  // Make `now` the roots at places of both sliders, by the differences on the way from the run's own.
  function moveTo({ entity, mention }) {
    const way = [];
    for (let i = points.findIndex((at) => at[0] === entity && at[1] === mention); i > 0; i = points[i][2]) way.unshift(i);
    now.set(own);
    for (const i of way) for (let at = start[i]; at < start[i + 1]; at++) now[columns.row[at]] = root[at];
  }

  // Compare `now` with the run: `from` and `into` are the first clusters and roots, `mixed` and `torn` tell of others.
  function compare() {
    let linked = 0, clusters = 0;
    for (const [column, value] of [[size, 0], [from, -1], [mixed, 0], [into, -1], [torn, 0]]) column.fill(value);
    for (let i = 0; i < n; i++) {
      const root = now[i], before = c.cluster[i];
      if (size[root]++ === 0) clusters++;
      if (root < nEntities) linked++;
      if (from[root] < 0) from[root] = before;
      else if (from[root] !== before) mixed[root] = 1;
      if (into[before] < 0) into[before] = root;
      else if (into[before] !== root) torn[before] = 1;
    }
    return { linked, nil: n - linked, clusters };
  }

  // What became of the changed clusters, the largest first: {kind, of, size}, `of` a root if it joins, else a cluster.
  function events() {
    const found = firstOf(SHOWN, (a, b) => (b.size - a.size || a.of - b.of) < 0);
    let total = 0;
    const add = (kind, of, number) => {
      total++;
      found.add({ kind, of, size: number });
    };
    for (let root = 0; root < nRoots; root++) if (mixed[root]) add("joins", root, size[root]);
    for (let cluster = 0; cluster < head.clusters; cluster++) {
      const root = into[cluster], entity = root < nEntities ? root : -1, before = isNew(cluster) ? -1 : cluster;
      if (torn[cluster]) add("splits", cluster, sizeOf[cluster]);
      else if (!mixed[root] && entity !== before) add(entity < 0 ? "unlinked" : before < 0 ? "linked" : "moved", cluster, sizeOf[cluster]);
    }
    return { total, found: found.items };
  }

  const oldPart = (cluster, number) =>
    ({ cluster_id: clusterId(cluster), name: clusterName(cluster), size: number, is_new: isNew(cluster) });
  const newPart = (root, number) => root < nEntities
    ? { cluster_id: root < nKnown ? clusterId(root) : null, name: c["entity.name"].at(root), size: number, is_new: false }
    : { cluster_id: null, name: c["text.words"].at(c.text[root - nEntities]), size: number, is_new: true };

  function described(shown) {
    const joined = new Map(), parted = new Map();
    for (const { kind, of } of shown) ({ joins: joined, splits: parted })[kind]?.set(of, new Map());
    const asked = new Uint8Array(nRoots), askedOld = new Uint8Array(head.clusters);
    for (const root of joined.keys()) asked[root] = 1;
    for (const cluster of parted.keys()) askedOld[cluster] = 1;
    const add = (counts, key) => counts.set(key, (counts.get(key) ?? 0) + 1);
    if (joined.size || parted.size) for (let i = 0; i < n; i++) {
      if (asked[now[i]]) add(joined.get(now[i]), c.cluster[i]);
      if (askedOld[c.cluster[i]]) add(parted.get(c.cluster[i]), now[i]);
    }
    const largest = (counts, part) => {
      const found = firstOf(PARTS, (a, b) => (b[1] - a[1] || a[0] - b[0]) < 0);
      for (const one of counts) found.add(one);
      return found.items.map(([key, number]) => part(key, number));
    };
    return shown.map(({ kind, of, size: number }) => {
      const counts = { joins: joined, splits: parted }[kind]?.get(of);
      const before = kind === "joins" ? largest(counts, oldPart) : [oldPart(of, number)];
      const after = kind === "joins" ? [newPart(of, number)] : kind === "splits" ? largest(counts, newPart) : [newPart(into[of], number)];
      return { kind, before, after, more: Math.max(0, (counts?.size ?? 0) - PARTS) };
    });
  }

  const at = (places) => {
    moveTo(places);
    const counts = compare(), { total, found } = events();
    return { ...counts, total, shown: found.length, changed: (first, last) => described(found.slice(first, last)) };
  };
  return { cuts, at };
}

// The partitions of the engine at other thresholds, from the run's own and their differences.
//
// A root is an entity, or the number of entities plus a mention, which stands for a cluster without an entity.

// Where lists of these lengths begin, and where the last ends; lengths below 0 count as 0.
export function startsOf(lengths) {
  const start = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) start[i + 1] = start[i] + Math.max(0, lengths[i]);
  return start;
}

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

// A function that returns what becomes of the run at places of both sliders: {linked, nil, clusters, total, shown,
// changed}. `changed(first, last)` describes some of the changed clusters, until the function is called again.
export function cutterOf({ head, c, n, nKnown, isNew, clusterId, clusterName }) {
  const nEntities = c.entity.length, nRoots = nEntities + n, { cuts, pairs } = head;
  const rootOf = (code) => (code >= 0 ? code : nEntities - 1 - code);
  const own = c.cluster.map((cluster) => (isNew(cluster) ? nEntities + c["discovered.root"][cluster - nKnown] : cluster));
  const sizeOf = new Int32Array(head.clusters);
  for (const cluster of c.cluster) sizeOf[cluster]++;
  const now = own.slice(), home = {};
  for (const kind of ["entity", "mention"]) home[kind] = cuts[kind].indexOf(head.threshold[kind]);
  const differences = Object.fromEntries(["entity", "mention", "pair"].map((kind) => {
    const start = startsOf(c[`cut.${kind}`]), roots = c[`cut.${kind}.root`].map(rootOf), rows = c[`cut.${kind}.row`];
    return [kind, (place) => {
      for (let i = start[place]; i < start[place + 1]; i++) now[rows[i]] = roots[i];
    }];
  }));
  const size = new Int32Array(nRoots), from = new Int32Array(nRoots), mixed = new Uint8Array(nRoots);
  const into = new Int32Array(head.clusters), torn = new Uint8Array(head.clusters);

  // Make `now` the roots at places of both sliders. One threshold goes from the run's own value by value; both go from the
  // entity threshold alone over the values that pairs have.
  function moveTo({ entity, mention }) {
    now.set(own);
    const walk = (places, begin, end, apply) => {
      const step = Math.sign(end - begin);
      for (let at = begin; at !== end;) apply(places[at += step], at);
    };
    const all = (kind) => cuts[kind].map((_, place) => place);
    if (entity === home.entity) return walk(all("mention"), home.mention, mention, differences.mention);
    walk(all("entity"), home.entity, entity, differences.entity);
    if (mention === home.mention) return undefined;
    const row = pairs.entity.indexOf(entity) * pairs.mention.length;
    const [begin, end] = [home.mention, mention].map((place) => pairs.mention.indexOf(place));
    return walk(pairs.mention, begin, end, (_, at) => differences.pair(row + at));
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

  return (places) => {
    moveTo(places);
    const counts = compare(), { total, found } = events();
    return { ...counts, total, shown: found.length, changed: (first, last) => described(found.slice(first, last)) };
  };
}

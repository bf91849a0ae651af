// The partitions of the engine at other thresholds, from the run's own and their differences.
//
// A root is an entity, or the number of entities plus a mention, which stands for a cluster without an entity.

// Where lists of these lengths begin, and where the last ends; lengths below 0 count as 0.
export function startsOf(lengths) {
  const start = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) start[i + 1] = start[i] + Math.max(0, lengths[i]);
  return start;
}

const SHOWN = 100, PARTS = 6;

// A function that returns what becomes of the run at two thresholds, of which at most one is not the run's own.
export function cutterOf({ head, c, n, nKnown, isNew, clusterId, clusterName, inCluster }) {
  const nEntities = c.entity.length, nRoots = nEntities + n;
  const rootOf = (code) => (code >= 0 ? code : nEntities - 1 - code);
  const own = c.cluster.map((cluster) => (isNew(cluster) ? nEntities + c["discovered.root"][cluster - nKnown] : cluster));
  const now = own.slice();
  const differences = Object.fromEntries(["entity", "mention"].map((kind) => {
    const start = startsOf(c[`cut.${kind}`]), roots = c[`cut.${kind}.root`].map(rootOf), rows = c[`cut.${kind}.row`];
    return [kind, (place) => [rows, roots].map((column) => column.subarray(start[place], start[place + 1]))];
  }));
  const size = new Int32Array(nRoots), from = new Int32Array(nRoots), mixed = new Uint8Array(nRoots);
  const into = new Int32Array(head.clusters), torn = new Uint8Array(head.clusters);
  let last = null;

  // Make `now` the roots at a place of a slider, by the differences from the run or from the last place.
  function moveTo(kind, place) {
    const home = head.cuts[kind].indexOf(head.threshold[kind]), side = Math.sign(place - home);
    const goesOn = last?.kind === kind && Math.sign(last.place - home) === side && Math.abs(last.place - home) <= Math.abs(place - home);
    let at = goesOn ? last.place : home;
    if (!goesOn) now.set(own);
    while (at !== place) {
      at += side;
      const [rows, roots] = differences[kind](at);
      for (let i = 0; i < rows.length; i++) now[rows[i]] = roots[i];
    }
    last = { kind, place };
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

  // What became of each changed cluster, the largest first: {kind, of, size}, `of` a root if it joins, else a cluster.
  function events() {
    const found = [];
    for (let root = 0; root < nRoots; root++) if (mixed[root]) found.push({ kind: "joins", of: root, size: size[root] });
    for (let cluster = 0; cluster < head.clusters; cluster++) {
      const root = into[cluster], entity = root < nEntities ? root : -1, before = isNew(cluster) ? -1 : cluster;
      let kind = entity < 0 ? "unlinked" : before < 0 ? "linked" : "moved";
      if (torn[cluster]) kind = "splits";
      else if (mixed[root] || entity === before) continue;
      found.push({ kind, of: cluster, size: inCluster(cluster).length });
    }
    return found.sort((a, b) => b.size - a.size || a.of - b.of);
  }

  const oldPart = (cluster, number) =>
    ({ cluster_id: clusterId(cluster), name: clusterName(cluster), size: number, is_new: isNew(cluster) });
  const newPart = (root, number) => root < nEntities
    ? { cluster_id: root < nKnown ? clusterId(root) : null, name: c["entity.name"].at(root), size: number, is_new: false }
    : { cluster_id: null, name: c["text.words"].at(c.text[root - nEntities]), size: number, is_new: true };

  function described(shown) {
    const joined = new Map(), parted = new Map();
    for (const { kind, of } of shown) ({ joins: joined, splits: parted })[kind]?.set(of, new Map());
    const add = (counts, key) => counts?.set(key, (counts.get(key) ?? 0) + 1);
    if (joined.size || parted.size) for (let i = 0; i < n; i++) {
      if (mixed[now[i]]) add(joined.get(now[i]), c.cluster[i]);
      if (torn[c.cluster[i]]) add(parted.get(c.cluster[i]), now[i]);
    }
    const largest = (counts, part) =>
      [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, PARTS).map(([key, number]) => part(key, number));
    return shown.map(({ kind, of, size: number }) => {
      const counts = { joins: joined, splits: parted }[kind]?.get(of);
      const before = kind === "joins" ? largest(counts, oldPart) : [oldPart(of, number)];
      const after = kind === "joins" ? [newPart(of, number)] : kind === "splits" ? largest(counts, newPart) : [newPart(into[of], number)];
      return { kind, before, after, more: Math.max(0, (counts?.size ?? 0) - PARTS) };
    });
  }

  return ({ entity, mention }) => {
    const kind = entity === head.threshold.entity ? "mention" : "entity";
    moveTo(kind, head.cuts[kind].indexOf(kind === "entity" ? entity : mention));
    const counts = compare(), found = events();
    return { ...counts, total: found.length, changed: described(found.slice(0, SHOWN)) };
  };
}

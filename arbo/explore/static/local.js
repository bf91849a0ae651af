// The source of a page in one file: columns in inert blocks, see `arbo/explore/columns.py`.
import { unitsOf } from "./views_document.js";

async function unpacked(block) {
  if (!block) return null;
  const letters = block.textContent;
  const binary = atob(letters), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return columnsOf(new Uint8Array(await new Response(stream).arrayBuffer()));
}

function columnsOf(bytes) {
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const columns = {};
  let at = 4 + size;
  const integers = (n) => {
    const out = new Int32Array(n);
    for (let i = 0; i < n; i++) out[i] = bytes[at + i] | (bytes[at + n + i] << 8) | (bytes[at + 2 * n + i] << 16) | (bytes[at + 3 * n + i] << 24);
    at += 4 * n;
    return out;
  };
  for (const [name, kind, n] of head.columns) {
    const values = integers(n);
    if (kind === "d") for (let i = 1; i < n; i++) values[i] += values[i - 1];
    columns[name] = kind === "f" ? new Float32Array(values.buffer) : values;
    if (kind !== "s") continue;
    const start = new Int32Array(n + 1);
    for (let i = 0; i < n; i++) start[i + 1] = start[i] + values[i];
    columns[name] = new Strings(bytes.subarray(at, at + start[n]), start);
    at += start[n];
  }
  return { head, columns };
}

class Strings {
  constructor(bytes, start) {
    Object.assign(this, { bytes, start, length: start.length - 1, decoder: new TextDecoder("utf-8", { ignoreBOM: true }) });
  }
  at(i) {
    return this.decoder.decode(this.bytes.subarray(this.start[i], this.start[i + 1]));
  }
  all() {
    return (this.every ??= Array.from({ length: this.length }, (_, i) => this.at(i)));
  }
  indexOf(text) {
    this.index ??= new Map(this.all().map((own, i) => [own, i]));
    return this.index.get(text) ?? -1;
  }
}

const figure = (column, i) => (column === undefined || Number.isNaN(column[i]) ? null : column[i]);
const coded = (words, code) => (code < 0 ? null : words.at(code));

// The rows of each group, in order: `rows.subarray(start[g], start[g + 1])`.
function grouped(codes, n) {
  const start = new Int32Array(n + 1);
  for (const code of codes) if (code >= 0) start[code + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const rows = new Int32Array(start[n]), next = start.slice();
  for (let i = 0; i < codes.length; i++) if (codes[i] >= 0) rows[next[codes[i]]++] = i;
  return (group) => rows.subarray(start[group], start[group + 1]);
}

function startsOf(lengths) {
  const start = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) start[i + 1] = start[i] + Math.max(0, lengths[i]);
  return start;
}

export async function localSource() {
  const [tablesBlock, textsBlock] = ["tables", "texts"].map((id) => document.getElementById(id)); // the page drops them
  const { head, columns: c } = await unpacked(tablesBlock);
  const n = c.mention.length, nDocuments = c.document.length, nKnown = head.clusters - head.discovered;
  const inCluster = grouped(c.cluster, head.clusters), inDocument = grouped(c.of, nDocuments);
  const spanStart = startsOf(c.spans), goldStart = c.golds && startsOf(c.golds), everyRow = Int32Array.from({ length: n }, (_, i) => i);
  const lazy = (make) => {
    let value;
    return () => (value ??= make());
  };
  const texts = lazy(() => unpacked(textsBlock).then((found) => found?.columns.text ?? null));
  const documents = new Map();
  const documentText = async (row) => {
    if (!documents.has(row)) {
      const text = (await texts())?.at(row) ?? null;
      documents.set(row, { text, units: text === null ? null : unitsOf(text) });
    }
    return documents.get(row);
  };

  const clusterId = (cluster) => (cluster < nKnown ? c.entity.at(cluster) : c.discovered.at(cluster - nKnown));
  const clusterName = (cluster) => (cluster < nKnown ? c["entity.name"].at(cluster) : c["discovered.name"].at(cluster - nKnown));
  const sizeOf = (cluster) => inCluster(cluster).length;
  const lower = lazy(() => Object.fromEntries(["text.words", "expansion.words", "entity.name", "discovered.name"].map((name) => [name, c[name].all().map((text) => text.toLowerCase())])));
  const rowOf = (strings, what, id) => {
    const row = strings.indexOf(id);
    if (row < 0) throw new Error(`The run has no ${what} “${id.slice(0, 100)}”.`);
    return row;
  };
  const clusterRowOf = (id) => {
    const known = c.entity.indexOf(id);
    return known >= 0 && known < nKnown ? known : nKnown + rowOf(c.discovered, "cluster", id);
  };
  const spansOf = (i) => Array.from({ length: c.spans[i] }, (_, j) => [c.start[spanStart[i] + j], c.start[spanStart[i] + j] + c.length[spanStart[i] + j]]);

  function bare(i) {
    const cluster = c.cluster[i], isKnown = cluster < nKnown, spans = spansOf(i);
    const row = { mention_id: c.mention.at(i), document_id: c.document.at(c.of[i]), start: Math.min(...spans.map(([start]) => start)), end: Math.max(...spans.map(([, end]) => end)),
      text: coded(c["text.words"], c.text[i]), type: coded(c["type.words"], c.type[i]), entity_id: isKnown ? clusterId(cluster) : null,
      entity_name: isKnown ? clusterName(cluster) : null, cluster_id: clusterId(cluster), score: figure(c.score, i), margin: figure(c.margin, i), sentence: null };
    if (c.confidence) row.confidence = figure(c.confidence, i);
    if (c.corrected) row.corrected = Boolean(c.corrected[i]);
    if (c.follows) row.follows = c.follows[i] < 0 ? null : c.mention.at(c.follows[i]);
    return row;
  }
  async function full(i) {
    const row = bare(i);
    if (!head.texts) return row;
    const { text, units } = await documentText(c.of[i]);
    const unit = (offset) => (units ? units[Math.max(0, Math.min(offset, units.length - 1))] : offset);
    const [begin, start, end, stop] = [row.start - c.before[i], row.start, row.end, row.end + c.after[i]].map(unit);
    row.sentence = { before: text.slice(begin, start), text: text.slice(start, end), after: text.slice(end, stop) };
    return row;
  }
  const several = (rows) => Promise.all(Array.from(rows, full));
  const treeRow = async (i) => ({ ...(await full(i)), parent: c.parent[i] >= 0 ? c.mention.at(c.parent[i]) : c.parent[i] === -2 ? clusterId(c.cluster[i]) : null,
    parent_is_mention: c.parent[i] >= 0, step: figure(c.step, i) });

  // The members of a cluster from the root of its tree, the lightest branch first, and how many hang on each.
  function treeOf(cluster) {
    const children = new Map();
    for (const i of inCluster(cluster)) {
      const above = c.parent[i] >= 0 ? c.parent[i] : -1;
      if (!children.has(above)) children.set(above, []);
      children.get(above).push(i);
    }
    const order = [], below = new Map(), stack = [...(children.get(-1) ?? [])].reverse();
    while (stack.length) {
      const i = stack.pop();
      order.push(i);
      const heaviest = (children.get(i) ?? []).sort((a, b) => (c.step[b] || 0) - (c.step[a] || 0) || b - a);
      for (const child of heaviest) stack.push(child);
    }
    for (const i of order.toReversed()) below.set(i, (children.get(i) ?? []).reduce((sum, child) => sum + below.get(child), 1));
    return { order, below };
  }

  const candidatesOf = (i) => [0, 1, 2, 3].map((place) => [c[`near${place}`][c.near[i]], c[`near${place}.score`][c.near[i]]]).filter(([entity]) => entity >= 0)
    .map(([entity, score]) => ({ entity_id: c.entity.at(entity), name: c["entity.name"].at(entity), score }));
  const nearestOf = lazy(() => {
    const best = new Int32Array(head.clusters - nKnown).fill(-1);
    for (let i = 0; i < n; i++) {
      const cluster = c.cluster[i] - nKnown;
      if (cluster < 0 || c.near0[c.near[i]] < 0) continue;
      if (best[cluster] < 0 || c["near0.score"][c.near[i]] > c["near0.score"][c.near[best[cluster]]]) best[cluster] = i;
    }
    return best;
  });
  const distanceTo = (cluster) => {
    const i = nearestOf()[cluster - nKnown];
    return i < 0 ? Infinity : head.offset - c["near0.score"][c.near[i]];
  };
  function clusterLine(cluster) {
    const rows = inCluster(cluster), isNew = cluster >= nKnown, i = isNew ? nearestOf()[cluster - nKnown] : -1;
    const examples = [...new Set(Array.from(rows.subarray(0, 50), (row) => c["text.words"].at(c.text[row])))].slice(0, 3);
    return { cluster_id: clusterId(cluster), entity_id: isNew ? null : clusterId(cluster), name: clusterName(cluster), size: rows.length, examples,
      nearest: i < 0 ? null : { entity_id: candidatesOf(i)[0].entity_id, name: candidatesOf(i)[0].name, dissimilarity: distanceTo(cluster) } };
  }
  const orders = new Map();
  const certainty = (i) => (Number.isNaN(c.margin[i]) ? Number.MAX_VALUE : c.margin[i]);
  function clusterOrder(isNew, sort) {
    const key = `${isNew} ${sort}`;
    if (!orders.has(key)) {
      const rows = Array.from({ length: isNew ? head.clusters - nKnown : nKnown }, (_, i) => i + (isNew ? nKnown : 0));
      if (sort === "size") rows.sort((a, b) => sizeOf(b) - sizeOf(a) || a - b);
      if (sort === "nearness") rows.sort((a, b) => distanceTo(a) - distanceTo(b) || a - b);
      if (sort === "name") {
        const names = new Map(rows.map((row) => [row, clusterName(row).toLowerCase()]));
        rows.sort((a, b) => (names.get(a) < names.get(b) ? -1 : names.get(a) > names.get(b) ? 1 : a - b));
      }
      orders.set(key, rows);
    }
    return orders.get(key);
  }
  function mentionOrder(isNil, sort) {
    const key = `mentions ${isNil} ${sort}`;
    if (!orders.has(key)) {
      const rows = isNil ? everyRow.filter((i) => c.cluster[i] >= nKnown) : everyRow.slice();
      if (sort === "margin") rows.sort((a, b) => certainty(a) - certainty(b) || a - b);
      orders.set(key, rows);
    }
    return orders.get(key);
  }
  const paged = async (rows, { offset = 0, limit = 100 }, draw) => ({ total: rows.length, rows: await Promise.all(Array.from(rows.slice(offset, offset + limit), draw)) });
  const documentLine = (row) => ({ document_id: c.document.at(row), mentions: inDocument(row).length, nil: inDocument(row).reduce((sum, i) => sum + (c.cluster[i] >= nKnown), 0) });

  function reasonOf(i, candidates) {
    const alone = head.k === 0 || head.method === "independent" ? "" : `, and none of the mention's ${head.k} nearest mentions leads to an entity`;
    if (c.corrected?.[i] || c.follows?.[i] >= 0) return "A correction decided.";
    if (!candidates.length) return head.kb === null ? "There is no knowledge base." : "No entity was compared with it.";
    const limit = head.threshold.entity === null ? "none" : head.threshold.entity.toFixed(3);
    return `The nearest entity, ${candidates[0].name.slice(0, 200)}, is at a dissimilarity of ${(head.offset - candidates[0].score).toFixed(3)}; the entity threshold is ${limit}${alone}.`;
  }

  const cutter = head.cuts && cuts(head, c, n, { nKnown, clusterId, clusterName, sizeOf });
  return {
    overview: async () => head,
    mentions: async ({ nil = false, document, entity, cluster, sort = "order", ...page }) => {
      const rows = document !== undefined ? inDocument(rowOf(c.document, "document", document)) : entity !== undefined ? inCluster(clusterRowOf(entity))
        : cluster !== undefined ? inCluster(clusterRowOf(cluster)) : mentionOrder(nil, sort);
      return paged(rows, page, full);
    },
    clusters: async ({ nil = false, sort = "size", ...page }) => paged(clusterOrder(nil, sort), page, clusterLine),
    documents: async (page) => paged(Int32Array.from({ length: nDocuments }, (_, i) => i), page, documentLine),
    cluster: async (id) => {
      const cluster = clusterRowOf(id), { order, below } = treeOf(cluster);
      const steps = order.filter((i) => c.parent[i] >= 0 && !Number.isNaN(c.step[i]));
      const shown = new Set(order.slice(0, 500));
      const bridges = steps.filter((i) => c.joins[i] > 1 && shown.has(i)).sort((a, b) => c.joins[b] - c.joins[a] || c.step[b] - c.step[a]).slice(0, 3);
      const weakest = steps.filter((i) => shown.has(i) && c.step[i] > 0).sort((a, b) => c.step[b] - c.step[a]).slice(0, 5);
      return { cluster_id: id, entity_id: cluster < nKnown ? id : null, name: clusterName(cluster), size: order.length, members: await Promise.all(order.slice(0, 500).map(treeRow)),
        weakest: weakest.map((i) => c.mention.at(i)), bridges: bridges.map((i) => ({ mention_id: c.mention.at(i), parent: c.mention.at(c.parent[i]), step: figure(c.step, i), below: below.get(i) })) };
    },
    mention: async (id) => {
      const i = rowOf(c.mention, "mention", id), row = await full(i), chain = [], candidates = candidatesOf(i);
      for (let at = i; at >= 0; at = c.parent[at]) chain.unshift({ id: c.mention.at(at), text: c["text.words"].at(c.text[at]), is_mention: true, step: figure(c.step, at) });
      if (row.entity_id !== null) chain.unshift({ id: row.entity_id, text: row.entity_name, is_mention: false, step: null });
      else chain[0].step = null;
      const gold = !c.golds || c.golds[i] < 0 ? null : Array.from({ length: c.golds[i] }, (_, j) => c["gold.words"].at(c.gold[goldStart[i] + j]));
      return { ...row, cluster_name: clusterName(c.cluster[i]), path: chain, candidates, nil_reason: row.entity_id === null ? reasonOf(i, candidates) : null, gold, queue: null };
    },
    document: async (id) => {
      const row = rowOf(c.document, "document", id);
      return { document_id: id, text: head.texts ? (await documentText(row)).text : null, mentions: await Promise.all(Array.from(inDocument(row), async (i) => ({ ...(await full(i)), spans: spansOf(i) }))) };
    },
    entity: async (id) => {
      const row = rowOf(c.entity, "entity", id), isLinked = row < nKnown;
      const all = isLinked && c["aliases.all"] ? c["aliases.all"][row] : 0;
      const starts = lazy(() => startsOf(c["aliases.all"].map((number) => Math.min(number, head.aliases))));
      const names = all ? Array.from({ length: Math.min(all, head.aliases) }, (_, i) => c.alias.at(starts()[row] + i)) : [];
      return { entity_id: id, name: c["entity.name"].at(row), names, more_names: Math.max(0, all - head.aliases), description: null, types: [], size: isLinked ? sizeOf(row) : 0, cluster_id: isLinked ? id : null };
    },
    search: async (words) => {
      const wanted = words.toLowerCase(), has = (name) => lower()[name].map((text) => text.includes(wanted));
      const [texts_, expansions, names, news] = ["text.words", "expansion.words", "entity.name", "discovered.name"].map(has);
      const mentions = [], clusters = [], own = c.mention.indexOf(words);
      if (own >= 0) mentions.push(own);
      for (let i = 0; i < n && mentions.length < 20; i++) if (i !== own && (texts_[c.text[i]] || expansions[c.expansion[i]] || (c.cluster[i] < nKnown && names[c.cluster[i]]))) mentions.push(i);
      for (let i = 0; i < head.clusters && clusters.length < 20; i++) if ((i < nKnown ? names[i] : news[i - nKnown]) || clusterId(i) === words) clusters.push(i);
      const found = c.document.all().flatMap((id, row) => (id.toLowerCase().includes(wanted) ? [row] : [])).slice(0, 20);
      return { mentions: await several(mentions), clusters: clusters.map(clusterLine), documents: found.map(documentLine) };
    },
    ...(head.cuts || head.no_cuts ? { cut: async (at) => cutter(at) } : {}),
  };
}

const MOST_CHANGES = 100;

// The partitions at other thresholds. A root is an entity, or -1 minus a row for a cluster without one.
function cuts(head, c, n, { nKnown, clusterId, clusterName, sizeOf }) {
  const nEntities = c.entity.length, index = (root) => (root >= 0 ? root : nEntities - 1 - root);
  const own = c.cluster.map((cluster) => (cluster < nKnown ? cluster : nEntities + c["discovered.root"][cluster - nKnown])), now = own.slice(), differences = {};
  for (const kind of ["entity", "mention"]) {
    const start = startsOf(c[`cut.${kind}`]), roots = Int32Array.from(c[`cut.${kind}.root`], index);
    differences[kind] = (place) => [c[`cut.${kind}.row`].subarray(start[place], start[place + 1]), roots.subarray(start[place], start[place + 1])];
  }
  let last = null;
  const size = new Int32Array(nEntities + n), from = new Int32Array(nEntities + n), into = new Int32Array(head.clusters), mixed = new Uint8Array(nEntities + n), torn = new Uint8Array(head.clusters);
  function goTo(kind, place) {
    const home = head.cuts[kind].indexOf(head.threshold[kind]), side = Math.sign(place - home);
    let at = home;
    if (last && last.kind === kind && Math.sign(last.place - home) === side && Math.abs(last.place - home) <= Math.abs(place - home)) at = last.place;
    else now.set(own);
    while (at !== place) {
      at += side;
      const [rows, roots] = differences[kind](at);
      for (let i = 0; i < rows.length; i++) now[rows[i]] = roots[i];
    }
    last = { kind, place };
  }
  return ({ entity, mention }) => {
    const kind = entity === head.threshold.entity ? "mention" : "entity";
    goTo(kind, head.cuts[kind].indexOf(kind === "entity" ? entity : mention));
    size.fill(0);
    from.fill(-1);
    into.fill(-1);
    mixed.fill(0);
    torn.fill(0);
    let linked = 0, clusters = 0;
    for (let i = 0; i < n; i++) {
      const root = now[i], before = c.cluster[i];
      if (size[root]++ === 0) clusters++;
      if (root < nEntities) linked++;
      if (from[root] < 0) from[root] = before;
      else if (from[root] !== before) mixed[root] = 1;
      if (into[before] < 0) into[before] = root;
      else if (into[before] !== root) torn[before] = 1;
    }
    const joins = [], splits = [], plain = [];
    for (let root = 0; root < mixed.length; root++) if (mixed[root]) joins.push(root);
    for (let cluster = 0; cluster < torn.length; cluster++) {
      if (torn[cluster]) splits.push(cluster);
      else if (into[cluster] >= 0 && !mixed[into[cluster]] && (into[cluster] < nEntities ? into[cluster] : -1) !== (cluster < nKnown ? cluster : -1)) plain.push(cluster);
    }
    const total = joins.length + splits.length + plain.length;
    const events = [...joins.map((root) => [size[root], "joins", root]), ...splits.map((cluster) => [sizeOf(cluster), "splits", cluster]), ...plain.map((cluster) => [sizeOf(cluster), into[cluster] < nEntities ? (cluster < nKnown ? "moved" : "linked") : "unlinked", cluster])];
    const shown = events.sort((a, b) => b[0] - a[0] || a[2] - b[2]).slice(0, MOST_CHANGES);
    return { linked, nil: n - linked, clusters, total, changed: described(shown) };
  };

  function described(events) {
    const wanted = new Map(events.filter(([, kind]) => kind === "joins").map(([, , root]) => [root, new Map()]));
    const parts = new Map(events.filter(([, kind]) => kind === "splits").map(([, , cluster]) => [cluster, new Map()]));
    if (wanted.size || parts.size) for (let i = 0; i < n; i++) {
      const left = mixed[now[i]] ? wanted.get(now[i]) : undefined, right = torn[c.cluster[i]] ? parts.get(c.cluster[i]) : undefined;
      left?.set(c.cluster[i], (left.get(c.cluster[i]) ?? 0) + 1);
      right?.set(now[i], (right.get(now[i]) ?? 0) + 1);
    }
    const before = (cluster, number) => ({ cluster_id: clusterId(cluster), name: clusterName(cluster), size: number, is_new: cluster >= nKnown });
    const after = (root, number) => root < nEntities ? { cluster_id: root < nKnown ? clusterId(root) : null, name: c["entity.name"].at(root), size: number, is_new: false }
      : { cluster_id: null, name: c["text.words"].at(c.text[root - nEntities]), size: number, is_new: true };
    const largest = (counts, draw) => [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 6).map(([key, number]) => draw(key, number));
    const more = (counts) => Math.max(0, counts.size - 6);
    return events.map(([number, kind, which]) => {
      if (kind === "joins") return { kind, before: largest(wanted.get(which), before), after: [after(which, number)], more: more(wanted.get(which)) };
      if (kind === "splits") return { kind, before: [before(which, number)], after: largest(parts.get(which), after), more: more(parts.get(which)) };
      return { kind, before: [before(which, number)], after: [after(into[which], number)], more: 0 };
    });
  }
}

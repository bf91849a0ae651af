// All views of a run, over its blocks: the overview, its tables and partitions as columns, and texts of documents.
import { unitsOf } from "./views_document.js";
import { startsOf, unpacked } from "./columns.js";
import { cutterOf } from "./cuts.js";

// A source of views. `read(name)` returns a promise of the bytes of a block, `texts(rows)` of the texts of documents, and
// `entity(id)` of what a knowledge base says of an entity. Tables and partitions are read when a view needs them.
export function sourceOf({ read, texts, entity }) {
  const json = (name) => lazy(async () => JSON.parse(new TextDecoder().decode(await read(name))));
  const overview = json("overview");
  const run = lazy(async () => runOf(await overview(), unpacked(await read("tables")).columns, texts));
  const views = lazy(async () => {
    const all = await run(), lists = listsOf(all);
    return { ...lists, ...itemsOf(all, entity), search: (words) => searched(all, lists, words) };
  });
  const names = ["mentions", "clusters", "documents", "cluster", "mention", "document", "entity", "search"];
  const asked = names.map((name) => [name, async (wanted) => (await views())[name](wanted)]);
  const cuts = lazy(async () => cutterOf(await run(), unpacked(await read("cuts"))));
  return { overview, changes: json("changes"), cuts, ...Object.fromEntries(asked) };
}

// A function that returns the rows of a group, in order; `codes` are the groups of all rows.
function grouped(codes, n) {
  const sizes = new Int32Array(n);
  for (const code of codes) sizes[code]++;
  const start = startsOf(sizes), rows = new Int32Array(codes.length), next = start.slice();
  for (let i = 0; i < codes.length; i++) rows[next[codes[i]]++] = i;
  return (group) => rows.subarray(start[group], start[group + 1]);
}

export function lazy(make) {
  let value;
  return () => (value ??= make());
}

// Where the parts of a mention begin and end, in order; parts that overlap or touch are one.
function endsOf(spans) {
  const ends = [];
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    if (start <= ends.at(-1)) ends.push(Math.max(ends.pop(), end));
    else ends.push(start, end);
  }
  return ends;
}

const figure = (column, i) => (Number.isNaN(column[i]) ? null : column[i]);
const word = (words, code) => (code < 0 ? null : words.at(code));

// A value of a column of links: a word, a number, or whether something is so.
function valueOf(c, name, i) {
  if (c[`${name}.words`]) return word(c[`${name}.words`], c[name][i]);
  return c[name] instanceof Float32Array ? figure(c[name], i) : Boolean(c[name][i]);
}

// What all views share: `c` are the columns by name; mentions, clusters, entities and documents are numbers of rows.
// Clusters of known entities come first, and have the numbers of their entities.
function runOf(head, c, texts) {
  const nKnown = head.clusters - head.discovered, spanStart = startsOf(c.spans), documents = new Map();
  const isNew = (cluster) => cluster >= nKnown;
  const clusterId = (cluster) => (isNew(cluster) ? c.discovered.at(cluster - nKnown) : c.entity.at(cluster));
  const clusterName = (cluster) => (isNew(cluster) ? c["discovered.name"].at(cluster - nKnown) : c["entity.name"].at(cluster));
  const rowOf = (strings, what, id) => {
    const row = strings.indexOf(id);
    if (row < 0) throw new Error(`The run has no ${what} “${id.slice(0, 100)}”.`);
    return row;
  };
  const clusterOf = (id) => {
    const known = c.entity.indexOf(id);
    return known >= 0 && known < nKnown ? known : nKnown + rowOf(c.discovered, "cluster", id);
  };
  const spansOf = (i) => {
    const [start, length] = [c.start, c.length].map((column) => column.subarray(spanStart[i], spanStart[i + 1]));
    return Array.from(start, (first, j) => [first, first + length[j]]);
  };
  const goldStart = c.golds && startsOf(c.golds.map((number) => Math.max(number, 0)));
  const goldOf = (i) => (c.golds && c.golds[i] >= 0 ? Array.from(c.gold.subarray(goldStart[i], goldStart[i + 1]), (code) => c["gold.words"].at(code)) : null);
  const nameOf = (id) => {
    const entity = c.entity.indexOf(id);
    return entity < 0 ? id : c["entity.name"].at(entity);
  };
  const load = async (rows) => {
    const wanted = head.texts ? [...new Set(rows)].filter((document) => !documents.has(document)) : [];
    const found = wanted.length ? await texts(wanted) : [];
    found.forEach((text, i) => documents.set(wanted[i], { text, units: unitsOf(text) }));
  };
  const textOf = (document) => documents.get(document) ?? { text: null, units: null };
  const rowsOf = async (rows, draw = row) => {
    await load(Array.from(rows, (i) => c.of[i]));
    return Array.from(rows, (i) => draw(i));
  };
  const row = (i) => {
    const cluster = c.cluster[i], spans = spansOf(i);
    const start = Math.min(...spans.map(([first]) => first)), end = Math.max(...spans.map(([, last]) => last));
    const found = {
      mention_id: c.mention.at(i), document_id: c.document.at(c.of[i]), start, end,
      text: word(c["text.words"], c.text[i]), expansion: word(c["expansion.words"], c.expansion[i]), type: word(c["type.words"], c.type[i]),
      entity_id: isNew(cluster) ? null : clusterId(cluster), entity_name: isNew(cluster) ? null : clusterName(cluster),
      cluster_id: clusterId(cluster), sentence: null,
    };
    for (const name of head.links) found[name] = valueOf(c, name, i);
    if (c.verdict) {
      found.verdict = word(c["verdict.words"], c.verdict[i]);
      found.right = found.verdict && (found.verdict === RIGHT ? null : nameOf(word(c["meant.words"], c.meant[i]) ?? "NIL"));
    }
    const { text, units } = textOf(c.of[i]);
    if (text !== null) {
      const unit = (offset) => (units ? units[Math.max(0, Math.min(offset, units.length - 1))] : offset);
      const ends = endsOf(spans), [first, ...others] = ends.map(unit), last = others.at(-1);
      const pieces = others.map((to, at) => text.slice(unit(ends[at]), to));
      found.sentence = { before: text.slice(unit(start - c.before[i]), first), pieces, after: text.slice(last, unit(end + c.after[i])) };
    }
    return found;
  };
  const candidate = (entity, score) => ({ entity_id: c.entity.at(entity), name: c["entity.name"].at(entity), score });
  const candidates = (i) => ["near0", "near1", "near2", "near3"].filter((place) => c[place][c.near[i]] >= 0)
    .map((place) => candidate(c[place][c.near[i]], c[`${place}.score`][c.near[i]]));
  return {
    head, c, nKnown, isNew, clusterId, clusterName, rowOf, clusterOf, spansOf, load, textOf, row, rowsOf, candidates, goldOf,
    n: c.mention.length, inCluster: grouped(c.cluster, head.clusters), inDocument: grouped(c.of, c.document.length),
  };
}

const RIGHT = "right", DOUBTFUL = 0.5;

// The lists: mentions, clusters and documents, a page at a time.
function listsOf({ head, c, n, nKnown, isNew, rowOf, rowsOf, load, textOf, candidates, ...run }) {
  const { clusterId, clusterName, clusterOf, inCluster, inDocument } = run;
  const orders = new Map();
  const ordered = (key, make) => {
    if (!orders.has(key)) orders.set(key, make());
    return orders.get(key);
  };
  // The member of each discovered cluster that is nearest to an entity.
  const nearest = lazy(() => {
    const best = new Int32Array(head.discovered).fill(-1), score = (i) => c["near0.score"][c.near[i]];
    for (let i = 0; i < n; i++) {
      const place = c.cluster[i] - nKnown;
      if (place >= 0 && c.near0[c.near[i]] >= 0 && (best[place] < 0 || score(i) > score(best[place]))) best[place] = i;
    }
    return best;
  });
  const distance = (cluster) => {
    const i = nearest()[cluster - nKnown];
    return i < 0 ? Infinity : head.offset - c["near0.score"][c.near[i]];
  };
  const sure = (i) => figure(c.confidence ?? c.margin, i) ?? Number.MAX_VALUE;
  const isDoubtful = (i) => (c.confidence ? c.confidence[i] < DOUBTFUL : isNew(c.cluster[i]) || c.margin[i] === 0);
  const doubtsIn = lazy(() => Array.from({ length: c.document.length }, (_, document) => inDocument(document).filter(isDoubtful).length));
  const clusterOrder = (nil, sort) => ordered(`clusters ${nil} ${sort}`, () => {
    const rows = Array.from({ length: nil ? head.discovered : nKnown }, (_, i) => i), first = nil ? nKnown : 0;
    const value = { size: (i) => -inCluster(i).length, nearness: distance, name: (i) => clusterName(i).toLowerCase() }[sort];
    if (!value) throw new Error(`No list is sorted by “${sort}”.`);
    const values = rows.map((i) => value(first + i));
    rows.sort((a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : a - b));
    return rows.map((i) => first + i);
  });
  // `wrong` is why decisions are wrong, or true for any reason; the reasons come in their order.
  const mentionOrder = (nil, wrong, sort) => ordered(`mentions ${nil} ${wrong} ${sort}`, () => {
    const why = wrong && Array.from(c.verdict, (code) => word(c["verdict.words"], code)), chosen = (i) => (wrong === true ? why[i] && why[i] !== RIGHT : why[i] === wrong);
    const rows = Int32Array.from({ length: n }, (_, i) => i).filter((i) => (!nil || isNew(c.cluster[i])) && (!wrong || chosen(i)));
    if (sort === "doubt") rows.sort((a, b) => sure(a) - sure(b) || a - b);
    if (sort === "name") {
      const rank = Array.from({ length: c["text.words"].length }, (_, code) => c["text.words"].at(code).toLowerCase());
      rows.sort((a, b) => (rank[c.text[a]] < rank[c.text[b]] ? -1 : rank[c.text[a]] > rank[c.text[b]] ? 1 : a - b));
    }
    return wrong === true ? rows.sort((a, b) => head.wrong.findIndex(([kind]) => kind === why[a]) - head.wrong.findIndex(([kind]) => kind === why[b])) : rows;
  });
  const clusterLine = (cluster) => {
    const rows = inCluster(cluster), i = isNew(cluster) ? nearest()[cluster - nKnown] : -1;
    const examples = new Set(Array.from(rows.subarray(0, 50), (one) => c["text.words"].at(c.text[one])));
    return {
      cluster_id: clusterId(cluster), entity_id: isNew(cluster) ? null : clusterId(cluster), name: clusterName(cluster),
      size: rows.length, examples: [...examples].slice(0, 3),
      nearest: i < 0 ? null : { ...candidates(i)[0], dissimilarity: distance(cluster) },
    };
  };
  const documentLine = (document) => {
    const rows = inDocument(document);
    const { text } = textOf(document), title = text === null ? null : text.trimStart().split("\n", 1)[0].slice(0, 200);
    return { document_id: c.document.at(document), title, mentions: rows.length, nil: rows.filter((i) => isNew(c.cluster[i])).length, doubtful: doubtsIn()[document] };
  };
  const documentOrder = (sort) => ordered(`documents ${sort}`, () => {
    const rows = Array.from({ length: c.document.length }, (_, i) => i);
    return sort === "doubt" ? rows.sort((a, b) => doubtsIn()[b] - doubtsIn()[a] || a - b) : rows;
  });
  const paged = async (rows, { offset = 0, limit = 100 }, draw) =>
    ({ total: rows.length, rows: await draw(rows.slice(offset, offset + limit)) });
  const chosen = ({ nil = false, wrong = null, document, entity, cluster, sort = "order" }) => {
    if (document !== undefined) return inDocument(rowOf(c.document, "document", document));
    return (entity ?? cluster) === undefined ? mentionOrder(nil, wrong, sort) : inCluster(clusterOf(entity ?? cluster));
  };
  return {
    clusterLine, documentLine,
    mentions: async (wanted) => paged(chosen(wanted), wanted, rowsOf),
    clusters: async (wanted) => paged(clusterOrder(wanted.nil ?? false, wanted.sort ?? "size"), wanted, (rows) => rows.map(clusterLine)),
    documents: async (wanted) => paged(documentOrder(wanted.sort ?? "order"), wanted, async (rows) => {
      await load(rows);
      return rows.map(documentLine);
    }),
  };
}

const TREE = 500, BRIDGES = 3, WEAKEST = 5;

// One cluster, mention, document or entity.
function itemsOf({ head, c, nKnown, isNew, rowOf, spansOf, load, textOf, row, rowsOf, candidates, goldOf, ...run }, describe) {
  const { clusterId, clusterName, clusterOf, inCluster, inDocument } = run;
  const aliasStart = lazy(() => startsOf(c["aliases.all"].map((number) => Math.min(number, head.aliases))));
  const treeRow = (i) => {
    const parent = c.parent[i] >= 0 ? c.mention.at(c.parent[i]) : c.parent[i] === -2 ? clusterId(c.cluster[i]) : null;
    return { ...row(i), parent, parent_is_mention: c.parent[i] >= 0, step: figure(c.step, i) };
  };
  // The members of a cluster from the root of its tree, the lightest branch first, and how many hang on each.
  const treeOf = (cluster) => {
    const children = new Map(), order = [], below = new Map();
    for (const i of inCluster(cluster)) {
      const above = Math.max(-1, c.parent[i]);
      if (!children.has(above)) children.set(above, []);
      children.get(above).push(i);
    }
    const stack = (children.get(-1) ?? []).toReversed();
    while (stack.length) {
      const i = stack.pop(), heaviestFirst = (children.get(i) ?? []).sort((a, b) => (c.step[b] || 0) - (c.step[a] || 0) || b - a);
      order.push(i);
      for (const child of heaviestFirst) stack.push(child);
    }
    for (const i of order.toReversed()) below.set(i, (children.get(i) ?? []).reduce((sum, child) => sum + below.get(child), 1));
    return { order, below };
  };
  // The mentions in the smaller of the two parts that each step joins, where the steps come from the lightest to the heaviest:
  // if it is wrong, all of these are. What hangs on a step would not show it, as a light step can have many below it.
  const joinsOf = (order) => {
    const up = new Map(order.map((i) => [i, i])), size = new Map(order.map((i) => [i, 1])), joins = new Map();
    const top = (i) => {
      for (; up.get(i) !== i; i = up.get(i)) up.set(i, up.get(up.get(i)));
      return i;
    };
    const weight = (i) => (Number.isNaN(c.step[i]) ? -1 : c.step[i]), steps = order.filter((i) => c.parent[i] >= 0);
    for (const i of steps.sort((a, b) => weight(a) - weight(b) || c.parent[a] - c.parent[b] || a - b)) {
      const parts = [top(i), top(c.parent[i])].sort((a, b) => size.get(a) - size.get(b)), [small, large] = parts;
      joins.set(i, size.get(small));
      up.set(small, large);
      size.set(large, size.get(small) + size.get(large));
    }
    return joins;
  };
  const reason = (i, near) => {
    if (c.corrected?.[i] || c.follows?.[i] >= 0) return "A correction decided.";
    if (!near.length) return head.kb === null ? "There is no knowledge base." : "No entity was compared with it.";
    const entityLimit = head.limits[row(i).type] ?? head.threshold.entity, limit = entityLimit === null ? "none" : entityLimit.toFixed(3);
    const direct = head.k === 0 || head.method === "independent";
    return `The nearest entity, ${near[0].name.slice(0, 200)}, is at a dissimilarity of ${(head.offset - near[0].score).toFixed(3)}; `
      + `the entity threshold is ${limit}${direct ? "" : `, and none of the mention's ${head.k} nearest mentions leads to an entity`}.`;
  };
  return {
    cluster: async (id) => {
      const cluster = clusterOf(id), { order, below } = treeOf(cluster), shown = order.slice(0, TREE);
      const steps = order.filter((i) => c.parent[i] >= 0 && c.step[i] > 0);
      const heavier = (a, b) => c.step[b] - c.step[a], weakest = steps.toSorted(heavier).slice(0, WEAKEST);
      const joins = joinsOf(order), joined = (i) => joins.get(i);
      const bridges = steps.filter((i) => joined(i) > 1).sort((a, b) => joined(b) - joined(a) || heavier(a, b)).slice(0, BRIDGES);
      const bridge = (i) => ({ mention_id: c.mention.at(i), parent: c.mention.at(c.parent[i]), step: figure(c.step, i), below: below.get(i) });
      return {
        cluster_id: id, entity_id: isNew(cluster) ? null : id, name: clusterName(cluster), size: order.length,
        members: await rowsOf(shown, treeRow), weakest: weakest.map((i) => c.mention.at(i)),
        bridges: bridges.map(bridge), steps: await rowsOf([...weakest, ...bridges].flatMap((i) => [i, c.parent[i]]), treeRow),
      };
    },
    mention: async (id) => {
      const i = rowOf(c.mention, "mention", id), [found] = await rowsOf([i]), near = candidates(i), path = [];
      for (let at = i; at >= 0; at = c.parent[at]) {
        path.unshift({ id: c.mention.at(at), text: c["text.words"].at(c.text[at]), is_mention: true, step: figure(c.step, at) });
      }
      const isNil = found.entity_id === null;
      if (!isNil) path.unshift({ id: found.entity_id, text: found.entity_name, is_mention: false, step: null });
      const gold = goldOf(i);
      const nil_reason = isNil ? reason(i, near) : null, below = treeOf(c.cluster[i]).below.get(i) - 1;
      return { ...found, cluster_name: clusterName(c.cluster[i]), path, candidates: near, nil_reason, gold, below };
    },
    document: async (id) => {
      const document = rowOf(c.document, "document", id);
      await load([document]);
      const mentions = Array.from(inDocument(document), (i) => ({ ...row(i), spans: spansOf(i) }));
      return { document_id: id, text: textOf(document).text, mentions };
    },
    entity: async (id) => {
      const entity = rowOf(c.entity, "entity", id), isLinked = entity < nKnown;
      const all = isLinked && c["aliases.all"] ? c["aliases.all"][entity] : 0;
      const names = Array.from({ length: Math.min(all, head.aliases) }, (_, i) => c.alias.at(aliasStart()[entity] + i));
      return {
        entity_id: id, name: c["entity.name"].at(entity), names, more_names: all - names.length, description: null,
        size: isLinked ? inCluster(entity).length : 0, cluster_id: isLinked ? id : null, ...(head.described && (await describe(id))),
      };
    },
  };
}

const FOUND = 20;

// What has these words in its text, its long form or the name of its entity, or has them as its id.
async function searched({ head, c, n, nKnown, isNew, clusterId, rowsOf }, { clusterLine, documentLine }, words) {
  const columns = ["text.words", "expansion.words", "entity.name", "discovered.name", "document"];
  const [ofText, ofExpansion, ofEntity, ofNew, ofDocument] = columns.map((name) => c[name].having(words));
  const own = c.mention.indexOf(words), mentions = own < 0 ? [] : [own], clusters = [], documents = [];
  for (let i = 0; i < n && mentions.length < FOUND; i++) {
    const cluster = c.cluster[i];
    if (i !== own && (ofText[c.text[i]] || ofExpansion[c.expansion[i]] || (!isNew(cluster) && ofEntity[cluster]))) mentions.push(i);
  }
  for (let i = 0; i < head.clusters && clusters.length < FOUND; i++) {
    if ((isNew(i) ? ofNew[i - nKnown] : ofEntity[i]) || clusterId(i) === words) clusters.push(i);
  }
  for (let i = 0; i < c.document.length && documents.length < FOUND; i++) if (ofDocument[i]) documents.push(i);
  return { mentions: await rowsOf(mentions), clusters: clusters.map(clusterLine), documents: documents.map(documentLine) };
}

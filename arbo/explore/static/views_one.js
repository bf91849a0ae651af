// One cluster, one mention, one entity.
import { h, address, count, decimal, plural, name, ident, link, arrow, between, is, sentence, empty, lead, section, table, listRow, longList } from "./dom.js";
import { mentionRow, rightOrWrong } from "./views.js";

const ofMentions = (source, wanted) => async (offset, limit) => (await source.mentions({ ...wanted, offset, limit })).rows;
const kind = (...nodes) => h("p", { class: "kind" }, nodes);
const note = (text) => h("p", { class: "note" }, text);
const rowsBox = (rows) => h("div", { class: "rows" }, rows);

export async function clusterView(source, id) {
  const found = await source.cluster(id), { members, bridges, weakest } = found, isNew = found.entity_id === null;
  const of = new Map([...members, ...(found.steps ?? [])].map((row) => [row.mention_id, row])); // `steps` may lie outside of `members`
  const weak = new Set([...weakest, ...bridges.map((bridge) => bridge.mention_id)]);
  const depth = depthsOf(members), isWhole = found.size === members.length;
  const below = (bridge) => `${plural(bridge.below, "mention")} below`;
  const tree = members.map((row) => treeRow(row, depth.get(row.mention_id), weak.has(row.mention_id)));
  return { title: found.name.slice(0, 80), place: isNew ? "nil" : "clusters", nodes: [
    kind(isNew ? "New entity" : "Entity"), h("h1", {}, name(found.name)),
    lead(ident(found.cluster_id), " · ", plural(found.size, "mention"), !isNew && [" · ", link("names and mentions", "entity", found.entity_id)]),
    bridges.length > 0 && section("Bridges", note("Steps that join the largest parts. If one is wrong, so are all mentions below it."),
      rowsBox(bridges.map((bridge) => stepRow(of.get(bridge.mention_id), below(bridge), of)))),
    weakest.length > 0 && section("Weakest steps", rowsBox(weakest.map((one) => stepRow(of.get(one), "", of)))),
    section("Members", found.size > 1 && !members.some((row) => is(row.parent)) && note("The run keeps no steps of this cluster."),
      h("div", { class: "tree", role: "tree", "aria-label": "Tree of the cluster" }, tree)),
    !isWhole && section(`All ${count(found.size)} mentions`, note(`The tree shows the first ${count(members.length)}.`),
      longList(found.size, ofMentions(source, { cluster: id }), mentionRow, "All mentions")),
  ] };
}

function depthsOf(members) {
  const depth = new Map();
  for (const row of members) depth.set(row.mention_id, row.parent_is_mention && depth.has(row.parent) ? depth.get(row.parent) + 1 : 0);
  return depth;
}

function treeRow(row, depth, isWeak) {
  return listRow(["mention", row.mention_id],
    [name(row.text, { class: "what" }), row.corrected && h("span", { class: "badge" }, "corrected")],
    is(row.step) && h("span", {}, decimal(row.step)), sentence(row) ?? name(row.document_id),
    { class: `row member${isWeak ? " weak" : ""}`, role: "treeitem", "aria-level": depth + 1, "--depth": Math.min(depth, 12) });
}

function stepRow(row, more, of) {
  if (!row) return null;
  const above = row.parent_is_mention ? name(of.get(row.parent)?.text ?? row.parent) : "the entity";
  return listRow(["mention", row.mention_id], [above, arrow(), name(row.text, { class: "what" })],
    [h("span", {}, decimal(row.step)), more && h("small", {}, more)], sentence(row) ?? name(row.document_id));
}

export async function mentionView(source, id) {
  const row = await source.mention(id), isNil = row.entity_id === null;
  const verdict = isNil ? [h("span", {}, "NIL, in "), link(row.cluster_name ?? row.cluster_id, "cluster", row.cluster_id)]
    : [h("span", {}, "is "), link(row.entity_name ?? row.entity_id, "cluster", row.cluster_id), " ", ident(row.entity_id)];
  const place = h("a", { href: address("document", row.document_id, row.mention_id) }, name(row.document_id));
  return { title: row.text.slice(0, 80), place: "mentions", nodes: [
    kind("Mention", row.type && [" · ", name(row.type)]), h("h1", {}, "“", name(row.text), "”"),
    row.sentence && h("blockquote", {}, sentence(row, 1000)),
    lead(place, ` · ${count(row.start)} to ${count(row.end)} · `, ident(row.mention_id), row.expansion ? [" · read as ", name(row.expansion)] : ""),
    h("div", { class: isNil ? "verdict is-nil" : "verdict" }, verdict, row.corrected && [" ", h("span", { class: "badge" }, "corrected")],
      h("div", { class: "measures" }, ["confidence", "score", "margin"].map((what) => measure(what, row[what]))),
      row.nil_reason && h("p", {}, row.nil_reason),
      row.follows && h("p", {}, "It follows a corrected mention: ", link(row.follows, "mention", row.follows))),
    row.path.length > 1 && section(isNil ? "Path in the cluster" : "Path from the entity", path(row.path)),
    section("Candidates", row.candidates.length ? candidates(row) : empty("No entity was compared with this mention.")),
    row.gold !== null && section("Gold annotation", h("p", {}, rightOrWrong(row), " ", row.gold.length ? between(", ", row.gold.map(ident)) : "NIL",
      row.right && [" ", name(row.right), ` · ${row.verdict}`])),
  ] };
}

const measure = (label, value) => is(value) && h("span", {}, h("small", {}, label), decimal(value));

function path(steps) {
  const weights = steps.map((step, i) => (i > 0 ? step.step ?? -1 : -1));
  const heaviest = steps.length > 2 ? weights.indexOf(Math.max(...weights)) : -1;
  const weight = (step, i) => h("span", { class: "weight" }, is(step.step) ? decimal(step.step) : "decided",
    i === heaviest && h("small", {}, " weakest"));
  return h("ol", { class: "path" }, steps.map((step, i) => h("li", { class: i === heaviest && "weak" }, i > 0 && weight(step, i),
    link(step.text, step.is_mention ? "mention" : "entity", step.id), " ", ident(step.id))));
}

function candidates(row) {
  const isNil = row.entity_id === null, best = isNil ? row.candidates[0] : { entity_id: row.entity_id, score: row.score };
  const behind = (one) => (one.entity_id === best.entity_id || !is(one.score) || !is(best.score) ? null : best.score - one.score);
  const rows = row.candidates.map((one) => ({
    cells: [[link(one.name ?? one.entity_id, "entity", one.entity_id), " ", ident(one.entity_id)], decimal(one.score), decimal(behind(one))],
    chosen: one.entity_id === row.entity_id,
  }));
  return table([["entity"], ["score", "number"], [isNil ? "behind the first" : "behind the link", "number"]], rows);
}

export async function entityView(source, id) {
  const found = await source.entity(id), others = found.names.filter((one) => one !== found.name);
  const more = found.more_names > 0 && h("span", { class: "muted" }, `and ${count(found.more_names)} more`);
  return { title: found.name.slice(0, 80), place: "clusters", nodes: [
    kind("Entity"), h("h1", {}, name(found.name)),
    lead(ident(found.entity_id), ` · ${plural(found.size, "mention")}`,
      found.size > 0 && [" · ", link("tree with its weakest steps", "cluster", found.cluster_id)]),
    found.description && h("p", {}, found.description),
    others.length > 0 && section("Other names", h("p", { class: "names" }, others.map((one) => name(one)), more)),
    section("Mentions", found.size ? longList(found.size, ofMentions(source, { entity: id }), mentionRow, "Mentions of the entity")
      : empty("No mention is linked to this entity; it is a candidate.")),
  ] };
}

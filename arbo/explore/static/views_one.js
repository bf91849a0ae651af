// One cluster, one mention, one entity.
import { h, address, count, decimal, plural, name, sentence, empty, longList } from "./dom.js";
import { mentionRow, section } from "./views.js";

export async function clusterView(source, id) {
  const found = await source.cluster(id);
  const of = new Map(found.members.map((row) => [row.mention_id, row]));
  const weak = new Set([...found.weakest, ...found.bridges.map((bridge) => bridge.mention_id)]);
  const depths = depthsOf(found.members);
  const hasSteps = found.members.some((row) => row.parent !== null);
  return { title: found.name.slice(0, 80), place: found.entity_id === null ? "nil" : "clusters", nodes: [
    h("p", { class: "kind" }, found.entity_id === null ? "New entity" : "Entity"), h("h1", {}, name(found.name)),
    h("p", { class: "lead" }, name(found.cluster_id, { class: "id" }), " · ", plural(found.size, "mention"),
      found.entity_id !== null && [" · ", h("a", { href: address("entity", found.entity_id) }, "names and mentions")]),
    found.bridges.length > 0 && section("Bridges", h("p", { class: "note" }, "Steps that join the largest parts. If one is wrong, all mentions below it are."),
      h("div", { class: "rows" }, found.bridges.map((bridge) => stepRow(of.get(bridge.mention_id), bridge.step, `${plural(bridge.below, "mention")} below`, of)))),
    found.weakest.length > 0 && section("Weakest steps", h("div", { class: "rows" }, found.weakest.map((one) => stepRow(of.get(one), of.get(one).step, "", of)))),
    section("Members", !hasSteps && found.size > 1 && h("p", { class: "note" }, "The run keeps no steps of this cluster."),
      h("div", { class: "tree", role: "tree", "aria-label": "Tree of the cluster" }, found.members.map((row, i) => treeRow(row, depths[i], weak.has(row.mention_id))))),
    found.size > found.members.length && section(`All ${count(found.size)} mentions`, h("p", { class: "note" }, `The tree shows the first ${count(found.members.length)}.`),
      longList(found.size, async (offset, limit) => (await source.mentions({ cluster: id, offset, limit })).rows, mentionRow, "All mentions")),
  ] };
}

function depthsOf(members) {
  const depth = new Map();
  return members.map((row) => {
    const own = row.parent_is_mention && depth.has(row.parent) ? depth.get(row.parent) + 1 : 0;
    depth.set(row.mention_id, own);
    return own;
  });
}

function treeRow(row, depth, isWeak) {
  return h("a", { class: "row member" + (isWeak ? " weak" : ""), role: "treeitem", "aria-level": depth + 1, "--depth": Math.min(depth, 12), href: address("mention", row.mention_id) },
    h("span", { class: "first" }, name(row.text, { class: "what" }), row.corrected && h("span", { class: "badge" }, "corrected")),
    h("span", { class: "figures" }, row.step !== null && decimal(row.step)),
    h("span", { class: "second" }, sentence(row) ?? name(row.document_id)));
}

function stepRow(row, step, more, of) {
  if (!row) return null;
  const above = row.parent_is_mention ? of.get(row.parent) : null;
  return h("a", { class: "row", href: address("mention", row.mention_id) },
    h("span", { class: "first" }, above ? name(above.text) : row.parent_is_mention ? name(row.parent) : "the entity", h("span", { class: "arrow", "aria-hidden": "true" }, "→"), name(row.text, { class: "what" })),
    h("span", { class: "figures" }, h("span", {}, decimal(step)), more && h("small", {}, more)),
    h("span", { class: "second" }, sentence(row) ?? name(row.document_id)));
}

export async function mentionView(source, id) {
  const row = await source.mention(id);
  const isNil = row.entity_id === null;
  const score = row.score;
  return { title: row.text.slice(0, 80), place: "mentions", nodes: [
    h("p", { class: "kind" }, "Mention", row.type ? [" · ", name(row.type)] : ""), h("h1", {}, "“", name(row.text), "”"),
    row.sentence && h("blockquote", {}, sentence(row)),
    h("p", { class: "lead" }, h("a", { href: address("document", row.document_id, row.mention_id) }, name(row.document_id)), ` · ${count(row.start)} to ${count(row.end)} · `, name(row.mention_id, { class: "id" })),
    h("div", { class: "verdict" + (isNil ? " is-nil" : "") },
      isNil ? [h("span", {}, "NIL, in "), h("a", { href: address("cluster", row.cluster_id) }, name(row.cluster_name ?? row.cluster_id))]
        : [h("span", {}, "is "), h("a", { href: address("cluster", row.cluster_id) }, name(row.entity_name ?? row.entity_id)), " ", name(row.entity_id, { class: "id" })],
      row.corrected && h("span", { class: "badge" }, "corrected"),
      h("div", { class: "measures" }, measure("score", score), measure("margin", row.margin), row.confidence !== undefined && measure("confidence", row.confidence)),
      row.nil_reason && h("p", {}, row.nil_reason),
      row.follows && h("p", {}, "It follows a corrected mention: ", h("a", { href: address("mention", row.follows) }, name(row.follows)))),
    row.path.length > 1 && section(isNil ? "Path in the cluster" : "Path from the entity", path(row.path)),
    section("Candidates", row.candidates.length ? candidates(row) : empty("No entity was compared with this mention.")),
    row.gold !== null && section("Gold annotation", h("p", {}, row.gold.length ? row.gold.flatMap((one, i) => [i ? ", " : "", name(one, { class: "id" })]) : "NIL")),
  ] };
}

function measure(label, value) {
  return value === null || value === undefined ? null : h("span", {}, h("small", {}, label), decimal(value));
}

function path(steps) {
  const heaviest = steps.reduce((best, step, i) => (i > 0 && step.step !== null && (best < 0 || step.step > steps[best].step) ? i : best), -1);
  return h("ol", { class: "path" }, steps.map((step, i) => h("li", { class: i === heaviest && steps.length > 2 ? "weak" : "" },
    i > 0 && h("span", { class: "weight" }, step.step === null ? "decided" : decimal(step.step), i === heaviest && steps.length > 2 && h("small", {}, " weakest")),
    h("a", { href: address(step.is_mention ? "mention" : "entity", step.id) }, name(step.text)), " ", name(step.id, { class: "id" }))));
}

function candidates(row) {
  return h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["entity", "score", row.entity_id === null ? "behind the first" : "behind the link"].map((label, i) => h("th", { scope: "col", class: i ? "number" : "" }, label)))),
    h("tbody", {}, row.candidates.map((one, i) => {
      const against = row.entity_id === null ? row.candidates[0].score : row.score;
      const behind = one.score === null || against === null || one.entity_id === row.entity_id || (row.entity_id === null && i === 0) ? null : against - one.score;
      return h("tr", { class: one.entity_id === row.entity_id ? "chosen" : "" }, h("td", {}, h("a", { href: address("entity", one.entity_id) }, name(one.name ?? one.entity_id)), " ", name(one.entity_id, { class: "id" })),
        h("td", { class: "number" }, decimal(one.score)), h("td", { class: "number" }, decimal(behind)));
    }))));
}

export async function entityView(source, id) {
  const found = await source.entity(id);
  const others = found.names.filter((one) => one !== found.name);
  return { title: found.name.slice(0, 80), place: "clusters", nodes: [
    h("p", { class: "kind" }, "Entity"), h("h1", {}, name(found.name)),
    h("p", { class: "lead" }, name(found.entity_id, { class: "id" }), ` · ${plural(found.size, "mention")}`,
      found.size > 0 && [" · ", h("a", { href: address("cluster", found.cluster_id) }, "tree with its weakest steps")]),
    found.description && h("p", {}, found.description),
    others.length > 0 && section("Other names", h("p", { class: "names" }, others.map((one) => name(one)), found.more_names > 0 && h("span", { class: "muted" }, `and ${count(found.more_names)} more`))),
    section("Mentions", found.size ? longList(found.size, async (offset, limit) => (await source.mentions({ entity: id, offset, limit })).rows, mentionRow, "Mentions of the entity")
      : empty("No mention is linked to this entity; it is a candidate.")),
  ] };
}

// The overview, the lists and the search.
import { h, address, count, decimal, plural, share, name, sentence, empty, longList, choice } from "./dom.js";
import { histogram, sizeBars, whisker } from "./charts.js";

export async function overviewView(source) {
  const told = await source.overview();
  const cutting = source.cut && !told.no_cuts;
  return { title: "Overview", nodes: [
    h("h1", {}, name(told.name)),
    h("p", { class: "lead" }, `${plural(told.mentions, "mention")} in ${plural(told.documents, "document")}`, told.kb ? `, linked to a knowledge base of ${told.kb}.` : ", without a knowledge base."),
    h("div", { class: "tiles" },
      told.kb !== null && tile(told.linked, "linked", share(told.linked, told.mentions), address("clusters")),
      tile(told.nil, "NIL", told.kb === null ? "no knowledge base" : share(told.nil, told.mentions), address("nil")),
      told.kb !== null && tile(told.clusters - told.discovered, "known entities found", "", address("clusters")),
      tile(told.discovered, told.discovered === 1 ? "new entity" : "new entities", "", address("nil"))),
    told.mentions === 0 && empty("The run has no mentions."),
    told.scores.length > 0 && section("Scores against the gold annotations", scoreTable(told.scores)),
    told.histogram.bounds.length > 0 && section("Dissimilarities", histogram(told),
      cutting && h("p", {}, h("a", { href: address("threshold") }, "Move the thresholds"))),
    told.sizes.length > 0 && section("Sizes of clusters", sizeBars(told.sizes)),
    section("How it was made", facts(told)),
  ] };
}

function tile(value, label, more, href) {
  return h("a", { class: "tile", href }, h("strong", {}, count(value)), h("span", {}, label), h("small", {}, more));
}

export function section(title, ...nodes) {
  return h("section", {}, h("h2", {}, title), nodes);
}

function scoreTable(scores) {
  return h("div", { class: "wide" }, h("table", { class: "scores" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "score"), h("th", { scope: "col", class: "number" }, "value"),
      h("th", { scope: "col" }, "95 % interval"), h("th", { scope: "col" }, "over"))),
    h("tbody", {}, scores.map((score) => h("tr", {}, h("th", { scope: "row" }, score.metric),
      h("td", { class: "number" }, decimal(score.value)),
      h("td", {}, score.low === null || score.low === undefined ? "–" : [whisker(score), ` ${decimal(score.low)} – ${decimal(score.high)}`]),
      h("td", { class: "muted" }, score.over ?? ""))))));
}

function facts(told) {
  const limit = (value) => (value === null ? "none" : decimal(value));
  const rows = [["method", told.method], told.k !== undefined && ["neighbours of a mention", told.k], told.kb !== null && ["entity threshold", limit(told.threshold.entity)],
    ["mention threshold", limit(told.threshold.mention)],
    told.texts !== undefined && ["this file holds", (told.texts ? "the texts of all documents, " : "no texts of documents; ") + "the texts of mentions, and names of entities"]];
  return h("dl", {}, rows.filter(Boolean).map(([term, value]) => [h("dt", {}, term), h("dd", {}, String(value))]));
}

// A row of a mention: what it says, what it was linked to, and its sentence.
export function mentionRow(row) {
  const to = row.entity_id === null || row.entity_id === undefined
    ? h("span", { class: "nil" }, "NIL") : name(row.entity_name ?? row.entity_id, { class: "to" });
  return h("a", { class: "row", href: address("mention", row.mention_id) },
    h("span", { class: "first" }, name(row.text, { class: "what" }), h("span", { class: "arrow", "aria-hidden": "true" }, "→"), to,
      row.corrected && h("span", { class: "badge" }, "corrected")),
    h("span", { class: "figures" }, row.score !== null && row.score !== undefined && h("span", {}, decimal(row.score)),
      row.margin !== null && row.margin !== undefined && h("small", {}, `margin ${decimal(row.margin)}`)),
    h("span", { class: "second" }, sentence(row) ?? name(row.document_id)));
}

export function clusterRow(row) {
  const others = row.examples.filter((text) => text !== row.name);
  const near = row.nearest && h("span", { class: "figures" }, h("small", {}, "nearest"), name(row.nearest.name ?? row.nearest.entity_id), h("span", {}, decimal(row.nearest.dissimilarity)));
  return h("a", { class: "row", href: address("cluster", row.cluster_id) },
    h("span", { class: "first" }, name(row.name, { class: "what" }), h("span", { class: "pill" }, count(row.size))),
    near || h("span", { class: "figures" }, row.entity_id !== null && name(row.entity_id, { class: "id" })),
    h("span", { class: "second" }, others.length ? others.flatMap((text, i) => [i ? " · " : "", name(text)]) : row.entity_id === null ? name(row.cluster_id) : "always by its name"));
}

export function documentRow(row) {
  return h("a", { class: "row", href: address("document", row.document_id) },
    h("span", { class: "first" }, name(row.document_id, { class: "what" })),
    h("span", { class: "figures" }, plural(row.mentions, "mention")),
    h("span", { class: "second" }, row.nil ? `${count(row.nil)} NIL` : "all linked"));
}

async function listView(title, lead, controls, fetch, draw, nothing) {
  const { total } = await fetch(0, 1);
  return { title, nodes: [h("h1", {}, title), h("p", { class: "lead" }, lead(total)), controls,
    total ? longList(total, async (offset, limit) => (await fetch(offset, limit)).rows, draw, title) : empty(nothing)] };
}

const goTo = (...words) => { location.hash = address(...words.filter(Boolean)); };

export async function clustersView(source, sort = "size") {
  const told = await source.overview();
  if (told.kb === null) return { title: "Entities", nodes: [h("h1", {}, "Entities"), empty("The run has no knowledge base; all its entities are new."), h("p", {}, h("a", { href: address("nil") }, "New entities"))] };
  return listView("Entities", (total) => `${plural(total, "entity", "entities")} of the knowledge base with mentions.`,
    choice("Sort", [["size", "by size"], ["name", "by name"]], sort, (by) => goTo("clusters", by)),
    (offset, limit) => source.clusters({ nil: false, sort, offset, limit }), clusterRow, "No mention is linked to an entity.");
}

export async function nilView(source, sort = "size") {
  const told = await source.overview();
  const orders = [["size", "by size"], ...(told.kb === null ? [] : [["nearness", "by nearness"]]), ["name", "by name"]];
  const result = await listView("New entities", (total) => `${plural(total, "cluster")} of mentions that are NIL.`,
    choice("Sort", orders, sort, (by) => goTo("nil", by)),
    (offset, limit) => source.clusters({ nil: true, sort, offset, limit }), clusterRow, "No mention is NIL.");
  return { ...result, place: "nil" };
}

export async function mentionsView(source, which = "all", sort = "order") {
  const told = await source.overview();
  return listView("Mentions", (total) => `${plural(total, "mention")}${which === "nil" ? " that are NIL" : ""}, ${sort === "margin" ? "least certain first" : "in the order of the documents"}.`,
    h("div", { class: "controls" }, choice("Which", [["all", "all"], ["nil", "NIL"]], which, (value) => goTo("mentions", value, sort)),
      told.kb !== null && choice("Sort", [["order", "in order"], ["margin", "by margin"]], sort, (value) => goTo("mentions", which, value))),
    (offset, limit) => source.mentions({ nil: which === "nil", sort, offset, limit }), mentionRow, "There is no such mention.");
}

export function documentsView(source) {
  return listView("Documents", (total) => `${plural(total, "document")}.`, null,
    (offset, limit) => source.documents({ offset, limit }), documentRow, "The run has no documents.");
}

export async function searchView(source, words = "") {
  const found = await source.search(words);
  const parts = [["Entities and clusters", found.clusters, clusterRow], ["Mentions", found.mentions, mentionRow], ["Documents", found.documents, documentRow]];
  const any = parts.some(([, rows]) => rows.length);
  return { title: `Search: ${words.slice(0, 60)}`, nodes: [h("h1", {}, "Search: ", name(words)),
    any ? parts.map(([title, rows, draw]) => rows.length > 0 && section(rows.length === 20 ? `${title}, the first 20` : title, h("div", { class: "rows" }, rows.map(draw))))
      : empty("Nothing has these words. The search reads texts of mentions, names of entities, and ids.")] };
}

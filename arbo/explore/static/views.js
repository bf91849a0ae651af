// The overview, the lists and the search.
import { h, address, count, decimal, plural, share, name, ident, link, arrow, between, is, sentence, empty, lead, section, table, listRow, longList, choice } from "./dom.js";
import { evidenceBars, histogram, sizeBars, whisker } from "./charts.js";

export async function overviewView(source) {
  const told = await source.overview(), hasKb = told.kb !== null;
  const base = hasKb ? `, linked to a knowledge base of ${told.kb}.` : ", without a knowledge base.";
  const known = told.clusters - told.discovered;
  return { title: "Overview", nodes: [
    h("h1", {}, name(told.name)),
    lead(`${plural(told.mentions, "mention")} in ${plural(told.documents, "document")}`, base),
    h("div", { class: "tiles" },
      hasKb && tile(told.linked, "linked", share(told.linked, told.mentions), "clusters"),
      tile(told.nil, "NIL", hasKb ? share(told.nil, told.mentions) : "no knowledge base", "nil"),
      hasKb && tile(known, known === 1 ? "known entity found" : "known entities found", "", "clusters"),
      tile(told.discovered, told.discovered === 1 ? "new entity" : "new entities", "", "nil")),
    told.mentions === 0 && empty("The run has no mentions."),
    first(told, source),
    Object.keys(told.scores).length > 0 && section("Scores against the gold annotations", scoreTable(told.scores)),
    told.histogram.bounds.length > 0 && section("Dissimilarities", histogram(told),
      !told.no_cuts && h("p", {}, link("Move the thresholds", "threshold"))),
    told.sizes.length > 0 && section("Sizes of clusters", sizeBars(told.sizes)),
    told.evidence.length > 0 && section("Evidence: shares of pairs that are one, and of others", evidenceBars(told.evidence)),
    section("How it was made", told.choices.map((line) => h("p", {}, line)), facts(told, hasKb)),
  ] };
}

function tile(value, label, more, ...words) {
  return h("a", { class: "tile", href: address(...words) }, h("strong", {}, count(value)), h("span", {}, label), h("small", {}, more));
}

// What to look at first.
function first(told, source) {
  const wrong = told.wrong.reduce((sum, [, number]) => sum + number, 0);
  const steps = [
    told.doubtful > 0 && [link(`${plural(told.doubtful, "doubtful decision")}`, ...(source.ask ? ["review"] : ["mentions", "all", "doubt"])), ": more likely wrong than right."],
    wrong > 0 && [link(`${plural(wrong, "wrong decision")}`, "mentions", "wrong"), ": ", told.wrong.map(([kind, number]) => `${count(number)} ${kind}`).join(", "), "."],
    told.discovered > 0 && told.kb !== null && [link(plural(told.discovered, "new entity", "new entities"), "nil"), ": missing from the knowledge base, or of an unknown name."],
  ].filter(Boolean);
  return steps.length > 0 && section("What to look at first", h("ul", { class: "steps" }, steps.map((step) => h("li", {}, step))));
}

const HEADLINES = ["accuracy with NIL", "accuracy", "ARI", "CoNLL"];

function scoreTable(scores) {
  const names = Object.keys(scores), chosen = HEADLINES.filter((name) => name in scores).slice(0, 3), others = names.filter((name) => !chosen.includes(name));
  const rows = (some) => scoreRows(Object.fromEntries(some.map((name) => [name, scores[name]])));
  return h("div", {}, rows(chosen.length ? chosen : names), chosen.length > 0 && others.length > 0 && h("details", {}, h("summary", {}, `${count(others.length)} further scores`), rows(others)));
}

function scoreRows(scores) {
  const interval = ({ score, interval: ends }) => (is(ends?.[0]) ? [whisker(score, ...ends), ` ${ends.map((end) => decimal(end)).join(" – ")}`] : "–");
  const rows = Object.entries(scores).map(([name, one]) => ({ cells: [name, decimal(one.score), interval(one), one.over ?? ""] }));
  return table([["score"], ["value", "number"], ["95 % interval"], ["over"]], rows, "scores");
}

function facts(told, hasKb) {
  const limit = (value) => (value === null ? "none" : decimal(value));
  const texts = told.texts ? "the texts of all documents, " : "no texts of documents; ";
  const rows = [
    ["method", told.method],
    is(told.k) && ["neighbours of a mention", told.k],
    hasKb && ["entity threshold", limit(told.threshold.entity)],
    ["mention threshold", limit(told.threshold.mention)],
    ["this page holds", `${texts}texts, types and gold ids of mentions, and names and aliases of entities`],
  ];
  return h("dl", {}, rows.filter(Boolean).map(([term, value]) => [h("dt", {}, term), h("dd", {}, String(value))]));
}

// Whether a decision is right, if gold annotations tell.
export function rightOrWrong(row) {
  const isRight = row.right === null;
  return row.verdict && h("span", { class: isRight ? "right" : "wrong", title: row.verdict, role: "img", "aria-label": isRight ? "right" : `wrong: ${row.verdict}` }, isRight ? "✓" : "✗");
}

// A row of a mention: what it says, what it was linked to, and its sentence.
export function mentionRow(row) {
  const sure = row.confidence ?? row.score, to = is(row.entity_id) ? name(row.entity_name ?? row.entity_id, { class: "to" }) : h("span", { class: "nil" }, "NIL");
  return listRow(["mention", row.mention_id],
    [rightOrWrong(row), name(row.text, { class: "what" }), arrow(), to, row.corrected && h("span", { class: "badge" }, "corrected"), row.right && [h("span", { class: "muted right-name" }, "should be"), name(row.right, { class: "right-name" })]],
    [is(sure) && h("span", { title: is(row.confidence) ? "confidence" : "score" }, decimal(sure)),
      is(row.margin) && h("small", {}, row.margin ? `margin ${decimal(row.margin)}` : "two equally near")],
    sentence(row) ?? name(row.document_id));
}

export function clusterRow(row) {
  const others = row.examples.filter((text) => text !== row.name), near = row.nearest;
  const figures = near
    ? [h("small", {}, "nearest"), name(near.name ?? near.entity_id), h("span", {}, decimal(near.dissimilarity))]
    : row.entity_id !== null && ident(row.entity_id);
  const always = row.entity_id === null ? name(row.cluster_id) : "always by its name";
  return listRow(["cluster", row.cluster_id], [name(row.name, { class: "what" }), h("span", { class: "pill" }, count(row.size))], figures,
    others.length ? between(" · ", others.map((text) => name(text))) : always);
}

export function documentRow(row) {
  const title = is(row.title) && row.title !== "" ? row.title : row.document_id;
  return listRow(["document", row.document_id], name(title, { class: "what" }), plural(row.mentions, "mention"),
    [name(row.document_id), " · ", row.nil ? `${count(row.nil)} NIL` : "all linked", row.doubtful > 0 && ` · ${count(row.doubtful)} doubtful`]);
}

const goTo = (...words) => { location.hash = address(...words); };

async function listView(title, told, controls, fetch, draw, nothing) {
  const { total } = await fetch(0, 1), rows = async (offset, limit) => (await fetch(offset, limit)).rows;
  return { title, nodes: [h("h1", {}, title), lead(told(total)), controls, total ? longList(total, rows, draw, title) : empty(nothing)] };
}

export async function clustersView(source, sort = "size") {
  const told = await source.overview();
  if (told.kb === null) {
    const nothing = empty("The run has no knowledge base; all its entities are new.");
    return { title: "Entities", nodes: [h("h1", {}, "Entities"), nothing, h("p", {}, link("New entities", "nil"))] };
  }
  return listView("Entities", (total) => `${plural(total, "entity", "entities")} of the knowledge base with mentions.`,
    choice("Sort", [["size", "by size"], ["name", "by name"]], sort, (by) => goTo("clusters", by)),
    (offset, limit) => source.clusters({ nil: false, sort, offset, limit }), clusterRow, "No mention is linked to an entity.");
}

export async function nilView(source, sort = "size") {
  const told = await source.overview();
  const orders = [["size", "by size"], told.kb !== null && ["nearness", "by nearness"], ["name", "by name"]].filter(Boolean);
  return listView("New entities", (total) => `${plural(total, "cluster")} of mentions that are NIL.`,
    choice("Sort", orders, sort, (by) => goTo("nil", by)),
    (offset, limit) => source.clusters({ nil: true, sort, offset, limit }), clusterRow, "No mention is NIL.");
}

export async function mentionsView(source, which = "all", sort = "order") {
  const told = await source.overview(), nil = which === "nil", isWrong = !["all", "nil"].includes(which);
  const order = { doubt: "least certain first", name: "by name" }[sort] ?? "in the order of the documents";
  const kinds = told.wrong.length ? [["wrong", "wrong"]] : [], reasons = isWrong ? [["wrong", "any"], ...told.wrong.map(([kind, number]) => [kind, `${kind} ${count(number)}`])] : [];
  const controls = h("div", {}, choice("Which", [["all", "all"], ["nil", "NIL"], ...kinds], isWrong ? "wrong" : which, (value) => goTo("mentions", value, sort)),
    choice("Sort", [["order", "in order"], ["name", "by name"], ...(told.kb === null ? [] : [["doubt", "by doubt"]])], sort, (by) => goTo("mentions", which, by)),
    isWrong && h("div", {}, choice("Why", reasons, which, (value) => goTo("mentions", value, sort))));
  const said = nil ? " that are NIL" : isWrong ? " whose entity is wrong" : "", wrong = isWrong && (which === "wrong" || which);
  return listView("Mentions", (total) => `${plural(total, "mention")}${said}, ${order}.`, controls,
    (offset, limit) => source.mentions({ nil, wrong, sort, offset, limit }), mentionRow, "There is no such mention.");
}

export function documentsView(source, sort = "order") {
  const controls = choice("Sort", [["order", "in order"], ["doubt", "by doubt"]], sort, (by) => goTo("documents", by));
  return listView("Documents", (total) => `${plural(total, "document")}.`, controls,
    (offset, limit) => source.documents({ sort, offset, limit }), documentRow, "The run has no documents.");
}

export async function searchView(source, words = "") {
  const found = await source.search(words);
  const parts = [
    ["Entities and clusters", found.clusters, clusterRow],
    ["Mentions", found.mentions, mentionRow],
    ["Documents", found.documents, documentRow],
  ].filter(([, rows]) => rows.length);
  const title = (what, rows) => (rows.length === 20 ? `${what}, the first 20` : what);
  const nothing = "Nothing has these words. The search reads texts of mentions, names of entities, and ids.";
  return { title: `Search: ${words.slice(0, 60)}`, nodes: [h("h1", {}, "Search: ", name(words)), parts.length ? null : empty(nothing),
    parts.map(([what, rows, draw]) => section(title(what, rows), h("div", { class: "rows" }, rows.map(draw))))] };
}

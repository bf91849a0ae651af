// A document with its mentions highlighted; mentions may overlap, and may have gaps.
import { h, address, count, plural, name, short, is, between, empty, lead, section, longList, choice } from "./dom.js";
import { mentionRow } from "./views.js";

// `drawn` are the mentions to draw, if they are other than those of the run; `mark` of one says how they differ.
export async function documentView(source, id, chosen = null, drawn = null) {
  const { document_id, text, mentions } = await source.document(id);
  const rows = async (offset, limit) => mentions.slice(offset, offset + limit);
  if (chosen !== null) requestAnimationFrame(() => document.querySelector(".text .chosen")?.scrollIntoView({ block: "center" }));
  return { title: document_id.slice(0, 80), place: "documents", nodes: [
    h("p", { class: "kind" }, "Document"), h("h1", {}, name(document_id)),
    lead(plural(mentions.length, "mention"), ` · ${count(mentions.filter((row) => row.entity_id === null).length)} NIL`),
    text !== null && mentions.length > 0 && choice("Entities", [[false, "text alone"], [true, "with entities"]], labelled, (on) => {
      labelled = on;
      dispatchEvent(new HashChangeEvent("hashchange")); // draws the view again
    }),
    text !== null && legend(mentions),
    text === null ? empty("The page holds no texts.") : highlighted(text, drawn ?? mentions, chosen),
    mentions.length > 0 && section("Mentions", longList(mentions.length, rows, mentionRow, "Mentions of the document")),
  ] };
}

// What the colours mean, of those that the mentions have.
function legend(mentions) {
  const linked = mentions.filter((row) => row.entity_id !== null), isSure = linked.some((row) => is(row.confidence));
  const sample = (words, kind, sure) => h("span", { class: `hit${kind}`, "--layers": 1, "--sure": sure }, words);
  const samples = [linked.length > 0 && sample(isSure ? "linked, sure" : "linked", ""), isSure && sample("linked, doubtful", "", 0.2), linked.length < mentions.length && sample("NIL", " new")];
  return h("p", { class: "note legend" }, between("  ", samples.filter(Boolean)));
}

let labelled = false; // whether the text shows the entities of mentions

// The offset in UTF-16 of each code point, and at the end; null if they are the same.
export function unitsOf(text) {
  if (!/[\ud800-\udbff][\udc00-\udfff]/.test(text)) return null;
  const units = [];
  let at = 0;
  for (const point of text) {
    units.push(at);
    at += point.length;
  }
  units.push(at);
  return units;
}

function highlighted(text, mentions, chosen) {
  const units = unitsOf(text), unit = (offset) => (units ? units[Math.min(offset, units.length - 1)] : offset);
  const ends = mentions.flatMap((row) => row.spans.flatMap(([start, end]) => [[unit(start), 1, row], [unit(end), -1, row]]));
  ends.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = new Set(), nodes = [];
  let at = 0;
  for (const [place, kind, row] of ends) {
    if (place > at) nodes.push(piece(text.slice(at, place), [...open], chosen, kind < 0 && row.spans.at(-1)[1] === row.end && unit(row.end) === place ? row : null));
    at = Math.max(at, place);
    if (kind > 0) open.add(row);
    else open.delete(row);
  }
  const box = h("article", { class: `text${labelled ? " labelled" : ""}`, dir: "auto" }, nodes, text.slice(at));
  for (const [event, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]) {
    box.addEventListener(event, ({ target }) => mark(box, target.closest("[data-mention]"), on));
  }
  return box;
}

// Mark all pieces of the mentions that a piece belongs to.
function mark(box, piece, on) {
  const ids = new Set(piece?.dataset.mention.split(" "));
  for (const one of piece ? box.querySelectorAll("[data-mention]") : []) {
    one.classList.toggle("on", on && one.dataset.mention.split(" ").some((id) => ids.has(id)));
  }
}

// A piece of text below some mentions: a link to the shortest of them, underlined once for each.
// `last` is the mention that ends with the piece.
function piece(text, over, chosen, last) {
  if (!over.length) return text;
  const inner = over.reduce((best, row) => (row.end - row.start <= best.end - best.start ? row : best));
  const isChosen = over.some((row) => row.mention_id === chosen);
  return h(inner.mark === "add" ? "span" : "a", {
    class: `hit${inner.entity_id === null ? " new" : ""}${isChosen ? " chosen" : ""} ${inner.mark ?? ""}`, href: inner.mark === "add" ? null : address("mention", inner.mention_id), tabindex: 0,
    title: over.map((row) => `${row.text.slice(0, 80)}: ${(row.entity_name ?? "NIL").slice(0, 80)}`).join("\n"),
    "--layers": Math.min(over.length, 4), "--sure": inner.entity_id === null ? null : inner.confidence ?? null, "data-label": last === inner ? short(inner.entity_name ?? "NIL", 40) : null, "data-mention": over.map((row) => encodeURIComponent(row.mention_id.toWellFormed())).join(" "),
  }, text);
}

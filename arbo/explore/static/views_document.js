// A document with its mentions highlighted; mentions may overlap, and may have gaps.
import { h, address, plural, name, empty, longList } from "./dom.js";
import { mentionRow, section } from "./views.js";

export async function documentView(source, id, chosen = null) {
  const found = await source.document(id);
  const text = found.text === null ? null : highlighted(found, chosen);
  if (chosen !== null) requestAnimationFrame(() => document.querySelector(".text .chosen")?.scrollIntoView({ block: "center" }));
  return { title: found.document_id.slice(0, 80), place: "documents", nodes: [
    h("p", { class: "kind" }, "Document"), h("h1", {}, name(found.document_id)),
    h("p", { class: "lead" }, plural(found.mentions.length, "mention"), ` · ${found.mentions.filter((row) => row.entity_id === null).length} NIL`),
    text ?? empty("The page holds no texts."),
    found.mentions.length > 0 && section("Mentions", longList(found.mentions.length, async (offset, limit) => found.mentions.slice(offset, offset + limit), mentionRow, "Mentions of the document")),
  ] };
}

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

function highlighted(found, chosen) {
  const units = unitsOf(found.text);
  const unit = (offset) => Math.min(found.text.length, units ? units[Math.min(offset, units.length - 1)] : offset);
  const events = [];
  found.mentions.forEach((row, i) => row.spans.forEach(([start, end]) => events.push([unit(start), 1, i], [unit(end), -1, i])));
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = new Set(), nodes = [];
  let at = 0;
  for (const [place, kind, i] of events) {
    if (place > at) {
      nodes.push(piece(found.text.slice(at, place), [...open].map((j) => found.mentions[j]), chosen));
      at = place;
    }
    if (kind > 0) open.add(i);
    else open.delete(i);
  }
  nodes.push(found.text.slice(at));
  const box = h("article", { class: "text", dir: "auto" }, nodes);
  const mark = (event, on) => {
    const own = event.target.closest?.("[data-mention]");
    if (!own) return;
    const ids = new Set(own.dataset.mention.split(" "));
    for (const one of box.querySelectorAll("[data-mention]")) one.classList.toggle("on", on && one.dataset.mention.split(" ").some((id) => ids.has(id)));
  };
  for (const [kind, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]) box.addEventListener(kind, (event) => mark(event, on));
  return box;
}

// A piece of text below some mentions: a link to the shortest of them, underlined once for each.
function piece(text, over, chosen) {
  if (!over.length) return text;
  const inner = over.reduce((best, row) => (row.end - row.start <= best.end - best.start ? row : best));
  const told = over.map((row) => `${row.text.slice(0, 80)}: ${(row.entity_name ?? "NIL").slice(0, 80)}`).join("\n");
  const classes = ["hit", inner.entity_id === null ? "new" : "", over.some((row) => row.mention_id === chosen) ? "chosen" : ""];
  return h("a", { class: classes.filter(Boolean).join(" "), href: address("mention", inner.mention_id), title: told, "--layers": Math.min(over.length, 4),
    "data-mention": over.map((row) => encodeURIComponent(row.mention_id.toWellFormed())).join(" ") }, text);
}

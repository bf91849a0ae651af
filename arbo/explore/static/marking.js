// Marking in the text of a served page: mentions are added, resized, split and dropped, by mouse or keys. Each mark is a
// correction, which is written at once and drawn over the run; the run that obeys the marks is made by the review.
import { h, address, name, plural } from "./dom.js";
import { documentView } from "./views_document.js";

const MARK_KEYS = { m: "add", r: "resize", p: "split", d: "drop", u: "undo" };
const MOVES = { "]": ["end", "forward"], "[": ["end", "backward"], "}": ["start", "forward"], "{": ["start", "backward"] };
const HEAD = /^[\s,;/]*(?:(?:and|or)\s+)?/, TAIL = /(?:\s+(?:and|or))?[\s,;/]*$/; // between the parts of a mention
const HELP = "Select words to mark them. On a mention (Tab): [ and ] move its end, { and } its start.";
let written = "", back = null; // of the last mark, and the mention that had the focus: drawing anew keeps both

export async function markedView(source, id, chosen = null) {
  const { rows: marks } = await source.ask("review/marks", { document: id });
  const { text, mentions } = await source.document(id);
  const rows = marked(mentions, marks, id, text), view = await documentView(source, id, chosen, rows);
  const box = view.nodes.find((node) => node?.classList?.contains("text"));
  if (box) view.nodes.splice(view.nodes.indexOf(box) + 1, 0, tools({ source, id, text, box, rows, chosen, marks, last: null }));
  return view;
}

const where = (spans) => JSON.stringify(spans);
const sliced = (text, spans) => spans.map(([start, end]) => Array.from(text).slice(start, end).join("")).join(" ");

// The mentions of a document as the marks leave them; a mark that the run obeys already changes nothing.
function marked(mentions, marks, id, text) {
  const rows = mentions.map((row) => ({ ...row, came: row.spans })), at = (spans) => rows.filter((row) => [row.came, row.spans].some((one) => where(one) === where(spans)));
  const placed = (row, spans) => ({ ...row, spans, start: spans[0][0], end: spans.at(-1)[1], text: text === null ? row.text : sliced(text, spans) });
  const added = (spans, type = null) => placed({ mention_id: `${id}:${spans[0][0]}-${spans.at(-1)[1]}`, came: spans, type, entity_id: null, entity_name: "marked", mark: "add" }, spans);
  for (const { spans, add, resize, split, drop, type } of marks) {
    const there = at(spans);
    if (add) there.length ? there.forEach((row) => row.mark === "drop" && delete row.mark) : rows.push(added(spans, type));
    for (const row of add ? [] : there) {
      if (drop && row.mark === "add") rows.splice(rows.indexOf(row), 1);
      else Object.assign(row, drop ? {} : placed(row, resize ?? split[0]), { mark: row.mark === "add" ? "add" : drop ? "drop" : "resize" });
    }
    if (split && there.length) rows.push(...split.slice(1).map((part) => added(part, there[0].type)));
  }
  return rows;
}

// The bar below the text, with what may be done to the selected words and to the mention that they touch or that has the focus.
function tools(state) {
  const { box, rows, marks } = state;
  const bar = h("div", { class: "answers marks", role: "toolbar", "aria-label": "Marks" }), status = h("p", { class: "status", role: "status", "aria-live": "polite" }, written);
  const count = new Map();
  for (const { type } of rows) if (type) count.set(type, (count.get(type) ?? 0) + 1);
  state.types = [...count].sort((a, b) => b[1] - a[1]).map(([type]) => type);
  Object.assign(state, { bar, status, selected: null });
  const alive = (act) => function handler(event) {
    if (!bar.isConnected && state.shown) for (const kind of ["selectionchange", "keydown"]) document.removeEventListener(kind, handler, true);
    else act(event);
  };
  document.addEventListener("selectionchange", alive(() => drawBar(state)), true);
  document.addEventListener("keydown", alive((event) => markPressed(state, event)), true);
  box.addEventListener("focusin", ({ target }) => {
    state.last = markedRow(state, target) ?? state.last;
    drawBar(state);
  });
  box.addEventListener("click", (event) => !getSelection().isCollapsed && event.preventDefault()); // words of a mention are selected
  box.addEventListener("dragstart", (event) => event.preventDefault());
  drawBar(state);
  requestAnimationFrame(() => {
    state.shown = true;
    const pieces = back === null ? [] : [...box.querySelectorAll("[data-mention]")];
    pieces.find((piece) => piece.dataset.mention.split(" ").includes(back))?.focus({ preventScroll: true });
    back = null;
  });
  const done = marks.length > 0 && h("p", { class: "note" }, `${plural(marks.length, "mark")} of this document; `, h("a", { href: address("review") }, "apply them in the review"), ".");
  return h("div", { class: "correct marking" }, bar, h("p", { class: "note" }, HELP), done, status);
}

const markedRow = ({ rows, chosen }, element) => {
  const ids = element?.closest?.("[data-mention]")?.dataset.mention.split(" ").map(decodeURIComponent) ?? (chosen ? [chosen] : []);
  return shortest(rows.filter((row) => ids.includes(row.mention_id)));
};
const shortest = (rows) => rows.reduce((best, row) => (best && best.end - best.start <= row.end - row.start ? best : row), null);

// The selected words without white space around them, as offsets of code points; null if none of the text is selected.
function selectedIn(box) {
  const selection = getSelection(), range = selection.rangeCount && !selection.isCollapsed ? selection.getRangeAt(0) : null;
  if (!range || !box.contains(range.commonAncestorContainer)) return null;
  const before = document.createRange(), text = range.toString(), size = (some) => Array.from(some).length;
  before.selectNodeContents(box);
  before.setEnd(range.startContainer, range.startOffset);
  const start = size(before.toString()) + size(text) - size(text.trimStart()), end = start + size(text.trim());
  return start < end ? [start, end] : null;
}

function drawBar(state) {
  const { bar, box, rows, text, types } = state, selected = selectedIn(box);
  const touched = selected && shortest(rows.filter((row) => row.mark !== "drop" && row.start < selected[1] && selected[0] < row.end));
  if (selected) state.last = box.contains(document.activeElement) ? markedRow(state, document.activeElement) : touched;
  const row = state.last ?? markedRow(state, null), quoted = (some) => h("q", {}, name(some));
  const choice = bar.querySelector("select")?.value ?? types[0];
  Object.assign(state, { selected, row });
  const inside = selected && row && row.spans.length === 1 && row.start <= selected[0] && selected[1] <= row.end && selected[1] - selected[0] < row.end - row.start;
  const able = { add: selected, resize: selected && row, split: inside, drop: row && row.mark !== "drop", undo: true };
  const said = {
    add: ["mark ", selected ? quoted(sliced(text, [selected])) : "the selected words"], resize: ["resize ", row ? quoted(row.text) : "a mention", " to it"], split: ["split it off"],
    drop: ["no mention", row ? [": ", quoted(row.text)] : ""], undo: ["undo"],
  };
  bar.replaceChildren(...Object.entries(MARK_KEYS).map(([key, kind]) => h("button", {
    type: "button", disabled: !able[kind], "data-mark": kind, mousedown: (event) => event.preventDefault(), click: () => writeMark(state, kind), // the selection stays
  }, h("kbd", {}, key), " ", said[kind])), types.length > 0 && selected ? h("select", { "aria-label": "Type of the new mention" }, types.map((type) => h("option", { selected: type === choice }, type))) : "");
}

// The parts of a mention beside and in the selected words, without "and", "or" and commas at their ends.
function splitParts({ text, row, selected }) {
  const points = Array.from(text), trimmed = ([start, end]) => {
    const part = points.slice(start, end).join(""), [head] = part.match(HEAD), rest = part.slice(head.length).replace(TAIL, "");
    const from = start + Array.from(head).length;
    return [from, from + Array.from(rest).length];
  };
  return [[row.start, selected[0]], selected, [selected[1], row.end]].map(trimmed).filter(([start, end]) => start < end).map((span) => [span]);
}

async function writeMark(state, kind) {
  const { source, id, row, selected, bar, status } = state;
  const type = bar.querySelector("select")?.value ?? state.types[0];
  const asked = {
    add: () => ({ spans: [selected], add: true, type }), resize: () => ({ spans: row.came, resize: [selected] }),
    split: () => ({ spans: row.came, split: splitParts(state) }), drop: () => ({ spans: row.came, drop: true }),
  };
  try {
    const words = selected && `“${sliced(state.text, [selected])}”`, of = row && `“${row.text}”`;
    const said = { add: `Marked ${words}.`, resize: `${of} is now ${words}.`, split: `${of} is split.`, drop: `${of} is no mention.`, undo: "Taken back." };
    if (kind === "undo") await source.ask("review/answer", {}, { answer: "undo" });
    else await source.ask("review/mark", {}, { document: id, ...asked[kind]() });
    written = said[kind];
    back = document.activeElement?.closest?.("[data-mention]")?.dataset.mention.split(" ")[0] ?? null;
    getSelection().removeAllRanges();
    dispatchEvent(new HashChangeEvent("hashchange")); // draws the view again
  } catch (error) {
    status.textContent = error.message;
  }
}

function markPressed(state, event) {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key in MARK_KEYS || event.key in MOVES) drawBar(state); // the event of a selection comes late
  const button = event.key in MARK_KEYS && state.bar.querySelector(`[data-mark="${MARK_KEYS[event.key]}"]`);
  const piece = document.activeElement?.closest?.("[data-mention]");
  if (button) {
    event.preventDefault();
    button.click();
  } else if (event.key in MOVES && (piece || state.selected)) {
    event.preventDefault();
    moveEnd(piece, ...MOVES[event.key]);
  }
}

// Move an end of the selection by a word; without a selection, of the words of a mention.
function moveEnd(piece, end, direction) {
  const selection = getSelection();
  if (selection.isCollapsed) selection.selectAllChildren(piece);
  const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0);
  if (end === "end") selection.setBaseAndExtent(startContainer, startOffset, endContainer, endOffset);
  else selection.setBaseAndExtent(endContainer, endOffset, startContainer, startOffset);
  selection.modify("extend", direction, "word");
}

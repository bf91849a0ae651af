// Elements, numbers and lists. Text reaches the page as text nodes alone.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes, ...children) {
  const isSvg = ["svg", "rect", "line", "text", "g"].includes(tag);
  const element = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (!is(value) || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => is(child) && child !== false));
  return element;
}

export const address = (...words) => "#/" + words.map((word) => encodeURIComponent(word.toWellFormed())).join("/");
export const count = (value) => value.toLocaleString("en-GB");
export const decimal = (value, digits = 3) => (is(value) ? (value + 0).toFixed(digits) : "–");
export const plural = (number, noun, nouns = noun + "s") => `${count(number)} ${number === 1 ? noun : nouns}`;
export const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

const LONGEST = 160;
export function short(text, longest = LONGEST) {
  const points = text.length > longest ? Array.from(text.slice(0, 2 * longest)) : [];
  return points.length > longest ? points.slice(0, longest).join("") + "…" : text;
}

// A name from the run: it keeps its own direction, and does not turn the text around it.
export const name = (text, attributes = {}) => h("bdi", attributes, short(text) || "(empty)");

export const ident = (text) => name(text, { class: "id" });
export const link = (text, ...words) => h("a", { href: address(...words) }, name(text));
export const arrow = () => h("span", { class: "arrow", "aria-hidden": "true" }, "→");
export const between = (mark, nodes) => nodes.flatMap((node, i) => (i ? [mark, node] : [node]));
export const is = (value) => value !== null && value !== undefined;

// A mention in its sentence, with at most so many letters before it; null without texts.
export function sentence(row, most = innerWidth < 600 ? 24 : 90) {
  if (!row.sentence) return null;
  const { before, pieces, after } = row.sentence; // every second piece is a gap
  const start = before.length > most ? "…" + before.slice(-most).replace(/^[\udc00-\udfff]/, "") : before;
  return h("span", { class: "sentence" }, start, pieces.map((piece, i) => (i % 2 ? short(piece) : h("mark", {}, short(piece)))), short(after, most + 50));
}

export const empty = (text) => h("p", { class: "empty" }, text);
export const lead = (...nodes) => h("p", { class: "lead" }, nodes);
export const section = (title, ...nodes) => h("section", {}, h("h2", {}, title), nodes);

// A table; `headings` are pairs of a text and a class, `rows` are {cells, chosen}.
export function table(headings, rows, kind = "") {
  const head = headings.map(([text, own]) => h("th", { scope: "col", class: own }, text));
  const body = rows.map(({ cells, chosen }) => h("tr", { class: chosen && "chosen" },
    cells.map((cell, i) => h("td", { class: headings[i][1] }, cell))));
  return h("div", { class: "wide" }, h("table", { class: kind }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

// A row of a list: its first line, figures on the right, and a second line.
export function listRow(words, first, figures, second, attributes = {}) {
  return h("a", { class: "row", href: address(...words), ...attributes }, h("span", { class: "first" }, first),
    h("span", { class: "figures" }, figures), h("span", { class: "second" }, second));
}

export const ROW = 56; // height of a row in pixels, as in page.css
const PAGE = 100;
const MOST = 250_000; // browsers limit the height of an element

// A list of `total` rows of which only those in view exist; `fetch(offset, limit)` returns a promise of rows.
export function longList(total, fetch, draw, label) {
  const shown = Math.min(total, MOST);
  const pages = new Map(), drawn = new Map();
  const box = h("div", { class: "list", role: "list", "aria-label": label, "--rows": shown });
  const page = (number) => {
    if (!pages.has(number)) pages.set(number, fetch(number * PAGE, PAGE));
    return pages.get(number);
  };
  const place = async (index) => {
    const item = h("div", { class: "item", role: "listitem", "aria-setsize": total, "aria-posinset": index + 1, "--at": index });
    drawn.set(index, item);
    box.append(item);
    const rows = await page(Math.floor(index / PAGE));
    const row = rows[index % PAGE];
    if (row) item.replaceChildren(draw(row));
    return item;
  };
  const update = () => {
    if (!box.isConnected) return void (box.started && removeEventListener("scroll", update));
    box.started = true;
    const top = -box.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / ROW) - 8), last = Math.min(shown, Math.ceil((top + innerHeight) / ROW) + 8);
    for (const [index, item] of drawn) {
      if ((index < first || index >= last) && !item.contains(document.activeElement)) {
        item.remove();
        drawn.delete(index);
      }
    }
    for (let index = first; index < last; index++) if (!drawn.has(index)) place(index);
  };
  box.addEventListener("keydown", async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const at = Number(event.target.closest(".item")?.getAttribute("aria-posinset")) - 1;
    if (!step || at < 0) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(shown - 1, at + step));
    const item = drawn.get(next) ?? (await place(next));
    await page(Math.floor(next / PAGE));
    item.querySelector("a, button")?.focus();
    item.scrollIntoView({ block: "nearest" });
  });
  addEventListener("scroll", update, { passive: true });
  addEventListener("resize", update, { passive: true });
  requestAnimationFrame(update);
  const note = `The first ${count(shown)} of ${count(total)}; search for the others.`;
  return h("div", {}, box, total > shown && h("p", { class: "note" }, note));
}

// Buttons of which one is chosen; the choice is told to `choose`.
export function choice(label, options, chosen, choose) {
  const button = ([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), click: () => choose(value) }, text);
  return h("div", { class: "choice", role: "group", "aria-label": label }, options.map(button));
}

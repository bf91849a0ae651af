// Drawings: histograms with thresholds, sizes of clusters, and intervals.
import { h, count, decimal } from "./dom.js";

const HEIGHT = 120;

// Two histograms on one scale.
export function histogram(told) {
  const kinds = [["entity", "Nearest entity of each mention"], ["mention", "Steps between mentions that are linked"]];
  const there = kinds.filter(([kind]) => told.histogram[kind].some(Boolean));
  return h("div", {}, there.map(([kind, label]) => oneHistogram(label, told.histogram.bounds, told.histogram[kind], told.threshold[kind])));
}

// A bar far above the others is cut off, and has its number.
function oneHistogram(label, bounds, counts, limit) {
  const width = innerWidth < 600 ? 360 : 720, low = bounds[0], high = Math.max(bounds[bounds.length - 1], low + 1e-9);
  const at = (value) => ((value - low) / (high - low)) * width, wide = width / counts.length;
  const [most, second] = counts.toSorted((a, b) => b - a), top = second && most > 2.5 * second ? 1.4 * second : most;
  const tall = (value) => Math.max(1.5, Math.min(1, value / top) * HEIGHT);
  const text = (x, y, anchor, words) => h("text", { class: "label", x, y, "text-anchor": anchor }, words);
  const bars = counts.map((value, i) => value > 0
    && h("rect", { class: "bar", x: i * wide + 0.5, width: wide - 1, y: HEIGHT - tall(value), height: tall(value) }));
  const breaks = counts.map((value, i) => value > top && [14, 19].map((y) => h("line", { class: "break", x1: i * wide, x2: (i + 1) * wide, y1: y + 4, y2: y })));
  const numbers = counts.map((value, i) => {
    const isLast = (i + 1) * wide > width - 60;
    return value > top && text(isLast ? i * wide - 4 : (i + 1) * wide + 4, 10, isLast ? "end" : "start", count(value));
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) =>
    text(part * width, HEIGHT + 15, { 0: "start", 1: "end" }[part] ?? "middle", decimal(low + part * (high - low), 2)));
  const hasLimit = limit !== null && limit >= low && limit <= high, told = hasLimit ? ` · threshold ${decimal(limit)}` : "";
  const line = hasLimit && h("line", { class: "limit", x1: at(limit), x2: at(limit), y1: -4, y2: HEIGHT });
  const axis = h("line", { class: "axis", x1: 0, x2: width, y1: HEIGHT, y2: HEIGHT });
  const summary = `${label}: ${count(counts.reduce((a, b) => a + b, 0))} values from ${decimal(low)} to ${decimal(high)}${told}`;
  const drawing = h("svg", { viewBox: `0 -4 ${width} ${HEIGHT + 24}`, role: "img", "aria-label": summary }, bars, breaks, numbers, axis, line, ticks);
  return h("figure", {}, h("figcaption", {}, label, h("span", { class: "muted" }, told)), drawing);
}

export function sizeBars(sizes) {
  const classes = new Map();
  for (const [size, number] of sizes) {
    const power = Math.ceil(Math.log2(size));
    classes.set(power, (classes.get(power) ?? 0) + number);
  }
  const most = Math.max(...classes.values());
  return h("table", { class: "bars" }, h("tbody", {}, [...classes].sort(([a], [b]) => a - b).map(([power, number]) => {
    const first = power === 0 ? 1 : 2 ** (power - 1) + 1, last = 2 ** power;
    const range = first === last ? count(last) : `${count(first)} – ${count(last)}`;
    return h("tr", {}, h("th", { scope: "row" }, range, h("small", {}, last === 1 ? " mention" : " mentions")),
      h("td", {}, h("span", { class: "fill", "--part": number / most })), h("td", { class: "number" }, count(number)));
  })));
}

// What each level of a column says: its share of the pairs that are one (m) above that of others (u), and the log-odds.
export function evidenceBars(columns) {
  const bar = (part, kind) => h("span", { class: `fill ${kind}`, "--part": part, title: `${kind} ${decimal(part)}` });
  return columns.map(({ column, kind, levels, m, u }) => h("table", { class: "bars" },
    h("caption", {}, column, h("small", {}, ` ${kind}`)),
    h("tbody", {}, levels.map((level, i) => h("tr", {}, h("th", { scope: "row" }, level), h("td", {}, bar(m[i], "m"), bar(u[i], "u")),
      h("td", { class: "number" }, decimal(Math.log(m[i] / u[i]), 1)))))));
}

export function whisker(value, low, high) {
  const x = (share) => Math.max(0, Math.min(1, share)) * 100;
  return h("svg", { class: "whisker", viewBox: "0 0 100 10", "aria-hidden": "true" },
    h("line", { class: "axis", x1: 0, x2: 100, y1: 5, y2: 5 }),
    h("rect", { class: "bar", x: x(low), width: Math.max(1, x(high) - x(low)), y: 3, height: 4, rx: 2 }),
    h("line", { class: "limit", x1: x(value), x2: x(value), y1: 0, y2: 10 }));
}

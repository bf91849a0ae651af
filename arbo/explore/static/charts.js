// Drawings: histograms with thresholds, sizes of clusters, and intervals.
import { h, count, decimal } from "./dom.js";

const HEIGHT = 120;

// Two histograms on one scale; a bar far above the others is cut off and has its number.
export function histogram(told) {
  const { bounds } = told.histogram, width = innerWidth < 600 ? 360 : 720;
  const low = bounds[0], high = bounds[bounds.length - 1] > low ? bounds[bounds.length - 1] : low + 1;
  const at = (value) => ((value - low) / (high - low)) * width;
  const kinds = [["entity", "Nearest entity of each mention"], ["mention", "Steps between mentions that are linked"]];
  return h("div", { class: "charts" }, kinds.filter(([kind]) => told.histogram[kind].some(Boolean)).map(([kind, label]) => {
    const counts = told.histogram[kind], [most, second] = [...counts].sort((a, b) => b - a);
    const top = second && most > 2.5 * second ? 1.4 * second : most;
    const limit = told.threshold[kind], wide = width / counts.length;
    const bars = counts.map((value, i) => value > 0 && h("rect", { class: "bar", x: i * wide + 0.5, width: wide - 1,
      y: HEIGHT - Math.max(1.5, Math.min(1, value / top) * HEIGHT), height: Math.max(1.5, Math.min(1, value / top) * HEIGHT) }));
    const cut = counts.map((value, i) => value > top && h("text", { class: "label", x: Math.min(width - 4, Math.max(4, (i + 1) * wide + 4)), y: 10, "text-anchor": (i + 1) * wide > width - 60 ? "end" : "start" }, count(value)));
    const there = limit !== null && limit >= low && limit <= high;
    const summary = `${label}: ${count(counts.reduce((a, b) => a + b, 0))} values from ${decimal(low)} to ${decimal(high)}${there ? `; threshold ${decimal(limit)}` : ""}`;
    return h("figure", {}, h("figcaption", {}, label, there ? h("span", { class: "muted" }, ` · threshold ${decimal(limit)}`) : ""),
      h("svg", { viewBox: `0 -4 ${width} ${HEIGHT + 24}`, role: "img", "aria-label": summary }, bars, cut,
        h("line", { class: "axis", x1: 0, x2: width, y1: HEIGHT, y2: HEIGHT }),
        there && h("line", { class: "limit", x1: at(limit), x2: at(limit), y1: -4, y2: HEIGHT }),
        [0, 0.25, 0.5, 0.75, 1].map((part) => h("text", { class: "label", x: part * width, y: HEIGHT + 15, "text-anchor": ["start", "middle", "middle", "middle", "end"][part * 4] }, decimal(low + part * (high - low), 2)))));
  }));
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
    return h("tr", {}, h("th", { scope: "row" }, first === last ? `${count(last)}` : `${count(first)} – ${count(last)}`, h("small", {}, first === last && last === 1 ? " mention" : " mentions")),
      h("td", {}, h("span", { class: "fill", "--part": number / most })), h("td", { class: "number" }, count(number)));
  })));
}

export function whisker(score) {
  const x = (value) => Math.max(0, Math.min(1, value)) * 100;
  return h("svg", { class: "whisker", viewBox: "0 0 100 10", "aria-hidden": "true" }, h("line", { class: "axis", x1: 0, x2: 100, y1: 5, y2: 5 }),
    h("rect", { class: "bar", x: x(score.low), width: Math.max(1, x(score.high) - x(score.low)), y: 3, height: 4, rx: 2 }),
    h("line", { class: "limit", x1: x(score.value), x2: x(score.value), y1: 0, y2: 10 }));
}

// The two thresholds: what joins and what falls apart if they move.
import { h, address, count, decimal, name, link, empty, lead } from "./dom.js";

const AT_ONCE = 8; // changes that are drawn while the slider moves; the others follow when it rests
const REST = 120; // milliseconds

export async function thresholdView(source, entity, mention) {
  const told = await source.overview();
  const heading = h("h1", {}, "Thresholds"), none = (why) => ({ title: "Thresholds", nodes: [heading, empty(why)] });
  if (told.no_cuts) return none(told.no_cuts + " So no other threshold is shown.");
  const own = told.threshold, { cuts, at: cutAt } = await source.cuts();
  if (cuts.entity.length < 2 && cuts.mention.length < 2) return none("No other threshold of this run is shown here.");
  const text = (value) => (value === null ? "none" : decimal(value));
  const place = (kind, word) => {
    const near = word === undefined || word === "none" ? own[kind] : Number(word);
    const gaps = cuts[kind].map((value) => (value === near ? 0 : Math.abs((value ?? Infinity) - (near ?? Infinity))));
    return gaps.indexOf(Math.min(...gaps.filter((gap) => !Number.isNaN(gap))));
  };
  const at = { entity: place("entity", entity), mention: place("mention", mention) };
  const home = { entity: cuts.entity.indexOf(own.entity), mention: cuts.mention.indexOf(own.mention) };
  if (at.entity !== home.entity) at.mention = home.mention; // one moves, the other stays as in the run
  const out = h("div", { class: "cut" }), sliders = {}, back = h("a", { href: address("threshold") }, "Back to the run");
  let later = 0;
  const update = () => {
    clearTimeout(later);
    const result = cutAt(at);
    const rows = h("div", { class: "changes" }, result.changed(0, AT_ONCE).map(changeRow));
    out.replaceChildren(...cutNodes(result, told, rows));
    back.hidden = at.entity === home.entity && at.mention === home.mention;
    later = setTimeout(() => rows.append(...result.changed(AT_ONCE).map(changeRow)), REST);
    for (const kind of ["entity", "mention"]) {
      sliders[kind].input.value = at[kind];
      sliders[kind].input.setAttribute("aria-valuetext", text(cuts[kind][at[kind]]));
      sliders[kind].output.textContent = text(cuts[kind][at[kind]]) + (at[kind] === home[kind] ? " (the run)" : "");
    }
  };
  const move = (kind) => (event) => {
    Object.assign(at, home, { [kind]: Number(event.target.value) });
    history.replaceState(null, "", address("threshold", text(cuts.entity[at.entity]), text(cuts.mention[at.mention])));
    update();
  };
  for (const kind of ["entity", "mention"]) {
    const id = `cut-${kind}`, last = cuts[kind].length - 1;
    const input = h("input", { type: "range", id, min: 0, max: last, step: 1, disabled: last < 1, input: move(kind) });
    sliders[kind] = { input, output: h("output", { for: id }) };
  }
  update();
  const slider = (kind, label) => h("div", {}, h("label", { for: `cut-${kind}` }, label), sliders[kind].input, sliders[kind].output);
  const most = text(cuts.mention[cuts.mention.length - 1]);
  return { title: "Thresholds", nodes: [heading,
    lead("Move a threshold to see what would join and what would fall apart, while the other stays as in the run."),
    h("div", { class: "sliders" }, told.kb !== null && slider("entity", "Entity threshold"), slider("mention", "Mention threshold")),
    h("p", { class: "note" }, `The search of the run lists mentions up to ${most}; beyond, no threshold can be shown. `, back), out] };
}

function cutNodes(result, told, rows) {
  const change = (now, before) => (now === before ? "as in the run" : `${now > before ? "+" : "−"}${count(Math.abs(now - before))}`);
  const tile = (what, label) =>
    h("div", { class: "tile" }, h("strong", {}, count(result[what])), h("span", {}, label), h("small", {}, change(result[what], told[what])));
  const { total, shown } = result;
  return [
    h("div", { class: "tiles", "aria-live": "polite" }, told.kb !== null && tile("linked", "linked"), tile("nil", "NIL"), tile("clusters", "clusters")),
    h("h2", {}, total ? `What changes: ${count(total)}` : "Nothing changes"),
    total > 0 && rows,
    total > shown && h("p", { class: "note" }, `The ${count(shown)} largest are shown.`),
  ].filter(Boolean);
}

const KINDS = { joins: "joins", splits: "falls apart", linked: "is linked", unlinked: "becomes NIL", moved: "moves" };

function changeRow({ kind, before, after, more }) {
  const part = ({ cluster_id, name: title, size, is_new }) => h("li", {}, cluster_id ? link(title, "cluster", cluster_id) : name(title),
    h("span", { class: "pill" }, count(size)), is_new && h("small", {}, " new"));
  const parts = (rows) => h("ul", {}, rows.map(part), rows.length > 1 && more > 0 && h("li", { class: "muted" }, `and ${count(more)} more`));
  return h("div", { class: `change ${kind}` }, h("span", { class: "badge" }, KINDS[kind]), parts(before),
    h("span", { class: "arrow", role: "img", "aria-label": "becomes" }, "→"), parts(after));
}

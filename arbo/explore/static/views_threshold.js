// The two thresholds: what joins and what falls apart if one of them moves.
import { h, address, count, decimal, name, empty } from "./dom.js";

const AT_ONCE = 8; // changes that are drawn while the slider moves; the others follow when it rests
const REST = 120; // milliseconds

export async function thresholdView(source, entity, mention) {
  const told = await source.overview();
  const heading = h("h1", {}, "Thresholds");
  if (told.no_cuts) return { title: "Thresholds", nodes: [heading, empty(told.no_cuts + " So no other threshold is shown.")] };
  const own = told.threshold, cuts = told.cuts;
  const text = (value) => (value === null ? "none" : decimal(value));
  const place = (kind, word) => {
    const near = word === undefined || word === "none" ? own[kind] : Number(word);
    const gaps = cuts[kind].map((value) => (value === near ? 0 : Math.abs((value ?? Infinity) - (near ?? Infinity))));
    return gaps.indexOf(Math.min(...gaps.filter((gap) => !Number.isNaN(gap))));
  };
  const at = { entity: place("entity", entity), mention: place("mention", mention) };
  const home = { entity: cuts.entity.indexOf(own.entity), mention: cuts.mention.indexOf(own.mention) };
  if (at.entity !== home.entity) at.mention = home.mention;
  const out = h("div", { class: "cut" }), sliders = {};
  let later = 0;
  const update = async () => {
    clearTimeout(later);
    const result = await source.cut({ entity: cuts.entity[at.entity], mention: cuts.mention[at.mention] });
    const rows = h("div", { class: "changes" }, result.changed.slice(0, AT_ONCE).map(changeRow));
    out.replaceChildren(...cutNodes(result, told, rows));
    later = setTimeout(() => rows.append(...result.changed.slice(AT_ONCE).map(changeRow)), REST);
    for (const kind of ["entity", "mention"]) {
      sliders[kind].input.value = at[kind];
      sliders[kind].input.setAttribute("aria-valuetext", text(cuts[kind][at[kind]]));
      sliders[kind].output.textContent = text(cuts[kind][at[kind]]) + (at[kind] === home[kind] ? " (the run)" : "");
    }
  };
  const move = (kind) => (event) => {
    const other = kind === "entity" ? "mention" : "entity";
    at[kind] = Number(event.target.value);
    at[other] = home[other];
    history.replaceState(null, "", address("threshold", text(cuts.entity[at.entity]), text(cuts.mention[at.mention])));
    update();
  };
  for (const kind of ["entity", "mention"]) {
    const input = h("input", { type: "range", id: `cut-${kind}`, min: 0, max: cuts[kind].length - 1, step: 1, disabled: cuts[kind].length < 2, input: move(kind) });
    sliders[kind] = { input, output: h("output", { for: `cut-${kind}` }) };
  }
  await update();
  const most = cuts.mention[cuts.mention.length - 1];
  return { title: "Thresholds", nodes: [heading,
    h("p", { class: "lead" }, "The partitions of the engine at other thresholds. One moves at a time; the other stays as in the run."),
    h("div", { class: "sliders" }, [["entity", "Entity threshold"], ["mention", "Mention threshold"]].map(([kind, label]) =>
      told.kb === null && kind === "entity" ? null : h("div", {}, h("label", { for: `cut-${kind}` }, label), sliders[kind].input, sliders[kind].output))),
    h("p", { class: "note" }, `The search of the run lists mentions up to ${text(most)}; beyond, no threshold can be shown.`), out] };
}

function cutNodes(result, told, rows) {
  const change = (now, before) => (now === before ? "as in the run" : `${now > before ? "+" : "−"}${count(Math.abs(now - before))}`);
  const tile = (now, before, label) => h("div", { class: "tile" }, h("strong", {}, count(now)), h("span", {}, label), h("small", {}, change(now, before)));
  const { changed } = result;
  return [h("div", { class: "tiles", "aria-live": "polite" }, told.kb !== null && tile(result.linked, told.linked, "linked"), tile(result.nil, told.nil, "NIL"), tile(result.clusters, told.clusters, "clusters")),
    h("h2", {}, changed.length ? `What changes: ${count(result.total ?? changed.length)}` : "Nothing changes"),
    changed.length > 0 && rows,
    (result.total ?? 0) > changed.length && h("p", { class: "note" }, `The ${count(changed.length)} largest are shown.`)].filter(Boolean);
}

const KINDS = { joins: "joins", splits: "falls apart", linked: "is linked", unlinked: "becomes NIL", moved: "moves" };

function changeRow(one) {
  const part = ({ cluster_id, name: title, size, is_new }) => h("li", {}, cluster_id ? h("a", { href: address("cluster", cluster_id) }, name(title)) : name(title),
    h("span", { class: "pill" }, count(size)), is_new && h("small", {}, " new"));
  const more = (rows) => rows.length > 1 && one.more > 0 && h("li", { class: "muted" }, `and ${count(one.more)} more`);
  return h("div", { class: "change " + one.kind }, h("span", { class: "badge" }, KINDS[one.kind]), h("ul", {}, one.before.map(part), more(one.before)),
    h("span", { class: "arrow", role: "img", "aria-label": "becomes" }, "→"), h("ul", {}, one.after.map(part), more(one.after)));
}

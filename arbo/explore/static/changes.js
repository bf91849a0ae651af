// What changed since the run before: clusters, and the edge, correction or removal that did it.
import { h, address, count, plural, name, longList, empty } from "./dom.js";

const BECAME = {
  new: "new", gone: "gone", grown: "grew", shrunk: "shrank", merged: "merged", split: "fell apart", moved: "moved",
  linked: "became known", unlinked: "became new", renamed: "renamed",
};

export async function changesView(source) {
  const { rows, counts, since } = await source.changes(), total = rows.length;
  const told = ["clusters", "mentions"].map((what) => [what, Object.entries(counts[what] ?? {})]).filter(([, kinds]) => kinds.length);
  return { title: "Changes", place: "changes", nodes: [
    h("h1", {}, "Changes"),
    h("p", { class: "lead" }, `${plural(total, "cluster")} changed since `,
      since ? name(since) : "the run before", "; the kinds that matter most come first, and of each kind the largest clusters."),
    total > 0 && h("dl", { class: "counted" }, told.map(([what, kinds]) => [h("dt", {}, what),
      h("dd", {}, kinds.map(([kind, n]) => `${count(n)} ${kind}`).join(", "))])),
    total ? longList(total, async (offset, limit) => rows.slice(offset, offset + limit), changedRow, "Changes")
      : empty("Nothing changed."),
  ] };
}

function changedRow(row) {
  const others = (label, all) => all.length > 0 && h("span", { class: "others" }, ` ${label} `, all.slice(0, 3).map((id, i) => [i ? ", " : "", name(id, { class: "id" })]), all.length > 3 && " …");
  const body = [
    h("span", { class: "first" }, h("span", { class: "badge" }, BECAME[row.change] ?? row.change), name(row.name, { class: "what" }), others("from", row.of), others("into", row.into)),
    h("span", { class: "figures" }, `${count(row.before)} → ${count(row.after)}`),
    h("span", { class: "second" }, row.cause ?? ""),
  ];
  return row.after ? h("a", { class: "row", href: address("cluster", row.cluster) }, body) : h("div", { class: "row", tabindex: "0" }, body);
}

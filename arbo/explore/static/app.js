// The frame of the page: its addresses, search box, keys and theme. A view is an async function of the source and of
// the words of the address; it returns {title, nodes}.
import { h, address, empty } from "./dom.js";
import { overviewView, mentionsView, documentsView, clustersView, nilView, searchView } from "./views.js";
import { clusterView, mentionView, entityView } from "./views_one.js";
import { documentView } from "./views_document.js";
import { thresholdView } from "./views_threshold.js";
import { changesView } from "./changes.js";

const VIEWS = {
  "": overviewView, clusters: clustersView, nil: nilView, mentions: mentionsView, documents: documentsView, search: searchView,
  cluster: clusterView, mention: mentionView, entity: entityView, document: documentView, threshold: thresholdView, changes: changesView,
};
const PLACES = [["", "Overview"], ["clusters", "Entities"], ["nil", "New"], ["mentions", "Mentions"], ["documents", "Documents"], ["threshold", "Thresholds"]];

// Start the page. `views` are further views by the first word of their address, and `places` further links of the
// navigation: [[first word, text], ...].
export async function start(source, views = {}, places = []) {
  globalThis.arbo = source; // for the console: `await arbo.mentions({ nil: true })`
  const known = { ...VIEWS, ...views };
  const told = await source.overview();
  const all = [...PLACES, ...places, ...(told.changes ? [["changes", "Changes"]] : [])];
  const main = h("main", { id: "main", tabindex: "-1" });
  const what = "Search mentions, entities and documents";
  const box = h("input", { type: "search", placeholder: "Search  /", "aria-label": what, autocomplete: "off", spellcheck: "false" });
  const links = all.map(([word, text]) => h("a", { href: address(...(word ? [word] : [])), "data-word": word }, text));
  const search = (event) => {
    event.preventDefault();
    if (box.value.trim()) location.hash = address("search", box.value.trim());
  };
  const form = h("form", { role: "search", submit: search }, box);
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#main", click: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
    h("header", {}, h("a", { class: "brand", href: "#/" }, "arbo"), h("nav", { "aria-label": "Views" }, links), form, themeSwitch()), main);
  const scrolls = new Map();
  let clicked = false, now = null, turn = 0;
  addEventListener("click", (event) => { clicked ||= Boolean(event.target.closest?.("a")); }, true);
  addEventListener("scroll", () => now !== null && scrolls.set(now, scrollY), { passive: true });
  const show = async () => {
    const mine = ++turn;
    const words = wordsOf(location.hash);
    const [first, ...rest] = words;
    const view = known[first ?? ""];
    let result;
    try {
      result = view ? await view(source, ...rest) : notThere("This address has no view.");
    } catch (error) {
      result = notThere(error instanceof Error ? error.message : String(error));
    }
    if (mine !== turn) return;
    now = null;
    main.replaceChildren(h("div", { class: "view", "data-view": first || "overview" }, result.nodes));
    document.title = `${result.title} · ${told.name}`;
    for (const link of links) {
      if (link.dataset.word === (result.place ?? first ?? "")) {
        link.setAttribute("aria-current", "page");
        link.parentElement.scrollLeft = link.offsetLeft - 60;
      } else link.removeAttribute("aria-current");
    }
    if (first !== "search") box.value = "";
    else if (document.activeElement !== box) box.value = rest[0] ?? "";
    if (turn > 1 && document.activeElement !== box) main.focus({ preventScroll: true });
    scrollTo(0, clicked ? 0 : scrolls.get(location.hash) ?? 0);
    clicked = false;
    now = location.hash;
    main.setAttribute("data-ready", String(turn));
  };
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => onKey(event, box, main));
  await show();
}

function wordsOf(hash) {
  return hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((word) => {
    try {
      return decodeURIComponent(word);
    } catch {
      return word;
    }
  });
}

function notThere(message) {
  return { title: "Not found", nodes: [h("h1", {}, "Not found"), empty(message), h("p", {}, h("a", { href: "#/" }, "To the overview"))] };
}

function onKey(event, box, main) {
  const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !inField) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape") {
    if (event.target === box) main.focus();
    else if (location.hash.length > 2) history.back();
  } else if (event.key === "ArrowDown" && (event.target === main || event.target === box || event.target === document.body)) {
    const first = main.querySelector(".list a, .rows a, [role=tree] a");
    if (first) {
      event.preventDefault();
      first.focus();
    }
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !inField) {
    const group = event.target.closest?.(".rows, [role=tree]");
    if (!group) return;
    const all = [...group.querySelectorAll("a")];
    const next = all[all.indexOf(event.target.closest("a")) + (event.key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    next?.focus();
  }
}

function themeSwitch() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("arbo-theme");
  } catch { /* a file may have no storage */ }
  if (chosen) root.dataset.theme = chosen;
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const button = h("button", { class: "theme", type: "button", click: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("arbo-theme", root.dataset.theme);
    } catch { /* the choice lasts as long as the page */ }
    tell();
  } }, "◐");
  const tell = () => {
    button.title = isDark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", button.title);
  };
  dark.addEventListener("change", tell);
  tell();
  return button;
}

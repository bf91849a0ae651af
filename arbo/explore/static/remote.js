// The source of a served page: it asks the server for one view at a time. The token of the printed address goes from the
// fragment, which browsers do not send, to the storage of this tab, and with each question in a header.
import { start } from "./app.js";
import { h, address } from "./dom.js";
import { mentionView } from "./views_one.js";
import { changesView } from "./changes.js";
import { reviewView } from "./review.js";

const TOKEN = "arbo-token";

function tokenOf() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(TOKEN, given[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

// Ask the server; an error has the sentence of the server.
async function asked(token, path, parameters = {}, body = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  let answer;
  try {
    answer = await fetch(`api/${path}${query && "?" + query}`, {
      method: body === undefined ? "GET" : "POST", headers: { "X-Arbo-Token": token }, body: body && JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer; is `arbo explore` still running?");
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.error ?? `The server answered with status ${answer.status}.`);
  return told;
}

function remoteSource() {
  const token = tokenOf();
  const ask = (path, parameters, body) => asked(token, path, parameters, body);
  const paged = (name) => (parameters) => ask(name, parameters);
  const one = (name) => (id) => ask(name, { id });
  let overview = null;
  return {
    overview: () => (overview ??= ask("overview")),
    mentions: paged("mentions"), clusters: paged("clusters"), documents: paged("documents"), changes: paged("changes"),
    cluster: one("cluster"), mention: one("mention"), document: one("document"), entity: one("entity"),
    search: (words) => ask("search", { words }),
    review: {
      next: () => ask("review/next"),
      question: (id) => ask("review/question", { id }),
      found: (words, mention_id) => ask("review/entities", { words, mention_id }),
      answer: (body) => ask("review/answer", {}, body),
      apply: () => ask("apply", {}, {}),
    },
  };
}

// The view of a mention, with a link to correct it.
async function correctable(source, id) {
  const view = await mentionView(source, id);
  const link = h("p", { class: "correct" }, h("a", { href: address("review", id) }, "Correct this mention"));
  view.nodes.splice(view.nodes.findIndex((node) => node?.classList?.contains("verdict")) + 1, 0, link);
  return view;
}

const source = remoteSource();
try {
  const { changes } = await source.overview();
  const places = [["review", "Review"], ...(changes ? [["changes", "Changes"]] : [])];
  await start(source, { review: reviewView, changes: changesView, mention: correctable }, places);
} catch (error) {
  document.body.replaceChildren(h("main", {}, h("h1", {}, "arbo"), h("p", { class: "empty", role: "alert" }, error.message)));
}

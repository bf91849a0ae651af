// A served page asks the server for its blocks, for texts and for its review. The token of the printed address goes from the
// fragment, which browsers do not send, to the storage of this tab, and with each question in a header.
import { start } from "./app.js";
import { sourceOf } from "./source.js";
import { h, address } from "./dom.js";
import { mentionView } from "./views_one.js";
import { reviewView } from "./review.js";
import { markedView } from "./marking.js";

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
async function asked(path, parameters = {}, body = undefined) {
  const query = new URLSearchParams(parameters).toString();
  let answer;
  try {
    answer = await fetch(`api/${path}${query && "?" + query}`, {
      method: body === undefined ? "GET" : "POST", headers: { "X-Arbo-Token": token }, body: body && JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer; is `arbo explore` still running?");
  }
  if (answer.ok) return answer;
  throw new Error((await answer.json().catch(() => ({}))).error ?? `The server answered with status ${answer.status}.`);
}

const token = tokenOf();
const ask = async (...question) => (await asked(...question)).json();
const read = async (name) => new Uint8Array(await (await asked(name)).arrayBuffer());
const texts = (rows) => ask("texts", rows.map((row) => ["row", row]));

// The view of a mention, with a link to correct it.
async function correctable(source, id) {
  const view = await mentionView(source, id);
  const link = h("p", { class: "correct" }, h("a", { href: address("review", id) }, "Correct this mention"));
  view.nodes.splice(view.nodes.findIndex((node) => node?.classList?.contains("verdict")) + 1, 0, link);
  return view;
}

try {
  await start({ ask, ...sourceOf({ read, texts, entity: (id) => ask("entity", { id }) }) }, { review: reviewView, mention: correctable, document: markedView }, [["review", "Review"]]);
} catch (error) {
  document.body.replaceChildren(h("main", {}, h("h1", {}, "arbo"), h("p", { class: "empty", role: "alert" }, error.message)));
}

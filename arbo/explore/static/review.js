// The review: one question after the other, by keys or buttons; each answer is written before the next question is shown.
import { h, address, count, decimal, is, plural, name, short, sentence, empty } from "./dom.js";

const ANSWERS = {
  a: ["accept", "is right"], n: ["nil", "NIL"], e: ["new", "a new entity…"], x: ["not", "not this"],
  "=": ["same", "same as…"], "!": ["different", "different from…"], d: ["drop", "no mention"], D: ["drop-all", "none of this name"], s: ["skip", "skip"], u: ["undo", "undo"],
};
const ASKED = { new: "Name of the new entity", same: "Id of a mention of the same entity", different: "Id of a mention of another entity" };
const CHOICES = 9;
const SAID = {
  accept: () => "stays as it is", nil: () => "is NIL", new: ({ value }) => `is the new entity “${value}”`, not: ({ row }) => `is not ${row.entity_name}`,
  candidate: ({ chosen, value }) => `is ${chosen?.name || value}`, same: ({ value }) => `is one with ${value}`, different: ({ value }) => `is another than ${value}`,
  drop: () => "is no mention", "drop-all": () => "is no mention, nowhere",
};

// `#/review` asks the questions of the queue in order, `#/review/ID` about one mention.
export async function reviewView(source, id = null) {
  const box = h("div", { class: "review" }), status = h("p", { class: "status", role: "status", "aria-live": "polite", "data-answers": "0" });
  const state = { source, id, box, status, choices: [], told: null };
  await take(state, id === null ? await source.ask("review/next") : null);
  draw(state);
  const onKey = (event) => {
    if (!box.isConnected) removeEventListener("keydown", onKey, true);
    else pressed(state, event);
  };
  addEventListener("keydown", onKey, true);
  return { title: "Review", place: "review", nodes: [box, status] };
}

// Take the next question, or ask about the one mention again; the mention is a row of the page.
async function take(state, told) {
  const { source, id } = state;
  state.told = id === null ? told : { question: await source.ask("review/question", { id }) };
  const { question } = state.told;
  if (question) question.mention = await source.mention(question.mention_id);
}

function draw(state) {
  const { told, box, id } = state, asked = told.question;
  state.choices = asked ? offered(state, asked).slice(0, CHOICES) : [];
  if (!asked) {
    box.replaceChildren(h("h1", {}, "Review"), empty(told.total ? "That was the last question." : "There is nothing to ask: every name is decided."), footer(state));
    return;
  }
  const row = asked.mention;
  box.replaceChildren(...[
    h("p", { class: "kind" }, id === null ? `Question ${count(told.place)} of ${count(told.total)}` : "One mention", asked.again && id === null ? " · the same name in another document" : "", row.type ? [" · ", name(row.type)] : ""),
    h("h1", {}, "“", name(row.text), "”"),
    row.sentence && h("blockquote", {}, sentence(row)),
    h("p", { class: "lead" }, h("a", { href: address("document", row.document_id, row.mention_id) }, name(row.document_id)), " · ",
      h("a", { href: address("mention", row.mention_id) }, "why"), " · ", name(row.mention_id, { class: "id" }), row.expansion && [" · read as ", name(row.expansion)]),
    h("div", { class: "verdict" + (row.entity_id === null ? " is-nil" : "") }, h("span", {}, row.entity_id !== null ? "now " : asked.why_not.nil === null ? "now NIL, in " : "now in "),
      h("a", { href: address("cluster", row.cluster_id) }, name(row.entity_name ?? row.cluster_name ?? row.cluster_id)), " ", name(row.entity_id ?? row.cluster_id, { class: "id" }),
      is(row.confidence ?? row.score) && [" ", h("small", {}, is(row.confidence) ? "confidence" : "score"), ` ${decimal(row.confidence ?? row.score)}`], spreads(asked.spread, row.below)),
    h("div", { class: "answers", role: "group", "aria-label": "Answers" }, Object.entries(ANSWERS).map(([key, [kind, text]]) => {
      const not = asked.why_not[kind];
      return !(id !== null && kind === "skip") && h("button", { type: "button", disabled: Boolean(not), title: not, "data-answer": kind, click: () => decide(state, kind) }, h("kbd", {}, key), " ", text);
    })),
    h("div", { class: "words" }),
    asked.why_not.candidate === null && search(state),
    footer(state),
  ].filter(Boolean));
  list(state);
}

// The candidates; in a second document, the entity of the answer before comes first.
function offered({ id, given }, { again, choices }) {
  if (!again || id !== null || !given) return choices;
  return [choices.find((one) => one.id === given.id) ?? { ...given, score: null }, ...choices.filter((one) => one.id !== given.id)];
}

// What follows a decision, told before it is taken.
function spreads({ spread, mentions, ids, waiting }, below) {
  const all = mentions > 0 && h("details", {}, h("summary", {}, `${plural(mentions, "other mention")} of this name will follow.`),
    h("p", {}, ids.map((one, i) => [i ? ", " : "", h("a", { href: address("mention", one) }, name(one))]), mentions > ids.length && `, and ${count(mentions - ids.length)} more`));
  return h("div", { class: "spread" }, all || h("p", {}, spread === "none" ? "Nothing follows: decisions of this run do not spread." : "No other mention has this name."),
    waiting > 0 && h("p", { class: "note" }, `${plural(waiting, "mention")} in other documents ${waiting === 1 ? "has a sure link, and follows" : "have sure links, and follow"} only if answers in two documents agree.`),
    spread === "graph" && below > 0 && h("p", {}, `${plural(below, "mention")} ${below === 1 ? "hangs" : "hang"} on it in its cluster, and may follow when the answers are applied.`),
    mentions > 0 && h("p", { class: "note" }, "“Not this”, “different” and “no mention” are about this mention alone."));
}

function search(state) {
  const input = h("input", { type: "search", "aria-label": "Search the knowledge base", placeholder: "Search the knowledge base  /", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "find", submit: async (event) => {
    event.preventDefault();
    await guarded(state, async () => {
      const { mention_id } = state.told.question;
      const { rows } = await state.source.ask("review/entities", { words: input.value, mention_id });
      state.choices = rows.slice(0, CHOICES);
      list(state);
      state.status.textContent = rows.length ? `${plural(rows.length, "entity", "entities")} found` : `No entity has a name like “${input.value}”.`;
      input.blur();
    });
  } }, input);
  return h("div", {}, h("ol", { class: "choices", "aria-label": "Candidates" }), state.told.question.why_not.nil === null && form);
}

function list(state) {
  const now = state.told.question.mention.entity_id;
  state.box.querySelector(".choices")?.replaceChildren(...state.choices.map((one, i) => h("li", {},
    h("button", { type: "button", class: one.id === now ? "chosen" : "", click: () => decide(state, "candidate", one.id) },
      h("kbd", {}, String(i + 1)), h("span", {}, name(one.name || one.id, { class: "what" }), " ", name(one.id, { class: "id" }), i === 0 && one.id === state.given?.id && h("small", {}, " as before")), h("span", { class: "figures" }, decimal(one.score))),
    one.about && h("p", { class: "note about", title: one.about }, one.about))));
}

// The number of answers, and the button that makes the run which obeys them.
function footer(state) {
  const button = h("button", { type: "button", class: "apply", click: () => guarded(state, async () => {
    button.disabled = true;
    state.status.textContent = "Applying the answers…";
    try {
      await state.source.ask("apply", {}, {});
    } finally {
      button.disabled = false;
    }
    location.hash = address("changes");
    location.reload(); // all views are of the new run
  }) }, "Apply the answers");
  return h("section", { class: "foot" }, state.told.file && h("p", { class: "note" }, `${plural(state.told.answers, "answer")} of this sitting ${state.told.answers === 1 ? "is" : "are"} in `, name(state.told.file, { class: "id" }), "."), button);
}

async function decide(state, kind, value = undefined) {
  if (state.busy) return;
  if (kind in ASKED && value === undefined) return void words(state, kind);
  await guarded(state, async () => {
    const body = { answer: kind, mention_id: state.told.question?.mention_id, value }, row = state.told.question?.mention;
    const chosen = kind === "candidate" ? state.choices.find((one) => one.id === value) : null;
    const told = await state.source.ask("review/answer", {}, body);
    state.given = chosen;
    await take(state, told);
    draw(state);
    const several = told.written?.length > 1 ? ` (${plural(told.written.length, "correction")})` : "";
    state.status.textContent = told.written ? `Written: “${short(row.text)}” ${SAID[kind]({ row, chosen, value })}${several}.` : kind === "undo" ? "Taken back." : "";
    scrollTo(0, 0);
  });
}

// Ask for the words that an answer needs.
function words(state, kind) {
  const asked = state.told.question, first = kind === "new" ? asked.name : asked.nearest ?? "";
  const input = h("input", { id: "words", type: "text", value: first, autocomplete: "off", spellcheck: "false" });
  state.box.querySelector(".words")?.replaceChildren(h("form", { submit: (event) => {
    event.preventDefault();
    decide(state, kind, input.value);
  } }, h("label", { for: "words" }, ASKED[kind]), input, h("button", { type: "submit" }, "Write")));
  input.focus();
  input.select();
}

async function guarded(state, act) {
  state.busy = true;
  try {
    await act();
  } catch (error) {
    state.status.textContent = error.message;
  } finally {
    state.busy = false;
    state.status.dataset.answers = Number(state.status.dataset.answers) + 1; // also those that failed
  }
}

function pressed(state, event) {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return; // a held key answers one question
  const field = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) ? event.target : null;
  const handled = () => {
    event.preventDefault();
    event.stopImmediatePropagation(); // the keys of the frame mean something else
  };
  if (field) {
    if (event.key !== "Escape" || !state.box.contains(field)) return;
    handled();
    state.box.querySelector(".words")?.replaceChildren();
    field.blur();
  } else if (event.key === "/" && state.box.querySelector(".find input")) {
    handled();
    state.box.querySelector(".find input").select();
  } else if (/^[1-9]$/.test(event.key) && state.choices[Number(event.key) - 1]) {
    handled();
    decide(state, "candidate", state.choices[Number(event.key) - 1].id);
  } else if (event.key in ANSWERS) {
    const button = state.box.querySelector(`[data-answer="${ANSWERS[event.key][0]}"]`);
    handled();
    if (button && !button.disabled) button.click();
    else if (button) state.status.textContent = button.title;
    else if (event.key === "u") decide(state, "undo");
  }
}

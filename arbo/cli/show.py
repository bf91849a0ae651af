"""The verbs that show and review runs, in a terminal or a browser, and `serve`, which answers other programs."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer
from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import FINDING, MODELS, READING, check_no_input, check_output, load_finder, load_linker
from arbo.cli.options import ENCODER, KB, LINKER, Chosen, Shown
from arbo.errors import MissingDependency, UsageError, counted
from arbo.files import real
from arbo.formats import FOLDERS, WRITERS, ExportFormat, Ids

if TYPE_CHECKING:
    from arbo.corrections.review import Answer, Choice, Question, Review
    from arbo.pipeline.saved_run import Search

_TEXT = "Only mentions whose text, long form or entity name contains WORDS."
_DOUBTFUL = (
    "Sort by confidence, lowest first, or by margin, with the runner-up; of a list, by the weakest join, highest first."
)
_OF_NIL = "the confidence of NIL is the estimated share of right ones among all NIL decisions, whatever the mention"
_WRONG = "Only mentions whose link differs from the gold annotation, sorted by the reason."
_WHAT = "Only mentions given by their id, document, entity, cluster or text. [default: all]"


def show(
    run: options.Run,
    what: Annotated[list[str] | None, Argument(metavar="[WHAT]...", help=_WHAT)] = None,
    nil: Annotated[bool, Option("--nil", help="Only mentions that are NIL.")] = False,
    text: Annotated[str | None, Option(metavar="WORDS", help=_TEXT)] = None,
    doubtful: Annotated[bool, Option("--doubtful", help=_DOUBTFUL)] = False,
    wrong: Annotated[bool, Option("--wrong", help=_WRONG)] = False,
    clusters: Annotated[bool, Option("--clusters", help="Show clusters instead of mentions.")] = False,
    limit: options.Limit = None,
) -> None:
    """Show the mentions of a run with their links, or its clusters.

    `arbo show run --doubtful --limit 10` lists the ten least certain mentions, `arbo show run --wrong` the errors
    of a run with gold annotations, and `arbo show run --clusters --nil` the discovered entities. The output is a table
    on a terminal, and tab-separated in a pipe. `--json` prints mentions, clusters, and the weights of columns.
    """
    import numpy as np

    from arbo.results.views import WRONG, cluster_view, mention_view, rows_called, selected, wrong_kinds

    result = arbo.Result.load(run)
    rows = selected(result, nil=nil, words=text, doubtful=doubtful)
    gold = result.mention_table["gold"]
    if wrong and (result.manifest["knowledge_base"] is None or gold.null_count == len(gold)):
        raise UsageError("no link is known to be wrong: the run has no knowledge base, or no gold annotations")
    kinds = wrong_kinds(result) if wrong else None
    if kinds is not None:
        rows = rows[kinds[rows] >= 0]
        rows = rows[np.argsort(kinds[rows], kind="stable")]
    if what:
        rows = rows[np.isin(rows, [row for name in what for row in rows_called(result, name)])]
    if clusters or console.as_json:
        groups, first = np.unique(result.cluster_rows[rows], return_index=True)
        groups = groups[np.argsort(first)] if doubtful else groups
    if console.as_json:
        views = {"mentions": mention_view(result, rows[:limit], kinds, doubtful=doubtful)}
        views["clusters"] = cluster_view(result, groups[:limit], doubtful=doubtful)
        console.print_json({**{name: view.to_pylist() for name, view in views.items()}, "evidence": result.evidence})
        return
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        console.print_summary(result)
    if on_terminal and kinds is not None:
        counts = zip(WRONG, np.bincount(kinds[rows], minlength=len(WRONG)).tolist(), strict=True)
        console.show(f"{len(rows):,} wrong: {', '.join(f'{n:,} {kind}' for kind, n in counts if n)}")
    rows = groups if clusters else rows
    shown = rows[: console.rows_shown(limit)]
    make = cluster_view if clusters else partial(mention_view, wrong=kinds)
    view, linked = make(result, shown, doubtful=doubtful), result.manifest["knowledge_base"] is not None
    if doubtful and linked and "confidence" in view.column_names and view["entity_id"].null_count:
        console.say(_OF_NIL)
    console.print_view(view, as_table=on_terminal, total=len(rows), linked=linked)


_MENTIONS = "Mentions, given by id, document, entity, cluster or text."


def explain(run: options.Run, what: Annotated[list[str], Argument(metavar="MENTION...", help=_MENTIONS)]) -> None:
    """Explain decisions on mentions of a run: the path from the entity, or why no entity was reached.

    `arbo explain run D06-3` explains one mention. If a document, an entity, a cluster or a text has several mentions,
    they are listed, and you choose one by its id; `--json` explains all of them.
    """
    from arbo.results.views import mention_view, rows_called

    result = arbo.Result.load(run)
    rows = {name: rows_called(result, name) for name in what}
    if console.as_json:
        links = [result.links[row] for name in rows for row in rows[name]]
        console.print_json({"explanations": [asdict(result.explain(link)) for link in links]})
        return
    for name, found in rows.items():
        if len(found) == 1:
            console.show(result.explain(result.links[found[0]]))
        else:
            console.say(f"{len(found):,} mentions of {name}; choose one by its mention_id:")
            linked = result.manifest["knowledge_base"] is not None
            console.print_view(mention_view(result, found), as_table=sys.stdout.isatty(), linked=linked)


_OTHER = "The run folder to compare with RUN; without it, RUN is the later one."


def diff(
    run: options.Run,
    other: Annotated[Path | None, Argument(metavar="[RUN2]", help=_OTHER)] = None,
    limit: options.Limit = None,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    Without RUN2, what changed in RUN since the run of which `arbo add` made it. The runs may differ in
    settings, model or documents. Mentions are matched by id. Both predictions of a mention are
    shown side by side, with its gold ids and its sentence. In a pipe, the output is only the table of changed mentions,
    tab-separated. `--json` prints all rows of both tables.
    """
    if other is not None:
        changes = arbo.diff(run, other)
    else:
        after = arbo.open_run(run)
        if (before := after.parent()) is None:
            raise UsageError(f"give two runs: {run} was not made of another run")
        changes = arbo.diff(before, after.result)
    if console.as_json:
        console.print_json(changes.as_dict())
    elif sys.stdout.isatty():
        console.show(changes)
        console.print_changes(changes, 20 if limit is None else limit)
    else:
        console.say(str(changes))
        console.print_view(changes.mention_view(limit), as_table=False)


_TO = f"Format to write: {', '.join(WRITERS)}."
_IDS = (
    "Ids to write in documents and clusters: links (for NIL, the discovered entity), entities (for NIL none or -1), "
    "gold (the annotated ids), or a prefix such as MESH (links, by an alternative id MESH:... of the entity, if it has "
    "one). Tables have both."
)


def export(
    run: options.Run,
    to: Annotated[ExportFormat, Option(metavar="FORMAT", case_sensitive=False, help=_TO)],
    out: Annotated[Path, Option(metavar="PATH", help="File to write or replace; for brat and graphs, a new folder.")],
    ids: Annotated[str, Option(metavar="links|entities|gold|PREFIX", help=_IDS)] = "links",
) -> None:
    """Write a run for a spreadsheet, for other programs, or for scoring.

    `arbo export run --to csv --out links.csv`, or `arbo export run --to brat --out folder`.

    The tables **csv**, **tsv** and **xlsx** have a row for each mention, with its sentence, its link and the runner-up;
    **clusters** are clusters across documents, and **conll** those of each document, for `arbo score`; **graphrag**,
    **lightrag** and **neo4j** are the graph of which the run was made, each cluster one node; the other
    formats hold the documents, with links in place of gold ids unless `--ids gold`.

    Notes on stderr count the items that a format cannot hold, for example discontinuous mentions in PubTator.
    """
    check_no_input(out, run) if to in FOLDERS else check_output(out, to, ("",), run)
    result, ids = arbo.Result.load(run), ids.lower() if ids.lower() in get_args(Ids) else ids
    kb = None if ids in get_args(Ids) else arbo.open_run(run).knowledge_base(tell=console.say)
    notes = result.export(out, to, ids=ids, kb=kb)
    console.say_notes(notes)
    n = result.link_table.num_rows
    value = {"out": str(out), "to": to, "mentions": n, "notes": notes}
    console.answer(value, f"run of {counted(n, 'mentions')} written to {out}")


class _Key(NamedTuple):
    meaning: str
    answer: Answer | None = None
    prompt: str = ""


_KEYS = {
    "a": _Key("accept", "accept"),
    "1-9": _Key("this candidate", "candidate"),
    "/": _Key("search"),
    "n": _Key("NIL", "nil"),
    "e": _Key("new entity", "new", "name of the new entity"),
    "x": _Key("not this", "not"),
    "=": _Key("same as a mention", "same", "id of a mention of the same entity"),
    "!": _Key("different from a mention", "different", "id of a mention of another entity"),
    "d": _Key("no mention", "drop"),
    "D": _Key("none of this name", "drop-all"),
    "t": _Key("text"),
    "s": _Key("skip"),
    "w": _Key("why"),
    "u": _Key("undo"),
    "q": _Key("quit"),
}
_SHOWN = 9  # number of entities that have a key


def review(
    run: options.Run,
    limit: Annotated[int, Option(metavar="N", min=0, help="Number of decisions to ask for.")] = 50,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    at_random: Annotated[bool, Option("--random", help="Draw mentions at random, to estimate the accuracy.")] = False,
) -> None:
    """Decide on the mentions of a run where a decision helps most, by single keys.

    The first questions are about names where a decision is expected to mend the most errors. Each decision is written
    at once; `q` or Ctrl-C ends the review, and the same command goes on with it. `arbo add --corrections FILE` then
    obeys the decisions. `/` searches the knowledge base by id or name; if it cannot be found, the entities that the run
    names. For a list or table, the questions are about pairs of rows: `1` says that both are one entity, and precision
    and recall are estimated. `--json` prints the questions, and asks nothing.
    """
    from arbo.pipeline.saved_run import review_of, search_of

    saved = arbo.open_run(run)
    base = saved.known_base(kb, tell=console.say)
    file = corrections or saved.corrections
    ongoing = review_of(saved.result, file, author, base)
    ongoing.limit, ongoing.at_random = limit, at_random
    if console.as_json:
        questions = [asdict(ongoing.question(place)) for place in range(ongoing.total)]
        console.print_json({"questions": questions, "rates": ongoing.rates})
        return
    try:
        search = search_of(saved.result, base) if saved.result.manifest["knowledge_base"] else None
        answer: list[dict[str, Any]] | None = []
        while question := ongoing.present:
            if search and answer and not question.twins and isinstance(given := answer[0].get("entity"), str):
                found = [one for one in (*question.choices, *search(given, question.link)) if one.id == given]
                others = [one for one in question.choices if one.id != given]
                question = replace(question, choices=(*found[:1], *others))  # the entity of the answer before first
            if (answer := _answer(ongoing, saved.result, question, search)) is None:
                break
            if answer:
                ongoing.answer(question.link, answer)
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(130) from None
    finally:
        done = f"\nanswers written to {file}: {len(ongoing.written):,}; the same command goes on from there"
        console.show(done if ongoing.total else "nothing to ask")
        for rate, (low, high) in ongoing.rates.items():
            of = "decisions, by those drawn at random," if rate == "accuracy" else "compared pairs, by all answers,"
            console.show(f"the {rate} of the {of} is {low:.0%} to {high:.0%} (95 % interval)")
        wrong, left = ongoing.errors_left
        if left:
            console.show(f"decisions left: {left:,}, of them wrong by their confidence: about {wrong:,.0f}")
        if file.exists():
            console.show(f"next: {console.command('add', run, '--corrections', file, '--out', 'NEW')}")


def _print(ongoing: Review, question: Question) -> None:
    link, place = question.link, "{:,} of {:,}".format(*ongoing.counted)
    several = f"{question.twins:,} mentions of this name" if question.twins else "the same name in another document"
    name = "the only mention of this name" if question.twins == 1 else several
    console.print_title(f"{place}: {link.name}")
    console.show(f"{name}; {link.mention.id}", dim=True)
    before, text, after = map(console.on_one_line, (question.before, link.mention.text, question.after))
    console.print_parts(sys.stdout, (before, {}), (f"[{text}]", {"bold": True}), (after, {}))
    nil = "" if ongoing.why_not(link, "nil") else "NIL, "
    decision = f"{nil}in cluster {link.cluster}" if link.entity is None else f"{link.entity} {link.entity_name}"
    if ongoing.queue.pairs is not None and question.choices:
        is_one = ongoing.run.link_of(question.choices[0].id).cluster == link.cluster
        decision += ", together with 1" if is_one else ", apart from 1"
    sure = "" if link.confidence is None else f", confidence {link.confidence:.3f}"
    console.show(f"  now  {decision}{sure}")
    _list(question.choices)


def _list(entities: Sequence[Choice]) -> None:
    for number, (id_, name, score, about) in enumerate(entities[:_SHOWN], start=1):
        console.show(f"  {number}    {id_} {name} ({score:.3f})")
        if about:
            console.show(f"       {about[:200]}{'…' * (len(about) > 200)}", dim=True)


def _answer(
    ongoing: Review, result: arbo.Result, question: Question, search: Search | None
) -> list[dict[str, Any]] | None:
    """Ask a question, and read keys until one decides: return corrections, none after skip and undo, None to quit."""
    _print(ongoing, question)
    link = question.link
    choices: Sequence[Choice] = question.choices
    usable = (key for key, of in _KEYS.items() if not (of.answer and ongoing.why_not(link, of.answer)))
    keys = "  ".join(f"{key} {_KEYS[key].meaning}" for key in usable if search or key != "/")
    keys = keys.replace("1-9 this candidate", "1 one with the row above") if ongoing.queue.pairs else keys
    while True:
        console.show(keys, dim=True)
        key = _read_key()
        try:
            if key == "q":
                return None
            if key in "su":
                ongoing.skip() if key == "s" else ongoing.undo()
                return []
            if key.isdecimal():
                if not 0 < int(key) <= min(len(choices), _SHOWN):
                    raise UsageError("no entity above has this number")
                return ongoing.corrections(link, "candidate", choices[int(key) - 1][0])
            if key in "wt":
                text = result.text_of(link.mention.document_id) or "the run has no texts"
                console.show(result.explain(link) if key == "w" else text)
            elif search and key == "/":
                if words := _ask_words("words", link.name):
                    choices = search(words, link)
                    _list(choices)
                    if not choices:
                        raise UsageError(f"no entity has a name like {words!r}")
            elif (of := _KEYS.get(key)) and of.answer:
                other = choices[0].id if ongoing.queue.pairs and choices else None
                default = {"e": link.name, "=": other or link.nearest or "", "!": other or ""}.get(key, "")
                if (reply := _ask_words(of.prompt, default) if of.prompt else None) != "":
                    return ongoing.corrections(link, of.answer, reply)
            elif not key.isspace():
                raise UsageError("unknown key")
        except UsageError as error:
            console.show(f"  {key!r}: {error}")


def _read_key() -> str:
    """Read a key, from a pipe too; the end of the input is `q`."""
    try:
        return (typer.getchar() if sys.stdin.isatty() else sys.stdin.read(1)) or "q"
    except EOFError:
        return "q"


def _ask_words(what: str, default: str) -> str:
    shown = f" [{console.escaped(default)}]" if default else ""  # click would show it as it is
    return str(typer.prompt(f"  {what}{shown}", default=default, show_default=False)).strip()


_HOST = "Address to listen at; `0.0.0.0` lets other computers in, without a password."
Port = Annotated[int, Option(metavar="N", min=0, max=65_535, help="Port to listen at; 0 for any free one.")]

_MODELS = MODELS._replace(only="encoder edges config reranker")


def serve(
    kb: options.Kb,
    how: Annotated[Chosen, Shown((LINKER, _MODELS, ENCODER, READING, FINDING), KB)],
    finder: options.Finder = "dictionary",
    host: Annotated[str, Option(help=_HOST)] = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Answer requests over HTTP: links, explanations, entities, searches, and OpenRefine.

    `arbo serve --kb medic.index`, then `curl 127.0.0.1:8000/link -d '{"text": "..."}'`; GET /openapi.json describes all
    operations. In OpenRefine, add the reconciliation service http://127.0.0.1:8000/reconcile. Ctrl-C stops.

    With a transformer, make an index with the same `--encoder`: a service keeps no embeddings on disk.
    """
    try:
        from arbo.serve.app import app_of
        from arbo.serve.web import LOCAL, serve as serve_at
    except ImportError as error:
        raise MissingDependency("arbo serve", extra="serve") from error
    from arbo.serve.service import Service

    linker = load_linker(how)
    model = load_finder(finder, how, "--finder", expand_abbreviations=linker.config.expand_abbreviations)
    base = how.of(READING).knowledge_base(kb)
    if getattr(linker.encoder, "cache", None) is not None:
        linker = linker.configured(encoder=replace(linker.encoder, cache=None))  # type: ignore[type-var]
    with _listening_at(host, port) as listening:
        service = Service(linker.configured(kb=base), model)
        service.warm()
        address = f"[{host}]" if ":" in host else host
        address = f"http://{address}:{listening.getsockname()[1]}"
        console.say(f"serving {counted(len(base), 'entities')} at {address}; Ctrl-C stops")
        if console.as_json:
            console.print_json({"address": address, "entities": len(base)})
            sys.stdout.flush()
        serve_at(app_of(service, name=f"{kb.name} (arbo)", hosts=LOCAL if host in LOCAL else ("*",)), listening)
    console.say("stopped")


def _listening_at(host: str, port: int) -> socket.socket:
    """Listen at an address; raise UsageError if another program does."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or answers wait 40 ms for the client's ACK
        return listening
    except OSError as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror}; choose another --port") from None


_BEFORE = "Show what changed since this run. [default: the run of which RUN was made; with --out, none]"
_PAGE = "Write one HTML file with all that the page shows, instead of serving it."
_NO_TEXTS = "Leave texts and long forms out of --out; words, types and gold ids of mentions and names of entities stay."


def explore(
    run: options.Run,
    before: Annotated[Path | None, Option(metavar="RUN0", help=_BEFORE)] = None,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    out: Annotated[Path | None, Option(metavar="FILE", help=_PAGE)] = None,
    no_texts: Annotated[bool, Option("--no-texts", help=_NO_TEXTS)] = False,
    port: Port = 0,
) -> None:
    """Open a run in the browser: look at it, search it, and review it.

    Open the address that is printed; it has a secret, and only this computer can reach it. The review asks and writes
    as `arbo review` does; `apply` makes RUN-reviewed as `arbo add RUN --corrections FILE --out RUN-reviewed` makes it,
    with `--kb` if it is given here, and shows what changed. With `--kb`, entities have their descriptions, and the
    review searches all of them. Ctrl-C stops.

    `arbo explore run --out run.html` writes the page as one file, which asks for nothing from anywhere.
    """
    if no_texts and out is None:
        raise UsageError("--no-texts is for a page in a file; give --out FILE, or leave --no-texts out")
    if out is not None:
        from arbo.explore.report import report

        check_output(out, "page", (".html", ".htm"), run)
        result, earlier = arbo.Result.load(run), None if before is None else arbo.Result.load(before)
        size = report(result, out, name=real(run).name, texts=not no_texts, before=earlier)
        n = result.link_table.num_rows
        value = {"out": str(out), "mentions": n, "bytes": size, "texts": not no_texts}
        console.answer(value, f"page of {counted(n, 'mentions')} ({size / 1e6:.1f} MB) written to {out}")
        return
    try:
        from arbo.explore.page import Page, app_of
        from arbo.serve.web import serve as serve_at
    except ImportError as error:
        raise MissingDependency("arbo explore", extra="serve") from error

    saved, folder = arbo.open_run(run), real(run)
    target, file = folder.with_name(f"{folder.name}-reviewed"), corrections or saved.corrections
    page = Page(saved, target, file, before=before, author=author, kb=kb, tell=console.say)
    token = secrets.token_urlsafe(24)
    with _listening_at("127.0.0.1", port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        console.answer({"address": address, "run": str(run), "corrections": str(file)}, address)
        if not console.as_json:
            console.say("open this address in a browser; Ctrl-C stops")
        sys.stdout.flush()
        serve_at(app_of(page, token), listening)
    console.say("stopped")

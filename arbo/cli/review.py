"""The verb `review`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

import arbo
from arbo.cli import console, options
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.corrections.review import Answer, Choice, Question, Review
    from arbo.pipeline.saved_run import Search


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
_SHOWN = 9
"""Number of entities that have a key."""
_LETTERS = 200
"""Most letters that are shown of what is known about an entity."""


def review(
    run: options.Run,
    limit: Annotated[int, Option(metavar="N", min=0, help="Number of decisions to ask for.")] = 50,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
) -> None:
    """Decide on the mentions of a run where a decision helps most, by single keys.

    The first questions are about names where a decision is expected to mend the most errors. Each decision is written
    at once; `q` or Ctrl-C ends the review, and the same command goes on with it. `/` searches the knowledge
    base by id or name; if it is lost, the entities that the run names. `arbo add --corrections FILE` then obeys them.
    Of a list or table, pairs of rows are asked, `1` says that they are one, and precision and recall are estimated.
    `--json` prints the questions, and asks nothing.
    """
    from arbo.pipeline.saved_run import review_of, search_of

    saved = arbo.open_run(run)
    base = saved.known_base(kb, tell=console.say)
    file = corrections or saved.corrections
    ongoing = review_of(saved.result, file, author, base)
    ongoing.limit = limit
    if console.as_json:
        questions = [asdict(ongoing.question(place)) for place in range(ongoing.total)]
        console.print_json({"questions": questions, "rates": ongoing.rates})
        return
    try:
        search = search_of(saved.result, base) if saved.result.manifest["knowledge_base"] else None
        while question := ongoing.present:
            if (answer := _answer(ongoing, saved.result, question, search)) is None:
                break
            if answer:
                ongoing.answer(question.link, answer)
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(130) from None
    finally:
        console.show(f"\nanswers written to {file}: {len(ongoing.written):,}; the same command goes on from there")
        for rate, (low, high) in ongoing.rates.items():
            console.show(f"by all answers, the {rate} of the compared pairs is {low:.0%} to {high:.0%} (95 % interval)")
        wrong, left = ongoing.errors_left
        if left:
            console.show(f"of the {left:,} decisions left, about {wrong:,.0f} are wrong by their confidence")
        console.show(f"next: arbo add {run} --corrections {file} --out NEW")


def _print(ongoing: Review, question: Question) -> None:
    link, place = question.link, f"{ongoing.place + 1:,} of {ongoing.total:,}"
    name = f"{question.twins:,} mentions of this name" if question.twins > 1 else "the only mention of this name"
    console.print_title(f"{place}: {link.name}")
    console.show(f"{name}; {link.mention.id}", style="dim")
    before, text, after = map(console.on_one_line, (question.before, link.mention.text, question.after))
    console.print_parts(sys.stdout, (before, ""), (f"[{text}]", "bold"), (after, ""))
    nil = "" if ongoing.why_not(link, "nil") else "NIL, "
    decision = f"{nil}in cluster {link.cluster}" if link.entity is None else f"{link.entity} {link.entity_name}"
    sure = "" if link.confidence is None else f", confidence {link.confidence:.3f}"
    console.show(f"  now  {decision}{sure}")
    _list(question.choices)


def _list(entities: Sequence[Choice]) -> None:
    for number, (id_, name, score, about) in enumerate(entities[:_SHOWN], start=1):
        console.show(f"  {number}    {id_} {name} ({score:.3f})")
        if about:
            console.show(f"       {about if len(about) <= _LETTERS else about[:_LETTERS] + '…'}", style="dim")


def _answer(
    ongoing: Review, result: arbo.Result, question: Question, search: Search | None
) -> list[dict[str, Any]] | None:
    """Ask a question, and read keys until one decides: return corrections, none after skip and undo, None to quit."""
    _print(ongoing, question)
    link = question.link
    choices: Sequence[Choice] = question.choices
    usable = (key for key, of in _KEYS.items() if not (of.answer and ongoing.why_not(link, of.answer)))
    keys = "  ".join(f"{key} {_KEYS[key].meaning}" for key in usable if search or key != "/")
    while True:
        console.show(keys, style="dim")
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
            if key == "w":
                console.show(result.explain(link))
            elif key == "t":
                console.show(result.text_of(link.mention.document_id) or "the run has no texts")
            elif search and key == "/":
                if words := _ask_words("words", link.name):
                    choices = search(words, link)
                    _list(choices)
                    if not choices:
                        raise UsageError(f"no entity has a name like {words!r}")
            elif (of := _KEYS.get(key)) and of.answer:
                other = choices[0].id if ongoing.pairs and choices else None
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

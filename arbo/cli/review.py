"""The verb `review`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import read_kb
from arbo.errors import ArboError

if TYPE_CHECKING:
    from arbo.pipeline.saved_run import Search
    from arbo.results.explanation import Explanation
    from arbo.results.review import Answer, Question, Review
    from arbo.results.run import Link


class _Key(NamedTuple):
    told: str
    answer: Answer | None = None
    asked: str = ""
    """What to ask for."""


_KEYS = {
    "a": _Key("accept", "accept"),
    "1-9": _Key("this candidate"),
    "/": _Key("search"),
    "n": _Key("NIL", "nil"),
    "e": _Key("new entity", "new", "name of the new entity"),
    "x": _Key("not this", "not"),
    "=": _Key("same as a mention", "same", "id of a mention of the same entity"),
    "!": _Key("different from a mention", "different", "id of a mention of another entity"),
    "d": _Key("no mention", "drop"),
    "s": _Key("skip"),
    "w": _Key("why"),
    "u": _Key("undo"),
    "q": _Key("quit"),
}
_FOUND = 9
"""Number of entities that a search shows."""


def review(
    run: options.Run,
    limit: Annotated[int, Option(metavar="N", min=1, help="Number of decisions to ask for.")] = 50,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    as_json: options.Json = False,
) -> None:
    """Decide on the mentions of a run where a decision helps most, by single keys.

    The first questions are about names where a decision is expected to mend the most errors. Each decision is written
    at once; `q` or Ctrl-C ends the review, and the same command goes on with it. `/` searches the names of `--kb`;
    without it, those of the entities that the run names. `arbo link --corrections FILE` then obeys the decisions.
    `--json` prints the questions, and asks nothing.
    """
    from arbo.pipeline.saved_run import search_of

    saved = arbo.open_run(run)
    result, file = saved.result, corrections or saved.corrections
    ongoing = saved.review(file, author)
    if as_json:
        console.print_json({"questions": [asdict(question) for question in islice(ongoing.questions(), limit)]})
        return
    try:
        read = None if kb is None else partial(read_kb, kb)
        _ask_all(ongoing, result, limit, search_of(result, read))
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(130) from None
    finally:
        kept = f"{len(ongoing.written):,} corrections written to {file}"
        console.show(f"\n{kept}; the same command goes on from there")


def _ask_all(ongoing: Review, result: arbo.Result, limit: int, search: Search) -> None:
    """Ask about at most ``limit`` mentions."""
    from arbo.results.review import Sitting

    sitting = Sitting(ongoing, limit)
    while question := sitting.question:
        _show(question, f"{sitting.place + 1:,} of {sitting.total:,}", result.explain(question.link))
        answer = _answer(ongoing, result, question, search)
        if answer == "q":
            break
        if isinstance(answer, dict):
            sitting.answer(question.link, answer)
        elif answer == "s":
            sitting.skip()
        elif not sitting.undo():
            told = "somebody else wrote to the file since" if sitting.answered else "this sitting wrote nothing yet"
            console.show(f"  nothing to undo: {told}; earlier answers are lines of {ongoing.file}")


def _show(question: Question, place: str, explained: Explanation) -> None:
    link = question.link
    name = f"{question.twins:,} mentions of this name" if question.twins > 1 else "the only mention of this name"
    console.print_title(f"{place}: {link.name}")
    console.show(f"{name}; {link.mention.id}", style="dim")
    sentence = console.plain(console.on_one_line(question.before))
    sentence.append_text(console.plain(f"[{console.on_one_line(link.mention.text)}]", "bold"))
    console.out.print(sentence.append_text(console.plain(console.on_one_line(question.after))))
    now = "NIL" if link.entity is None else f"{link.entity} {link.entity_name}"
    console.show(f"  now  {now}, in cluster {link.cluster}" if link.entity is None else f"  now  {now}")
    _list(question.choices)


def _list(entities: Sequence[tuple[str, str, float]]) -> None:
    for number, (id_, name, score) in enumerate(entities[:_FOUND], start=1):
        console.show(f"  {number}    {id_} {name} ({score:.3f})")


def _answer(ongoing: Review, result: arbo.Result, question: Question, search: Search) -> dict[str, Any] | str:
    """Read keys until one of them decides: return a correction, or the key that skips, undoes or quits."""
    link = question.link
    choices: Sequence[tuple[str, str, float]] = question.choices
    keys = "  ".join(f"{key} {of.told}" for key, of in _KEYS.items() if _why_not(key[0], ongoing, link, 1) is None)
    while True:
        console.show(keys, style="dim")
        key = _key()
        if why_not := _why_not(key, ongoing, link, len(choices)):
            console.show(f"  {key!r}: {why_not}")
        elif key in "suq":
            return key
        elif key.isdecimal():
            return ongoing.correction(link, "candidate", choices[int(key) - 1][0])
        elif (of := _KEYS.get(key, _Key(""))).answer and not of.asked:
            return ongoing.correction(link, of.answer)
        elif of.answer and (words := _words(of.asked, {"e": link.name, "=": link.nearest or ""}.get(key, ""))):
            try:
                return ongoing.correction(link, of.answer, words)
            except ArboError as error:
                console.show(error)
        elif key == "/" and (words := _words("words", link.name)):
            try:
                choices = search(words, link)
                _list(choices)
                if not choices:
                    console.show(f"  no entity has a name like {words!r}")
            except ArboError as error:
                console.show(error)
        elif key == "w":
            console.print_links(result, [link])


def _why_not(key: str, ongoing: Review, link: Link, choices: int) -> str | None:
    """Return why a key cannot be used for a mention, None if it can."""
    if not (key in _KEYS or key.isdecimal() or key.isspace()):
        return "unknown key"
    answer: Answer | None = "candidate" if key == "/" or key.isdecimal() else _KEYS.get(key, _Key("")).answer
    if answer and (told := ongoing.why_not(link, answer)):
        return told
    if key.isdecimal() and not 0 < int(key) <= min(choices, _FOUND):
        return "no entity above has this number"
    return None


def _key() -> str:
    """Read a key, from a pipe too; the end of the input is `q`."""
    try:
        return (typer.getchar() if sys.stdin.isatty() else sys.stdin.read(1)) or "q"
    except EOFError:
        return "q"


def _words(what: str, default: str) -> str:
    shown = f" [{console.escaped(default)}]" if default else ""  # click would show it as it is
    return str(typer.prompt(f"  {what}{shown}", default=default, show_default=False)).strip()

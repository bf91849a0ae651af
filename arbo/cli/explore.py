"""The verb `explore`."""

from __future__ import annotations

import secrets
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.grow import check_out, kb_of, linker_of, parent_of, save_child
from arbo.cli.review import answers_of, decided, searching
from arbo.cli.serve import listening_at
from arbo.errors import DataError, MissingDependency, UsageError
from arbo.files import real

if TYPE_CHECKING:
    from arbo.explore.reviewing import Reviewing
    from arbo.explore.server import Page
    from arbo.explore.views import Answer, Views

_QUESTIONS = 10_000
_BEFORE = "Show what changed since this run. [default: the run of which RUN was made]"
_OUT = "Run to write when the answers are applied. [default: RUN-reviewed beside the run]"


def explore(
    run: options.Run,
    before: Annotated[Path | None, Option(metavar="RUN0", show_default=False, help=_BEFORE)] = None,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    kb_format: options.KbFormat = None,
    out: Annotated[Path | None, Option(metavar="RUN2", show_default=False, help=_OUT)] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen at; 0 for any free one.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Open a run in the browser: look at it, search it, and review it.

    Open the address that is printed; it has a secret, and only this computer can reach it. The review asks and writes
    as `arbo review` does; `apply` makes the run that `arbo add RUN --corrections FILE --out RUN2` makes, with `--kb` if
    it is given here, and shows what changed. With `--kb`, entities have their descriptions, and the review searches all
    of them. Ctrl-C stops.
    """
    try:
        from arbo.explore.server import run as serve
    except ImportError as error:
        raise MissingDependency("arbo explore", extra="serve") from error

    folder, file = real(run), corrections or answers_of(run)
    target = out or folder.with_name(f"{folder.name}-reviewed")
    page = page_of(run, before, file, author, (kb, kb_format), target)
    token = secrets.token_urlsafe(24)
    with listening_at("127.0.0.1", port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        if as_json:
            console.print_json({"address": address, "run": str(run), "corrections": str(file)})
        else:
            console.show(address)
            console.say("open this address in a browser; Ctrl-C stops")
        sys.stdout.flush()
        serve(page, listening, token)
    console.say("stopped")


def page_of(
    run: Path, before: Path | None, file: Path, author: str | None, kb: tuple[Path | None, options.KbFormat], out: Path
) -> Page:
    """Make the page of a run, which is read once."""
    from arbo.explore.reviewing import Reviewing
    from arbo.explore.server import Page
    from arbo.explore.views import Views
    from arbo.progress import quiet
    from arbo.results.review import Review, Sitting

    base, known = arbo.Result.load(run), None
    if kb[0] is not None:
        known = kb_of(run, base.manifest, {"path": kb[0], **({"format": kb[1]} if kb[1] else {})})
        linked = base.link_table["entity_id"].unique().drop_null().to_pylist()
        if known is not None and 2 * sum(id_ in known for id_ in linked) < len(linked):
            mend = "give the knowledge base of the run, or its next release"
            raise UsageError(f"{kb[0]} lacks most entities to which {run} is linked; {mend}")

    def views_of(
        result: arbo.Result, path: Path, earlier: arbo.Result | None, since: Path | None
    ) -> tuple[Views, Reviewing]:
        name = None if since is None else real(since).name
        views = Views(result, real(path).name, before=earlier, since=name, kb=known)
        sitting = Sitting(Review(views.run, file, *decided(views.run, file), author), _QUESTIONS)
        return views, Reviewing(views, sitting, searching(views.run, None if known is None else lambda: known))

    @cache
    def linker() -> arbo.Linker:
        check_out(run, out)
        own = kb_of(run, base.manifest, {}) if known is None else known
        return linker_of(run, base.manifest, own, None, None).configured(announce=quiet)

    def apply() -> tuple[Views, Reviewing, Answer]:
        if not file.exists() or not file.stat().st_size:
            raise UsageError("there is nothing to apply: no answer is written yet")
        after = linker().add(base, (), file)
        save_child(after, run, out)
        told = {"run": str(out), "corrections": after.manifest["corrections"]}
        return *views_of(after, out, base, run), told

    earlier, known_earlier = _parent(run, base) if before is None else (before, arbo.Result.load(before))
    if before is not None and known_earlier is not None:
        ids, others = base.row_of, known_earlier.row_of
        if ids and others and ids.keys().isdisjoint(others):
            raise UsageError(f"{before} and {run} have no mention in common; give the run of which {run} was made")
    views, reviewing = views_of(base, run, known_earlier, earlier)
    return Page(views, reviewing, apply)


def _parent(run: Path, result: arbo.Result) -> tuple[Path | None, arbo.Result | None]:
    """Return the run of which a run was made, which nobody named; None, with a note, if it is unknown or damaged."""
    try:
        found = parent_of(run, result.manifest)
        return found, None if found is None else arbo.Result.load(found)
    except DataError as error:
        console.say(f"the page shows no changes, since the run of which {run} was made cannot be read: {error}")
        return None, None

"""The page of a run in a folder: what it shows, what its review asks, and the run that its answers make."""

from functools import cache
from pathlib import Path

from arbo.errors import DataError, UsageError
from arbo.explore.reviewing import Reviewing
from arbo.explore.server import Page
from arbo.explore.views import Answer, Views
from arbo.files import real
from arbo.linker import Linker
from arbo.pipeline.saved_run import SavedRun, Tell, ignore, open_run, parent_of, review_of, search_of
from arbo.results.result import Result
from arbo.results.review import Sitting

_QUESTIONS = 10_000


def page_of(
    saved: SavedRun,
    out: Path,
    *,
    before: Path | None = None,
    file: Path | None = None,
    author: str | None = None,
    kb: Path | None = None,
    tell: Tell = ignore,
) -> Page:
    """Make the page of a run.

    Args:
        saved: the run.
        out: the folder of the run that is written when the answers are applied.
        before: the run to which this one is compared; None for the run that it was made of.
        file: the file of answers; None for the one beside the run.
        author: who answers.
        kb: a knowledge base with descriptions of entities, which the review searches.
        tell: takes notes.

    Raise UsageError if ``before`` or ``kb`` belongs to another run.
    """
    base, known, answers = saved.result, None, file or saved.corrections
    if kb is not None:
        known = saved.knowledge_base(kb, tell=tell)
        linked = base.link_table["entity_id"].unique().drop_null().to_pylist()
        if known is not None and 2 * sum(id_ in known for id_ in linked) < len(linked):
            remedy = "give the knowledge base of the run, or its next release"
            raise UsageError(f"{kb} lacks most entities to which {saved.folder} is linked; {remedy}")

    def views_of(result: Result, path: Path, earlier: Result | None, since: Path | None) -> tuple[Views, Reviewing]:
        name = None if since is None else real(since).name
        views = Views(result, real(path).name, before=earlier, since=name, kb=known)
        sitting = Sitting(review_of(result, answers, author), _QUESTIONS)
        return views, Reviewing(views, sitting, search_of(result, None if known is None else lambda: known))

    @cache
    def linker() -> Linker:
        saved.check_out(out)
        return saved.linker(saved.knowledge_base(tell=tell) if known is None else known)

    def apply() -> tuple[Views, Reviewing, Answer]:
        if not answers.exists() or not answers.stat().st_size:
            raise UsageError("there is nothing to apply: no answer is written yet")
        after = linker().add(base, (), answers)
        saved.save_child(after, out)
        answer = {"run": str(out), "corrections": after.manifest["corrections"]}
        return *views_of(after, out, base, saved.folder), answer

    earlier = open_run(before) if before is not None else _parent(saved, tell)
    if before is not None and earlier is not None:
        ids, others = base.row_of, earlier.result.row_of
        if ids and others and ids.keys().isdisjoint(others):
            wrong = f"{before} and {saved.folder} have no mention in common"
            raise UsageError(f"{wrong}; give the run of which {saved.folder} was made")
    known_before = (None, None) if earlier is None else (earlier.result, earlier.folder)
    views, reviewing = views_of(base, saved.folder, *known_before)
    return Page(views, reviewing, apply)


def _parent(saved: SavedRun, tell: Tell) -> SavedRun | None:
    """Open the run that a run was made of, which nobody named; None, with a note, if it is unknown or damaged."""
    try:
        found = parent_of(saved.folder, saved.manifest, tell)
        return None if found is None else open_run(found)
    except DataError as error:
        wrong = f"the run of which {saved.folder} was made cannot be read"
        tell(f"the page shows no changes, since {wrong}: {error}")
        return None

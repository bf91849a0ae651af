"""The served page of a run: what it shows, what its review asks, and the run that its answers make."""

from functools import cached_property
from pathlib import Path
from typing import Any

from arbo.corrections.review import Sitting
from arbo.errors import DataError, UsageError
from arbo.explore.payload import Payload
from arbo.explore.reviewing import Reviewing
from arbo.files import real
from arbo.linker import Linker
from arbo.pipeline.saved_run import SavedRun, Tell, ignore, open_run, parent_of, review_of, search_of
from arbo.results.result import Result

_QUESTIONS = 10_000


class Page:
    """The page of a run; its ``payload`` and its ``reviewing`` are those of the last run that answers made."""

    payload: Payload
    reviewing: Reviewing

    def __init__(
        self,
        saved: SavedRun,
        out: Path,
        *,
        before: Path | None = None,
        file: Path | None = None,
        author: str | None = None,
        kb: Path | None = None,
        tell: Tell = ignore,
    ) -> None:
        """Open the page of a run.

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
        self._saved, self._out, self._answers, self._author, self._tell = (
            saved,
            out,
            file or saved.corrections,
            author,
            tell,
        )
        self._kb = None if kb is None else saved.knowledge_base(kb, tell=tell)
        linked = saved.result.link_table["entity_id"].unique().drop_null().to_pylist()
        if self._kb is not None and 2 * sum(id_ in self._kb for id_ in linked) < len(linked):
            remedy = "give the knowledge base of the run, or its next release"
            raise UsageError(f"{kb} lacks most entities to which {saved.folder} is linked; {remedy}")
        earlier = open_run(before) if before is not None else _parent(saved, tell)
        if before is not None and earlier is not None:
            ids, others = saved.result.row_of, earlier.result.row_of
            if ids and others and ids.keys().isdisjoint(others):
                wrong = f"{before} and {saved.folder} have no mention in common"
                raise UsageError(f"{wrong}; give the run of which {saved.folder} was made")
        self._show(saved.result, saved.folder, earlier)

    def applied(self) -> dict[str, Any]:
        """Make the run that obeys the answers, and show it from now on; return where it is, and what it obeys."""
        if not self._answers.exists() or not self._answers.stat().st_size:
            raise UsageError("there is nothing to apply: no answer is written yet")
        after = self._linker.add(self._saved.result, (), self._answers)
        self._saved.save_child(after, self._out)
        self._show(after, self._out, self._saved)
        return {"run": str(self._out), "corrections": after.manifest["corrections"]}

    def _show(self, result: Result, folder: Path, earlier: SavedRun | None) -> None:
        before, since = (None, None) if earlier is None else (earlier.result, real(earlier.folder).name)
        self.payload = Payload(result, real(folder).name, before=before, since=since, kb=self._kb)
        sitting = Sitting(review_of(result, self._answers, self._author), _QUESTIONS)
        kb = self._kb
        self.reviewing = Reviewing(sitting, search_of(result, None if kb is None else lambda: kb))
        _ = self.payload.overview, self.payload.tables, self.payload.changes  # now rather than at the first view

    @cached_property
    def _linker(self) -> Linker:
        self._saved.check_out(self._out)
        return self._saved.linker(self._saved.knowledge_base(tell=self._tell) if self._kb is None else self._kb)


def _parent(saved: SavedRun, tell: Tell) -> SavedRun | None:
    """Open the run that a run was made of, which nobody named; None, with a note, if it is unknown or damaged."""
    try:
        parent = parent_of(saved.folder, saved.result.manifest, tell)
        return None if parent is None else open_run(parent)
    except DataError as error:
        wrong = f"the run of which {saved.folder} was made cannot be read"
        tell(f"the page shows no changes, since {wrong}: {error}")
        return None

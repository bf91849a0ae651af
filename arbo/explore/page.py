"""The served page of a run: what it shows, the sitting of `arbo review`, and the run that its answers make.

The web application answers this computer alone: requests need the token of the printed address and a local host, and no
page of another site may ask. The policy lets the page load nothing, and ask this server only.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from fastapi import APIRouter, Body, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field

from arbo.corrections import review
from arbo.corrections.lines import corrections_of
from arbo.corrections.review import Question
from arbo.errors import ArboError, UsageError
from arbo.explore.report import Payload, shell
from arbo.files import json_ready, real
from arbo.linker import Linker
from arbo.pipeline.saved_run import SavedRun, Tell, open_run, review_of, search_of
from arbo.results.result import Result
from arbo.results.run import Link
from arbo.serve.service import Answer
from arbo.serve.web import Limits, Refused, Rules, Turn, application

BLOCKS = ("overview", "tables", "cuts", "changes")  # parts of the content that a page asks for as a whole
QUESTIONS = ("next", "question", "entities", "marks")  # methods of the review; they take turns, as what writes does
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SHOWN = 20  # number of mentions that are listed of those to which a decision spreads
Rows = Annotated[list[Annotated[int, Field(ge=0)]], Query(max_length=1000)]


class Decision(BaseModel, extra="forbid"):
    """An answer about a mention, with its value if it has one; also to skip the question, or to undo the last."""

    answer: review.Answer | Literal["skip", "undo"]
    mention_id: str = ""
    value: str = ""


@dataclass(eq=False, repr=False)
class Page:
    """The page of a run, or of the last run that answers made; ask and answer from one thread at a time.

    Its methods are operations of the web application, with their parameters; ``payload`` has the blocks. They raise
    UsageError for what does not apply, and Refused for an unknown mention.
    """

    saved: SavedRun
    out: Path
    """Folder of the run that is made of the answers."""
    file: Path
    """File of the answers."""
    tell: Tell
    before: Path | None = None
    """The run that this one is compared to; by default, that of which it was made."""
    author: str | None = None
    kb: Path | None = None
    """The knowledge base that the review searches."""

    def __post_init__(self) -> None:
        self._kb = self.saved.known_base(self.kb, tell=self.tell)
        earlier = _parent(self.saved, self.tell) if self.before is None else open_run(self.before)
        self._show(self.saved.result, self.saved.folder, earlier)

    def texts(self, row: Rows) -> list[str]:
        """Return the texts of documents."""
        run = self.payload.run
        if max(row, default=0) >= (n := len(run.document_table)):
            raise UsageError(f"the run has {n:,} documents, and none with the number {max(row)}")
        return run.texts(np.array(row, np.int64)) if run.has_texts else []

    def entity(self, id: str) -> Answer:  # noqa: A002
        """Return what the knowledge base says about an entity: nothing about an unknown one."""
        if self._kb is None or id not in self._kb:
            return {}
        known = self._kb[id]
        return {"names": [known.name, *known.aliases], "more_names": 0, "description": known.definition}

    def next(self) -> Answer:
        """Return the present question, and how far the sitting is; ``question`` is None at the end."""
        question, (place, total) = self._review.present, self._review.counted
        return {
            "place": place,
            "total": total,
            "answers": len(self._review.written),
            "file": self._review.file.name,
            "question": None if question is None else self._shown(question),
        }

    def question(self, id: str) -> Answer:  # noqa: A002
        """Return the question about any mention."""
        return self._shown(self._review.about(self._link(id)))

    def entities(self, words: str, mention_id: str) -> Answer:
        """Search entities for a mention by name."""
        rows = self._search(words, self._link(mention_id))
        self._offered.update(one.id for one in rows)
        return {"rows": [one._asdict() for one in rows]}

    def answer(self, decision: Decision) -> Answer:
        """Write the correction that an answer means, or skip or undo; return it as ``written``, and `next`."""
        kind, value, written = decision.answer, decision.value, None
        if kind in ("new", "same", "different"):
            value = value.strip()  # as the verb reads words
        if kind == "skip":
            question = self._review.present
            if question is not None and question.link.mention.id == decision.mention_id:  # no question that nobody saw
                self._review.skip()
        elif kind == "undo":
            self._review.undo()
        else:
            link = self._link(decision.mention_id)
            if kind in ("candidate", "new", "same", "different") and not value:
                raise UsageError(f"the answer {kind!r} needs a value")
            shown = self._review.other(link)
            offered = {id_ for id_, _ in link.candidates} | self._offered | ({shown.id} if shown else set())
            if kind == "candidate" and value not in offered:
                raise UsageError(f"no candidate and no search offered the entity {value!r:.100}")
            written = self._review.corrections(link, kind, value)
            self._review.answer(link, written)
            if kind == "candidate":
                self._offered.add(value)  # of a second document, too
        return {"written": json_ready(written), **self.next()}

    def marks(self, document: str) -> Answer:
        """Return the corrections of spans of a document that are in the file."""
        lines = corrections_of(self.file) if self.file.exists() else ()
        return {"rows": json_ready([line.record for line in lines if line.document == document])}

    def mark(self, record: Annotated[dict[str, Any], Body()]) -> Answer:
        """Write a correction of spans, and return it as ``written``; the answer ``undo`` takes it back."""
        (line,) = corrections_of([record])
        if line.document is None:
            raise UsageError("a mark is a correction of spans: drop, add, resize or split")
        self._review.answer(None, [record])
        return {"written": record}

    def applied(self) -> Answer:
        """Make the run that obeys the answers, and show it from now on; return where it is, and what it obeys."""
        if not self.file.exists() or not self.file.stat().st_size:
            raise UsageError("there is nothing to apply: no answer is written yet")
        after = self._linker.add(self.saved.result, (), self.file)
        self.saved.save_child(after, self.out)
        self._show(after, self.out, self.saved)
        return {"run": str(self.out), "corrections": after.manifest["corrections"]}

    def _show(self, result: Result, folder: Path, earlier: SavedRun | None) -> None:
        before, since = (None, None) if earlier is None else (earlier.result, real(earlier.folder).name)
        name, described = real(folder).name, self._kb is not None
        self.payload = Payload(result, name, before=before, since=since, described=described)
        self._review = review_of(result, self.file, self.author, self._kb)
        self._search = search_of(result, self._kb)
        self._offered: set[str] = set()  # ids of the entities that searches found
        _ = self.payload.overview, self.payload.tables, self.payload.changes  # now rather than at the first view

    @cached_property
    def _linker(self) -> Linker:
        self.saved.check_out(self.out)
        return self.saved.linker(self.saved.knowledge_base(tell=self.tell) if self._kb is None else self._kb)

    def _link(self, id_: str) -> Link:
        if id_ not in self._review.run.row_of:
            raise Refused(f"the run has no mention {id_!r:.100}", 404)
        return self._review.run.link_of(id_)

    def _shown(self, question: Question) -> Answer:
        link = question.link
        return {
            "mention_id": link.mention.id,
            "name": link.name,
            "choices": [one._asdict() for one in question.choices],
            "why_not": {kind: self._review.why_not(link, kind) for kind in get_args(review.Answer)},
            "nearest": question.choices[0].id if self._review.queue.pairs and question.choices else link.nearest,
            "again": not question.twins,
            "spread": self._spread(link),
        }

    def _spread(self, link: Link) -> Answer:
        """Return which other mentions follow a decision by their name; only a new partition tells who else follows."""
        run, names = self._review.run, self._review.queue.names
        row, spread = run.row_of[link.mention.id], run.manifest["config"].get("spread")
        rows = np.flatnonzero(names == names[row]) if spread != "none" else np.array([row])
        waits = review.sure(run)[rows] & (run.document_rows[rows] != run.document_rows[row])
        gone = {link.mention.id, *self._review.decided, *run.mention_table["mention_id"].take(rows[waits]).to_pylist()}
        others = [id_ for id_ in run.mention_table["mention_id"].take(rows).to_pylist() if id_ not in gone]
        return {"spread": spread, "mentions": len(others), "ids": others[:_SHOWN], "waiting": int(waits.sum())}


def _parent(saved: SavedRun, tell: Tell) -> SavedRun | None:
    """Open the run that a run was made of, which nobody named; None, with a note, if it is lost or damaged."""
    try:
        parent = saved.parent()
        return None if parent is None else open_run(parent)
    except ArboError as error:
        tell(f"the page shows no changes: {error}")
        return None


def app_of(page: Page, token: str) -> FastAPI:
    """Return the web application of a page; requests to its views need the token in the header ``X-Arbo-Token``."""
    html, policy = shell(["review", "marking", "remote"], ["page", "review"], title="arbo", connect="'self'")
    headers = _HEADERS | {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
    app = application(Rules(Limits(body=20_000), "the page is at /", headers, check=partial(_check, token)))
    turns = APIRouter(route_class=Turn)
    for name in BLOCKS:
        app.get(f"/api/{name}")(partial(_block, page, name))
    app.get("/api/texts")(page.texts)
    app.get("/api/entity")(page.entity)
    for name in QUESTIONS:
        turns.get(f"/api/review/{name}")(getattr(page, name))
    turns.post("/api/review/answer")(page.answer)
    turns.post("/api/review/mark")(page.mark)
    turns.post("/api/apply")(page.applied)
    app.include_router(turns)
    app.get("/")(lambda: HTMLResponse(html))
    return app


def _block(page: Page, name: str) -> Response:
    """Return a part of the content of the page: columns as bytes, and others as JSON."""
    content = getattr(page.payload, name)
    return Response(content) if isinstance(content, bytes) else JSONResponse(json_ready(content))


def _check(token: str, request: Request) -> None:
    """Refuse a request of another site's page, or without the token."""
    if not request.url.path.startswith("/api/"):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers['host']}":
        raise Refused(f"a page of {origin:.100} asked; only the page itself may", 403)
    if not secrets.compare_digest(request.headers.get("x-arbo-token", "").encode(), token.encode()):
        raise Refused("the token is missing or wrong; open the address that `arbo explore` printed", 403)

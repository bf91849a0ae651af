"""The web application of a served page: its files, its views as JSON, and the review.

It answers this computer alone: requests need the token of the printed address and a local host, and no page of another
site may ask. The policy lets the page load nothing but its own files.
"""

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arbo.errors import DataError
from arbo.explore.reviewing import Reviewing
from arbo.explore.views import Answer, Views
from arbo.files import json_ready
from arbo.serve.app import LOCAL, body_of, guarded, json_response, refusal, serve
from arbo.serve.requests import Limits, Refused, parsed, value_of

STATIC = Path(__file__).parent / "static"
TOKEN = "x-arbo-token"
_LIMITS = Limits(body=20_000)
_MOST_ROWS = 500
_POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


@dataclass
class Page:
    """What is served: the views of a run, its review, and how to obey the answers."""

    views: Views
    reviewing: Reviewing
    apply: Callable[[], tuple[Views, Reviewing, Answer]]
    """Returns the views and the review of the run that obeys the answers, and what to tell about it."""

    def applied(self) -> Answer:
        """Partition again with the answers, show the new run from now on, and return its first changes."""
        self.views, self.reviewing, answer = self.apply()
        return answer | {"changes": self.views.changes()}


Read = Mapping[str, Mapping[str, Any]]
_TEXT, _FLAG = {"maxLength": 1000}, {"type": "boolean"}
_PAGED: Read = {
    "offset": {"type": "integer", "minimum": 0, "maximum": 10**9},
    "limit": {"type": "integer", "minimum": 0, "maximum": _MOST_ROWS},
}
_ID: Read = {"id_": _TEXT}
_VIEWS: Mapping[str, Read] = {
    "overview": {},
    "mentions": {
        **dict.fromkeys(("words", "document", "entity", "cluster"), _TEXT),
        "nil": _FLAG,
        "sort": {"enum": ("order", "margin")},
        **_PAGED,
    },
    "clusters": {"nil": _FLAG, "words": _TEXT, "sort": {"enum": ("size", "nearness", "name")}, **_PAGED},
    "documents": {"words": _TEXT, **_PAGED},
    "search": {"words": _TEXT},
    "changes": _PAGED,
    **dict.fromkeys(("cluster", "mention", "document", "entity"), _ID),
}
_QUESTIONS: Mapping[str, Read] = {"next": {}, "question": _ID, "found": {"words": _TEXT, "mention_id": _TEXT}}
"""Methods of the review; they take turns, as what writes does."""


def app_of(page: Page, token: str) -> Starlette:
    """Return the web application of a page; requests to its views need the token in the header ``X-Arbo-Token``."""
    turn = anyio.Lock()

    def api(path: str, answer: Callable[..., Any], *, method: str = "GET", turns: bool = False) -> Route:
        async def respond(request: Request) -> Response:
            own = partial(_respond, request, token, answer, turn if turns else None)
            return _guarded(await guarded(request, path, own))

        return Route(path, respond, methods=[method])

    def call(name: str, read: Read, of: Callable[[], object], request: Request, _: bytes) -> Answer:
        found: Answer = getattr(of(), name)(**_parameters(request, read))
        return found

    views = [api(f"/api/{name}", partial(call, name, read, lambda: page.views)) for name, read in _VIEWS.items()]
    review = [
        api(f"/api/review/{name}", partial(call, name, read, lambda: page.reviewing), turns=True)
        for name, read in _QUESTIONS.items()
    ]
    writing = [
        api("/api/review/answer", lambda _, body: page.reviewing.answer(parsed(body)), method="POST", turns=True),
        api("/api/apply", lambda *_: page.applied(), method="POST", turns=True),
    ]
    return Starlette(
        routes=[*views, *review, *writing, Route("/", _file), Route("/{name}", _file)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(LOCAL), www_redirect=False)],
        exception_handlers={HTTPException: _unknown},
    )


def run(page: Page, listening: socket.socket, token: str) -> None:
    """Serve a page until SIGINT or SIGTERM; requests that were begun are answered first."""
    serve(app_of(page, token), listening, _LIMITS.seconds)


async def _respond(request: Request, token: str, answer: Callable[..., Any], turn: anyio.Lock | None, /) -> Response:
    _check(request, token)
    body = await body_of(request, _LIMITS) if request.method == "POST" else b""
    async with turn or nullcontext():
        return json_response(200, json_ready(await run_sync(answer, request, body)))


def _check(request: Request, token: str) -> None:
    """Refuse a request of another site's page, or without the token."""
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers['host']}":
        raise Refused(f"a page of {origin:.100} asked; only the page itself may", 403)
    if not secrets.compare_digest(request.headers.get(TOKEN, "").encode(), token.encode()):
        raise Refused("the token is missing or wrong; open the address that `arbo explore` printed", 403)


def _parameters(request: Request, read: Read) -> dict[str, Any]:
    """Convert the parameters of a request; raise DataError or UsageError for an unknown, missing or invalid one."""
    found = {}
    for given, value in request.query_params.multi_items():
        name = "id_" if given == "id" else given
        if name not in read:
            raise DataError(f"unknown parameter {given!r:.60}; known are {', '.join(read).replace('id_', 'id')}")
        found[name] = value_of(given, value, read[name])
    for name in ("id_", "words", "mention_id"):
        if name in read and name not in found and (len(read) < 3):
            raise DataError(f"the parameter {name.removesuffix('_')!r} is missing")
    return found


def _file(request: Request) -> Response:
    """Return a file of the page."""
    name = request.path_params.get("name", "index.html")
    file = STATIC / name
    if name not in os.listdir(STATIC) or file.suffix not in _KINDS:  # a name may be too long to ask for
        raise HTTPException(404)
    return _guarded(Response(file.read_bytes(), media_type=_KINDS[file.suffix]))


def _guarded(response: Response) -> Response:
    response.headers.update(_POLICY)
    return response


async def _unknown(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _guarded(refusal(error.status_code, f"{error.detail}; the page is at /"))

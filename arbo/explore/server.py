"""The web application of a served page: its files, its views as JSON, and the review.

It answers this computer alone: requests need the token of the printed address and a local host, and no page of another
site may ask. The policy lets the page load nothing but its own files.
"""

import os
import secrets
import socket
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from arbo.explore.page import Page
from arbo.explore.reviewing import Decision
from arbo.files import json_ready
from arbo.serve.requests import Limits, Refused
from arbo.serve.web import Rules, Turn, application, json_response, serve

STATIC = Path(__file__).parent / "static"
TOKEN = "x-arbo-token"
VIEWS = (
    *("overview", "mentions", "clusters", "documents", "search", "changes"),
    *("cluster", "mention", "document", "entity"),
)
QUESTIONS = ("next", "question", "entities")
"""Methods of the review; they take turns, as what writes does."""
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


def app_of(page: Page, token: str) -> FastAPI:
    """Return the web application of a page; requests to its views need the token in the header ``X-Arbo-Token``."""
    app = application(Rules(Limits(body=20_000), "the page is at /", _POLICY, check=partial(_check, token)))
    turns = APIRouter(route_class=Turn)
    for name in VIEWS:
        app.get(f"/api/{name}")(_method(lambda: page.views, name))
    for name in QUESTIONS:
        turns.get(f"/api/review/{name}")(_method(lambda: page.reviewing, name))

    @turns.post("/api/review/answer")
    def answer(body: Decision) -> Response:
        return json_response(page.reviewing.answer(body))

    turns.post("/api/apply")(_method(lambda: page, "applied"))
    app.include_router(turns)
    app.get("/")(_file)
    app.get("/{name}")(_file)
    return app


def run(page: Page, listening: socket.socket, token: str) -> None:
    """Serve a page until SIGINT or SIGTERM; requests that were begun are answered first."""
    serve(app_of(page, token), listening)


def _method(owner: Callable[[], object], name: str) -> Callable[..., Response]:
    """Return a function with the parameters of a method, which asks the present owner."""

    @wraps(getattr(owner(), name))
    def call(**parameters: Any) -> Response:
        return json_response(json_ready(getattr(owner(), name)(**parameters)))

    return call


def _check(token: str, request: Request) -> None:
    """Refuse a request of another site's page, or without the token."""
    if not request.url.path.startswith("/api/"):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers['host']}":
        raise Refused(f"a page of {origin:.100} asked; only the page itself may", 403)
    if not secrets.compare_digest(request.headers.get(TOKEN, "").encode(), token.encode()):
        raise Refused("the token is missing or wrong; open the address that `arbo explore` printed", 403)


def _file(name: str = "index.html") -> Response:
    """Return a file of the page."""
    file = STATIC / name
    if name not in os.listdir(STATIC) or file.suffix not in _KINDS:  # a name may be too long to ask for
        raise Refused("Not Found; the page is at /", 404)
    return Response(file.read_bytes(), media_type=_KINDS[file.suffix])

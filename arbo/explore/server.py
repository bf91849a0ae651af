"""The web application of a served page: the page, the blocks of its content, and the review.

It answers this computer alone: requests need the token of the printed address and a local host, and no page of another
site may ask. The policy lets the page load nothing, and ask this server only.
"""

import secrets
from functools import partial

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from arbo.explore.page import Page
from arbo.explore.report import shell
from arbo.files import json_ready
from arbo.serve.requests import Limits, Refused
from arbo.serve.web import Rules, Turn, application, json_response

TOKEN = "x-arbo-token"
BLOCKS = ("overview", "tables", "cuts", "changes")
"""Parts of the content that a page asks for as a whole."""
QUESTIONS = ("next", "question", "entities")
"""Methods of the review; they take turns, as what writes does."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def app_of(page: Page, token: str) -> FastAPI:
    """Return the web application of a page; requests to its views need the token in the header ``X-Arbo-Token``."""
    html, policy = shell(["review", "remote"], ["page", "review"], title="arbo", connect="'self'")
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
    turns.post("/api/apply")(page.applied)
    app.include_router(turns)
    app.get("/")(lambda: HTMLResponse(html))
    return app


def _block(page: Page, name: str) -> Response:
    """Return a part of the content of the page: columns as bytes, and others as JSON."""
    content = getattr(page.payload, name)
    return Response(content) if isinstance(content, bytes) else json_response(json_ready(content))


def _check(token: str, request: Request) -> None:
    """Refuse a request of another site's page, or without the token."""
    if not request.url.path.startswith("/api/"):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers['host']}":
        raise Refused(f"a page of {origin:.100} asked; only the page itself may", 403)
    if not secrets.compare_digest(request.headers.get(TOKEN, "").encode(), token.encode()):
        raise Refused("the token is missing or wrong; open the address that `arbo explore` printed", 403)

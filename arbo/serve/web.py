"""A web application whose operations are methods: limits of bodies, turns, JSON errors, and a log of no contents.

Logs have the path of the operation, the status and the time, and never what was asked.
"""

import asyncio
import logging
import signal
import socket
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from time import perf_counter
from typing import Any

import anyio
import uvicorn
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from arbo.errors import DataError, UsageError

logger = logging.getLogger(__name__)

LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
"""The names under which a service for this computer alone may be asked for; pages elsewhere cannot use another."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_DRAINED = 10
"""A body that is too large is read up to this multiple of the limit, so that its sender gets to see the answer."""
CONNECTIONS = 256  # number of connections at a time; see `Connection`
WAIT = 10  # seconds after which a connection is closed if nothing happens


class Refused(UsageError):  # noqa: N818
    """A request that gets another status of HTTP than 400, by default that of a request beyond a limit."""

    def __init__(self, message: str, status: int = 413) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of requests; a request beyond one gets a status of 4xx."""

    body: int = 2_000_000
    """Bytes of a body, and characters in the spans of its mentions, which may overlap."""
    texts: int = 100
    """Texts, or queries, of one request."""
    mentions: int = 5_000
    """Mentions of all texts of one request, given or found."""
    seconds: int = 30
    """Seconds for a body to arrive, for a request to wait for its turn, and for its texts to be linked."""

    def check(self, name: str, number: int, what: str) -> None:
        """Raise Refused if a number exceeds the limit ``name``."""
        if number > (most := getattr(self, name)):
            raise Refused(f"the request has {number:,} {what}, but at most {most:,} are allowed; send fewer at a time")


class Error(BaseModel):
    """A sentence that says what is wrong with a request."""

    error: str


@dataclass(frozen=True)
class Rules:
    """What all operations of an application have in common."""

    limits: Limits
    hint: str
    """Where to look after a request for an unknown operation."""
    headers: Mapping[str, str] = field(default_factory=lambda: {"X-Content-Type-Options": "nosniff"})
    """Headers of all answers."""
    shared: str = "-"
    """Beginning of the paths whose answers pages of any origin may read; their unknown parameters are ignored."""
    check: Callable[[Request], None] = lambda request: None
    """Raises Refused for requests that are not allowed."""


def application(rules: Rules, hosts: Sequence[str] = LOCAL, *, openapi: str | None = None) -> FastAPI:
    """Return an application without operations, which refuses requests to another host than ``hosts`` (``*``: all)."""
    app = FastAPI(
        title="arbo",
        version=version("arbo"),
        openapi_url=openapi,
        docs_url=None,
        redoc_url=None,
        responses={"default": {"model": Error, "description": "What is wrong with a request."}},
        generate_unique_id_function=lambda route: route.name,
        exception_handlers=dict.fromkeys((404, 405), _unknown),
    )
    app.router.route_class, app.state.rules, app.state.turn = Operation, rules, anyio.Lock()
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return app


class Operation(APIRoute):
    """An operation, answered at once and in a thread; its body is JSON whatever its type says."""

    takes_turns = False

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def respond(request: Request) -> Response:
            began, rules = perf_counter(), request.app.state.rules
            try:
                response = await self._answered(request, rules, answer)
            except Exception as error:
                response = _failed(error, self.path_format)
            response.headers.update(rules.headers)
            if self.path.startswith(rules.shared):
                response.headers["Access-Control-Allow-Origin"] = "*"
            took = 1000 * (perf_counter() - began)
            logger.info("%s %s %d %.1f ms", request.method, self.path_format, response.status_code, took)
            return response

        return respond

    async def _answered(self, request: Request, rules: Rules, answer: Handler) -> Response:
        rules.check(request)
        known = [one.alias for one in self.dependant.query_params]
        if not self.path.startswith(rules.shared) and (unknown := sorted({*request.query_params} - {*known})):
            raise UsageError(f"unknown parameter {unknown[0]!r:.60}; known are {', '.join(known) or 'none'}")
        body = await _body(request, rules.limits) if request.method == "POST" else b""
        others = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        read = Request({**request.scope, "headers": [*others, (b"content-type", b"application/json")]})
        read._body, read._json = body, await run_sync(parsed, body) if self.body_field else None
        if not self.takes_turns:
            return await answer(read)
        turn: anyio.Lock = request.app.state.turn
        with anyio.move_on_after(rules.limits.seconds) as scope:
            await turn.acquire()
        if scope.cancelled_caught:
            raise Refused(f"the service is busy: no turn within {rules.limits.seconds} seconds; try again later", 503)
        try:
            return await answer(read)
        finally:
            turn.release()


class Turn(Operation):
    """An operation that waits until the one before it is answered."""

    takes_turns = True


async def _body(request: Request, limits: Limits) -> bytes:
    """Read a body; raise Refused if it is too large or too slow."""
    body, size = bytearray(), 0
    with anyio.move_on_after(limits.seconds) as scope:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= limits.body:
                body += chunk
            elif size > _DRAINED * limits.body:
                break
    if scope.cancelled_caught:
        raise Refused(f"the body did not arrive within {limits.seconds} seconds", 408)
    if size > limits.body:
        raise Refused(f"the body has more than {limits.body:,} bytes; send fewer or shorter texts at a time")
    return bytes(body)


def _failed(error: Exception, path: str) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    if isinstance(error, RequestValidationError):
        return refusal(400, sentence(error.errors()))
    if isinstance(error, (DataError, UsageError)):
        return refusal(getattr(error, "status", 400), str(error))
    place = "".join(traceback.format_tb(error.__traceback__)[-3:])  # the message may quote a text
    logger.error("%s in %s\n%s", type(error).__name__, path, place)
    return refusal(500, "an error of the service; its log names the place")


async def _unknown(request: Request, error: Any) -> Response:
    response = refusal(error.status_code, f"{error.detail}; {request.app.state.rules.hint}")
    response.headers.update(request.app.state.rules.headers)
    return response


def refusal(status: int, message: str) -> Response:
    """Return an error with a sentence."""
    return JSONResponse({"error": message}, status)


def parsed(text: bytes | str) -> Any:
    """Parse JSON in UTF-8; raise DataError for anything else, such as NaN, half of a surrogate pair, or deep nesting.

    >>> parsed(b'{"text": "flu"}')
    {'text': 'flu'}
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DataError(f"the body is not JSON: {error}") from None


def sentence(errors: Sequence[Any]) -> str:
    """Say where the most deeply nested error is, and what is wrong there."""
    error = max(errors, key=lambda one: len(one["loc"]))
    place = ".".join(str(name) for name in error["loc"])
    return f"{place:.100}: {error['msg']}" if place else str(error["msg"])


class Connection(H11Protocol):
    """A connection that is closed if its client neither begins a request nor reads an answer for `WAIT` seconds.

    Beyond `CONNECTIONS`, those without a request are closed, the oldest first, so that they keep nobody out.
    """

    check: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        idle = [one for one in self.connections if isinstance(one, Connection) and one._is_idle]
        if idle and len(self.connections) >= CONNECTIONS:
            oldest = min(idle, key=lambda one: one.check.when())
            self.connections.discard(oldest)  # now, as the transport tells it later
            oldest.transport.abort()
        super().connection_made(transport)
        self._look(None)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self, before: object) -> None:
        unread = self.transport.get_write_buffer_size()
        now = self.cycle, unread
        if now == before and (self._is_idle or unread):
            self.transport.abort()
        elif not self.transport.is_closing() or unread:
            self.check = self.loop.call_later(WAIT, self._look, now)


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, with a log on stderr; requests that were begun are answered first."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the server raises the signal once more when it has stopped
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS + 1,
        timeout_graceful_shutdown=app.state.rules.limits.seconds,
    )
    uvicorn.Server(config).run(sockets=[listening])

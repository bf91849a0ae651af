"""The web application: it reads requests, lets them take turns, and writes answers, errors and logs.

Logs have the path of the operation, the status and the time, and never what was asked.
"""

import json
import logging
import signal
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from urllib.parse import parse_qsl

import anyio
import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from arbo.errors import DataError, UsageError
from arbo.serve.operations import OPERATIONS, Call, Operation
from arbo.serve.reconciliation import Reconciliation
from arbo.serve.requests import Limits, Refused, parsed
from arbo.serve.service import Service

logger = logging.getLogger(__name__)

LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
"""The names under which a service for this computer alone may be asked for; pages elsewhere cannot use another."""
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_DRAINED = 10
"""A body that is too large is read up to this multiple of the limit, so that its sender gets to see the answer."""


def app_of(service: Service, *, name: str = "arbo", hosts: Sequence[str] = LOCAL) -> Starlette:
    """Return the web application of a service, which is called ``name`` in a list of reconciliation services.

    Requests whose header names another host than ``hosts`` are refused; ``("*",)`` accepts all.
    """
    own, turn = Reconciliation(service, name), anyio.Lock()
    return Starlette(
        routes=[
            Route(
                one.path.replace("{id}", "{id:path}"),
                partial(_answer, own, one, turn),
                methods=[one.method.upper(), *["OPTIONS"] * one.shared],
                name=f"{one.method} {one.path}",
            )
            for one in OPERATIONS
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers={HTTPException: _refuse},
    )


def run(service: Service, listening: socket.socket, *, name: str, hosts: Sequence[str]) -> None:
    """Serve until SIGINT or SIGTERM, with a log on stderr; requests that were begun are answered first."""
    serve(app_of(service, name=name, hosts=hosts), listening, service.limits.seconds)


def serve(app: Starlette, listening: socket.socket, seconds: int) -> None:
    """Serve an application until SIGINT or SIGTERM, then wait at most ``seconds`` for requests that were begun."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the server raises the signal once more when it has stopped
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=seconds,
    )
    uvicorn.Server(config).run(sockets=[listening])


async def _answer(own: Reconciliation, one: Operation, turn: anyio.Lock, request: Request) -> Response:
    response = await guarded(request, one.path, partial(_response, own, one, turn, request))
    if one.shared:
        response.headers["Access-Control-Allow-Origin"] = "*"
    return response


async def guarded(request: Request, path: str, answer: Callable[[], Awaitable[Response]]) -> Response:
    """Answer a request, with an error if it fails, and log ``path``, the status and the time."""
    began = perf_counter()
    try:
        response = await answer()
    except ClientDisconnect:
        response = Response(status_code=499)
    except Refused as error:
        response = refusal(error.status, str(error))
    except (DataError, UsageError, RecursionError) as error:
        response = refusal(400, "the body is nested too deeply" if isinstance(error, RecursionError) else str(error))
    except Exception as error:  # the message may quote a text, so that only its place is logged
        place = "".join(traceback.format_tb(error.__traceback__)[-3:])
        logger.error("%s in %s\n%s", type(error).__name__, path, place)
        response = refusal(500, "an error of the service; its log names the place")
    took = 1000 * (perf_counter() - began)
    logger.info("%s %s %d %.1f ms", request.method, path, response.status_code, took)
    return response


async def _response(own: Reconciliation, one: Operation, turn: anyio.Lock, request: Request) -> Response:
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Access-Control-Allow-Headers": "*"})
    body = await body_of(request, own.service.limits) if one.body else b""
    is_json = one.body == "application/json"
    form = dict(request.query_params) | _form(b"" if is_json else body)
    answer = partial(_call, own, one, body if is_json else None, form, request)
    if one.quick:
        found = answer()
    else:
        async with _turn(turn, own.service.limits.seconds):
            found = await run_sync(answer)
    if isinstance(found, str):
        policy = {"Content-Security-Policy": "default-src 'none'; sandbox", "Referrer-Policy": "no-referrer"}
        return Response(found, headers=policy | _NO_SNIFF, media_type="text/html")
    return json_response(200, found)


def _call(own: Reconciliation, one: Operation, body: bytes | None, form: dict[str, str], request: Request) -> object:
    call = Call(None if body is None else parsed(body), form, str(request.base_url))
    return one.answer(own, call, request.path_params)


async def body_of(request: Request, limits: Limits) -> bytes:
    """Read a body; raise Refused if it is too large or too slow."""
    most, seconds = limits.body, limits.seconds
    body, size = bytearray(), 0
    with anyio.move_on_after(seconds) as scope:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= most:
                body += chunk
            elif size > _DRAINED * most:
                break
    if scope.cancelled_caught:
        raise Refused(f"the body did not arrive within {seconds} seconds", 408)
    if size > most:
        raise Refused(f"the body has more than {most:,} bytes; send fewer or shorter texts at a time")
    return bytes(body)


def _form(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("ascii"), max_num_fields=100, errors="strict"))
    except ValueError:  # also UnicodeDecodeError
        raise DataError("the body is not a form of at most 100 fields in UTF-8") from None


@asynccontextmanager
async def _turn(turn: anyio.Lock, seconds: float) -> AsyncIterator[None]:
    with anyio.move_on_after(seconds) as scope:
        await turn.acquire()
    if scope.cancelled_caught:
        raise Refused(f"the service is busy: no turn within {seconds} seconds; try again later", 503)
    try:
        yield
    finally:
        turn.release()


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, f"{error.detail}; GET /openapi.json lists the operations")


def refusal(status: int, message: str) -> Response:
    """Return an error with a sentence."""
    return json_response(status, {"error": message})


def json_response(status: int, value: object) -> Response:
    """Return an answer as JSON in UTF-8."""
    content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    return Response(content, status, headers=_NO_SNIFF, media_type="application/json")

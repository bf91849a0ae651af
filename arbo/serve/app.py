"""The web application of a service: which of its methods answers which path."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from arbo.errors import DataError
from arbo.serve.reconciliation import Reconciliation
from arbo.serve.service import Answer, Explained, Health, Linked, Match, Service
from arbo.serve.web import LOCAL, Rules, Turn, application

_NO_SCRIPTS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Referrer-Policy": "no-referrer"}
_FORM = {"type": "object", "properties": {"queries": {"type": "string"}, "extend": {"type": "string"}}}


def app_of(service: Service, *, name: str = "arbo", hosts: Sequence[str] = LOCAL) -> FastAPI:
    """Return the web application of a service, called ``name`` in OpenRefine; for ``hosts`` see `application`."""
    reconciliation = Reconciliation(service, name)
    rules = Rules(service.limits, "GET /openapi.json lists the operations", shared="/reconcile")
    app, turns = application(rules, hosts, openapi="/openapi.json"), APIRouter(route_class=Turn)
    app.get("/health", response_model=Health)(service.health)
    app.get("/entities/{id:path}")(service.entity)
    turns.get("/search", response_model=list[Match])(service.search)
    turns.post("/link", response_model=list[Linked] | list[list[Linked]])(service.link)
    turns.post("/explain", response_model=list[Explained])(service.explain)

    async def reconcile(request: Request, queries: str | None = None, extend: str | None = None) -> Answer:
        """Answer queries or a request for data, both JSON, also in a form; without these, return the manifest."""
        try:
            form = dict(parse_qsl((await request.body()).decode("ascii"), max_num_fields=100, errors="strict"))
        except ValueError:  # also UnicodeDecodeError
            raise DataError("the body is not a form of at most 100 fields in UTF-8") from None
        if text := form.get("queries", queries):
            return await run_sync(reconciliation.queries, text)
        if text := form.get("extend", extend):
            return await run_sync(reconciliation.extend, text)
        return await run_sync(reconciliation.manifest, str(request.base_url))

    openapi = {"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": _FORM}}}}
    turns.get("/reconcile")(reconcile)
    turns.post("/reconcile", name="reconcile_form", openapi_extra=openapi)(reconcile)

    @app.get("/reconcile/preview", response_class=HTMLResponse)
    def preview(id: str) -> Response:  # noqa: A002
        """Show an entity."""
        return HTMLResponse(reconciliation.preview(id=id), headers=_NO_SCRIPTS)

    @app.options("/reconcile{path:path}", include_in_schema=False)
    def preflight(path: str) -> Response:
        return Response(status_code=204, headers={"Access-Control-Allow-Headers": "*"})

    turns.get("/reconcile/suggest/{kind}")(reconciliation.suggest)
    turns.get("/reconcile/properties")(reconciliation.propose)
    app.include_router(turns)
    return app

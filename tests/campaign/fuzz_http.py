"""Random requests to the service, to reconciliation and to the served page: an answer or a 4xx that says why."""

import asyncio
import atexit
import json
import random
from functools import cache, partialmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import mutations
from commands import refuse
from serve_builders import client_of, linker

import arbo
from campaign.runner import Campaign

_MARSH = {"text": "Marsh fever and a fen \U0001f98a.", "spans": [[0, 11], [18, 3]], "domain": None}
_LINKED = [_MARSH, {"text": "hill fever in the marsh"}]
_QUERIES = {
    "q0": {"query": "marsh fever", "type": "Disease", "limit": 3, "properties": [{"pid": "definition", "v": "fever"}]},
    "q1": {"query": "fen", "type": [{"id": "Place"}], "type_strict": "should"},
}
_EXTEND = {"ids": ["D:1", "D:2"], "properties": [{"id": "aliases"}, {"id": "year", "settings": {"limit": 1}}]}
_IDS = ["D:1", "X/1 ü", "P:1", "nobody"]
_BODIES: dict[str, Any] = {"/link": _LINKED, "/explain": _LINKED[0]}


def _check(response: Any) -> None:
    told = f"{response.request.method} {response.request.url!s:.300}: {response.status_code} {response.text:.300}"
    assert response.status_code < 500, told
    if response.headers.get("content-type", "").startswith("application/json"):
        value = json.loads(response.content, parse_constant=refuse)
        assert response.status_code < 400 or value["error"], told
    else:
        assert response.status_code in (200, 204, 307, 400, 404, 405), told


def _text(chance: random.Random, *usual: str) -> str:
    """Draw a usual text, one that was changed, or another."""
    how, usually = chance.random(), chance.choice(usual)
    drawn = usually if how < 0.3 else mutations.mutated_text(usually, chance) if how < 0.7 else mutations.text(chance)
    return drawn.encode("utf-8", "replace").decode()[:2000]


def _json(value: Any, chance: random.Random) -> bytes:
    """Change a value of JSON, or its bytes; sometimes nest it deeply."""
    if chance.random() < 0.03:
        return b"[" * chance.choice([900, 100_000])
    for _ in range(chance.choice([0, 1, 1, 2])):
        value = mutations.changed(value, chance)
    content = json.dumps(value, ensure_ascii=chance.random() < 0.7).encode("utf-8", "surrogatepass")
    return content if chance.random() < 0.8 else mutations.mutated(content, chance)


class _Client:
    """Asks a web application in this thread: a fifth of the time of Starlette's own client, which it is made of."""

    def __init__(self, client: Any) -> None:
        from httpx2 import ASGITransport, AsyncClient

        self._loop = asyncio.new_event_loop()
        self._asking = AsyncClient(transport=ASGITransport(client.app), base_url=client.base_url, follow_redirects=True)
        atexit.register(self._loop.close)

    def request(self, method: str, path: str, **options: Any) -> Any:
        return self._loop.run_until_complete(self._asking.request(method, path, **options))

    get, post = partialmethod(request, "GET"), partialmethod(request, "POST")


@cache
def _client() -> _Client:
    return _Client(client_of())


def _service(seed: int, folder: Path) -> None:
    chance, client = random.Random(seed), _client()
    kinds = "application/json", "text/plain", "application/x-www-form-urlencoded", ""
    headers = {"content-type": chance.choice(kinds)}
    path = chance.choice([*_BODIES, *_BODIES, "/entities", "/search", "/health", "/openapi.json", "*"])
    further = f"?candidates={quote(_text(chance, '3'))}", f"?collective={_text(chance, 'true')[:20]}"
    more = chance.choice(["", "", *further])
    if path in _BODIES:
        _check(client.post(path + quote(more, "?=%&"), content=_json(_BODIES[path], chance), headers=headers))
    elif path == "/entities":
        _check(client.get(f"/entities/{quote(_text(chance, *_IDS), chance.choice(['', '/']))}"))
    elif path == "/search":
        _check(client.get("/search", params={"q": _text(chance, "marsh", "fever"), "limit": _text(chance, "3", "1")}))
    else:
        method, other = chance.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS"]), quote(_text(chance, path, "/x"))
        _check(client.request(method, f"/{other.lstrip('/')}", content=_json({}, chance)))


def _reconcile(seed: int, folder: Path) -> None:
    chance, client = random.Random(seed), _client()
    name, value = chance.choice([("queries", _QUERIES), ("extend", _EXTEND)])
    how = chance.randrange(6)
    if how < 2:
        _check(client.get("/reconcile", params={name: _json(value, chance).decode("utf-8", "replace")[:9000]}))
    elif how < 4:
        form = {name: _json(value, chance).decode("utf-8", "replace")}
        content = None if chance.random() < 0.8 else mutations.mutated(f"{name}={quote(form[name])}".encode(), chance)
        typed = {"content": content, "headers": {"content-type": "application/x-www-form-urlencoded"}}
        _check(client.post("/reconcile", **({"data": form} if content is None else typed)))
    elif how == 4:
        kind, prefix = _text(chance, "entity", "type", "property"), _text(chance, "mar", "D", "def")
        given = {"prefix": prefix, "cursor": _text(chance, "0")}
        _check(client.get(f"/reconcile/suggest/{quote(kind, '')}", params=given))
    else:
        path, key = chance.choice([("properties", "type"), ("preview", "id"), ("properties", "limit")])
        _check(client.get(f"/reconcile/{path}", params={key: _text(chance, *_IDS, "Disease", "10")}))


_KEPT = TemporaryDirectory(prefix="arbo-campaign-http-")
_TOKEN = "secret"
_ANSWERS = ["accept", "candidate", "nil", "new", "not", "same", "different", "drop", "skip", "undo"]


@cache
def _page() -> tuple[Any, list[str]]:
    """Return a client of a served page, and ids that it knows."""
    from starlette.testclient import TestClient

    from arbo.explore.page import Page, app_of

    root = Path(_KEPT.name)
    documents, _ = arbo.load_sample()
    result = linker().link(documents[:3])
    result.save(root / "run")
    page = Page(arbo.open_run(root / "run"), root / "reviewed", root / "answers.jsonl", tell=print)
    client = _Client(TestClient(app_of(page, _TOKEN), base_url="http://127.0.0.1:8000"))
    ids = [link.mention.id for link in result.links[:4]] + [link.cluster for link in result.links[:4]]
    return client, [*ids, documents[0].id, "D:1"]


def _explore(seed: int, folder: Path) -> None:
    from arbo.explore.page import BLOCKS, QUESTIONS

    chance, (client, ids) = random.Random(seed), _page()
    known = ["words", "row", "id", "mention_id", "x"]
    usual = [*ids, "10", "0", "2", "fever", "a"]
    headers = {"x-arbo-token": _TOKEN if chance.random() < 0.95 else quote(_text(chance, _TOKEN)[:99])}
    how = chance.random()
    if how < 0.65:
        view = chance.choice([*BLOCKS, "texts", "entity", *(f"review/{name}" for name in QUESTIONS)])
        names = chance.sample(known, chance.choice([0, 1, 1, 2, 3]))
        if view in ("texts", "entity", "review/question") and chance.random() < 0.8:
            names = ["row" if view == "texts" else "id"]
        _check(client.get(f"/api/{view}", params={name: _text(chance, *usual) for name in names}, headers=headers))
    elif how < 0.95:
        answer = {"mention_id": chance.choice(ids), "answer": chance.choice(_ANSWERS)}
        answer["value"] = chance.choice([*ids, "x", "", mutations.text(chance)])
        _check(client.post("/api/review/answer", content=_json(answer, chance), headers=headers))
    else:
        _check(client.get(f"/{quote(_text(chance, 'index.html', 'page.js', '../page.py', 'api'))}", headers=headers))


_ASKS = "every request gets JSON, or a 4xx with a sentence"
_CASES = {"service": _service, "reconcile": _reconcile, "explore": _explore}
CAMPAIGNS = {name: Campaign(case, _ASKS, many=200_000, few=240, seconds=60) for name, case in _CASES.items()}

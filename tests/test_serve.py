"""The service: its answers without HTTP, its limits, and its web application."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from serve_builders import KB, client_of, fits, service_of

import arbo
from arbo.errors import DataError, UsageError
from arbo.serve.reconciliation import Reconciliation
from arbo.serve.requests import Refused
from arbo.serve.service import Service

pytest.importorskip("starlette")

TEXT = {"text": "Marsh fever is no hill fever.", "spans": [[0, 11], [18, 10]]}


# Without HTTP


def test_a_text_is_linked_as_the_linker_links_it() -> None:
    first, second = service_of().link(TEXT)
    assert {**first, "candidates": first["candidates"][:1]} == {
        "start": 0,
        "end": 11,
        "text": "Marsh fever",
        "id": "D:1",
        "name": "marsh fever",
        "score": 1.0,
        "cluster": "D:1",
        "candidates": [{"id": "D:1", "name": "marsh fever", "score": 1.0}],
    }
    assert (second["start"], second["end"], second["text"], second["id"]) == (18, 28, "hill fever", "D:2")
    assert [len(link["candidates"]) for link in service_of().link(TEXT, candidates=2)] == [2, 2]


def test_without_spans_the_mentions_are_found() -> None:
    assert [link["text"] for link in service_of().link({"text": TEXT["text"]})] == ["Marsh fever", "hill fever"]
    assert [link["text"] for link in service_of().link({"text": TEXT["text"], "spans": None})] != []
    assert service_of().link({"text": TEXT["text"], "spans": []}) == []
    assert service_of().link({"text": ""}) == []


def test_texts_of_a_list_are_linked_alone_unless_asked_otherwise() -> None:
    """A new name in two texts is one new entity only if the texts are linked together."""
    texts = [{"text": "zyxomma petiolatum", "spans": [[0, 18]]}, {"text": "Zyxomma petiolatum", "spans": [[0, 18]]}]
    (alone,), (other,) = service_of().link(texts)
    assert (alone["id"], alone["cluster"], other["cluster"]) == (None, "new-1:0-18", "new-2:0-18")
    (one,), (same,) = service_of().link(texts, collective=True)
    assert (one["cluster"], same["cluster"]) == ("new-1:0-18", "new-1:0-18")
    assert service_of().link([TEXT, {"text": "fen"}])[0] == service_of().link(TEXT)
    assert service_of().link([TEXT, TEXT])[1] == service_of().link(TEXT)


def test_links_equal_those_of_the_library() -> None:
    documents, kb = arbo.load_sample()
    service = Service(arbo.Linker(kb))
    for document in documents[:3]:
        spans = [[m.start, m.end - m.start] for m in document.mentions]
        links = service.link({"text": document.text, "spans": spans, "domain": document.domain}, candidates=100)
        expected = arbo.Linker(kb).link([document]).links
        assert [(one["id"], one["score"]) for one in links] == [(one.entity, one.score) for one in expected]
        candidates = [tuple((c["id"], c["score"]) for c in one["candidates"]) for one in links]
        assert candidates == [one.candidates for one in expected]


def test_explanations_have_the_path_and_the_rivals() -> None:
    (why, *_) = service_of().explain(TEXT)
    assert (why["id"], why["text"], why["weakest"]) == ("D:1", "Marsh fever", 1)
    assert [step["id"] for step in why["path"]] == ["D:1", "1:0-11"]
    assert why["rivals"][0]["id"] in ("D:2", "P:1")
    assert why["explanation"].startswith('"Marsh fever" in 1 is marsh fever (D:1)')
    assert service_of().explain({"text": ""}) == []


def test_pubannotation_gets_ids_as_objects() -> None:
    given = {
        "text": TEXT["text"],
        "sourcedb": "PubMed",
        "denotations": [
            {"id": "T1", "span": {"begin": 18, "end": 28}, "obj": "Disease"},
            {"id": "T2", "span": {"begin": 12, "end": 17}, "obj": "Disease"},
            {"id": "T3", "span": [{"begin": 6, "end": 11}, {"begin": 0, "end": 5}]},
        ],
    }
    told = service_of().pubannotation(given)
    assert [one.get("obj") for one in told["denotations"]] == ["D:2", "NIL", "D:1"]
    assert {**told, "denotations": 0} == {**given, "denotations": 0}
    found = service_of().pubannotation({"text": TEXT["text"]})["denotations"]
    assert found[0] == {"id": "T1", "span": {"begin": 0, "end": 11}, "obj": "D:1"}
    assert len(found) == 2


def test_entities_and_searches() -> None:
    service = service_of()
    assert service.entity(id="D:9")["id"] == "D:2"
    assert service.entity(id="X/1 ü")["name"] == KB["X/1 ü"].name
    with pytest.raises(Refused, match="no entity has the id or alternative id 'D:3'") as refused:
        service.entity(id="D:3")
    assert refused.value.status == 404
    found = service.search(q="swamp fevers", limit=2)
    assert [(one["id"], one["types"]) for one in found] == [("D:1", ["Disease"]), ("D:2", ["Disease"])]
    assert service.search(q=" ") == service.search(q="zzz") == []
    assert service.health()["entities"] == 4


def test_metadata_without_a_number_are_answered() -> None:
    """Python reads NaN from a file of JSON, but JSON has none."""
    service = Service(arbo.Linker(arbo.KnowledgeBase([arbo.Entity("D:1", "x", metadata={"w": [float("nan"), 1.0]})])))
    assert client_of(service).get("/entities/D:1").json()["w"] == [None, 1.0]
    extended = Reconciliation(service).extend('{"ids": ["D:1"], "properties": [{"id": "w"}]}')
    assert extended["rows"] == {"D:1": {"w": [{"float": 1.0}]}}


def test_domains_are_kept_apart() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("A:1", "mercury", domain="a"), arbo.Entity("B:1", "mercury", domain="b")])
    service = Service(arbo.Linker(kb))
    service.warm()
    texts = [{"text": "Mercury", "spans": [[0, 7]], "domain": domain} for domain in ("a", "b")]
    assert [link["id"] for (link,) in service.link(texts)] == ["A:1", "B:1"]
    assert [link["id"] for (link,) in service.link(texts, collective=True)] == ["A:1", "B:1"]
    unknown = {**texts[0], "domain": "c"}
    for body, number in ((unknown, 1), ([*texts, unknown], 3)):
        with pytest.raises(UsageError, match=f"no entity is in the domain 'c' of text {number}; correct it"):
            service.link(body)
    assert service.link([*texts, {**unknown, "spans": []}])[2] == []


def test_searches_find_entities_of_all_domains_and_types() -> None:
    fevers = [arbo.Entity(f"{d}:1", f"{d} fever", (), None, (t,), domain=d) for d, t in ("ax", "by")]
    service = Service(arbo.Linker(arbo.KnowledgeBase(fevers), config=arbo.LinkerConfig(map_types="X=x,Y=y")))
    service.warm()
    assert {one["id"] for one in service.search(q="fever")} == {"a:1", "b:1"}
    assert Reconciliation(service).threshold > 0
    texts = [{"text": "b fever", "spans": [[0, 7]], "domain": "b"}, {"text": "nothing"}]
    assert service.link(texts) == [service.link(texts[0]), []]


def test_a_service_needs_entities() -> None:
    for linker in (arbo.Linker(), arbo.Linker(arbo.KnowledgeBase())):
        with pytest.raises(UsageError, match="needs a knowledge base"):
            Service(linker)


_OUTSIDE = r"must have integers, and lie inside the text, which has 7 Unicode"
_INVALID_SPANS = ([0], [0, 1, 2], 3, [0, 0], [-1, 3], [7, 1], [0, 8], [True, 1], [0.0, 1], [10**4000, 1], [None, 1])


@pytest.mark.parametrize(
    ("method", "body", "message"),
    [
        ("link", {}, "needs the key 'text'"),
        ("link", 7, "must be a JSON object"),
        ("link", [TEXT, 7], "text 2 must be a JSON object"),
        ("link", {"text": None}, "'text' of text 1 must be a string"),
        ("link", {"text": "a", "span": []}, "unknown key 'span' of text 1; known are text, spans, domain"),
        ("link", {"text": "a", "spans": {}}, "'spans' of text 1 must be a list"),
        *(("link", {"text": "a fever", "spans": [span]}, _OUTSIDE) for span in _INVALID_SPANS),
        *(
            ("pubannotation", {"text": "a fever", "denotations": denotations}, "denotation")
            for denotations in (7, [7], [{}], [{"span": {"begin": 0, "end": 99}}], [{"span": {"begin": "0", "end": 1}}])
        ),
        ("explain", [TEXT], "one text at a time"),
    ],
)
def test_an_invalid_text_is_refused_without_quoting_it(method: str, body: Any, message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        getattr(service_of(), method)(body)


_PIECES = [{"begin": 0, "end": 9}, {"begin": 0, "end": 8}]


@pytest.mark.parametrize(
    ("limits", "method", "body", "message"),
    [
        ({"texts": 2}, "link", [TEXT] * 3, "3 texts, but at most 2 are allowed"),
        ({"mentions": 1}, "link", TEXT, "2 spans, but at most 1"),
        ({"mentions": 1}, "link", {"text": TEXT["text"]}, "2 mentions, but at most 1"),
        ({"mentions": 1}, "pubannotation", {"text": "a", "denotations": [1, 2]}, "2 denotations, but at most 1"),
        ({"body": 16}, "link", {"text": "marsh fever is no", "spans": [[0, 9], [1, 8]]}, "17 characters in its spans"),
        ({"body": 16}, "link", {"text": "marsh fever is no", "spans": [[0, 17]]}, "17 characters in its spans"),
        ({"body": 16}, "pubannotation", {"text": "marsh fever", "denotations": [{"span": _PIECES}]}, "17 characters"),
        ({"seconds": -1}, "link", TEXT, "take more than -1 seconds"),
    ],
)
def test_limits_on_texts_mentions_and_time(limits: Any, method: str, body: Any, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        getattr(service_of(**limits), method)(body)
    assert refused.value.status == 413


# By HTTP


def test_the_openapi_document_describes_the_routes_and_their_answers() -> None:
    client = client_of()
    document = client.get("/openapi.json").json()
    routes = [(route.path.replace(":path", ""), route.methods - {"HEAD", "OPTIONS"}) for route in client.app.routes]
    found = {(path, method.lower()) for path, methods in routes for method in methods}
    assert found == {(path, method) for path, methods in document["paths"].items() for method in methods}
    linked = [TEXT, {"text": "zzz", "spans": [[0, 3]]}]
    bodies: dict[str, Any] = {"/link": linked, "/explain": TEXT, "/pubannotation": {"text": "marsh fever"}}
    values = {"id": "D:1", "kind": "entity", "q": "fever", "prefix": "fe"}
    schemas = document["components"]["schemas"]
    for path, method in sorted(found):
        described = document["paths"][path][method]
        required = [one for one in described.get("parameters", ()) if one.get("required")]
        query = {one["name"]: values[one["name"]] for one in required if one["in"] == "query"}
        sent = {"json": bodies[path]} if path in bodies else {"data": {"queries": "{}"}} if method == "post" else {}
        if path in bodies:
            body = described["requestBody"]["content"]["application/json"]["schema"]
            assert fits(bodies[path], body, schemas), path
        response = client.request(method, path.format(**values), params=query, **sent)
        assert response.status_code == 200, (path, response.text)
        ((kind, content),) = described["responses"]["200"]["content"].items()
        assert response.headers["content-type"].startswith(kind)
        assert fits(response.text if kind == "text/html" else response.json(), content["schema"], schemas), path
    assert fits(client.get("/nothing").json(), schemas["Error"], schemas)


HOSTILE = [
    b"",
    b"{",
    b"null",
    b"NaN",
    b"\xff\xfe",
    b'{"text": "a", "id": NaN}',
    b'{"text": "\\ud800"}',
    b'{"\\ud800": 1, "text": "a"}',
    b'{"text": "\\u0000"}',
    b'{"text": "a", "text": "b"}',
    b'{"text": ["a"]}',
    b'{"text": "a", "spans": [[0, 1e999]]}',
    b'{"text": "a", "spans": [[0, 1e5]]}',
    b'{"text": "a", "spans": [[' + b"9" * 5000 + b", 1]]}",
    b'{"text": "a", "denotations": [{"span": {"begin": -1, "end": 1e400}}]}',
    b"[" * 100_000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"[1" + b",1" * 500 + b"]",
    b"x" * 10_000_000,
]


@pytest.mark.parametrize("path", ["/link", "/explain", "/pubannotation", "/reconcile"])
def test_hostile_bodies_get_4xx_and_a_plain_message(path: str, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of()
    for body in HOSTILE:
        if path == "/reconcile":
            body = b"queries=" + body.replace(b"+", b"%2b")
        with caplog.at_level(logging.INFO):
            response = client.post(path, content=body)
        if (path == "/reconcile" and body == b"queries=") or (path == "/pubannotation" and b'"spans"' in body[:22]):
            assert response.status_code < 500  # a manifest, and a key that is not read
            continue
        assert 400 <= response.status_code < 500, (body[:99], response.text)
        message = response.json()["error"]
        assert "Traceback" not in message
        assert len(message) < 400
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/entities/D:3", 404, "no entity"),
        ("/nothing", 404, "openapi.json"),
        ("/link", 405, "openapi.json"),
        ("/search", 400, "'q' is missing"),
        ("/search?q=a&limit=0", 400, "'limit' must be a number from 1 to 100"),
        ("/search?q=a&limit=000000000000005", 400, "'limit' must be"),
        ("/search?q=a&limit=٣", 400, "'limit' must be"),
        ("/search?q=a&k=3", 400, "unknown parameter 'k'; known are q, limit"),
        ("/search?q=%00", 400, "NUL"),
        ("/health?x=1", 400, "unknown parameter 'x'"),
        ("/reconcile/suggest/thing?prefix=a", 400, "must be one of entity, property, type"),
    ],
)
def test_an_invalid_request_says_what_is_wrong(path: str, status: int, told: str) -> None:
    response = client_of().get(path)
    assert (response.status_code, told in response.json()["error"]) == (status, True), response.text


def test_parameters_of_links() -> None:
    client = client_of()
    wrong = client.post("/link?collective=yes", json=TEXT).json()
    assert wrong == {"error": "the parameter 'collective' must be true or false"}
    assert client.post("/link?candidates=0&collective=true", json=TEXT).json()[0]["candidates"] == []
    assert client.get("/entities/X%2F1%20%C3%BC").json()["id"] == "X/1 ü"


def test_a_deeply_nested_document_is_answered_or_refused() -> None:
    for depth in (10, 300, 700, 900, 990):
        body = b'{"text": "marsh", "x": ' + b"[" * depth + b"]" * depth + b"}"
        assert client_of().post("/pubannotation", content=body).status_code in (200, 400)


def test_another_host_is_refused_unless_all_are_served() -> None:
    headers = {"Host": "evil.example:8000"}
    assert client_of().get("/health", headers=headers).status_code == 400
    assert client_of().get("/health", headers={"Host": "localhost:8000"}).status_code == 200
    assert client_of(hosts=("*",)).get("/health", headers=headers).status_code == 200


def test_logs_have_neither_texts_nor_what_is_sought(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the log of an error, or its answer, beside the code that raised it."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"the secret {TEXT}")

    with caplog.at_level(logging.INFO):
        client = client_of()
        client.post("/link", json=TEXT)
        client.get("/search?q=fever")
        client.get("/entities/fever")
        monkeypatch.setattr("arbo.serve.service.texts_of", fail)
        response = client.post("/link", json=TEXT)
    assert (response.status_code, "secret" in response.text) == (500, False)
    told = "\n".join(record.getMessage() for record in caplog.records if record.name == "arbo.serve.app")
    assert "POST /link 200" in told
    assert "GET /entities/{id} 404" in told
    assert "ValueError in /link" in told
    assert "fever" not in told.lower()
    assert "q=" not in told


def test_a_request_waits_for_its_turn_and_then_gives_up() -> None:
    """While one request is answered, others wait; health is told at once."""
    import threading

    service = service_of(seconds=1)
    client, begun, go_on = client_of(service), threading.Event(), threading.Event()
    linker = type(service.linker)

    def slow(*_: object) -> list[str]:
        begun.set()
        assert go_on.wait(30)
        return []

    with client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(linker, "candidates", slow)
        patch.setattr("arbo.serve.service.Service.nearest", lambda *_: slow())
        first = threading.Thread(target=lambda: client.get("/reconcile/suggest/entity?prefix=a"))
        first.start()
        assert begun.wait(30)
        assert client.get("/health").status_code == 200
        busy = client.post("/link", json=TEXT)
        assert (busy.status_code, "busy" in json.loads(busy.text)["error"]) == (503, True)
        go_on.set()
        first.join(30)


def test_a_slow_body_is_given_up() -> None:
    import anyio

    from arbo.serve.app import app_of

    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/link",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }

    async def receive() -> dict[str, Any]:
        await anyio.sleep(60)
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(app_of(service_of(seconds=0)), {**scope, "scheme": "http", "server": ("localhost", 80)}, receive, send)
    assert sent[0]["status"] == 408
    assert b"did not arrive within 0 seconds" in sent[1]["body"]

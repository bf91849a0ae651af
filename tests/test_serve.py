"""The service: its answers, its limits, what it refuses, and the verb that starts it."""

import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.request import urlopen

import pytest
from conftest import Run
from serve_builders import KB, client_of, service_of

import arbo
from arbo.errors import UsageError

pytest.importorskip("fastapi")

from arbo.serve.reconciliation import Reconciliation
from arbo.serve.service import Service, Text
from arbo.serve.web import Limits

TEXT = {"text": "Marsh fever is no hill fever.", "spans": [[0, 11], [18, 10]]}


def ask(path: str, body: Any = None, service: Service | None = None, **parameters: Any) -> Any:
    """Return the answer to a body, or without one to a GET request."""
    how = {} if body is None else {"json": body}
    response = client_of(service).request("POST" if how else "GET", path, params=parameters, **how)
    assert response.status_code == 200, response.text
    return response.json()


def test_without_spans_the_mentions_are_found() -> None:
    for more in ({}, {"spans": None}):
        assert [link["text"] for link in ask("/link", {"text": TEXT["text"], **more})] == ["Marsh fever", "hill fever"]
    assert ask("/link", {"text": TEXT["text"], "spans": []}) == ask("/link", {"text": ""}) == []


def test_texts_of_a_list_are_linked_alone_unless_asked_otherwise() -> None:
    """A new name in two texts is one new entity only if the texts are linked together."""
    texts = [{"text": "zyxomma petiolatum", "spans": [[0, 18]]}, {"text": "Zyxomma petiolatum", "spans": [[0, 18]]}]
    (alone,), (other,) = ask("/link", texts)
    assert (alone["id"], alone["cluster"], other["cluster"]) == (None, "new-1:0-18", "new-2:0-18")
    (one,), (same,) = ask("/link", texts, collective=True)
    assert (one["cluster"], same["cluster"]) == ("new-1:0-18", "new-1:0-18")
    assert ask("/link", [TEXT, {"text": "fen"}])[0] == ask("/link", TEXT)
    assert ask("/link", [TEXT, TEXT])[1] == ask("/link", TEXT)


def test_links_equal_those_of_the_library() -> None:
    documents, kb = arbo.load_sample()
    service = Service(arbo.Linker(kb))
    for document in documents[:3]:
        spans = [[m.start, m.end - m.start] for m in document.mentions]
        body = {"text": document.text, "spans": spans, "domain": document.domain}
        links = ask("/link", body, service, candidates=100)
        for one, link in zip(links, arbo.Linker(kb).link([document]).links, strict=True):
            name = kb[link.entity].name if link.entity else None
            expected = [link.mention.text, link.entity, name, link.score]
            assert [one[key] for key in ("text", "id", "name", "score")] == expected
            assert (one["start"], one["end"]) == (link.mention.start, link.mention.end)
            assert [tuple(c.values()) for c in one["candidates"]] == [(i, kb[i].name, s) for i, s in link.candidates]
    assert [len(link["candidates"]) for link in ask("/link", TEXT, candidates=2)] == [2, 2]
    for linker in (arbo.Linker(), arbo.Linker(arbo.KnowledgeBase())):
        with pytest.raises(UsageError, match="needs a knowledge base"):
            Service(linker)


def test_explanations_have_the_path_and_the_rivals() -> None:
    (why, *_) = ask("/explain", TEXT)
    assert (why["id"], why["text"], why["weakest"]) == ("D:1", "Marsh fever", 1)
    assert [step["id"] for step in why["path"]] == ["D:1", "1:0-11"]
    assert why["rivals"][0]["id"] in ("D:2", "P:1")
    assert why["explanation"].startswith('"Marsh fever" in 1 is marsh fever (D:1)')
    assert ask("/explain", {"text": ""}) == []


def test_entities_and_searches() -> None:
    assert (ask("/entities/D:9")["id"], ask("/entities/X%2F1%20%C3%BC")["name"]) == ("D:2", KB["X/1 ü"].name)
    matches = ask("/search", q="swamp fevers", limit=2)
    assert [(one["id"], one["types"]) for one in matches] == [("D:1", ["Disease"]), ("D:2", ["Disease"])]
    assert ask("/search", q=" ") == ask("/search", q="zzz") == []
    assert ask("/health")["entities"] == 4
    # Python reads NaN from a file of JSON, but JSON has none.
    service = Service(arbo.Linker(arbo.KnowledgeBase([arbo.Entity("D:1", "x", metadata={"w": [float("nan"), 1.0]})])))
    assert ask("/entities/D:1", None, service)["w"] == [None, 1.0]
    extended = Reconciliation(service).extend('{"ids": ["D:1"], "properties": [{"id": "w"}]}')
    assert extended["rows"] == {"D:1": {"w": [{"float": 1.0}]}}


def test_domains_are_kept_apart() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("A:1", "mercury", domain="a"), arbo.Entity("B:1", "mercury", domain="b")])
    service = Service(arbo.Linker(kb))
    service.warm()
    texts = [{"text": "Mercury", "spans": [[0, 7]], "domain": domain} for domain in "abc"]
    for collective in (False, True):
        assert [link["id"] for (link,) in ask("/link", texts[:2], service, collective=collective)] == ["A:1", "B:1"]
    for body, number in ((texts[2], 1), (texts, 3)):
        answer = client_of(service).post("/link", json=body)
        assert f"no entity is in the domain 'c' of text {number}; correct it" in answer.json()["error"]
    assert ask("/link", [*texts[:2], {**texts[2], "spans": []}], service)[2] == []


def test_searches_find_entities_of_all_domains_and_types() -> None:
    fevers = [arbo.Entity(f"{d}:1", f"{d} fever", (), None, (t,), domain=d) for d, t in ("ax", "by")]
    service = Service(arbo.Linker(arbo.KnowledgeBase(fevers), config=arbo.LinkerConfig(map_types="X=x,Y=y")))
    service.warm()
    assert {one["id"] for one in service.search(q="fever")} == {"a:1", "b:1"}
    assert Reconciliation(service).threshold > 0
    texts = [{"text": "b fever", "spans": [[0, 7]], "domain": "b"}, {"text": "nothing"}]
    assert ask("/link", texts, service) == [ask("/link", texts[0], service), []]


_INVALID_SPANS = ([0], [0, 1, 2], 3, [0, 0], [-1, 3], [7, 1], [0, 8], [True, 1], [0.0, 1], [10**3000, 1], [None, 1])


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/link", {}, "text: Field required"),
        ("/link", 7, "body"),
        ("/link", [TEXT, 7], "list[Text].1: Input should be a valid dictionary"),
        ("/link", {"text": None}, "text: Input should be a valid string"),
        ("/link", {"text": "a", "span": []}, "span: Extra inputs are not permitted"),
        ("/link", {"text": "a", "spans": {}}, "spans: Input should be a valid list"),
        *(("/link", {"text": "a fever", "spans": [span]}, "span") for span in _INVALID_SPANS),
        ("/explain", [TEXT], "body: Input should be a valid dictionary"),
        ("/link?collective=maybe", TEXT, "collective: Input should be a valid boolean"),
        ("/link?candidates=101", TEXT, "candidates: Input should be less than or equal to 100"),
        ("/entities/D:3", None, "no entity has the id or alternative id 'D:3'"),
        ("/nothing", None, "openapi.json"),
        ("/link", None, "openapi.json"),
        ("/search", None, "q: Field required"),
        ("/search?q=a&limit=0", None, "limit: Input should be greater than or equal to 1"),
        ("/search?q=a&k=3", None, "unknown parameter 'k'; known are q, limit"),
        ("/search?q=%00", None, "NUL"),
        ("/health?x=1", None, "unknown parameter 'x'"),
        ("/reconcile/suggest/thing?prefix=a", None, "kind: Input should be 'entity', 'property' or 'type'"),
    ],
)
def test_an_invalid_request_is_refused_without_quoting_a_text(path: str, body: Any, words: str) -> None:
    response = client_of().get(path) if body is None else client_of().post(path, json=body)
    status = {"/entities/D:3": 404, "/nothing": 404, "/link": 405}.get(path, 400) if body is None else 400
    assert (response.status_code, words in response.json()["error"]) == (status, True), response.text
    assert "fever" not in response.text


def test_limits() -> None:
    for limits, path, body, words in (
        ({"texts": 2}, "/link", [TEXT] * 3, "3 texts, but at most 2 are allowed"),
        ({"mentions": 1}, "/link", TEXT, "2 spans, but at most 1"),
        ({"mentions": 1}, "/link", {"text": TEXT["text"]}, "2 mentions, but at most 1"),
        ({"body": 200}, "/link", {"text": "x" * 99, "spans": [[0, 99], [0, 99], [0, 3], [2, -1]]}, "201 characters"),
        ({"body": 9}, "/link", TEXT, "more than 9 bytes"),
    ):
        response = client_of(service_of(**limits)).post(path, json=body)
        assert (response.status_code, words in response.json()["error"]) == (413, True), response.text


def test_the_openapi_document_is_made_of_the_methods() -> None:
    paths = ask("/openapi.json")["paths"]
    assert {*paths} == {
        *("/health", "/link", "/explain", "/entities/{id}", "/search"),
        *("/reconcile", "/reconcile/suggest/{kind}", "/reconcile/properties", "/reconcile/preview"),
    }
    link = paths["/link"]["post"]
    assert [one["name"] for one in link["parameters"]] == ["collective", "candidates"]
    schema = link["requestBody"]["content"]["application/json"]["schema"]
    assert schema["anyOf"][0] == {"$ref": "#/components/schemas/Text"}
    assert {*link["responses"]} == {"200", "default"}
    for page in ("/docs", "/redoc"):  # they would load scripts from elsewhere
        assert client_of().get(page).status_code == 404


HOSTILE = [
    *(b"", b"{", b"null", b"NaN", b"\xff\xfe", b"[" * 100_000, b"[1" + b",1" * 500 + b"]", b"x" * 10_000_000),
    *(b'{"text": "a", "id": NaN}', b'{"text": "\\ud800"}', b'{"\\ud800": 1, "text": "a"}', b'{"text": "\\u0000"}'),
    *(b'{"text": ["a"]}', b'{"a":' * 900 + b"1" + b"}" * 900),
    *(b'{"text": "a", "spans": [[' + number + b", 1]]}" for number in (b"1e999", b"1e5", b"9" * 5000)),
]


@pytest.mark.parametrize("path", ["/link", "/explain", "/reconcile"])
def test_hostile_bodies_get_4xx_and_a_plain_message(path: str, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of()
    for body in HOSTILE:
        if path == "/reconcile":
            body = b"queries=" + body.replace(b"+", b"%2b")
        with caplog.at_level(logging.INFO):
            response = client.post(path, content=body)
        if path == "/reconcile" and body == b"queries=":
            assert response.status_code < 500  # a manifest
            continue
        assert 400 <= response.status_code < 500, (body[:99], response.text)
        message = response.json()["error"]
        assert "Traceback" not in message
        assert len(message) < 400
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_another_host_is_refused_unless_all_are_served() -> None:
    one, every = client_of(), client_of(hosts=("*",))
    for client, host, code in ((one, "evil.example", 400), (one, "localhost", 200), (every, "evil.example", 200)):
        assert client.get("/health", headers={"Host": f"{host}:8000"}).status_code == code


def test_logs_have_no_text_or_search(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the log of an error, or its answer, beside the code that raised it."""
    with caplog.at_level(logging.INFO):
        client = client_of()
        client.post("/link", json=TEXT)
        client.get("/search?q=fever")
        client.get("/entities/fever")
        monkeypatch.setattr("arbo.serve.service.marked_document", Mock(side_effect=ValueError(f"the secret {TEXT}")))
        response = client.post("/link", json=TEXT)
    assert (response.status_code, "secret" in response.text) == (500, False)
    log = "\n".join(record.getMessage() for record in caplog.records if record.name == "arbo.serve.web")
    words = ("post /link 200", "get /entities/{id} 404", "valueerror in /link", "fever", "q=")
    assert [word in log.lower() for word in words] == [True] * 3 + [False] * 2


def test_a_request_waits_for_its_turn_and_then_gives_up() -> None:
    """While one request is answered, others wait; health is told at once."""
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
    scope = {"type": "http", "method": "POST", "path": "/link", "query_string": b"", "scheme": "http"}
    scope |= {"headers": [(b"host", b"localhost")], "server": ("localhost", 80)}

    async def receive() -> dict[str, Any]:
        await anyio.sleep(60)
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(app_of(service_of(seconds=0)), scope, receive, send)
    assert sent[0]["status"] == 408
    assert b"did not arrive within 0 seconds" in sent[1]["body"]


_HEAD = b"GET /large HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(("begin", "more", "out"), [(b"", b"", 0), (_HEAD, b"a", 0), (_HEAD + b"\r\n", b"", 1)])
def test_waiting_clients_are_closed(begin: bytes, more: bytes, out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send no header, or send it byte by byte, keep nobody out; those that do not read, not for long."""
    import uvicorn
    from fastapi import Response

    from arbo.serve import web

    servers: list[Any] = []
    startup = uvicorn.Server.startup
    monkeypatch.setattr(uvicorn.Server, "startup", lambda self, **how: servers.append(self) or startup(self, **how))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for name, value in (("WAIT", 0.5), ("CONNECTIONS", 20)):
        monkeypatch.setattr(web, name, value)
    app, large = web.application(web.Rules(Limits(), "-")), Response(b"a" * 8_000_000)
    app.get("/health")(lambda: "well")
    app.get("/large")(lambda: large)
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as stack:
        serving = threading.Thread(target=web.serve, args=(app, listening))
        serving.start()
        clients = [stack.enter_context(socket.create_connection(listening.getsockname(), 30)) for _ in range(30)]
        for content in (begin, b"", *[more] * 20):
            time.sleep(0.1)
            for client in clients:
                with suppress(OSError):
                    client.sendall(content)
            assert content or out or status_of(listening) == 200
        assert status_of(listening) == 200
        assert not any(map(_is_open, clients))
        servers[0].should_exit = True
        serving.join(30)
    assert not serving.is_alive()


def _is_open(client: socket.socket) -> bool:
    """Return whether a client would wait for more than the server sent."""
    client.settimeout(1)
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        return True
    except OSError:
        pass
    return False


def status_of(listening: socket.socket) -> int:
    with urlopen(f"http://127.0.0.1:{listening.getsockname()[1]}/health", timeout=30) as answer:
        return int(answer.status)


@pytest.fixture(scope="module")
def kb_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("serve") / "kb.jsonl"
    KB.to_jsonl(file)
    return file


@pytest.mark.slow
def test_a_stopped_service_answers_first(kb_file: Path) -> None:
    command = [sys.executable, "-m", "arbo", "serve", "--kb", str(kb_file), "--port", "0"]
    body = json.dumps({"text": "marsh fever"}).encode()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        places = (re.search(r"http://(127\.0\.0\.1):(\d+)", line) for line in process.stderr)
        found = next(filter(None, places), None)
        assert found, "the service did not start"
        assert json.load(urlopen(f"{found[0]}/health", timeout=60))["entities"] == len(KB)
        with socket.create_connection((found[1], int(found[2])), timeout=60) as slow:
            head = f"POST /link HTTP/1.1\r\nHost: {found[1]}\r\nContent-Length: {len(body)}\r\n\r\n"
            slow.sendall(head.encode() + body[:5])
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            slow.sendall(body[5:])
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"id":"D:1"' in answer
        assert process.wait(60) == 0
        log = process.stderr.read()
    assert [word in log for word in ("POST /link 200", "stopped", "fever", "Traceback")] == [True, True, False, False]


def test_without_the_extra_a_verb_says_what_to_install(
    run: Run, kb_file: Path, result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "run")
    for module, words in (("serve.app", ["serve", "--kb", kb_file]), ("explore.page", ["explore", tmp_path / "run"])):
        monkeypatch.setitem(sys.modules, f"arbo.{module}", None)
        told = run(*words)
        assert (told.code, "run: pip install 'arbo[serve]'" in told.told) == (1, True)


def test_a_transformer_leaves_nothing_of_a_request_on_disk(
    run: Run, kb_file: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the web server: it gets a service that is warm, and its socket."""
    served: list[Service] = []
    monkeypatch.setattr("arbo.serve.app.app_of", lambda service, **_: served.append(service))
    monkeypatch.setattr("arbo.serve.web.serve", lambda *_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = run("serve", "--kb", kb_file, "--encoder", bert_folder, "--port", 0, "--json").ok()
    assert f"serving {len(KB)} entities at {told.json['address']}; Ctrl-C stops" in told.told
    served[0].link(Text(text="marsh fever"))
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]

"""What the page of another site, or of another name for this computer, can do to the page and the service."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from builders import document, linker

import arbo
from arbo.explore.report import report

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.slow

BAD = [
    "<img src=x onerror='window.harm=1'>",
    "</script><script>window.harm=1</script>",
    "<svg onload='window.harm=1'>",
    "javascript:window.harm=1",
    "\u202e<b>fo</b>\u2066",
    "{{constructor.constructor('window.harm=1')()}}",
    "'\"><iframe srcdoc='<script>parent.harm=1</script>'>",
]


class _Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>stranger</title><body></body>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """The address of a site of another origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@contextmanager
def started(*words: object) -> Iterator[str]:
    """Start a verb that serves, and yield its address; no log may have a token or what was asked."""
    command = [sys.executable, "-m", "arbo", *map(str, words), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["address"]
        finally:
            process.terminate()
            log = process.communicate(timeout=60)[1]
    assert "stopped" in log
    assert "Traceback" not in log
    assert not [word for word in ("token", "zzsecret", "harm") if word in log]


def read(browser: Browser, address: str, options: dict[str, Any] | None = None) -> str:
    """Return what a script of the present page reads at an address, or ``blocked``."""
    asked = f"fetch({json.dumps(address)}, {json.dumps(options or {})})"
    return str(browser.run(f"{asked}.then(answer => answer.text()).catch(() => 'blocked')"))


def loaded(browser: Browser, tag: str, address: str) -> str:
    """Put an element with an address into the present page, and return whether it was loaded."""
    script = f"""new Promise(done => {{
        const one = document.createElement('{tag}');
        one.onload = () => done('loaded'); one.onerror = () => done('no');
        one.src = {json.dumps(address)}; document.body.append(one);
    }})"""
    return str(browser.run(script))


def test_a_stranger_cannot_use_the_page(browser: Browser, stranger: str, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "zzsecret")])
    result = linker(kb).link([document("d", "zzsecret", "other")])
    result.save(tmp_path / "run")
    id_ = result.mention_table["mention_id"][0].as_py()
    with started("explore", tmp_path / "run") as address:
        own, _, token = address.partition("#token=")
        browser.navigate(stranger)
        browser.until("document.title === 'stranger'")
        answer = json.dumps({"mention_id": id_, "answer": "accept"})
        for path in ("api/overview", "api/tables", "", "app.js"):
            assert read(browser, own + path) == "blocked"
        for headers in ({}, {"X-Arbo-Token": token}, {"Content-Type": "text/plain"}):
            how = {"method": "POST", "body": answer, "headers": headers}
            assert read(browser, f"{own}api/review/answer", how) == "blocked"
            assert read(browser, f"{own}api/apply", how | {"mode": "no-cors"}) in ("", "blocked")
        assert loaded(browser, "script", f"{own}app.js") == "no"
        browser.run(f"""(() => {{
            const frame = document.createElement('iframe'); frame.name = 'f'; document.body.append(frame);
            const form = document.createElement('form'); form.method = 'post'; form.enctype = 'text/plain';
            form.target = 'f'; form.action = '{own}api/review/answer';
            const field = document.createElement('input');
            field.name = '{{"answer":"accept","mention_id":"{id_}","value":"';
            field.value = '"}}'; form.append(field); document.body.append(form); form.submit();
        }})()""")
        browser.run("new Promise(done => setTimeout(done, 500))")
        browser.run(f"window.other = window.open('{address}'); 1")
        browser.run("new Promise(done => setTimeout(done, 1000))")
        assert browser.run("(() => { try { return other.document.title } catch { return 'blocked' } })()") != "arbo"
        rebound = own.replace("127.0.0.1", "evil.localhost")
        browser.navigate(rebound)
        browser.until("location.hostname === 'evil.localhost'")
        assert "Invalid host header" in browser.text("body")
        assert not (tmp_path / "run.corrections.jsonl").exists()
        assert not (tmp_path / "run-reviewed").exists()


def test_no_address_of_the_page_keeps_the_token(browser: Browser, tmp_path: Path) -> None:
    linker(None).discover([document("d", "flu")]).save(tmp_path / "run")
    with started("explore", tmp_path / "run") as address:
        token = address.partition("#token=")[2]
        browser.requests.clear()
        browser.navigate(address)
        browser.until("document.querySelector('#main[data-ready]') !== null")
        assert token not in browser.run("location.href")
        assert not [one for one in browser.requests if token in one.partition("#")[0]]
        assert browser.run("document.cookie + Object.keys(localStorage).join()").find(token) < 0


def test_a_stranger_can_only_reconcile(browser: Browser, stranger: str, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", name, (name,), name) for i, name in enumerate(BAD)])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    with started("serve", "--kb", tmp_path / "kb.jsonl", "--port", 0) as address:
        browser.navigate(stranger)
        browser.until("document.title === 'stranger'")
        assert json.loads(read(browser, f"{address}/reconcile"))["versions"] == ["0.2"]
        for path in ("search?q=harm", "entities/E1", "openapi.json", "health"):
            assert read(browser, f"{address}/{path}") == "blocked"
        text = {"method": "POST", "body": json.dumps({"text": "zzsecret"})}
        assert read(browser, f"{address}/link", text) == "blocked"
        assert loaded(browser, "script", f"{address}/search?q=harm") == "no"
        for i, name in enumerate(BAD):
            assert loaded(browser, "iframe", f"{address}/reconcile/preview?id=E{i}") == "loaded"
            browser.navigate(f"{address}/reconcile/preview?id=E{i}")
            browser.until(f"location.search === '?id=E{i}'")
            assert browser.run("document.querySelector('h3').textContent") == name
            assert browser.run("window.harm") is None
            assert browser.run("document.querySelectorAll('script, img, iframe, svg').length") == 0
            browser.navigate(stranger)
            browser.until("document.title === 'stranger'")
        browser.navigate(f"{address.replace('127.0.0.1', 'evil.localhost')}/search?q=harm")
        browser.until("location.hostname === 'evil.localhost'")
        assert "Invalid host header" in browser.text("body")


def test_names_of_changes_reasons_and_errors_are_text(browser: Browser, tmp_path: Path) -> None:
    """Also the names of runs and files, the authors and reasons of corrections, types, and words of the user."""
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", name, (name,), name, (name,)) for i, name in enumerate(BAD)])
    documents = [document(f"{name} doc", name, f"new {name}") for name in BAD]
    before = linker(kb).link(documents)
    folder = tmp_path / "<img src=x onerror='window.harm=1'>"
    before.save(folder)
    ids = before.mention_table["mention_id"].to_pylist()
    lines = [{"mention": ids[0], "entity": None}, {"mention": ids[1], "new": BAD[0]}, {"same": [ids[1], ids[3]]}]
    lines = [line | {"note": name, "author": name} for line, name in zip(lines, BAD, strict=False)]
    file = tmp_path / "corrections.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    after = linker(kb).link(documents, corrections=file)
    after.save(tmp_path / "after")
    report(after, tmp_path / "page.html", name=BAD[1], before=before)
    harmless = "window.harm ?? document.querySelectorAll('main :is(img, script, iframe, b), svg[onload]').length"
    for page in ("file", "served"):
        with started("explore", tmp_path / "after", "--before", folder, "--author", BAD[0]) as address:
            browser.navigate("about:blank")
            browser.navigate((tmp_path / "page.html").as_uri() if page == "file" else address)
            browser.until("document.querySelector('#main[data-ready]') !== null")
            views = ["#/", "#/clusters", "#/changes", "#/review", f"#/mention/{ids[0]}", "#/search/%3Cimg%20src=x%3E"]
            for view in [*views, "#/mention/%3Cimg%20src%3Dx%20onerror%3D'window.harm%3D1'%3E", "#/%3Csvg%3E/%00/x"]:
                browser.go(view)
                browser.run("new Promise(done => setTimeout(done, 100))")
                assert browser.run(harmless) == 0, view
                assert ("clusters changed since" in browser.text()) == (view == "#/changes"), view

"""The verb `serve`: it starts, answers, and stops when it has answered; it says what is missing."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from conftest import Run
from serve_builders import KB

pytest.importorskip("fastapi")

from arbo.serve.models import Text
from arbo.serve.service import Service


@pytest.fixture(scope="module")
def kb_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("serve") / "kb.jsonl"
    KB.to_jsonl(file)
    return file


@contextmanager
def served(kb_file: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the service in a process of its own, on a free port; yield it and its address."""
    command = [sys.executable, "-m", "arbo", "serve", "--kb", str(kb_file), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            pytest.fail("the service did not start")
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_stopped_service_answers_first(kb_file: Path) -> None:
    with served(kb_file) as (process, address):
        assert json.load(urlopen(f"{address}/health", timeout=60))["entities"] == len(KB)
        body = json.dumps({"text": "marsh fever"}).encode()
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            head = f"POST /link HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            slow.sendall(head.encode() + body[:5])
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            slow.sendall(body[5:])
            answer = b""
            while chunk := slow.recv(65536):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"id":"D:1"' in answer
        assert process.wait(60) == 0
        assert process.stderr is not None
        log = process.stderr.read()
    assert "POST /link 200" in log
    assert "stopped" in log
    assert "fever" not in log
    assert "Traceback" not in log


def test_without_the_extra_the_verb_says_what_to_install(
    run: Run, kb_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "arbo.serve.app", None)
    told = run("serve", "--kb", kb_file)
    assert (told.code, "run: pip install 'arbo[serve]'" in told.told) == (1, True)


def test_a_transformer_leaves_nothing_of_a_request_on_disk(
    run: Run, kb_file: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the web server: it gets a service that is warm, and its socket."""
    served: list[Service] = []
    monkeypatch.setattr("arbo.serve.app.run", lambda service, *_, **__: served.append(service))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = run("serve", "--kb", kb_file, "--encoder", bert_folder, "--port", 0, "--json")
    assert told.code == 0, told.err
    assert f"serving {len(KB)} entities at {told.json['address']}; Ctrl-C stops" in told.told
    served[0].link(Text(text="marsh fever"))
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]

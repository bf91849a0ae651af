"""Nothing but the name of a model on the Hugging Face hub makes arbo ask for an address."""

import json
import socket
from pathlib import Path

import pytest
from builders import python
from conftest import Run, Sample

import arbo

BIOC = """<!DOCTYPE collection SYSTEM "http://example.org/BioC.dtd">
<collection><source/><date/><key/><document><id>d</id>
<passage><offset>0</offset><text>flu</text></passage></document></collection>
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Refuse all connections and look-ups, and collect them."""
    calls: list[object] = []

    def refuse(*given: object, **_: object) -> None:
        calls.append(given[-2:])
        raise OSError("no network here")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    return calls


@pytest.mark.slow
def test_no_verb_asks_for_an_address(run: Run, asked: list[object], sample: Sample, tmp_path: Path) -> None:
    documents, kb = sample
    docs, base, done, more = (tmp_path / name for name in ("docs.jsonl", "kb.jsonl", "run", "more"))
    documents.to_jsonl(docs)
    kb.to_jsonl(base)
    corrections, mention = tmp_path / "run.corrections.jsonl", next(iter(documents)).mentions[0].id
    corrections.write_text(json.dumps({"mention": mention, "entity": None}) + "\n")
    answers = {
        "link": (docs, "--kb", base, "--out", done),
        "discover": (docs, "--out", tmp_path / "found"),
        "show": (done,),
        "explain": (done, mention),
        "evaluate": (done,),
        "export": (done, "--to", "bioc", "--out", tmp_path / "out.xml"),
        "explore": (done, "--out", tmp_path / "page.html"),
        "review": (done, "--json"),
        "add": (done, "--corrections", corrections, "--kb", base, "--out", more),
        "diff": (done, more),
        "find": (docs, "--kb", base),
        "tune": (docs, "--kb", base, "--out", tmp_path / "config.json"),
        "kb": ("check", base),
    }
    codes = {verb: run(verb, *given).code for verb, given in answers.items()}
    assert ({verb: code for verb, code in codes.items() if code}, asked) == ({}, [])


def test_no_file_makes_a_reader_ask(tmp_path: Path, asked: list[object]) -> None:
    file = tmp_path / "a.xml"
    file.write_text(BIOC)
    assert len(arbo.read_documents(file, "bioc")) == 1
    assert asked == []


def test_no_module_asks_when_it_is_imported() -> None:
    """Optional packages may be missing."""
    script = """
import importlib, pkgutil, socket, sys
import arbo, clustering, eval
def refuse(*given, **named): sys.exit(f"an address: {given}")
class Refused(socket.socket):
    connect = connect_ex = sendto = refuse
socket.socket = Refused
socket.getaddrinfo = socket.create_connection = refuse
for package in (arbo, clustering, eval):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not one.name.endswith("__main__"):
            try:
                importlib.import_module(one.name)
            except ImportError:
                pass
"""
    python(script)


def test_only_hub_names_are_looked_up(asked: list[object], tmp_path: Path, run: Run, sample: Sample) -> None:
    """A path, an address, or a name with a colon is no name of the hub."""
    pytest.importorskip("transformers")
    sample[0].to_jsonl(tmp_path / "docs.jsonl")
    hub = "nobody/nothing-like-this"
    for name in ("https://example.org/model", "../model", "/nowhere/model", "file:model", "a/b/c", "s3://a/b", hub):
        assert asked == []
        done = run("discover", tmp_path / "docs.jsonl", "--out", tmp_path / "run", "--encoder", name)
        assert (done.code, "error:" in done.err) == (3, True), name
    assert hub in done.err

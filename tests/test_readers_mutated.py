"""Mutated files of formats with a tree are read, or refused as invalid data; no other error comes through."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import test_readers_bioc
import test_readers_obographs
import test_readers_pubannotation

import arbo
from arbo.readers.bioc import read_bioc
from arbo.readers.obographs import read_obographs
from arbo.readers.pubannotation import read_pubannotation
from arbo.readers.skos import read_skos

SKOS = """@prefix s: <http://www.w3.org/2004/02/skos/core#> .
<http://e.org/1> a s:Concept ; s:prefLabel "flu"@en ; s:definition [ a s:x ] ; s:broader <http://e.org/2> .
"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://e.org/1"><s:prefLabel xml:lang="en">flu</s:prefLabel></s:Concept></rdf:RDF>
"""
SAMPLES: dict[str, tuple[Callable[..., object], str]] = {
    "bioc": (read_bioc, json.dumps({"documents": [test_readers_bioc.DOCUMENT]})),
    "bioc-xml": (read_bioc, test_readers_bioc.XML),
    "obographs": (read_obographs, json.dumps(test_readers_obographs.GRAPH)),
    "pubannotation": (read_pubannotation, json.dumps([test_readers_pubannotation.DOCUMENT])),
    "rdf-xml": (read_skos, RDF),
    "turtle": (read_skos, SKOS),
}
PIECES = [
    b"",
    b"{",
    b"]",
    b"null",
    b"[]",
    b"{}",
    b"-1",
    b"1e999",
    b'"',
    b"\xff",
    b"\\ud800",
    b"\0",
    b"<",
    b"&x;",
    b"\n",
]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Replace up to three pieces by others, or by pieces of the content itself."""
    for _ in range(chance.randint(1, 3)):
        begin = chance.randrange(len(content) + 1)
        end = begin + chance.choice([0, 1, 2, 8, 64])
        own = content[(at := chance.randrange(len(content) + 1)) : at + chance.choice([1, 4, 16])]
        content = content[:begin] + chance.choice([*PIECES, own]) + content[end:]
    return content


def changed(value: object, chance: random.Random) -> object:
    """Replace a value somewhere inside a value of JSON, so that the file stays JSON."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        return {**value, key: changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance), *value[at + 1 :]]
    return chance.choice([None, True, -1, 10**30, 1.5, "", "x", [], {}, [[]], [{}], [None], {"a": {}}, ["x", 1]])


@pytest.mark.parametrize("name", SAMPLES)
def test_no_mutation_gives_a_traceback(tmp_path: Path, name: str) -> None:
    if name in ("rdf-xml", "turtle") and find_spec("rdflib") is None:
        pytest.skip("rdflib is absent")
    read, sample = SAMPLES[name]
    chance, path = random.Random(1), tmp_path / "file.json"
    for number in range(400):
        content = mutated(sample.encode(), chance)
        if sample.lstrip()[0] in "{[" and number % 2 and name != "turtle":
            content = json.dumps(changed(json.loads(sample), chance)).encode()
        path.write_bytes(content)
        for on_error in ("fail", "skip"):
            with suppress(arbo.DataError):
                read(path, on_error=on_error)

"""SKOS: concepts as Turtle, N-Triples and RDF/XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import arbo
from arbo.formats import read_knowledge_base
from arbo.formats.skos import read_skos

rdflib = pytest.importorskip("rdflib")

TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
ex:scheme a skos:ConceptScheme ; skos:prefLabel "Diseases"@en .
ex:flu a skos:Concept, ex:Disease, [] ; skos:broader [] ; skos:prefLabel "influenza"@en, "grippe"@fr, "Grippe"@de ;
    skos:altLabel "flu"@en-GB, "la crève"@fr ; skos:hiddenLabel "influensa" ;
    skos:definition "A viral disease."@en, [ <http://www.w3.org/1999/02/22-rdf-syntax-ns#value> "Une maladie."@fr ] ;
    skos:notation "J11" ; skos:broader ex:disease ; skos:exactMatch <http://purl.obolibrary.org/obo/MONDO_0005812> .
<http://purl.obolibrary.org/obo/HP_2> skos:prefLabel "fever"@en .
ex:disease a skos:Concept ; skos:prefLabel "maladie"@fr .
ex:old a skos:Concept ; skos:prefLabel "la grippe"@fr ; owl:deprecated true ; dct:isReplacedBy ex:flu .
[] a skos:Concept ; skos:prefLabel "nobody"@en .
"""
EX = "http://example.org/"


def read(folder: Path, content: str, name: str = "kb.ttl", **options: Any) -> arbo.KnowledgeBase:
    (folder / name).write_text(content, "utf-8")
    return read_skos(folder / name, **options)


def test_labels_of_all_languages(tmp_path: Path) -> None:
    kb = read(tmp_path, TURTLE)
    flu = arbo.Entity(
        f"{EX}flu",
        "influenza",
        ("Grippe", "grippe", "flu", "la crève", "influensa"),
        "A viral disease.",
        ("ex:Disease",),
        ("J11", "ex:flu", f"{EX}old", "ex:old"),
        ("MONDO:0005812",),
    )
    assert [one.id for one in kb] == [f"{EX}disease", f"{EX}flu", "HP:2"]
    assert kb[f"{EX}flu"] == flu
    assert kb["ex:flu"].metadata == {"broader": [f"{EX}disease"]}
    assert kb[f"{EX}disease"].name == "maladie"
    assert kb.notes == {"obsolete terms ignored": 1, "obsolete terms mapped to their replacement": 1}


def test_labels_of_one_language(tmp_path: Path) -> None:
    kb = read(tmp_path, TURTLE, language="fr")
    flu = kb["J11"]
    assert (flu.name, flu.aliases, flu.definition) == ("grippe", ("la crève", "influensa"), "Une maladie.")
    assert kb.notes["concepts without a name in fr left out"] == 1
    assert [one.id for one in kb] == [f"{EX}disease", f"{EX}flu"]


def test_literals_stay_as_they_are_and_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dated = 'dct:date "2009-13-01"^^<http://www.w3.org/2001/XMLSchema#date> .'
    numbers = f'ex:flu skos:notation "01"^^<http://www.w3.org/2001/XMLSchema#integer> ; {dated}'
    kb = read(tmp_path, f"{TURTLE}{numbers}\nex:flu skos:broader <http://example.org/a b> .")
    assert kb["01"].name == "influenza"
    assert not caplog.records


@pytest.mark.parametrize(("format_", "name"), [("turtle", "a.ttl"), ("nt", "a.nt"), ("xml", "a.rdf"), ("xml", "a.dat")])
def test_the_forms_of_rdf_are_the_same(tmp_path: Path, format_: str, name: str) -> None:
    kb = read(tmp_path, TURTLE)
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    (tmp_path / name).write_text(graph.serialize(format=format_), "utf-8")
    told: list[str] = []
    again = read_knowledge_base(tmp_path / name, told=told.append)
    assert told == ["skos"]
    assert [(one.id, one.name, one.aliases, one.definition) for one in again] == [
        (one.id, one.name, one.aliases, one.definition) for one in kb
    ]


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    lines = rdflib.Graph().parse(data=TURTLE, format="turtle").serialize(format="nt").splitlines()
    forward, backward = (read(tmp_path, "\n".join(order)) for order in (sorted(lines), sorted(lines, reverse=True)))
    assert [*forward] == [*backward]


XML = (
    '<?xml version="1.0"?>\n<!DOCTYPE rdf:RDF [{}]>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
)
XML += ' xmlns:s="http://www.w3.org/2004/02/skos/core#">\n<s:Concept rdf:about="http://e.org/1"><s:prefLabel>{}</s:prefLabel>'
XML += "</s:Concept></rdf:RDF>"


def test_short_entities_of_xml_are_allowed(tmp_path: Path) -> None:
    assert read(tmp_path, XML.format('<!ENTITY own "flu">', "&own;"))["http://e.org/1"].name == "flu"


def test_xml_may_have_a_style_sheet_or_no_prefix(tmp_path: Path) -> None:
    text = XML.format("", "flu")
    styled = text.replace("<!DOCTYPE rdf:RDF []>", '<?xml-stylesheet href="a.xsl"?>')
    bare = text.replace("<!DOCTYPE rdf:RDF []>\n", "").replace("rdf:RDF", "RDF").replace("xmlns:rdf=", "xmlns=")
    bare = bare.replace("<RDF", f'<RDF xmlns:rdf="{rdflib.RDF}"')
    assert [read(tmp_path, content)["http://e.org/1"].name for content in (styled, bare)] == ["flu", "flu"]


def test_a_label_may_be_the_address_of_a_concept(tmp_path: Path) -> None:
    note = (
        f"<http://example.org/note> <{rdflib.RDF.value}> 'A text.' . ex:a skos:definition <http://example.org/note> ."
    )
    kb = read(tmp_path, f'{TURTLE}ex:a a skos:Concept ; skos:prefLabel "{EX}a" ; skos:altLabel "{EX}flu" . {note}')
    assert (kb["ex:a"].name, kb["ex:a"].aliases, kb["ex:a"].definition) == (f"{EX}a", (f"{EX}flu",), "A text.")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('@prefix ex: <http://e.org/> .\nex:a ex:b "flu .\n', "line 2: not RDF (newline found in string literal)"),
        ("<a> <b> " + "[" * 50_000, "not RDF (RecursionError)"),
        (XML.format("", "flu")[:-10], "line 5: not RDF"),
        (XML.format('<!ENTITY a "b"><!ENTITY c "&a;&a;">', "&c;"), "line 2: an entity of XML is long"),
        (XML.format('<!ENTITY a SYSTEM "file:///etc/hostname">', "&a;"), "an entity of XML is long, external"),
    ],
    ids=["turtle", "deep", "cut", "nested", "external"],
)
def test_malformed_and_hostile_files_are_refused(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(arbo.DataError) as caught:
        read(tmp_path, content, on_error="skip")
    assert str(caught.value).startswith(str(tmp_path / "kb.ttl"))
    assert told in str(caught.value)


def test_without_rdflib_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    with pytest.raises(arbo.errors.MissingDependency, match=r"pip install 'arbo\[rdf\]'"):
        read(tmp_path, TURTLE)

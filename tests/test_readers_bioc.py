"""BioC: collections as JSON and XML, with documents placed by their offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import arbo
from arbo.formats import read_documents
from arbo.formats.bioc import read_bioc, write_bioc

TITLE, ABSTRACT = "\U0001f98a Wilson disease", "Left and right kidney. Flu."


def annotation(id_: str | None, text: str, *places: tuple[int, int], **infons: Any) -> dict[str, Any]:
    locations = [{"offset": offset, "length": length} for offset, length in places]
    return {"id": id_, "infons": infons, "text": text, "locations": locations}


DOCUMENT = {
    "id": "12",
    "infons": {"journal": "J", "sourcedb": "PMC"},
    "passages": [
        {
            "offset": 0,
            "infons": {"type": "title"},
            "text": TITLE,
            "sentences": [],
            "annotations": [annotation("1", "Wilson disease", (2, 14), type="Disease", MESH="D006527", note="x")],
            "relations": [],
        },
        {
            "offset": 17,
            "infons": {"type": "abstract"},
            "text": ABSTRACT,
            "annotations": [
                annotation("2", "Left ... kidney", (17, 4), (32, 6), type="Organ", identifier="A:1|A:2"),
                annotation("3", "Flu", (40, 3), type="Disease", identifier="-1"),
                annotation("4", "Flu", (40, 3), type="Disease", identifier=None, identifiers=["MESH:1", "a|b"]),
                annotation("5", "", type="MeSH", identifier="D1"),
            ],
        },
    ],
    "annotations": [annotation("6", "disease\nLeft", (9, 12), type="X")],
    "relations": [{"id": "R1", "infons": {}, "nodes": []}],
}
SEEN = [
    ("12:6", ((9, 21),), "X", None),
    ("12:1", ((2, 16),), "Disease", ("D006527",)),
    ("12:2", ((17, 21), (32, 38)), "Organ", ("A:1", "A:2")),
    ("12:3", ((40, 43),), "Disease", ()),
    ("12:4", ((40, 43),), "Disease", ("MESH:1", "a|b")),
]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>s</source><date/><key/>
<document><id>12</id><infon key="journal">J</infon>
<passage><infon key="type">title</infon><offset>0</offset><text>Wilson &amp; disease</text>
<annotation id="1"><infon key="type">Disease</infon><infon key="MESH">D1</infon>
<location offset="0" length="6"/><location offset="9" length="7"/><text>Wilson disease</text></annotation>
<relation id="R1"><node refid="1" role="a"/></relation></passage>
<passage><offset>17</offset><sentence><offset>17</offset><text>One.</text></sentence>
<sentence><offset>23</offset><text>Flu.</text>
<annotation id="2"><infon key="type">Disease</infon><location offset="23" length="3"/><text>Flu</text></annotation>
</sentence></passage></document></collection>
"""


def read(folder: Path, content: Any, **options: Any) -> arbo.Corpus:
    path = folder / "docs.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_bioc(path, **options)


def seen(document: arbo.Document) -> list[object]:
    return [(m.id, m.spans, m.type, m.gold) for m in document.mentions]


def test_passages_are_placed_at_their_offsets(tmp_path: Path) -> None:
    corpus = read(tmp_path, {"documents": [DOCUMENT]})
    (document,) = corpus
    assert document.text == f"{TITLE}\n{ABSTRACT}"
    assert seen(document) == SEEN
    assert document.mentions[1].metadata == {"note": "x"}
    assert document.metadata["journal"] == "J"
    assert [one["offset"] for one in document.metadata["passages"]] == [0, 17]
    assert corpus.notes == {"annotations without a location left out": 1}


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    corpus = read(tmp_path, {"documents": [DOCUMENT]})
    assert write_bioc(corpus, tmp_path / "out.json", {}) == {}
    told: list[str] = []
    again = read_documents(tmp_path / "out.json", told=told.append)
    assert told == ["bioc"]
    assert again == corpus
    assert again[0].metadata == corpus[0].metadata
    assert [m.metadata.get("note") for m in again.mentions] == [m.metadata.get("note") for m in corpus.mentions]
    (record,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["documents"]
    assert [passage["text"] for passage in record["passages"]] == [TITLE, ABSTRACT]
    assert record["passages"][1]["annotations"][1]["infons"] == {"type": "Disease", "identifier": "-1"}


@pytest.mark.parametrize("form", ["collection", "list", "document", "lines", "PubTator3"])
def test_collections_documents_lists_and_lines(tmp_path: Path, form: str) -> None:
    second = {**DOCUMENT, "id": "13"}
    content = {
        "collection": json.dumps({"source": "s", "documents": [DOCUMENT, second]}),
        "list": json.dumps([{"documents": [DOCUMENT]}, {"documents": [second]}]),
        "document": json.dumps([DOCUMENT, second], indent=2),
        "lines": f"{json.dumps(DOCUMENT)}\n{json.dumps(second)}",
        "PubTator3": json.dumps({"PubTator3": [DOCUMENT, second]}),
    }[form]
    (tmp_path / "docs.json").write_text(content)
    told: list[str] = []
    corpus = read_documents(tmp_path / "docs.json", told=told.append)
    assert (told, [one.id for one in corpus]) == (["bioc"], ["12", "13"])


def test_xml_with_sentences(tmp_path: Path) -> None:
    (tmp_path / "docs.xml").write_text(XML, "utf-8")
    told: list[str] = []
    corpus = read_documents(tmp_path / "docs.xml", told=told.append)
    assert told == ["bioc"]
    assert corpus[0].text == "Wilson & disease\nOne.  Flu."
    assert seen(corpus[0]) == [
        ("12:1", ((0, 6), (9, 16)), "Disease", ("D1",)),
        ("12:2", ((23, 26),), "Disease", None),
    ]
    assert corpus.notes == {"relations of passages left out": 1}
    assert read_documents(tmp_path).notes == corpus.notes  # no file of the folder is left out
    write_bioc(corpus, tmp_path / "out.json", {})
    assert read_bioc(tmp_path / "out.json") == corpus


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (XML.replace("</sentence></passage>", "</passage>"), "docs.json, line 12: not XML"),
        (XML.replace("<text>One.", "<text>&bomb;One."), "not XML: undefined entity"),
        (
            XML.replace('"BioC.dtd"', '"BioC.dtd" [<!ENTITY a "b"><!ENTITY c "&a;&a;">]'),
            "line 2: an entity of XML is long, external, or made of other entities",
        ),
        (
            XML.replace('"BioC.dtd"', '"B" [<!ENTITY a SYSTEM "file:///etc/passwd">]'),
            "line 2: an entity of XML is long",
        ),
        (f"<collection>{'<a>' * 200_000}", "not XML"),
        (f"<collection><document>{'<passage>' * 100_000}{'</passage>' * 100_000}</document></collection>", "too deep"),
        (XML.replace("<offset>0<", "<offset>x<"), "'12': a passage or sentence has the offset 'x'"),
    ],
    ids=["cut", "undefined", "nested", "external", "deep", "passages", "offset"],
)
def test_malformed_and_hostile_xml_is_refused(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(arbo.DataError) as caught:
        read(tmp_path, content)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"passages": [{"offset": 0, "text": "Flu"}, {"offset": 2, "text": "x"}]},
            "offset 2 after a text that ends at 3",
        ),
        ({"passages": [{"offset": 10**12, "text": "Flu"}]}, "gaps of at most 10,000"),
        ({"passages": [{"text": "Flu"}]}, "a passage needs the key 'offset'"),
        ({"passages": [7]}, "a passage must be a JSON object"),
        (
            {"annotations": [annotation("9", "Wilson", (3, 6))]},
            "'9': the text of the mention is 'Wilson', but the text at 3",
        ),
        ({"annotations": [annotation("9", "", (3, 600))]}, "'9': a location of an annotation must have integers"),
        ({"annotations": [{"id": "9", "locations": [5]}]}, "'9': a location of an annotation must have integers"),
        ({"infons": []}, "'infons' of a BioC document must be an object"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    content = {"documents": [{**DOCUMENT, "id": "11"}, {**DOCUMENT, **change}]}
    with pytest.raises(arbo.DataError) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'docs.json'}, document 2")
    assert told in str(caught.value)
    assert read(tmp_path, content, on_error="skip").notes["malformed documents skipped"] == 1


def test_passages_that_a_text_no_longer_has_are_one(tmp_path: Path) -> None:
    kept = {"passages": [{"offset": 0, "length": 2, "infons": {}}], "year": 2020}
    for metadata in (kept, {"passages": [5], "year": 2020}):
        write_bioc([arbo.Document("d", "Flu B", metadata=metadata)], tmp_path / "out.json", {})
        (again,) = read_bioc(tmp_path / "out.json")
        assert (again.text, again.metadata) == ("Flu B", {"year": 2020})


def test_ids_that_occur_twice_are_made_anew(tmp_path: Path) -> None:
    twice = [annotation("1", "Flu", (0, 3)), annotation("1", "Flu", (0, 3))]
    (document,) = read(tmp_path, {"id": "d", "passages": [{"offset": 0, "text": "Flu", "annotations": twice}]})
    assert [m.id for m in document.mentions] == ["d:0-3", "d:0-3#2"]


def test_exports_keep_the_passages_and_a_table_does_not_repeat_them(tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("MESH:D006527", "Wilson disease")])
    result = arbo.Linker(kb).link(read(tmp_path, {"documents": [DOCUMENT]}))
    frame = result.to_pandas()
    assert {*frame["journal"]} == {"J"}
    assert not {"passages", "relations"} & {*frame.columns}
    result.save(tmp_path / "run")
    arbo.Result.load(tmp_path / "run").export(tmp_path / "out.json", "bioc", ids="gold")
    (record,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["documents"]
    assert [passage["infons"] for passage in record["passages"]] == [{"type": "title"}, {"type": "abstract"}]
    assert record["relations"] == DOCUMENT["relations"]
    arbo.Result.load(tmp_path / "run").export(tmp_path / "out.jsonl", "jsonl")
    assert len(read_documents(tmp_path / "out.jsonl").mentions) == len(SEEN)

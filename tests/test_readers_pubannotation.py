"""PubAnnotation: what the servers and projects write is read, and what is malformed is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import arbo
from arbo.formats import read_documents
from arbo.formats.pubannotation import read_pubannotation, write_pubannotation

TEXT = "\U0001f98a Left and right kidney. Flu."
DOCUMENT = {
    "target": "http://pubannotation.org/docs/sourcedb/PubMed/sourceid/12",
    "sourcedb": "PubMed",
    "sourceid": "12",
    "text": TEXT,
    "denotations": [
        {"id": "T1", "span": [{"begin": 2, "end": 6}, {"begin": 17, "end": 23}], "obj": "Organ"},
        {"id": "T2", "span": {"begin": 11, "end": 23}, "obj": "UBERON:0004539"},
        {"id": "T3", "span": {"begin": 25, "end": 28}, "obj": "http://purl.obolibrary.org/obo/MONDO_0005812"},
        {"id": "T4", "span": {"begin": 25, "end": 28}, "obj": "Disease"},
        {"id": "T5", "span": {"begin": 25, "end": 28}, "obj": "NIL"},
    ],
    "attributes": [
        {"id": "A1", "subj": "T1", "pred": "tao:has_database_id", "obj": "UBERON:0004538"},
        {"id": "A2", "subj": "T1", "pred": "tao:has_database_id", "obj": "C0227613"},
        {"id": "A3", "subj": "T1", "pred": "side", "obj": "left"},
        {"id": "A4", "subj": "T4", "pred": "mondo_id", "obj": "http://purl.obolibrary.org/obo/MONDO_0005812"},
    ],
    "relations": [{"id": "R1", "pred": "in", "subj": "T4", "obj": "T1"}],
}
MENTIONS = [
    ("PubMed:12:T1", ((2, 6), (17, 23)), "Organ", ("UBERON:0004538", "C0227613")),
    ("PubMed:12:T2", ((11, 23),), None, ("UBERON:0004539",)),
    ("PubMed:12:T3", ((25, 28),), None, ("MONDO:0005812",)),
    ("PubMed:12:T4", ((25, 28),), "Disease", ("MONDO:0005812",)),
    ("PubMed:12:T5", ((25, 28),), None, ()),
]


def read(folder: Path, content: Any, **options: Any) -> arbo.Corpus:
    path = folder / "docs.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_pubannotation(path, **options)


def seen(document: arbo.Document) -> list[object]:
    return [(m.id, m.spans, m.type, m.gold) for m in document.mentions]


def test_ids_types_and_pieces(tmp_path: Path) -> None:
    (document,) = read(tmp_path, DOCUMENT)
    assert (document.id, document.text) == ("PubMed:12", TEXT)
    assert seen(document) == MENTIONS
    assert [m.text for m in document.mentions[:2]] == ["Left kidney", "right kidney"]
    assert document.mentions[0].metadata == {"side": "left"}
    assert {*document.metadata} == {"target", "sourcedb", "sourceid", "relations"}


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    corpus = read(tmp_path, DOCUMENT)
    assert +write_pubannotation(corpus, tmp_path / "out.json", {}) == {}
    told: list[str] = []
    again = read_documents(tmp_path / "out.json", told=told.append)
    assert told == ["pubannotation"]
    assert again == corpus
    assert again[0].metadata == corpus[0].metadata
    assert again[0].mentions[0].metadata == {"side": "left"}
    (record,) = map(json.loads, (tmp_path / "out.json").read_text("utf-8").splitlines())
    assert record["relations"] == DOCUMENT["relations"]
    assert [one["id"] for one in record["denotations"]] == ["T1", "T2", "T3", "T4", "T5"]
    assert "id" not in record


@pytest.mark.parametrize("form", ["object", "list", "lines", "indented"])
def test_one_object_a_list_or_lines(tmp_path: Path, form: str) -> None:
    second = {**DOCUMENT, "sourceid": "13", "divid": 2}
    content = {
        "object": json.dumps(DOCUMENT),
        "list": json.dumps([DOCUMENT, second]),
        "lines": f"{json.dumps(DOCUMENT)}\n\n{json.dumps(second)}\n",
        "indented": json.dumps([DOCUMENT, second], indent=1),
    }[form]
    assert [one.id for one in read(tmp_path, content)] == ["PubMed:12", "PubMed:13-2"][: 2 if form != "object" else 1]
    plain = [{"text": "Flu."}, {"text": "Flu."}]
    assert [one.id for one in read(tmp_path, plain)] == ["docs:1", "docs:2"]
    assert read(tmp_path, plain[0])[0].id == "docs"


def test_tracks_of_several_projects(tmp_path: Path) -> None:
    one = {"denotations": DOCUMENT["denotations"][:1], "attributes": DOCUMENT["attributes"]}  # type: ignore[index]
    tracks = [{"project": "a", **one}, {"project": "b", **one, "relations": []}]
    corpus = read(tmp_path, {"text": TEXT, "id": "d", "tracks": tracks})
    assert [m.id for m in corpus.mentions] == ["d:a:T1", "d:b:T1"]
    assert [m.gold for m in corpus.mentions] == [("UBERON:0004538", "C0227613")] * 2
    assert corpus.notes["keys of tracks left out"] == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"text": 5}, "'text' of a PubAnnotation document must be a string"),
        ({"denotations": {}}, "'denotations' of a PubAnnotation document must be a list"),
        (
            {"denotations": [{"id": "T9", "span": {"begin": 3, "end": 99}}]},
            "'T9': the span {begin, end} of a denotation",
        ),
        ({"denotations": [{"id": "T9", "span": [{"begin": True, "end": 2}]}]}, "'T9': the span"),
        ({"denotations": [{"id": "T9"}]}, "'T9': a denotation needs the key 'span'"),
        ({"attributes": [{"id": "A1", "subj": "T1"}]}, "'A1': an attribute needs the key 'pred'"),
        ({"tracks": [7]}, "a track must be a JSON object, not a number"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(arbo.DataError) as caught:
        read(tmp_path, [DOCUMENT, {**DOCUMENT, "sourceid": "13", **change}])
    assert str(caught.value).startswith(f"{tmp_path / 'docs.json'}, item 2")
    assert told in str(caught.value)
    corpus = read(tmp_path, [DOCUMENT, {**DOCUMENT, **change}], on_error="skip")
    assert (len(corpus), corpus.notes["malformed documents skipped"]) == (1, 1)


def test_malformed_json_is_named_by_its_line(tmp_path: Path) -> None:
    for content, line in ((json.dumps(DOCUMENT, indent=1)[:-5], 9), ("[" * 100_000, 1), ('{"a": 1, "a": 2}', 1)):
        with pytest.raises(arbo.DataError, match=r"docs\.json") as caught:
            read(tmp_path, content)
        assert (caught.value.line or 1) >= line
        assert "on one line" not in str(caught.value)
    corpus = read(tmp_path, f"{json.dumps(DOCUMENT)}\n{{\n{json.dumps(DOCUMENT)}\n", on_error="skip")
    assert corpus.notes["malformed documents skipped"] == 1


def test_what_the_format_cannot_hold_is_counted(tmp_path: Path) -> None:
    metadata = {"patient_id": "7", "reader": "Ann"}
    mentions = (
        arbo.Mention("d:1", "d", ((0, 3),), "Flu", None, None, metadata=metadata),
        arbo.Mention("d:2", "d", ((4, 5), (0, 3)), "B Flu", "HP:1", None),
        arbo.Mention("d:3", "d", ((0, 3),), "Flu", "", ("HP:1",)),
    )
    notes = write_pubannotation([arbo.Document("d", "Flu B", mentions)], tmp_path / "out.json", {})
    assert +notes == {
        "mentions without a type, written as `Mention`": 2,
        "further keys whose names end in `id` left out": 1,
        "types that are read as ids": 1,
        "mentions whose pieces are sorted when they are read": 1,
    }
    (again,) = read_pubannotation(tmp_path / "out.json")
    assert again.mentions[0].metadata == {"reader": "Ann"}

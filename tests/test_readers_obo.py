from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import obonet
import pytest

from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.formats.obo import read_obo

HEADER = "format-version: 1.2\ndefault-namespace: organs\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., KnowledgeBase]:
    """Read stanzas as an OBO file."""

    def read(*stanzas: str, header: str = HEADER, end: str = "\n") -> KnowledgeBase:
        path = tmp_path / "kb.obo"
        path.write_bytes("\n".join((header, *stanzas, "")).replace("\n", end).encode("utf-8"))
        return read_obo(path)

    return read


KIDNEY = r"""[Term]
id: U:1
name: kidney {source="x"} ! the organ
alt_id: U:10
alt_id: U:11
def: "A paired organ, \"nephros\" in Greek." [ISBN:1, http://example.org/a\:b] {comment="x"}
synonym: "reins" RELATED ARCHAIC [A:1]
synonym: "nephros\, the" EXACT []
exact_synonym: "ren" []
xref: UMLS:C1 "Kidney"
xref: MESH:D1 {source="x"}
xref: http\://example.org/k
is_a: U:2 ! organ
relationship: part of something strange
"""


def test_a_term_becomes_an_entity(read: Callable[..., KnowledgeBase]) -> None:
    kb = read(KIDNEY)
    kidney = kb["U:1"]
    assert kidney.name == "kidney"
    assert kidney.definition == 'A paired organ, "nephros" in Greek.'
    assert kidney.aliases == ("reins", "nephros, the", "ren")
    assert kidney.types == ("organs",)
    assert kidney.alternative_ids == ("U:10", "U:11")
    assert kidney.xrefs == ("UMLS:C1", "MESH:D1", "http://example.org/k")
    assert kb["U:11"] is kidney
    assert kb.notes == {}
    assert read(KIDNEY, end="\r\n") == kb


def test_other_stanzas_comments_and_own_namespaces(read: Callable[..., KnowledgeBase]) -> None:
    kb = read(
        "[Term]\nid: U:1\nname: kidney\nnamespace: viscera\n! a comment\n",
        "[Typedef]\nid: part_of\nname: part of\n",
        "[Annotation]\nid: A:1\ndefault-namespace: nonsense\n",
        "[Term]\nid: U:2\nname: organ\n[Term]\nid: U:3\nname: tissue\n",
    )
    assert [(entity.id, entity.types) for entity in kb] == [
        ("U:1", ("viscera",)),
        ("U:2", ("organs",)),
        ("U:3", ("organs",)),
    ]


def test_a_file_without_a_header(read: Callable[..., KnowledgeBase], caplog: pytest.LogCaptureFixture) -> None:
    assert read("[Term]\nid: U:1\nname: kidney\n", header="")["U:1"].types == ()
    assert not caplog.records


def test_an_exclamation_mark_in_quotes_is_text(read: Callable[..., KnowledgeBase]) -> None:
    kb = read('[Term]\nid: U:1\nname: a\ndef: "stop ! here" []\nsynonym: "hey ! you" EXACT [] ! a comment\n')
    assert kb["U:1"].definition == "stop ! here"
    assert kb["U:1"].aliases == ("hey ! you",)
    assert kb.notes == {}


@pytest.mark.parametrize("unit", [" ", "{ ", " {a}", " ! ", '\\"', '"', "\\", "[", '" ! "'])
def test_no_line_makes_a_regular_expression_run_away(read: Callable[..., KnowledgeBase], unit: str) -> None:
    hostile = unit * 100_000
    kb = read(f'[Term]\nid: U:1\nname: a{hostile}b\nsynonym: "a{hostile} ! b" X []\nxref: a{hostile}b\n')
    assert kb["U:1"].name.startswith("a")


def test_malformed_and_missing_parts_are_counted(read: Callable[..., KnowledgeBase]) -> None:
    kb = read(
        "[Term]\nid: U:1\ndef: no quotes []\nsynonym: no quotes EXACT []\n"
        'synonym: "never closed EXACT []\nsynonym: "fine" EXACT []\nsynonym: "" EXACT []\n'
    )
    assert kb["U:1"].name == "U:1"
    assert kb["U:1"].aliases == ("fine",)
    assert kb["U:1"].definition is None
    assert kb.notes == {
        "terms named by their id": 1,
        "malformed synonyms ignored": 2,
        "malformed definitions ignored": 1,
        "empty aliases dropped": 1,
    }


def test_duplicates_are_dropped_if_equal_and_refused_if_not(read: Callable[..., KnowledgeBase]) -> None:
    assert read(KIDNEY, KIDNEY).notes == {"duplicate entities dropped": 1}
    with pytest.raises(DataError, match=r"line 8, 'U:1': this id is already taken.*\(.*kb\.obo, line 4\)"):
        read("[Term]\nid: U:1\nname: kidney\n", "[Term]\nid: U:1\nname: heart\n")


@pytest.mark.parametrize(
    ("stanza", "line", "problem"),
    [
        ("[Term]\nname: kidney\n", 4, "entity id is empty"),
        ("[Term]\nid: U:1\nname\n", 6, "expected a line of the form `tag: value`"),
        ("[Term]\nid: U:1\n: kidney\n", 6, "'U:1': expected a line of the form `tag: value`"),
        ("[Term]\nid: U:1\nname: a\nid: U:2\nname: b\n", 7, "'U:1': a second `id` in one term"),
        ("[Term]\nid: U:1\nname: a\nname: b\n", 7, "'U:1': a second `name` in one term; drop one, or write a line"),
        ('[Term]\nid: U:1\ndef: "a" []\n\ndef: "b" []\n', 8, "'U:1': a second `def`"),
        ("name\n", 4, "expected a line of the form `tag: value`"),
    ],
)
def test_malformed_stanzas_are_named(read: Callable[..., KnowledgeBase], stanza: str, line: int, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(stanza)
    assert caught.value.line == line


def test_a_malformed_term_can_be_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kb.obo"
    path.write_text("[Term]\nid: U:1\nname: a\nid: U:2\n[Term]\nid: U:3\nname: b\n[Term]\nid: U:3\nname: c\n")
    kb = read_obo(path, on_error="skip")
    assert [(entity.id, entity.name) for entity in kb] == [("U:3", "b")]
    assert kb.notes == {"malformed entities skipped": 2}
    places = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert places[0].startswith(f"{path}, line 4, 'U:1': a second `id`")
    assert places[1].startswith(f"{path}, line 8, 'U:3': this id is already taken")


@pytest.mark.parametrize("content", ["", HEADER, '{"id": "D1", "name": "flu"}\n' * 2, "[Typedef]\nid: part_of\n"])
def test_a_file_without_a_term_is_never_skipped(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.obo").write_text("[Term]\nid: U:1\nname: kidney\n")
    path = tmp_path / "b.obo"
    path.write_text(content)
    for on_error in ("fail", "skip"):
        for source in (path, tmp_path):
            with pytest.raises(DataError, match=r"the file has no \[Term\]; check that it is OBO") as caught:
                read_obo(source, on_error=on_error)  # type: ignore[arg-type]
            assert caught.value.file == str(path)


def test_terms_that_are_all_obsolete_or_malformed_are_terms(read: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    assert len(read(obsolete("U:1"))) == 0
    (tmp_path / "kb.obo").write_text("[Term]\nname: no id\n")
    assert read_obo(tmp_path / "kb.obo", on_error="skip").notes == {"malformed entities skipped": 1}


def test_a_value_may_come_twice_if_equal_and_alone_with_its_comment(read: Callable[..., KnowledgeBase]) -> None:
    kb = read('[Term]\nid: U:1\nname: a  b {x="1 ! 2"} ! c\nname: a b {x="1 ! 2"} ! c\nxref: ! none\nalt_id:\n')
    assert kb["U:1"].name == "a b"
    assert kb["U:1"].xrefs == kb["U:1"].alternative_ids == ()


@pytest.mark.parametrize("value", ["{a} {b}", "a{b}", "a { b", "a } b", "a \\! b", "a\\{b}", "a !b", "a ! ! !"])
def test_what_is_a_modifier_or_a_comment_is_what_obonet_says(read: Callable[..., KnowledgeBase], value: str) -> None:
    expected = obonet.read.parse_tag_line(f"name: {value}\n").value or "U:1"
    assert read(f"[Term]\nid: U:1\nname: {value}\n")["U:1"].name == unescaped(expected)


def unescaped(text: str) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", text.replace(r"\n", " ")).split())


def quoted(text: str) -> str:
    return unescaped(re.split(r'(?<!\\)"', text)[1])


def obsolete(name: str, *more: str) -> str:
    return "\n".join(("[Term]", f"id: {name}", f"name: obsolete {name}", "is_obsolete: true", *more, ""))


def test_obsolete_terms_lead_to_their_replacement(read: Callable[..., KnowledgeBase]) -> None:
    kb = read(
        obsolete("U:5", "replaced_by: U:6"),
        obsolete("U:6", "replaced_by: U:1 ! kidney", "alt_id: U:66"),
        KIDNEY,
        obsolete("U:7"),
        obsolete("U:8", "replaced_by: U:1", "replaced_by: U:2"),
        obsolete("U:9", "replaced_by: X:1"),
        obsolete("U:3", "replaced_by: U:4"),
        obsolete("U:4", "replaced_by: U:3"),
    )
    assert [entity.id for entity in kb] == ["U:1"]
    assert kb["U:1"].alternative_ids == ("U:10", "U:11", "U:5", "U:6", "U:66")
    assert "U:8" not in kb
    assert kb.notes == {"obsolete terms ignored": 7, "obsolete terms mapped to their replacement": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["craft/ontologies/CL", "craft/ontologies/SO", "craft/ontologies/MOP", "disease_ontology/HumanDO_2015-11-11"],
)
def test_real_ontologies_are_what_obonet_reads(shared: Callable[[str], Path], name: str) -> None:
    path = shared(f"data/{name}.obo.gz")
    kb = read_obo(path)
    nodes = {id_: data for id_, data in obonet.read_obo(str(path)).nodes(data=True) if data}
    assert set(nodes) == {entity.id for entity in kb}
    for entity in kb:
        data = nodes[entity.id]
        assert entity.name == unescaped(data["name"])
        synonyms = [value for tag, values in data.items() if tag.endswith("synonym") for value in values]
        assert entity.aliases == tuple(map(quoted, synonyms))
        assert " ".join((entity.definition or "").split()) == quoted(data.get("def", '""'))
        assert entity.xrefs == tuple(dict.fromkeys(unescaped(raw).split(" ")[0] for raw in data.get("xref", ())))
        assert set(data.get("alt_id", ())) <= set(entity.alternative_ids)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "live", "obsolete_terms", "synonyms", "definitions", "led"),
    [
        ("craft/ontologies/UBERON", 13_080, 994, 37_374, 10_586, 115),
        ("craft/ontologies/CL", 2_068, 96, 2_074, 1_706, 3),
        ("craft/ontologies/SO", 2_179, 204, 3_599, 1_953, 56),
        ("craft/ontologies/MOP", 3_630, 0, 692, 3_540, 0),
        ("disease_ontology/HumanDO_2015-11-11", 6_812, 2_371, 13_029, 2_618, 0),
        ("gsc_plus/hp_2013-11-30", 10_223, 44, 6_447, 6_941, 0),
    ],
)
def test_real_ontologies_have_their_published_counts(
    shared: Callable[[str], Path],
    name: str,
    live: int,
    obsolete_terms: int,
    synonyms: int,
    definitions: int,
    led: int,
) -> None:
    kb = read_obo(shared(f"data/{name}.obo.gz"))
    assert len(kb) == live
    assert kb.notes.get("obsolete terms ignored", 0) == obsolete_terms
    assert sum(len(entity.aliases) for entity in kb) == synonyms
    assert sum(entity.definition is not None for entity in kb) == definitions
    assert kb.notes.get("obsolete terms mapped to their replacement", 0) == led
    assert set(kb.notes) <= {
        "obsolete terms ignored",
        "obsolete terms mapped to their replacement",
        "alternative ids ignored, since they are another entity's own id",
    }
    if name.startswith("disease"):
        xrefs = {xref for entity in kb for xref in entity.xrefs}
        assert sum(xref.startswith("MSH:") for xref in xrefs) == 2_656
        assert sum(xref.startswith("UMLS_CUI:") for xref in xrefs) == 6_418

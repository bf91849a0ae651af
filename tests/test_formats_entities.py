"""What only one format of knowledge bases has: values and faults, each inserted into its good file, and quirks."""

import json
import re
from pathlib import Path
from typing import Any

import obonet
import pytest
from builders import save_lines
from format_files import IN_OWL, ORGAN, node, properties, rows, save, umls_definition, umls_name, umls_type
from test_formats import check_fault, check_value, files_of, read

import arbo
from arbo.errors import DataError, UsageError
from arbo.formats.umls import ST21PV, read_entities as read_umls


def term(*tags: str, obsolete: bool = False) -> str:
    return "\n".join(["[Term]", *tags, *["is_obsolete: true"] * obsolete, ""])


VALUES: list[tuple[str, str, str]] = [
    *(("tsv", line, added) for line, added in (
        ("D9\tflu", "D9 'flu'"),
        ("D9\tflu\tgrippe | influenza\tA disease.", "D9 'flu' / ('grippe', 'influenza') 'A disease.'"),
        ("D9\tflu\t\tA disease.", "D9 'flu' / () 'A disease.'"),
        (' D9 \t"flu"" " ', 'D9 \'"flu"" "\' / "D2" \'cold\''),
        ("D9\tflu|cold", "D9 'flu|cold'"),
        ("=cmd()\t<script>\n \nid\tname", "=cmd() '<script>' / id 'name'"),
        ('D9\t5" needle', 'D9 \'5" needle\''),
    )),
    ("csv", 'D9;"a ""cold"", or\ntwo";;', 'D9 \'a "cold", or\\ntwo\''),
    ("jsonl", '{"id": "x", "name": "a", "parents": ["D0"], "definition": null, "aliases": null, "types": null}',
     "x 'a' / parents = ['D0']"),
    ("medic", "D9|260||cold\n260||fever\nC||Diseases\nD8|260||flu",
     "D9 'cold' / () ('260', 'MESH:D9') () / 260 'fever' / () ('OMIM:260',) () / "
     "C 'Diseases' / D8 'flu' / () ('260', 'MESH:D8') () / "
     "2 alternative ids equal to another entity's own id ignored"),
    ("medic", "D9|C0000009||flu\nC7||cold\nD9|C0000009||grippe\nD9|C0000009||flu",
     "D9 'flu' / ('grippe',) None / () ('C0000009', 'MESH:D9', 'UMLS:C0000009') () / C7 'cold' / () ('MESH:C7',) ()"),
    ("obo", term("id: U:9", "def: no quotes []", "synonym: no quotes X []", 'synonym: "open X []',
     'synonym: "fine" X []'),
     "U:9 'U:9' / ('fine',) None / ('organs',) () () / 1 malformed definitions ignored / "
     "2 malformed synonyms ignored / 1 terms named by their id"),
    ("obo", term('name: a  b {x="1 ! 2"} ! c', "id: U:9", 'name: a b {x="1 ! 2"} ! c', "alt_id:"),
     "U:9 'a b' / ('organs',) () ()"),
    ("obo", "[Annotation]\nid: A:1\ndefault-namespace: nonsense\n[Term]\nid: U:9\nname: tissue",
     "U:9 'tissue' / ('organs',) () () / 2 stanzas other than [Term] left out"),
    ("obo", term("id: U:9", "name: poly{2-[x]} {acid}", 'synonym: "3,3\',3"-acid" EXACT IUPAC_NAME [IUPAC:]',
     'synonym: "a "kind [of]" it" [A:1 "]"] {c="}"} ! "x"', 'synonym: "ren" EXACT [A:1', 'synonym: "a "b. "c. d',
     'exact_synonym: "bud"', 'def: "A thing called "foo\\"" by some." [X:2]'),
     "U:9 'poly{2-[x]} {acid}' / "
     """('3,3\\',3"-acid', 'a "kind [of]" it', 'ren', 'bud') 'A thing called "foo"" by some.' / """
     "('organs',) () () / 1 malformed synonyms ignored"),
    ("obo", "".join(f"[Term]\nid: U:{n}\nis_obsolete: {flag}\n" for n, flag in enumerate(("1", "True", "TRUE"), 5)),
     "3 obsolete terms ignored"),
    ("obo", term("id: U:9", "name: a", 'xref: KEGG COMPOUND:C1 "CAS"', 'xref: A:1 "a ! b"', 'xref: A:2 {s="x"} "d"',
     'xref: A:3 "d" {s="x"}', r"xref: http\://e.org/a\,b", r"xref: B\ C:1 ! b", "xref: A:4 tail", "xref: SRC: wd",
     'xref: SRC: "open', "xref: X:5 a:b", 'alt_id: U:91 {s="x"} ! b', 'alt_id: {s="x"}'),
     "U:9 'a' / ('organs',) ('U:91',) ('KEGG COMPOUND:C1', 'A:1', 'A:2', 'A:3', 'http://e.org/a,b', 'B C:1', 'A:4', "
     "'SRC:', 'X:5') / 4 ids cut at a blank"),
    ("obo", "".join((
        term("id: U:5", "replaced_by: U:6", obsolete=True),
        term("id: U:6", "replaced_by: U:1 ! kidney", "alt_id: U:66", obsolete=True),
        term("id: U:7", obsolete=True),
        term("id: U:8", "replaced_by: U:1", "replaced_by: U:2", obsolete=True),
        term("id: U:9", "replaced_by: X:1", obsolete=True),
        term("id: U:3", "replaced_by: U:4", obsolete=True),
        term("id: U:4", "replaced_by: U:3", obsolete=True),
    )),
     "('organs',) ('U:10', 'U:11', 'U:5', 'U:6', 'U:66') ('UMLS:C1', 'MESH:D1', 'http://example.org/k'"
     ") / 7 obsolete terms ignored / 2 obsolete terms mapped to their replacement"),
    ("obographs", json.dumps(node("A_1", " x", meta={"deprecated": False, "definition": {"val": ""}})),
     "A:1 ' x' / ('hp',) () ()"),
    ("obographs", json.dumps(node("A_1", "x", meta={
        "definition": {"val": None}, "synonyms": [None, {"val": None}, {"val": "y"}], "xrefs": None, "deprecated": None,
        "basicPropertyValues": [{"pred": "a"}, None, {"pred": "b", "val": 5}, {"pred": f"{IN_OWL}hasOBONamespace"}],
     })), "A:1 'x' / ('y',) None / ('hp',) () ()"),
    ("obographs", json.dumps({"id": "A:1", "lbl": "x"}), "2 nodes other than classes left out"),
    *(("obographs", json.dumps(node("A_1", "x", meta=meta)), "3 obsolete terms ignored") for meta in (
        {"deprecated": "true"}, properties(("http://www.w3.org/2002/07/owl#deprecated", "True")),
    )),
    *(("umls", rows(*(umls_name("C9", f"name {i}", f"A{i}", rank) for i, rank in enumerate(ranks)))[:-1],
       f"C9 'name {best}' / ({others}) None / () ('UMLS:C9',) ()")
      for ranks, best, others in (
        (["S VC N", "P VC N", "S PF Y"], 1, "'name 0', 'name 2'"),
        (["P VC Y", "P PF N"], 1, "'name 0',"),
        (["P PF N", "P PF Y"], 1, "'name 0',"),
        (["S VO N", "S VO N"], 0, "'name 1',"),
        (["P VC N", "P VW Y"], 1, "'name 0',"),
        (["P PF Y", "P PF Y"], 0, "'name 1',"),
    )),
    ("umls", rows(umls_name("C9", "old", "A1", suppress="E"), umls_name("C9", "new", "A2", "S PF Y"))[:-1],
     "C9 'new' / () ('UMLS:C9',) ()"),
    ("umls", rows(umls_name("C9", "old", "A1", suppress="Y"), umls_name("C8", "Gripe", "A9", language="SPA"))[:-1],
     "2 concepts without an English name"),
]  # fmt: skip

FAULTS: list[tuple[Any, ...]] = [
    *(("tsv", "document", line, rf"kb\.tsv, line 3(, |: ){words}") for line, words in (
        ("D2", "'D2': an entity needs the key 'name'"),
        ("D2\ta\tb\tc\td",
         r"'D2': the line has 5 cells for 4 columns \(id, name, aliases, definition\); quote the cells"),
        ("\tcold", "the cell 'id' is empty; fill it, or drop the row"),
        ("D1\tcold", r"'D1': this id is already taken, with different content \(.*, line 2\)"),
    )),
    ("csv", "document", "D9;fl\0u", r"kb\.csv, line 3, 'D9': the entity's name has a NUL at character 2"),
    *(("jsonl", "document", piece, words) for piece, words in (
        ("{", "not JSON"),
        ('{"id": "x"}', "'x': an entity needs the key 'name'"),
        ('{"id": "x", "name": " "}', "'x': the entity's name is empty"),
        ('{"id": "x", "name": "x", "aliases": "flu"}', "'aliases' of an entity must be a list of strings, not a s"),
        ('{"id": "x", "name": "x", "definition": true}', "'definition' of an entity must be a string .*, not true"),
        ('{"id": "D1", "name": "cold"}', r"'D1': this id is already taken, with different content \(.*, line 1\)"),
    )),
    *(("medic", "document", line, words) for line, words in (
        ("D2|flu", r"expected id\|alternative ids\|\|name\|synonyms, but the line has no \|\|"),
        ("D2||", "'D2': the entity's name is empty"),
        ("D1||cold", r"'D1': this id is already taken, with different content \(.*, line 1\)"),
    )),
    *(("obo", "document", stanza, *words) for stanza, *words in (
        (term("name: kidney"), "entity id is empty"),
        (term("id: U:9", "name"), "expected a line of the form `tag: value`", 2),
        (term("id: U:9", ": kidney"), "'U:9': expected a line of the form `tag: value`", 2),
        (term("id: U:9", "name: a", "id: U:2"), "'U:9': a second `id` in one term", 3),
        (term("id: U:9", "name: a", "name: b"), "'U:9': a second `name` in one term; drop one, or write a line", 3),
        (term("id: U:9", 'def: "a" []', "", 'def: "b" []'), "'U:9': a second `def`", 4),
        (term("id: U:1", "name: heart"), r"'U:1': this id is already taken.*\(.*kb\.obo, line 7\)"),
    )),
    *(("obographs", "document", json.dumps(piece), rf"kb\.json, node 7.*{words}") for piece, words in (
        ({"lbl": "x"}, "a node needs the key 'id'"),
        ({"id": "A:1", "lbl": 5}, "'A:1': 'lbl' of a node must be a string"),
        ({"id": "A:1", "lbl": "x", "meta": []}, "'A:1': 'meta' of a node must be an object"),
        (node("A_1", "x", meta={"synonyms": ["y"]}), "'A:1': 'synonyms' of a node must have objects"),
        (node("A_1", "x", meta={"synonyms": "y"}), "'A:1': 'synonyms' of a node must have objects"),
        (node("A_1", "x", meta={"definition": {"val": 3}}), "'A:1': 'definition' of a node must have"),
        (node("A_1", meta={"basicPropertyValues": [{"pred": "hasAlternativeId", "val": 5}]}), "'hasAlternativeId' of"),
        (node("HP_2", "x"), "'HP:2': this id is already taken, with different content"),
    )),
    *(("umls", "line", line, words) for line, words in (
        ("C8|ENG|P",
         r"'C8': a line of MRCONSO\.RRF has 18 columns \(CUI LAT .*closed by a bar \(\|\); this line has 2 bars"),
        (umls_name("C8", "a|b", "A9"), "this line has 19"),
    )),
    ("umls", "MRSTY", "C8 T047", r"a line of MRSTY\.RRF has 6 columns .* this line has 0"),
    ("umls", "MRSTY", umls_type("C1", "T047", "B").replace("Type T047", ""),
     r"'C1': a semantic type without a name \(STY\)"),
    ("umls", "MRDEF", "C8|A9|AT1||MSH|no end", r"a line of MRDEF\.RRF has 8 columns"),
    ("umls", "document", umls_name("C9", " ", "A1"), r"MRCONSO\.RRF, line 8, 'C9': the entity's name is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "piece", "added"), VALUES)
def test_values(tmp_path: Path, name: str, piece: str, added: str) -> None:
    check_value(tmp_path, "entities", name, piece, added)


@pytest.mark.parametrize(("name", "place", "piece", "words", "more"), [(*row[:4], row[4:]) for row in FAULTS])
def test_faults(tmp_path: Path, name: str, place: str, piece: str, words: str, more: tuple[Any, ...]) -> None:
    check_fault(tmp_path, "entities", name, place, piece, words, *more)


def one_term(tmp_path: Path, *tags: str) -> arbo.Entity:
    (tmp_path / "kb.obo").write_text(term("id: U:1", *tags))
    return read("entities", tmp_path / "kb.obo", "obo")["U:1"]


@pytest.mark.parametrize("unit", [" ", "{ ", " {a}", " ! ", '\\"', '"', "\\", "[", '" ! "'])
def test_no_line_makes_a_regular_expression_run_away(tmp_path: Path, unit: str) -> None:
    long = unit * 100_000
    assert one_term(tmp_path, f"name: a{long}b", f'synonym: "a{long} ! b" X []', f"xref: a{long}b").name.startswith("a")


@pytest.mark.parametrize(
    "value", ['a {x="b"} ! c', 'a {x="b"}', "a{b}", "a { b", "a } b", "a \\! b", "a\\{b}", "a !b", "a ! !"]
)
def test_modifiers_and_comments_are_those_of_obonet(tmp_path: Path, value: str) -> None:
    expected = obonet.read.parse_tag_line(f"name: {value}\n").value or "U:1"
    plain = " ".join(re.sub(r"\\(.)", r"\1", expected.replace(r"\n", " ")).split())
    assert one_term(tmp_path, f"name: {value}").name == plain


@pytest.mark.parametrize("content", ["", "format-version: 1.2\n", '{"id": "D1"}\n' * 2, "[Typedef]\nid: part_of\n"])
def test_a_file_without_a_term_is_never_skipped(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.obo").write_text(ORGAN)
    (tmp_path / "b.obo").write_text(content)
    for source in (tmp_path / "b.obo", tmp_path):
        with pytest.raises(DataError, match=r"b\.obo: the file has no \[Term\]; check that it is OBO"):
            read("entities", source, "obo", on_error="skip")
    (tmp_path / "b.obo").write_text(term("id: U:5", obsolete=True))  # a term, if not of an entity
    assert len(read("entities", tmp_path, "obo")) == 1


TREE = {
    "T071": "A", "T072": "A1", "T001": "A1.1", "T017": "A1.2", "T021": "A1.2.3", "T023": "A1.2.3.1", "T103": "A1.4.1",
    "T033": "A2.2", "T184": "A2.2.2", "T051": "B", "T038": "B2.2.1", "T046": "B2.2.1.2", "T047": "B2.2.1.2.1",
     "T999": "A1.21",
}  # fmt: skip
"""Tree numbers of the Semantic Network, as the UMLS publishes them, and one that begins like another."""


def release(folder: Path, names: list[str], types: list[str], definitions: list[str] | None = None) -> Path:
    for table, lines in (("MRCONSO", names), ("MRSTY", types), ("MRDEF", definitions)):
        if lines is not None:
            save_lines(folder / f"{table}.RRF", *lines)
    return folder


@pytest.mark.parametrize(
    ("types", "kept"),
    [
        ("T184", "T184 T001"),  # the concept of T001 has both types
        ("T033", "T033 T184 T001"),
        ("Type T033", "T033 T184 T001"),
        ("T038", "T038 T046 T047"),
        ("T047", "T047"),
        (["T017", "T047"], "T017 T021 T023 T047"),
        ("T072", "T072 T001 T017 T021 T023 T103 T999"),
        ("T051", "T051 T038 T046 T047"),
        ("T071", "T071 T072 T001 T017 T021 T023 T103 T033 T184 T999"),
        (None, " ".join(TREE)),
    ],
)
def test_types_are_kept_with_all_below_them(tmp_path: Path, types: Any, kept: str) -> None:
    tuis = sorted(TREE)
    names, types_of = [umls_name(tui, tui, f"A{tui}") for tui in tuis], [umls_type(tui, tui, TREE[tui]) for tui in tuis]
    types_of.append(umls_type("T001", "T184", TREE["T184"]))
    texts = [umls_definition(tui, f"A{tui}", f"About {tui}.") for tui in tuis]
    folder = release(tmp_path, names, types_of, texts)
    kb = read("entities", folder, "umls", types=types)
    assert {entity.name for entity in kb} == {*kept.split()}
    assert all(entity.definition == f"About {entity.name}." for entity in kb)
    if types == "T184":
        assert kb["T001"].types == ("Type T001", "Type T184")


def test_types_languages_missing_files_and_repeated_concepts_of_umls(tmp_path: Path) -> None:
    types = [umls_type("C1", "T047", "B2.2"), umls_type("C1", "T033", "")]
    folder = release(tmp_path, [umls_name("C1", "flu", "A1")], types)
    with pytest.raises(UsageError, match=r"no concept has the semantic type T033, T038 with a tree number \(STN\), so"):
        read_umls(folder, types={"T038", "T047", "T033"})
    with pytest.raises(UsageError, match=r"T204.*; in a part of a release, give the types"):
        read("entities", folder, "umls", types="st21pv")
    assert len(ST21PV) == 21
    assert {"T005", "T038", "T103", "T204"} < ST21PV
    folder = save(tmp_path, "umls", files_of("entities", "umls"))
    (folder / "MRDEF.RRF").unlink()
    assert read_umls(folder)["C1"].definition is None
    release(folder, [umls_name("C1", "Grippe", "A1", language="FRE")], [])
    with pytest.raises(DataError, match="no entities in the format umls; concepts without an English name: 1; check"):
        read("entities", folder)
    for absent in ("MRSTY", "MRCONSO"):
        (folder / f"{absent}.RRF").unlink()
        with pytest.raises(DataError, match=rf"{absent}\.RRF or {absent}\.RRF\.gz is missing; give the f") as caught:
            read_umls(folder, on_error="skip")
        assert caught.value.file == str(folder)
    names = [umls_name("C1", "Influenza", "A1"), umls_name("C2", "Cold", "A8"), umls_name("C1", "Flu", "A9")]
    with pytest.raises(DataError, match=r"line 3, 'C1': this id is already taken, with different content .*line 1\)"):
        read_umls(release(tmp_path, names, []))
    kb = read_umls(tmp_path, on_error="skip")
    assert ([entity.name for entity in kb], kb.notes) == (["Influenza", "Cold"], {"malformed entities skipped": 1})

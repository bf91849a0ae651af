from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines

import arbo
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.formats import read_documents, read_knowledge_base, umls
from arbo.formats.files import read_lines
from arbo.formats.umls import ST21PV, read_umls

Write = Callable[..., Path]

# Tree numbers of the Semantic Network, as the UMLS publishes them.
TREE = {
    "T071": "A", "T072": "A1", "T001": "A1.1", "T017": "A1.2", "T021": "A1.2.3", "T023": "A1.2.3.1", "T103": "A1.4.1",
    "T033": "A2.2", "T184": "A2.2.2", "T051": "B", "T038": "B2.2.1", "T046": "B2.2.1.2", "T047": "B2.2.1.2.1",
}  # fmt: skip


def name(cui: str, text: str, aui: str, ranks: str = "P PF Y", language: str = "ENG", suppress: str = "N") -> str:
    status, kind, preferred = ranks.split()
    return f"{cui}|{language}|{status}|L1|{kind}|S1|{preferred}|{aui}||M1|D1|MSH|MH|D1|{text}|0|{suppress}|256|"


def semantic_type(cui: str, tui: str, number: str | None = None) -> str:
    return f"{cui}|{tui}|{TREE[tui] if number is None else number}|Type {tui}|AT1|256|"


def definition(cui: str, aui: str, text: str, suppress: str = "N") -> str:
    return f"{cui}|{aui}|AT1||MSH|{text}|{suppress}||"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(
        names: Iterable[str] = (),
        types: Iterable[str] = (),
        definitions: Iterable[str] | None = None,
        *,
        end: str = "\n",
    ) -> Path:
        for table, lines in (("MRCONSO", names), ("MRSTY", types), ("MRDEF", definitions)):
            if lines is not None:
                save_lines(tmp_path / f"{table}.RRF", *lines, end=end)
        return tmp_path

    return write


FLU = [
    name("C1", "Grippe", "A1", "S PF Y"),
    name("C1", "Gripe", "A2", "P PF Y", "SPA"),
    name("C1", "influenza", "A3", "P VC Y"),
    name("C1", "Influenza", "A4", "P PF Y"),
    name("C1", "Influenza", "A5", "P PF N"),
    name("C1", "Flu 'n' \"co\" <b>", "A6", "S PF Y"),
    name("C1", "Influenza NOS", "A7", "S PF Y", suppress="O"),
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_concept_is_an_entity(write: Write, end: str) -> None:
    folder = write(
        [*FLU, name("C2", "Cold", "A8")],
        [semantic_type("C1", "T047"), semantic_type("C1", "T033"), semantic_type("C1", "T047")],
        [
            definition("C1", "A2", "Una enfermedad."),
            definition("C1", "A4", "Out of date.", suppress="O"),
            definition("C1", "A7", "A disease."),
            definition("C1", "A1", "Another text."),
        ],
        end=end,
    )
    flu, cold = kb = read_umls(folder)
    assert (flu.id, flu.name, flu.definition) == ("C1", "Influenza", "A disease.")
    assert flu.types == ("Type T047", "Type T033")
    assert flu.aliases == ("Grippe", "influenza", "Flu 'n' \"co\" <b>")
    assert (cold.name, cold.aliases, cold.types, cold.definition) == ("Cold", (), (), None)
    assert kb["UMLS:C1"] is flu
    assert kb.notes == {"concepts without a semantic type": 1}


@pytest.mark.parametrize(
    ("ranks", "best"),
    [
        (["S VC N", "P VC N", "S PF Y"], 1),
        (["P VC Y", "P PF N"], 1),
        (["P PF N", "P PF Y"], 1),
        (["S VO N", "S VO N"], 0),
        (["P VC N", "P VW Y"], 1),
        (["P PF Y", "P PF Y"], 0),
    ],
)
def test_the_name_is_the_most_preferred(write: Write, ranks: list[str], best: int) -> None:
    folder = write(name("C1", f"name {i}", f"A{i}", rank) for i, rank in enumerate(ranks))
    assert read_umls(folder)["C1"].name == f"name {best}"


def test_a_preferred_name_that_is_suppressed_is_none(write: Write) -> None:
    folder = write([name("C1", "old", "A1", suppress="E"), name("C1", "new", "A2", "S PF Y")])
    assert read_umls(folder)["C1"].name == "new"


def test_concepts_without_a_name_are_counted(write: Write) -> None:
    rows = [*FLU[1:2], name("C2", "old", "A1", suppress="Y"), name("C3", "Cold", "A2")]
    kb = read_umls(write(rows))
    assert [entity.id for entity in kb] == ["C3"]
    assert kb.notes == {"concepts without a name in ENG": 2, "concepts without a semantic type": 1}
    spanish = read_umls(write(rows), language="SPA")
    assert [(entity.id, entity.name) for entity in spanish] == [("C1", "Gripe")]
    with pytest.raises(DataError, match="no entities in the format umls"):
        read_knowledge_base(write(FLU[1:2]), "umls")


def test_types_are_kept_with_all_below_them(write: Write) -> None:
    tuis = sorted(TREE)
    concepts = [(f"C{i:02}", tui) for i, tui in enumerate(tuis)]
    folder = write(
        [name(cui, tui, f"A{cui}") for cui, tui in concepts],
        [*(semantic_type(cui, tui) for cui, tui in concepts), semantic_type("C00", "T184")],
        [definition(cui, f"A{cui}", f"About {tui}.") for cui, tui in concepts],
    )

    def kept(*types: str) -> set[str]:
        kb = read_umls(folder, types=types)
        assert all(entity.definition == f"About {entity.name}." for entity in kb)
        return {entity.name for entity in kb}

    assert tuis[0] == "T001"
    assert kept("T184") == {"T184", "T001"}  # C00 has two types
    assert kept("T033") == {"T033", "T184", "T001"}
    assert kept("T038") == {"T038", "T046", "T047"}
    assert kept("T047") == {"T047"}
    assert kept("T017", "T047") == {"T017", "T021", "T023", "T047"}
    assert kept("T072") == {"T072", "T001", "T017", "T021", "T023", "T103"}
    assert kept("T051") == {"T051", "T038", "T046", "T047"}
    assert kept("T071") == {tui for tui, number in TREE.items() if number[0] == "A"}
    assert {entity.name for entity in read_umls(folder, types="T046")} == {"T046", "T047"}
    assert read_umls(folder, types="T184")["C00"].types == ("Type T001", "Type T184")
    assert kept("Type T033") == kept("T033")
    assert len(read_umls(folder)) == len(TREE)


def test_a_tree_number_is_below_by_whole_parts(write: Write) -> None:
    numbers = {"T001": "A1", "T002": "A1.2", "T003": "A1.21", "T004": "A10", "T005": "A1.2.1"}
    folder = write(
        [name(f"C{tui}", tui, "A1") for tui in numbers],
        [semantic_type(f"C{tui}", tui, number) for tui, number in numbers.items()],
    )
    assert {entity.name for entity in read_umls(folder, types="T001")} == {"T001", "T002", "T003", "T005"}
    assert {entity.name for entity in read_umls(folder, types="T002")} == {"T002", "T005"}


def test_a_type_that_no_concept_has_is_an_error(write: Write) -> None:
    folder = write([name("C1", "flu", "A1")], [semantic_type("C1", "T047"), semantic_type("C1", "T033", "")])
    with pytest.raises(UsageError, match=r"no concept has the semantic type T033, T038 with a tree number \(STN\), so"):
        read_umls(folder, types={"T038", "T047", "T033"})
    with pytest.raises(UsageError, match=r"T204.*; ST21pv needs a whole release"):
        read_umls(folder, types=ST21PV, on_error="skip")


def test_what_is_left_out_is_told_where_nothing_is_left(write: Write) -> None:
    folder = write([name("C1", "Grippe", "A1", language="FRE")], [semantic_type("C1", "T047")])
    with pytest.raises(DataError, match=r"no entities in the format umls; concepts without a name in ENG: 1"):
        read_knowledge_base(folder)


def test_a_semantic_type_needs_a_name(write: Write) -> None:
    folder = write([name("C1", "flu", "A1")], [semantic_type("C1", "T047").replace("Type T047", "")])
    with pytest.raises(DataError, match=r"MRSTY.RRF, line 1, 'C1': a semantic type without a name \(STY\)"):
        read_umls(folder)
    assert read_umls(folder, on_error="skip")["C1"].types == ()


def test_the_types_of_medmentions_are_twenty_one() -> None:
    assert len(ST21PV) == 21
    assert {"T005", "T038", "T103", "T204"} < ST21PV


def test_definitions_may_be_absent_and_files_zipped(write: Write, tmp_path: Path) -> None:
    folder = write(FLU, [semantic_type("C1", "T047")])
    expected = read_umls(folder)
    assert expected["C1"].definition is None
    for file in list(tmp_path.iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert read_umls(folder) == expected


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        (
            "MRCONSO",
            "C8|ENG|P",
            r"'C8': a line of MRCONSO\.RRF has 18 columns \(CUI LAT .*closed by a bar \(\|\); this line has 2 bars",
        ),
        ("MRCONSO", name("C8", "a|b", "A9"), "this line has 19"),
        ("MRCONSO", name("C8", "a", "A9")[:-1], "this line has 17"),
        ("MRSTY", "C8 T047", r"a line of MRSTY\.RRF has 6 columns .* this line has 0"),
        ("MRDEF", "C8|A9|AT1||MSH|no end", r"a line of MRDEF\.RRF has 8 columns"),
    ],
)
def test_a_malformed_line_fails_by_place_or_is_skipped(write: Write, table: str, line: str, problem: str) -> None:
    lines = {
        "MRCONSO": [*FLU, name("C9", "Cold", "A8")],
        "MRSTY": [semantic_type("C1", "T047"), semantic_type("C9", "T047")],
        "MRDEF": [definition("C1", "A1", "A disease."), definition("C9", "A8", "Another.")],
    }
    sound = read_umls(write(*lines.values()))
    lines[table].insert(1, line)
    folder = write(*lines.values())
    with pytest.raises(DataError, match=problem) as caught:
        read_umls(folder)
    assert (caught.value.file, caught.value.line) == (str(folder / f"{table}.RRF"), 2)
    kb = read_umls(folder, on_error="skip")
    assert kb == sound
    assert kb.notes == {"malformed lines skipped": 1}


def test_a_concept_in_two_places_is_an_error(write: Write) -> None:
    folder = write([*FLU, name("C2", "Cold", "A8"), name("C1", "Flu", "A9")])
    with pytest.raises(DataError, match=r"line 9, 'C1': this id is already taken, with different content .*line 1\)"):
        read_umls(folder)
    kb = read_umls(folder, on_error="skip")
    assert [entity.name for entity in kb] == ["Influenza", "Cold"]
    assert kb.notes == {"malformed entities skipped": 1, "concepts without a semantic type": 2}


def test_a_name_of_blanks_is_named_and_skipped(write: Write) -> None:
    folder = write([name("C1", " ", "A1"), "", name("C2", "Cold", "A2")])
    with pytest.raises(DataError, match=r"MRCONSO\.RRF, line 1, 'C1': the entity's name is empty"):
        read_umls(folder)
    assert [entity.id for entity in read_umls(folder, on_error="skip")] == ["C2"]


@pytest.mark.parametrize("table", ["MRCONSO", "MRSTY", "MRDEF"])
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda content: gzip.compress(content)[:-9], "the compressed file is truncated"),
        (lambda content: gzip.compress(content + b"\xff"), "line 61: not UTF-8"),
        (lambda content: gzip.compress(b"\0" + content), "line 1: character"),
    ],
)
def test_a_damaged_file_is_never_skipped(
    write: Write, table: str, damage: Callable[[bytes], bytes], problem: str
) -> None:
    folder = write(
        [name(f"C{i}", str(random.Random(i).random()), "A1") for i in range(60)],
        [semantic_type(f"C{i}", "T047") for i in range(60)],
        [definition(f"C{i}", "A1", str(random.Random(i).random())) for i in range(60)],
    )
    plain = folder / f"{table}.RRF"
    (folder / f"{table}.RRF.gz").write_bytes(damage(plain.read_bytes()))
    plain.unlink()
    with pytest.raises(DataError, match=problem) as caught:
        read_umls(folder, on_error="skip")
    assert caught.value.file == str(folder / f"{table}.RRF.gz")


@pytest.mark.parametrize("absent", ["MRCONSO", "MRSTY"])
def test_what_is_no_such_folder_is_told(write: Write, absent: str) -> None:
    folder = write(FLU)
    (folder / f"{absent}.RRF").unlink()
    with pytest.raises(DataError, match=rf"{absent}\.RRF or {absent}\.RRF\.gz is missing") as caught:
        read_umls(folder)
    assert caught.value.file == str(folder)
    with pytest.raises(DataError, match=r"MRCONSO\.RRF or"):
        read_umls(folder / "nowhere", on_error="skip")


def test_rows_are_read_a_concept_at_a_time(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write([*FLU, name("C2", "Cold", "A8"), name("C3", "Gout", "A9"), name("C3", "gout", "A10", "S PF Y")])
    read = 0
    read_when_made = []

    def lines(file: Path) -> Iterator[tuple[int, str]]:
        nonlocal read
        for number, line in read_lines(file):
            read = number
            yield number, line

    def make(atoms: Any, *parts: Any) -> Any:
        read_when_made.append(read)
        return entity_of(atoms, *parts)

    entity_of = umls._entity
    monkeypatch.setattr(umls, "read_lines", lines)
    monkeypatch.setattr(umls, "_entity", make)
    assert len(umls.read_umls(folder)) == 3
    assert read_when_made == [8, 9, 10]  # no further than the first row of the next concept


# MedMentions


def test_medmentions_is_read_and_its_ids_resolve(shared: Callable[[str], Path], write: Write, tmp_path: Path) -> None:
    corpus = read_documents(shared("data/medmentions_sample/med_mentions_3docs.pubtator.txt"), "pubtator")
    assert (len(corpus), len(corpus.mentions)) == (3, 115)
    assert {gold[:6] for m in corpus.mentions for gold in m.gold or ()} == {"UMLS:C"}
    assert len({gold for m in corpus.mentions for gold in m.gold or ()}) == 51
    assert {m.type for m in corpus.mentions if m.type} <= ST21PV
    cuis = sorted({gold.removeprefix("UMLS:") for m in corpus.mentions for gold in m.gold or ()})
    folder = write([name(cui, f"name of {cui}", "A1") for cui in cuis], [semantic_type(cui, "T038") for cui in cuis])
    kb: KnowledgeBase = read_umls(folder)
    result = arbo.Linker(kb).link(corpus)
    assert result.mention_table["gold_entities"].to_pylist() == [
        [gold.removeprefix("UMLS:") for gold in m.gold or ()] for m in corpus.mentions
    ]
    split = tmp_path / "corpus_pubtator_pmids_test.txt"
    split.write_text("".join(f"{document.id}\n" for document in corpus[1:]))
    assert list(corpus.of_ids(split.read_text().split())) == list(corpus[1:])


def test_several_types_of_a_mention_stay_one_text(tmp_path: Path) -> None:
    """As the full MedMentions writes them."""
    path = tmp_path / "corpus_pubtator.txt"
    path.write_text("1|t|Flu\n1|a|Flu.\n1\t0\t3\tFlu\tT047,T033\tUMLS:C0021400\n1\t4\t7\tFlu\tT047\tUMLS:C0021400\n")
    corpus = read_documents(path, "pubtator")
    assert [(m.type, m.gold) for m in corpus.mentions] == [
        ("T047,T033", ("UMLS:C0021400",)),
        ("T047", ("UMLS:C0021400",)),
    ]

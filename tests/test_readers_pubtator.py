from __future__ import annotations

import gzip
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.errors import DataError
from arbo.formats.pubtator import read_pubtator

Read = Callable[..., Corpus]

TITLE = "1|t|Flu and cold."
ABSTRACT = "1|a|Influenza (flu) is not a cold."


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines as a PubTator file."""

    def read(*lines: str, end: str = "\n", on_error: str = "fail") -> Corpus:
        return read_pubtator(save_lines(tmp_path / "docs.txt", *lines, end=end), on_error=on_error)  # type: ignore[arg-type]

    return read


def row(start: int, end: int, text: str, *more: str, name: str = "1") -> str:
    return "\t".join((name, str(start), str(end), text, *(more or ("Disease", "D1"))))


def test_the_text_is_title_blank_abstract(read: Read) -> None:
    corpus = read(TITLE, ABSTRACT, row(0, 3, "Flu"), row(25, 28, "flu"))
    assert corpus[0].id == "1"
    assert corpus[0].text == "Flu and cold. Influenza (flu) is not a cold."
    first, second = corpus.mentions
    assert (first.id, first.spans, first.text, first.type, first.gold) == (
        "1:0-3",
        ((0, 3),),
        "Flu",
        "Disease",
        ("D1",),
    )
    assert second.id == "1:25-28"
    assert corpus.notes == {}


@pytest.mark.parametrize(
    ("column", "gold"),
    [
        (["D1"], ("D1",)),
        (["D1|D2"], ("D1", "D2")),
        (["D1+D2"], ("D1", "D2")),
        ([" D1 | OMIM:2 + D3 "], ("D1", "OMIM:2", "D3")),
        (["D1|D1"], ("D1",)),
        (["D1 "], ("D1",)),
        (["UMLS:C1"], ("UMLS:C1",)),
        (["-1"], ()),
        (["-1|D1"], ("D1",)),
        ([""], None),
        ([], None),
        (["D1|D2", "flu|cold"], ("D1", "D2")),
        (["../../D1"], ("../../D1",)),
    ],
)
def test_the_concept_column_holds_every_acceptable_id(
    read: Read, column: list[str], gold: tuple[str, ...] | None
) -> None:
    corpus = read(TITLE, ABSTRACT, row(0, 3, "Flu", "Disease", *column))
    assert corpus.mentions[0].gold == gold


def test_quirks_are_counted(read: Read) -> None:
    corpus = read(
        TITLE,
        ABSTRACT,
        row(0, 3, "Flu", "Disease", "D1|D2", "Flu|cold"),
        row(8, 12, "cold", "Disease", "-1"),
        row(8, 12, "cold", "Disease"),
        row(8, 12, "cold  ", "Disease", "D1"),
        "1\tCID\tD1\tD2",
        "",
        "2|t|",
        "2|a|",
        "",
        "2|t|",
        "2|a|",
    )
    assert corpus.notes == {
        "mentions with several concept ids": 1,
        "seventh columns ignored": 1,
        "NIL mentions": 1,
        "mentions without a concept column": 1,
        "mention texts that differ from their offsets in white space": 1,
        "relation lines ignored": 1,
        "duplicate documents dropped": 1,
    }
    assert [m.id for m in corpus.mentions] == ["1:0-3", "1:8-12", "1:8-12#2", "1:8-12#3"]
    assert corpus.mentions[3].text == "cold"


def test_line_ends_and_a_byte_order_mark_shift_nothing(read: Read) -> None:
    plain = read(TITLE, ABSTRACT, row(25, 28, "flu"))
    assert read(TITLE, ABSTRACT, row(25, 28, "flu"), end="\r\n") == plain
    assert read("\ufeff" + TITLE, ABSTRACT, row(25, 28, "flu")) == plain


def test_blocks_are_parted_by_blank_lines_or_by_titles(read: Read) -> None:
    second = ("2|t|Cough", "2|a|", row(0, 5, "Cough", name="2"))
    parted = read("", TITLE, ABSTRACT, "", " ", *second, "")
    assert parted == read(TITLE, ABSTRACT, *second)
    assert [document.id for document in parted] == ["1", "2"]
    assert parted[1].text == "Cough "


def test_a_bar_in_the_title_is_text(read: Read) -> None:
    assert read("1|t|a|t|b|", "1|a||")[0].text == "a|t|b| |"


@pytest.mark.parametrize("title", ["", "   ", "\u2028"])
def test_empty_documents_are_documents(read: Read, title: str) -> None:
    assert read(f"1|t|{title}", "1|a|")[0].text == title + " "


def test_an_empty_file_holds_no_documents(read: Read) -> None:
    assert len(read()) == 0


def test_offsets_count_code_points_through_emoji_and_combining_marks(read: Read) -> None:
    corpus = read("1|t|\U0001f600 Bechterew\u0301 flu", "1|a|", row(2, 12, "Bechterew\u0301"), row(13, 16, "flu"))
    assert [m.text for m in corpus.mentions] == ["Bechterew\u0301", "flu"]


@pytest.mark.parametrize(("start", "unit"), [(len("\U0001f600 ".encode()), "UTF-8 bytes"), (3, "UTF-16 units")])
def test_offsets_in_other_units_are_refused_and_named(read: Read, start: int, unit: str) -> None:
    with pytest.raises(DataError, match=f"line 3, '1': .* the offsets seem to count {unit}"):
        read("1|t|\U0001f600 flu", "1|a|and more", row(start, start + 3, "flu"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (row(0, 99, "Flu"), "0 to 99 does not fulfil 0 <= start < end <= 44"),
        (row(3, 3, ""), "3 to 3 does not fulfil"),
        (row(-4, 3, "Flu"), "-4 to 3 does not fulfil"),
        (row(3, 0, "Flu"), "3 to 0 does not fulfil"),
        ("1\t0\tx\tFlu\tDisease\tD1", "must be integers, not '0' and 'x'"),
        ("1\t\u0660\t3\tFlu\tDisease\tD1", "must be integers"),
        (row(0, 3, "Cold"), "text of the mention is 'Cold', but the text at 0 to 3 is 'Flu'; offsets count"),
        (row(0, 3, "Flu", name="2"), "line belongs to document '2'"),
        ("1\t0\t3", "this line has 3"),
        ("a second line of the abstract", "this line has 1"),
        (row(0, 3, "Flu", "a", "b", "c", "d"), "this line has 8"),
    ],
)
def test_a_malformed_line_fails_by_place_or_is_skipped_and_counted(
    read: Read, line: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (TITLE, ABSTRACT, row(0, 3, "Flu"), line, row(8, 12, "cold"), "", "2|t|x", "2|a|")
    with pytest.raises(DataError, match=problem) as caught:
        read(*lines)
    assert caught.value.line == 4
    assert caught.value.id == "1"
    assert str(caught.value.file).endswith("docs.txt")
    with caplog.at_level(logging.DEBUG):
        corpus = read(*lines, on_error="skip")
    assert [m.id for m in corpus.mentions] == ["1:0-3", "1:8-12"]
    assert len(corpus) == 2
    assert corpus.notes["malformed lines skipped"] == 1
    assert "line 4" in caplog.text
    assert "abstract" not in caplog.text.replace("title, one blank, abstract", "").replace("title, blank, abstract", "")


@pytest.mark.parametrize(
    ("block", "line", "problem"),
    [
        (("no header",), 4, r"expected ID\|t\|text"),
        (("2|a|abstract alone",), 4, r"expected ID\|t\|text"),
        (("2|t|title",), 4, r"expected ID\|a\|text"),
        (("2|t|title", row(0, 1, "t", name="2")), 5, r"expected ID\|a\|text"),
        (("2|t|title", "3|a|abstract"), 4, "abstract after this title belongs to '3'"),
        (("|t|title", "|a|abstract"), 4, "document id is empty"),
        (("1|t|Flu", "1|a|again"), 4, r"already taken, with different content \(.*docs.txt, line 1\)"),
    ],
)
def test_a_malformed_document_fails_by_place_or_is_skipped_and_counted(
    read: Read, block: tuple[str, ...], line: int, problem: str
) -> None:
    lines = (TITLE, ABSTRACT, "", *block, "", "9|t|x", "9|a|")
    with pytest.raises(DataError, match=problem) as caught:
        read(*lines)
    assert caught.value.line == line
    corpus = read(*lines, on_error="skip")
    assert [document.id for document in corpus] == ["1", "9"]
    assert corpus.notes == {"malformed documents skipped": 1}


def test_an_unreadable_file_is_never_skipped(tmp_path: Path) -> None:
    path = tmp_path / "docs.txt.gz"
    path.write_bytes(gzip.compress(f"{TITLE}\n{ABSTRACT}\n".encode())[:-12])
    with pytest.raises(DataError, match="is truncated"):
        read_pubtator(path, on_error="skip")


def test_a_large_document_is_read(read: Read) -> None:
    size = 10_000_000
    rows = [row(i, i + 5, "grand") for i in range(0, 60_000, 6)]
    corpus = read("1|t|" + "grand " * (size // 6), "1|a|", *rows)
    assert len(corpus[0].text) > size - 6
    assert len(corpus.mentions) == 10_000


@pytest.mark.parametrize(
    ("name", "documents", "mentions", "notes"),
    [
        (
            "ncbi_disease/NCBItrainset_corpus.txt",
            592,
            5134,  # 5,145 less the 11 of the abstract that is there twice
            {
                "mentions with several concept ids": 115,
                "mention texts that differ from their offsets in white space": 1,
                "duplicate documents dropped": 1,
            },
        ),
        ("ncbi_disease/NCBIdevelopset_corpus.txt", 100, 787, {"mentions with several concept ids": 30}),
        ("ncbi_disease/NCBItestset_corpus.txt", 100, 960, {"mentions with several concept ids": 15}),
        (
            "bc5cdr/CDR_TrainingSet.PubTator.txt",
            500,
            9385,
            {
                "NIL mentions": 76,
                "mentions with several concept ids": 97,  # one more repeats the same id
                "seventh columns ignored": 107,
                "relation lines ignored": 1038,
            },
        ),
        (
            "bc5cdr/CDR_DevelopmentSet.PubTator.txt",
            500,
            9591,
            {
                "NIL mentions": 59,
                "mentions with several concept ids": 100,
                "seventh columns ignored": 89,
                "relation lines ignored": 1012,
            },
        ),
        (
            "bc5cdr/CDR_TestSet.PubTator.txt",
            500,
            9809,
            {
                "NIL mentions": 91,
                "mentions with several concept ids": 75,
                "seventh columns ignored": 57,
                "relation lines ignored": 1066,
            },
        ),
        ("medmentions_sample/med_mentions_3docs.pubtator.txt", 3, 115, {}),
    ],
)
def test_real_corpora_have_their_published_counts(
    shared: Callable[[str], Path], name: str, documents: int, mentions: int, notes: dict[str, int]
) -> None:
    corpus = read_pubtator(shared(f"data/{name}"))
    assert (len(corpus), len(corpus.mentions), corpus.notes) == (documents, mentions, notes)


def test_a_real_folder_is_read_whole(shared: Callable[[str], Path]) -> None:
    corpus = read_pubtator(shared("data/ncbi_disease"))
    assert (len(corpus), len(corpus.mentions)) == (792, 6881)
    assert len({m.id for m in corpus.mentions}) == 6881
    assert len({m.type for m in corpus.mentions}) == 4

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.errors import DataError
from arbo.formats.gsc import read_gsc
from arbo.formats.obo import read_obo

Read = Callable[..., Corpus]

BLOCK = ("11", "Bilateral renal cysts.", "10\t21\trenal cysts\tHP:0000107", "16\t21\tcysts\tHP:1")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines as a GSC+ file."""

    def read(*lines: str, end: str = "\n", on_error: str = "fail") -> Corpus:
        return read_gsc(save_lines(tmp_path / "gold.tsv", *lines, end=end), on_error=on_error)  # type: ignore[arg-type]

    return read


def test_a_block_is_id_text_and_mentions(read: Read) -> None:
    corpus = read(*BLOCK, "", "", "12", "Nothing.")
    assert [(document.id, document.text) for document in corpus] == [
        ("11", "Bilateral renal cysts."),
        ("12", "Nothing."),
    ]
    assert [(m.id, m.spans, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("11:10-21", ((10, 21),), "renal cysts", None, ("HP:0000107",)),
        ("11:16-21", ((16, 21),), "cysts", None, ("HP:1",)),
    ]
    assert read(*BLOCK, end="\r\n") == read(*BLOCK)
    assert len(read()) == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("10\t99\trenal\tHP:1", "10 to 99 does not fulfil 0 <= start < end <= 22"),
        ("10\t10\t\tHP:1", "does not fulfil"),
        ("x\t21\trenal cysts\tHP:1", "must be integers, not 'x' and '21'"),
        ("-1\t21\trenal cysts\tHP:1", "-1 to 21 does not fulfil"),
        (
            "10\t21\tRenal cysts\tHP:1",
            "'Renal cysts', but the text at 10 to 21 is .*; offsets count",
        ),
        ("10\t21\trenal cysts", "this line has 3"),
        ("10\t21\trenal cysts\t ", "the last one is empty"),
        ("a second line of text", "this line has 1"),
    ],
)
def test_a_malformed_line_fails_by_place_or_is_skipped_and_counted(read: Read, line: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(*BLOCK, line)
    assert (caught.value.line, caught.value.id) == (5, "11")
    corpus = read(*BLOCK, line, on_error="skip")
    assert len(corpus.mentions) == 2
    assert corpus.notes == {"malformed lines skipped": 1}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (("12",), "'12': expected a document id, its text on the next line"),
        (("10\t21\trenal\tHP:1", "text"), "expected a document id"),
        (("11", "Other."), r"'11': this id is already taken, with different content \(.*line 1\)"),
    ],
)
def test_a_malformed_document_fails_by_place_or_is_skipped_and_counted(
    read: Read, block: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(*BLOCK, "", *block)
    assert caught.value.line == 6
    corpus = read(*BLOCK, "", *block, "", "13", "", on_error="skip")
    assert [document.id for document in corpus] == ["11"]
    assert corpus.notes == {"malformed documents skipped": 2}


@pytest.mark.parametrize(
    ("name", "documents", "mentions", "clusters", "outside"), [("dev", 22, 173, 89, 2), ("test", 206, 1949, 405, 10)]
)
def test_the_real_corpus_has_its_published_counts(
    shared: Callable[[str], Path], name: str, documents: int, mentions: int, clusters: int, outside: int
) -> None:
    corpus = read_gsc(shared(f"data/gsc_plus/GSCplus_{name}_gold.tsv"))
    kb = read_obo(shared("data/gsc_plus/hp_2013-11-30.obo.gz"))
    assert (len(corpus), len(corpus.mentions), corpus.notes) == (documents, mentions, {})
    assert len({m.gold for m in corpus.mentions}) == clusters
    assert sum(not any(concept in kb for concept in m.gold or ()) for m in corpus.mentions) == outside


def test_the_real_folder_is_read_whole(shared: Callable[[str], Path]) -> None:
    corpus = read_gsc(shared("data/gsc_plus"))
    assert (len(corpus), len(corpus.mentions)) == (228, 2122)
    inside = 0
    for document in corpus:
        spans = [(m.start, m.end) for m in document.mentions]
        inside += sum(any(b <= s and e <= f and (b, f) != (s, e) for b, f in spans) for s, e in spans)
    assert inside == 465

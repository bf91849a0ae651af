from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.data.documents import Mention
from arbo.errors import DataError
from arbo.formats.conll import read_conll

Read = Callable[..., Corpus]

BEGIN, END = "#begin document (a/b); part 000", "#end document"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines as a CoNLL file."""

    def read(*lines: str, end: str = "\n", on_error: str = "fail") -> Corpus:
        return read_conll(save_lines(tmp_path / "docs.conll", *lines, end=end), on_error=on_error)  # type: ignore[arg-type]

    return read


def words(*columns: str) -> list[str]:
    """Write the words a, b, c, ... with these last columns; an empty one is an empty line."""
    return [f"a/b\t0\t{i}\t{chr(97 + i)}\t{column}" if column else "" for i, column in enumerate(columns)]


def spans(corpus: Corpus) -> list[tuple[str, str]]:
    return [(m.text, (m.gold or ("",))[0].removeprefix("a/b/000/")) for m in corpus.mentions]


def test_words_make_the_text_and_brackets_the_mentions(read: Read) -> None:
    corpus = read(BEGIN, "a/b 0 0 The DT (12", "a/b  0  1  mayor  NN  12)|(7)", "", "", "a/b 0 0 He PRP (12)", END)
    assert (corpus[0].id, corpus[0].text) == ("a/b/000", "The mayor\nHe")
    assert [(m.id, m.spans, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("a/b/000:0-9", ((0, 9),), "The mayor", None, ("a/b/000/12",)),
        ("a/b/000:4-9", ((4, 9),), "mayor", None, ("a/b/000/7",)),
        ("a/b/000:10-12", ((10, 12),), "He", None, ("a/b/000/12",)),
    ]
    assert corpus.notes == {}


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["-", "_", "*"], []),
        (["(1)"], [("a", "1")]),
        (["(1|(2", "2)|1)"], [("a b", "1"), ("a b", "2")]),
        (["(1(2", "2)1)"], [("a b", "1"), ("a b", "2")]),
        (["(1(2)", "1)"], [("a b", "1"), ("a", "2")]),
        (["(1", "(1", "1)", "1)"], [("a b c d", "1"), ("b c", "1")]),
        (["(1", "(1)", "1)"], [("a b c", "1"), ("b", "1")]),
        (["(1", "(2", "1)", "2)"], [("a b c", "1"), ("b c d", "2")]),
        (["(1", "", "1)"], [("a\nc", "1")]),
        (["(x-1)"], [("a", "x-1")]),
        (["(1", "1)(1", "1)"], [("a b c", "1"), ("b", "1")]),  # the reference scorer opens before it closes
    ],
)
def test_brackets_nest_cross_and_stick_together(read: Read, columns: list[str], found: list[tuple[str, str]]) -> None:
    corpus = read(BEGIN, *words(*columns), END)
    assert spans(corpus) == found
    assert corpus.notes == {}


def test_parts_are_documents_of_their_own(read: Read) -> None:
    corpus = read(
        BEGIN, *words("(1)"), END, "", "#begin document (a/b); part 001 ", *words("(1)"), END,
        "#begin document (c); ", *words("(1)"), END, "#begin document d", END,
    )  # fmt: skip
    assert [document.id for document in corpus] == ["a/b/000", "a/b/001", "c", "d"]
    assert [m.gold for m in corpus.mentions] == [("a/b/000/1",), ("a/b/001/1",), ("c/1",)]
    assert corpus[3].text == ""


def test_quirks_are_counted(read: Read) -> None:
    corpus = read(
        "# global", BEGIN, "# comment", *words("(1(1", "1)1)"), "a/b\t0\t2\t(2)", "a/b (2)", END, BEGIN,
        "a/b 0 0 a (1|(1", "a/b 0 1 b 1)|1)", "x (2)", "x (2)", END,
    )  # fmt: skip
    assert corpus[0].text == "a b _ _"
    assert spans(corpus) == [("a b", "1"), ("_", "2"), ("_", "2")]
    assert corpus.notes == {
        "comments ignored": 1,
        "lines without a word": 4,
        "repeated mentions dropped": 2,
        "duplicate documents dropped": 1,
    }


def test_line_ends_and_trailing_columns_change_nothing(read: Read) -> None:
    plain = read(BEGIN, *words("(1", "1)"), END)
    assert read("\ufeff" + BEGIN, *(f"{word}\t " for word in words("(1", "1)")), END, end="\r\n") == plain


@pytest.mark.parametrize(
    ("columns", "line", "problem"),
    [
        (["1)"], 2, "chain 1 ends a mention here that has not begun"),
        (["(2)", "(1"], 3, "chain 1 begins a mention here that does not end"),
        (["word"], 2, r"expected brackets such as `\(1`, `1\)` or `\(1\)|\(2`, not 'word'"),
        (["()"], 2, "expected brackets"),
        (["(1)|"], None, ""),
        (["(1)|-"], 2, "expected brackets"),
        (["(1))"], 2, "expected brackets"),
        (["(" * 100_000], 2, "expected brackets"),
        (["x" * 100_000], 2, "expected brackets"),
    ],
)
def test_a_malformed_line_fails_by_place_or_is_skipped_and_counted(
    read: Read, columns: list[str], line: int | None, problem: str
) -> None:
    lines = (BEGIN, *words(*columns), "a/b\t0\t9\tz\t(9)", END)
    if line is not None:
        with pytest.raises(DataError, match=problem) as caught:
            read(*lines)
        assert (caught.value.line, caught.value.id) == (line, "a/b/000")
    corpus = read(*lines, on_error="skip")
    assert spans(corpus)[-1] == ("z", "9")
    assert corpus.notes == ({} if line is None else {"malformed lines skipped": 1})


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ([BEGIN, *words("-")], 1, "'a/b/000': `#end document` is missing"),
        ([BEGIN, *words("-"), BEGIN, END], 1, "`#end document` is missing"),
        (
            [*words("-"), BEGIN, END],
            1,
            r"a word outside a document; a document begins with `#begin document \(name\)",
        ),
        ([BEGIN, END, BEGIN, *words("-"), END], 3, "'a/b/000': this id is already taken"),
        ([BEGIN, "word", END], 2, "expected several columns"),
        (["#begin document", END], 1, "document id is empty"),
    ],
)
def test_what_is_no_document_fails_by_place(read: Read, lines: list[str], line: int, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(*lines)
    assert caught.value.line == line
    assert sum(read(*lines, on_error="skip").notes.values()) == 1


def test_a_folder_is_read_by_ending(tmp_path: Path) -> None:
    for name in ("a.conll", "b.v4_gold_conll", "c.key"):
        (tmp_path / name).write_text(f"#begin document ({name});\n#end document\n")
    assert [document.id for document in read_conll(tmp_path)] == ["a.conll", "b.v4_gold_conll"]


def tokens(mention: Mention, corpus: Corpus) -> tuple[int, int]:
    """Return where a mention is, counted in words: key and response may have other ones."""
    (text,) = (document.text for document in corpus if document.id == mention.document_id)
    return len(text[: mention.start].split()), len(text[: mention.end].split())


def test_the_golden_files_have_the_mentions_of_the_reference_scorer(shared: Callable[[str], Path]) -> None:
    folder = shared("golden/conll")
    cases = [json.loads(line) for line in (folder / "expected.jsonl").read_text().splitlines()]
    assert len(cases) == 26
    for case in cases:
        key, response = (read_conll(folder / case[f"{side}_file"]) for side in ("key", "response"))
        known = {document.id for document in key}
        in_key = {(m.document_id, *tokens(m, key)) for m in key.mentions}
        in_response = {(m.document_id, *tokens(m, response)) for m in response.mentions if m.document_id in known}
        right = len(in_key & in_response)
        assert [right, len(in_key), right, len(in_response)] == case["mentions"]["counts"], case["name"]


def test_golden_chains_are_gold(shared: Callable[[str], Path]) -> None:
    corpus = read_conll(shared("golden/conll/own/own-multidoc.key"))
    assert [document.id for document in corpus] == ["demo/doc1/000", "demo/doc1/001", "demo/doc2/000"]
    assert (len(corpus.mentions), len({m.gold for m in corpus.mentions})) == (26, 8)
    assert corpus.mentions[0].gold == ("demo/doc1/000/2",)
    assert corpus.mentions[0].text == "w8 w9 w10 w11"

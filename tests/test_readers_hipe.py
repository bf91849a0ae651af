from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.errors import DataError
from arbo.formats.hipe import read_hipe

Read = Callable[..., Corpus]

HEADER = "TOKEN\tNE-COARSE-LIT\tNE-NESTED\tNEL-LIT\tMISC"
ID = "# hipe2022:document_id = d1"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines (blanks between columns) below the header as a HIPE file."""

    def read(*lines: str, header: str = HEADER, end: str = "\n", on_error: str = "fail") -> Corpus:
        rows = (line if line.startswith("# ") else line.replace(" ", "\t") for line in lines)
        path = save_lines(tmp_path / "docs.tsv", header, *rows, end=end)
        return read_hipe(path, on_error=on_error)  # type: ignore[arg-type]

    return read


def test_tokens_make_the_text_and_tags_the_mentions(read: Read) -> None:
    corpus = read(
        "# ajmc:title = Ajax", ID, "# hipe2022:date = 1881", "", "Dr B-pers O Q5 NoSpaceAfter", ". I-pers O Q5 _",
        "Klee I-pers O Q5 LED0.00", "in O O _ _", "Wien B-loc O NIL NoSpaceAfter|EndOfSentence", "l. B-scope O _ _",
        "# hipe2022:document_id = d2", "# O O _ NoSpaceAfter".replace(" ", "\t"), "x O O _ _",
    )  # fmt: skip
    assert [(document.id, document.text) for document in corpus] == [("d1", "Dr. Klee in Wien\nl."), ("d2", "#x")]
    assert [(m.id, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("d1:0-8", "Dr. Klee", "pers", ("Q5",)),
        ("d1:12-16", "Wien", "loc", ()),
        ("d1:17-19", "l.", "scope", None),
    ]
    assert corpus.notes == {"NIL mentions": 1, "mentions without a link": 1}


@pytest.mark.parametrize(
    ("tags", "texts", "broken"),
    [
        ("B-A I-A O", ["a b"], 0),
        ("B-A B-A O", ["a", "b"], 0),
        ("B-A O B-A", ["a", "c"], 0),
        ("B-A I-B I-B", ["a", "b c"], 1),
        ("O I-A I-A", ["b c"], 1),
        ("B-A O I-A", ["a", "c"], 1),
        ("_ _ _", [], 0),
    ],
)
def test_an_inside_tag_without_its_mention_begins_one(read: Read, tags: str, texts: list[str], broken: int) -> None:
    rows = (f"{word} {tag} O Q1 _" for word, tag in zip("abc", tags.split(), strict=True))
    corpus = read(ID, *rows)
    assert [m.text for m in corpus.mentions] == texts
    assert corpus.notes.get("mentions that begin with an I- tag", 0) == broken


@pytest.mark.parametrize(
    ("link", "gold"),
    [("Q1", ("Q1",)), ("Q1|Q2", ("Q1", "Q2")), ("Q1|Q1", ("Q1",)), ("NIL", ()), ("_", None), ("", None)],
)
def test_links_are_gold(read: Read, link: str, gold: tuple[str, ...] | None) -> None:
    assert read(ID, f"a B-A O {link} _").mentions[0].gold == gold


def test_quirks_are_counted(read: Read) -> None:
    block = (ID, "a B-A B-B NIL _", "b I-A I-B Q1 _", "c O B-B _ _")
    corpus = read(*block, "", *block)
    assert [(m.text, m.gold) for m in corpus.mentions] == [("a b", ())]
    assert corpus.notes == {
        "mentions whose tokens disagree on the link": 2,
        "NIL mentions": 2,
        "nested mentions ignored": 4,
        "duplicate documents dropped": 1,
    }


def test_columns_are_found_by_name(read: Read) -> None:
    corpus = read(ID, "Q1 x B-A", header="NEL-LIT\tTOKEN\tNE-COARSE-LIT")
    assert [(m.text, m.gold) for m in corpus.mentions] == [("x", ("Q1",))]


def test_of_two_columns_of_one_name_the_first_counts(read: Read) -> None:
    (mention,) = read(ID, "a B-A Q90 NIL", header="TOKEN\tNE-COARSE-LIT\tNEL-LIT\tNEL-LIT").mentions
    assert mention.gold == ("Q90",)


def test_line_ends_change_nothing(read: Read) -> None:
    assert read(ID, "a B-A O Q1 _", end="\r\n") == read(ID, "a B-A O Q1 _")
    assert read("#document_id=d1", "a B-A O Q1 _")[0].text == "a"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a B-A O Q1", "'d1': the header has 5 columns, but this line has 4"),
        (" B-A O Q1 _", "'d1': the token is empty"),
        ("a X-A O Q1 _", "expected O, B-type or I-type in NE-COARSE-LIT, not 'X-A'"),
        ("a B- O Q1 _", "not 'B-'"),
    ],
)
def test_a_malformed_line_fails_by_place_or_is_skipped_and_counted(read: Read, line: str, problem: str) -> None:
    lines = (ID, "x O O _ _", line, "z B-A O Q1 _")
    with pytest.raises(DataError, match=problem) as caught:
        read(*lines)
    assert caught.value.line == 4
    corpus = read(*lines, on_error="skip")
    assert corpus[0].text == "x z"
    assert corpus.notes == {"malformed lines skipped": 1}


def test_what_is_no_document_fails_by_place(read: Read) -> None:
    with pytest.raises(DataError, match="line 2: a token before any document"):
        read("x O O _ _", ID)
    with pytest.raises(DataError, match="line 4, 'd1': this id is already taken"):
        read(ID, "x O O _ _", ID, "y O O _ _")
    with pytest.raises(DataError, match="line 2: the document id is empty"):
        read("# document_id =")
    with pytest.raises(DataError, match="line 1: the header has no column NE-COARSE-LIT and no NEL-LIT"):
        read(header="TOKEN\tMISC", on_error="skip")
    assert len(read()) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "documents", "mentions", "linked", "nil", "distinct", "inside"),
    [
        ("newseye/de dev", 12, 539, 420, 119, 191, (0, 1, 0)),
        ("newseye/de dev2", 12, 882, 407, 474, 235, (0, 0, 0)),
        ("newseye/de test", 13, 2401, 1236, 1165, 618, (0, 1, 0)),
        ("newseye/fr dev", 35, 752, 523, 229, 315, (0, 0, 0)),
        ("newseye/fr dev2", 35, 1298, 793, 505, 524, (0, 0, 0)),
        ("newseye/fr test", 35, 2530, 1396, 1134, 699, (0, 0, 0)),
        ("newseye/fi train", 24, 2146, 1281, 865, 536, (2, 3, 0)),
        ("newseye/fi dev", 24, 223, 133, 90, 89, (0, 0, 0)),
        ("newseye/fi dev2", 21, 203, 116, 87, 78, (0, 1, 0)),
        ("newseye/fi test", 24, 691, 363, 328, 198, (0, 0, 0)),
        ("newseye/sv train", 21, 2140, 1447, 693, 723, (0, 1, 0)),
        ("newseye/sv dev", 21, 266, 199, 67, 118, (0, 0, 0)),
        ("newseye/sv dev2", 21, 311, 195, 116, 138, (0, 0, 0)),
        ("newseye/sv test", 21, 604, 390, 214, 215, (0, 0, 0)),
        ("sonar/de dev", 10, 654, 507, 147, 287, (0, 0, 0)),
        ("sonar/de test", 10, 471, 314, 157, 191, (0, 0, 0)),
        # 60 documents, but one of 42 mentions (22 linked, 2 NIL) is there twice.
        ("ajmc/en train", 60 - 1, 1823 - 42, 1020 - 22, 30 - 2, 226, (0, 0, 0)),
        ("ajmc/en dev", 14, 416, 223, 7, 102, (0, 0, 0)),
        ("ajmc/en test", 13, 348, 174, 9, 71, (0, 0, 0)),
        ("ajmc/de train", 76, 1738, 839, 16, 195, (0, 0, 1)),
        ("ajmc/de dev", 14, 403, 218, 3, 78, (0, 0, 0)),
        ("ajmc/de test", 16, 382, 183, 7, 47, (0, 0, 0)),
        ("ajmc/fr train", 72, 1621, 894, 16, 186, (0, 0, 0)),
        ("ajmc/fr dev", 17, 391, 204, 10, 68, (0, 0, 0)),
        ("ajmc/fr test", 15, 360, 207, 10, 92, (0, 0, 0)),
    ],
)
def test_real_corpora_have_their_published_counts(
    shared: Callable[[str], Path],
    name: str,
    documents: int,
    mentions: int,
    linked: int,
    nil: int,
    distinct: int,
    inside: tuple[int, int, int],
) -> None:
    """`inside`: mentions that begin with an I- tag (linked, NIL, neither), which the published counts leave out."""
    part, split = name.split()
    collection, language = part.split("/")
    corpus = read_hipe(shared(f"data/hipe2022/{part}/HIPE-2022-v2.1-{collection}-{split}-{language}.tsv.gz"))
    assert (len(corpus), len(corpus.mentions)) == (documents, mentions + sum(inside))
    golds = [m.gold for m in corpus.mentions]
    assert sum(bool(gold) for gold in golds) == linked + inside[0]
    assert golds.count(()) == nil + inside[1]
    assert len({gold for gold in golds if gold}) == distinct
    assert corpus.notes.get("mentions that begin with an I- tag", 0) == sum(inside)
    assert corpus.notes.get("duplicate documents dropped", 0) == (name == "ajmc/en train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "disagreeing", "nested"),
    [
        ("newseye/de", 6, 180),
        ("newseye/fi", 0, 313),
        ("newseye/fr", 1, 223),
        ("newseye/sv", 0, 163),
        ("sonar/de", 5, 0),
        ("ajmc/de", 0, 13),
        ("ajmc/en", 0, 4),
        ("ajmc/fr", 0, 9),
    ],
)
def test_real_folders_are_read_whole(shared: Callable[[str], Path], name: str, disagreeing: int, nested: int) -> None:
    corpus = read_hipe(shared(f"data/hipe2022/{name}"))
    assert len({m.id for m in corpus.mentions}) == len(corpus.mentions)
    assert corpus.notes.get("mentions whose tokens disagree on the link", 0) == disagreeing
    assert corpus.notes.get("nested mentions ignored", 0) == nested

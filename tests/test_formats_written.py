"""Documents are written and read again, or the writer says what is lost; `conservation.writers` draws documents."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines
from format_files import BIOC, DOCUMENTS, save
from hypothesis import given, strategies as st

import arbo
from arbo.data import Marked
from arbo.data.documents import marked_document
from arbo.formats import read_documents, writer

Shared = Callable[[str], Path]


def write_documents(documents: Any, path: Path, format_: str, names: dict[str, str] | None = None) -> dict[str, int]:
    """Write documents, and return what the format could not hold."""
    return {note: n for note, n in writer(format_)(list(documents), path, names or {}).items() if n}


TEXT = "Left and right kidney. Flu."
ORGAN = arbo.Mention("d:T7", "d", ((0, 4), (15, 21)), "Left kidney", "UBERON", ("UBERON:0004538", "C0227613"))
FLU = arbo.Mention("d:T8", "d", ((23, 26),), "Flu", "MONDO", ())
SPLIT = "texts split at punctuation, so that mentions begin and end with a word"
NO_ID, TWICE = "mentions without an id or a word left out", "repeated mentions left out"
CROSSING = "mentions crossing another of their chain, which readers take as nested"
BLANK = "texts that got a blank at the end"


def seen(documents: Iterable[arbo.Document]) -> list[object]:
    """Everything of documents but the ids of mentions."""
    return [(d.id, d.text, [(m.spans, m.type, m.gold) for m in d.mentions]) for d in documents]


def of(text: str, *mentions: arbo.Mention, id_: str = "d") -> arbo.Document:
    return arbo.Document(id_, text, mentions)


def mention(start: int, end: int, text: str, *gold: str, of: str = "d", kind: str | None = "X") -> arbo.Mention:
    return arbo.Mention(f"{of}:{start}-{end}", of, ((start, end),), text[start:end], kind, gold or None)


@pytest.mark.parametrize(
    ("file", "format_", "to"),
    [
        ("ncbi_disease/NCBItrainset_corpus.txt", "pubtator", "pubtator"),
        ("craft/dev", "brat", "brat"),
        ("bc5cdr/CDR_TestSet.PubTator.txt", "pubtator", "bioc"),
        ("quaero/train/EMEA", "brat", "brat"),
        ("ncbi_disease/NCBItestset_corpus.txt", "pubtator", "brat"),
    ],
)
def test_a_corpus_comes_back_as_it_was(shared: Shared, tmp_path: Path, file: str, format_: str, to: str) -> None:
    corpus = read_documents(shared(f"data/{file}"), format_)
    notes = write_documents(corpus, tmp_path / "out.txt", to)
    again = read_documents(tmp_path / "out.txt", to)
    assert (notes, sorted(seen(again))) == ({}, sorted(seen(corpus)))
    if format_ == to:
        assert {m.id for m in again.mentions} == {m.id for m in corpus.mentions}


@pytest.mark.parametrize("file", ["ecbplus/ECB_Dev_corpus.txt", "gum/GUM_dev_corpus.txt"])
def test_coreference_comes_back_in_conll(shared: Shared, tmp_path: Path, file: str) -> None:
    corpus = read_documents(shared(f"data/{file}"), "ecbplus")
    notes = write_documents(corpus, tmp_path / "once.conll", "conll")
    once = read_documents(tmp_path / "once.conll", "conll")
    assert [(d.id, d.text) for d in once] == [(d.id, d.text) for d in corpus]
    assert len(corpus.mentions) - len(once.mentions) == notes.get("repeated mentions left out", 0)
    assert (chains(once), write_documents(once, tmp_path / "twice.conll", "conll")) == (chains(corpus), {})
    assert (tmp_path / "twice.conll").read_bytes() == (tmp_path / "once.conll").read_bytes()
    assert seen(read_documents(tmp_path / "twice.conll", "conll")) == seen(once)


def chains(documents: Iterable[arbo.Document]) -> set[tuple[str, frozenset[tuple[int, int]]]]:
    """The chains of each document, as sets of spans."""
    found: dict[tuple[str, object], set[tuple[int, int]]] = {}
    for document in documents:
        for m in document.mentions:
            found.setdefault((document.id, m.labels), set()).add((m.start, m.end))
    return {(document_id, frozenset(spans)) for (document_id, _), spans in found.items()}


@given(st.lists(st.tuples(st.sets(st.integers(0, 7), min_size=1), st.integers(1, 8), st.sampled_from([None, "x"]))))
def test_mentions_come_back_in_corefud(tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[Any, ...]]) -> None:
    """Mentions of any words, each with an entity of its own, so that no two of one entity cross."""
    text, words = "a b c d\ne f g\xa0h i", [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 15), (16, 17)]
    marked = []
    for n, (some, head, kind) in enumerate(drawn):
        runs: list[tuple[int, int]] = []
        for at in sorted(some):
            begin = runs.pop()[0] if runs and at - 1 in some else words[at][0]
            runs.append((begin, words[at][1]))
        about = {"head": min(head, len(some))}
        marked.append(Marked(tuple(runs), kind, (f"d/e{n}",), metadata=about))
    document = marked_document("d", text, marked)
    path = tmp_path_factory.mktemp("corefud") / "d.conllu"
    assert write_documents([document], path, "corefud") == {}
    (again,) = read_documents(path, "corefud")
    kept = [sorted((m.gold, m.spans, m.type, m.metadata["head"]) for m in d.mentions) for d in (document, again)]
    assert (kept[0], again.text) == (kept[1], text)
    assert write_documents([again], path.with_suffix(".again"), "corefud") == {}
    assert path.with_suffix(".again").read_text().replace(" = d-", "") == path.read_text().replace(" = d-", "")


def test_corefud_has_ids_of_sentences_and_says_what_it_cannot_hold(tmp_path: Path) -> None:
    path = save(tmp_path, "corefud", DOCUMENTS["corefud"])
    corpus = read_documents(path, "corefud")
    write_documents(corpus, tmp_path / "out.conllu", "corefud")
    assert [*read_documents(tmp_path / "out.conllu", "corefud")] == [*corpus]
    assert "\n3.1\t_\t_" in (tmp_path / "out.conllu").read_text()
    text = "Flu (a flu) now"
    crossing = [mention(*span, text, "E", kind="a-b") for span in ((0, 10), (5, 15))]
    twice = replace(crossing[0], id="d:twice")
    notes = write_documents([of(text, *crossing, mention(0, 3, text), twice)], tmp_path / "o.conllu", "corefud")
    assert notes == {SPLIT: 1, NO_ID: 1, TWICE: 1, CROSSING: 1, "types that the format cannot hold left out": 3}


def test_pubtator(tmp_path: Path) -> None:
    text = "Flu. Left\nand right flu"
    last = arbo.Mention("d:x", "d", ((20, 23),), "flu", None, ())
    document = of(text, mention(0, 3, text, "D1", "D2"), mention(5, 13, text), last)
    two = mention(0, 3, "One", of="a", kind="A\rB"), mention(0, 2, "On", of="a", kind="")
    short = arbo.Document("a", "One, two ", two)
    others = [of("Flu", id_="e"), of("", id_="f"), short, of("St. Louis is here. Two.", id_="g")]
    notes = write_documents([document, *others], tmp_path / "out.txt", "pubtator")
    assert (tmp_path / "out.txt").read_text("utf-8") == (
        "d|t|Flu.\nd|a|Left and right flu\n"
        "d\t0\t3\tFlu\tX\tD1|D2\nd\t5\t13\tLeft and\tX\nd\t20\t23\tflu\t\t-1\n\n"
        "e|t|Flu\ne|a|\n\nf|t|\nf|a|\n\n"
        "a|t|One, two\na|a|\na\t0\t3\tOne\tA B\na\t0\t2\tOn\t\n\ng|t|St. Louis is here.\ng|a|Two.\n\n"
    )
    became = "whose tabs and line ends became blanks"
    assert notes == {f"texts {became}": 1, BLANK: 2, f"types {became}, and empty ones": 2}
    write_documents([of("One\nTwo. Three.")], tmp_path / "out.txt", "pubtator")
    assert (tmp_path / "out.txt").read_text("utf-8").startswith("d|t|One\nd|a|Two. Three.\n")
    ids = [("C++",), ("c|SUB|A|5|G",), ("A1|B2",), ("D1", "102;103")]
    mentions = (arbo.Mention(f"d:{i}", "d", ((0, 3),), "flu", "X", gold) for i, gold in enumerate(ids))
    notes = write_documents([of("flu is.", *mentions)], tmp_path / "out.txt", "pubtator")
    assert notes == {BLANK: 1, "ids with `|` or `+`, which readers split unless the knowledge base has them": 1}
    back = [m.gold for m in read_documents(tmp_path / "out.txt", "pubtator").mentions]
    assert back == [*ids[:2], ("A1", "B2"), ids[3]]


def test_brat(tmp_path: Path) -> None:
    notes = write_documents([of(TEXT, ORGAN, FLU)], tmp_path / "out", "brat", {"UBERON:0004538": "left\nkidney"})
    assert (tmp_path / "out" / "d.txt").read_text("utf-8") == TEXT
    kidney = "T7\tUBERON 0 4;15 21\tLeft kidney\nN1\tReference T7 UBERON:0004538\tleft kidney"
    lines = f"{kidney}\n#2\tAnnotatorNotes T7\tC0227613\nT8\tMONDO 23 26\tFlu\n"
    assert (tmp_path / "out" / "d.ann").read_text("utf-8") == lines
    assert notes == {"NIL mentions written without an id": 1}
    assert "[entities]\nMONDO\nUBERON\n\n[relations]" in (tmp_path / "out/annotation.conf").read_text()


def test_brat_replaces_nothing_splits_at_line_ends_and_names_files_safely(tmp_path: Path) -> None:
    text = "left\r\nkidney"
    names = "../up", "..", "a/b", "a b.1"
    documents = [of(text, mention(0, 12, text, of=name, kind=None), id_=name) for name in names]
    notes = write_documents([*documents, of("flu\nill", mention(0, 4, "flu\nill"))], tmp_path / "out", "brat")
    again = read_documents(tmp_path / "out", "brat")
    assert {d.id for d in again} == {"%2E%2E", "%2E%2E%2Fup", "a b.1", "a%2Fb", "d"}
    split = {(((0, 4), (6, 12)), "left kidney", "Mention"), (((0, 3),), "flu", "X")}
    assert {(m.spans, m.text, m.type) for m in again.mentions} == split
    assert notes == {
        "document ids percent-encoded to be file names": 3,
        "mentions split or cut at a line end": 5,
        "mentions whose label differs from their type: `Mention` for none, `_` for blanks": 4,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(arbo.UsageError, match="not an empty folder"):
        write_documents([of(TEXT)], tmp_path / "out", "brat")
    assert len(read_documents(tmp_path / "out", "brat")) == 5


def test_conll_has_words_sentences_and_chains_and_says_what_it_cannot_hold(tmp_path: Path) -> None:
    text = "The mayor left.\nShe (the mayor) won"
    spans = [(0, 9), (16, 19), (21, 30), (25, 30)]
    marked = [mention(*span, text, gold) for span, gold in zip(spans, ["A", "A", "A", "B"], strict=True)]
    marked.append(arbo.Mention("d:y", "d", ((16, 19),), "She", None, ()))
    notes = write_documents([of(text, *marked)], tmp_path / "out.conll", "conll")
    assert (tmp_path / "out.conll").read_text("utf-8").replace("\t", " ").splitlines() == [
        "#begin document (d);",
        *("d 0 0 The (0", "d 0 1 mayor 0)", "d 0 2 left -", "d 0 3 . -", ""),
        *("d 0 0 She (0)", "d 0 1 ( -", "d 0 2 the (0", "d 0 3 mayor 0)|(1)", "d 0 4 ) -", "d 0 5 won -", ""),
        "#end document",
    ]
    assert notes == {SPLIT: 1, NO_ID: 1}
    text = "a b c d  e"
    crossing = [mention(0, 5, text, "A"), mention(2, 7, text, "A"), mention(8, 9, text, "A")]
    twice = arbo.Mention("d:2", "d", ((0, 5),), "a b c", None, ("A",))
    apart = arbo.Mention("d:3", "d", ((0, 1), (9, 10)), "a e", None, ("B",))
    notes = write_documents([of(text, *crossing, twice, apart)], tmp_path / "out.conll", "conll")
    whole = "discontinuous mentions written from first to last offset"
    assert notes == dict.fromkeys((CROSSING, NO_ID, TWICE, whole, SPLIT), 1)


IDS = [("pubtator", "a|b", "D1"), ("pubtator", "d", "-1"), ("pubtator", "d", " D1"), ("bioc", "d", "-")]
IDS += [("brat", "d", "D\t1"), ("conll", "a\nb", "D1")]


@pytest.mark.parametrize(("format_", "id_", "gold"), IDS)
def test_an_id_that_a_format_cannot_hold_is_refused(tmp_path: Path, format_: str, id_: str, gold: str) -> None:
    document = of("flu", mention(0, 3, "flu", gold, of=id_), id_=id_)
    with pytest.raises(arbo.DataError, match="rename it, or export as jsonl"):
        write_documents([document], tmp_path / "out", format_)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_", ["bioc", "jsonl"])
def test_json_holds_no_nan(tmp_path: Path, format_: str) -> None:
    odd: dict[str, Any] = {"a": float("nan"), "b": [float("inf"), {"c": -float("inf")}], "d": 1.5}
    flu = arbo.Mention("d:m", "d", ((0, 3),), "flu", "X", metadata=odd)
    line = '{"id": "d", "text": "flu", "mentions": [{"spans": [[0, 3]], "n": NaN}], "m": -Infinity, "d": 1.5}'
    read = read_documents(save_lines(tmp_path / "nan.jsonl", line))
    for documents in ([arbo.Document("d", "flu", (flu,), metadata=odd)], read):
        write_documents(documents, tmp_path / "out", format_)
        text = (tmp_path / "out").read_text("utf-8")
        json.loads(text, parse_constant=pytest.fail)
        assert "1.5" in text


@pytest.mark.parametrize("metadata", [{"relations": "12"}, {"passages": "x"}, {"relations": {"a": [1]}}])
def test_metadata_with_a_name_of_bioc_are_infons(tmp_path: Path, metadata: dict[str, Any]) -> None:
    write_documents([arbo.Document("d", "flu", metadata=metadata)], tmp_path / "out.json", "bioc")
    assert read_documents(tmp_path / "out.json", "bioc")[0].metadata == metadata


def test_metadata_with_a_name_of_ours_keep_their_values_and_lost_passages_are_one(tmp_path: Path) -> None:
    """A key that the reader would take for a text, a cluster or a domain gets a `_`."""
    metadata = {"text": "cold", "cluster": "c", "cluster_": "d", "note": 1}
    flu = arbo.Mention("m", "d", ((0, 3),), "flu", metadata=metadata)
    arbo.Corpus.of([arbo.Document("d", "flu", (flu,), metadata={"domain": "x"})]).to_jsonl(tmp_path / "out.jsonl")
    (read,) = read_documents(tmp_path / "out.jsonl")
    assert read.metadata == {"domain_": "x"}
    assert read.mentions[0].metadata == {"text_": "cold", "cluster_": "c", "cluster__": "d", "note": 1}
    assert (read.domain, read.mentions[0].cluster) == (None, None)
    arbo.KnowledgeBase([arbo.Entity("E", "flu", metadata={"name": "x"})]).to_jsonl(tmp_path / "kb.jsonl")
    assert arbo.read_knowledge_base(tmp_path / "kb.jsonl")["E"].metadata == {"name_": "x"}
    kept = {"passages": [{"offset": 0, "length": 2, "infons": {}}], "year": 2020}
    for metadata in (kept, {"passages": [5], "year": 2020}):
        write_documents([arbo.Document("d", "Flu B", metadata=metadata)], tmp_path / "out.json", "bioc")
        (again,) = read_documents(tmp_path / "out.json", "bioc")
        assert (again.text, again.metadata) == ("Flu B", {"year": 2020})


@pytest.mark.parametrize("name", ["bioc", "bioc xml", "brat", "conll", "jsonl"])
def test_a_good_file_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    corpus = read_documents(save(tmp_path, name, DOCUMENTS[name]))
    assert write_documents(corpus, tmp_path / "out.json", name.split()[0]) == {}
    guessed: list[str] = []
    again = read_documents(tmp_path / "out.json", announce_format=guessed.append)
    assert (guessed, again) == ([name.split()[0]], corpus)
    assert [one.metadata for one in again] == [one.metadata for one in corpus]


def test_exports_keep_the_passages_and_a_table_does_not_repeat_them(tmp_path: Path) -> None:
    corpus = read_documents(save(tmp_path, "bioc", DOCUMENTS["bioc"]))
    result = arbo.Linker(arbo.KnowledgeBase([arbo.Entity("MESH:D006527", "Wilson disease")])).link(corpus)
    frame = result.to_pandas()
    assert {*frame["journal"]} == {"J"}
    assert not {"passages", "relations"} & {*frame.columns}
    result.save(tmp_path / "run")
    arbo.Result.load(tmp_path / "run").export(tmp_path / "out.json", "bioc", ids="gold")
    (record,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["documents"]
    assert [passage["infons"] for passage in record["passages"]] == [{"type": "title"}, {"type": "abstract"}]
    assert record["relations"] == BIOC["relations"]


def test_relations_travel_through(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1|t|Flu\n1|a|Cold.\n1\t0\t3\tFlu\tX\tD1\n1\tCID\tD1\tD2\n\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/d.txt").write_text("Flu. Cold.")
    lines = ["T1\tX 0 3\tFlu", "T2\tX 5 9\tCold", "R1\tCID Arg1:T1 Arg2:T2", "#4\tAnnotatorNotes R1\tsure"]
    (tmp_path / "b/d.ann").write_text("\n".join(lines) + "\n")
    for name, file in (("pubtator", "a.txt"), ("brat", "b")):
        run = arbo.Linker([{"id": "D1", "name": "flu"}]).link(read_documents(tmp_path / file, name))
        run.save(tmp_path / "run")
        arbo.Result.load(tmp_path / "run").export(tmp_path / f"out {name}", name)
    assert "\n1\tCID\tD1\tD2\n" in (tmp_path / "out pubtator").read_text()
    written = (tmp_path / "out brat/d.ann").read_text().splitlines()
    assert sorted(written) == sorted([*lines, "N5\tReference T1 D1\tflu", "N6\tReference T2 new-d:T2\tCold"])
    assert "CID\tArg1:<ENTITY>, Arg2:<ENTITY>" in (tmp_path / "out brat/annotation.conf").read_text()

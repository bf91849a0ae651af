from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import save_lines

from arbo.data.corpus import Corpus
from arbo.errors import DataError, UsageError
from arbo.formats import read_documents
from arbo.formats.ecbplus import read_ecbplus, read_ecbplus_events

Read = Callable[..., Corpus]

WORDS = ("1_1ecb 0 0 Perry HUM1", "1_1ecb 0 1 left -", "1_1ecb 0 2 rehab LOC1", "", "1_1ecb 3 0 She HUM1")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read words (blanks stand for tabs) and mentions."""

    def read(*words: str, mentions: object = (), on_error: str = "fail", kind: str = "Entity") -> Corpus:
        save_lines(tmp_path / "X_corpus.txt", *(word.replace(" ", "\t") for word in words))
        text = mentions if isinstance(mentions, str) else json.dumps(mentions)
        (tmp_path / f"X_{kind}_gold_mentions.json").write_text(text)
        reader = read_ecbplus if kind == "Entity" else read_ecbplus_events
        return reader(tmp_path, on_error=on_error)  # type: ignore[arg-type]

    return read


def mention(sentence: int, *words: int, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": "1_1ecb",
        "sent_id": sentence,
        "tokens_number": list(words),
        "coref_chain": "HUM1",
        "mention_type": "HUM",
        **more,
    }


def test_words_make_the_text_and_the_mentions(read: Read) -> None:
    corpus = read(*WORDS, mentions=[mention(3, 0), mention(0, 0, 1), mention(0, 2, 0, tokens_str="Perry rehab")])
    assert (corpus[0].id, corpus[0].text) == ("1_1ecb", "Perry left rehab\nShe")
    assert [(m.id, m.spans, m.text, m.type, m.gold) for m in corpus.mentions] == [
        ("1_1ecb:17-20", ((17, 20),), "She", "HUM", ("HUM1",)),
        ("1_1ecb:0-10", ((0, 10),), "Perry left", "HUM", ("HUM1",)),
        ("1_1ecb:0-5,11-16", ((0, 5), (11, 16)), "Perry rehab", "HUM", ("HUM1",)),
    ]
    assert corpus.notes == {}
    assert corpus[0].metadata == {"topic": "1"}


def test_only_documents_of_ecbplus_have_topics(read: Read) -> None:
    corpus = read("GUM_bio_x 0 0 Perry")
    assert corpus[0].metadata == {}
    with pytest.raises(UsageError, match="1 documents, such as 'GUM_bio_x', have no topic in their metadata"):
        corpus.by_topic()


@pytest.mark.parametrize(
    ("keys", "gold", "cluster"),
    [
        ({}, ("HUM1",), None),
        ({"coref_chain": "Singleton_HUM_1_1_1ecb"}, ("Singleton_HUM_1_1_1ecb",), None),
        ({"identity": "Linda_Perry"}, ("Linda_Perry",), "HUM1"),
        ({"identity": None}, None, "HUM1"),
        ({"coref_chain": None}, None, None),
        ({"coref_chain": ""}, None, None),
    ],
)
def test_the_chain_is_the_cluster_where_there_are_identities(
    read: Read, keys: dict[str, Any], gold: tuple[str, ...] | None, cluster: str | None
) -> None:
    (found,) = read(*WORDS, mentions=[mention(0, 0, **keys)]).mentions
    assert (found.gold, found.cluster) == (gold, cluster)


def test_entities_and_events_are_two_formats(read: Read, tmp_path: Path) -> None:
    read(*WORDS, mentions=[mention(0, 0)])
    read(*WORDS, mentions=[mention(0, 1, mention_type="ACT")], kind="Event")
    assert [m.text for m in read_documents(tmp_path, "ecbplus").mentions] == ["Perry"]
    assert [m.text for m in read_documents(tmp_path, "ecbplus-events", types="ACT").mentions] == ["left"]
    assert [m.text for m in read_documents(tmp_path / "X_corpus.txt", "ecbplus").mentions] == ["Perry"]


def test_quirks_are_counted(read: Read) -> None:
    mentions = [mention(0, 0, tokens_str="Perry "), mention(0, 0, mention_type=None, score=-1.0)]
    corpus = read("1_1ecb 0 0 Perry  HUM1", mentions=mentions)
    assert [m.id for m in corpus.mentions] == ["1_1ecb:0-5", "1_1ecb:0-5#2"]
    assert corpus.mentions[1].type is None
    assert corpus.notes == {
        "corpus lines with an extra column": 1,
        "mentions whose tokens_str differs from their words": 1,
    }


def test_gum_needs_no_fifth_column_and_files_may_be_gzipped(tmp_path: Path) -> None:
    (tmp_path / "X_corpus.txt.gz").write_bytes(gzip.compress(b"\n1_1ecb\t0\t0\tPerry\n"))
    (tmp_path / "X_Entity_gold_mentions.json.gz").write_bytes(gzip.compress(json.dumps([mention(0, 0)]).encode()))
    assert [m.text for m in read_ecbplus(tmp_path).mentions] == ["Perry"]


def test_a_document_in_two_files_is_an_error_unless_it_is_equal(read: Read, tmp_path: Path) -> None:
    read(*WORDS)
    (tmp_path / "Y_corpus.txt").write_text("\n".join(WORDS).replace(" ", "\t"))
    (tmp_path / "Y_Entity_gold_mentions.json").write_text("[]")
    assert read(*WORDS).notes == {"duplicate documents dropped": 1}
    with pytest.raises(DataError, match=r"Y_corpus.txt, line 1, '1_1ecb': this id is already taken"):
        read(*WORDS, mentions=[mention(0, 0)])


@pytest.mark.parametrize(
    ("words", "line", "problem"),
    [
        (["1_1ecb 0 0"], 6, "expected at least 4 tab-separated columns"),
        (["1_1ecb 0 0  HUM1"], 6, "expected at least 4 tab-separated columns"),
        (["1_1ecb x 0 word"], 6, "'1_1ecb': sentence and word must be integers, not 'x' and '0'"),
        (["1_1ecb 0 -1 word"], 6, "must be integers, not '0' and '-1'"),
    ],
)
def test_a_malformed_word_fails_by_place_or_is_skipped_and_counted(
    read: Read, words: list[str], line: int, problem: str
) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(*WORDS, *words, mentions=[mention(3, 0)])
    assert (caught.value.line, str(caught.value.file)[-12:]) == (line, "X_corpus.txt")
    corpus = read(*WORDS, *words, mentions=[mention(3, 0)], on_error="skip")
    assert len(corpus.mentions) == 1
    assert corpus.notes == {"malformed lines skipped": 1}


def test_a_word_that_comes_twice_is_an_error(read: Read) -> None:
    with pytest.raises(DataError, match="line 6, '1_1ecb': sentence 3 has word 0 twice"):
        read(*WORDS, "1_1ecb 3 0 He")
    with pytest.raises(
        DataError, match=r"line 7, '1_1ecb': this id is already taken, with different content \(.*line 1"
    ):
        read(*WORDS, "1_2ecb 0 0 He", "1_1ecb 4 0 He")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("text", "mention 2: expected an object whose 'doc_id' is a string"),
        ({"sent_id": 0}, "mention 2: expected an object"),
        (mention(0, 9), "'1_1ecb': mention 2: the corpus has no word 9 in sentence 0"),
        (mention(1, 0), "the corpus has no word 0 in sentence 1"),
        (mention(0), "mention 2: 'sent_id' must be an integer, 'tokens_number' a list of integers"),
        (mention(0, 0, tokens_number=[True]), "a list of integers"),
        (mention(0, 0, tokens_number=0), "a list of integers"),
        (mention(0, 0, sent_id="0"), "'sent_id' must be an integer"),
        (mention(0, 0, coref_chain=5), "mention 2: 'coref_chain' must be a string"),
        (mention(0, 0, mention_type=["HUM"]), "'mention_type' must be a string"),
        (mention(0, 0, doc_id="9_9ecb"), "'9_9ecb': X_corpus.txt has no such document"),
    ],
)
def test_a_malformed_mention_fails_by_number_or_is_skipped_and_counted(
    read: Read, broken: object, problem: str
) -> None:
    mentions = [mention(0, 0), broken, mention(3, 0)]
    with pytest.raises(DataError, match=problem) as caught:
        read(*WORDS, mentions=mentions)
    assert str(caught.value.file).endswith("X_Entity_gold_mentions.json")
    corpus = read(*WORDS, mentions=mentions, on_error="skip")
    assert [m.text for m in corpus.mentions] == ["Perry", "She"]
    assert sum(corpus.notes.values()) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[\n{"doc_id": }]', "line 2: not JSON: Expecting value"),
        ("{}", "expected a JSON list of mentions"),
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[" + "9" * 5000 + "]", "a number with thousands of digits"),
    ],
)
def test_a_mention_file_that_is_none_is_never_skipped(read: Read, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read(*WORDS, mentions=text, on_error="skip")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder has no file that ends in _corpus\.txt"):
        read_ecbplus(tmp_path)
    (tmp_path / "X_corpus.txt").write_text("")
    with pytest.raises(DataError, match=r"it must be X_Event_gold_mentions\.json in the same folder"):
        read_ecbplus_events(tmp_path)
    (tmp_path / "words.txt").write_text("")
    with pytest.raises(DataError, match=r"expected a folder, or a file that ends in _corpus\.txt"):
        read_ecbplus(tmp_path / "words.txt")


def homes(corpus: Corpus) -> dict[str, set[str]]:
    """Return the documents of each cluster."""
    found: dict[str, set[str]] = defaultdict(set)
    for m in corpus.mentions:
        for concept in m.gold or ():
            found[concept].add(m.document_id)
    return found


@pytest.mark.parametrize(
    ("name", "kind", "documents", "mentions", "chains", "across", "discontinuous", "notes"),
    [
        ("Train", "Entity", 574, 4758, 1286, 427, 0, {}),
        ("Dev", "Entity", 196, 1476, 330, 118, 1, {"tokens": 2, "column": 1}),
        ("Test", "Entity", 206, 2055, 608, 160, 1, {"column": 1}),
        ("Train", "Event", 574, 3808, 1527, 381, 33, {"tokens": 1}),
        ("Dev", "Event", 196, 1245, 409, 121, 6, {"tokens": 1, "column": 1}),
        ("Test", "Event", 206, 1780, 805, 167, 11, {"tokens": 1, "column": 1}),
    ],
)
def test_ecbplus_has_its_published_counts(
    shared: Callable[[str], Path],
    name: str,
    kind: str,
    documents: int,
    mentions: int,
    chains: int,
    across: int,
    discontinuous: int,
    notes: dict[str, int],
) -> None:
    reader = read_ecbplus if kind == "Entity" else read_ecbplus_events
    corpus = reader(shared(f"data/ecbplus/ECB_{name}_corpus.txt"))
    clusters = homes(corpus)
    assert (len(corpus), len(corpus.mentions), len(clusters)) == (documents, mentions, chains)
    assert sum(len(found) > 1 for found in clusters.values()) == across
    assert sum(len(m.spans) > 1 for m in corpus.mentions) == discontinuous
    long = {
        "tokens": "mentions whose tokens_str differs from their words",
        "column": "corpus lines with an extra column",
    }
    assert corpus.notes == {long[note]: count for note, count in notes.items()}


def test_ecbplus_is_read_whole(shared: Callable[[str], Path]) -> None:
    corpus = read_ecbplus(shared("data/ecbplus"))
    assert (len(corpus), len(corpus.mentions)) == (976, 8289)
    assert len({m.id for m in corpus.mentions}) == 8289
    assert {m.type for m in corpus.mentions} == {"HUM", "NON", "LOC", "TIM"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "documents", "mentions", "chains", "titled", "titles"),
    [
        ("train", 84, 22_330, 12_666, 5912, 1691),
        ("dev", 12, 2993, 1589, 643, 157),
        ("test", 12, 3142, 1809, 876, 277),
    ],
)
def test_gum_has_its_published_counts(
    shared: Callable[[str], Path], name: str, documents: int, mentions: int, chains: int, titled: int, titles: int
) -> None:
    corpus = read_ecbplus(shared(f"data/gum/GUM_{name}_corpus.txt"))
    assert (len(corpus), len(corpus.mentions), corpus.notes) == (documents, mentions, {})
    by_title = [m for m in corpus.mentions if m.gold]
    assert (len(by_title), len({m.gold for m in by_title})) == (titled, titles)
    assert len({m.cluster for m in corpus.mentions}) == chains


@pytest.mark.slow
def test_titles_join_documents(shared: Callable[[str], Path]) -> None:
    corpus = read_ecbplus(shared("data/gum"))
    across = [title for title, found in homes(corpus).items() if len(found) > 1]
    assert len(corpus.mentions) == len({m.id for m in corpus.mentions}) == 28_465
    assert len(across) == 166

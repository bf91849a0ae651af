"""Statistics of corpora: counts of a small set by hand, and the same counts by brute force."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from builders import document
from hypothesis import given, strategies as st

import arbo
from arbo import Document, Entity, KnowledgeBase, Mention
from arbo.data.documents import text_of
from arbo.results.corpus_stats import corpus_stats

KB = KnowledgeBase([Entity("A", "kidney", alternative_ids=("OLD",)), Entity("B", "fever"), Entity("C", "chill")])
TRAIN = [document("t", ("kidney", ("A",)), ("renal", ("A",)), ("heart", ("X",)), ("gap", ()), ("open", None))]
TEST = [
    document("a", ("kidneys", ("OLD",)), ("fever", ("B",)), ("hearts", ("X",))),
    document("b", ("chill", ("C", "A")), ("cold fever", ("B",)), ("heat", ("Y",))),
]


def test_what_is_counted() -> None:
    found = corpus_stats({"train": TRAIN, "test": TEST}, KB)
    train, test = found.parts.values()
    assert train.figures == {
        "documents": 1,
        "mentions": 5,
        "mentions_with_entity": 3,
        "mentions_annotated_as_nil": 1,
        "mentions_discontinuous": 0,
        "mentions_nested": 0,
        "mentions_of_most_frequent_entity": 2,
        "entities": 2,
        "entities_in_several_documents": 0,
        "mentions_outside_kb": 1,
        "entities_outside_kb": 1,
        "characters_per_document": 27,
        "words_per_document": 5,
        "characters_per_mention": 23 / 5,
        "words_per_mention": 1,
    }
    assert train.sizes == {"1": 1, "2-3": 1}
    assert (
        test.figures.items()
        >= {
            "mentions_with_entity": 6,
            "mentions_outside_kb": 2,
            "entities_outside_kb": 2,
            "entities": 5,
            "entities_in_several_documents": 2,
            "entities_unseen": 3,  # B, C and Y
            "mentions_unseen": 3,  # "chill" is A too
            "words_per_document": 3.5,
        }.items()
    )
    assert [tuple(own.values()) for own in test.frequent] == [
        *(("A", "kidney", 2), ("B", "fever", 2), ("C", "chill", 1), ("X", "hearts", 1), ("Y", "heat", 1))
    ]
    assert found.overlap["train"] == {"train": 1.0, "test": 1.0}
    assert found.overlap["test"] == {"train": 0.4, "test": 1.0}
    assert found.in_no_other == {"train": 0.0, "test": 0.6}
    assert re.search(r"^test +40.0% +100.0% +60.0%$", str(found), re.MULTILINE)
    assert re.search(r"^entities unseen +3 \(60.0%\)$", str(found), re.MULTILINE)


def test_without_a_knowledge_base_ids_are_entities() -> None:
    found = corpus_stats({"train": TRAIN, "test": TEST}).parts["test"]
    assert (found.figures["entities"], found.figures["entities_unseen"]) == (6, 4)
    assert found.frequent[0] == {"id": "B", "name": "cold fever", "mentions": 2}
    assert "outside" not in str(corpus_stats({"test": TEST}))
    worlds = [document("d", ("a", ("A",)), ("b", None), domain="w"), document("e", "c", domain="v")]
    assert corpus_stats({"test": worlds}).parts["test"].domains == {"w": 2, "v": 1}


def test_nil_with_a_cluster_is_nil() -> None:
    nil = document("d", ("gap", ()), ("hole", ()))
    nil = replace(nil, mentions=(replace(nil.mentions[0], cluster="c"), nil.mentions[1]))
    assert corpus_stats({"all": [nil]}, KB).parts["all"].figures["mentions_annotated_as_nil"] == 2


def test_entities_outside_the_kb_are_those_of_mentions_without_one_in_it() -> None:
    mixed = document("d", ("kidney", ("A", "X")), ("gap", ("Y", "Z")), ("hole", ()))
    mixed = replace(mixed, mentions=(*mixed.mentions[:2], replace(mixed.mentions[2], cluster="c")))
    figures = corpus_stats({"all": [mixed]}, KB).parts["all"].figures
    assert (figures["entities"], figures["entities_outside_kb"], figures["mentions_outside_kb"]) == (4, 3, 2)


def test_an_id_given_twice_counts_once() -> None:
    twice = corpus_stats({"all": [document("d", ("kidney", ("A", "A")))]}).parts["all"]
    assert twice.sizes == {"1": 1}


def test_nothing_is_counted_too() -> None:
    empty = corpus_stats({"train": [], "test": [Document("d", "")]}, KB)
    assert empty.parts["test"].sizes == {}
    assert empty.overlap["test"]["train"] == 0
    assert re.search(r"^documents +0 +1$", str(empty), re.MULTILINE)
    assert corpus_stats({}).parts == {}


def test_an_entity_of_two_other_parts_is_in_another() -> None:
    own = {"a": "ABAB", "b": "ABC", "c": "BD"}
    found = corpus_stats({name: [document(name, *((id_, (id_,)) for id_ in ids))] for name, ids in own.items()})
    assert found.in_no_other == {"a": 0.0, "b": 1 / 3, "c": 0.5}
    assert found.as_dict()["in_no_other"] == found.in_no_other


spans = st.tuples(st.integers(0, 9), st.integers(1, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))
marked = st.lists(st.tuples(st.lists(spans, min_size=1, max_size=2).map(sorted), st.sampled_from("ABC")), max_size=6)


def made(id_: str, found: Sequence[tuple[list[tuple[int, int]], str]]) -> Document:
    text = "one two three four"
    chosen = [(tuple(own) if own[0][1] <= own[-1][0] else (own[0],), gold) for own, gold in found]
    mentions = [
        Mention(f"{id_}-{i}", id_, own, text_of(own, text), None, (gold,)) for i, (own, gold) in enumerate(chosen)
    ]
    return Document(id_, text, tuple(mentions))


@given(st.lists(marked, max_size=4), st.randoms())
def test_counts_are_those_of_brute_force(lists: list[list[tuple[list[tuple[int, int]], str]]], random: object) -> None:
    documents = [made(f"d{i}", found) for i, found in enumerate(lists)]
    part = corpus_stats({"all": documents}).parts["all"]
    mentions = [mention for own in documents for mention in own.mentions]
    assert part.figures["mentions_nested"] == sum(
        any(
            other.document_id == one.document_id and other.start <= one.start and one.end <= other.end
            for other in mentions
            if (other.start, other.end) != (one.start, one.end)
        )
        for one in mentions
    )
    assert part.figures["mentions_discontinuous"] == sum(len(mention.spans) > 1 for mention in mentions)
    golds = [mention.gold[0] for mention in mentions if mention.gold]
    counts = sorted(map(golds.count, set(golds)))
    assert sum(part.sizes.values()) == len(counts)
    for name, count in part.sizes.items():
        least, _, most = name.partition("-")
        assert count == sum(int(least) <= size <= int(most or least) for size in counts)
    random.shuffle(documents)  # type: ignore[attr-defined]
    assert corpus_stats({"all": documents}).parts["all"] == part


@pytest.mark.slow
def test_the_parts_of_a_real_corpus(shared: Callable[[str], Path]) -> None:
    """The numbers that the data's own documentation gives."""
    parts = {
        name: arbo.read_documents(shared(f"data/bc5cdr/CDR_{name}Set.PubTator.txt"), "pubtator")
        for name in ("Training", "Development", "Test")
    }
    found = corpus_stats(parts).parts
    assert [part.figures["mentions"] for part in found.values()] == [9_385, 9_591, 9_809]
    assert [part.figures["mentions_annotated_as_nil"] for part in found.values()] == [76, 59, 91]

"""What is right for each mention: one home for scores, tuning and training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import document, kb_of
from hypothesis import given, settings, strategies as st

from arbo.data.corpus import Corpus
from arbo.data.documents import Entity
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase

FLU, COLD = Entity("D1", "flu", alternative_ids=("X1", "X9")), Entity("D2", "cold", alternative_ids=("X9",))
KB = kb_of(FLU, COLD, Entity("D1b", "flu", alternative_ids=("Y1",), domain="b"))
IDS = ["D1", "D2", "X1", "X9", "Y1", "unknown", "other"]
clustered = st.lists(st.sampled_from([None, "c", "other"]), min_size=8, max_size=8)
golds = st.lists(st.one_of(st.none(), st.lists(st.sampled_from(IDS), max_size=3, unique=True)), max_size=8)


def corpus(ids: list[list[str] | None], domain: str | None = None, name: str = "d") -> Corpus:
    names = [("x", None if own is None else tuple(own)) for own in ids]
    return Corpus([document(name, *names, domain=domain)])


def with_clusters(documents: Corpus, clusters: list[str | None]) -> Corpus:
    (own,) = documents
    mentions = tuple(replace(m, cluster=c) for m, c in zip(own.mentions, clusters, strict=False))
    return Corpus([replace(own, mentions=mentions)])


@settings(max_examples=100, deadline=None)
@given(golds, st.sampled_from([None, "b"]))
def test_all_that_follows_is_what_a_loop_would_say(ids: list[list[str] | None], domain: str | None) -> None:
    gold = Gold.of(corpus(ids, domain), KB)
    right = [list(KB.rows_within(own or (), domain)) for own in ids]
    assert (gold.lists, gold.annotated.tolist()) == (right, [own is not None for own in ids])
    assert (gold.has_id.tolist(), gold.in_kb.tolist()) == ([bool(own) for own in ids], [bool(rows) for rows in right])
    assert gold.is_nil.tolist() == [own is not None and not rows for own, rows in zip(ids, right, strict=True)]
    assert gold.first.tolist() == [rows[0] if rows else -1 for rows in right]
    assert [[row for row in own if row >= 0] for own in gold.entities.tolist()] == right
    indptr, accepted = gold.accepted
    expected = [rows or ([-1] if own else []) for own, rows in zip(ids, right, strict=True)]
    assert [own.tolist() for own in np.split(accepted, indptr[1:-1])][: len(ids)] == expected
    keys = [frozenset[object](rows or own or ()) for own, rows in zip(ids, right, strict=True)]
    number = {key: code for code, key in enumerate(dict.fromkeys(filter(None, keys)))}
    assert gold.classes.tolist() == [number.get(key, -1) for key in keys]


@settings(max_examples=50, deadline=None)
@given(golds, clustered)
def test_what_a_run_holds_says_the_same(ids: list[list[str] | None], clusters: list[str | None]) -> None:
    direct = Gold.of(with_clusters(corpus(ids), clusters), KB)
    own_ids = [[KB.entities[row].id for row in rows] for rows in direct.lists]
    again = Gold.of_ids(ids, direct.labels, own_ids, {entity.id: row for row, entity in enumerate(KB)})
    for name in ("annotated", "is_nil", "in_kb", "first", "classes"):
        assert getattr(again, name).tolist() == getattr(direct, name).tolist(), name
    assert again.lists == direct.lists


@settings(max_examples=50, deadline=None)
@given(golds, clustered)
def test_a_cluster_is_the_class_where_no_id_is(ids: list[list[str] | None], clusters: list[str | None]) -> None:
    """Mentions with equal labels are of one class; nothing but `classes` knows clusters if there is a KB."""
    documents = with_clusters(corpus(ids), clusters)
    with_kb, plain, labels = Gold.of(documents, KB), Gold.of(corpus(ids), KB), [m.labels for m in documents.mentions]
    for name in ("annotated", "has_id", "is_nil", "in_kb", "first", "rows"):
        assert getattr(with_kb, name).tolist() == getattr(plain, name).tolist(), name
    for gold in (with_kb, Gold.of(documents)):
        assert [label >= 0 for label in gold.classes] == [*map(bool, labels)]
    for label in {*filter(None, labels)}:
        assert len({own for own, of in zip(with_kb.classes.tolist(), labels, strict=True) if of == label}) == 1


def test_seen_is_under_any_id_of_the_entity_and_one_of_another_domain_is_of_none() -> None:
    gold = Gold.of(corpus([["D1"], ["X1"], ["D2"], ["unknown"], [], None]), KB)
    rows: Any = (["X1"], [0, 1]), (["X9"], []), (["unknown", "D2"], [2, 3]), (["X1;D2"], [0, 1, 2])  # X9 is of two
    for train, seen in rows:
        assert np.flatnonzero(gold.seen(corpus([None, [], *([id_] for id_ in train)], name="t"))).tolist() == seen
    """What has the same id in two worlds is two things, for clusters as for links."""
    both = Corpus([*corpus([["D1"]]), *corpus([["D1"]], "b", "e")])
    gold = Gold.of(both, KB)
    assert (gold.is_nil.tolist(), len(set(gold.classes.tolist()))) == ([False, True], 2)


VARIANT = "tmVar:c|SUB|A|5|G;HGVS:c.5A>G;VariantGroup:0;CorrespondingGene:640;RS#:121912637"


@pytest.mark.parametrize(
    ("known", "written", "right"),
    [
        ("102 103", ["102,103"], ["102", "103"]),
        ("102 103", ["103 ; 102"], ["103", "102"]),
        ("102", ["102,999"], ["102"]),
        ("102", ["999;998"], []),
        ("102 103 102,103", ["102,103"], ["102,103"]),
        ("102 103 104", ["102,103", "104"], ["102", "103", "104"]),
        ("A B A|B", ["A", "B"], ["A|B"]),  # a reader split it
        ("A1 B2 A1+B2 C3", ["A1", "B2", "C3"], ["A1+B2", "C3"]),
        ("A1|B2 C3", ["A1|B2;C3"], ["A1|B2", "C3"]),
        ("A B A|B", ["B", "A"], ["B", "A"]),
        ("102", ["102,103", "other"], ["102"]),
        ("c|SUB|A|5|G", ["c|SUB|A|5|G"], ["c|SUB|A|5|G"]),
        ("c|SUB|A|5|G 102", ["c|SUB|A|5|G;102"], ["c|SUB|A|5|G", "102"]),
        ("5 640", [VARIANT], []),
        ("CD4+ CD8+", ["CD4+|CD8+"], ["CD4+", "CD8+"]),
        ("Paris Rome", ["Paris;Rome"], ["Paris", "Rome"]),
        ("Paris", ["Paris, Texas"], []),
    ],
)
def test_a_knowledge_base_decides_what_is_one_id(known: str, written: list[str], right: list[str]) -> None:
    kb = KnowledgeBase([Entity(id_, "x") for id_ in known.split()])
    gold = Gold.of(corpus([written]), kb)
    assert [kb.entities[row].id for row in gold.lists[0]] == right
    note = f"mentions whose gold ids were split or joined, such as {'|'.join(written)!r}"
    assert gold.changes == ({} if [*gold.ids[0]] == written else {note: 1})


def test_without_a_knowledge_base_pieces_with_digits_are_ids() -> None:
    written = [["102,103"], ["103;102"], ["Paris, Texas"], ["Texas, Paris"], ["c.[5A>G;6T>C]"], [VARIANT]]
    gold = Gold.of(corpus(written))
    assert gold.classes.tolist() == [0, 0, 1, 2, 3, 4]
    assert gold.ids[:3] == [("102", "103"), ("103", "102"), ("Paris, Texas",)]
    assert gold.changes == {"mentions whose gold ids were split or joined, such as '102,103'": 2}


@pytest.mark.parametrize("kb", [None, KnowledgeBase()])
def test_without_a_knowledge_base_every_id_is_of_an_unknown_entity(kb: KnowledgeBase | None) -> None:
    gold = Gold.of(corpus([["D1"], ["D1"], ["D2"], [], None]), kb)
    assert (gold.classes.tolist(), gold.is_nil.tolist()) == ([0, 0, 1, -1, -1], [True, True, True, True, False])
    nothing = Gold.of(Corpus(), kb)
    assert (nothing.lists, nothing.classes.tolist(), nothing.first.tolist()) == ([], [], [])


@pytest.mark.parametrize(
    ("ids", "doubtful"),
    [
        ([["<NIL>"], ["<NIL>"], ["A"], ["B"], ["C"]], "2 of 5 mentions with gold ids have the id '<NIL>'"),
        ([["A"], ["-"], ["-"], None, []], "2 of 3 mentions with gold ids have the id '-'"),
        ([["NIL"], ["A"]], None),  # joins nothing
        ([["NIL"], ["NIL"], ["E1"]], "2 of 3 mentions with gold ids have the id 'NIL'"),
        ([["other"]] * 10 + [["A"]] * 9, "10 of 19 mentions with gold ids have the id 'other'"),
        ([["other"]] * 10 + [["A"]] * 10, None),  # not most
        ([["other"]] * 9, None),  # too few
        ([["E1"]] * 30, None),  # an entity
        ([], None),
    ],
)
def test_an_id_that_joins_what_should_stay_apart_is_doubted(ids: list[Any], doubtful: str | None) -> None:
    kb = KnowledgeBase([Entity("E1", "x")])
    mentions = [{"spans": [[0, 1]], "id": str(row), "entities": own} for row, own in enumerate(ids)]
    documents = Corpus.of([{"id": "d", "text": "x", "mentions": mentions}])
    rest = ", so they count as one entity; if the id means NIL, give them an empty list of ids instead"
    assert Gold.of(documents, kb).doubt() == (doubtful and doubtful + rest)

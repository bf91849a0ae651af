"""Entities leave a knowledge base: exactly those that were named, and their mentions alone become NIL."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from builders import document
from hypothesis import example, given, strategies as st

import arbo
from arbo import Entity, KnowledgeBase, UsageError, nil_split
from arbo.formats.obo import read_obo_parents
from arbo.kb.withholding import Check, remaining

KB = KnowledgeBase(
    [
        Entity("A", "organ", types=("T1",), definition="A part."),
        Entity("B", "kidney", types=("T1", "T2"), alternative_ids=("OLD",), definition="It makes urine."),
        Entity("C", "fever", types=("T3",), definition="Too warm for a body."),
        Entity("D", "chill", types=("T3",), definition=" "),
    ]
)


def ids(kb: KnowledgeBase) -> str:
    return "".join(entity.id for entity in kb)


@pytest.mark.parametrize(
    ("what", "withheld"),
    [
        ({"types": "T1"}, "AB"),
        ({"types": ["T2", "T3"]}, "BCD"),
        ({"ids": "C"}, "C"),
        ({"ids": ["OLD", "D"]}, "BD"),
        ({"branches": "A", "parents": {"B": ("A",), "A": ()}}, "AB"),
        ({"branches": "OLD", "parents": {"C": ("B", "X")}}, "BC"),
        ({"branches": "B", "parents": {"C": ("OLD",), "D": ("X",), "X": ("C",)}}, "BCD"),
        ({"branches": "A", "parents": {"OLD": ("A",), "D": ("B",)}}, "ABD"),
        ({"types": "T2", "ids": "D", "branches": "C", "parents": {}}, "BCD"),
    ],
)
def test_what_is_named_leaves(what: dict[str, object], withheld: str) -> None:
    split = nil_split(KB, {}, **what)  # type: ignore[arg-type]
    assert ids(split.withheld) == withheld
    assert ids(split.kb) == "".join(id_ for id_ in "ABCD" if id_ not in withheld)
    assert split.checks == {}


@example([(2, 10), (11, 2), (3, 1)], {0})
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11))), st.sets(st.integers(0, 7), min_size=1))
def test_a_branch_is_all_from_which_a_top_is_reached(above: list[tuple[int, int]], tops: set[int]) -> None:
    """Circles, terms above themselves, terms that are no entities (8 and 9), alternative ids (10 of 0, 11 of 1)."""
    kb = KnowledgeBase(Entity(str(i), f"entity {i}", alternative_ids=(str(i + 10),) if i < 2 else ()) for i in range(8))
    parents: dict[str, list[str]] = {}
    for child, parent in above:
        parents.setdefault(str(child), []).append(str(parent))
    graph = nx.DiGraph((child % 10, parent % 10) for child, parent in above)
    graph.add_nodes_from(tops)
    expected = {i for i in range(8) if i in graph and any(nx.has_path(graph, i, top) for top in tops)}
    if len(expected) == 8:
        with pytest.raises(UsageError, match="8 of 8"):
            nil_split(kb, {}, branches=map(str, tops), parents=parents)
    else:
        split = nil_split(kb, {}, branches=map(str, tops), parents=parents)
        assert {int(entity.id) for entity in split.withheld} == expected


some_ids = st.lists(st.sampled_from("ABCDEFGH"), max_size=3, unique=True).map(tuple)


@given(st.lists(some_ids, min_size=5, max_size=5), st.sets(st.sampled_from("ABCDE"), min_size=1, max_size=4), some_ids)
def test_a_mention_is_nil_if_all_of_its_entities_are_withheld(
    alternatives: list[tuple[str, ...]], withheld: set[str], gold: tuple[str, ...]
) -> None:
    """No entity inherits an id: what another held, by right or first, is an id of nobody when that one leaves."""
    kb = KnowledgeBase(
        Entity(id_, f"entity {id_}", alternative_ids=others) for id_, others in zip("ABCDE", alternatives, strict=True)
    )
    split = nil_split(kb, {"all": [document("d", ("x", gold))]}, ids=withheld)
    for id_ in "ABCDEFGH":
        kept = [kb.entities[row].id for row in kb.rows(id_) if kb.entities[row].id not in withheld]
        assert [split.kb.entities[row].id for row in split.kb.rows(id_)] == kept
    entities = {kb.entities[row].id for id_ in gold for row in kb.rows(id_)}
    check = split.checks["all"]
    assert (check.all.mentions, check.nil.mentions) == (bool(entities), bool(entities) and entities <= withheld)


def test_evaluation_calls_them_nil() -> None:
    documents, kb = arbo.load_sample()
    split = nil_split(kb, {"all": documents}, types="Species")
    before, after = (arbo.Linker(base).link(documents).evaluate().nil for base in (kb, split.kb))
    assert before is not None
    assert after is not None
    assert split.checks["all"].nil.mentions > 0
    assert after.gold == before.gold + split.checks["all"].nil.mentions


def test_an_entity_of_another_domain_is_none() -> None:
    """As in evaluation: a mention can be linked to what its own domain holds."""
    kb = KnowledgeBase([Entity("A", "fever", domain="a"), Entity("B", "fever", domain="b", alternative_ids=("X",))])
    kb = kb.changed([*kb, Entity("C", "chill", domain="b"), Entity("X1", "fever", domain="a", alternative_ids=("X",))])
    of_a = replace(document("d", ("fever", ("A",)), ("chill", ("C",)), ("fever", ("X",))), domain="a")
    split = nil_split(kb, {"all": [of_a]}, ids=["C", "X1"])
    assert (split.checks["all"].all.mentions, split.checks["all"].nil.mentions) == (2, 1)
    before, after = (arbo.Linker(base).link([of_a]).evaluate().nil for base in (kb, split.kb))
    assert before is not None
    assert after is not None
    assert (before.gold, after.gold) == (1, 2)


def test_the_checks() -> None:
    train = [document("t", ("Kidney", ("B",)), ("renal", ("OLD",)), ("fever", ("C",)), ("kidneys", None), ("none", ()))]
    test = [
        document("a", ("kidney", ("B",)), ("fever", ("A",)), ("kidneys", ("B", "X"))),
        document("b", ("FEVER", ("C", "D")), ("organ", ("A", "C")), ("gap", ("X",))),
    ]
    split = nil_split(KB, {"train": train, "test": test}, types="T1")
    found = split.checks["test"]
    assert found.nil == Check(
        mentions=3,
        entities=2,
        entities_seen=1,
        mentions_seen=2,
        names_seen=2,
        defined=2,
        definition_length=(7 + 15) / 2,
    )
    assert found.all == Check(
        mentions=5, entities=4, entities_seen=2, mentions_seen=4, names_seen=3, defined=3, definition_length=15
    )
    assert split.checks["train"].nil == Check(2, 1, 1, 2, 2, 1, 15)
    assert found.nil.as_dict()["entities_seen_share"] == 0.5
    text = str(split)
    assert "2 of 4 entities withheld" in text
    assert "test   NIL" in text
    assert "66.7%" in text


def test_a_part_without_nil_mentions_has_empty_shares() -> None:
    split = nil_split(KB, {"train": [document("t", ("chill", ("D",)))]}, ids="A")
    assert split.checks["train"].nil == Check(0, 0, 0, 0, 0, 0, 0)
    assert split.as_dict()["checks"]["train"]["nil"]["names_seen_share"] == 0
    assert "train  NIL         0" in str(split)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({}, "withhold some types, ids or branches"),
        ({"types": ["T1", "T3"]}, "4 of 4 entities would be withheld"),
        ({"types": "T9"}, "no entity has the type 'T9'; types of entities: T1, T2, T3$"),
        ({"types": "T047"}, "T1, T2, T3; instead of an id of UMLS give the name of the semantic type"),
        ({"ids": ["A", "Z", "Y"]}, "no entity has the id or alternative id Y or Z"),
        ({"branches": "Z", "parents": {}}, "no entity has the id or alternative id Z"),
        ({"branches": "A"}, "branches need the parents"),
    ],
)
def test_what_cannot_be_withheld(what: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nil_split(KB, {}, **what)  # type: ignore[arg-type]


OBO = """format-version: 1.2

[Term]
id: U:1
name: organ
alt_id: U:10
is_a: U:0 {source="x"} ! part

[Term]
id: U:2
name: kidney
is_a: U:1 ! organ
is_a: U:3
relationship: part_of U:4 ! body

[Term]
id: U:5
name: fever

[Typedef]
id: part_of
is_a: overlaps
"""


def test_parents_are_read_from_obo(tmp_path: Path) -> None:
    (tmp_path / "kb.obo").write_text(OBO, "utf-8")
    assert read_obo_parents(tmp_path / "kb.obo") == {"U:1": ("U:0",), "U:2": ("U:1", "U:3"), "U:5": ()}
    (tmp_path / "kb.obo").write_text(OBO.replace("is_a: U:3", "is_a U 3"), "utf-8")
    with pytest.raises(arbo.DataError, match=r"kb\.obo, line 13"):
        read_obo_parents(tmp_path / "kb.obo")


def test_a_repeated_term_is_all_that_its_stanzas_say(tmp_path: Path) -> None:
    """Stanzas of equal content are one entity, wherever the `is_a` stands."""
    (tmp_path / "a.obo").write_text(OBO, "utf-8")
    (tmp_path / "b.obo").write_text("[Term]\nid: U:2\nname: kidney\n", "utf-8")
    (tmp_path / "c.obo").write_text("[Term]\nid: U:2\nname: kidney\nis_a: U:3\nis_a: U:6\n", "utf-8")
    parents = read_obo_parents(tmp_path)
    assert parents["U:2"] == ("U:1", "U:3", "U:6")
    assert ids(nil_split(KnowledgeBase.from_obo(tmp_path), {}, branches="U:1", parents=parents).withheld) == "U:1U:2"


def test_an_obsolete_term_takes_nobody_into_a_branch(tmp_path: Path) -> None:
    file = tmp_path / "kb.obo"
    file.write_text(OBO + "\n[Term]\nid: U:9\nis_obsolete: true\nis_a: U:1\nreplaced_by: U:5\n", "utf-8")
    kb, parents = KnowledgeBase.from_obo(file), read_obo_parents(file)
    assert kb["U:9"].id == "U:5"
    assert ids(nil_split(kb, {}, branches="U:1", parents=parents).withheld) == "U:1U:2"
    assert ids(nil_split(kb, {}, branches="U:9", parents=parents).withheld) == "U:5"


@pytest.mark.slow
def test_a_branch_of_a_real_ontology(shared: Callable[[str], Path], tmp_path: Path) -> None:
    """Organs of UBERON, in CRAFT: each entity that leaves is an organ by obonet's reading too.

    Added are a kind of testis by an alternative id of testis, and an obsolete organ, which is blood by now.
    """
    import obonet

    file = tmp_path / "UBERON.obo"
    added = (
        "\n[Term]\nid: X:1\nname: kind of testis\nis_a: UBERON:0002117\n"
        "\n[Term]\nid: X:2\nis_obsolete: true\nis_a: UBERON:0000062\nreplaced_by: UBERON:0000178\n"
    )
    file.write_bytes(gzip.decompress(shared("data/craft/ontologies/UBERON.obo.gz").read_bytes()) + added.encode())
    kb = KnowledgeBase.from_obo(file)
    parts = {
        part: arbo.read_documents(shared(f"data/craft/{part}"), "brat", types="UBERON") for part in ("train", "dev")
    }
    split = nil_split(kb, parts, branches="UBERON:0000062", parents=read_obo_parents(file))
    graph = obonet.read_obo(file)
    own = {other: id_ for id_, term in graph.nodes(data="alt_id") for other in term or () if not graph.nodes.get(other)}
    is_a = nx.DiGraph(
        (child, own.get(parent, parent)) for child, parent, kind in graph.edges(keys=True) if kind == "is_a"
    )
    expected = {"UBERON:0000062", *nx.ancestors(is_a, "UBERON:0000062")} & {entity.id for entity in kb}
    assert "X:1" in expected
    assert "UBERON:0000178" not in expected
    assert {entity.id for entity in split.withheld} == expected
    train, dev = split.checks["train"], split.checks["dev"]
    assert (train.all.mentions, dev.all.mentions) == (10_771, 1_498)
    assert train.all.entities_seen == train.all.entities
    assert 0.1 < dev.nil.mentions / dev.all.mentions < 0.4


def test_the_id_of_an_entity_left_out_means_no_other() -> None:
    kb = KnowledgeBase([Entity("X", "fever"), Entity("B", "kidney", alternative_ids=("X", "OLD"))])
    left = remaining(kb, {0})
    assert ("X" in left, left["OLD"].id) == (False, "B")

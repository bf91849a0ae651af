from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import arbo
from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.formats import read_knowledge_base
from arbo.kb.names import Holders
from arbo.text.names import normalize_name

KB = KnowledgeBase(
    [
        Entity("A", "left kidney", ("Kidneys", "reins", "reins"), "An organ.", ("Organ",), ("X1", "X2")),
        Entity("B", "kidney", (), " ", ("Organ", "Part"), ("X2",), xrefs=("MSH:1", "UMLS:2", "MSH:3", "bare", ":4")),
        Entity("C", "cold", definition="", domain="medicine"),
    ],
    notes={"obsolete terms ignored": 7},
)


def test_the_figures_of_a_small_knowledge_base() -> None:
    stats = KB.stats()
    assert (stats.entities, stats.names, stats.distinct_names) == (3, 5, 4)
    assert (stats.names_per_entity, stats.most_names, stats.most_named) == (5 / 3, 3, "A")
    assert stats.name_length is not None
    assert (stats.name_length.mean, stats.name_length.median, stats.name_length.max) == (33 / 5, 6, 11)
    assert stats.ambiguous_names == 1
    assert stats.most_ambiguous == (Holders(("Kidneys", "kidney"), ("A", "B")),)
    assert stats.definitions == 1
    assert list(stats.types.items()) == [("Organ", 2), ("Part", 1)]
    assert stats.domains == {"medicine": 1}
    assert list(stats.xref_prefixes.items()) == [("MSH", 2), ("", 2), ("UMLS", 1)]
    assert (stats.alternative_ids, stats.shared_alternative_ids) == (2, 1)
    assert stats.notes == KB.notes
    assert set(stats.notes) == {"obsolete terms ignored", "alternative ids shared with an earlier entity"}


def test_examples_are_as_many_as_asked_for_and_the_worst_come_first() -> None:
    entities = [Entity(f"E{i}", f"name {i}", ("it", *(["they"] if i < 2 else []))) for i in range(2000)]
    stats = KnowledgeBase(entities).stats(examples=1)
    assert stats.ambiguous_names == 2
    assert [str(example) for example in stats.most_ambiguous] == ['"it": E0, E1, E2 and 1,997 more']
    assert stats.as_dict()["most_ambiguous"] == [
        {"values": ("it",), "count": 2000, "entities": tuple(f"E{i}" for i in range(10))}
    ]
    assert KnowledgeBase(entities).stats(examples=0).most_ambiguous == ()


def test_an_empty_knowledge_base_has_figures_too() -> None:
    stats = KnowledgeBase().stats()
    assert (stats.entities, stats.names, stats.names_per_entity, stats.name_length) == (0, 0, 0, None)
    assert stats.most_named is None
    assert {name: value for name, value, _ in stats.rows()}["names"] == "0"


def test_figures_are_json_and_rows_are_text() -> None:
    assert json.loads(json.dumps(KB.stats().as_dict()))["name_length"]["max"] == 11
    rows = {name: (value, remark) for name, value, remark in reversed(KB.stats().rows())}
    assert rows["types"] == ("2", "Organ (2), Part (1)")
    assert rows["cross-references"] == ("5", "MSH (2), none (2), UMLS (1)")
    assert rows["definitions"] == ("1", "33.3% of the entities")
    assert rows["while reading"] == ("7", "obsolete terms ignored")


NAMES = st.sampled_from(["it", "It", "its", "they", "kidney", "Kidneys", "x", "+"])


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=6))
def test_names_agree_with_brute_force(entities: list[tuple[str, list[str]]]) -> None:
    kb = KnowledgeBase(Entity(str(i), name, tuple(aliases)) for i, (name, aliases) in enumerate(entities))
    folds = [{normalize_name(name) for name in (entity.name, *entity.aliases)} for entity in kb]
    shared = {name for i, own in enumerate(folds) for j, other in enumerate(folds) if i < j for name in own & other}
    stats = kb.stats(examples=100)
    assert stats.distinct_names == len(set().union(*folds))
    assert stats.ambiguous_names == len(stats.most_ambiguous) == len(shared)
    for values, holders in stats.most_ambiguous:
        (name,) = set(map(normalize_name, values))
        assert holders == tuple(str(i) for i, own in enumerate(folds) if name in own)


def test_the_real_dictionary(shared: Callable[[str], Path]) -> None:
    stats = read_knowledge_base(shared("data/medic/medic_06Jul2012.txt"), "medic").stats()
    assert (stats.entities, stats.names, stats.definitions) == (11_915, 76_237, 0)
    assert stats.ambiguous_names == 1_037
    assert stats.most_ambiguous[0].values == ("BIPOLAR AFFECTIVE DISORDER",)
    assert len(stats.most_ambiguous[0].entities) == 8


def test_the_sample_through_its_xrefs_answers_to_more_ids() -> None:
    kb = KnowledgeBase([Entity("A", "a", xrefs=("MSH:D1",)), Entity("B", "b", xrefs=("MSH:D1",))])
    stats = kb.through_xrefs("MSH").stats()
    assert (stats.alternative_ids, stats.shared_alternative_ids) == (4, 4)
    assert arbo.load_sample()[1].stats().entities == 120


@pytest.mark.parametrize("hostile", ["[bold]x[/bold]", "=cmd()", "a\nb", 'say "no"'])
def test_names_are_shown_as_one_quoted_line(hostile: str) -> None:
    shown = str(Holders((hostile,), ("A",)))
    assert "\n" not in shown
    assert json.loads(shown.removesuffix(": A")) == hostile

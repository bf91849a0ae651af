from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from builders import NAMES, texts
from hypothesis import given, strategies as st

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError

FLU = Entity("D1", "flu", ("influenza", "grippe"), alternative_ids=("X1",))
COLD = Entity("D2", "cold", ("common cold",), alternative_ids=("X2", "X3"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": ""}, "entity id is empty"),
        ({"id": 5}, "entity id must be a string, not int"),
        ({"name": ""}, "^'D1': the entity's name is empty"),
        ({"name": " \t"}, "the entity's name is empty"),
        ({"name": "a\0"}, "NUL at character 1"),
        ({"name": "\ud800"}, "surrogate"),
        ({"aliases": ["influenza"]}, "aliases must be a tuple of strings, not list"),
        ({"aliases": "influenza"}, "aliases must be a tuple of strings, not str"),
        ({"aliases": ("a", None)}, "an item of aliases must be a string, not NoneType"),
        ({"alternative_ids": ("",)}, "an item of alternative_ids is empty"),
        ({"types": (1,)}, "an item of types must be a string"),
        ({"xrefs": None}, "xrefs must be a tuple"),
        ({"definition": 1}, "definition must be a string"),
        ({"domain": 1}, "domain must be a string"),
    ],
)
def test_fields_of_an_entity_are_checked(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        replace(FLU, **change)


def test_entities_are_found_by_id_and_by_alternative_id() -> None:
    kb = KnowledgeBase([FLU, COLD])
    assert len(kb) == 2
    assert list(kb) == [FLU, COLD]
    assert kb["D2"] is kb["X3"] is COLD
    assert kb.index("X2") == kb.row_of["D2"] == 1
    assert "X1" in kb
    assert "nothing" not in kb
    with pytest.raises(KeyError, match="no entity has the id or alternative id 'nothing'"):
        kb["nothing"]


def test_an_empty_knowledge_base_and_one_of_one_entity() -> None:
    assert len(KnowledgeBase()) == 0
    assert KnowledgeBase().names() == ((), ())
    assert KnowledgeBase([FLU]).names().rows == (0, 0, 0)


def test_an_alternative_id_never_hides_an_entity() -> None:
    thief = Entity("D3", "thief", alternative_ids=("D3", "D2", "X1"))
    kb = KnowledgeBase([thief, FLU, COLD])
    assert kb["D2"] == COLD
    assert kb["X1"] == thief
    assert kb.notes == {
        "alternative ids ignored, since they are another entity's own id": 1,
        "alternative ids shared with an earlier entity": 1,
    }


def test_names_are_distinct_within_an_entity_and_shared_between_entities() -> None:
    kb = KnowledgeBase([Entity("a", "flu", ("Flu", "flu", "cold", "cold")), Entity("b", "cold", ("flu",))])
    names, rows = kb.names()
    assert names == ("flu", "Flu", "cold", "cold", "flu")
    assert rows == (0, 0, 0, 1, 1)


def test_an_alias_shared_by_thousands_stays_with_each() -> None:
    kb = KnowledgeBase(Entity(f"e{i}", f"name {i}", ("it",)) for i in range(5000))
    assert kb.names().names.count("it") == 5000


def test_empty_aliases_are_dropped_and_counted() -> None:
    kb = KnowledgeBase([Entity("a", "flu", ("", "grippe", " "))])
    assert kb["a"].aliases == ("grippe",)
    assert kb.notes == {"empty aliases dropped": 2}


def test_equal_duplicates_are_dropped_and_different_ones_refused() -> None:
    kb = KnowledgeBase([FLU, COLD, replace(FLU)], notes={"seen before": 1})
    assert [entity.id for entity in kb] == ["D1", "D2"]
    assert kb.notes == {"seen before": 1, "duplicate entities dropped": 1}
    with pytest.raises(DataError, match=r"^'D1': two different entities have this id"):
        KnowledgeBase([FLU, replace(FLU, name="Flu")])


def test_ids_are_strings_and_never_paths() -> None:
    kb = KnowledgeBase([Entity("../../etc/passwd", "a"), Entity("<script>", "=cmd()")])
    assert kb["../../etc/passwd"].name == "a"
    assert kb["<script>"].name == "=cmd()"


def test_the_fingerprint_follows_the_content_alone() -> None:
    first = KnowledgeBase([FLU, COLD])
    assert first.fingerprint == KnowledgeBase([FLU, COLD, COLD], notes={"anything": 1}).fingerprint
    assert first.fingerprint == "21231b7fb92dbbecad99b317812130b143830842fcedaa06bcc683fa3847f809"
    assert first.fingerprint != KnowledgeBase([COLD, FLU]).fingerprint
    assert KnowledgeBase().fingerprint != first.fingerprint


@pytest.mark.parametrize("column", [column.name for column in fields(Entity) if column.compare])
def test_every_compared_field_counts_in_the_fingerprint(column: str) -> None:
    value = ("new",) if isinstance(getattr(FLU, column), tuple) else "new"
    changed = replace(FLU, **{column: value})  # type: ignore[arg-type]
    assert KnowledgeBase([FLU]).fingerprint != KnowledgeBase([changed]).fingerprint


@given(
    st.lists(
        st.builds(
            Entity,
            NAMES,
            NAMES,
            st.lists(NAMES, max_size=3).map(tuple),
            st.none() | texts(),
            alternative_ids=st.lists(NAMES, max_size=2).map(tuple),
            domain=st.none() | texts(),
        ),
        unique_by=lambda entity: entity.id,
        max_size=5,
    )
)
def test_json_lines_give_the_same_knowledge_base_back(
    tmp_path_factory: pytest.TempPathFactory, entities: list[Entity]
) -> None:
    path = tmp_path_factory.mktemp("kb") / "kb.jsonl"
    kb = KnowledgeBase(entities)
    kb.to_jsonl(path)
    back = KnowledgeBase.from_jsonl(path)
    assert back == kb
    assert back.fingerprint == kb.fingerprint
    assert back.row_of == kb.row_of


@pytest.mark.parametrize("items", [["D1"], [{"id": "D1", "name": "flu"}], [FLU, None]])
def test_a_knowledge_base_holds_entities_alone(items: list[Any]) -> None:
    with pytest.raises(UsageError, match=rf"expected entities, not {type(items[-1]).__name__}; make them"):
        KnowledgeBase(items)

import json

from hypothesis import given, strategies as st

from arbo.data.documents import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.kb.names import homonyms, spellings
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
    assert (stats.entities, stats.names, stats.distinct_names, stats.ambiguous_names) == (3, 5, 4, 1)
    assert stats.definitions == 1
    assert list(stats.types.items()) == [("Organ", 2), ("Part", 1)]
    assert stats.domains == {"medicine": 1}
    assert list(stats.xref_prefixes.items()) == [("MSH", 2), ("", 2), ("UMLS", 1)]
    assert (stats.alternative_ids, stats.shared_alternative_ids) == (2, 1)
    assert stats.notes == KB.notes
    assert json.loads(json.dumps(stats.as_dict()))["names"] == 5
    rows = {name: (value, kinds) for name, value, kinds in stats.rows()}
    assert rows["types"] == ("2", "Organ (2), Part (1)")
    assert rows["xref prefixes"] == ("3", "MSH (2), none (2), UMLS (1)")
    assert KnowledgeBase().stats().names == 0


NAMES = st.sampled_from(["it", "It", "its", "they", "kidney", "Kidneys", "x", "+"])


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=6))
def test_names_agree_with_brute_force(entities: list[tuple[str, list[str]]]) -> None:
    kb = KnowledgeBase(Entity(str(i), name, tuple(aliases)) for i, (name, aliases) in enumerate(entities))
    folds = [{normalize_name(name) for name in (entity.name, *entity.aliases)} for entity in kb]
    shared = {name for i, own in enumerate(folds) for j, other in enumerate(folds) if i < j for name in own & other}
    stats, names = kb.stats(), spellings(kb)
    assert (stats.distinct_names, stats.ambiguous_names) == (len(set().union(*folds)), len(shared))
    for (values, ids), _ in homonyms(kb, names):
        (name,) = set(map(normalize_name, values))
        assert ids == tuple(str(i) for i, own in enumerate(folds) if name in own)

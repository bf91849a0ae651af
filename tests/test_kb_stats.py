import json

from hypothesis import given, strategies as st

from arbo.data.documents import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.kb.names import homonyms, spellings
from arbo.kb.problems import figure_cells, figures_of
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
    figures = figures_of(KB)
    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        "entities": 3,
        "names": 5,
        "distinct_names": 4,
        "ambiguous_names": 1,
        "definitions": 1,
        "types": {"Organ": 2, "Part": 1},
        "domains": {"medicine": 1},
        "xref_prefixes": {"MSH": 2, "": 2, "UMLS": 1},
        "alternative_ids": 2,
        "shared_alternative_ids": 1,
        "notes": KB.notes,
    }
    assert [*figures["types"]] == ["Organ", "Part"]
    assert figures_of(KnowledgeBase())["names"] == 0
    assert figure_cells("types", figures["types"]) == ("types", "2", "Organ (2), Part (1)")
    assert figure_cells("xref_prefixes", figures["xref_prefixes"]) == (
        "xref prefixes",
        "3",
        "MSH (2), none (2), UMLS (1)",
    )
    assert figure_cells("entities", 3_000) == ("entities", "3,000", "")


NAMES = st.sampled_from(["it", "It", "its", "they", "kidney", "Kidneys", "x", "+"])


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=6))
def test_names_agree_with_brute_force(entities: list[tuple[str, list[str]]]) -> None:
    kb = KnowledgeBase(Entity(str(i), name, tuple(aliases)) for i, (name, aliases) in enumerate(entities))
    folds = [{normalize_name(name) for name in (entity.name, *entity.aliases)} for entity in kb]
    shared = {name for i, own in enumerate(folds) for j, other in enumerate(folds) if i < j for name in own & other}
    figures, names = figures_of(kb), spellings(kb)
    assert (figures["distinct_names"], figures["ambiguous_names"]) == (len(set().union(*folds)), len(shared))
    for (values, ids), _ in homonyms(kb, names):
        (name,) = set(map(normalize_name, values))
        assert ids == tuple(str(i) for i, own in enumerate(folds) if name in own)

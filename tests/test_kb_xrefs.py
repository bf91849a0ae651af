from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError
from arbo.formats import read_knowledge_base, read_pubtator

FLU = Entity("DO:1", "flu", xrefs=("MSH:D1", "UMLS_CUI:C1", "no prefix"))
BIRD_FLU = Entity("DO:2", "bird flu", xrefs=("MSH:D1", "MeSH:D2", "MSH:"))
COLD = Entity("DO:3", "cold", alternative_ids=("D2",), xrefs=("OMIM:5", "MSH:DO:1", "MSH:D3"))
KB = KnowledgeBase([FLU, BIRD_FLU, COLD], notes={"seen before": 1})


@pytest.mark.parametrize("prefix", ["MSH", "MESH", "MeSH", "mesh"])
def test_an_entity_answers_to_its_xrefs_in_any_spelling(prefix: str) -> None:
    view = KB.through_xrefs(prefix)
    for spelling in ("", "MSH:", "MESH:", "MeSH:"):
        assert view.rows(f"{spelling}D1") == (0, 1)
        assert view[f"{spelling}D1"].name == "flu"
        assert view.rows(f"{spelling}D3") == (2,)
    assert view.rows("C1") == view.rows("UMLS_CUI:C1") == view.rows("5") == ()
    assert [entity.name for entity in view] == ["flu", "bird flu", "cold"]
    assert view["DO:2"].xrefs == BIRD_FLU.xrefs


def test_what_an_entity_answered_to_before_it_still_does() -> None:
    view = KB.through_xrefs("MSH")
    assert view.rows("DO:1") == (0,)
    assert view.rows("MSH:DO:1") == (2,)
    assert view.rows("D2") == (1, 2)
    assert view.index("D2") == 1
    assert KB.rows("D2") == (2,)
    several = KB.through_xrefs("UMLS", "OMIM")
    assert several.rows("UMLS:C1") == several.rows("UMLS_CUI:C1") == several.rows("C1") == (0,)
    assert several.rows("5") == several.rows("OMIM:5") == several.rows("MIM:5") == (2,)
    assert several.rows("D1") == ()


def test_the_notes_count_what_is_shared_once() -> None:
    view = KB.through_xrefs("MSH")
    assert view.notes == {
        "seen before": 1,
        "alternative ids shared with an earlier entity": 5,
        "alternative ids ignored, since they are another entity's own id": 1,
    }
    assert view.through_xrefs("MSH").notes == view.notes
    assert view.through_xrefs("MSH") == view


def right(ids: tuple[str, ...] | None, kb: KnowledgeBase) -> list[str]:
    """Name the entities that are right for a mention with these gold ids."""
    return [kb.entities[row].id for row in kb.rows_within(ids or (), None)]


def test_gold_is_right_for_every_entity_that_carries_the_id() -> None:
    view = KB.through_xrefs("MSH")
    assert right(("D1",), view) == ["DO:1", "DO:2"]
    assert right(("MESH:D2", "D1", "D9"), view) == ["DO:2", "DO:1"]
    assert right(("D1",), KB) == []


def test_a_prefix_that_no_xref_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no xref has the prefix NCI; the most .*: MSH \(5\), UMLS_CUI \(1\)"):
        KB.through_xrefs("MSH", "NCI")
    with pytest.raises(UsageError, match="name at least one prefix"):
        KB.through_xrefs()
    with pytest.raises(UsageError, match="no xref has the prefix MSH; the most frequent prefixes of xrefs: none"):
        KnowledgeBase().through_xrefs("MSH")


def test_an_id_that_thousands_share_is_answered_by_each() -> None:
    kb = KnowledgeBase(Entity(f"e{i}", "it", alternative_ids=("it", "it")) for i in range(20_000))
    assert kb.rows("it") == tuple(range(20_000))
    assert kb.notes == {"alternative ids shared with an earlier entity": 19_999}


def test_a_real_corpus_is_linked_to_the_disease_ontology_through_mesh(shared: Callable[[str], Path]) -> None:
    ontology = read_knowledge_base(shared("data/disease_ontology/HumanDO_2015-11-11.obo.gz"))
    view = ontology.through_xrefs("MSH")
    golds = [mention.gold for mention in read_pubtator(shared("data/ncbi_disease/NCBItestset_corpus.txt")).mentions]
    # Published: mentions whose ids are all found. A few composite ones have only some.
    assert sum(bool(gold) and all(concept in view for concept in gold or ()) for gold in golds) == 714
    assert sum(bool(right(gold, view)) for gold in golds) == 717

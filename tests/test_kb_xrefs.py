from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arbo.data.documents import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError
from arbo.formats import read_documents, read_knowledge_base

FLU = Entity("DO:1", "flu", xrefs=("MSH:D1", "UMLS_CUI:C1", "no prefix"))
BIRD_FLU = Entity("DO:2", "bird flu", xrefs=("MSH:D1", "MeSH:D2", "MSH:"))
COLD = Entity("DO:3", "cold", alternative_ids=("D2",), xrefs=("OMIM:5", "MSH:DO:1", "MSH:D3"))
KB = KnowledgeBase([FLU, BIRD_FLU, COLD], notes={"seen before": 1})


SPELT = {f"{spelling}{id_}": rows for spelling in ("", "MSH:", "MESH:", "MeSH:") for id_, rows in
         (("D1", (0, 1)), ("D3", (2,)))}  # fmt: skip


@pytest.mark.parametrize(
    ("prefixes", "rows_of"),
    [
        ((), {"D2": (2,), "D1": (), "DO:1": (0,)}),
        *(((prefix,), {**SPELT, "C1": (), "UMLS_CUI:C1": (), "5": ()}) for prefix in ("MSH", "MESH", "MeSH", "mesh")),
        (("MSH",), {"DO:1": (0,), "MSH:DO:1": (2,), "D2": (1, 2)}),  # what it answered to before, it still does
        (("UMLS", "OMIM"), {**dict.fromkeys(("UMLS:C1", "UMLS_CUI:C1", "C1"), (0,)), "D1": ()}),
        (("UMLS", "OMIM"), dict.fromkeys(("5", "OMIM:5", "MIM:5"), (2,))),
    ],
)
def test_an_entity_answers_to_its_xrefs_in_any_spelling(prefixes: tuple[str, ...], rows_of: dict[str, Any]) -> None:
    view = KB.through_xrefs(*prefixes) if prefixes else KB
    assert {id_: view.rows(id_) for id_ in rows_of} == rows_of
    assert [entity.xrefs for entity in view] == [entity.xrefs for entity in (FLU, BIRD_FLU, COLD)]


def test_gold_is_right_for_every_entity_that_has_the_id_and_notes_count_it_once() -> None:
    view = KB.through_xrefs("MSH")
    assert (view["D1"].name, view.rows_within(("MESH:D2", "D1", "D9"), None)) == ("flu", (1, 0))
    assert view.notes == {
        "seen before": 1,
        "alternative ids shared with an earlier entity": 5,
        "alternative ids ignored, since they are another entity's own id": 1,
    }
    assert (view.through_xrefs("MSH").notes, view.through_xrefs("MSH")) == (view.notes, view)


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
    golds = [mention.gold for mention in read_documents(shared("data/ncbi_disease/NCBItestset_corpus.txt")).mentions]
    # Published: mentions whose ids are all found. A few composite ones have only some.
    assert sum(bool(gold) and all(concept in view for concept in gold or ()) for gold in golds) == 714
    assert sum(bool(view.rows_within(gold or (), None)) for gold in golds) == 717

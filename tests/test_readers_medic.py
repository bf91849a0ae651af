from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines

from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.formats.medic import read_medic
from arbo.formats.pubtator import read_pubtator


def read(tmp_path: Path, *lines: str) -> KnowledgeBase:
    return read_medic(save_lines(tmp_path / "medic.txt", *lines))


def test_a_line_is_ids_and_names(tmp_path: Path) -> None:
    kb = read(tmp_path, "D1|12|C3||flu|grippe|influenza", "", "C4||cold")
    flu, cold = kb
    assert (flu.id, flu.name, flu.aliases) == ("D1", "flu", ("grippe", "influenza"))
    assert flu.alternative_ids == ("12", "C3", "MESH:D1", "OMIM:12", "MESH:C3")
    assert (cold.name, cold.aliases, cold.alternative_ids) == ("cold", (), ("MESH:C4",))
    assert kb["OMIM:12"] is kb["MESH:C3"] is flu


def test_an_id_of_unknown_shape_gets_no_prefix(tmp_path: Path) -> None:
    assert read(tmp_path, "C||Diseases")["C"].alternative_ids == ()


def test_a_concept_keeps_both_forms_of_its_own_id(tmp_path: Path) -> None:
    kb = read(tmp_path, "D1|260||flu", "260||cold")
    assert kb["260"].name == kb["OMIM:260"].name == "cold"
    assert kb.notes == {"alternative ids ignored, since they are another entity's own id": 1}


def test_the_first_claim_to_an_alternative_id_holds(tmp_path: Path) -> None:
    kb = read(tmp_path, "D1|260||flu", "D2|260||cold")
    assert kb["260"] is kb["OMIM:260"] is kb["D1"]
    assert kb.notes == {"alternative ids shared with an earlier entity": 2}


def test_empty_synonyms_and_equal_duplicates_are_counted(tmp_path: Path) -> None:
    kb = read(tmp_path, "D1||flu||grippe", "D2||cold", "D2||cold")
    assert kb["D1"].aliases == ("grippe",)
    assert kb.notes == {"empty aliases dropped": 1, "duplicate entities dropped": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("D2|flu", r"expected id\|alternative ids\|\|name\|synonyms, but the line has no \|\|"),
        ("||flu", "entity id is empty"),
        ("D2||", "'D2': the entity's name is empty"),
        ("D1||cold", r"'D1': this id is already taken, with different content \(.*, line 1\)"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read(tmp_path, "D1||flu", line)
    assert caught.value.line == 2


@pytest.fixture(scope="module")
def medic(shared: Callable[[str], Path]) -> KnowledgeBase:
    return read_medic(shared("data/medic/medic_06Jul2012.txt"))


def test_the_real_dictionary_has_its_published_counts(medic: KnowledgeBase) -> None:
    assert len(medic) == 11_915
    assert sum(1 + len(entity.aliases) for entity in medic) == 76_237
    assert len(medic.names().names) == 76_237
    assert medic.notes == {"alternative ids ignored, since they are another entity's own id": 1}
    assert medic["OMIM:260350"].id == "260350"


@pytest.mark.parametrize(
    ("name", "kind", "known", "all_known"),
    [
        ("ncbi_disease/NCBItrainset_corpus.txt", None, 5134, 5134),
        ("ncbi_disease/NCBIdevelopset_corpus.txt", None, 787, 787),
        ("ncbi_disease/NCBItestset_corpus.txt", None, 960, 960),
        ("bc5cdr/CDR_TestSet.PubTator.txt", "Disease", 4288, 4287),
    ],
)
def test_gold_ids_of_real_corpora_resolve(
    shared: Callable[[str], Path],
    medic: KnowledgeBase,
    name: str,
    kind: str | None,
    known: int,
    all_known: int,
) -> None:
    corpus = read_pubtator(shared(f"data/{name}"))
    golds = [m.gold for m in (corpus.of_types(kind) if kind else corpus).mentions if m.gold]
    assert sum(any(concept in medic for concept in gold) for gold in golds) == known
    assert sum(all(concept in medic for concept in gold) for gold in golds) == all_known

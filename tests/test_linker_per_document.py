"""Linking per document gives each document the answers that it has alone; `differential.links` draws documents."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import document, linker

import arbo
from arbo.corrections.review import Queue

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", types=("Disease",)), arbo.Entity("E2", "kelp blight")])
NAMES = ["marsh fever", "marsh fevers", "fever", "kelp blight", "kelp", "zzz", "zzz fever", "zzzz", "marsh kelp"]


def links_alone(one: arbo.Linker, documents: list[arbo.Document]) -> list[Any]:
    return [link for document in documents for link in one.link([document]).links]


@pytest.mark.slow
def test_links_by_learnt_edges_are_those_of_each_document_alone() -> None:
    sample, kb = arbo.load_sample()
    documents = sample[:30]
    one = arbo.Linker(kb, edges="english", config=arbo.LinkerConfig(entity_threshold=0.3, mention_threshold=0.6))
    own = one.configured(config=replace(one.config, per_document=True))
    links = list(own.link(documents).links)
    assert links == links_alone(own, list(documents)) == links_alone(one, list(documents))
    assert links != list(one.link(documents).links)


def test_a_new_entity_is_found_in_each_document() -> None:
    documents = [document("a", "zzz", "zzz"), document("b", "zzz")]
    assert len(linker(KB).link(documents).discovered) == 1
    links = linker(KB, per_document=True).link(documents).links
    assert [link.cluster for link in links] == ["new-a-0", "new-a-0", "new-b-0"]
    assert len(linker(per_document=True).discover(documents).clusters) == 2


def test_a_correction_reaches_no_other_document() -> None:
    documents = [document("a", "zzz fever", "zzz fever"), document("b", "zzz fever")]
    told = [{"mention": "a-0", "entity": "E2"}]
    for spread in ("same-name", "graph"):
        result = linker(KB, per_document=True, spread=spread, entity_threshold=0.1).link(documents, told)
        assert [link.entity for link in result.links] == ["E2", "E2", None]
    assert {link.entity for link in linker(KB, entity_threshold=0.1).link(documents, told).links} == {"E2"}


def test_a_run_per_document_grows(tmp_path: Path) -> None:
    documents = [document(f"d{i}", *NAMES[i : i + 3]) for i in range(6)]
    one = linker(KB, per_document=True)
    one.link(documents[:4]).save(tmp_path / "run")
    grown = one.add(arbo.Result.load(tmp_path / "run"), documents[4:])
    assert list(grown.links) == list(one.link(documents).links)


def test_types_that_are_mapped_may_be_missing_from_a_document() -> None:
    how = {"per_document": True, "map_types": "Illness=Disease"}
    documents = [document("d", "kelp blight", "marsh fever")]
    assert [link.entity for link in linker(KB, **how).link(documents).links] == ["E2", None]
    sick = arbo.KnowledgeBase(KB.entities[:1])
    assert [link.entity for link in linker(sick, **how).link(documents).links] == [None, None]


def test_a_review_asks_about_a_name_in_each_document_alone() -> None:
    run = linker(KB, per_document=True).link([document("a", "marsh", "marsh"), document("b", "marsh")])
    assert sorted(Queue.of(run).twins.tolist()) == [1, 2]
    assert Queue.of(run, ["a-0"]).rows.tolist() == [2]

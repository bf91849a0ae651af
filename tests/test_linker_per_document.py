"""Linking per document gives each document the answers that it has alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from builders import document, linker
from hypothesis import given, settings, strategies as st

import arbo
from arbo.corrections.review import Queue
from arbo.retrieval import groups
from arbo.retrieval.groups import among_mentions, nearest_within
from clustering.knn import silent
from clustering.vectors import Vectors

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", types=("Disease",)), arbo.Entity("E2", "kelp blight")])
NAMES = ["marsh fever", "marsh fevers", "fever", "kelp blight", "kelp", "zzz", "zzz fever", "zzzz", "marsh kelp"]
SETTINGS: list[dict[str, Any]] = [
    *({"method": method} for method in ("arborescence", "minimax", "undirected", "independent")),
    {"k": 1, "candidates": 1},
    {"mention_threshold": None, "entity_threshold": 0.2},
    {"nil_linkage": "average", "nil_threshold": None},
    {"map_types": "Illness=Disease"},
]


def links_alone(one: arbo.Linker, documents: list[arbo.Document]) -> list[Any]:
    return [link for document in documents for link in one.link([document]).links]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(NAMES), max_size=5), max_size=6), st.sampled_from(SETTINGS))
def test_links_are_those_of_each_document_alone(texts: list[list[str]], changes: dict[str, Any]) -> None:
    documents = [document(f"d{9 - i}", *names) for i, names in enumerate(texts)]
    one = linker(KB, per_document=True, **changes)
    result = one.link(documents)
    assert list(result.links) == links_alone(one, documents)
    clusters = [c for d in documents for c in one.link([d]).discovered]
    assert sorted(map(repr, result.discovered)) == sorted(map(repr, clusters))


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


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("within", [None, 0.4])
def test_pairs_within_small_parts_give_the_lists_of_a_search(
    sparse: bool, within: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.integers(0, 3, (350, 4)).astype(np.float32) / 3
    vectors = Vectors.of(sp.csr_array(matrix) if sparse else matrix)
    parts = among_mentions([*rng.integers(0, 40, 199).tolist(), "alone", *["large"] * 150])
    how: Any = {"metric": "cosine", "progress": silent, "within": within}
    paired = nearest_within(parts, vectors, vectors, 5, **how)
    monkeypatch.setattr(groups, "_SMALL", -1)
    searched = nearest_within(parts, vectors, vectors, 5, **how)
    assert paired.ids.tolist() == searched.ids.tolist()
    assert paired.dissimilarity.tolist() == searched.dissimilarity.tolist()


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

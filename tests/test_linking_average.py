"""Average linkage of the mentions that no entity reaches: runs, tuning, explanations and the command line."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import Sample

import arbo
from arbo.data.gold import Gold
from clustering import average_tree
from eval import adjusted_rand_index

AVERAGE = arbo.LinkerConfig(nil_linkage="average")


def test_discovery_cuts_average_linkage_of_all_mentions(sample: Sample) -> None:
    linker = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=0.6, mention_threshold=0.0))
    retrieval = linker.retrieve(sample[0], k=4)
    label = average_tree(retrieval.graph(4)).cut(0.6)
    found = linker.discover(sample[0])
    ids = found.link_table["cluster_id"].to_pylist()
    assert ids == [f"new-{sample[0].mentions[row].id}" for row in label.tolist()]
    assert found.manifest["threshold"]["nil"] == 0.6


def test_tuned_discovery_scores_what_it_was_chosen_for(sample: Sample) -> None:
    linker = arbo.Linker(None, config=AVERAGE).tune(sample[0])
    assert linker.config.nil_threshold == linker.tuning.best.nil_threshold is not None
    assert linker.config.mention_threshold == "default"
    scores = linker.discover(sample[0]).evaluate().as_dict()
    assert scores["clustering"]["ari"] == pytest.approx(linker.tuning.best.score, abs=1e-12)


def test_tuned_linking_has_the_best_threshold_for_new_entities(sample: Sample) -> None:
    documents, kb = sample
    kb = arbo.KnowledgeBase(kb.entities[1::2])
    linker = arbo.Linker(kb, config=AVERAGE).tune(documents)
    assert linker.config.nil_threshold != "default"
    classes = Gold.of(documents, kb).classes

    def ari(threshold: float | None) -> float:
        result = arbo.Linker(kb, config=replace(linker.config, nil_threshold=threshold)).link(documents)
        nil = np.array(result.link_table["entity_id"].is_null()) & (classes >= 0)
        _, cluster = np.unique(result.link_table["cluster_id"].to_pylist(), return_inverse=True)
        return float(adjusted_rand_index(classes[nil], cluster[nil]))

    own = ari(linker.config.nil_threshold)
    assert all(own >= ari(threshold) - 1e-12 for threshold in (0.1, 0.3, 0.5, 0.7, None))


def test_an_explanation_names_the_average_and_no_edge(sample: Sample) -> None:
    result = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=0.5)).discover(sample[0])
    together, alone = (
        next(c for c in result.discovered if (len(c.mentions) > 1) is several).mentions[0].id
        for several in (True, False)
    )
    text = str(result.explain(together))
    assert "the last two parts of the cluster have the average dissimilarity" in text
    assert "the limit of average linkage is 0.500" in text
    assert "mention threshold" not in text
    assert "alone: no NIL cluster has an average dissimilarity of at most 0.500" in str(result.explain(alone))


def test_a_giant_of_average_linkage(sample: Sample) -> None:
    found = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=None)).discover(sample[0])
    giant = found.manifest["giants"][0]
    assert "set the NIL threshold below" in found.warnings[0]
    split = replace(AVERAGE, nil_threshold=giant["splits_below"] - 1e-6)
    again = arbo.Linker(None, config=split).discover(sample[0]).manifest["giants"]
    assert all(other["mentions"] < giant["mentions"] for other in again)


def test_inner_products_are_refused(sample: Sample) -> None:
    vectors = arbo.VectorEncoder(np.eye(len(sample[0].mentions)), metric="dot")
    with pytest.raises(arbo.UsageError, match="average linkage needs similarities of at most 1"):
        arbo.Linker(None, vectors, AVERAGE)
    with pytest.raises(arbo.UsageError, match="nil_threshold needs nil_linkage 'average'"):
        arbo.LinkerConfig(nil_threshold=0.5)

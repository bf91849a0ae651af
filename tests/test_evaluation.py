"""Scores of a result, against figures counted by hand."""

from __future__ import annotations

import json

import pytest

import arbo

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", alternative_ids=("X1",)), arbo.Entity("E2", "kelp blight")])
NAMES = ["marsh fever", "marsh fever", "kelp blight", "zzz qqq", "zzz qqq", "kelp blight", "marsh fever"]
#        right          wrong          right          NIL, right  NIL, wrong  not annotated  NIL in truth
GOLD = [("E1",), ("E2",), ("E9", "E2"), ("N1",), ("E1",), None, ()]


def documents(names: list[str], gold: list[tuple[str, ...] | None], id_: str = "d") -> list[arbo.Document]:
    mentions, at = [], 0
    for i, (name, ids) in enumerate(zip(names, gold, strict=True)):
        mentions.append(arbo.Mention(f"{id_}{i}", id_, ((at, at + len(name)),), name, None, ids))
        at += len(name) + 1
    return [arbo.Document(id_, "\n".join(names), tuple(mentions))]


def test_every_figure() -> None:
    evaluation = arbo.Linker(KB).link(documents(NAMES, GOLD)).evaluate()
    linking, nil = evaluation.linking, evaluation.nil
    assert linking is not None
    assert nil is not None
    assert (linking.overall.mentions, linking.overall.in_kb, linking.overall.correct) == (5, 4, 2)
    assert linking.accuracy == 2 / 5
    assert linking.accuracy_in_kb == 2 / 4
    assert (linking.no_concept, linking.not_annotated) == (1, 1)
    assert linking.recall[2] == 4 / 5
    assert (nil.gold, nil.predicted, nil.correct) == (2, 2, 1)
    # Classes E1: 0, 4; E2: 1, 2; N1: 3. Clusters E1: 0, 1; E2: 2; new: 3, 4.
    assert evaluation.clustered == 5
    assert evaluation.coreference is not None
    assert evaluation.coreference["b3"]["precision"] == pytest.approx((0.5 + 0.5 + 1 + 0.5 + 0.5) / 5)
    assert evaluation.coreference["b3"]["recall"] == pytest.approx((0.5 + 0.5 + 0.5 + 1 + 0.5) / 5)
    assert evaluation.clustering is not None
    assert evaluation.clustering["ari"] < 0.1
    assert evaluation.mentions == 7


def test_an_alternative_id_is_the_entity() -> None:
    evaluation = arbo.Linker(KB).link(documents(["marsh fever"] * 2, [("X1",), ("E1",)])).evaluate()
    assert evaluation.linking is not None
    assert evaluation.linking.accuracy == 1
    assert evaluation.coreference is not None
    assert evaluation.coreference["b3"]["f1"] == 1


def test_seen_and_unseen() -> None:
    train = documents(["any"], [("E2", "N1")], id_="t")
    linking = arbo.Linker(KB).link(documents(NAMES, GOLD)).evaluate(train=train).linking
    assert linking is not None
    assert linking.seen is not None
    assert linking.unseen is not None
    assert (linking.seen.mentions, linking.seen.correct) == (3, 1)
    assert (linking.unseen.mentions, linking.unseen.correct) == (2, 1)


def test_without_training_documents_nothing_is_said_of_seen() -> None:
    linking = arbo.Linker(KB).link(documents(NAMES, GOLD)).evaluate().linking
    assert linking is not None
    assert linking.seen is linking.unseen is None


def test_without_gold_annotations_there_is_nothing_to_score() -> None:
    evaluation = arbo.Linker(KB).link(documents(["marsh fever"], [None])).evaluate()
    assert (evaluation.linking, evaluation.nil, evaluation.clustering, evaluation.coreference) == (None,) * 4
    assert evaluation.rows() == []
    assert str(evaluation) == "nothing to score: no mention has a gold annotation"


def test_a_discovery_is_scored_by_its_clusters_alone() -> None:
    evaluation = arbo.Linker().discover(documents(NAMES, GOLD)).evaluate()
    assert evaluation.linking is evaluation.nil is None
    assert evaluation.clustered == 5
    assert evaluation.coreference is not None
    assert 0 < evaluation.coreference["b3"]["f1"] < 1


def test_all_figures_are_json() -> None:
    for result in (
        arbo.Linker(KB).link(documents(NAMES, GOLD)),
        arbo.Linker().discover(documents(NAMES, GOLD)),
    ):
        figures = json.loads(json.dumps(result.evaluate().as_dict()))
        assert set(figures) == {
            "mentions",
            "accuracy_with_nil",
            "linking",
            "nil",
            "clustering",
            "coreference",
            "clustered_mentions",
        }
    assert "ari" in figures["clustering"]
    assert "conll" in figures["coreference"]


def test_the_text_shows_the_headline_figures() -> None:
    text = str(arbo.Linker(KB).link(documents(NAMES, GOLD)).evaluate())
    assert "accuracy" in text
    assert "2 of 5 with a concept" in text
    assert "CoNLL F1" in text


def test_seen_looks_through_alternative_ids() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", alternative_ids=("OLD:1",))])
    mention = arbo.Mention("m", "d", ((0, 11),), "marsh fever", gold=("OLD:1",))
    trained = arbo.Mention("t", "t", ((0, 11),), "marsh fever", gold=("E1",))
    result = arbo.Linker(kb).link([arbo.Document("d", "marsh fever", (mention,))])
    for train in (mention, trained):
        documents = [arbo.Document(train.document_id, "marsh fever", (train,))]
        linking = result.evaluate(train=documents).linking
        assert linking is not None
        assert linking.seen is not None
        assert linking.seen.mentions == 1

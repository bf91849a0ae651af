"""Scores of a result, against figures counted by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import document
from test_eval_report import METRICS

import arbo
from arbo import compare
from arbo.results.evaluation import Evaluation
from eval import Line, Resampling, coreference_counts, nil_scores, scores_from_counts

SAMPLE, BASE = arbo.load_sample()

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", alternative_ids=("X1",)), arbo.Entity("E2", "kelp blight")])
NAMES = ["marsh fever", "marsh fever", "kelp blight", "zzz qqq", "zzz qqq", "kelp blight", "marsh fever"]
#        right          wrong          right          NIL, right  NIL, wrong  not annotated  NIL in truth
GOLD = [("E1",), ("E2",), ("E9", "E2"), ("N1",), ("E1",), None, ()]

DOCUMENTS = [document("d", *zip(NAMES, GOLD, strict=True))]


def test_every_figure() -> None:
    evaluation = arbo.Linker(KB).link(DOCUMENTS).evaluate()
    linking, nil = evaluation.linking, evaluation.nil
    assert (linking.mentions, linking.in_kb, linking.correct) == (5, 4, 2)
    assert (linking.accuracy, linking.accuracy_in_kb, linking.recall[2]) == (2 / 5, 2 / 4, 4 / 5)
    assert (linking.no_concept, linking.not_annotated) == (1, 1)
    assert (nil.gold, nil.predicted, nil.correct) == (2, 2, 1)
    with_nil = evaluation.with_nil
    assert (with_nil.mentions, with_nil.correct, evaluation.accuracy_with_nil) == (6, 3, 3 / 6)
    # Classes E1: 0, 4; E2: 1, 2; N1: 3. Clusters E1: 0, 1; E2: 2; new: 3, 4.
    assert (evaluation.mentions, evaluation.clustered) == (7, 5)
    assert evaluation.coreference["b3"]["precision"] == pytest.approx((0.5 + 0.5 + 1 + 0.5 + 0.5) / 5)
    assert evaluation.coreference["b3"]["recall"] == pytest.approx((0.5 + 0.5 + 0.5 + 1 + 0.5) / 5)
    assert evaluation.clustering["ari"] < 0.1


def test_seen_and_unseen() -> None:
    linking = arbo.Linker(KB).link(DOCUMENTS).evaluate(train=[document("t", ("any", ("E2", "N1")))]).linking
    assert (linking.seen.mentions, linking.seen.correct) == (3, 1)
    assert (linking.unseen.mentions, linking.unseen.correct) == (2, 1)
    evaluation = arbo.Linker(KB).link(DOCUMENTS).evaluate(train=DOCUMENTS)
    assert evaluation.clustering_unseen is None
    assert "ARI, unseen" not in by_name(evaluation)


def test_without_gold_annotations_there_is_nothing_to_score() -> None:
    evaluation = arbo.Linker(KB).link([document("d", "marsh fever")]).evaluate()
    assert (evaluation.linking, evaluation.nil, evaluation.clustering, evaluation.coreference) == (None,) * 4
    assert evaluation.lines == ()
    assert str(evaluation).startswith("nothing to score: no mention has a gold id or cluster")


def test_scores_without_a_meaning_are_dashes() -> None:
    for gold, dashes in (
        ([("E1",), ("E2",), None], {"NIL", "ARI", "MUC"}),  # no NIL, and no two mentions of one entity
        ([("E1",), ("E1",), ()], {"ARI"}),  # one entity
        ([("N1",), ("N1",), ("N1",)], {"ARI", "accuracy in KB", "accuracy normalised"}),
    ):
        documents = [document("d", *zip(["marsh fever", "zzz", "marsh fever"], gold, strict=True))]
        evaluation = arbo.Linker(KB).link(documents).evaluate()
        rows = {row[0]: row[3] for row in evaluation.report(how=None).table.rows}
        assert {name for name, score in rows.items() if score == "-"} == dashes
        figures = evaluation.as_dict()
        assert (figures["nil"] is None) == ("NIL" in dashes)
        has_both = any(gold) and () in gold
        assert (figures["nil_by_threshold"] is not None, "average precision" in str(evaluation)) == (has_both, has_both)


def test_all_figures_are_json() -> None:
    for result in (arbo.Linker(KB).link(DOCUMENTS), arbo.Linker().discover(DOCUMENTS)):
        figures = json.loads(json.dumps(result.evaluate().as_dict()))
        assert set(figures) == {
            *("mentions", "accuracy_with_nil", "recall_with_nil", "linking", "nil", "nil_by_threshold", "clustering"),
            *("clustering_unseen", "coreference", "clustered_mentions"),
        }
    assert figures["linking"] is figures["nil"] is None  # a discovery is scored by its clusters alone
    assert (figures["clustered_mentions"], "ari" in figures["clustering"]) == (5, True)
    assert 0 < figures["coreference"]["b3"]["f1"] < 1
    assert "conll" in figures["coreference"]


def test_coreference_within_documents_splits_all_clusters() -> None:
    blight, lost, fever = ("kelp blight", ("E2",)), ("marsh fever", ("E9",)), ("marsh fever", ("E1",))
    result = arbo.Linker(KB).link([document("a", blight, blight, lost), document("b", blight, lost, fever)])
    key, response = [[[0, 1], [2]], [[0], [1], [2]]], [[[0, 1], [2]], [[0], [1, 2]]]
    within = result.evaluate(per_document=True)
    expected = scores_from_counts(sum(map(coreference_counts, key, response)))
    assert within.coreference == expected
    assert within.clustering is None
    lines, f1 = by_name(within), {name: expected[metric]["f1"] for name, metric in METRICS.items()}
    assert {name: lines[name].score.value for name in METRICS} == pytest.approx(f1)
    assert lines["CoNLL"].score.n_documents == 2
    alone, kept = result.evaluate(per_document=True, singletons=False), [([[0, 1]], [[0, 1]]), ([], [[1, 2]])]
    assert alone.coreference == scores_from_counts(sum(coreference_counts(*sides) for sides in kept))
    across = result.evaluate(singletons=False)
    assert across.coreference["b3"]["counts"] == pytest.approx([5, 5, 3 + 4 / 3, 6])
    assert "ARI" not in by_name(across)


def by_name(evaluation: Evaluation) -> dict[str, Line]:
    return {line.name: line for line in evaluation.lines}


def test_the_lines_are_the_scores() -> None:
    evaluation = arbo.Linker(BASE).link(SAMPLE[45:]).evaluate(train=SAMPLE[:45])
    linking, nil, coreference = evaluation.linking, evaluation.nil, evaluation.coreference
    expected = {
        "accuracy": linking.accuracy,
        "accuracy in KB": linking.accuracy_in_kb,
        "accuracy normalised": linking.accuracy_normalized,
        "recall@4": linking.recall[4],
        "recall@16": linking.recall[16],
        "accuracy, seen": linking.seen.accuracy if linking.seen else None,
        "accuracy, unseen": linking.unseen.accuracy if linking.unseen else None,
        "accuracy by type": linking.macro["type"].accuracy,
        "accuracy with NIL": evaluation.accuracy_with_nil,
        "recall@1 with NIL": evaluation.with_nil.recall[1] if evaluation.with_nil else None,
        "NIL": nil.f1,
        "ARI": evaluation.clustering["ari"],
        **{name: coreference[metric]["f1"] for name, metric in METRICS.items()},
        "CoNLL": coreference["conll"],
        "ARI, unseen": evaluation.clustering_unseen["ari"],
    }
    lines = by_name(evaluation)
    assert {name: line.score.value for name, line in lines.items()} == pytest.approx(expected, abs=1e-12)
    assert lines["NIL"].recall.value == nil.recall
    for line in lines.values():
        interval = line.score.interval(Resampling(n_resamples=200, n_half_samples=50))
        assert interval.low <= line.score.value <= interval.high


def test_nil_by_threshold_is_over_the_similarity_of_the_nearest_entity() -> None:
    result = arbo.Linker(KB, config=arbo.LinkerConfig(entity_threshold=None)).link(DOCUMENTS)
    curve = result.evaluate().nil_curve
    scores = [link.candidates[0][1] for link in result.links if link.mention.gold is not None]
    is_nil = [False, False, False, True, False, True]
    every = [nil_scores(is_nil, [score < threshold for score in scores]).f1 for threshold in [*scores, 2]]
    assert curve.best.f1 == max(every)


def test_unseen_only_leaves_out_what_training_has() -> None:
    train, test = SAMPLE[:45], SAMPLE[45:]
    alone, trained = test.unseen_in(train), {id_ for mention in train.mentions for id_ in mention.gold or ()}
    kept = {mention.id for mention in alone.mentions}
    assert kept == {m.id for m in test.mentions if m.gold is None or trained.isdisjoint(m.gold)}
    assert 0 < len(kept) < len(test.mentions)
    assert [one.id for one in alone] == [one.id for one in test]


@pytest.mark.slow
def test_comparing_two_results() -> None:
    linkers = (arbo.Linker(BASE), arbo.Linker(BASE, config=arbo.LinkerConfig(method="independent", k=0)))
    a, b = (linker.link(SAMPLE[:20]) for linker in linkers)
    report = compare({"a": a, "b": b}, how=Resampling(n_permutations=100, n_half_samples=20))
    accuracy, (one, other) = report.systems["b"]["accuracy"], (run.evaluate().linking.accuracy for run in (a, b))
    assert accuracy.comparison.difference == pytest.approx(other - one)
    assert all(entry.comparison == (0, 1) for entry in compare({"a": a, "again": a}).systems["again"].values())


@pytest.mark.parametrize("first", ["linked", "found"])
def test_a_discovery_is_compared_with_a_linking_by_what_the_knowledge_base_knows(first: str) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", alternative_ids=("X1",))])
    corpus = [document("d", ("marsh fever", ("X1",)), ("marsh fever", ("E1",)), ("kelp", ("Z",)))]
    both = {"linked": arbo.Linker(kb).link(corpus), "found": arbo.Linker().discover(corpus)}
    report = compare({name: both[name] for name in sorted(both, key=lambda name: name != first)}, how=None)
    assert {name: entries["ARI"].score.value for name, entries in report.systems.items()} == {"linked": 1, "found": 1}
    assert both["found"].evaluate().clustering["ari"] == 0  # which knows no alternative id


def test_no_results_and_those_of_other_documents_are_not_compared() -> None:
    with pytest.raises(arbo.UsageError, match="there are no results to compare"):
        compare({})
    other = [document("d", *zip(NAMES, [*GOLD[:-1], ("E1",)], strict=True))]
    with pytest.raises(arbo.UsageError, match="a and b differ in gold"):
        compare({"a": arbo.Linker(KB).link(DOCUMENTS), "b": arbo.Linker(KB).link(other)})


def test_clusters_of_very_many_mentions_have_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbo.results.evaluation.MOST_WITH_INTERVALS", 4)
    lines = by_name(arbo.Linker(BASE).link(SAMPLE[:5]).evaluate())
    assert lines["ARI"].score.interval(Resampling()) is None
    assert lines["accuracy"].score.interval(Resampling()) is not None


def test_means_over_types_and_over_domains() -> None:
    worlds = ["lego", "lego", "doc"]
    entities = [arbo.Entity(f"E{i}", f"marsh fever {i}", domain=world) for i, world in enumerate(worlds)]
    corpus = []
    linked = [(0, "a", ("E0",)), (1, "a", ("E0",)), (1, "b", ("E1",)), (2, "b", ("E2",)), (2, "without a concept", ())]
    for i, (number, kind, gold) in enumerate(linked):
        one = document(f"d{i}", (f"marsh fever {number}", gold), domain=worlds[number])
        corpus.append(replace(one, mentions=(replace(one.mentions[0], type=kind),)))
    result = arbo.Linker(arbo.KnowledgeBase(entities), config=arbo.LinkerConfig(method="independent")).link(corpus)
    assert result.mention_table["domain"].to_pylist() == ["lego"] * 3 + ["doc"] * 2
    evaluation = result.evaluate()
    assert evaluation.linking.macro["domain"].accuracy == pytest.approx((2 / 3 + 1) / 2)
    assert evaluation.linking.macro["type"].accuracy == pytest.approx((1 / 2 + 1) / 2)
    lines = by_name(evaluation)
    assert lines["accuracy by domain"].score.value == pytest.approx((2 / 3 + 1) / 2)
    assert lines["accuracy by type"].over == "mean over 2 types"


def with_clusters(*clusters: str | None) -> arbo.Document:
    """Two mentions of E1, the second without an id, and three of something else."""
    made = document("d", ("marsh fever", ("E1",)), "marsh fever", ("zzz", ()), "zzz", "qqq www")
    pairs = zip(made.mentions, clusters, strict=True)
    return replace(made, mentions=tuple(replace(mention, cluster=cluster) for mention, cluster in pairs))


@pytest.mark.parametrize("linked_first", [True, False])
def test_gold_clusters_count_in_a_linked_run_as_in_a_discovered_one(linked_first: bool, tmp_path: Path) -> None:
    documents = [with_clusters("c1", "c1", "c2", "c2", None)]
    linked, found = arbo.Linker(KB).link(documents), arbo.Linker().discover(documents)
    runs = {"linked": linked, "found": found}
    for name, run in runs.items():
        run.save(tmp_path / name)
        again = arbo.Result.load(tmp_path / name)
        assert [link.mention for link in again.links] == list(documents[0].mentions)
        assert again.evaluate().as_dict() == run.evaluate().as_dict()
        assert run.evaluate().clustered == 4  # E1, c1, c2, c2
    order = sorted(runs, key=lambda name: (name == "linked") != linked_first)
    for name, entries in compare({name: runs[name] for name in order}, how=None).systems.items():
        assert entries["B-cubed"].score.value == runs[name].evaluate().coreference["b3"]["f1"]
    linking, plain = linked.evaluate(), arbo.Linker(KB).link([with_clusters(*[None] * 5)]).evaluate()
    assert (linking.linking, linking.nil, plain.clustered) == (plain.linking, plain.nil, 1)
    with pytest.raises(arbo.UsageError, match="a and b differ in gold"):
        compare({"a": found, "b": arbo.Linker(KB).link([with_clusters("c1", "c2", "c2", "c2", None)])})

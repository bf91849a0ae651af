"""Intervals hold what they promise, p-values are those of brute force, and nothing depends on how it is computed."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from test_eval_clusters import by_label

import eval.figures as figures
from eval import (
    Line,
    Resampling,
    Summed,
    adjusted_rand_index,
    cluster_lines,
    clustering_scores,
    coreference_counts,
    coreference_lines,
    f_measure,
    proportion,
    scores_from_counts,
)
from eval.figures import approximate_randomisation, bootstrap, half_sample_deviations, half_samples
from eval.ratio import f1, ratio

HOW = Resampling()
FEW = Resampling(n_resamples=200, n_permutations=300, n_half_samples=100)

counts_of_documents = st.integers(1, 7).flatmap(
    lambda n: st.tuples(*2 * [st.lists(st.tuples(*4 * [st.integers(0, 5)]), min_size=n, max_size=n)])
)


def clusters(true, predicted, document):
    """The figure of the adjusted Rand index."""
    return cluster_lines(true, predicted, document)[0].score


def shares(n_documents, rng, *, accuracy=0.7, n_mentions=8):
    """Right and all mentions of documents which are not equally hard."""
    all_ = rng.integers(1, n_mentions, n_documents)
    return np.column_stack([rng.binomial(all_, np.clip(rng.normal(accuracy, 0.2, n_documents), 0, 1)), all_])


def collection(n_documents, rng, *, noise=0.3, n_entities=40, n_systems=1):
    """True entities, clusters of each system, documents: entities are shared across documents."""
    document = np.repeat(np.arange(n_documents), 6)
    true = np.minimum(rng.zipf(1.5, len(document)), n_entities)
    wrong = rng.integers(n_entities + 1, 3 * n_entities, (n_systems, len(document)))
    return true, np.where(rng.random(wrong.shape) < noise, wrong, true), document


def test_bootstrap_scores_documents_drawn_with_replacement():
    counts = shares(30, np.random.default_rng(1)).astype(float)
    drawn = np.random.default_rng(7).integers(30, size=(50, 30))
    expected = [ratio(*counts[documents].sum(axis=0)) for documents in drawn]
    assert bootstrap(counts, proportion, replace(HOW, n_resamples=50, seed=7)) == pytest.approx(expected, abs=1e-15)


def test_samples_of_nothing_are_left_out_and_the_observed_exchange_counts():
    """The documents without anything to link say nothing of how sure the perfect score of the other is."""
    figure = Summed(np.array([[1, 1], [0, 0], [0, 0]]), proportion)
    assert figure.interval(HOW) == (1.0, 1.0)
    of_one_sample = {figure.interval(Resampling(n_resamples=1, seed=seed)) for seed in range(20)}
    assert of_one_sample == {None, (1.0, 1.0)}
    better, worse = (Summed(np.full((50, 2), (right, 1)), proportion) for right in (1, 0))
    assert better.against(worse, Resampling(n_permutations=99)) == (1.0, 0.01)


@pytest.mark.parametrize("n_documents", [5, 70, 130])
def test_the_size_of_a_block_does_not_show(monkeypatch, n_documents):
    rng = np.random.default_rng(2)
    one, other = (Summed(shares(n_documents, rng), proportion) for _ in range(2))
    whole = one.interval(HOW), one.against(other, HOW)
    monkeypatch.setattr(figures, "_BLOCK", 3 * n_documents + 1)
    assert (one.interval(HOW), one.against(other, HOW)) == whole


@given(counts_of_documents)
def test_p_is_that_of_all_exchanges(pair):
    one, other = (np.array(side, float) for side in pair)

    def score(counts):
        a, b, c, d = counts.sum(axis=0)
        return f1(ratio(a, b), ratio(c, d))

    observed = score(one) - score(other)
    swaps = [np.array(swap)[:, None] for swap in product([False, True], repeat=len(one))]
    differences = [score(np.where(swap, other, one)) - score(np.where(swap, one, other)) for swap in swaps]
    p = np.mean([abs(difference) >= abs(observed) - 1e-12 for difference in differences])
    found = approximate_randomisation(one, other, lambda counts: np.nan_to_num(f_measure(counts)), HOW)
    assert found == pytest.approx((observed, p), abs=1e-12)


@pytest.mark.parametrize("n_documents", [2, 8, 64, 65, 200])
def test_a_system_does_not_differ_from_itself(n_documents):
    rng = np.random.default_rng(7)
    figure = Summed(rng.random((n_documents, 4)), f_measure)  # sums of fractions round
    assert figure.against(figure, FEW) == (0.0, 1.0)


@pytest.mark.parametrize("n_documents", [0, 1])
def test_fewer_than_two_documents_say_nothing(n_documents):
    shown = Summed(np.ones((n_documents, 2)), proportion)
    labels = clusters([0, 0, 1][: 3 * n_documents], [0, 1, 1][: 3 * n_documents], [0] * 3 * n_documents)
    assert shown.value == labels.n_documents == n_documents
    for figure in (shown, labels):
        assert figure.interval(HOW) is figure.against(figure, HOW) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Summed(np.ones(3), proportion), r"shape \(3,\), not \(documents, columns\)"),
        (lambda: Summed(np.array([[1, 1], [1, 1], [1, np.nan]]), proportion), r"counts\[2, 1\] is nan"),
        (lambda: Line.of_counts("NIL", np.ones((2, 3))), r"shape \(2, 3\), not \(documents, 4\)"),
        (lambda: Line.of_counts("NIL", [[2, 3, 2, 2], [3, 2, 1, 1]]), "the numerator 3 and the smaller"),
        (lambda: Line.of_counts("NIL", [[2, 3, 2, 2], [1, 1, 3, 2]]), "the numerator 3 and the smaller"),
    ],
)
def test_odd_counts_are_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
    assert Summed([[0.1 + 0.2, 0.3]], proportion).value == pytest.approx(1)  # a sum that was rounded up


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_means_of_half_samples_vary_as_the_mean_of_all_does(n):
    values = np.random.default_rng(n).normal(size=n)
    means = np.array([values[list(half)].mean() for half in combinations(range(n), n // 2)])
    assert half_sample_deviations(means, n).var() == pytest.approx(values.var(ddof=1) / n)


def test_half_samples_are_halves_fair_and_score_their_own_mentions():
    halves = np.array(list(half_samples(7, replace(HOW, n_half_samples=4000))))
    assert (halves.sum(axis=1) == 3).all()
    assert halves.mean(axis=0) == pytest.approx(3 / 7, abs=0.03)
    true, (predicted,), document = collection(10, np.random.default_rng(9))
    how = Resampling(n_half_samples=20)
    drawn = [half[document] for half in half_samples(10, how)]
    scores = np.array([adjusted_rand_index(true[half], predicted[half]) for half in drawn])
    figure = clusters(true, predicted, document)
    low, high = np.quantile(figure.value + scores - scores.mean(), [0.025, 0.975])
    assert figure.interval(how) == pytest.approx((low, high), abs=1e-12)


def test_p_of_clusters_is_that_of_the_centred_differences():
    true, predicted, document = collection(11, np.random.default_rng(10), n_systems=2)
    how = Resampling(n_half_samples=99)
    one, other = (clusters(true, labels, document) for labels in predicted)
    drawn = [half[document] for half in half_samples(11, how)]
    scores = np.array([[adjusted_rand_index(true[half], labels[half]) for labels in predicted] for half in drawn])
    differences = scores[:, 0] - scores[:, 1]
    deviations = np.abs(differences - differences.mean()) * np.sqrt(5 / 6)
    difference = adjusted_rand_index(true, predicted[0]) - adjusted_rand_index(true, predicted[1])
    expected = (1 + (deviations >= abs(difference)).sum()) / 100
    assert one.against(other, how) == pytest.approx((difference, expected), abs=1e-12)
    assert 0.01 < expected < 1


def test_perfect_clusters_are_certain_and_no_interval_passes_one():
    true, (predicted,), document = collection(9, np.random.default_rng(12), noise=0.03)
    assert clusters(true, true, document).interval(FEW) == (1.0, 1.0)
    interval = clusters(true, predicted, document).interval(FEW)
    assert interval.low < interval.high <= 1


def test_clusters_of_other_mentions_are_refused():
    figure = clusters([0, 0, 1], [0, 1, 1], [0, 0, 1])
    for name, true, document in (("labels_true", [0, 1, 1], [0, 0, 1]), ("document", [0, 0, 1], [0, 1, 1])):
        with pytest.raises(ValueError, match=f"{name} differs"):
            figure.against(clusters(true, [0, 1, 1], document), HOW)
    with pytest.raises(ValueError, match="labels_true has length 2, labels_pred 3 and document 1"):
        clusters([0, 0], [0, 0, 0], [0])


def test_intervals_of_counts_cover():
    rng = np.random.default_rng(13)
    population = shares(400_000, rng)
    truth = ratio(*population.sum(axis=0))
    drawn = (population[rng.choice(len(population), 40)] for _ in range(300))
    intervals = [Summed(documents, proportion).interval(FEW) for documents in drawn]
    assert 0.89 < np.mean([low <= truth <= high for low, high in intervals]) < 0.99


METRICS = {"MUC": "muc", "B-cubed": "b3", "CEAF-m": "ceafm", "CEAF-e": "ceafe", "LEA": "lea", "BLANC": "blanc"}


def test_a_score_of_nothing_is_told_from_zero_and_singletons_are_removed():
    singletons = coreference_lines(2 * [coreference_counts([["a"], ["b"]], [["a"], ["b"]])])
    assert {line.name for line in singletons if not line.score.is_defined} == {"MUC"}
    apart = coreference_lines(2 * [coreference_counts([["a", "b"]], [["a"], ["b"]])])
    (muc, *_) = apart
    assert (muc.recall.value, muc.recall.is_defined) == (0.0, True)
    assert (muc.precision.value, muc.precision.is_defined) == (0.0, False)
    assert (muc.score.value, muc.score.is_defined) == (0.0, True)
    """As coval does: key {1, 2}, {3}; response {1}, {2, 3} become {1, 2} and {2, 3}."""
    lines = cluster_lines([0, 0, 1], [0, 1, 1], ["a", "b", "b"], singletons=False)
    expected = coreference_counts([[1, 2]], [[2, 3]])
    assert [line.name for line in lines] == [*METRICS, "CoNLL"]
    assert lines[-1].score.value == pytest.approx(scores_from_counts(expected)["conll"])
    same = cluster_lines([0, 0, 1, 2], [0, 0, 1, 2], ["a", "b", "c", "d"], singletons=False)
    assert same[-1].score.interval(FEW) is not None


def test_lines_of_clusters_are_the_scores_of_all_mentions():
    true, (predicted,), document = collection(20, np.random.default_rng(18))
    lines = cluster_lines(true, predicted, document)
    assert [line.name for line in lines] == ["ARI", *METRICS, "CoNLL"]
    assert lines[0].score.value == clustering_scores(true, predicted)["ari"]
    scores = scores_from_counts(coreference_counts(by_label(true.tolist()), by_label(predicted.tolist())))
    assert lines[-1].score.value == pytest.approx(scores["conll"], abs=1e-15)
    for line in lines[1:-1]:
        score = scores[METRICS[line.name]]
        assert (line.recall.value, line.precision.value) == pytest.approx((score["recall"], score["precision"]))
        assert line.score.value == pytest.approx(score["f1"], abs=1e-15)
    for line in lines:
        low, high = line.score.interval(FEW)
        assert low < line.score.value < high

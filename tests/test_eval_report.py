"""Reports say what was computed, in every format; intervals and p-values are those of brute force."""

import json
import math
import os
import re
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt
from test_eval_clusters import by_label

import eval as ours
import eval.figures as figures
from eval import Comparison, Interval, Line, Report, Resampling, Summed, proportion
from eval.figures import approximate_randomisation, bootstrap, half_sample_deviations, half_samples
from eval.ratio import f1, ratio
from eval.table import Cell, Table

HOSTILE = ["a|b", "=cmd()", "<script>alert(1)</script>", "&lt;", "*x* _y_ `z`", "[u](http://v)", "50 % $x$ #1 ~^", "\\"]


class Fixed:
    """A figure whose uncertainty is known beforehand."""

    def __init__(self, value, *, p=None, interval=(0.1, 0.9), is_defined=True, method="draws"):
        self.value, self.p, self.bounds, self.is_defined, self.words = value, p, interval, is_defined, method
        self.score, self.n_documents = value if is_defined else math.nan, 12

    def interval(self, how):
        return None if self.bounds is None else Interval(*self.bounds)

    def against(self, other, how):
        return None if self.p is None else Comparison(self.value - other.value, self.p)

    def method(self, how):
        return {"interval": f"{self.words} of intervals", "test": f"{self.words} of tests"}


class Forbidden(Fixed):
    """A figure whose uncertainty nobody may ask for."""

    def interval(self, how):
        raise AssertionError

    against = method = interval


def cells(text):
    """Columns are parted by two blanks at least."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_one_system_is_shown_with_recall_precision_and_interval():
    accuracy = Line("accuracy", Fixed(-0.00001, interval=(-0.25, 1 / 3)))
    lines = [Line("F", Fixed(0.5), Fixed(0.25), Fixed(1.0), over="3 of 4"), accuracy]
    report = Report.of({"ours": lines}, title="Title", how=Resampling(level=0.9, seed=7))
    assert str(report).splitlines() == [
        "Title",
        "",
        "          recall  precision   score       90% interval  over",
        "F         0.2500     1.0000  0.5000   [0.1000, 0.9000]  3 of 4",
        "accuracy                     0.0000  [-0.2500, 0.3333]",
        "",
        "90% interval: draws of intervals, seed 7",
    ]


def test_what_has_no_meaning_is_a_dash_and_counts_as_zero():
    report = Report.of({"ours": [Line.of_counts("MUC", [[0, 0, 0, 2], [0, 0, 0, 1]])]})
    assert report.table.rows == [("MUC", "-", "0.0000", "-")]  # nothing is annotated
    assert "-: nothing to divide by (0/0)" in report.table.notes()
    entry = report.systems["ours"]["MUC"]
    assert (entry.score.value, entry.as_dict()["recall"], entry.as_dict()["score"]) == (0.0, None, None)
    found = Report.of({"ours": [Line.of_counts("MUC", [[0, 2, 0, 0], [0, 1, 0, 0]])]}, how=None)
    assert found.table.rows == [("MUC", "0.0000", "-", "0.0000")]
    undefined = Report.of({"ours": [Line.of_counts("MUC", [[0, 0, 0, 0], [0, 0, 0, 0]])]})
    assert undefined.table.rows == [("MUC", "-", "-", "-")]
    assert undefined.to_csv().splitlines()[1].startswith("ours,MUC,,,,")
    recall_alone = [Line("MUC", Fixed(0.5), Fixed(0.0, is_defined=False))]
    assert "-: nothing" in str(Report.of({"ours": recall_alone}))
    assert "-: nothing" not in str(Report.of({"ours": recall_alone, "theirs": recall_alone}))  # scores alone are shown


def test_without_resampling_nothing_is_resampled_nor_printing_works(tmp_path):
    lines = [Line("accuracy", Forbidden(0.5))]
    report = Report.of({"one": lines, "other": lines}, how=None)
    assert (report.table.rows, report.table.notes()) == ([("accuracy", "0.5000", "0.5000")], [])
    assert report.as_dict()["resampling"] is None
    figure = Fixed(0.5, p=0.001)
    report = Report.of({"a": [Line("F", figure)], "b": [Line("F", figure)]})
    figure.__class__ = Forbidden
    assert "0.5000**" in str(report) + report.to_markdown() + report.to_latex() + json.dumps(report.as_dict())
    report.save(tmp_path / "report.json")


@pytest.fixture
def three():
    return {
        "first": [Line("MUC", Fixed(0.5)), Line("LEA", Fixed(0.25)), Line("ARI", Fixed(0.5))],
        "second": [Line("MUC", Fixed(0.75, p=0.0099)), Line("ARI", Fixed(0.500001, p=0.01))],
        "third": [Line("new", Fixed(0.125)), Line("MUC", Fixed(0.625, p=0.05)), Line("LEA", Fixed(0.25, p=0.049))],
    }


def test_several_systems_stand_side_by_side_if_they_can_be_compared(three):
    assert str(Report.of(three, title="All")).splitlines() == [
        "All",
        "",
        "      first     second    third",
        "MUC  0.5000  >0.7500**  0.6250",
        "LEA  0.2500        -    0.2500*",
        "ARI  0.5000   0.5000*        -",
        "new       -        -    0.1250",
        "",
        "> the best of its line",
        "* p < 0.05, ** p < 0.01 against first: two-sided, not corrected for multiple comparisons",
        "p-value: draws of tests, seed 0",
    ]
    short, long = (Line("F", Summed(np.ones((n, 2)), proportion)) for n in (3, 4))
    with pytest.raises(ValueError, match=r"'F' of 'b' cannot be compared with that of 'a': counts has shape \(4, 2\)"):
        Report.of({"a": [short], "b": [long]})


@pytest.mark.parametrize("n_documents", [2, 5, 6])
def test_too_few_documents_for_a_star_are_told(n_documents):
    """Told where even the system that is right everywhere gets no star against the one that never is."""
    right, wrong = (Line("F", Summed(np.full((n_documents, 2), (value, 1)), proportion)) for value in (1, 0))
    report = Report.of({"wrong": [wrong], "right": [right]})
    ((_, _, shown),) = report.table.rows
    assert ("*" in shown) == (n_documents >= 6)
    told = f"p-value: all 2^{n_documents} exchanges of {n_documents} documents, too few for p < 0.05, seed 0"
    assert (told in report.table.notes()) == (n_documents < 6)


def test_json_says_all():
    report = Report.of({"a": [Line("F", Fixed(0.5), over="3 of 4")], "b": [Line("F", Fixed(0.75, p=0.5))]}, title="T")
    saved = report.as_dict()
    assert saved["title"] == "T"
    expected = {"n_resamples": 1000, "n_permutations": 10_000, "n_half_samples": 500, "level": 0.95, "seed": 0}
    assert saved["resampling"] == expected
    own = saved["systems"]["a"]["F"]
    assert own["method"] == {"interval": "draws of intervals", "test": "draws of tests"}
    assert (own["score"], own["interval"], own["against_first"], own["documents"]) == (0.5, [0.1, 0.9], None, 12)
    assert saved["systems"]["b"]["F"]["against_first"] == {"difference": 0.25, "p_value": 0.5}


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_names_as_they_are(name):
    table = Table(name, (name, name), (False, True), [(Cell(name), Cell("0.5", True, "**"))], [name])
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(table.to_markdown())
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"<strong>{shown}</strong>" in html
    assert (html.count(f">{shown}</td>"), html.count(f">{shown}</th>")) == (1, 2)
    assert f"<li>{shown}</li>" in html
    assert "<strong>0.5</strong>**</td>" in html


@pytest.mark.parametrize("name", HOSTILE)
def test_latex_has_no_special_character_of_a_name(name):
    table = Table(name, ("", name), (False, True), [(Cell(name), Cell(name))], [name])
    latex = table.to_latex()
    inner = [latex.split("\\caption{")[1].split("}\n")[0], *re.findall(r"\\par\{\\footnotesize (.*)\\par\}\n", latex)]
    assert len(inner) == 2  # a paragraph in small type ends inside its group, or its lines keep the usual distance
    for text in inner:
        left = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#_%]|\{[\[\]*]\}", "", text)
        assert not set(left) & set('\\{}$&#_%~^<>|*[]"'), text
    body = latex.split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    assert body == f"{inner[0]} & {inner[0]} \\\\"


def test_names_steer_no_terminal_and_break_no_line():
    report = Report.of({"a\n\x1b[2Jb\u202e": [Line("x\ty\ud800", Fixed(0.5), over="o\r\nv")]})
    for text in (str(report), report.to_markdown(), report.to_latex()):
        assert all(char.isprintable() or char == "\n" for char in text)
        text.encode()
    assert (report.table.rows[0][0], str(report).splitlines()[0]) == ("x y\\ud800", "a \\x1b[2Jb\\u202e")
    assert Report.of({"a\x1b": [], "b": []}).table.header == ("", "a\\x1b", "b")
    assert [str(Report.of({}, how=how)) for how in (None, Resampling())] == ["", ""]


@pytest.mark.parametrize("suffix", [".json", ".md", ".tex", ".txt", ".JSON"])
def test_saved_by_suffix(tmp_path, three, suffix):
    report = Report.of(three, title="ünï \ud800")
    path = tmp_path / f"the report{suffix}"
    path.write_text("old")
    report.save(path)
    texts = {".md": report.to_markdown(), ".tex": report.to_latex(), ".txt": str(report)}
    if suffix in texts:
        assert path.read_text("utf-8") == texts[suffix] + "\n"
    else:
        assert json.loads(path.read_text("utf-8")) == report.as_dict()
    assert os.listdir(tmp_path) == [path.name]


HOW = ours.Resampling()
FEW = ours.Resampling(n_resamples=200, n_permutations=300, n_half_samples=100)

counts_of_documents = st.integers(1, 7).flatmap(
    lambda n: st.tuples(*2 * [st.lists(st.tuples(*4 * [st.integers(0, 5)]), min_size=n, max_size=n)])
)


def clusters(true, predicted, document):
    """The figure of the adjusted Rand index."""
    return ours.cluster_lines(true, predicted, document)[0].score


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


def test_bootstrap_draws_documents_of_which_empty_samples_are_left_out():
    counts = shares(30, np.random.default_rng(1)).astype(float)
    drawn = np.random.default_rng(7).integers(30, size=(50, 30))
    expected = [ratio(*counts[documents].sum(axis=0)) for documents in drawn]
    found = bootstrap(counts, ours.proportion, replace(HOW, n_resamples=50, seed=7))
    assert found == pytest.approx(expected, abs=1e-15)
    """The documents without anything to link say nothing of how sure the perfect score of the other is."""
    figure = ours.Summed(np.array([[1, 1], [0, 0], [0, 0]]), ours.proportion)
    assert figure.interval(HOW) == (1.0, 1.0)
    of_one_sample = {figure.interval(ours.Resampling(n_resamples=1, seed=seed)) for seed in range(20)}
    assert of_one_sample == {None, (1.0, 1.0)}
    better, worse = (ours.Summed(np.full((50, 2), (right, 1)), ours.proportion) for right in (1, 0))
    assert better.against(worse, ours.Resampling(n_permutations=99)) == (1.0, 0.01)


@pytest.mark.parametrize("n_documents", [5, 70, 130])
def test_the_size_of_a_block_does_not_show(monkeypatch, n_documents):
    rng = np.random.default_rng(2)
    one, other = (ours.Summed(shares(n_documents, rng), ours.proportion) for _ in range(2))
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
    found = approximate_randomisation(one, other, lambda counts: np.nan_to_num(ours.f_measure(counts)), HOW)
    assert found == pytest.approx((observed, p), abs=1e-12)


@pytest.mark.parametrize("n_documents", [2, 8, 64, 65, 200])
def test_a_system_does_not_differ_from_itself(n_documents):
    rng = np.random.default_rng(7)
    figure = ours.Summed(rng.random((n_documents, 4)), ours.f_measure)  # sums of fractions round
    assert figure.against(figure, FEW) == (0.0, 1.0)


@pytest.mark.parametrize("n_documents", [0, 1])
def test_fewer_than_two_documents_say_nothing(n_documents):
    shown = ours.Summed(np.ones((n_documents, 2)), ours.proportion)
    labels = clusters([0, 0, 1][: 3 * n_documents], [0, 1, 1][: 3 * n_documents], [0] * 3 * n_documents)
    assert shown.value == labels.n_documents == n_documents
    for figure in (shown, labels):
        assert figure.interval(HOW) is figure.against(figure, HOW) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ours.Summed(np.ones(3), ours.proportion), r"shape \(3,\), not \(documents, columns\)"),
        (lambda: ours.Summed(np.array([[1, 1], [1, 1], [1, np.nan]]), ours.proportion), r"counts\[2, 1\] is nan"),
        (lambda: ours.Line.of_counts("NIL", np.ones((2, 3))), r"shape \(2, 3\), not \(documents, 4\)"),
    ],
)
def test_odd_counts_are_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_means_of_half_samples_vary_as_the_mean_of_all_does(n):
    values = np.random.default_rng(n).normal(size=n)
    means = np.array([values[list(half)].mean() for half in combinations(range(n), n // 2)])
    assert half_sample_deviations(means, n).var() == pytest.approx(values.var(ddof=1) / n)


def test_halves_are_fair_and_give_intervals_and_p_of_clusters():
    halves = np.array(list(half_samples(7, replace(HOW, n_half_samples=4000))))
    assert (halves.sum(axis=1) == 3).all()
    assert halves.mean(axis=0) == pytest.approx(3 / 7, abs=0.03)
    true, (predicted,), document = collection(10, np.random.default_rng(9))
    how = ours.Resampling(n_half_samples=20)
    drawn = [half[document] for half in half_samples(10, how)]
    scores = np.array([ours.adjusted_rand_index(true[half], predicted[half]) for half in drawn])
    figure = clusters(true, predicted, document)
    low, high = np.quantile(figure.value + scores - scores.mean(), [0.025, 0.975])
    assert figure.interval(how) == pytest.approx((low, high), abs=1e-12)
    true, predicted, document = collection(11, np.random.default_rng(10), n_systems=2)
    how = ours.Resampling(n_half_samples=99)
    one, other = (clusters(true, labels, document) for labels in predicted)
    drawn = [half[document] for half in half_samples(11, how)]
    scores = np.array([[ours.adjusted_rand_index(true[half], labels[half]) for labels in predicted] for half in drawn])
    differences = scores[:, 0] - scores[:, 1]
    deviations = np.abs(differences - differences.mean()) * np.sqrt(5 / 6)
    difference = ours.adjusted_rand_index(true, predicted[0]) - ours.adjusted_rand_index(true, predicted[1])
    expected = (1 + (deviations >= abs(difference)).sum()) / 100
    assert one.against(other, how) == pytest.approx((difference, expected), abs=1e-12)
    assert 0.01 < expected < 1


def test_perfect_clusters_are_certain_and_those_of_other_mentions_refused():
    true, (predicted,), document = collection(9, np.random.default_rng(12), noise=0.03)
    assert clusters(true, true, document).interval(FEW) == (1.0, 1.0)
    interval = clusters(true, predicted, document).interval(FEW)
    assert interval.low < interval.high <= 1
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
    intervals = [ours.Summed(documents, ours.proportion).interval(FEW) for documents in drawn]
    assert 0.89 < np.mean([low <= truth <= high for low, high in intervals]) < 0.99


METRICS = {"MUC": "muc", "B-cubed": "b3", "CEAF-m": "ceafm", "CEAF-e": "ceafe", "LEA": "lea", "BLANC": "blanc"}


def test_lines_of_clusters_are_the_scores_of_all_and_nothing_is_told_from_zero():
    true, (predicted,), document = collection(20, np.random.default_rng(18))
    lines = ours.cluster_lines(true, predicted, document)
    assert [line.name for line in lines] == ["ARI", *METRICS, "CoNLL"]
    assert lines[0].score.value == ours.clustering_scores(true, predicted)["ari"]
    scores = ours.scores_from_counts(ours.coreference_counts(by_label(true.tolist()), by_label(predicted.tolist())))
    assert lines[-1].score.value == pytest.approx(scores["conll"], abs=1e-15)
    for line in lines[1:-1]:
        score = scores[METRICS[line.name]]
        assert (line.recall.value, line.precision.value) == pytest.approx((score["recall"], score["precision"]))
        assert line.score.value == pytest.approx(score["f1"], abs=1e-15)
    for line in lines:
        low, high = line.score.interval(FEW)
        assert low < line.score.value < high
    singletons = ours.coreference_lines(2 * [ours.coreference_counts([["a"], ["b"]], [["a"], ["b"]])])
    assert {line.name for line in singletons if not line.score.is_defined} == {"MUC"}
    apart = ours.coreference_lines(2 * [ours.coreference_counts([["a", "b"]], [["a"], ["b"]])])
    (muc, *_) = apart
    assert (muc.recall.value, muc.recall.is_defined) == (0.0, True)
    assert (muc.precision.value, muc.precision.is_defined) == (0.0, False)
    assert (muc.score.value, muc.score.is_defined) == (0.0, True)
    """As coval does: key {1, 2}, {3}; response {1}, {2, 3} become {1, 2} and {2, 3}."""
    lines = ours.cluster_lines([0, 0, 1], [0, 1, 1], ["a", "b", "b"], singletons=False)
    expected = ours.coreference_counts([[1, 2]], [[2, 3]])
    assert [line.name for line in lines] == [*METRICS, "CoNLL"]
    assert lines[-1].score.value == pytest.approx(ours.scores_from_counts(expected)["conll"])
    same = ours.cluster_lines([0, 0, 1, 2], [0, 0, 1, 2], ["a", "b", "c", "d"], singletons=False)
    assert same[-1].score.interval(FEW) is not None

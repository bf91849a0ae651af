"""Coreference metrics against the reference scorers; `differential.clusters` compares them with their definitions."""

import json
from itertools import combinations, permutations

import pytest
from hypothesis import given, strategies as st

from eval import coreference_counts, coreference_scores, scores_from_counts
from eval.coreference import METRICS


@st.composite
def sides(draw, max_mentions=12):
    """A key and a response over overlapping mentions."""
    side = st.dictionaries(st.integers(0, max_mentions), st.integers(0, 5), max_size=max_mentions)
    return tuple(clusters_of(draw(side)) for _ in ("key", "response"))


def clusters_of(owner):
    return [[m for m in owner if owner[m] == cluster] for cluster in sorted(set(owner.values()))]


def ratios(score):
    return [score["recall"], score["precision"], score["f1"]]


def test_golden_values(shared):
    for line in shared("golden/coref_metrics.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        scores = coreference_scores(case["key"], case["response"])
        assert scores["conll"] == pytest.approx(case["expected"].pop("conll"), abs=1e-9), case["name"]
        for metric, expected in case["expected"].items():
            where = f"{case['name']} {metric}"
            values = [expected["r"], expected["p"], expected["f1"]]
            assert ratios(scores[metric]) == pytest.approx(values, abs=1e-9), where
            for got, count in zip(scores[metric]["counts"], case["counts"][metric], strict=True):
                assert got == (count if isinstance(count, int) else pytest.approx(count, abs=1e-9)), where


def recall_by_definition(metric, key, response):
    """Numerator and denominator of a recall, as the sets say it."""
    key, response = [set(k) for k in key], [set(r) for r in response]
    size = sum(map(len, key))
    if metric == "muc":
        parts = [sum(bool(k & r) for r in response) + len(k - set().union(*response)) for k in key]
        return sum(len(k) - p for k, p in zip(key, parts, strict=True)), size - len(key)
    if metric == "b3":
        return sum(len(k & r) / len(k) for k in key for r in response for m in k & r), size
    if metric in ("ceafm", "ceafe"):
        padded = response + [set()] * len(key)

        def worth(k, r):
            return len(k & r) if metric == "ceafm" else 2 * len(k & r) / (len(k) + len(r))

        best = max(sum(map(worth, key, chosen)) for chosen in permutations(padded, len(key)))
        return best, size if metric == "ceafm" else len(key)
    assert metric == "lea"

    def resolved(k):
        if len(k) == 1:
            return float(k in response)
        links = [{*pair} for pair in combinations(k, 2)]
        return sum(link <= r for link in links for r in response) / len(links)

    return sum(len(k) * resolved(k) for k in key), size


@given(sides())
def test_blanc_by_brute_force(pair):
    def links(clusters):
        owner = {m: i for i, cluster in enumerate(clusters) for m in cluster}
        pairs = {frozenset(pair) for pair in combinations(owner, 2)}
        linked = {pair for pair in pairs if len({owner[m] for m in pair}) == 1}
        return linked, pairs - linked

    expected = [
        count for k, r in zip(*map(links, pair), strict=True) for count in (len(k & r), len(k), len(k & r), len(r))
    ]
    assert coreference_counts(*pair)["blanc"] == expected


@given(sides())
def test_identity_is_1_but_where_nothing_is_counted(pair):
    key, _ = pair
    scores = coreference_scores(key, key)
    n = sum(map(len, key))
    nothing = {
        "muc": n == len(key),  # no links
        "blanc": n < 2,
    }
    for name in METRICS:
        expected = 0.0 if nothing.get(name, n == 0) else 1.0
        assert ratios(scores[name]) == pytest.approx([expected] * 3), name


@given(st.lists(sides(), min_size=1, max_size=3))
def test_documents_add(documents):
    """Pooled counts are those of all clusters together, but for BLANC, whose links end with the document."""
    counts = sum(coreference_counts(*document) for document in documents)
    key, response = (
        [[(d, m) for m in cluster] for d, document in enumerate(documents) for cluster in document[side]]
        for side in (0, 1)
    )
    together = coreference_counts(key, response)
    for name in ("muc", "b3", "ceafm", "ceafe", "lea"):
        assert counts[name] == pytest.approx(together[name], abs=1e-12), name
    assert counts["blanc"][:4] == together["blanc"][:4]
    assert counts["blanc"][5] <= together["blanc"][5]
    assert scores_from_counts(counts)["muc"] == scores_from_counts(together)["muc"]

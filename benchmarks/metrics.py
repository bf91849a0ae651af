"""The metrics at a million mentions, beside scikit-learn.

**zipf**: the sizes of the key's clusters are drawn from Zipf's law (exponent 2.1, at most 10,000), and a
fifth of the mentions get the cluster of a random mention in the response. `suite` is everything after
labels are integers: the contingency and all six coreference metrics from it (MUC, B-cubed, CEAF-m and
CEAF-e exactly, LEA, BLANC); `clustering_scores` is the other family, AMI included. scikit-learn's ARI is
timed on the same labels in the same run. `dense_assignment` is CEAF-e by way of a matrix of all pairs of
clusters and `scipy.optimize.linear_sum_assignment`, at 10^4 mentions, and must agree; `pairs_of_sets` is
the same where the matrix is filled by intersecting the two sets of each pair, as the usual scorers in
Python do (once, not the best of three).

**even**: a hard case, clusters of five mentions, three fifths of the mentions shuffled: CEAF is left with ties
between tens of thousands of clusters. **uneven**: clusters of three to eight, so that the similarities of CEAF-e
are of many kinds.

**strings**: string labels of both sides to integers, and the contingency of clusters of string mention ids.

Best of three. `--quick` measures 10^5 mentions instead of 10^6, prints the figures and leaves the results
alone.
"""

import math
from collections.abc import Sequence

import numpy as np
from library.command import measure_or_try
from library.labels import Labels, zipf_labels
from library.results import Figures, say
from library.timing import best_of_three, seconds
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from eval import Contingency, clustering_scores, counts_from_contingency
from eval.arrays import encode_labels
from eval.coreference import METRICS, Metric


def shuffled_labels(n_mentions: int, sizes: Sequence[int], seed: int = 0) -> tuple[Labels, Labels]:
    """Draw key and response of the hard cases, with clusters of these sizes in turn."""
    rng = np.random.default_rng(seed)
    key = rng.permutation(np.repeat(np.arange(n_mentions), np.resize(sizes, n_mentions))[:n_mentions])
    response = key.copy()
    moved = np.flatnonzero(rng.random(n_mentions) < 0.6)
    response[moved] = key[rng.permutation(moved)]
    return key, response


def from_labels(prefix: str, key: Labels, response: Labels) -> Figures:
    """Time the contingency, each metric from it, and the other family beside scikit-learn."""
    figures: Figures = {}
    spent, table = best_of_three(Contingency.from_labels, key, response)
    figures[f"{prefix}.cells"] = len(table.count)
    figures[f"{prefix}.contingency.seconds"] = spent
    for name, count in METRICS.items():
        figures[f"{prefix}.{name}.seconds"] = best_of_three(count, table)[0]
        say(f"  {prefix}.{name} {figures[f'{prefix}.{name}.seconds']:.4f} s")
    suite, _ = best_of_three(lambda: counts_from_contingency(Contingency.from_labels(key, response)))
    ceaf = figures[f"{prefix}.ceafm.seconds"] + figures[f"{prefix}.ceafe.seconds"]
    cheap = sum(figures[f"{prefix}.{name}.seconds"] for name in METRICS) - ceaf
    figures[f"{prefix}.suite.seconds"] = suite
    figures[f"{prefix}.suite_without_ceaf.seconds"] = spent + cheap
    theirs, their_ari = best_of_three(adjusted_rand_score, key, response)
    ours, scores = best_of_three(clustering_scores, key, response)
    assert math.isclose(scores["ari"], their_ari, rel_tol=1e-9), (scores["ari"], their_ari)
    figures[f"{prefix}.clustering_scores.seconds"] = ours
    figures[f"{prefix}.scikit_learn_ari.seconds"] = theirs
    say(f"  {prefix}: suite {suite:.3f} s, clustering scores {ours:.3f} s, scikit-learn's ARI {theirs:.3f} s")
    return figures


def ceaf_alone(prefix: str, key: Labels, response: Labels) -> Figures:
    """Time the two metrics that need an alignment."""
    table = Contingency.from_labels(key, response)
    names: list[Metric] = ["ceafm", "ceafe"]
    figures = {f"{prefix}.{name}.seconds": best_of_three(METRICS[name], table)[0] for name in names}
    say(f"  {figures}")
    return figures


def ceaf_e_dense(table: Contingency) -> float:
    """Sum of the similarities of the best alignment, over a matrix of all pairs of clusters."""
    similarity = np.zeros((len(table.row_size), len(table.column_size)))
    sizes = table.row_size[table.row] + table.column_size[table.column]
    similarity[table.row, table.column] = 2 * table.count / sizes
    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def ceaf_e_pairs(key: Labels, response: Labels) -> float:
    """Sum of the similarities of the best alignment, each pair of clusters intersected."""
    rows, columns = ([set(cluster) for cluster in _clusters(side)] for side in (key, response))
    pairs = [[2 * len(row & column) / (len(row) + len(column)) for column in columns] for row in rows]
    similarity = np.array(pairs)
    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def beside_dense(prefix: str, key: Labels, response: Labels) -> Figures:
    """Time CEAF-e against a dense assignment."""
    table = Contingency.from_labels(key, response)
    ours, counts = best_of_three(METRICS["ceafe"], table)
    theirs, total = best_of_three(ceaf_e_dense, table)
    assert math.isclose(counts[0], total, rel_tol=1e-9), (counts[0], total)
    pairs, total = seconds(ceaf_e_pairs, key, response)
    assert math.isclose(counts[0], total, rel_tol=1e-9), (counts[0], total)
    say(f"  {prefix}: CEAF-e {ours:.4f} s, dense assignment {theirs:.3f} s, pairs of sets {pairs:.1f} s")
    return {
        f"{prefix}.ceafe.seconds": ours,
        f"{prefix}.dense_assignment.seconds": theirs,
        f"{prefix}.pairs_of_sets.seconds": pairs,
        f"{prefix}.ceafe.times_faster_than_dense": theirs / ours,
        f"{prefix}.ceafe.times_faster_than_pairs": pairs / ours,
    }


def from_strings(key: Labels, response: Labels) -> Figures:
    """Time what a caller with strings pays."""
    labels = [[f"C{label:07d}" for label in side.tolist()] for side in (key, response)]
    encoded, _ = best_of_three(lambda: [encode_labels(side) for side in labels])
    clusters = [_clusters(side) for side in (key, response)]
    counted, _ = best_of_three(Contingency.from_clusters, *clusters)
    say(f"  strings: labels {encoded:.3f} s, clusters of mention ids {counted:.3f} s")
    return {"strings.labels.seconds": encoded, "strings.mentions.seconds": counted}


def _clusters(side: Labels) -> list[list[str]]:
    clusters: dict[int, list[str]] = {}
    for mention, label in enumerate(side.tolist()):
        clusters.setdefault(label, []).append(f"document{mention // 100}:{mention % 100}")
    return list(clusters.values())


def measure(quick: bool) -> Figures:
    """Run everything."""
    n_mentions = 10**5 if quick else 10**6
    size = f"1e{round(math.log10(n_mentions))}"
    say("zipf")
    zipf = zipf_labels(n_mentions)
    figures = from_labels(f"zipf.{size}", *zipf)
    figures |= beside_dense("zipf.1e4", *zipf_labels(10**4))
    say("strings")
    figures |= from_strings(*zipf)
    say("even")
    figures |= from_labels(f"even.{size}", *shuffled_labels(n_mentions, [5]))
    say("uneven")
    return figures | ceaf_alone(f"uneven.{size}", *shuffled_labels(n_mentions, range(3, 9)))


if __name__ == "__main__":
    measure_or_try("metrics", __doc__, "10^5 mentions", measure)

"""All cuts of a merge tree of a million leaves, beside scikit-learn's ARI at a hundred of them.

The leaves and their classes are those of the case zipf of `metrics`: classes drawn from Zipf's law (exponent 2.1, at
most 10,000), a fifth of the leaves in the cluster of a random leaf. The tree joins the leaves of a cluster at heights
uniform in 0..1, and the clusters at heights uniform in 0.5..1.5, all distinct. `all_cuts` is ARI, pairwise, B-cubed and
MUC at every height, and dendrogram purity.
`scikit_learn_ari_100` is `sklearn.metrics.adjusted_rand_score` on the labels of a cut, the mean of three cuts, times a
hundred; cutting the tree is not counted. At these cuts both must agree.

**equal**: the same tree with its heights rounded to 1,000 different ones.

Best of three. `--quick` measures 10^5 leaves instead of 10^6, prints the figures and leaves the results alone.
"""

import math
from dataclasses import replace

import numpy as np
from library.command import measure_or_try
from library.labels import Labels, zipf_labels
from library.results import Figures, say
from library.timing import best_of_three, seconds
from sklearn.metrics import adjusted_rand_score

from clustering import Graph, MergeTree, merge_tree
from eval import all_cuts


def tree_of(clusters: Labels, seed: int = 0) -> MergeTree:
    """Join the leaves of each cluster, and the clusters with each other."""
    rng = np.random.default_rng(seed)
    order = np.argsort(clusters, kind="stable")
    is_inside = clusters[order][1:] == clusters[order][:-1]
    source, target = order[:-1][is_inside], order[1:][is_inside]
    first = rng.permutation(order[np.append(True, ~is_inside)])
    earlier = first[(rng.random(len(first) - 1) * np.arange(1, len(first))).astype(np.int64)]
    height = np.concatenate([rng.random(len(source)), 0.5 + rng.random(len(earlier))])
    ends = np.concatenate([source, first[1:]]), np.concatenate([target, earlier])
    return merge_tree(Graph.from_edges(*ends, height, n_entities=0, n_nodes=len(clusters)))


def measure(quick: bool) -> Figures:
    """Run everything."""
    n_leaves = 10**5 if quick else 10**6
    size = f"1e{round(math.log10(n_leaves))}"
    key, clusters = zipf_labels(n_leaves)
    tree = tree_of(clusters)
    figures = beside_scikit_learn(f"zipf.{size}", key, tree)
    coarse = replace(tree, height=np.ceil(tree.height * 1000 / 1.5))
    return figures | beside_scikit_learn(f"equal.{size}", key, coarse)


def beside_scikit_learn(prefix: str, key: Labels, tree: MergeTree) -> Figures:
    """Time all cuts, and scikit-learn at three of them."""
    arrays = tree.left, tree.right, tree.height
    ours, cuts = best_of_three(all_cuts, key, *arrays)
    theirs = 0.0
    for place in (len(cuts.threshold) // 4, len(cuts.threshold) // 2, 3 * len(cuts.threshold) // 4):
        labels = tree.cut(float(cuts.threshold[place]))
        spent, ari = seconds(adjusted_rand_score, key, labels)
        theirs += spent / 3
        assert math.isclose(cuts.ari[place], ari, abs_tol=1e-12), (cuts.ari[place], ari)
    say(f"  {prefix}: all cuts {ours:.3f} s, one ARI of scikit-learn {theirs:.3f} s")
    return {
        f"{prefix}.cuts": len(cuts.threshold),
        f"{prefix}.all_cuts.seconds": ours,
        f"{prefix}.scikit_learn_ari_100.seconds": 100 * theirs,
        f"{prefix}.times_faster_than_100_aris": 100 * theirs / ours,
    }


if __name__ == "__main__":
    measure_or_try("cuts", __doc__, "10^5 leaves", measure)

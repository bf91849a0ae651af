"""A run that grows, beside one that is made again: seconds, equality, and the names of clusters that stay.

**Search**: 1,000 mentions are added to 99,000 others, all with distinct names (those of `neighbours.py`, *words*),
encoded by the default encoder; the 8 nearest others of each without a limit. `refit.search.seconds` searches all
again, `grown.search.seconds` updates the lists (`clustering.growth.updated`); the script stops where the two differ.
`forest.seconds` is the clustering of all mentions at the default threshold, which follows either. `bytes_per_mention`
is the size of the kept lists. Seconds of the clock, on all cores.

**Stability**: the documents of a test part, in random order, come in 20 steps of 5 %: `changed.mean` and `changed.max`
are the shares of the earlier mentions whose cluster has another id after a step, for whatever reason; `least.mean` is
the smallest mean share that any names could have, where names stay with their clusters as CEAF-m matches them. The
script stops where the last run differs from its refit, or with a knowledge base from one run on all documents.

`--quick` measures 10,000 names and one corpus, prints the figures and leaves the results alone.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from library.command import measure_or_try
from library.corpora import JOBS
from library.results import Figures, say
from neighbours import encoded, names_of

import arbo
from clustering import Graph, partition
from clustering.growth import updated
from clustering.knn import nearest
from eval import coreference_scores_from_labels

K, ADDED, STEPS = 8, 1000, 20
Made = TypeVar("Made")


def timed(make: Callable[[], Made]) -> tuple[float, Made]:
    """Return the seconds of a call, and its result."""
    begin = time.perf_counter()
    made = make()
    return time.perf_counter() - begin, made


def search(n: int) -> Figures:
    """Add mentions to others, and search all again."""
    names = names_of("words", n)
    rng = np.random.default_rng(0)
    rng.shuffle(names)
    things = encoded(names)[0]
    is_new = np.zeros(n, np.bool_)
    is_new[rng.permutation(n)[:ADDED]] = True
    row = np.where(is_new, -1, np.cumsum(~is_new) - 1)

    few = things.taken(np.arange(3000))
    updated(nearest(few, few, K, self_ids=np.arange(few.n)), few, np.arange(few.n))  # compiles kernels
    old = things.taken(np.flatnonzero(~is_new))
    lists = nearest(old, old, K, self_ids=np.arange(old.n))
    grown, found = min((timed(lambda: updated(lists, things, row)) for _ in range(2)), key=lambda one: one[0])
    refit, expected = timed(lambda: nearest(things, things, K, self_ids=np.arange(n)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    graph, limit = Graph.from_neighbors(found), arbo.NgramEncoder().threshold[1]
    partition(graph, threshold=limit)
    forest, _ = timed(lambda: partition(graph, threshold=limit))
    say(f"{n:,} names: refit {refit:.1f} s, grown {grown:.1f} s, forest {forest:.2f} s")
    return {
        "names": n,
        "added": ADDED,
        "refit.search.seconds": refit,
        "grown.search.seconds": grown,
        "search.times_faster": refit / grown,
        "forest.seconds": forest,
        "bytes_per_mention": (found.ids.nbytes + found.dissimilarity.nbytes) / n,
    }


def stability(name: str, *, linked: bool) -> Figures:
    """Let the test part of a corpus come in steps."""
    job = JOBS[name]
    documents = job.documents(job.test)
    linker = arbo.Linker(job.knowledge_base() if linked else None)
    verb = linker.link if linked else linker.discover
    order = np.random.default_rng(0).permutation(len(documents)).tolist()
    parts = [[documents[int(i)] for i in part] for part in np.array_split(order, STEPS)]
    result, shares, least = verb(parts[0]), [], []
    for part in parts[1:]:
        grown = linker.add(result, part)
        before, after = (one.link_table["cluster_id"].to_pylist() for one in (result, grown))
        changed = sum(was != now for was, now in zip(before, after, strict=False))  # earlier mentions come first
        shares.append(changed / len(before))
        least.append(1 - coreference_scores_from_labels(before, after[: len(before)])["ceafm"]["recall"])
        result = grown
    assert linker.refit(result).link_table == result.link_table, "growing differs from a refit"
    if linked:
        assert verb([documents[i] for i in order]).link_table == result.link_table, "growing differs from one run"
    key = f"{name.replace(' ', '_').lower()}.{'link' if linked else 'discover'}"
    say(f"{key}: {np.mean(shares):.4f} of the mentions change their cluster's id in a step, at most {max(shares):.4f}")
    say(f"{key}: with the best names, {np.mean(least):.4f}")
    changed_shares = {f"{key}.changed.mean": float(np.mean(shares)), f"{key}.changed.max": max(shares)}
    return changed_shares | {f"{key}.least.mean": float(np.mean(least))}


def measure(quick: bool) -> Figures:
    """Measure both."""
    figures = search(10_000 if quick else 100_000)
    for name in ("NCBI disease",) if quick else ("NCBI disease", "BC5CDR disease"):
        for linked in (True, False):
            figures |= stability(name, linked=linked)
    return figures


if __name__ == "__main__":
    measure_or_try("growth", __doc__, "10,000 names and one corpus only", measure)

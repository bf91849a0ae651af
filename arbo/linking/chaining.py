"""Find giants, which are discovered clusters that are too large.

NIL mentions are clustered by single linkage, which is prone to chaining: one wrong edge joins two clusters of any size.
A giant shows that the mention threshold is too high for the encoder. The cluster of a frequent entity is large too, but
has few names. In CRAFT, whose types have 4,213 to 14,036 mentions, "mice" makes up 46 % of the mentions of its type,
and "gene" and "genes" 26 % of theirs; no correct cluster has more than five effective names (see
`arbo.results.result.Giant`).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from arbo.data.codes import codes_of
from arbo.engine import Ids, MergeTree, Partition
from arbo.linking.tables import MentionNames

_SHARE = 0.05
_MENTIONS = 20
_NAMES = 10


def describe_giants(
    names: MentionNames, clusters: Partition, cluster_ids: tuple[pa.Array, Ids]
) -> list[dict[str, Any]]:
    """Return the giants of a partition, ready for JSON, the largest first; for ``cluster_ids`` see `links_of`."""
    label, n = clusters.labels[clusters.n_entities :], len(clusters.entity)
    size, (ids, place) = np.bincount(label), cluster_ids
    large = np.flatnonzero((clusters.entity < 0) & (size > _fewest(n))[label])
    name = codes_of(name.casefold() for name in names.names_of(large).to_pylist())
    giants = _giants(label[large], name, n)
    if not giants:
        return []
    tree = clusters.tree()
    cluster = label[tree.source]
    inside = (cluster == label[tree.target]) & np.isfinite(tree.height)  # without what people joined
    described = []
    for members in giants:
        rows = large[members]
        merges = np.flatnonzero(inside & (cluster == label[rows[0]]))
        if not len(merges):  # people decided on the whole cluster
            continue
        described.append(
            {
                "cluster": ids[int(place[rows[0]])].as_py(),
                "mentions": len(rows),
                "share": len(rows) / n,
                "names": len(np.unique(name[members])),
                "splits_below": _splits_below(tree, merges, rows, name[members], n),
            }
        )
    return described


def _fewest(n_mentions: int) -> float:
    """Return the number of mentions that a giant exceeds."""
    return max(_MENTIONS, _SHARE * n_mentions)


def _giants(label: npt.NDArray[Any], name: npt.NDArray[np.int64], n_mentions: int) -> list[npt.NDArray[np.int64]]:
    """Return the indices of the mentions of each giant; the largest giant comes first."""
    large, count = np.unique(label, return_counts=True)
    order = np.lexsort((large, -count))
    order = order[count[order] > _fewest(n_mentions)]
    rows_of = [np.flatnonzero(label == at) for at in large[order]]
    return [rows for rows in rows_of if len(rows) ** 2 >= _NAMES * (np.bincount(name[rows]) ** 2).sum()]


def _splits_below(
    tree: MergeTree,
    merges: npt.NDArray[np.int64],
    leaves: npt.NDArray[np.int64],
    name: npt.NDArray[np.int64],
    n_mentions: int,
) -> float:
    """Find a height of the cluster's tree that makes a giant, while the next lower height does not."""
    height = np.unique(tree.height[merges])
    none, some = -1, len(height) - 1
    while some - none > 1:
        middle = (none + some) // 2
        if _giants(tree.cut(float(height[middle]))[leaves], name, n_mentions):
            some = middle
        else:
            none = middle
    return float(height[some])

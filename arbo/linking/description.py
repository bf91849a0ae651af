"""The result of a partition: the tables and the manifest of a run, with its giants.

Giants are discovered clusters that are too large. NIL mentions are clustered by single linkage, which is prone to
chaining: one wrong edge joins two clusters of any size. A giant shows that the mention threshold is too high for the
encoder. The cluster of a frequent entity is large too, but has few names. In CRAFT, whose types have 4,213 to 14,036
mentions, "mice" makes up 46 % of the mentions of its type, and "gene" and "genes" 26 % of theirs; no correct cluster
has more than five effective names: 1 divided by the chance that two random mentions of it have the same name.
"""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.corrections.constraints import Constraints
from arbo.corrections.lines import correction_table
from arbo.data.arrow import codes_of, numbers
from arbo.data.corpus import Inputs
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Ids, MergeTree, Partition
from arbo.linking.config import LinkerConfig
from arbo.linking.tables import RunEntities, cluster_table, links_of, named_entities, with_gold_entities
from arbo.results.result import Result
from arbo.retrieval.groups import unmapped
from arbo.retrieval.retrieval import Retrieval

_SHARE, _MENTIONS, _NAMES = 0.05, 20, 10
"""A giant has more than this share of all mentions, more mentions than this, and at least so many effective names."""


def describe(
    kb: KnowledgeBase | None,
    retrieval: Retrieval,
    clusters: Partition,
    config: LinkerConfig,
    corrections: Constraints | None = None,
) -> Result:
    """Make the result of a partition of the mentions of ``retrieval``, which obeys ``corrections``.

    The rows of the result's tables, and which mention of a discovered entity is the first, follow the order of the
    documents.
    """
    documents = retrieval.inputs.corpus
    mentions = documents.tables.mentions
    fingerprint = ThreadPoolExecutor(1).submit(lambda: documents.fingerprint)  # meanwhile, the tables are made
    gold, annotated = _gold(mentions, kb)
    rows = named_entities(retrieval, clusters)
    known = RunEntities.of(kb, corrections.several if corrections else (), gold.rows, rows)
    mentions = with_gold_entities(mentions, gold, annotated, known)
    named = {} if corrections is None else corrections.named(clusters)
    cluster_rows, place = cluster_table(kb, known, retrieval.inputs, clusters, named)
    cluster_ids = cluster_rows["cluster_id"].chunk(0), place
    giants = describe_giants(retrieval.inputs, clusters, cluster_ids)
    doubts = _ties(retrieval, clusters), gold.doubt(), unmapped(retrieval.inputs, config.map_types)
    counts: dict[str, Any] = {}
    followed = None
    if corrections is not None:
        followed = corrections.corrected, corrections.follows(clusters)
        counts = {"corrections": corrections.counts(followed[1])}
    links = links_of(known, retrieval, clusters, cluster_ids, config.confidence, followed)
    threshold = dict(zip(("entity", "mention"), config.limits(retrieval.threshold), strict=True))
    if config.nil_linkage == "average":
        threshold["nil"] = config.nil_limit(retrieval.threshold)
    manifest = {
        "config": config.as_dict(),
        "offset": retrieval.offset,  # similarity = offset - dissimilarity
        "threshold": threshold,
        "encoder": retrieval.settings,
        "search": {"within": retrieval.within},
        "documents": {"documents": len(documents), "mentions": len(mentions), "fingerprint": fingerprint.result()},
        "index": documents.index_names,
        "graph": documents.graph,
        "knowledge_base": None if kb is None else {"entities": len(kb), "fingerprint": kb.fingerprint},
        "kb_source": None if kb is None else kb.source,
        "giants": giants,
        "notes": {
            "documents": documents.notes,
            "knowledge_base": {} if kb is None else kb.notes,
            "gold": dict(gold.changes) if kb is None else _gold_notes(gold),
        },
        **counts,
        "warnings": [doubt for doubt in doubts if doubt],
    }
    entities = pa.table({"entity_id" if name == "id" else name: known.column(name, rows) for name in known.columns})
    every = None if corrections is None else correction_table(corrections.lines)
    return Result(mentions, links, cluster_rows, manifest, documents.tables.documents, entities, every)


def _gold(mentions: pa.Table, kb: KnowledgeBase | None) -> tuple[Gold, Ids]:
    """Return the annotations of the mentions with gold ids or a gold cluster, and the rows of these mentions."""
    columns = [name for name in ("gold", "cluster") if name in mentions.column_names]
    has_gold = reduce(pc.or_, (mentions[name].is_valid() for name in columns))
    annotated: Any = np.from_dlpack(pc.indices_nonzero(has_gold.combine_chunks()))  # pyarrow 15 crashes without chunks
    some = mentions.select([*columns, "domain"]).take(numbers(annotated))
    return Gold.of(some, kb), annotated


def _gold_notes(gold: Gold) -> dict[str, int]:
    outside = int((gold.has_id & ~gold.in_kb).sum())
    missing = {"mentions whose gold ids are not in the knowledge base: they count as NIL": outside} if outside else {}
    return {**missing, **gold.changes}


def _ties(retrieval: Retrieval, clusters: Partition) -> str | None:
    """Describe ties between the nearest entities, if most links have one."""
    is_linked = clusters.entity >= 0
    if retrieval.by_spelling is not None:
        is_linked &= ~retrieval.by_spelling
    near = retrieval.entities.dissimilarity[is_linked, :2]
    n, tied = len(near), int((np.isfinite(near) & (near == near[:, :1])).all(axis=1).sum()) * (near.shape[1] > 1)
    if tied <= n / 2:
        return None
    return (
        f"{tied:,} of {n:,} links have the margin 0: several entities are equally near, and ties go to "
        "the first in the knowledge base; `arbo kb check` lists the names that entities share"
    )


def describe_giants(mentions: Inputs, clusters: Partition, cluster_ids: tuple[pa.Array, Ids]) -> list[dict[str, Any]]:
    """Return the giants of a partition, ready for JSON, the largest first; for ``cluster_ids`` see `links_of`.

    A mention threshold just below ``splits_below`` (under average linkage, a NIL threshold) leaves no part a giant.
    """
    label, n = clusters.labels[clusters.n_entities :], len(clusters.entity)
    size, (ids, place) = np.bincount(label), cluster_ids
    large = np.flatnonzero((clusters.entity < 0) & (size > _fewest(n))[label])
    name = codes_of(name.casefold() for name in mentions.names_at(large).to_pylist())
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
    height = np.unique(tree.height[merges])[::-1]  # the first makes a giant
    n = bisect_left(height, True, 1, key=lambda at: not _giants(tree.cut(float(at))[leaves], name, n_mentions))
    return float(height[n - 1])

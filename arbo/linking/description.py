"""The result of a partition: the tables and the manifest of a run, with its giants.

Giants are discovered clusters that are too large. NIL mentions are clustered by single linkage, which is prone to
chaining: one wrong edge joins two clusters of any size. A giant shows that the mention threshold is too high for the
encoder. The cluster of a frequent entity is large too, but has few names. In CRAFT, whose types have 4,213 to 14,036
mentions, "mice" makes up 46 % of the mentions of its type, and "gene" and "genes" 26 % of theirs; no correct cluster
has more than five effective names: 1 divided by the chance that two random mentions of it have the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.corrections.constraints import Constraints
from arbo.corrections.lines import correction_table
from arbo.data.arrow import numbers
from arbo.data.corpus import Inputs
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Ids, Partition
from arbo.linking.confidence import AnyConfidence
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
    confidence: Mapping[str, AnyConfidence] | None = None,
) -> Result:
    """Make the result of a partition of the mentions of ``retrieval``, which obeys ``corrections``.

    ``confidence`` is that of the decisions on all mentions, at "", and on those of some types.

    The rows of the result's tables, and which mention of a discovered entity is the first, follow the order of the
    documents.
    """
    documents = retrieval.inputs.corpus
    mentions = documents.tables.mentions
    fingerprint = ThreadPoolExecutor(1).submit(lambda: documents.fingerprint)  # meanwhile, the tables are made
    gold, annotated = _gold(mentions, kb)
    n_outside = 0 if kb is None else int((gold.has_id & ~gold.in_kb).sum())
    note = "mentions whose gold ids are not in the knowledge base: they count as NIL"
    outside = {note: n_outside} if n_outside else {}
    rows = named_entities(retrieval, clusters)
    known = RunEntities.of(kb, corrections.several if corrections else (), gold.rows, rows)
    mentions = with_gold_entities(mentions, gold, annotated, known)
    named = {} if corrections is None else corrections.named(clusters)
    cluster_rows, place = cluster_table(kb, known, retrieval.inputs, clusters, named)
    doubts = _ties(retrieval, clusters), gold.doubt(), unmapped(retrieval.inputs, config.map_types)
    counts: dict[str, Any] = {}
    followed = None
    if corrections is not None:
        followed = corrections.corrected, corrections.follows(clusters)
        counts = {"corrections": corrections.counts(followed[1])}
    cluster_ids = cluster_rows["cluster_id"].chunk(0), place
    links = links_of(known, retrieval, clusters, cluster_ids, confidence or {}, followed)
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
        "giants": describe_giants(retrieval.inputs, cluster_rows, place),
        "notes": {
            "documents": documents.notes,
            "knowledge_base": {} if kb is None else kb.notes,
            "gold": {**outside, **gold.changes},
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


def describe_giants(mentions: Inputs, clusters: pa.Table, home: Ids) -> list[dict[str, Any]]:
    """Return the giants of the table of clusters, ready for JSON, the largest first; ``home`` has each mention's row.

    A mention threshold below ``splits_below`` (under average linkage, a NIL threshold) splits the giant.
    """
    is_large = clusters["size"].to_numpy() > max(_MENTIONS, _SHARE * len(home))
    giants = []
    for row in np.flatnonzero(is_large & pc.is_null(clusters["entity_id"]).to_numpy()).tolist():
        names = mentions.names_at(np.flatnonzero(home == row)).to_pylist()
        n, count = len(names), np.array([*Counter(map(str.casefold, names)).values()])
        cluster, weakest = (clusters[name][row].as_py() for name in ("cluster_id", "weakest_join"))
        if n**2 >= _NAMES * (count**2).sum() and weakest is not None:  # or people decided on the whole cluster
            size = {"mentions": n, "share": n / len(home), "names": len(count)}
            giants.append({"cluster": cluster, **size, "splits_below": weakest})
    return giants

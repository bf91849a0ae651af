"""The result of a partition: the tables and the manifest of a run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Partition
from arbo.linking.chaining import describe_giants
from arbo.linking.config import LinkerConfig
from arbo.linking.tables import NamedEntities, cluster_table, document_table, entity_table, link_table, mention_table
from arbo.results.result import Result
from arbo.retrieval.retrieval import Retrieval


def describe(
    corpus: Corpus, kb: KnowledgeBase | None, retrieval: Retrieval, clusters: Partition, config: LinkerConfig
) -> Result:
    """Make the result of a partition, whose mentions are those of the retrieval, in its order.

    The rows of its tables, and which mention of a discovered entity is the first, follow the order of ``corpus``.
    """
    gold = Gold.of(corpus, kb)
    ordered = pa.array([one.mention.id for one in retrieval.inputs], pa.string())
    place = pc.index_in(pa.array([mention.id for mention in corpus.mentions], pa.string()), ordered).to_numpy()
    known = NamedEntities.of(kb, gold.rows, clusters.entity, retrieval.entities.ids)
    mentions = mention_table(corpus, [retrieval.inputs[row] for row in place.tolist()], gold, known)
    names = [mention.name for mention in retrieval.inputs]
    cluster_rows, cluster_ids = cluster_table(kb, known, ordered.to_pylist(), names, clusters, np.argsort(place))
    links = link_table(ordered, known, retrieval, clusters, cluster_ids, config.confidence)
    threshold = dict(zip(("entity", "mention"), config.limits(retrieval.threshold), strict=True))
    if config.nil_linkage == "average":
        threshold["nil"] = config.nil_limit(retrieval.threshold)
    manifest = {
        "config": config.as_dict(),
        "offset": retrieval.offset,  # similarity = offset - dissimilarity
        "threshold": threshold,
        "encoder": retrieval.settings,
        "search": {"method": retrieval.search, "recall": dict(retrieval.recall)},
        "documents": {"documents": len(corpus), "mentions": len(corpus.mentions), "fingerprint": corpus.fingerprint},
        "index": corpus.index_names,
        "knowledge_base": None if kb is None else {"entities": len(kb), "fingerprint": kb.fingerprint},
        "giants": describe_giants(names, clusters, ordered, cluster_ids),
        "notes": {
            "documents": corpus.notes,
            "knowledge_base": {} if kb is None else kb.notes,
            "gold": {} if kb is None else _gold_notes(gold),
        },
        "warnings": [warning for warning in (_ties(links), gold.doubt()) if warning],
    }
    entities = entity_table(known, retrieval, clusters)
    return Result(mentions, links.take(place), cluster_rows, manifest, document_table(corpus), entities)


def _gold_notes(gold: Gold) -> dict[str, int]:
    outside = int((gold.has_id & ~gold.in_kb).sum())
    return {"mentions whose gold ids are not in the knowledge base: they count as NIL": outside} if outside else {}


def _ties(links: pa.Table) -> str | None:
    """Describe ties between the nearest entities, if most links have one."""
    linked = links.filter(pc.is_valid(links["entity_id"]))
    tied = pc.sum(pc.equal(linked["margin"], 0.0)).as_py() or 0
    if tied <= linked.num_rows / 2:
        return None
    return (
        f"{tied:,} of {linked.num_rows:,} links have the margin 0: several entities are equally near, and ties go to "
        "the first in the knowledge base; `arbo kb validate` lists the names that entities share"
    )

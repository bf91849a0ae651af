"""arbo links the mentions of documents to a knowledge base and discovers the entities that it lacks.

>>> import arbo
>>> documents, kb = arbo.load_sample()
>>> result = arbo.Linker(kb).link(documents)
>>> result.links[0].mention.text, result.links[0].entity_name
('RV Petrel', 'RV Petrel')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus as Corpus
    from arbo.data.documents import Document as Document, Mention as Mention
    from arbo.data.entities import Entity as Entity
    from arbo.data.knowledge_base import KnowledgeBase as KnowledgeBase
    from arbo.edges.model import EdgeModel as EdgeModel
    from arbo.encoders.cross import CrossEncoder as CrossEncoder
    from arbo.encoders.cross_config import CrossEncoderConfig as CrossEncoderConfig
    from arbo.encoders.dual import DualEncoder as DualEncoder
    from arbo.encoders.encoder_config import EncoderConfig as EncoderConfig
    from arbo.encoders.ngrams import NgramEncoder as NgramEncoder
    from arbo.encoders.vectors import VectorEncoder as VectorEncoder
    from arbo.errors import (
        ArboError as ArboError,
        DataError as DataError,
        MissingDependency as MissingDependency,
        UsageError as UsageError,
    )
    from arbo.kb.withholding import nil_split as nil_split
    from arbo.linker import Linker as Linker
    from arbo.linking.config import LinkerConfig as LinkerConfig
    from arbo.readers import read_documents as read_documents, read_knowledge_base as read_knowledge_base
    from arbo.readers.jsonl import read_jsonl as read_jsonl
    from arbo.readers.pubtator import read_pubtator as read_pubtator
    from arbo.results.diff import diff as diff
    from arbo.results.evaluation import compare as compare
    from arbo.results.result import Result as Result
    from arbo.results.run import Cluster as Cluster, Link as Link
    from arbo.retrieval.candidates import Candidates as Candidates
    from arbo.sample import load_sample as load_sample
    from arbo.spans.config import LabelAttentionConfig as LabelAttentionConfig
    from arbo.spans.finding import DictionaryFinder as DictionaryFinder, find_mentions as find_mentions
    from arbo.spans.model import LabelAttention as LabelAttention
    from arbo.training.config import (
        LabelAttentionTraining as LabelAttentionTraining,
        LinkingHeadConfig as LinkingHeadConfig,
        RerankingConfig as RerankingConfig,
        SelfAlignmentConfig as SelfAlignmentConfig,
        TrainingConfig as TrainingConfig,
    )
    from arbo.training.cross import train_reranker as train_reranker
    from arbo.training.dual.trainer import train as train
    from arbo.training.edges import train_edges as train_edges
    from arbo.training.options import RunOptions as RunOptions
    from arbo.training.oslat.label_attention import train_label_attention as train_label_attention
    from arbo.training.oslat.linking_head import train_linking_head as train_linking_head
    from arbo.training.oslat.self_alignment import train_self_alignment as train_self_alignment
    from arbo.training.oslat.stages import train_oslat as train_oslat

# The module of each name; it is imported when the name is first used, so that `import arbo` is fast.
_HOME = {
    "ArboError": "errors",
    "Candidates": "retrieval.candidates",
    "Cluster": "results.run",
    "Corpus": "data.corpus",
    "CrossEncoder": "encoders.cross",
    "CrossEncoderConfig": "encoders.cross_config",
    "DataError": "errors",
    "DictionaryFinder": "spans.finding",
    "Document": "data.documents",
    "DualEncoder": "encoders.dual",
    "EncoderConfig": "encoders.encoder_config",
    "EdgeModel": "edges.model",
    "Entity": "data.entities",
    "KnowledgeBase": "data.knowledge_base",
    "LabelAttention": "spans.model",
    "LabelAttentionConfig": "spans.config",
    "LabelAttentionTraining": "training.config",
    "Link": "results.run",
    "Linker": "linker",
    "LinkerConfig": "linking.config",
    "LinkingHeadConfig": "training.config",
    "Mention": "data.documents",
    "MissingDependency": "errors",
    "NgramEncoder": "encoders.ngrams",
    "RerankingConfig": "training.config",
    "Result": "results.result",
    "RunOptions": "training.options",
    "SelfAlignmentConfig": "training.config",
    "TrainingConfig": "training.config",
    "UsageError": "errors",
    "VectorEncoder": "encoders.vectors",
    "compare": "results.evaluation",
    "diff": "results.diff",
    "find_mentions": "spans.finding",
    "load_sample": "sample",
    "nil_split": "kb.withholding",
    "read_documents": "readers",
    "read_knowledge_base": "readers",
    "read_jsonl": "readers.jsonl",
    "read_pubtator": "readers.pubtator",
    "train": "training.dual.trainer",
    "train_label_attention": "training.oslat.label_attention",
    "train_linking_head": "training.oslat.linking_head",
    "train_oslat": "training.oslat.stages",
    "train_edges": "training.edges",
    "train_reranker": "training.cross",
    "train_self_alignment": "training.oslat.self_alignment",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'arbo' has no attribute {name!r}")
    return getattr(import_module(f"arbo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

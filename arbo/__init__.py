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
    from arbo.candidates import Candidates
    from arbo.config import LinkerConfig
    from arbo.documents import Corpus, Document, Mention
    from arbo.encoders import (
        CrossEncoder,
        CrossEncoderConfig,
        DualEncoder,
        EncoderConfig,
        LabelAttentionConfig,
        NgramEncoder,
        VectorEncoder,
    )
    from arbo.errors import ArboError, DataError, MissingDependency, UsageError
    from arbo.evaluation import compare
    from arbo.knowledge_base import Entity, KnowledgeBase
    from arbo.linker import Linker
    from arbo.readers import read_documents
    from arbo.readers.jsonl import read_jsonl
    from arbo.readers.pubtator import read_pubtator
    from arbo.result import Cluster, Link, Result
    from arbo.sample import load_sample
    from arbo.spans.finding import DictionaryFinder, find_mentions
    from arbo.spans.model import LabelAttention
    from arbo.training.config import (
        LabelAttentionTraining,
        LinkingHeadConfig,
        RerankingConfig,
        SelfAlignmentConfig,
        TrainingConfig,
    )
    from arbo.training.cross import train_reranker
    from arbo.training.dual.trainer import train
    from arbo.training.options import RunOptions
    from arbo.training.oslat.label_attention import train_label_attention
    from arbo.training.oslat.linking_head import train_linking_head
    from arbo.training.oslat.self_alignment import train_self_alignment
    from arbo.training.oslat.stages import train_oslat
    from arbo.withholding import nil_split

# What lives where; each module is imported when its name is first asked for, so that `import arbo` is fast.
_HOME = {
    "ArboError": "errors",
    "Candidates": "candidates",
    "Cluster": "result",
    "Corpus": "documents",
    "CrossEncoder": "encoders",
    "CrossEncoderConfig": "encoders",
    "DataError": "errors",
    "DictionaryFinder": "spans.finding",
    "Document": "documents",
    "DualEncoder": "encoders",
    "EncoderConfig": "encoders",
    "Entity": "knowledge_base",
    "KnowledgeBase": "knowledge_base",
    "LabelAttention": "spans.model",
    "LabelAttentionConfig": "encoders",
    "LabelAttentionTraining": "training.config",
    "Link": "result",
    "Linker": "linker",
    "LinkerConfig": "config",
    "LinkingHeadConfig": "training.config",
    "Mention": "documents",
    "MissingDependency": "errors",
    "NgramEncoder": "encoders",
    "RerankingConfig": "training.config",
    "Result": "result",
    "RunOptions": "training.options",
    "SelfAlignmentConfig": "training.config",
    "TrainingConfig": "training.config",
    "UsageError": "errors",
    "VectorEncoder": "encoders",
    "compare": "evaluation",
    "find_mentions": "spans.finding",
    "load_sample": "sample",
    "nil_split": "withholding",
    "read_documents": "readers",
    "read_jsonl": "readers.jsonl",
    "read_pubtator": "readers.pubtator",
    "train": "training.dual.trainer",
    "train_label_attention": "training.oslat.label_attention",
    "train_linking_head": "training.oslat.linking_head",
    "train_oslat": "training.oslat.stages",
    "train_reranker": "training.cross",
    "train_self_alignment": "training.oslat.self_alignment",
}

__all__ = [
    "ArboError",
    "Candidates",
    "Cluster",
    "Corpus",
    "CrossEncoder",
    "CrossEncoderConfig",
    "DataError",
    "DictionaryFinder",
    "Document",
    "DualEncoder",
    "EncoderConfig",
    "Entity",
    "KnowledgeBase",
    "LabelAttention",
    "LabelAttentionConfig",
    "LabelAttentionTraining",
    "Link",
    "Linker",
    "LinkerConfig",
    "LinkingHeadConfig",
    "Mention",
    "MissingDependency",
    "NgramEncoder",
    "RerankingConfig",
    "Result",
    "RunOptions",
    "SelfAlignmentConfig",
    "TrainingConfig",
    "UsageError",
    "VectorEncoder",
    "compare",
    "find_mentions",
    "load_sample",
    "nil_split",
    "read_documents",
    "read_jsonl",
    "read_pubtator",
    "train",
    "train_label_attention",
    "train_linking_head",
    "train_oslat",
    "train_reranker",
    "train_self_alignment",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'arbo' has no attribute {name!r}")
    return getattr(import_module(f"arbo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

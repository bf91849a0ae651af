"""arbo links the mentions of documents to a knowledge base, and discovers entities missing from the knowledge base.

>>> import arbo
>>> documents, kb = arbo.load_sample()
>>> result = arbo.Linker(kb).link(documents)
>>> result.links[0].mention.text, result.links[0].entity_name
('RV Petrel', 'RV Petrel')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arbo import errors, progress as progress
from arbo.declared import declared

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus as Corpus
    from arbo.data.documents import Document as Document, Entity as Entity, Mention as Mention
    from arbo.data.knowledge_base import KnowledgeBase as KnowledgeBase
    from arbo.edges.model import EdgeModel as EdgeModel
    from arbo.encoders.by_name import VectorEncoder as VectorEncoder
    from arbo.encoders.cross import CrossEncoder as CrossEncoder, CrossEncoderConfig as CrossEncoderConfig
    from arbo.encoders.dual import DualEncoder as DualEncoder
    from arbo.encoders.encoder_config import EncoderConfig as EncoderConfig
    from arbo.encoders.index import build_index as build_index
    from arbo.encoders.ngrams import NgramEncoder as NgramEncoder
    from arbo.errors import (
        ArboError as ArboError,
        DataError as DataError,
        MissingDependency as MissingDependency,
        UsageError as UsageError,
    )
    from arbo.formats import read_documents as read_documents, read_knowledge_base as read_knowledge_base
    from arbo.linker import Linker as Linker
    from arbo.linking.config import LinkerConfig as LinkerConfig
    from arbo.pipeline.saved_run import SavedRun as SavedRun, open_run as open_run
    from arbo.results.diff import diff as diff
    from arbo.results.evaluation import compare as compare
    from arbo.results.result import Result as Result
    from arbo.results.run import Cluster as Cluster, Link as Link
    from arbo.retrieval.reranking import Candidates as Candidates
    from arbo.sample import load_sample as load_sample
    from arbo.spans.finding import DictionaryFinder as DictionaryFinder, find_mentions as find_mentions
    from arbo.spans.model import (
        LabelAttention as LabelAttention,
        LabelAttentionConfig as LabelAttentionConfig,
        ModelFinder as ModelFinder,
    )
    from arbo.spans.tagger import Tagger as Tagger
    from arbo.training.config import (
        OslatTraining as OslatTraining,
        RerankingConfig as RerankingConfig,
        RunOptions as RunOptions,
        SelfAlignmentConfig as SelfAlignmentConfig,
        TrainingConfig as TrainingConfig,
    )
    from arbo.training.cross import train_reranker as train_reranker
    from arbo.training.dual.trainer import train as train
    from arbo.training.edges import train_edges as train_edges
    from arbo.training.learning import learn as learn
    from arbo.training.oslat import train_oslat as train_oslat, train_self_alignment as train_self_alignment
    from arbo.training.tagger import train_tagger as train_tagger

_HOME = declared(__file__)
"""The module of each name; it is imported when the name is first used, so that `import arbo` is fast."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'arbo' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:  # of torch and what builds on it, as all else is there
        raise errors.MissingDependency(f"arbo.{name}", extra="torch") from error


def __dir__() -> list[str]:
    return __all__

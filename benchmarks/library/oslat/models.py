"""The models that are compared: each is made when it is asked for, and kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import arbo
from arbo.progress import Announce, bars, quiet
from arbo.spans.model import LabelAttention
from clustering.arrays import Floats, Ids
from library.cells import hashed, key
from library.folders import MODELS
from library.oslat.tasks import TASKS, Task

MODEL = "all-MiniLM-L6-v2"
ONE_A_NAME = arbo.EncoderConfig()
ALIGNMENT = arbo.SelfAlignmentConfig(learning_rate=5e-5, epochs=1000, steps=200, n_positives=2)
TRAINING = arbo.OslatTraining(
    learning_rate=2e-5, epochs=1000, steps=200, batch_size=16, micro_batch=16, n_positives=2, n_negatives=50
)


@dataclass(frozen=True)
class Lab:
    """The models of a corpus, each made when it is asked for and kept."""

    corpus: str
    read: Callable[[], Task] | None = None
    """What reads the data, for a corpus that is not among `TASKS`."""

    @cached_property
    def task(self) -> Task:
        """The data."""
        return (self.read or TASKS[self.corpus])()

    def aligned(self) -> arbo.DualEncoder:
        """Return an encoder whose names are aligned: those of the entities that training sees."""
        out = self._folder("aligned", ALIGNMENT)
        if not out.is_dir():
            seen = arbo.KnowledgeBase(self.task.kb.entities[row] for row in self.task.taught.tolist())
            told = arbo.RunOptions(announce=bars)
            arbo.train_self_alignment(encoder(), seen, out=out, config=ALIGNMENT, options=told)
        return arbo.DualEncoder.from_pretrained(out)

    def trained(self, system: str) -> LabelAttention:
        """Return a trained model: begun with aligned names, or without (NP)."""
        aligns = system != "NP"
        out = self._folder(system, ALIGNMENT if aligns else None, TRAINING)
        if not out.is_dir():
            start = LabelAttention.of((self.aligned() if aligns else encoder()).mention_tower)
            told = arbo.RunOptions(announce=bars)
            arbo.train_oslat(start, self.task.train, self.task.known, out=out, config=TRAINING, options=told)
        return LabelAttention.from_pretrained(out)

    def _folder(self, name: str, *settings: object) -> Path:
        MODELS.mkdir(parents=True, exist_ok=True)
        data = self.task.train.fingerprint, self.task.known.fingerprint
        return MODELS / key("oslat", self.corpus, name, hashed((MODEL, data, settings)))


def encoder() -> arbo.DualEncoder:
    """Return the start."""
    return arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME)


@dataclass(frozen=True)
class Attention:
    """Scores an entity by the best of its names, as label attention does."""

    model: LabelAttention

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs of texts and entities."""
        scores = np.empty(len(text), np.float32)
        for look in self.model.looks(texts, kb, text, entity, announce):
            scores[look.pairs] = look.score
        return scores


@dataclass(frozen=True)
class BiEncoder:
    """Compares the vector of a text with those of names, by cosine: the best name of each entity counts."""

    encoder: arbo.DualEncoder

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs of texts and entities."""
        used, place = np.unique(entity, return_inverse=True)
        read, row = np.unique(text, return_inverse=True)
        names = self.encoder.encode_entities(arbo.KnowledgeBase(kb.entities[i] for i in used))
        whole = self.encoder.encode_entities(
            arbo.KnowledgeBase(arbo.Entity(str(i), " ".join(texts[i].split())) for i in read)
        )
        similarity = unit(whole.matrix)[whole.row] @ unit(names.matrix)[names.row].T
        first = np.searchsorted(names.owner, np.arange(len(used)))
        best: Floats = np.maximum.reduceat(similarity, first, axis=1)[row, place]
        return best


def unit(vectors: Any) -> Floats:
    """Normalise."""
    made: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made

"""The models that are compared: each is made when it is asked for, and kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import arbo
from arbo.progress import Announce, bars, quiet
from arbo.spans.label_attention import name_scores
from arbo.spans.model import LabelAttention
from arbo.spans.pieces import Pairs
from arbo.training.config import AlignmentLoss
from clustering.arrays import Floats, Ids
from library.cells import hashed, key
from library.folders import CACHE, MODELS
from library.oslat.tasks import TASKS, Task

MODEL = "all-MiniLM-L6-v2"
ONE_A_NAME = arbo.EncoderConfig()
ALIGNMENT = arbo.SelfAlignmentConfig(learning_rate=5e-5, epochs=1000, steps=200, n_positives=2)
ATTENTION = arbo.LabelAttentionTraining(
    learning_rate=1e-4, epochs=1000, steps=200, batch_size=16, micro_batch=16, n_positives=2, n_negatives=50
)
GENTLE = replace(ATTENTION, learning_rate=2e-5)
HEAD = arbo.LinkingHeadConfig(learning_rate=1e-3, epochs=1000, steps=300)
LINEAR = replace(HEAD, kind="linear", learning_rate=2e-3)
GENTLER = "OSLAT, gentle"


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

    def aligned(self, loss: AlignmentLoss = "nt-xent") -> arbo.DualEncoder:
        """Return an encoder whose names are aligned: those of the entities that training sees."""
        config = replace(ALIGNMENT, loss=loss)
        out = self._folder("aligned", loss, config)
        if not out.is_dir():
            start = arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME)
            arbo.train_self_alignment(
                start,
                self.task.known,
                documents=self.task.train,
                out=out,
                config=config,
                options=arbo.RunOptions(announce=bars),
            )
        return arbo.DualEncoder.from_pretrained(out)

    def attending(self, system: str) -> LabelAttention:
        """Return a model without a linking head."""
        aligns, config = system != "NP", attention_of(system)
        model = LabelAttention.of((self.aligned() if aligns else encoder()).mention_tower)
        if config is None:
            return model
        out = self._folder(system, "attention", ALIGNMENT if aligns else None, config)
        if not out.is_dir():
            arbo.train_label_attention(
                model, self.task.train, self.task.known, out=out, config=config, options=arbo.RunOptions(announce=bars)
            )
        return LabelAttention.from_pretrained(out)

    def linking(self, system: str, head: arbo.LinkingHeadConfig = HEAD) -> LabelAttention:
        """Return a model with a linking head."""
        out = self._folder(system, ALIGNMENT if system != "NP" else None, attention_of(system), head)
        if not out.is_dir():
            model = replace(self.attending(system), cache=CACHE)
            arbo.train_linking_head(
                model, self.task.train, self.task.known, out=out, config=head, options=arbo.RunOptions(announce=bars)
            )
        return LabelAttention.from_pretrained(out)

    def _folder(self, name: str, *settings: object) -> Path:
        MODELS.mkdir(parents=True, exist_ok=True)
        data = self.task.train.fingerprint, self.task.known.fingerprint
        return MODELS / key("oslat", self.corpus, name, hashed((MODEL, data, settings)))


def attention_of(system: str) -> arbo.LabelAttentionTraining | None:
    """Tell how a system's attention is trained, if at all."""
    return {"No LA": None, GENTLER: GENTLE}.get(system, ATTENTION)


def encoder() -> arbo.DualEncoder:
    """Return the start."""
    return arbo.DualEncoder.from_pretrained(MODEL, ONE_A_NAME)


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


@dataclass(frozen=True)
class GoldSpans:
    """A model that is told where the entities of a text are, and looks there; at others as it learnt to."""

    model: LabelAttention
    pairs: Pairs

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs of texts and entities."""
        import torch

        scores = self.model.score(texts, kb, text, entity, announce)
        place = {pair: i for i, pair in enumerate(zip(text.tolist(), entity.tolist(), strict=True))}
        told = zip(self.pairs.text.tolist(), self.pairs.entity.tolist(), self.pairs.mentions, strict=True)
        asked = [(row, meant, mentions) for row, meant, mentions in told if (row, meant) in place]
        read = sorted({row for row, _, _ in asked})
        vectors = dict(zip(read, self.model.token_vectors([texts[row] for row in read]), strict=True))
        used = np.unique([meant for _, meant, _ in asked])
        names, owner = self.model.name_vectors(arbo.KnowledgeBase(kb.entities[meant] for meant in used))
        for row, meant, mentions in asked:
            tokens, offsets = vectors[row]
            inside = np.zeros(len(offsets), np.bool_)
            for begin, end in (span for spans in mentions for span in spans):
                inside |= (offsets[:, 0] < end) & (offsets[:, 1] > begin)
            if inside.any():
                own = names[torch.from_numpy(used[owner] == meant)]
                said = tokens[torch.from_numpy(inside)].mean(0).expand_as(own)
                with torch.inference_mode():
                    scores[place[row, meant]] = float(name_scores(self.model.head, said, own).max())
        return scores

"""Edge models with a cross-encoder that reads doubtful pairs, and what it knows of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss

import arbo
from arbo.data.corpus import Corpus
from arbo.data.inputs import MentionInput
from arbo.edges.doubtful import doubtful
from arbo.edges.features import MENTION_FEATURES
from arbo.encoders.cross import PairEncoder
from arbo.encoders.pretrained import MINILM
from arbo.engine import Floats, Ids
from arbo.progress import Announce, bars, quiet
from arbo.training.config import DoubtfulConfig
from arbo.training.pairs import Compared
from library.annotated import Parts
from library.cells import hashed
from library.folders import MODELS

READING = DoubtfulConfig(pairs=3000, precision="bfloat16")


@dataclass(frozen=True, eq=False)
class ScoreMemory(PairEncoder):
    """A cross-encoder that reads each pair of mentions once, however often a linker asks."""

    read_before: dict[tuple[str, str], float] = field(default_factory=dict)

    def compare(self, mentions: Sequence[MentionInput], first: Ids, second: Ids, announce: Announce = quiet) -> Floats:
        """Score pairs, or remember their scores."""
        keys = [(mentions[i].mention.id, mentions[j].mention.id) for i, j in zip(first, second, strict=True)]
        new = [place for place, key in enumerate(keys) if key not in self.read_before]
        scores = super().compare(mentions, first[new], second[new], announce)
        self.read_before.update((keys[place], score) for place, score in zip(new, scores.tolist(), strict=True))
        return np.array([self.read_before[key] for key in keys], np.float32)


def with_cross(name: str, parts: Parts, kb: arbo.KnowledgeBase | None) -> arbo.EdgeModel:
    """Return the edge model of a corpus with a cross-encoder in bfloat16; a killed training resumes."""
    folder = MODELS / f"edges-cross.{hashed([name, READING, MENTION_FEATURES])}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        linker = arbo.Linker(kb, announce=bars)
        arbo.train_edges(parts["train"], parts["dev"], kb, linker=linker, cross=MINILM, out=folder, config=READING)
    model = arbo.EdgeModel.load(folder)
    assert model.reader is not None
    encoder = ScoreMemory.from_pretrained(folder, precision="bfloat16")
    return replace(model, reader=replace(model.reader, encoder=encoder))


def of_doubtful(model: arbo.EdgeModel, corpus: Corpus) -> dict[str, float]:
    """Return how many pairs of a corpus are doubtful, and the average precision and log loss of the model on these."""
    pairs = Compared.of(arbo.Linker(), corpus)
    log_odds = model.mentions.scores(pairs.features)
    chosen = doubtful(log_odds)
    correct, told = pairs.correct[chosen], log_odds[chosen]
    if model.reader is not None:
        told = told + model.reader.change(pairs.retrieval.inputs, pairs.first[chosen], pairs.second[chosen], told)
    figures = {"pairs": len(log_odds), "doubtful": len(chosen), "correct": int(correct.sum())}
    return figures | {"precision": average_precision_score(correct, told), "loss": log_loss(correct, expit(told))}

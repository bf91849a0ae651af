"""Further features for the doubtful pairs of learnt edges, judged before they are built into anything.

A pair is doubtful if trees over the features of `arbo.edges` give it a probability between 0.05 and 0.95. The trees of
training pairs have not seen the half of the documents that the pair is in. A *way* gives each doubtful pair a score;
whether it says more than the trees is judged by a logistic regression on the log-odds of the trees and the score,
fitted on the development part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss

import arbo
from arbo.data.codes import codes_of
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.inputs import MentionInput
from arbo.edges.facts import Facts
from arbo.edges.features import Matrix, mention_features
from arbo.edges.model import EdgeModel
from arbo.edges.pairs import mention_pairs
from arbo.edges.trees import Trees
from arbo.encoders.cross import Pairs
from arbo.training.edges import known_elsewhere, thinned
from library.annotated import CORPORA
from library.folders import CACHE, DATA

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
RANGE = (0.05, 0.95)
PAIRS = {"train": 2000, "dev": 1000, "test": 1000}
MOST = 250_000
READS = arbo.EncoderConfig(
    mention="[CLS] {left} {mention} {right} [SEP]", pooling="mention", context=25, within_line=True
)
"""The mention in its sentence, for `cosine` and `frozen`."""
MARKED = "{left} [START] {mention} [END] {right} [SEP]"
"""A mention in its sentence, for `cross`; the first one has a [CLS] before it."""
_LENGTH = 128  # tokens of a pair


class Compared(NamedTuple):
    """The pairs of mentions of a part; the arrays have a value for each pair."""

    inputs: list[MentionInput]
    half: Ids
    """(mentions,) 0 or 1: the half of the documents, by topic if they have one."""
    first: Ids
    second: Ids
    correct: npt.NDArray[np.bool_]
    features: Matrix

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Compare what `arbo.train_edges` compares."""
        found = arbo.Linker().retrieve(corpus, k=EdgeModel.neighbors, discover=True)
        facts, gold = Facts.of(found.inputs), Gold.of(corpus)
        first, second = mention_pairs(facts, codes_of(found.worlds), found.mentions)
        document, known = facts.columns["document"], known_elsewhere(found, gold)
        kept = gold.annotated[first] & gold.annotated[second]
        kept &= (document[first] == document[second]) | known[first] | known[second]
        first, second = first[kept], second[kept]
        correct = (gold.classes[first] == gold.classes[second]) & (gold.classes[first] >= 0)
        kept = thinned(np.zeros(len(first), np.int64), correct, MOST)
        first, second, correct = first[kept], second[kept], correct[kept]
        groups = [item.document.metadata.get("topic", item.document.id) for item in found.inputs]
        half = np.unique(groups, return_inverse=True)[1] % 2
        return cls(found.inputs, half, first, second, correct, mention_features(facts, first, second))

    def of_half(self, half: int) -> Ids:
        """Return the pairs of two mentions of one half."""
        return np.flatnonzero((self.half[self.first] == half) & (self.half[self.second] == half))


class Doubtful(NamedTuple):
    """Doubtful pairs of a part, at most as many as asked for; the arrays have a value for each pair."""

    inputs: list[MentionInput]
    first: Ids
    second: Ids
    correct: npt.NDArray[np.bool_]
    log_odds: Floats
    """By the trees."""


Way = Callable[[Mapping[str, Doubtful]], dict[str, Floats]]
"""Trains on the doubtful pairs of ``train``, and returns the scores of those of ``dev`` and ``test``."""


@lru_cache(1)
def doubtful(corpus: str) -> dict[str, Doubtful]:
    """Return at most `PAIRS` of the doubtful pairs of each part of a corpus, drawn at random."""
    parts = {name: Compared.of(part) for name, part in CORPORA[corpus](DATA).items()}
    train, dev = parts["train"], parts["dev"]
    odds = {"train": np.full(len(train.first), np.nan)}
    for half in (0, 1):
        own, others = train.of_half(half), train.of_half(1 - half)
        odds["train"][others] = Trees.fit(train.features[own], train.correct[own]).scores(train.features[others])
    trees = Trees.fit(train.features, train.correct).calibrated(dev.features, dev.correct)
    odds |= {name: trees.scores(parts[name].features) for name in ("dev", "test")}
    found = {}
    for name, part in parts.items():
        low, high = (np.log(p / (1 - p)) for p in RANGE)
        chosen = np.flatnonzero((odds[name] > low) & (odds[name] < high))
        if len(chosen) > PAIRS[name]:
            chosen = np.sort(np.random.default_rng(0).choice(chosen, PAIRS[name], replace=False))
        correct = part.correct[chosen]
        found[name] = Doubtful(part.inputs, part.first[chosen], part.second[chosen], correct, odds[name][chosen])
    return found


def judged(parts: Mapping[str, Doubtful], scores: Mapping[str, Floats]) -> dict[str, float]:
    """Return average precision and log loss on the doubtful pairs of ``test``, without the scores and with them."""
    dev, test = parts["dev"], parts["test"]
    figures = {"pairs": float(len(test.correct)), "alone": average_precision_score(test.correct, scores["test"])}
    alone = {name: part.log_odds[:, None] for name, part in parts.items()}
    both = {name: np.column_stack([alone[name], scores[name]]) for name in ("dev", "test")}
    for name, features in (("trees", alone), ("both", both)):
        told = LogisticRegression(C=1e6).fit(features["dev"], dev.correct).predict_proba(features["test"])[:, 1]
        figures |= {name: average_precision_score(test.correct, told), f"{name} loss": log_loss(test.correct, told)}
    return figures


def _vectors(parts: Mapping[str, Doubtful]) -> dict[str, tuple[Matrix, Matrix]]:
    """Return the vectors of both mentions of each pair, of length 1, by untrained all-MiniLM-L6-v2."""
    encoder = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", READS, cache=CACHE)
    found = {}
    for name, part in parts.items():
        used, place = np.unique(np.concatenate([part.first, part.second]), return_inverse=True)
        read = encoder.encode_mentions([part.inputs[mention] for mention in used])
        rows = np.asarray(read.matrix)[read.row]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        first, second = np.split(rows[place], 2)
        found[name] = first, second
    return found


def cosine(parts: Mapping[str, Doubtful]) -> dict[str, Floats]:
    """Score pairs by the cosine of both mentions in their sentences, untrained."""
    return {name: (first * second).sum(axis=1) for name, (first, second) in _vectors(parts).items()}


def frozen(parts: Mapping[str, Doubtful]) -> dict[str, Floats]:
    """Score pairs by a logistic regression on products and differences of the vectors of `cosine`."""
    features = {}
    for name, (first, second) in _vectors(parts).items():
        product = first * second
        parts_of_pair = [product, np.abs(first - second)]
        features[name] = np.column_stack([*parts_of_pair, product.sum(axis=1)]) * first.shape[1] ** 0.5
    model = LogisticRegression(C=0.01, max_iter=300).fit(features["train"], parts["train"].correct)
    return {name: model.decision_function(features[name]) for name in ("dev", "test")}


class PairNet(torch.nn.Module):
    """A transformer over both mentions in their sentences, and a score of the pair from its last layer.

    ``mean``: a linear layer on the mean of all tokens. ``mentions``: two layers on the means over both mentions, their
    product and their difference.
    """

    def __init__(self, pooling: Literal["mean", "mentions"]) -> None:
        super().__init__()
        start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", _reading(f"[CLS] {MARKED}")).with_markers()
        torch.manual_seed(0)
        self.tower, self.pooling = start.mention_tower, pooling
        self.transformer = self.tower.model
        dim = self.tower.dim
        layers = [torch.nn.Linear(4 * dim, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)]
        self.head = torch.nn.Sequential(*layers) if pooling == "mentions" else torch.nn.Linear(dim, 1)

    def rows(self, part: Doubtful) -> list[list[int]]:
        """Tokenise the pairs of a part."""
        first, second = (
            arbo.DualEncoder(self.tower, self.tower, _reading(template)).mention_texts(part.inputs)
            for template in (f"[CLS] {MARKED}", MARKED)
        )
        pairs = Pairs(first, second, _LENGTH)
        return [row.ids for row in pairs.spell(first.row[part.first], second.row[part.second])]

    def forward(self, rows: list[list[int]]) -> torch.Tensor:
        """Score pairs; (pairs,)."""
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            if self.pooling == "mean":
                read = _mean(hidden, mask)
            else:
                begin, end = (ids == self.tower.tokenizer.convert_tokens_to_ids(name) for name in ("[START]", "[END]"))
                inside = begin.cumsum(1) - end.cumsum(1) + end.long()
                one, other = (_mean(hidden, inside * (begin.cumsum(1) == number)) for number in (1, 2))
                read = torch.cat([one, other, one * other, (one - other).abs()], dim=1)
            return torch.as_tensor(self.head(read)[:, 0].float())


def _reading(template: str) -> arbo.EncoderConfig:
    return arbo.EncoderConfig(mention=template, pooling="cls", context=25, within_line=True, max_length=_LENGTH)


def _mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def cross(parts: Mapping[str, Doubtful], pooling: Literal["mean", "mentions"]) -> dict[str, Floats]:
    """Score pairs by a cross-encoder that learns the doubtful pairs of ``train``, one epoch in batches of 16."""
    net = PairNet(pooling)
    rows, correct = net.rows(parts["train"]), torch.from_numpy(parts["train"].correct).float()
    rates = [{"params": net.transformer.parameters(), "lr": 1e-4}, {"params": net.head.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(rates)
    net.train()
    steps = len(rows) // 16
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    order = np.random.default_rng(0).permutation(len(rows))
    lengths = np.array([len(row) for row in rows])
    near = [some[np.argsort(lengths[some], kind="stable")] for some in np.array_split(order, max(len(rows) // 128, 1))]
    for batch in np.array_split(np.concatenate(near), steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net([rows[i] for i in batch]), correct[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    net.eval()
    return {name: _scored(net, net.rows(parts[name])) for name in ("dev", "test")}


@torch.inference_mode()
def _scored(net: PairNet, rows: list[list[int]]) -> Floats:
    """Score pairs, those of similar length together."""
    found = np.empty(len(rows))
    for some in np.array_split(np.argsort([len(row) for row in rows], kind="stable"), len(rows) // 32 + 1):
        found[some] = net([rows[i] for i in some]).numpy()
    return found


WAYS: Mapping[str, Way] = {
    "cosine": cosine,
    "frozen": frozen,
    "cross, mean": partial(cross, pooling="mean"),
    "cross, mentions": partial(cross, pooling="mentions"),
}

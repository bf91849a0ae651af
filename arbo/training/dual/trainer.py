"""Training of dual-encoders: choose positives and negatives, encode the distinct texts of a batch, compare vectors."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arbo.data import Corpus, KnowledgeBase, codes_of, learnt_from
from arbo.data.gold import RECALL_AT
from arbo.edges.features import hashed_words
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import NO_LIMIT
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Bools, Graph, Ids, all_cuts, linking_scores, merge_tree, silent
from arbo.errors import DataError, UsageError
from arbo.linker import Linker
from arbo.linking.config import LinkerConfig
from arbo.retrieval.groups import GroupedEntities, among_mentions, nearest_within, rows_of_entities, with_entities
from arbo.training.config import WITHOUT_KB, RunOptions, TrainingConfig
from arbo.training.data import Snapshot, TrainingSet, job_of, sets_of
from arbo.training.dual.context import Windows, half_of
from arbo.training.dual.plan import Plan, asks_the_model
from arbo.training.frame import check_start, embeddings, training
from arbo.training.loop import Trainer
from arbo.training.losses import Pairs, chosen, comparable, mention_losses, supervised_contrastive
from arbo.training.presets import READS_AROUND

_TOGETHER = 8  # number of windows that a transformer reads at a time


class Text(NamedTuple):
    """A tokenised text, and the transformer that encodes it."""

    tower: Tower
    row: TokenRow


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Mentions and the nodes to compare them with, as indices of the distinct texts of both."""

    texts: list[Text]  # the shortest first, so that taking every n-th text divides the work evenly
    mention: Ids  # (mentions,) the text of each mention
    node: Ids  # (mentions, nodes) the text of each node, the positive's first; 0 for none
    exists: Bools  # (mentions, nodes) which nodes to compare with

    def __len__(self) -> int:
        return len(self.mention)


@dataclass(eq=False)
class DualTrainer(Trainer[DualEncoder, Batch]):
    """Trains a dual-encoder, for `train`."""

    data: TrainingSet
    dev: TrainingSet | None
    config: TrainingConfig

    def __post_init__(self) -> None:
        self.cache, self.best = self.model.cache, self.config.best
        super().__post_init__()

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of entities and mentions, and return the function that encodes some of a batch."""
        self.entities, self.mentions = self.model.entity_texts(self.data.kb), self.model.mention_texts(self.data.inputs)
        return self.encode

    def choose(self, step: int, place: int) -> None:
        """Choose positives and negatives at the beginning of an epoch, and every ``refresh`` steps."""
        if place % (self.config.refresh or self.steps_an_epoch):
            return
        if asks_the_model(self.config, self.entities.owner):
            snapshot = Snapshot.of(self.data, self.as_it_is(), self.options.announce)
        else:
            snapshot = Snapshot.unread(self.data, self.entities.owner, self.model.metric)
        self.chosen = Plan.of(self.data, snapshot, self.config, step)._asdict()

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Batch:
        """Collect the texts of some mentions of a batch, and of their positives and negatives."""
        nodes = Plan(**self.chosen).nodes(self.data, self.entities.owner, mentions, self.config, step)
        return self.batch_of(mentions[rows], nodes[rows])

    def batch_of(self, mentions: Ids, nodes: Ids) -> Batch:
        """Collect the texts of mentions and of their nodes, (mentions, nodes), padded with -1.

        Texts with the same tokens count as one if the same tower encodes them. A negative with the same text as its
        mention or its positive is dropped, as the model cannot tell them apart.
        """
        n_texts = len(self.entities.owner)
        is_mention = nodes >= n_texts
        is_entity = (nodes >= 0) & ~is_mention
        rows = np.concatenate([self.mentions.row[mentions], self.mentions.row[nodes[is_mention] - n_texts]])
        read, place = np.unique(rows, return_inverse=True)
        entity_read, entity_place = np.unique(self.entities.row[nodes[is_entity]], return_inverse=True)
        spelt = [Text(self.mentions.tower, row) for row in self.mentions.spell(read)]
        spelt += [Text(self.entities.tower, row) for row in self.entities.spell(entity_read)]
        has_place = self.model.config.pooling == "mention"  # the only pooling that uses the place of a mention or name
        number = codes_of((text.tower, tuple(text.row.ids), has_place and text.row[1:]) for text in spelt)
        texts = [spelt[i] for i in np.unique(number, return_index=True)[1]]
        order = np.argsort([len(text.row.ids) for text in texts], kind="stable")
        rank = np.argsort(order)[number]
        mention, node = rank[place[: len(mentions)]], np.zeros(nodes.shape, np.int64)
        node[is_mention] = rank[place[len(mentions) :]]
        node[is_entity] = rank[len(read) + entity_place]
        exists = nodes >= 0
        exists[:, 1:] &= (node[:, 1:] != node[:, :1]) & (node[:, 1:] != mention[:, None])
        return Batch([texts[i] for i in order], mention, node, exists)

    def encode(self, batch: Batch, part: slice) -> Tensor:
        """Encode some texts of a batch, those of similar length together; (texts, dim)."""
        texts, parts = batch.texts[part], list[Tensor]()
        for tower in dict.fromkeys(text.tower for text in texts):
            rows = [text.row for text in texts if text.tower is tower]
            parts.append(tower.encode_apart(rows, self.model.config.pooling))
        by_tower = np.argsort(codes_of(text.tower for text in texts), kind="stable")
        return torch.cat(parts)[torch.from_numpy(np.argsort(by_tower)).to(parts[0].device)]

    def pairs(self, batch: Batch, vectors: Tensor, rows: slice) -> Pairs:
        """Take the vectors of the mentions in ``rows`` and of their nodes from ``vectors``, which has all texts."""
        vectors = comparable(vectors, self.model.metric)
        arrays = (batch.mention, batch.node, batch.exists)
        query, compared, exists = (torch.from_numpy(array[rows]).to(vectors.device) for array in arrays)
        return Pairs(vectors[query], vectors[compared], exists)

    def loss_of(self, batch: Batch, rows: slice) -> Tensor:
        """Sum the losses of some mentions of a batch; this encodes all texts of the batch."""
        return self._compared(batch, self.prepared(batch, slice(None)), rows)

    def add_gradients(self, step: int, batch: Batch, share: float) -> float:
        """Add the gradients of a batch's loss, in which each mention has the weight ``share``, and return the loss.

        A batch of several micro-batches uses gradient caching (Gao et al. 2021): its texts are encoded part by part
        without gradients; the loss is differentiated with respect to their vectors; then each part is encoded again,
        with the same dropout, to propagate that gradient to the weights.
        """
        size = self.config.micro_batch
        if len(batch) <= size:
            return super().add_gradients(step, batch, share)
        n_parts = min(math.ceil(len(batch) / size), len(batch.texts))
        parts = [slice(i, None, n_parts) for i in range(n_parts)]
        with torch.no_grad():
            encoded = [self._encoded(step, batch, part) for part in parts]
        vectors = encoded[0].new_empty(len(batch.texts), *encoded[0].shape[1:])
        for part, some in zip(parts, encoded, strict=True):
            vectors[part] = some
        vectors.requires_grad_()
        total = 0.0
        for begin in range(0, len(batch), size):
            loss = share * self._compared(batch, vectors, slice(begin, begin + size))
            (loss * self.accelerator.num_processes).backward()
            total += float(loss.detach())
        assert vectors.grad is not None
        for part in parts:
            with self.reducing(is_last=part is parts[-1]):
                self.accelerator.backward((self._encoded(step, batch, part) * vectors.grad[part]).sum())
        return total

    def _encoded(self, step: int, batch: Batch, part: slice) -> Tensor:
        """Encode every n-th text of a batch; repeated calls use the same dropout."""
        torch.manual_seed(self.dropout_seed(step, part.start))
        vectors: Tensor = self.prepared(batch, part)
        return vectors

    def _compared(self, batch: Batch, vectors: Tensor, rows: slice) -> Tensor:
        pairs = chosen(self.pairs(batch, vectors, rows), self.config)
        return mention_losses(pairs, self.config, self.model.metric).sum()

    def as_it_is(self) -> DualEncoder:
        """Return the current model, with a cache if its embeddings were kept: at the start, or by an evaluation."""
        cache = self.cache
        if self.state.step:
            folder = embeddings(self.folder, self.state.step)
            cache = folder if self.accelerator.is_main_process and folder.is_dir() else None
        return self.model if cache is None else replace(self.model.copy(), cache=cache)

    def development_scores(self) -> dict[str, float]:
        """Return the scores of the development documents by name, and keep their embeddings."""
        assert self.dev is not None
        if self.accelerator.is_main_process:
            embeddings(self.folder, self.state.step).mkdir(parents=True, exist_ok=True)
        return development_scores(self.dev, Snapshot.of(self.dev, self.as_it_is(), self.options.announce))

    @property
    def final(self) -> DualEncoder:
        """The model to write, with its cache of embeddings if ``dev`` selected it."""
        return replace(super().final, cache=None if self.dev is None else embeddings(self.folder, self.state.best_step))


@dataclass(eq=False)
class ContextTrainer(DualTrainer):
    """Trains an encoder on whole documents, for `train`, see `arbo.training.dual.context`."""

    def reading(self) -> Callable[..., Tensor]:
        """Tokenise the documents, and return the function that encodes some mentions."""
        inputs = self.data.inputs
        self.document = codes_of(item.document.id for item in inputs)
        first = np.unique(self.document, return_index=True)[1]
        self.words = hashed_words([inputs[row].document.text for row in first.tolist()])
        self.windows = Windows.of(self.model.spellers[0], inputs)
        return self.encoded

    def choose(self, step: int, place: int) -> None:
        """Choose nothing: all other mentions of a step are positives or negatives."""

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:  # type: ignore[override]
        """Return mentions of a domain, about as many: those of the first one's document and of those most like it."""
        alike = (self.words @ self.words[self.document[mentions[0]]].T).toarray().ravel()
        nearest = np.argsort(-alike, kind="stable")
        n = np.searchsorted(np.cumsum(np.bincount(self.document)[nearest]), len(mentions)) + 1
        domain = self.data.rivals.domain
        return np.flatnonzero(np.isin(self.document, nearest[:n]) & (domain == domain[mentions[0]]))

    def encoded(self, mentions: Ids) -> Tensor:
        """Return the vectors of mentions; (mentions, dim)."""
        read, place = np.unique(self.windows.window[mentions], return_inverse=True)
        rows = [self.windows.rows[row] for row in read.tolist()]
        parts = [rows[begin : begin + _TOGETHER] for begin in range(0, len(rows), _TOGETHER)]
        tokens = [one for part in parts for one in self.model.mention_tower.encode(part, None)]
        spans = zip(place.tolist(), self.windows.begin[mentions], self.windows.end[mentions], strict=True)
        return torch.stack([tokens[row][begin:end].mean(dim=0) for row, begin, end in spans])

    def add_gradients(self, step: int, batch: Ids, share: float) -> float:  # type: ignore[override]
        """Add the gradients of the mean loss of a batch, which is in memory as a whole in each process; return it."""
        torch.manual_seed(self.dropout_seed(step))
        vectors = comparable(self.prepared(batch).float(), self.model.metric)
        label = torch.from_numpy(self.data.cluster[batch]).to(vectors.device)
        scale = self.config.scale or (20.0 if self.model.metric == "cosine" else 1.0)
        loss = supervised_contrastive(scale * vectors @ vectors.T, label)
        self.accelerator.backward(loss)
        return float(loss.detach() / self.accelerator.num_processes)


def train(
    encoder: DualEncoder,
    documents: Iterable[Any],
    kb: KnowledgeBase | None = None,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    config: TrainingConfig | None = None,
    expand_abbreviations: bool = True,
    options: RunOptions | None = None,
) -> DualEncoder:
    """Train a dual-encoder to map mentions near their entity and its other mentions, and write it to a folder.

    Unless ``config.positives`` is ``entity``, mentions without an entity in the knowledge base are trained on too: they
    are moved towards mentions with the same gold ids or, without any, the same gold cluster.

    Args:
        encoder: the model to start from; it is not changed.
        documents: annotated documents, or any input of `Corpus.of`; with positives ``all``, half of them teach.
        kb: the knowledge base; None, or an empty one, to train on gold clusters alone.
        out: the model folder to write. An interrupted training resumes from ``OUT.training``, with the same losses.
        dev: annotated development documents. They select the best model after each epoch, and the default thresholds
            of the final model. Without them the last model is kept.
        config: the training settings; None for the defaults, ``WITHOUT_KB`` of `arbo.training.config` without ``kb``.
        expand_abbreviations: whether to write out abbreviations that a document defines, as in linking.
        options: how the training runs: checkpoints, progress, logs.

    Raises:
        DataError: no mention has a gold id that the knowledge base has or, without a knowledge base, no two mentions
            have the same gold id or cluster; or a checkpoint cannot be read.
        ArboError: the loss or a gradient is NaN or infinite, or there is not enough memory for the micro-batch.
        UsageError: the folder cannot be written, or is not a model folder of arbo; ``OUT.training`` belongs to another
            training, or another process uses it; a batch of one mention has no negatives; the device lacks the
            precision; or the settings or an encoder with two towers need a knowledge base, and there is none.
    """
    kb = check_start(out, KnowledgeBase() if kb is None else kb)
    has_kb = len(kb) > 0
    config = config or (TrainingConfig() if has_kb else WITHOUT_KB)
    if not has_kb:
        _check_without_kb(encoder, config)
    if config.negatives in ("in-batch", "in-batch-hard", "in-batch-mixed") and config.batch_size == 1:
        wrong = f"with negatives {config.negatives!r}, a batch of one mention has none"
        raise UsageError(f"{wrong}; choose a larger batch_size, or other negatives")
    trainer = ContextTrainer if config.positives == "all" else DualTrainer
    if trainer is ContextTrainer:
        _check_in_context(encoder, has_kb)
        documents = half_of(Corpus.of(documents))
    how = {"clusters": config.positives != "entity", "expand_abbreviations": expand_abbreviations}
    corpora, data = sets_of(documents, dev, kb, **how)
    encoder = replace(encoder, learnt=learnt_from(corpora["documents"].tables, encoder.learnt))
    what = {"encoder": encoder.settings, "expand_abbreviations": expand_abbreviations, "dev": None}

    def finish(model: DualEncoder) -> DualEncoder:
        linking = LinkerConfig(expand_abbreviations=expand_abbreviations)
        linker = Linker(kb if has_kb else None, model, linking, workplace.options.announce)
        with suppress(DataError):  # a model that links no mention of ``dev`` rightly has no thresholds
            return model if dev is None else _with_thresholds(model, linker.tune(corpora["dev"]))
        return model

    with training(out, job_of(corpora, kb, config, **what), config, options) as workplace:
        trainer(encoder, data["documents"], data.get("dev"), config, workplace).run(finish)
    return DualEncoder.from_pretrained(workplace.target)


def _check_in_context(encoder: DualEncoder, has_kb: bool) -> None:
    if has_kb:
        raise UsageError("positives 'all' (preset context) learn from clusters alone; leave the knowledge base out")
    if (encoder.config.mention, encoder.config.pooling) != (READS_AROUND.mention, READS_AROUND.pooling):
        raise UsageError("positives 'all' need an encoder that reads as preset context does; add it")


def _check_without_kb(encoder: DualEncoder, config: TrainingConfig) -> None:
    for name, advice in ("positives", "1nn"), ("negatives", "knn"), ("best", "ari"):
        value = getattr(config, name)
        if value in ("entity", "random", "mixed") or value.startswith("recall@"):
            raise UsageError(f"{name} {value!r} needs a knowledge base; without one, choose for example {advice!r}")
    if not encoder.shared:
        raise UsageError("an encoder with two towers needs a knowledge base; without one, start from one tower")


def _with_thresholds(encoder: DualEncoder, linker: Linker) -> DualEncoder:
    """Return the encoder with the best thresholds that tuning found for the default method and k of linking."""
    defaults = LinkerConfig()
    assert linker.tuning is not None
    tried = [trial for trial in linker.tuning.trials if (trial.method, trial.k) == (defaults.method, defaults.k)]
    best = max(tried, key=lambda trial: trial.score)
    far = NO_LIMIT[encoder.metric]
    entity, mention = (far if limit is None else limit for limit in (best.entity_threshold, best.mention_threshold))
    own_kb: dict[str, Any] = {} if linker.kb is None else {"entity_threshold": entity}
    return replace(encoder, config=replace(encoder.config, mention_threshold=mention, **own_kb))


def development_scores(data: TrainingSet, snapshot: Snapshot) -> dict[str, float]:
    """Return recall@k, with a knowledge base, and the best scores of the mentions' clusters over all thresholds."""
    mentions, entities = snapshot.mentions, snapshot.entities
    domains = [item.document.domain for item in data.inputs]
    search: dict[str, Any] = {"metric": snapshot.metric, "progress": silent}
    scores: dict[str, float] = {}
    if len(data.kb):
        grouped = GroupedEntities(entities, rows_of_entities(data.kb, None))
        groups = with_entities(domains, grouped.rows)
        candidates = nearest_within(groups, mentions, grouped, RECALL_AT[-1], **search).ids
        recall = linking_scores(*data.gold.accepted, candidates[:, 0], candidates=candidates, k=RECALL_AT).recall
        scores = {f"recall@{k}": value for k, value in recall.items()}
    near = nearest_within(among_mentions(domains), mentions, mentions, 8, **search)  # as linking finds them
    tree = merge_tree(Graph.from_neighbors(near))
    cuts = all_cuts(data.gold.classes, tree.left, tree.right, tree.height)
    curves = {"ari": cuts.ari, "b3": cuts.b3.f1, "conll": cuts.conll()}
    return scores | {name: float(np.nanmax(curve)) for name, curve in curves.items()}

"""Estimate the peak memory and the time of a job before it starts.

The memory of the process after reading the inputs is measured, and the rest is computed with factors that were measured
on two cores (`benchmarks/estimate.py`). The speeds of a transformer, of a matrix product, and of encoding and searching
names are measured on the user's machine.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from arbo.data import KnowledgeBase, MentionInput, names_of
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import indexed
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.pooling import n_vectors
from arbo.encoders.vectors import VectorEncoder
from arbo.engine import CANDIDATES, SAMPLE, Floats, Ids, Index
from arbo.linking.config import LinkerConfig
from arbo.linking.trial import name_seconds, stored_seconds, timed
from arbo.results.run_folder import GROUP
from arbo.retrieval.reranking import Reranker

MEGABYTE = 1 << 20

# Kernels, faiss, tables: memory of any job.
_ENGINE = 120 * MEGABYTE
# Bytes for a mention in graph, forest and its own table, for each of its candidates, and for each of its neighbours.
_MENTION, _CANDIDATE, _NEIGHBOR = 225, 8, 12
# Bytes for a mention, and for each of its candidates, while a group of rows is written.
_WRITTEN, _LISTED = 50, 24
# n-grams: bytes for each character of the names while the search is prepared, and afterwards.
_NGRAM_PEAK, _NGRAM_KEPT = 62, 40
# Late interaction: seconds of one core for a product of two numbers.
_LATE_SECONDS = 3e-10
# Seconds of imports and kernels, and of making the tables for a mention.
_START_SECONDS, _MENTION_SECONDS = 1.0, 8e-6
# Bytes for a pair of a mention and a candidate that a reranker scores.
_PAIR = 80
# Edge model: bytes and seconds for a pair.
_WEIGHED, _WEIGHING_SECONDS = 100, 1e-5
# Working memory of a transformer beyond its weights, on a CPU.
_TRANSFORMER = 200 * MEGABYTE
# Seconds to load a transformer, and to look up a text in the store.
_LOAD_SECONDS, _LOOKUP_SECONDS = 5, 2e-5
# Texts that are embedded to time a transformer: number of groups, and size of a group, spread from short to long.
_RUNS, _RUN = 4, 64


class Cost(NamedTuple):
    """The cost of encoding mentions or entities."""

    vectors: int
    """Number of distinct vectors; with late interaction, number of vectors of the first stage."""
    dim: int
    """Dimensions of the vectors; 0 for sparse vectors."""
    to_embed: int
    """Number of texts that a transformer has to embed, since they are not in the cache."""
    peak: int
    """Peak of additional bytes during encoding."""
    kept: int
    """Additional bytes after encoding."""
    seconds: float
    tokens: float = 0.0
    """Mean number of token vectors of a mention or entity; 0 for an encoder that pools tokens."""


class Reads(NamedTuple):
    """Pairs of a mention and another thing that a cross-encoder reads."""

    pairs: int
    things: int
    """Number of the other things."""
    read: Callable[[Ids, Ids], object]
    """Reads pairs of mentions and things, given by their indices."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Peak memory and time of a job, and the counts from which they are computed."""

    mentions: int
    distinct_mentions: int
    entities: int
    names: int
    """Number of entity vectors; an entity has one for each name, or only one, depending on the encoder."""
    dimensions: int
    """Dimensions of the vectors; 0 for sparse vectors."""
    k: int
    candidates: int
    to_embed: int
    """Number of texts that a transformer has to embed; texts in the cache do not count."""
    to_read: int
    """Number of pairs to read: at most, those that a reranker scores; about, those that learnt edges leave doubtful."""
    peak_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return all fields by name, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        minutes = self.seconds / 60
        time_ = f"{self.seconds:.0f} seconds" if minutes < 2 else f"{minutes:.0f} minutes"
        if minutes > 120:
            time_ = f"{minutes / 60:.1f} hours"
        embed = f", {self.to_embed:,} texts to embed" if self.to_embed else ""
        read = f", {self.to_read:,} pairs to read" if self.to_read else ""
        return (
            f"{self.mentions:,} mentions ({self.distinct_mentions:,} distinct), {self.entities:,} entities with "
            f"{self.names:,} vectors, k={self.k}{embed}{read}:\nabout {time_}, "
            f"peak memory about {self.peak_bytes / 1e9:.2f} GB"
        )


def estimate(
    encoder: Encoder,
    inputs: Sequence[MentionInput],
    kb: KnowledgeBase | None,
    config: LinkerConfig,
    reranker: Reranker | None = None,
    edges: Any = None,
) -> Estimate:
    """Estimate the memory and time of linking, or of discovery if ``kb`` is None; see `Linker.estimate`.

    ``edges`` is an edge model or None, see `arbo.edges.model`.
    """
    held = _resident()  # before anything is timed
    entity = _NOTHING if kb is None else entity_cost(encoder, kb)
    mention = mention_cost(encoder, inputs)
    n, k, candidates = len(inputs), config.k, config.candidates
    to_weigh, reads = edges.n_pairs(inputs, kb, k, candidates) if edges else 0, None
    within = config.mention_limit(encoder.threshold, learnt=edges is not None)
    if edges and edges.reader:
        reads = Reads(edges.n_read(inputs, k), n, partial(edges.reader.encoder.compare, inputs))
    if reranker and kb:
        to_rerank = n * (min(candidates, len(kb)) + k * config.rerank_mentions)
        reads = Reads(to_rerank, len(kb), partial(_scored, reranker, inputs, kb))
    to_read = reads.pairs if reads else 0
    reading = to_weigh * _WEIGHING_SECONDS + (_reading_seconds(reads, n) if reads and to_read else 0.0)
    listed = min(candidates, entity.vectors)
    decide = to_weigh * _WEIGHED + n * (_MENTION + _CANDIDATE * listed + _NEIGHBOR * k)
    decide += (_WRITTEN + _LISTED * listed) * min(n, GROUP)
    scaled = 0
    if mention.dim:  # a search scales a copy of its corpus, of tokens one of its queries too
        scaled = entity.kept + mention.kept if mention.tokens else max(entity.kept, mention.kept)
    stages = (
        entity.peak,
        entity.kept + mention.peak,
        entity.kept + mention.kept + _ENGINE + max(scaled, decide + (_TRANSFORMER + _PAIR * to_read if to_read else 0)),
    )
    if isinstance(encoder, NgramEncoder):
        queries = list({*names_of(inputs)})
        found = indexed(kb, encoder) if kb else None
        if found and isinstance(found[0], NgramEncoder) and isinstance(found[1], Index):
            search = stored_seconds(found[0], found[1], queries, k, candidates, within)
        else:
            search = name_seconds(encoder, kb.names().names if kb else (), queries, k, candidates, within)
    else:
        searched = mention.vectors * (entity.vectors + mention.vectors)
        search = searched * 2 * mention.dim / _flops(mention.dim) if mention.dim else 0.0
    compared = sum(
        _n_compared(mention.vectors, n_things) * cost.tokens
        for n_things, cost in ((len(kb) if kb else 0, entity), (n, mention))
    )
    search += compared * mention.tokens * mention.dim * _LATE_SECONDS / (os.cpu_count() or 1)
    return Estimate(
        mentions=n,
        distinct_mentions=mention.vectors,
        entities=0 if kb is None else len(kb),
        names=entity.vectors,
        dimensions=mention.dim,
        k=k,
        candidates=candidates,
        to_embed=entity.to_embed + mention.to_embed,
        to_read=to_read,
        peak_bytes=held + max(stages),
        seconds=_START_SECONDS + entity.seconds + mention.seconds + search + reading + n * _MENTION_SECONDS,
    )


def _n_compared(n_queries: int, n_things: int) -> int:
    """Count the pairs that are compared token by token: all, or the candidates and the sample that measures recall."""
    if n_things <= CANDIDATES:
        return n_queries * n_things
    return n_queries * CANDIDATES + min(n_queries, SAMPLE) * n_things


_NOTHING = Cost(0, 0, 0, 0, 0, 0.0)


def entity_cost(encoder: Encoder, kb: KnowledgeBase) -> Cost:
    """Return the cost of encoding the entities; for an encoder that arbo does not know, memory and time are 0."""
    if (found := indexed(kb, encoder)) and isinstance(corpus := found[1], Index):  # mapped from files: nobody waits
        return Cost(len(corpus.owners.row), 0 if corpus.is_sparse else corpus.dim, 0, 0, 0, 0.0)
    return _cost(encoder, len(kb), lambda: kb.names().names, lambda dual: dual.entity_texts(kb))


def mention_cost(encoder: Encoder, inputs: Sequence[MentionInput]) -> Cost:
    """Return the cost of encoding the mentions; for an encoder that arbo does not know, memory and time are 0."""
    names = {*names_of(inputs)}
    return _cost(encoder, len(inputs), lambda: names, lambda dual: dual.mention_texts(inputs))


def _cost(
    encoder: Encoder, n: int, names_of: Callable[[], Collection[str]], texts_of: Callable[[DualEncoder], Texts]
) -> Cost:
    if isinstance(encoder, NgramEncoder):
        names = names_of()
        characters = sum(map(len, names))  # for the seconds see `name_seconds`
        return Cost(len(names), 0, 0, characters * _NGRAM_PEAK, characters * _NGRAM_KEPT, 0.0)
    if isinstance(encoder, DualEncoder):
        return _transformer_cost(encoder, texts_of(encoder))
    return _dense_cost(encoder.dim, n) if isinstance(encoder, VectorEncoder) else _NOTHING._replace(vectors=n)


def _dense_cost(dim: int, n: int) -> Cost:
    size = 4 * n * dim
    return Cost(n, dim, 0, 3 * size, size, 0.0)


def _transformer_cost(encoder: DualEncoder, texts: Texts) -> Cost:
    """Count the texts that are not in the cache, and time a sample of short and long texts."""
    missing = encoder.missing(texts)
    cost = _dense_cost(texts.tower.dim, len(texts.keys))
    seconds = _LOAD_SECONDS / 2 + _LOOKUP_SECONDS * len(texts.row)  # entities and mentions load it once
    if not len(missing):
        return cost._replace(seconds=seconds)
    begins = [(2 * run + 1) * len(missing) // (2 * _RUNS) for run in range(_RUNS)]
    samples = [texts.spell(missing[begin : begin + _RUN]) for begin in begins]
    sampled = sum(_seconds(partial(texts.tower.embed, sample, encoder.config.pooling)) for sample in samples)
    n_sampled = sum(map(len, samples))
    seconds += sampled * len(missing) / n_sampled
    if encoder.config.pooling == "tokens":
        tokens = sum(n_vectors(row, "tokens") for sample in samples for row in sample) / n_sampled
        kept = int(cost.kept * (1 + tokens))  # and the means of the first stage
        texts_a_thing = len(texts.owner) / len(set(texts.owner))
        cost = cost._replace(kept=kept, peak=kept, tokens=tokens * texts_a_thing)
    return cost._replace(to_embed=len(missing), peak=cost.peak + _TRANSFORMER, seconds=seconds)


def _scored(reranker: Reranker, inputs: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids) -> Floats:
    return reranker.score([inputs[i] for i in mention], kb, np.arange(len(mention)), entity)


def _reading_seconds(reads: Reads, n_mentions: int) -> float:
    """Return the seconds that reading needs, timed on a sample."""
    n = min(_RUN, reads.pairs)
    mention, thing = (np.linspace(0, size - 1, n).astype(int) for size in (n_mentions, reads.things))
    return _seconds(partial(reads.read, mention, thing)) / n * reads.pairs


def _seconds(call: Callable[[], object]) -> float:
    """Time the faster of two calls: the first includes set-up, and other processes disturb."""
    return min(timed(call)[0] for _ in range(2))


def _flops(dim: int) -> float:
    a, b = np.ones((1024, dim), np.float32), np.ones((dim, 2048), np.float32)
    return 2 * a.shape[0] * dim * b.shape[1] / _seconds(lambda: a @ b)


def _resident() -> int:
    """Return the resident memory of the process in bytes; 0 if the system does not report it."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * resource.getpagesize()
    except (ImportError, OSError):
        return 0

"""Linking and discovery search mentions within the mention threshold only; the partition is that of complete lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import Sample

import arbo
from arbo import Document, Entity, Linker, LinkerConfig, Mention
from arbo.data import MentionInput
from arbo.data.corpus import Corpus
from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.by_name import VectorEncoder
from arbo.progress import Announce, quiet
from arbo.retrieval.retrieval import Mentions, Retrieval, SearchSettings, retrieve
from clustering import METHODS, Method
from clustering.vectors import Metric, Vectors

N, DOMAINS = 150, (None, "lego", "yugioh")
SETTINGS = Linker._search_settings


class Sparse(VectorEncoder):
    """The same vectors in sparse form."""

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        return sparse(super().encode_mentions(mentions, announce))

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        return sparse(super().encode_entities(kb, announce))


def sparse(dense: Vectors) -> Vectors:
    return Vectors(sp.csr_array(dense.matrix), dense.row, dense.owner, dense.n)


def problem(form: type[VectorEncoder], metric: Metric, seed: int) -> tuple[Corpus, KnowledgeBase, VectorEncoder]:
    """Make mentions and entities of several domains; few small integers make many ties and equal vectors."""
    rng = np.random.default_rng(seed)
    domain = [DOMAINS[i] for i in rng.integers(0, len(DOMAINS), N)]
    documents = [
        Document(f"d{i}", "word", (Mention(f"m{i}", f"d{i}", ((0, 4),), "word"),), domain[i]) for i in range(N)
    ]
    entities = KnowledgeBase(Entity(f"E{i}", f"entity {i}", domain=domain[i]) for i in range(25))
    drawn = rng.integers(0, 3, (N + 25, 5)).astype(np.float32)
    return Corpus(documents), entities, form(drawn[:N], drawn[N:], metric)


def searched(linker: Linker, corpus: Corpus, k: int, *, discover: bool = False) -> Retrieval:
    linker = linker.configured(kb=None, _entities=None) if discover else linker
    mentions = linker._mentions(corpus, np.arange(len(corpus.mentions)))
    settings = linker._search_settings(mentions, k, within_threshold=True)
    return linker._weighed(retrieve(mentions, settings, quiet, linker._search_all), k)


def of_whole(linker: Linker, mentions: Mentions, k: int, *, within_threshold: bool, **how: Any) -> SearchSettings:
    """Search without the mention threshold."""
    return SETTINGS(linker, mentions, k, **how)


def decided(linker: Linker, corpus: Corpus, *, discover: bool) -> tuple[Any, ...]:
    result = linker.discover(corpus) if discover else linker.link(corpus)
    told = {name: value for name, value in result.manifest.items() if name not in ("seconds", "search")}
    return result.mention_table, result.link_table, result.cluster_table, result.entity_table, told


@pytest.mark.parametrize(("discover", "method"), [(True, "minimax"), *((False, method) for method in METHODS)])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("form", [VectorEncoder, Sparse])
def test_the_partition_is_that_of_complete_lists(
    form: type[VectorEncoder], metric: Metric, method: Method, discover: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At thresholds that some edges have exactly, and just below and above them; discovery is one for all methods."""
    corpus, kb, encoder = problem(form, metric, 1)
    whole = Linker(kb, encoder).retrieve(corpus, k=6)
    there = whole.mentions.dissimilarity[np.isfinite(whole.mentions.dissimilarity)]
    n_shorter = 0
    for quantile in (0.02, 0.3, 0.7):
        at = float(np.quantile(there, quantile, method="inverted_cdf"))
        assert (there == np.float32(at)).sum() > 1
        for limit in (at, float(np.nextafter(np.float32(at), np.float32(-9))), at + 1e-12, at - 1e-12):
            config = LinkerConfig(method=method, k=6, entity_threshold=float(np.median(there)), mention_threshold=limit)
            linker = Linker(kb, encoder, config)
            found = searched(linker, corpus, 6, discover=discover)
            assert found.within == limit
            listed = found.mentions.dissimilarity[np.isfinite(found.mentions.dissimilarity)]
            assert (listed <= np.float32(limit)).all()
            np.testing.assert_array_equal(found.entities.ids, whole.entities.ids[:, : found.entities.ids.shape[1]])
            n_shorter += int((found.mentions.ids < 0).sum() > (whole.mentions.ids < 0).sum())
            within = decided(linker, corpus, discover=discover)
            with monkeypatch.context() as patch:
                patch.setattr(Linker, "_search_settings", of_whole)
                assert searched(linker, corpus, 6, discover=discover).within is None
                assert decided(linker, corpus, discover=discover) == within
    assert n_shorter > 6


@pytest.mark.parametrize("method", METHODS)
def test_the_sample_too(sample: Sample, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    linker = Linker(kb, config=LinkerConfig(method=method))
    both = [decided(linker, documents, discover=discover) for discover in (False, True)]
    monkeypatch.setattr(Linker, "_search_settings", of_whole)
    assert [decided(linker, documents, discover=discover) for discover in (False, True)] == both


def test_the_run_records_the_limit_and_earlier_runs_stay_readable(sample: Sample, tmp_path: Path) -> None:
    result = Linker(config=LinkerConfig(mention_threshold=0.25)).discover(sample[0])
    assert result.manifest["search"]["within"] == result.manifest["threshold"]["mention"] == 0.25
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").manifest["search"]["within"] == 0.25
    del result.manifest["search"]["within"]
    result.save(tmp_path / "earlier")
    earlier = arbo.Result.load(tmp_path / "earlier")
    assert earlier.link_table == result.link_table
    str(earlier.explain(earlier.links[0]))


def test_complete_lists_where_edges_beyond_the_threshold_count(sample: Sample) -> None:
    documents, kb = sample
    for linker in (
        Linker(kb, config=LinkerConfig(nil_linkage="average")),
        Linker(kb, config=LinkerConfig(mention_threshold=None)),
        Linker(kb, edges="english"),
    ):
        few = documents[:20]
        found, whole = searched(linker, few, 4), linker.retrieve(few, k=4)
        assert found.within is None
        np.testing.assert_array_equal(found.mentions.ids, whole.mentions.ids)
        assert linker.link(few).manifest["search"]["within"] is None
    assert Linker(kb).retrieve(few, k=4).within is None, "tuning needs all"

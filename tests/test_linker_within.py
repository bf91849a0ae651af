"""Linking and discovery search mentions within the mention threshold only; the partition is that of complete lists."""

from typing import Any

import numpy as np
import pytest
from conftest import Sample
from histories import LettersEncoder

from arbo import Linker, LinkerConfig, NgramEncoder
from arbo.data.corpus import Corpus
from arbo.progress import quiet
from arbo.retrieval.retrieval import Mentions, Retrieval, SearchSettings, retrieve
from clustering import METHODS, Method

SETTINGS = Linker._search_settings


def searched(linker: Linker, corpus: Corpus, k: int) -> Retrieval:
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("encoder", [NgramEncoder(), LettersEncoder({}, {}, "cosine"), LettersEncoder({}, {}, "dot")])
def test_the_partition_is_that_of_complete_lists(
    sample: Sample, encoder: Any, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At thresholds that some edges have exactly, and just below and above them."""
    documents, kb = sample[0][:30], sample[1]
    linker = Linker(kb, encoder, LinkerConfig(method=method, k=6, mention_threshold=None))
    whole = linker.retrieve(documents, k=6).mentions
    there = whole.dissimilarity[np.isfinite(whole.dissimilarity)]
    for quantile in (0.3, 0.7):
        at = float(np.quantile(there, quantile, method="inverted_cdf"))
        for limit in (at, float(np.nextafter(np.float32(at), np.float32(-9))), at + 1e-12, at - 1e-12):
            limited = linker.configured(config=LinkerConfig(method=method, k=6, mention_threshold=limit))
            found = searched(limited, documents, 6)
            assert found.within == limit
            assert (found.mentions.ids < 0).sum() > (whole.ids < 0).sum()
            assert limited.link(documents).manifest["search"]["within"] == limit
            within = [decided(limited, documents, discover=discover) for discover in (False, True)]
            with monkeypatch.context() as patch:
                patch.setattr(Linker, "_search_settings", of_whole)
                assert searched(limited, documents, 6).within is None
                assert [decided(limited, documents, discover=discover) for discover in (False, True)] == within


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

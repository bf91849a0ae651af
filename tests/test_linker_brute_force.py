"""The linker's decisions against a brute-force computation, on the sample."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from builders import linker
from conftest import Sample
from scipy.sparse.csgraph import minimum_spanning_tree

import arbo
from arbo.data import mention_inputs
from clustering import METHODS, Method


class Truth(NamedTuple):
    """Cosines of the sample's mentions, computed densely."""

    row: dict[str, int]
    entity: np.ndarray
    """(mentions, entities), of an entity's several names the best."""
    mention: np.ndarray
    """(mentions, mentions)."""


@pytest.fixture(scope="module")
def truth(sample: Sample) -> Truth:
    documents, kb = sample
    encoder = arbo.NgramEncoder().fit(kb.names().names)
    encoded = (
        encoder.encode_entities(kb),
        encoder.encode_mentions(mention_inputs(documents, expand_abbreviations=True)),
    )
    used = np.unique(np.concatenate([vectors.matrix.indices for vectors in encoded]))
    names, mentions = (vectors.matrix[:, used].toarray().astype(np.float64)[vectors.row] for vectors in encoded)
    names, mentions = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (names, mentions))
    entity = np.full((len(mentions), len(kb)), -np.inf)
    np.maximum.at(entity.T, encoded[0].owner, names @ mentions.T)
    row = {mention.id: i for i, mention in enumerate(documents.mentions)}
    return Truth(row, entity, mentions @ mentions.T)


CLOSE = 2e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", ["default", None])
def test_every_figure_of_a_link_is_what_it_says(
    sample: Sample, truth: Truth, method: Method, limit: str | None
) -> None:
    documents, kb = sample
    k = 4
    result = linker(kb, method=method, k=k, entity_threshold=limit, mention_threshold=limit).link(documents)
    most = result.manifest["threshold"]
    ranked = -np.sort(-truth.entity, axis=1)
    np.fill_diagonal(others := truth.mention.copy(), -np.inf)
    nearest = -np.sort(-others, axis=1)
    ids, scores = np.moveaxis([[(kb.index(id_), score) for id_, score in one.candidates] for one in result.links], 2, 0)
    np.testing.assert_allclose(scores, ranked[:, :16], atol=CLOSE)
    np.testing.assert_allclose(np.take_along_axis(truth.entity, ids.astype(int), axis=1), scores, atol=CLOSE)
    for i, link in enumerate(result.links):
        lead = ranked[i, 0] - ranked[i, 1]
        assert lead == pytest.approx(link.margin or 0, abs=CLOSE)  # none where spelling decided
        if link.entity is None:
            assert (link.score, link.parent, link.step) == (None, None, None)
            assert link.bottleneck == np.inf
            assert ranked[i, 0] <= 1 - most["entity"] + CLOSE
        else:
            steps, at = [link.step], link
            while at.parent_is_mention:
                at = result.link_of(str(at.parent))
                steps.append(at.step)
            assert at.parent == link.entity == link.cluster
            assert link.bottleneck == max(steps)
            assert link.score == pytest.approx(truth.entity[i, kb.index(link.entity)], abs=CLOSE)
        if link.parent is not None and link.parent_is_mention:
            cosine = others[i, truth.row[link.parent]]
            if method != "undirected":
                assert cosine >= nearest[i, k - 1] - CLOSE  # one of its k nearest
            assert link.step == pytest.approx(1 - cosine, abs=CLOSE)
            assert link.step <= most["mention"] + CLOSE
        elif link.parent is not None:
            assert link.parent == link.entity
            assert link.step == pytest.approx(1 - ranked[i, 0], abs=CLOSE)  # its nearest entity
            assert link.step <= most["entity"] + CLOSE


@pytest.mark.parametrize("method", METHODS)
def test_discovered_clusters_hang_together(sample: Sample, truth: Truth, method: Method) -> None:
    documents, kb = sample
    result = linker(kb, method=method).link(documents)
    limit = result.manifest["threshold"]["mention"]
    sizes = [len(cluster.mentions) for cluster in result.discovered]
    assert all(one >= other for one, other in pairwise(sizes))
    assert max(sizes) > 1
    for cluster in result.discovered:
        rows = [truth.row[mention.id] for mention in cluster.mentions]
        if len(rows) == 1:
            assert cluster.weakest_join is None
            continue
        within = 1 - truth.mention[np.ix_(rows, rows)]
        assert cluster.weakest_join <= limit + CLOSE
        assert np.abs(within - cluster.weakest_join).min() < CLOSE  # the weight of one of its edges
        lightest = minimum_spanning_tree(1 + within)  # 1, as no weight may be 0
        assert lightest.data.max() <= 1 + cluster.weakest_join + CLOSE


def test_complete_lists_where_edges_beyond_the_threshold_count(sample: Sample) -> None:
    documents, kb = sample
    for own in (
        arbo.Linker(kb, config=arbo.LinkerConfig(nil_linkage="average")),
        arbo.Linker(kb, config=arbo.LinkerConfig(mention_threshold=None)),
        arbo.Linker(kb, edges="english"),
    ):
        few = documents[:20]
        assert own.link(few).manifest["search"]["within"] is None
    assert arbo.Linker(kb).retrieve(few, k=4).within is None, "tuning needs all"

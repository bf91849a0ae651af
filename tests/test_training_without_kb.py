"""Training on gold clusters: without a knowledge base, and of mentions whose entity the knowledge base lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import encoder

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training.config import WITHOUT_KB
from arbo.training.data import TrainingSet
from arbo.training.dual.plan import Plan
from arbo.training.dual.snapshot import Snapshot
from arbo.training.dual.trainer import train
from clustering.vectors import Vectors

KB = arbo.KnowledgeBase([arbo.Entity("E0", "fever"), arbo.Entity("E1", "cold")])
SMALL = replace(WITHOUT_KB, loss="arborescence", epochs=2, batch_size=8, learning_rate=1e-3, warmup=0.0)


def corpus(*rows: tuple[Any, str | None], domain: str | None = None, name: str = "d") -> arbo.Corpus:
    """Make a document with a mention of each pair of gold ids and gold cluster."""
    text = " ".join(f"w{i:02}" for i in range(len(rows)))
    mentions = tuple(
        arbo.Mention(f"{name}{i}", name, ((4 * i, 4 * i + 3),), f"w{i:02}", gold=gold, cluster=cluster)
        for i, (gold, cluster) in enumerate(rows)
    )
    return arbo.Corpus([arbo.Document(name, text, mentions, domain)])


def clusters(data: TrainingSet) -> list[list[int]]:
    """Return the mentions of each group that is trained on."""
    groups = [np.flatnonzero(data.cluster == number).tolist() for number in np.unique(data.cluster[data.cluster >= 0])]
    return sorted(groups)


def test_gold_ids_or_clusters_are_the_clusters() -> None:
    rows = [(("A",), "c"), (("A",), None), (None, "c"), (None, "c"), ((), "z"), (None, None), (("B", "A"), None)]
    data = TrainingSet.of(corpus(*rows), arbo.KnowledgeBase(), clusters=True)
    assert len(data.inputs) == 6
    assert clusters(data) == [[0, 1], [2, 3]]  # the last but one is alone, the last has other ids
    apart = [[bool(data.rivals.are_apart(np.array([a]), np.array([b]))[0]) for b in range(6)] for a in range(6)]
    assert {(a, b) for a in range(6) for b in range(a + 1, 6) if apart[a][b]} == {(m, 4) for m in range(4)} | {(4, 5)}


def test_domains_have_clusters_of_their_own() -> None:
    rows = [(("A",), None), (("A",), None)]
    documents = [*corpus(*rows, domain="a", name="d"), *corpus(*rows, domain="b", name="e")]
    data = TrainingSet.of(arbo.Corpus(documents), arbo.KnowledgeBase(), clusters=True)
    assert clusters(data) == [[0, 1], [2, 3]]


def test_a_knowledge_base_and_clusters_that_it_lacks() -> None:
    rows = [(("E0",), "c"), (("E0",), None), (("X",), None), (("X",), None), (None, "k"), (None, "k"), (None, "c")]
    documents = corpus(*rows)
    without = TrainingSet.of(documents, KB)
    assert len(without.inputs) == 4
    assert without.queries.tolist() == [0, 1]
    data = TrainingSet.of(documents, KB, clusters=True)
    assert clusters(data) == [[0, 1], [2, 3], [4, 5]]
    assert data.cluster[:2].tolist() == [0, 0]
    assert data.classes[6] not in data.classes[:6]
    mention, entity = np.array([6, 6, 4]), np.array([0, 1, 0])
    assert data.rivals.is_wrong(mention, entity).tolist() == [False, True, True]  # its chain has the entity


def test_negatives_without_entities_are_mentions() -> None:
    rows = [(("A",), None), (("A",), None), (("B",), None), (None, "c"), (None, "c")]
    data = TrainingSet.of(corpus(*rows), arbo.KnowledgeBase(), clusters=True)
    mentions = Vectors.of(np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.5, 0.5], [0.0, 1.0]]))
    snapshot = Snapshot(Vectors.of(np.zeros((0, 2)), n=0), mentions, data.cluster, "dot")
    plan = Plan.of(data, snapshot, replace(WITHOUT_KB, n_negatives=3), 0)
    assert plan.positive.tolist() == [1, 0, -1, 4, 3]
    assert [sorted(row) for row in plan.negative[data.queries].tolist()] == [[2, 3, 4], [2, 3, 4], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"positives": "entity"}, "positives 'entity' needs a knowledge base; without one, choose 'arborescence'"),
        ({"negatives": "mixed"}, "negatives 'mixed' needs a knowledge base"),
        ({"best": "recall@1"}, "best 'recall@1' needs a knowledge base; without one, choose 'ari'"),
    ],
)
def test_settings_that_need_a_knowledge_base(bert: Tower, tmp_path: Path, changes: Any, told: str) -> None:
    documents = corpus((("A",), None), (("A",), None))
    with pytest.raises(UsageError, match=told):
        train(encoder(bert), documents, out=tmp_path / "m", config=replace(WITHOUT_KB, **changes))
    assert not list(tmp_path.iterdir())


def test_encoders_that_need_a_knowledge_base(bert: Tower, tmp_path: Path) -> None:
    documents = corpus((("A",), None), (("A",), None))
    with pytest.raises(UsageError, match="the pooling 'tokens' gives one per token; choose another pooling"):
        train(encoder(bert, pooling="tokens"), documents, out=tmp_path / "m")
    with pytest.raises(UsageError, match="a tower for entities"):
        train(encoder(bert).with_two_towers(), documents, out=tmp_path / "m")


def test_no_cluster_of_two_mentions(bert: Tower, tmp_path: Path) -> None:
    documents = corpus((("A",), None), (None, "A2"), (None, None))
    with pytest.raises(DataError, match="nothing to train on: no two of 2 annotated mentions"):
        train(encoder(bert), documents, out=tmp_path / "m")
    with pytest.raises(DataError, match="none of 1 mentions is annotated with a gold id or gold cluster"):
        train(encoder(bert), corpus((None, None)), out=tmp_path / "m")
    both = corpus((("A",), None), (("A",), None))
    with pytest.raises(DataError, match="nothing to choose the best model by: no two"):
        train(encoder(bert), both, dev=documents, out=tmp_path / "m")

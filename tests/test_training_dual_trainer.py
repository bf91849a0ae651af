"""Training of dual-encoders from end to end: it learns, repeats, and keeps the best model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from training_builders import QUICK, encoder, log_of, torch

import arbo
from arbo.data.inputs import mention_inputs
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training import loop
from arbo.training.config import NegativeStrategy, PositiveStrategy
from arbo.training.data import Snapshot, TrainingSet
from arbo.training.dual import trainer as dual
from arbo.training.dual.trainer import development_scores, train
from arbo.training.presets import PRESETS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


def test_a_tiny_model_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    reads = arbo.EncoderConfig.in_context(max_length=48, context=5, pooling="mention", metric="cosine")
    start = arbo.DualEncoder(bert, bert, reads).with_markers()
    config = replace(PRESETS["arboel"].training, n_negatives=6, epochs=3, batch_size=32, learning_rate=1e-3)
    trained = train(start, documents[:60], kb, out=tmp_path / "model", dev=documents[60:], config=config)

    def recall(model: arbo.DualEncoder) -> float:
        linking = arbo.Linker(kb, model).link(documents[60:]).evaluate().linking
        assert linking is not None
        return linking.recall[1]

    assert recall(trained) > recall(start) + 0.1
    again = arbo.DualEncoder.from_pretrained(tmp_path / "model")
    assert recall(again) == recall(trained)
    assert again.config.entity_threshold is not None
    best = max(line["recall@1"] for line in log_of(tmp_path / "model") if "recall@1" in line)
    assert best == pytest.approx(recall(trained), abs=1e-9)


@pytest.mark.parametrize("positives", get_args(PositiveStrategy))
@pytest.mark.parametrize("negatives", get_args(NegativeStrategy))
def test_all_parts_go_together(
    bert: Tower, tmp_path: Path, sample: Any, positives: PositiveStrategy, negatives: NegativeStrategy
) -> None:
    documents, _, kb = sample
    config = replace(QUICK, positives=positives, negatives=negatives, batch_size=8, steps=2)
    train(encoder(bert), documents[:6], kb, out=tmp_path / "model", config=config)
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))


@pytest.mark.parametrize("negatives", get_args(NegativeStrategy))
def test_tokens_are_trained_with_all_negatives(bert: Tower, tmp_path: Path, sample: Any, negatives: Any) -> None:
    documents, dev, kb = sample
    config = replace(QUICK, negatives=negatives, batch_size=8, steps=2, scale=1.0, loss="bce", mixup=0.3)
    run = partial(train, encoder(bert, pooling="tokens", metric="dot"), documents[:4], kb, dev=dev[:3], config=config)
    trained = run(out=tmp_path / "model")
    assert trained.config.pooling == "tokens"
    assert all(line["loss"] > 0 and line["gradient"] > 0 for line in log_of(tmp_path / "model"))
    again = arbo.Linker(kb, arbo.DualEncoder.from_pretrained(tmp_path / "model"))
    assert again.link(dev[:3]).link_table == arbo.Linker(kb, trained).link(dev[:3]).link_table


@pytest.mark.parametrize("positives", [name for name in get_args(PositiveStrategy) if name != "entity"])
def test_trees_of_mentions_need_one_vector_of_each(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, positives: Any
) -> None:
    documents, _, kb = sample
    monkeypatch.setattr(Tower, "encode", lambda *given: pytest.fail("something was read"))
    with pytest.raises(UsageError, match=f"positives '{positives}' .*; choose positives 'entity', or another pooling"):
        train(
            encoder(bert, pooling="tokens"),
            documents,
            kb,
            out=tmp_path / "m",
            config=replace(QUICK, positives=positives),
        )
    assert not list(tmp_path.iterdir())


def test_what_a_look_embedded_is_not_embedded_again(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, dev, kb = sample
    embed, scores = Tower.embed, iter([0.1, 0.3, 0.2])
    n_texts: list[int] = []  # since the last event
    events: list[tuple[str, int]] = []

    def watched(tower: Tower, rows: Any, *given: Any, **named: Any) -> Any:
        n_texts.append(len(rows))
        return embed(tower, rows, *given, **named)

    def noted(owner: Any, name: str) -> None:
        act = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            result = act(*given, **named)
            events.append((name, sum(n_texts)))
            n_texts.clear()
            return result

        monkeypatch.setattr(owner, name, call)

    kept = []
    monkeypatch.setattr(Tower, "embed", watched)
    monkeypatch.setattr(dual, "development_scores", lambda *_: {"recall@1": next(scores)})
    for owner, name in ((Snapshot, "of"), (dual, "_with_thresholds")):
        noted(owner, name)
    save = loop.save_checkpoint

    def saved(folder: Path, *given: Any) -> None:
        save(folder, *given)
        kept.append(sorted(int(path.name) for path in (folder / "embeddings").iterdir()))

    monkeypatch.setattr(loop, "save_checkpoint", saved)
    config = replace(QUICK, epochs=3, batch_size=10**6, negatives="knn")
    train(encoder(bert), documents[:4], kb, dev=dev[:5], out=tmp_path / "model", config=config)
    n_names = len({name.casefold() for name in kb.names().names})
    assert [name for name, _ in events] == ["of"] * 6 + ["_with_thresholds"]
    numbers = [number for _, number in events]
    for whole in (0, 1, 3, 5):  # the first plan, and each look
        assert numbers[whole] > n_names / 2
    for found in (2, 4):  # the other plans have mentions of their own to embed
        assert numbers[found] <= len(TrainingSet.of(arbo.Corpus.of(documents[:4]), kb).inputs)
    assert numbers[6] == 0
    assert kept == [[1], [2], [2, 3]]


BARE = [{"id": "d", "text": "fever", "mentions": [{"spans": [[0, 5]]}]}]
OTHER = arbo.KnowledgeBase([arbo.Entity("Z1", "nothing of the kind")])


@pytest.mark.parametrize(
    ("documents", "kb", "domain", "wrong"),
    [
        (BARE, None, None, r"nothing to train on: no mention \(of 1\) has a gold id"),
        (None, OTHER, None, "nothing to train on"),
        (None, None, "elsewhere", "nothing to choose the best model by"),
    ],
)
def test_nothing_to_learn(
    bert: Tower, tmp_path: Path, sample: Any, documents: Any, kb: Any, domain: Any, wrong: str
) -> None:
    dev = [replace(document, domain=domain) for document in sample[1]]
    with pytest.raises(DataError, match=wrong):
        train(encoder(bert), documents or sample[0], kb or sample[2], dev=dev, out=tmp_path / "model", config=QUICK)


def test_domains_keep_to_themselves(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, _, kb = sample
    two = arbo.KnowledgeBase(
        [replace(entity, id=f"{domain}{entity.id}", domain=domain) for domain in "ab" for entity in kb]
    )

    def of(documents: Iterable[arbo.Document], domain: str, ids: str) -> list[arbo.Document]:
        return [
            replace(
                document,
                id=f"{domain}{ids}{document.id}",
                domain=domain,
                mentions=tuple(
                    replace(
                        mention,
                        id=f"{domain}{ids}{mention.id}",
                        document_id=f"{domain}{ids}{document.id}",
                        gold=None if mention.gold is None else tuple(f"{ids}{id_}" for id_ in mention.gold),
                    )
                    for mention in document.mentions
                ),
            )
            for document in documents
        ]

    alone = TrainingSet.of(arbo.Corpus.of(of(documents, "a", "a")), two)
    data = TrainingSet.of(
        arbo.Corpus.of([*of(documents, "a", "a"), *of(documents, "b", "b"), *of(documents, "a", "b")]), two
    )
    n = len(alone.inputs)
    assert (data.entity[:n] == alone.entity).all()
    assert (data.entity[n : 2 * n] == np.where(alone.entity < 0, -1, alone.entity + len(kb))).all()
    assert (data.entity[2 * n :] == -1).all()  # what they are of is in another domain
    scores = [development_scores(some, Snapshot.of(some, encoder(bert))) for some in (alone, data)]
    in_one = TrainingSet.of(arbo.Corpus.of(documents), kb)
    assert scores[0] == development_scores(in_one, Snapshot.of(in_one, encoder(bert)))
    for k in (1, 64):
        assert scores[1][f"recall@{k}"] == pytest.approx(scores[0][f"recall@{k}"] * 2 / 3)
    config = replace(QUICK, positives="arborescence", negatives="knn", steps=2)
    train(encoder(bert), of(documents, "b", "b"), two, out=tmp_path / "model", config=config)


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_each_precision_in_one_process_from_weights_of_any(
    bert: Tower, bert_folder: Path, tmp_path: Path, sample: Any, precision: Any
) -> None:
    documents, _, kb = sample
    coarse = arbo.DualEncoder.from_pretrained(bert_folder, device="cpu", precision="bfloat16")
    config = replace(QUICK, steps=2, precision=precision)
    trained = train(coarse, documents, kb, out=tmp_path / "model", config=config)
    assert {value.dtype for value in trained.module.parameters()} == {torch.float32}
    figures = log_of(tmp_path / "model")
    train(encoder(bert), documents, kb, out=tmp_path / "fine", config=replace(config, precision="float32"))
    losses = [[line["loss"] for line in lines] for lines in (figures, log_of(tmp_path / "fine"))]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_the_thresholds_are_those_that_linking_does_best_with(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    trained = train(encoder(bert), documents, kb, dev=dev, out=tmp_path / "model", config=replace(QUICK, steps=2))
    tuning = arbo.Linker(kb, trained).tune(dev).tuning
    assert tuning is not None
    own = arbo.LinkerConfig()
    best = max(trial.score for trial in tuning.trials if (trial.method, trial.k) == (own.method, own.k))
    assert arbo.Linker(kb, trained).link(dev).evaluate().accuracy_with_nil == pytest.approx(best)


def test_one_entity_with_one_mention(bert: Tower, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")])
    mention = arbo.Mention("m", "d", ((0, 5),), "marsh", gold=("E1",))
    documents = [arbo.Document("d", "marsh", (mention,))]
    for negatives in get_args(NegativeStrategy):
        config = replace(QUICK, positives="arborescence", negatives=negatives)
        train(encoder(bert), documents, kb, dev=documents, out=tmp_path / negatives, config=config)
        assert log_of(tmp_path / negatives)[-1]["loss"] == 0  # nothing to be pushed away from


def test_what_the_start_embeds_comes_from_its_cache(
    bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, kb = arbo.load_sample()
    start = arbo.DualEncoder.from_pretrained(bert_folder, cache=tmp_path / "cache")
    start.encode_entities(kb)
    start.encode_mentions(mention_inputs(documents, expand_abbreviations=True))
    embedded: list[int] = []
    embed = Tower.embed
    monkeypatch.setattr(
        Tower, "embed", lambda self, rows, *more: embedded.append(len(rows)) or embed(self, rows, *more)
    )
    config = replace(PRESETS["arboel"].training, steps=1, batch_size=4, micro_batch=4, n_negatives=2)
    arbo.train(start, documents, kb, config=config, out=tmp_path / "model")
    assert not sum(embedded)

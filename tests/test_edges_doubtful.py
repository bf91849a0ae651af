"""Doubtful pairs of learnt edges: what a cross-encoder reads of them, how its score counts, and its training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import passage
from conftest import Run
from scipy.special import expit
from training_builders import Killed, dying

import arbo
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.edges.doubtful import Reader, doubtful
from arbo.edges.model import CROSS, EdgeModel
from arbo.encoders.cross import CrossEncoder, PairConfig, PairEncoder
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training.config import DoubtfulConfig
from arbo.training.doubtful import unseen
from arbo.training.pairs import Compared

QUICK = DoubtfulConfig(steps=4, batch_size=8, micro_batch=3, pairs=100, learning_rate=1e-3)


def encoder(bert: Tower) -> PairEncoder:
    return PairEncoder.of(bert, PairConfig(max_length=60)).with_markers()


def mentions(text: str, *names: str) -> list[MentionInput]:
    return mention_inputs(arbo.Corpus([passage("d", text, *names)]), expand_abbreviations=False)


# How its score counts


def test_factors_are_those_of_a_logistic_regression_and_nothing_jumps(bert: Tower) -> None:
    rng = np.random.default_rng(0)
    log_odds, scores = rng.uniform(-1.9, 1.9, 4000), rng.normal(size=4000).astype(np.float32)
    correct = rng.random(4000) < expit(0.5 + 0.7 * log_odds + 2 * scores)
    own = encoder(bert)
    reader = Reader.fit(own, log_odds, scores, correct)
    assert np.allclose(reader.factors, (0.5, -0.3, 2), atol=0.2)
    given = mentions("the fever of marsh patients", "fever", "marsh")
    near = np.log(19) + np.array([1e-6, -1e-6, -0.5, -1, -1.5])
    pairs = np.zeros(5, np.int64), np.ones(5, np.int64)
    change = reader.change(given, *pairs, near)
    score = own.compare(given, *(side[:1] for side in pairs))[0]
    expected = np.array([0, 0, 0.5, 1, 1]) * (reader.factors @ np.array([np.ones(5), near, np.full(5, score)]))
    np.testing.assert_allclose(change, expected, atol=1e-4)
    assert doubtful(np.array([-3, -2.9, 0, np.nan, 2.9, 3])).tolist() == [1, 2, 4]


# Training, and the model


@pytest.fixture(scope="module")
def folder(bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("doubtful") / "edges"
    with pytest.raises(Killed):
        train(bert_folder, out, announce=dying(3))
    assert out.with_name("edges.training").is_dir()
    train(bert_folder, out)
    return out


def train(start: Path, out: Path, **options: object) -> EdgeModel:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(**options)  # type: ignore[arg-type]
    return arbo.train_edges(documents[:60], documents[60:70], kb, linker=linker, cross=start, out=out, config=QUICK)


@pytest.fixture(scope="module")
def model(folder: Path) -> EdgeModel:
    return EdgeModel.load(folder)


def test_only_doubtful_pairs_have_other_weights(model: EdgeModel) -> None:
    documents, _ = arbo.load_sample()
    pairs = Compared.of(arbo.Linker(), documents[70:80])
    inputs, log_odds = pairs.retrieval.inputs, model.mentions.scores(pairs.features)
    trees = replace(model, reader=None)
    weights = [own.weights(inputs, pairs.facts, pairs.first, pairs.second) for own in (model, trees)]
    differing = np.flatnonzero(weights[0] != weights[1])
    assert 0 < len(differing) < len(log_odds)
    assert set(differing) <= set(doubtful(log_odds))
    assert model.settings["fingerprint"] != trees.settings["fingerprint"]
    assert model.trained["cross"]["pairs"] == 100


def test_explanations_name_the_cross_encoder(model: EdgeModel) -> None:
    documents, _ = arbo.load_sample()
    assert model.reader is not None
    loud = replace(model, reader=replace(model.reader, factors=(20.0, 0.0, 0.0)))
    result = arbo.Linker(edges=loud).discover(documents[60:70])
    told = [link.reasons[0] for link in result.links if link.reasons]
    assert any(name == CROSS and 0 < share <= 20 for name, share in told)


def test_a_model_is_a_folder_that_refuses_damage(folder: Path, model: EdgeModel, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    model.save(copy)
    assert EdgeModel.load(copy).settings == model.settings
    assert EdgeModel.load(copy).mentions.as_dict() == model.mentions.as_dict()
    with pytest.raises(DataError, match="an edge model with a cross-encoder, not a cross-encoder"):
        CrossEncoder.from_pretrained(copy)
    with pytest.raises(DataError, match="needs the cross-encoder beside it; give the folder"):
        EdgeModel.load(copy / "edges.json")
    file = copy / "edges.json"
    file.write_text(file.read_text("utf-8").replace('"slope": ', '"slope": 1'), "utf-8")
    with pytest.raises(DataError, match="changed after it was written"):
        EdgeModel.load(copy)
    file.unlink()
    with pytest.raises(DataError, match="missing"):
        EdgeModel.load(copy)
    with pytest.raises(UsageError, match="not a model folder of arbo"):
        model.save(folder.parent)


def test_what_a_cross_encoder_needs(bert_folder: Path, tmp_path: Path) -> None:
    documents, _ = arbo.load_sample()
    with pytest.raises(UsageError, match="name the folder: out="):
        arbo.train_edges(documents, documents, cross=bert_folder)
    with pytest.raises(UsageError, match="starts from a transformer"):
        arbo.train_edges(documents, documents, cross="ngram", out=tmp_path / "edges")
    one = Compared.of(arbo.Linker(), documents[:1])
    with pytest.raises(DataError, match="both halves of the training documents"):
        unseen(one, one)


def test_trees_that_choose_pairs_have_not_seen_them() -> None:
    documents, _ = arbo.load_sample()
    halved = arbo.Corpus(
        replace(document, metadata={"topic": place % 2}) for place, document in enumerate(documents[:20])
    )
    pairs = Compared.of(arbo.Linker(), halved)
    log_odds = unseen(pairs, pairs)
    topic = np.array([item.document.metadata["topic"] for item in pairs.retrieval.inputs])
    assert (np.isnan(log_odds) == (topic[pairs.first] != topic[pairs.second])).all()
    seen = np.flatnonzero(topic[pairs.first] + topic[pairs.second] == 0)
    swapped = pairs._replace(correct=np.where(topic[pairs.first] == 0, pairs.correct[::-1], pairs.correct))
    np.testing.assert_array_equal(unseen(swapped, pairs)[seen], log_odds[seen])


def test_the_command_line_trains_and_uses_it(
    bert_folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arbo.training.edges.DoubtfulConfig", lambda: QUICK)
    documents, _ = arbo.load_sample()
    documents[:60].to_jsonl(tmp_path / "train.jsonl")
    documents[60:70].to_jsonl(tmp_path / "dev.jsonl")
    out, dev = tmp_path / "edges", tmp_path / "dev.jsonl"
    trained = run("train", "edges", tmp_path / "train.jsonl", "--dev", dev, "--cross", bert_folder, "--out", out)
    assert (trained.code, f"written to {out}" in trained.out) == (0, True)
    assert run("discover", dev, "--edges", out, "--out", tmp_path / "run").code == 0
    assert arbo.Result.load(tmp_path / "run").manifest["encoder"]["edges"]["cross"]["model"] == str(bert_folder)

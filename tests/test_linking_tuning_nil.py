"""Tuning for NIL: the F1 of the NIL decisions, as `eval` computes it, at every threshold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import document, save_data
from conftest import Run

import arbo
from eval import nil_curve


@pytest.fixture(scope="module")
def dev() -> arbo.Corpus:
    return arbo.load_sample()[0][:30]


@pytest.fixture(scope="module")
def kb() -> arbo.KnowledgeBase:
    return arbo.load_sample()[1]


@pytest.fixture(scope="module")
def tuned(dev: arbo.Corpus, kb: arbo.KnowledgeBase) -> arbo.Linker:
    return arbo.Linker(kb).tune(dev, objective="nil_f1")


def nil_f1(result: arbo.Result) -> float:
    nil = result.evaluate().nil
    assert nil is not None
    return nil.f1


def test_the_objective_is_what_linking_then_reaches(tuned: arbo.Linker, dev: arbo.Corpus) -> None:
    assert tuned.tuning is not None
    assert tuned.tuning.objective == "nil_f1"
    assert 0 < tuned.tuning.best.score == max(trial.score for trial in tuned.tuning.trials)
    assert nil_f1(tuned.link(dev)) == pytest.approx(tuned.tuning.best.score)


def test_each_trial_is_what_linking_gives(tuned: arbo.Linker, dev: arbo.Corpus) -> None:
    assert tuned.tuning is not None
    for trial in tuned.tuning.trials[:: len(tuned.tuning.trials) // 10]:
        config = arbo.LinkerConfig(trial.method, trial.k, trial.entity_threshold, trial.mention_threshold)
        assert nil_f1(tuned.configured(config=config).link(dev)) == pytest.approx(trial.score)


def test_never_worse_than_what_it_began_with(dev: arbo.Corpus, kb: arbo.KnowledgeBase) -> None:
    for config in (arbo.LinkerConfig(), arbo.LinkerConfig("minimax", 3, 0.23456, 0.1)):
        before = arbo.Linker(kb, config=config)
        assert nil_f1(before.tune(dev[8:20], objective="nil_f1").link(dev[8:20])) >= nil_f1(before.link(dev[8:20]))


def test_independent_linking_is_the_threshold_on_the_best_entity(tuned: arbo.Linker, dev: arbo.Corpus) -> None:
    """It finds the best of `nil_curve` over the similarities of the nearest entities."""
    assert tuned.tuning is not None
    assert tuned.kb is not None
    retrieval = tuned.retrieve(dev, k=1, discover=False)
    nearest = retrieval.entities.dissimilarity[:, 0]
    annotated = np.array([mention.gold is not None for mention in dev.mentions])
    is_nil = np.array([not any(id_ in tuned.kb for id_ in mention.gold or ()) for mention in dev.mentions])
    truth = nil_curve(is_nil & annotated, -nearest.astype(np.float64), annotated=annotated)
    (trial,) = (trial for trial in tuned.tuning.trials if trial.method == "independent")
    assert trial.score == pytest.approx(truth.best.f1)


def test_links_play_no_part(dev: arbo.Corpus, kb: arbo.KnowledgeBase) -> None:
    """With another right entity for every mention the NIL decisions, and so the choice, stay the same."""

    def moved(mention: arbo.Mention) -> arbo.Mention:
        if mention.gold is None:
            return mention
        return replace(mention, gold=tuple(kb.entities[0].id if id_ in kb else id_ for id_ in mention.gold))

    documents = [replace(one, mentions=tuple(map(moved, one.mentions))) for one in dev]
    tuned, others = (arbo.Linker(kb).tune(these, objective="nil_f1").config for these in (dev, documents))
    assert (
        replace(others, confidence=None)  # that one is about links
        == replace(tuned, confidence=None)
    )


def test_without_nil_mentions_there_is_nothing_to_tune_on(dev: arbo.Corpus, kb: arbo.KnowledgeBase) -> None:
    entity = kb.entities[0]
    with pytest.raises(arbo.DataError, match=r"tuning for NIL needs NIL mentions.*withhold"):
        arbo.Linker(kb).tune([document("d", (entity.name, (entity.id,)))], objective="nil_f1")


@pytest.mark.parametrize(("with_kb", "objective"), [(True, "ari"), (False, "nil_f1"), (True, "f1")])
def test_an_objective_that_does_not_fit(
    dev: arbo.Corpus, kb: arbo.KnowledgeBase, with_kb: bool, objective: str
) -> None:
    with pytest.raises(arbo.UsageError, match=f"objective '{objective}': with"):
        arbo.Linker(kb if with_kb else None).tune(dev, objective=objective)  # type: ignore[arg-type]


def test_the_verb(run: Run, dev: arbo.Corpus, kb: arbo.KnowledgeBase, tuned: arbo.Linker, tmp_path: Path) -> None:
    data = save_data(tmp_path, dev, kb)
    docs, base = data[:3], data[3:]
    out = tmp_path / "tuned.json"
    found = run("tune", *docs, *base, "--objective", "nil_f1", "--out", out, "--json")
    assert found.code == 0
    assert found.json["objective"] == "nil_f1"
    assert found.json["config"] == tuned.config.as_dict()
    assert json.loads(out.read_text("utf-8"))["tuning"]["objective"] == "nil_f1"

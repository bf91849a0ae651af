"""Tuning chooses what is best on gold data, never worse than what it began with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import arbo
from arbo.store import write_json


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.KnowledgeBase]:
    return arbo.load_sample()


@pytest.fixture(scope="module")
def dev(sample: tuple[arbo.Corpus, arbo.KnowledgeBase]) -> arbo.Corpus:
    return sample[0][:30]


@pytest.fixture(scope="module")
def tuned(sample: tuple[arbo.Corpus, arbo.KnowledgeBase], dev: arbo.Corpus) -> arbo.Linker:
    return arbo.Linker(sample[1]).tune(dev)


def share_right(result: arbo.Result) -> float:
    """Share of the annotated mentions that are linked to a gold entity, or are NIL and called so."""
    right = []
    for link, gold in zip(result.links, result.mention_table["gold_entities"].to_pylist(), strict=True):
        if link.mention.gold is not None:
            right.append(link.entity in gold if gold else link.entity is None)
    return sum(right) / len(right)


def ari(result: arbo.Result) -> float:
    clustering = result.evaluate().clustering
    assert clustering is not None
    return clustering["ari"]


def test_the_objective_is_what_linking_then_reaches(tuned: arbo.Linker, dev: arbo.Corpus) -> None:
    assert tuned.tuning is not None
    assert tuned.tuning.objective == "accuracy_with_nil"
    assert share_right(tuned.link(dev)) == pytest.approx(tuned.tuning.best.score)
    assert tuned.tuning.best.score == max(trial.score for trial in tuned.tuning.trials)


@pytest.mark.parametrize(
    "config",
    [
        arbo.LinkerConfig(),
        arbo.LinkerConfig(entity_threshold=None, mention_threshold=None),
        arbo.LinkerConfig(k=3, method="minimax", entity_threshold=0.23456),
        arbo.LinkerConfig(k=0, entity_threshold=0.41),
    ],
)
def test_never_worse_than_what_it_began_with(
    sample: tuple[arbo.Corpus, arbo.KnowledgeBase], dev: arbo.Corpus, config: arbo.LinkerConfig
) -> None:
    before = arbo.Linker(sample[1], config=config)
    after = before.tune(dev[:8])
    assert share_right(after.link(dev[:8])) >= share_right(before.link(dev[:8]))


def test_each_trial_is_what_linking_gives(
    sample: tuple[arbo.Corpus, arbo.KnowledgeBase], dev: arbo.Corpus, tuned: arbo.Linker
) -> None:
    assert tuned.tuning is not None
    for trial in tuned.tuning.trials[:: len(tuned.tuning.trials) // 12]:
        config = arbo.LinkerConfig(
            method=trial.method,
            k=trial.k,
            entity_threshold=trial.entity_threshold,
            mention_threshold=trial.mention_threshold,
        )
        result = tuned.configured(config=config).link(dev)
        assert share_right(result) == pytest.approx(trial.score)


def test_the_linker_that_is_tuned_stays_as_it_is(
    sample: tuple[arbo.Corpus, arbo.KnowledgeBase], dev: arbo.Corpus
) -> None:
    before = arbo.Linker(sample[1], config=arbo.LinkerConfig(candidates=3, expand_abbreviations=False))
    after = before.tune(dev[:5])
    assert before.config == arbo.LinkerConfig(candidates=3, expand_abbreviations=False)
    assert before.tuning is None
    assert (after.config.candidates, after.config.expand_abbreviations) == (3, False)


def test_discovery_improves(sample: tuple[arbo.Corpus, arbo.KnowledgeBase]) -> None:
    documents = sample[0]
    before = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=0.01))
    after = before.tune(documents)
    assert after.tuning is not None
    assert after.tuning.objective == "ari"
    assert ari(after.discover(documents)) == pytest.approx(after.tuning.best.score)
    assert ari(after.discover(documents)) > ari(before.discover(documents))
    assert ari(after.discover(documents)) >= ari(arbo.Linker().discover(documents))


def one(*mentions: tuple[str, tuple[str, ...] | None]) -> list[arbo.Document]:
    made, at = [], 0
    for i, (text, gold) in enumerate(mentions):
        made.append(arbo.Mention(f"m{i}", "d", ((at, at + len(text)),), text, None, gold))
        at += len(text) + 1
    return [arbo.Document("d", "\n".join(text for text, _ in mentions), tuple(made))]


def test_discovery_of_things_that_are_all_different() -> None:
    documents = one(("kelp", ("A",)), ("zebra", ("B",)), ("moon", ("C",)))
    tuned = arbo.Linker().tune(documents)
    assert len(tuned.discover(documents).discovered) == 3


@pytest.mark.parametrize("with_kb", [True, False])
@pytest.mark.parametrize("documents", [[], one(), one(("kelp", None)), one(("kelp", None), ("zebra", None))])
def test_without_gold_annotations_there_is_nothing_to_tune_on(
    sample: tuple[arbo.Corpus, arbo.KnowledgeBase], with_kb: bool, documents: list[arbo.Document]
) -> None:
    with pytest.raises(arbo.DataError, match="gold"):
        arbo.Linker(sample[1] if with_kb else None).tune(documents)


def test_a_single_mention_is_enough(sample: tuple[arbo.Corpus, arbo.KnowledgeBase]) -> None:
    entity = next(iter(sample[1]))
    documents = one((entity.name, (entity.id,)))
    assert arbo.Linker(sample[1]).tune(documents).link(documents).links[0].entity == entity.id
    assert len(arbo.Linker().tune(documents).discover(documents).discovered) == 1


def test_an_empty_knowledge_base_can_be_tuned() -> None:
    documents = one(("kelp", ()), ("zebra", ("A",)))
    tuned = arbo.Linker(arbo.KnowledgeBase()).tune(documents)
    assert tuned.tuning is not None
    assert tuned.tuning.best.score == 1


def test_a_tuned_configuration_comes_back_from_its_file(tuned: arbo.Linker, tmp_path: Path) -> None:
    assert tuned.tuning is not None
    file = tmp_path / "tuned.json"
    write_json({"config": tuned.config.as_dict(), "tuning": tuned.tuning.as_dict()}, file)
    assert arbo.LinkerConfig.from_json(file) == tuned.config
    assert len(json.loads(file.read_text("utf-8"))["tuning"]["trials"]["score"]) == len(tuned.tuning.trials)
    unlimited = replace(tuned.config, entity_threshold=float("inf"))
    write_json({"config": unlimited.as_dict()}, file)
    assert arbo.LinkerConfig.from_json(file).limits((0.1, 0.1))[0] == float("inf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"config": {"k": 3, "treshold": 1}}', "treshold"),
        ('{"config": {"k": "3"}}', "k must be"),
        ('{"config": {"k": 3.0}}', "k must be"),
        ('{"config": {"method": ["minimax"]}}', "method"),
        ('{"config": {"entity_threshold": NaN}}', "entity_threshold"),
        ('{"config": {"entity_threshold": -Infinity}}', "entity_threshold"),
        ('{"config": {"expand_abbreviations": "no"}}', "expand_abbreviations"),
        ('{"config": [1]}', "expected an object"),
        ('{"k": 3}', "expected an object"),
        ("[]", "expected an object"),
        ("", "cannot read"),
        ("{", "cannot read"),
        ("[" * 100_000, "cannot read"),
        ("\udcff", "cannot read"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "tuned.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(arbo.DataError, match=message) as error:
        arbo.LinkerConfig.from_json(file)
    assert str(file) in str(error.value)


def test_a_configuration_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(arbo.DataError, match=r"nothing\.json"):
        arbo.LinkerConfig.from_json(tmp_path / "nothing.json")

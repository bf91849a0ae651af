"""Tuning chooses what is best on gold data, never worse than what it began with."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from builders import document
from conftest import Sample
from hypothesis import given, strategies as st

import arbo
from arbo.errors import DataError, UsageError
from arbo.files import write_json
from arbo.linking import tuning
from arbo.linking.config import Objective, tuned_model
from arbo.linking.tuning import Trial, _Steps
from arbo.retrieval.retrieval import Retrieval
from clustering import Method, merge_tree, partition
from clustering.methods import METHODS
from eval import adjusted_rand_index

INF, LIMIT = float("inf"), '{"config": {"entity_threshold": @}}'


@pytest.fixture(scope="module")
def dev(sample: Sample) -> arbo.Corpus:
    return sample[0][:30]


@pytest.fixture(scope="module")
def tuned(sample: Sample, dev: arbo.Corpus) -> arbo.Linker:
    return arbo.Linker(sample[1]).tune(dev)


def share_right(result: arbo.Result) -> float:
    """Share of the annotated mentions that are linked to a gold entity, or are NIL and called so."""
    right = []
    for link, gold in zip(result.links, result.mention_table["gold_entities"].to_pylist(), strict=True):
        if link.mention.gold is not None:
            right.append(link.entity in gold if gold else link.entity is None)
    return sum(right) / len(right)


SCORES: dict[Objective, Callable[[arbo.Result], float]]
SCORES = {"accuracy_with_nil": share_right, "nil_f1": lambda result: result.evaluate().nil.f1}


@pytest.mark.parametrize("objective", SCORES)
def test_the_objective_is_what_linking_then_reaches(objective: Objective, tuned: arbo.Linker, dev: arbo.Corpus) -> None:
    tuned = arbo.Linker(tuned.kb).tune(dev, objective=objective) if objective == "nil_f1" else tuned
    score = SCORES[objective]
    assert (tuned.tuning.objective, score(tuned.link(dev))) == (objective, pytest.approx(tuned.tuning.best.score))
    assert 0 < tuned.tuning.best.score == max(trial.score for trial in tuned.tuning.trials)
    for trial in tuned.tuning.trials[:: len(tuned.tuning.trials) // 12]:
        config = arbo.LinkerConfig(trial.method, trial.k, trial.entity_threshold, trial.mention_threshold)
        assert score(tuned.configured(config=config).link(dev)) == pytest.approx(trial.score)


@pytest.mark.parametrize("objective", SCORES)
@pytest.mark.parametrize(
    "config",
    [
        arbo.LinkerConfig(),
        arbo.LinkerConfig(entity_threshold=None, mention_threshold=None),
        arbo.LinkerConfig(k=3, method="minimax", entity_threshold=0.23456),
        arbo.LinkerConfig(k=0, entity_threshold=0.41),
    ],
)
def test_tuning_never_harms(sample: Sample, dev: arbo.Corpus, config: arbo.LinkerConfig, objective: Objective) -> None:
    before, few, score = arbo.Linker(sample[1], config=config), dev[8:20], SCORES[objective]
    assert score(before.tune(few, objective=objective).link(few)) >= score(before.link(few))


ONE = document("d", ("kelp", ("A",)))
LOST = [[document("d", ("kelp", gold), ("petrel", gold), "tern")] for gold in (("elsewhere",), ())]
UNFIT = [document("d", ("zzz", ("A",)), ("kelp", ("B",)), ("moon", ("C",)))]
BARE: tuple[list[arbo.Document], ...] = ([], [document("d")], [document("d", "kelp")], [document("d", "kelp", "zebra")])


@pytest.mark.parametrize(
    ("kb", "given", "options", "words"),
    [
        (True, None, {"objective": "ari"}, "with a knowledge base, the objective 'ari' is not one of"),
        (False, None, {"objective": "nil_f1"}, "without a knowledge base, the objective 'nil_f1' is not one of"),
        (True, None, {"objective": "f1"}, "the objective 'f1' is not one of"),
        (False, None, {"method": "minimax"}, "all methods give the same clusters"),
        *((kb, given, {}, "gold") for given in BARE for kb in (True, False)),
        *((True, some, {}, r"but no annotated mention \(of 2\) has one; check .* or tune discovery") for some in LOST),
        ("empty", [document("d", ("kelp", ()), ("zebra", ("A",)))], {}, r"no annotated mention \(of 2\) has one"),
        ("A", [ONE], {"objective": "nil_f1"}, "tuning for NIL needs NIL mentions.*withhold"),
        *(("A", UNFIT, {"objective": one}, "links a mention rightly, with an entity for 1 of 3 men") for one in SCORES),
        (False, [document("d", ("kelp", ("A",)), ("zebra", ("B",)))], {}, "two mentions of the same entity and two"),
        (False, [document("d", ("kelp", ("A",)), ("zebra", ("A",)))], {"objective": "b3"}, "give only one kind"),
    ],
)
def test_what_cannot_be_tuned(sample: Sample, dev: arbo.Corpus, kb: Any, given: Any, options: Any, words: str) -> None:
    empty, of_one = arbo.KnowledgeBase(), arbo.KnowledgeBase([arbo.Entity("A", "kelp")])
    bases = {False: None, True: sample[1], "empty": empty, "A": of_one}
    with pytest.raises((UsageError, DataError), match=words):
        arbo.Linker(bases[kb]).tune(dev if given is None else given, **options)


@pytest.fixture(scope="module")
def retrieval(tuned: arbo.Linker, dev: arbo.Corpus) -> Retrieval:
    return tuned.retrieve(dev, k=8)


def score_at(retrieval: Retrieval, kb: arbo.KnowledgeBase, method: Method, k: int, limits: tuple[Any, Any]) -> float:
    right, linked = [], partition(retrieval.graph(k), method, limits).entity.tolist()
    for row, seen in zip(linked, retrieval.inputs, strict=True):
        if seen.mention.gold is not None:
            gold = {at for id_ in seen.mention.gold for at in kb.rows(id_)}
            right.append(row in gold if gold else row < 0)
    return sum(right) / len(right)


def test_no_threshold_is_better_than_the_best_trial(tuned: arbo.Linker, retrieval: Retrieval) -> None:
    """Over all pairs of a fine grid, some edges' weights among them."""
    mention_limits = {trial.mention_threshold for trial in tuned.tuning.trials if trial.method == "arborescence"}
    for method, k in (("independent", 4), ("minimax", 2), ("undirected", 8)):
        graph = retrieval.graph(k)
        found = max(trial.score for trial in tuned.tuning.trials if (trial.method, trial.k) == (method, k))
        from_entity = np.unique(graph.weight[graph.source < graph.n_entities])[::7].tolist()
        for entity, mention in product([*from_entity, INF], mention_limits):
            limit = INF if mention is None else mention
            if entity >= limit or method == "independent":
                assert score_at(retrieval, tuned.kb, method, k, (entity, limit)) <= found


def test_of_equals_the_first_wins(sample: Sample) -> None:
    """Everything is right at any threshold: the simplest method, no entity threshold, the linker's between mentions."""
    entity = next(iter(sample[1]))
    tuned = arbo.Linker(sample[1]).tune([document("d", (entity.name, (entity.id,)))])
    assert tuned.tuning.best == Trial("independent", 4, None, arbo.NgramEncoder().threshold[1], 1.0)


def test_a_mention_threshold_that_changes_nothing_is_kept() -> None:
    documents = [document("d", ("kelp", ("A",)), ("kelp", ("A",)), ("zebra", ("B",)))]
    tuned = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=0.123)).tune(documents)
    assert tuned.config.mention_threshold == 0.123
    products = arbo.VectorEncoder({"d-0": [1.0], "d-1": [1.0], "e-0": [1.0]}, metric="dot")
    unlimited = arbo.Linker(None, products, arbo.LinkerConfig(mention_threshold=1e300))
    apart = document("e", ("zebra", ("B",)), domain="other")
    unlimited = unlimited.tune([document("d", ("kelp", ("A",)), ("kelp", ("A",))), apart])
    assert unlimited.config.mention_threshold == 1e300


weights = st.integers(0, 40).map(lambda i: float(np.float32(0.3)) + i * float(np.spacing(np.float32(0.3))))


@given(st.dictionaries(weights, st.integers(0, 3), min_size=1), st.booleans(), st.floats(-1, 1))
def test_the_chosen_threshold_has_the_best_score(steps: dict[float, int], from_below: bool, own: float) -> None:
    """Even among neighbours in float32, between which there is no middle."""
    threshold = np.array(sorted(steps), np.float32)
    score = np.array([steps[float(value)] / 3 for value in threshold])
    if from_below:
        threshold[0] = -np.inf
    made, start = _Steps.of(threshold, score), Trial("minimax", 1, None, None, 0.0)
    entity, mention = made.best_entity_threshold(start), made.best_mention_threshold(start, own)

    def at(value: float) -> float:
        return float(score[np.searchsorted(threshold, np.float32(value), side="right") - 1])

    limit = entity.entity_threshold
    assert at(INF if limit is None else limit) == entity.score == score.max()
    assert (limit is None) == (score[-1] == score.max())
    assert at(mention.mention_threshold) == mention.score == score.max()
    assert np.isfinite(mention.mention_threshold)
    if own >= threshold[0] and at(own) == score.max():
        assert mention.mention_threshold == own


def test_the_chosen_threshold_is_in_the_middle() -> None:
    """From 0.25 up to 0.75 is best, and again from 1 up to 1.5, which entity thresholds prefer."""
    steps = _Steps.of(np.array([-np.inf, 0.25, 0.375, 0.75, 1.0, 1.5], np.float32), np.array([0, 1, 1, 0, 1, 0.5]))
    start = Trial("minimax", 1, None, None, 0.0)
    assert steps.best_mention_threshold(start, 2.0).mention_threshold == 0.5
    assert steps.best_entity_threshold(start).entity_threshold == 1.25
    lowest = _Steps.of(np.array([-np.inf, 0.25], np.float32), np.array([1, 0]))
    assert lowest.best_entity_threshold(start).entity_threshold == -0.75


def test_discovery_finds_the_best_of_all_cuts(sample: Sample) -> None:
    documents = sample[0]
    tuned = arbo.Linker().tune(documents)
    retrieval = tuned.retrieve(documents, k=8)
    classes = [frozenset(mention.gold or ()) for mention in documents.mentions]
    known, truth = np.array([bool(ids) for ids in classes]), [ids for ids in classes if ids]
    for trial in tuned.tuning.trials:
        tree = merge_tree(retrieval.graph(trial.k))
        at = {height: adjusted_rand_index(truth, tree.cut(height)[known]) for height in np.unique(tree.height).tolist()}
        assert trial.score == pytest.approx(max(at.values()), abs=1e-12)
        chosen = trial.mention_threshold
        assert chosen is not None
        assert adjusted_rand_index(truth, tree.cut(chosen)[known]) == pytest.approx(trial.score, abs=1e-12)


def test_each_objective_of_discovery_is_what_discovery_then_reaches(dev: arbo.Corpus) -> None:
    names: tuple[Objective, ...] = ("ari", "b3", "conll", "lea")
    reached, promised = {}, {}
    for name in names:
        tuned = arbo.Linker().tune(dev, objective=name)
        json.dumps(tuned.tuning.as_dict(), allow_nan=False)
        evaluation = tuned.discover(dev).evaluate()
        of = evaluation.coreference
        reached[name] = {"ari": evaluation.clustering["ari"], "conll": of["conll"]}
        reached[name] |= {metric: of[metric]["f1"] for metric in ("b3", "lea")}
        promised[name] = tuned.tuning.best.score
    for name in names:
        assert reached[name][name] == pytest.approx(promised[name], abs=1e-12)
        assert max(scores[name] for scores in reached.values()) <= promised[name] + 1e-12


def test_tuning_can_be_held_to_one_method(sample: Sample, dev: arbo.Corpus) -> None:
    linker, few = arbo.Linker(sample[1]), dev[:8]
    free = linker.tune(few).tuning
    for method in METHODS:
        held = linker.tune(few, method=method).tuning
        assert list(held.trials) == [trial for trial in free.trials if trial.method == method]


def test_what_tuning_does_not_choose_stays(sample: Sample, dev: arbo.Corpus) -> None:
    kb = sample[1]
    before = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=3, expand_abbreviations=False))
    after = before.tune(dev[:5])
    assert before.tuning is None
    assert (after.config.candidates, after.config.expand_abbreviations) == (3, False)
    tuned = arbo.Linker(config=arbo.LinkerConfig(method="minimax", entity_threshold=0.3)).tune(dev).config
    assert (tuned.method, tuned.entity_threshold) == ("minimax", 0.3)
    tuned = arbo.Linker().tune(dev).config
    assert tuned.entity_threshold == "default"
    assert any(link.entity is None for link in arbo.Linker(kb, config=tuned).link(dev).links)


def test_a_tuned_configuration_comes_back_from_its_file(tuned: arbo.Linker, tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    write_json({"config": tuned.config.as_dict(), "tuning": tuned.tuning.as_dict()}, file)
    assert arbo.LinkerConfig.from_json(file) == tuned.config
    record = json.loads(file.read_text("utf-8"), parse_constant=pytest.fail)["tuning"]
    assert (len(record["trials"]["score"]), record["best"]) == (len(tuned.tuning.trials), asdict(tuned.tuning.best))
    write_json({"config": replace(tuned.config, entity_threshold=float("inf")).as_dict()}, file)
    assert arbo.LinkerConfig.from_json(file).limits((0.1, 0.1))[0] == float("inf")
    write_json({"config": {"confidence": {"intercept": "high"}}}, file)
    with pytest.raises(DataError, match="intercept must be a finite number, not 'high'"):
        arbo.LinkerConfig.from_json(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"config": {"k": 3, "treshold": 1}}', "treshold"),
        *((f'{{"config": {{"k": {k}}}}}', "k must be") for k in ('"3"', "3.0", "-1", "true")),
        ('{"config": {"candidates": 0}}', "candidates"),
        ('{"config": {"method": ["minimax"]}}', "method"),
        *((LIMIT.replace("@", one), "entity_threshold") for one in ("NaN", "-Infinity", '"0.3"', "true")),
        ('{"config": {"expand_abbreviations": "no"}}', "expand_abbreviations"),
        *((content, "the file has no") for content in ('{"config": [1]}', '{"k": 3}', "[]")),
        *((content, "cannot read") for content in ("", "{", "[" * 100_000, "\udcff", None)),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "tuned.json"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(arbo.DataError, match=message) as error:
        arbo.LinkerConfig.from_json(file)
    assert str(file) in str(error.value)


def test_the_model_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text('{"config": {}, "encoder": {"model": "m"}, "reranker": null}')
    assert tuned_model(None, "encoder") == tuned_model(file, "reranker") == {}
    assert tuned_model(file, "encoder") == {"model": "m"}
    for encoder in ("5", "[]", '{"model": 5}', '{"model": null}'):
        file.write_text(f'{{"config": {{}}, "encoder": {encoder}}}')
        with pytest.raises(arbo.DataError, match="`encoder` must be an object, and its `model` a string"):
            tuned_model(file, "encoder")


def test_far_entities_take_no_time(tuned: arbo.Linker, dev: arbo.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of the trials have only the entities that are nearest to a mention; scores do not change."""
    kb = arbo.KnowledgeBase([*(arbo.Entity(f"other {i}", f"zzq{i}") for i in range(300)), *tuned.kb])
    monkeypatch.setattr(tuning, "partition", made := Mock(wraps=partition))
    encoder = arbo.NgramEncoder().fit(tuned.kb.names().names)
    monkeypatch.setattr(arbo.NgramEncoder, "fit", lambda self, names: encoder)
    assert arbo.Linker(kb).tune(dev).tuning.trials == tuned.tuning.trials
    *n_entities, last = (call.args[0].n_entities for call in made.call_args_list)
    assert max(n_entities) <= len(dev.mentions) < last, "the last one is for the confidence"

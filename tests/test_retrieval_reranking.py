"""The second stage: what a reranker makes of candidates, of a retrieval, and of linking from end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st

import arbo
from arbo.candidates import Candidates, gold_rows, is_gold, with_gold
from arbo.encoders import CrossEncoder, CrossEncoderConfig, MentionInput
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.progress import quiet
from arbo.readers.jsonl import write_jsonl
from arbo.reranker import TwoStages, margins, rerank, reranked, skipping
from arbo.retrieval import mention_inputs

NONE = -np.inf


@dataclass(frozen=True)
class Oracle:
    """A reranker whose score is a function of the mention and the entity; it remembers what it was asked."""

    score_of: Callable[[MentionInput, arbo.Entity], float]
    asked: list[tuple[str, str]] = field(default_factory=list)
    threshold: float = 0.5
    retrieval_weight: float = 0.0
    settings: dict[str, Any] = field(default_factory=lambda: {"encoder": "oracle"})

    def score(
        self, mentions: Sequence[MentionInput], kb: arbo.KnowledgeBase, mention: Any, entity: Any, announce: Any = quiet
    ) -> Any:
        pairs = [(mentions[m], kb.entities[e]) for m, e in zip(mention, entity, strict=True)]
        self.asked.extend((item.mention.id, one.id) for item, one in pairs)
        return np.array([self.score_of(*pair) for pair in pairs])


def knows_gold() -> Oracle:
    return Oracle(lambda item, entity: 20.0 * is_right(item.mention, entity))


def is_right(mention: arbo.Mention, entity: arbo.Entity) -> bool:
    return not {entity.id, *entity.alternative_ids}.isdisjoint(mention.gold or ())


def indifferent() -> Oracle:
    return Oracle(lambda item, entity: 0.0)


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]:
    documents, kb = arbo.load_sample()
    return documents, kb, Candidates.of(arbo.Linker(kb), documents, k=5)


def small(scores: list[list[float]]) -> tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]:
    """Mentions m0, m1, ... with candidates 0, 1, ... of these scores."""
    n, k = len(scores), max(map(len, scores))
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 1),), "x") for i in range(n))
    documents, kb = (
        arbo.Corpus([arbo.Document("d", "x", mentions)]),
        arbo.KnowledgeBase([arbo.Entity(f"E{i}", "x") for i in range(k)]),
    )
    entities = np.array([[*range(len(row)), *[-1] * (k - len(row))] for row in scores], np.int32)
    table = np.array([row + [NONE] * (k - len(row)) for row in scores], np.float32)
    return documents, kb, Candidates(entities, table, documents.fingerprint, kb.fingerprint, {"encoder": "none"})


# Candidates


def test_probabilities_by_hand() -> None:
    documents, kb, found = small([[0.9, 0.8, 0.7], [0.5, 0.4], [0.3], []])
    said = {"E0": 0.0, "E1": np.log(2), "E2": np.log(5)}
    own = Oracle(lambda item, entity: said[entity.id])
    after = rerank(own, found, documents, kb)
    assert after.entities.tolist() == [[2, 1, 0], [1, 0, -1], [0, -1, -1], [-1, -1, -1]]
    expected = [[5 / 8, 2 / 8, 1 / 8], [2 / 3, 1 / 3, NONE], [1, NONE, NONE], [NONE] * 3]
    np.testing.assert_allclose(after.scores, expected, rtol=1e-6)
    assert after.made_by == {"encoder": "none", "reranker": {"encoder": "oracle"}, "skip_margin": None}
    # What is no candidate is never read.
    assert sorted(own.asked) == [("m0", "E0"), ("m0", "E1"), ("m0", "E2"), ("m1", "E0"), ("m1", "E1"), ("m2", "E0")]


def test_equals_stay_in_their_order(sample: tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]) -> None:
    documents, kb, found = sample
    after = rerank(indifferent(), found, documents, kb)
    assert np.array_equal(after.entities, found.entities)
    np.testing.assert_allclose(after.scores, 0.2)


@given(st.lists(st.lists(st.integers(-3, 3).map(float), max_size=5), min_size=1, max_size=5))
def test_any_scores(rows: list[list[float]]) -> None:
    documents, kb, found = small([[1.0 - i for i in range(len(row))] for row in rows])
    own = Oracle(lambda item, entity: rows[int(item.mention.id[1:])][int(entity.id[1:])])
    after = rerank(own, found, documents, kb)
    for row, entities, scores in zip(rows, after.entities.tolist(), after.scores, strict=True):
        assert entities[: len(row)] == sorted(range(len(row)), key=lambda place: -row[place])
        weight = np.exp(sorted(row, reverse=True))
        np.testing.assert_allclose(scores[: len(row)], weight / weight.sum(), rtol=1e-5)


def test_scores_far_apart_and_huge() -> None:
    documents, kb, found = small([[0.9, 0.8, 0.7]])
    after = rerank(Oracle(lambda item, entity: {"E0": -1e30, "E1": 1e30, "E2": 0.0}[entity.id]), found, documents, kb)
    assert (after.entities.tolist(), after.scores.tolist()) == ([[1, 2, 0]], [[1, 0, 0]])


def test_the_score_of_the_first_stage_is_added() -> None:
    documents, kb, found = small([[0.9, 0.5, 0.25], [0.5]])
    given = with_gold(found, np.array([[1], [2]]))
    assert given.entities.tolist() == [[0, 1, 2], [0, 2, -1]]
    own = replace(Oracle(lambda item, entity: {"E0": 0.0, "E1": 1.0, "E2": 2.0}[entity.id]), retrieval_weight=2.0)
    after = rerank(own, given, documents, kb)
    weight = np.exp([2.5, 2.0, 1.8])
    np.testing.assert_allclose(after.scores[0], weight / weight.sum(), rtol=1e-6)
    assert after.entities[0].tolist() == [2, 1, 0]
    np.testing.assert_allclose(after.scores[1], [1 / (1 + np.exp(-2)), 1 - 1 / (1 + np.exp(-2)), NONE], rtol=1e-6)


def test_edges_between_mentions() -> None:
    names = ("fever", "high fever", "marsh", "swamp")
    documents = arbo.Corpus(
        arbo.Document(f"d{i}", name, (arbo.Mention(f"m{i}", f"d{i}", ((0, len(name)),), name),))
        for i, name in enumerate(names)
    )
    kb = arbo.KnowledgeBase([arbo.Entity("E0", "fever"), arbo.Entity("E1", "marsh")])
    own = Oracle(lambda item, entity: float(item.name[-1] == entity.name[-1]) + 0.5 * float(item.name != entity.name))
    encoder = arbo.Linker(kb, config=arbo.LinkerConfig(k=2))
    linker = arbo.Linker(kb, config=arbo.LinkerConfig(k=2, rerank_mentions=True), reranker=own)
    plain, found = (one.retrieve(documents, k=2, discover=False) for one in (encoder, linker))
    assert np.array_equal(found.mentions.ids, plain.mentions.ids)
    for place, name in enumerate(names):
        total = sum(np.exp(own.score_of(found.inputs[place], entity)) for entity in kb)
        for other, dissimilarity in zip(found.mentions.ids[place], found.mentions.dissimilarity[place], strict=True):
            beside = np.exp(own.score_of(found.inputs[place], arbo.Entity("m", names[other])))
            assert dissimilarity == pytest.approx(1 - beside / (beside + total)), (name, names[other])
    assert len(linker.link(documents).links) == 4
    with pytest.raises(UsageError, match="leave skip_margin out"):
        arbo.LinkerConfig(rerank_mentions=True, skip_margin=0.1)


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_edges_between_mentions_without_candidates(weight: float) -> None:
    """Another mention is compared with the own name, whatever is added to all scores of a mention."""
    names = {"m0": "fever", "m1": "fever", "m2": "cold", "m3": "cough", "m4": "marsh"}
    documents = arbo.Corpus(
        arbo.Document(name, text, (arbo.Mention(name, name, ((0, len(text)),), text),), "x" if text != "marsh" else "y")
        for name, text in names.items()
    )
    kb = arbo.KnowledgeBase([arbo.Entity("E0", "marsh", domain="y")])
    fits = {"fever": 3.0, "cold": 2.0, "cough": 7.0}

    def edges(added: float, k: int) -> Any:
        own = Oracle(lambda item, entity: added + fits.get(entity.name, 0.0), retrieval_weight=weight)
        config = arbo.LinkerConfig(k=k, rerank_mentions=True)
        found = arbo.Linker(kb, config=config, reranker=own).retrieve(documents, k=k, discover=False)
        asked = {(mention, names[f"m{entity}"]) for mention, entity in own.asked if entity != "E0"}
        assert ("m4", "marsh") not in asked  # it has a candidate, and no neighbour
        return found

    found = edges(0.0, 3)
    plain = arbo.Linker(kb, config=arbo.LinkerConfig(k=3)).retrieve(documents, k=3, discover=False)
    near = plain.similarity(plain.mentions.dissimilarity)
    for row in range(4):
        own = fits[names[f"m{row}"]] + weight * near[row, 0]
        for other, closeness, edge in zip(
            found.mentions.ids[row], near[row], found.mentions.dissimilarity[row], strict=True
        ):
            if other >= 0:
                beside = fits[names[f"m{other}"]] + weight * closeness
                assert edge == pytest.approx(1 / (1 + np.exp(beside - own)), rel=1e-5)
    assert found.mentions.dissimilarity[0, 0] == 0.5  # of the same name
    np.testing.assert_allclose(edges(50.0, 3).mentions.dissimilarity, found.mentions.dissimilarity, rtol=1e-4)
    np.testing.assert_array_equal(edges(0.0, 1).mentions.dissimilarity, found.mentions.dissimilarity[:, :1])


def test_thresholds_are_of_those_who_make_the_edges() -> None:
    documents, kb = arbo.load_sample()
    own = replace(indifferent(), threshold=0.4)
    for mentions, expected in ((False, arbo.NgramEncoder().threshold[1]), (True, 0.4)):
        linker = arbo.Linker(kb, config=arbo.LinkerConfig(rerank_mentions=mentions), reranker=own)
        assert linker.link(documents[:3]).manifest["threshold"] == {"entity": 0.4, "mention": expected}


@pytest.mark.parametrize("changes", [{"rerank_mentions": True}, {"skip_margin": 0.1}])
def test_settings_for_a_reranker_need_one(changes: dict[str, Any]) -> None:
    kb, config = arbo.load_sample()[1], arbo.LinkerConfig(**changes)
    for own in (None, kb):
        with pytest.raises(UsageError, match=rf"{next(iter(changes))} is for a reranker, and there is none"):
            arbo.Linker(own, config=config)
    arbo.Linker(kb, config=config, reranker=indifferent())


def test_discovery_asks_no_reranker() -> None:
    documents, kb = arbo.load_sample()
    own = indifferent()
    linker = arbo.Linker(kb, reranker=own)
    assert linker.discover(documents[:5]).link_table == arbo.Linker().discover(documents[:5]).link_table
    both = linker.configured(config=arbo.LinkerConfig(rerank_mentions=True))
    with pytest.raises(UsageError, match="discover asks no reranker"):
        both.discover(documents)
    with pytest.raises(UsageError, match="discover asks no reranker"):
        both.configured(kb=None).tune(documents)
    assert not own.asked


def test_what_the_encoder_is_sure_of_is_not_read() -> None:
    documents, kb, found = small([[0.9, 0.5], [0.9, 0.75], [0.9], []])
    np.testing.assert_allclose(margins(found.scores), [0.4, 0.15, np.inf, np.inf], rtol=1e-6)
    own = Oracle(lambda item, entity: float(entity.id == "E1"))
    after = rerank(own, found, documents, kb, skip_margin=float(margins(found.scores)[0]))
    assert {mention for mention, _ in own.asked} == {"m1"}
    assert after.entities.tolist() == [[0, 1], [1, 0], [0, -1], [-1, -1]]
    assert after.scores[0].tolist() == [1, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_reranker_that_gives_nan(bad: float) -> None:
    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(DataError, match="NaN or infinity for 1 of 2 pairs"):
        rerank(Oracle(lambda item, entity: bad if entity.id == "E1" else 0.0), found, documents, kb)


@pytest.mark.parametrize(("said", "weight"), [(1e39, 0), (3e38, 1e38), (0.0, 1e30)])
def test_a_sum_beyond_float32(said: float, weight: float) -> None:
    documents, kb, found = small([[0.9, 0.5]])
    own = Oracle(lambda item, entity: said if entity.id == "E0" else 0.0, retrieval_weight=weight)
    if not said:
        found = replace(found, scores=found.scores * np.float32([1e30, 1]))
    with pytest.raises(
        DataError, match=rf"for 1 of 2 pairs, {weight:g} times the first stage's score".replace("+", ".")
    ):
        rerank(own, found, documents, kb)


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_a_reranker_that_gives_another_number_of_scores(shape: tuple[int, ...]) -> None:
    class Other(Oracle):
        def score(self, *given: Any) -> Any:
            return np.zeros(shape)

    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(DataError, match=r"scores of shape \(.*\) for 2 pairs"):
        rerank(Other(lambda item, entity: 0.0), found, documents, kb)


@pytest.mark.parametrize("weight", [-1, 1e39, float("inf"), float("nan"), "1"])
def test_weights_that_cannot_be_meant(weight: Any) -> None:
    with pytest.raises(UsageError, match="retrieval_weight must be a number from 0 to 1e"):
        CrossEncoderConfig(retrieval_weight=weight)


def test_stale_candidates_are_refused(sample: tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]) -> None:
    documents, kb, found = sample
    with pytest.raises(DataError, match="made with other documents"):
        rerank(indifferent(), found, documents[1:], kb)
    with pytest.raises(DataError, match="made with another knowledge base"):
        rerank(indifferent(), found, documents, arbo.KnowledgeBase(kb.entities[1:]))


def test_no_mentions() -> None:
    documents, kb = arbo.Corpus([arbo.Document("d", "nothing")]), arbo.load_sample()[1]
    found = Candidates.of(arbo.Linker(kb), documents)
    assert len(rerank(indifferent(), found, documents, kb)) == 0
    assert len(arbo.Linker(kb, reranker=indifferent()).link(documents).links) == 0
    empty = arbo.Linker(arbo.KnowledgeBase(), reranker=indifferent())
    assert all(link.entity is None for link in empty.link(arbo.load_sample()[0][:3]).links)


def test_an_oracle_that_sees_gold_is_always_right(sample: tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]) -> None:
    documents, kb, found = sample
    gold = gold_rows(documents, kb)
    after = rerank(knows_gold(), with_gold(found, gold), documents, kb)
    assert is_gold(after.entities[:, :1], gold)[:, 0].tolist() == (gold >= 0).any(axis=1).tolist()
    assert after.made_by["gold"] == "injected"


# Early exit


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.booleans(), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0.0, 0.2, 1.0]),
)
def test_the_margin_is_the_best_of_all(mentions: list[tuple[float, bool, bool, bool]], most_lost: float) -> None:
    documents, kb, found = small([[1.0, 1.0 - margin] for margin, *_ in mentions])
    own = Oracle(lambda item, entity: float(mentions[int(item.mention.id[1:])][1] == (entity.id == "E1")))
    # Gold is the first, the second, or neither.
    gold = np.array([[int(second)] if has_gold else [-1] for _, _, has_gold, second in mentions])

    def accuracy(skip_margin: float | None) -> float:
        first = rerank(own, found, documents, kb, skip_margin=skip_margin).entities[:, :1]
        return float(is_gold(first, gold).sum()) / max(1, int((gold >= 0).sum()))

    chosen = skipping(found, rerank(own, found, documents, kb), gold, most_lost=most_lost)
    assert chosen.accuracy == pytest.approx(accuracy(chosen.margin))
    assert chosen.lost == pytest.approx(accuracy(None) - accuracy(chosen.margin))
    possible = [m for m in (0.0, 0.25, 0.5, 1.0) if m in {one[0] for one in mentions}]
    allowed = [margin for margin in possible if accuracy(None) - accuracy(margin) <= most_lost + 1e-9]
    assert chosen.margin == (min(allowed) if allowed else None)
    assert chosen.skipped == sum(margin >= min(allowed, default=9) for margin, *_ in mentions) / len(mentions)


def test_early_exit_of_nothing_and_of_others() -> None:
    found = small([[0.9], [0.9]])[2]
    gold = np.array([[0], [1]])
    assert skipping(found, found, gold) == (None, 0.0, 0.5, 0.0)
    with pytest.raises(ValueError, match="2 mentions, but 2 reranked and 1 with gold"):
        skipping(found, found, gold[:1])
    with pytest.raises(ValueError, match=r"reranked candidates were made with other documents: .* elsewhere"):
        skipping(found, replace(found, documents="elsewhere"), gold)
    for most_lost in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="most_lost must be between 0 and 1"):
            skipping(found, found, gold, most_lost=most_lost)


def test_no_margin_skips_none() -> None:
    """What nobody scored leaves an infinite margin, and no margin that could be asked for."""
    found = small([[0.9, NONE], [0.9, NONE]])[2]
    found = replace(found, entities=np.array([[0, 1], [0, 1]], np.int32))
    after = replace(found, entities=found.entities[:, ::-1])
    assert skipping(found, after, np.array([[0], [1]]), most_lost=1.0) == (None, 0.0, 0.5, 0.0)


# Linking


@pytest.mark.parametrize("method", ["arborescence", "minimax", "undirected", "independent"])
def test_links_are_the_rerankers(method: Any) -> None:
    documents, kb = arbo.load_sample()
    config = arbo.LinkerConfig(method=method, k=0)
    result = arbo.Linker(kb, config=config, reranker=knows_gold()).link(documents)
    accepted = Candidates.of(arbo.Linker(kb), documents, k=16)
    hits = is_gold(accepted.entities, gold_rows(documents, kb)).any(axis=1)
    assert hits.mean() > 0.5
    for link, hit in zip(result.links, hits, strict=True):
        if hit:
            assert is_right(link.mention, kb[str(link.entity)])
            n_right = sum(is_right(link.mention, kb[id_]) for id_, _ in link.candidates)
            assert link.score == pytest.approx(1 / n_right, abs=1e-4)
            assert link.step == pytest.approx(1 - 1 / n_right, abs=1e-4)
        else:  # each of 16 is as good as the others
            assert link.entity is None
            assert [score for _, score in link.candidates] == pytest.approx([1 / 16] * 16)
    assert result.manifest["threshold"]["entity"] == 0.5
    assert result.manifest["encoder"]["reranker"] == {"encoder": "oracle"}


def test_the_second_stage_is_one_function() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=Oracle(lambda item, entity: len(entity.name) / 3.0))
    found = rerank(linker.reranker, Candidates.of(replace(linker, reranker=None), documents, k=7), documents, kb)  # type: ignore[arg-type]
    again = Candidates.of(linker, documents, k=7)
    assert np.array_equal(found.entities, again.entities)
    np.testing.assert_allclose(found.scores, again.scores, atol=1e-7)
    sparing = linker.configured(config=arbo.LinkerConfig(skip_margin=0.25, candidates=7))
    skipped = rerank(
        linker.reranker,  # type: ignore[arg-type]
        Candidates.of(replace(linker, reranker=None), documents, k=7),
        documents,
        kb,
        skip_margin=0.25,
    )
    for one in (Candidates.of(sparing, documents, k=7), Candidates.of_result(sparing.link(documents), kb)):
        assert one.made_by == skipped.made_by != again.made_by == found.made_by
        assert np.array_equal(one.entities, skipped.entities)
    corpus = arbo.Corpus.of(documents)
    retrieval = linker.retrieve(corpus, k=2, discover=False)
    first = replace(linker, reranker=None).retrieve(corpus, k=2, discover=False)
    assert np.array_equal(retrieval.mentions.dissimilarity, first.mentions.dissimilarity)
    assert retrieval.graph(2).n_edges == first.graph(2).n_edges


def test_the_score_of_an_entity_that_is_no_candidate_is_zero() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=2))
    first = linker.retrieve(arbo.Corpus.of(documents), k=1, discover=False)
    second = reranked(first, indifferent(), kb, skip_margin=None, announce=quiet)
    nearest, neither = second.entities.ids[:, 0], np.full(len(documents.mentions), -1, np.int32)
    assert set(second.similarity(second.dissimilarity_to(nearest)).tolist()) == {0.5}
    assert set(second.dissimilarity_to(neither).tolist()) == {np.inf}
    far = ((nearest + 1) % len(kb)).astype(np.int32)
    far = np.where((second.entities.ids == far[:, None]).any(axis=1), -1, far)
    assert set(second.dissimilarity_to(far)[far >= 0].tolist()) == {1.0}


def test_explain_tune_evaluate_and_keep(tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=knows_gold())
    result = linker.link(documents)
    for link in result.links:
        told = str(result.explain(link))
        assert ("probability" in told) == bool(link.candidates)
        assert not re.search(r"(?<!dis)similarity", told)
    plain = arbo.Linker(kb).link(documents).evaluate()
    assert result.evaluate().linking.accuracy > plain.linking.accuracy  # type: ignore[union-attr]
    tuned = linker.tune(documents)
    assert tuned.reranker is linker.reranker
    assert tuned.tuning.best.score >= result.evaluate().accuracy_with_nil  # type: ignore[union-attr,operator]
    assert tuned.link(documents).evaluate().accuracy_with_nil == pytest.approx(tuned.tuning.best.score)  # type: ignore[union-attr]
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").manifest["encoder"]["reranker"] == {"encoder": "oracle"}
    assert len(linker.discover(documents).links) == len(
        documents.mentions
    )  # without entities there is nothing to rerank


@pytest.mark.parametrize("skip_margin", [-1, float("inf"), float("nan"), "0.1", True])
def test_margins_that_cannot_be_meant(skip_margin: Any) -> None:
    with pytest.raises(UsageError, match="skip_margin must be"):
        arbo.LinkerConfig(skip_margin=skip_margin)
    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(UsageError, match="skip_margin must be"):
        rerank(indifferent(), found, documents, kb, skip_margin=skip_margin)


def test_two_stages_encode_as_the_first() -> None:
    documents, kb = arbo.load_sample()
    encoder = arbo.NgramEncoder()
    fitted, both = encoder.fit(kb.names().names), TwoStages(encoder, indifferent()).fit(kb.names().names)
    inputs = mention_inputs(documents, expand_abbreviations=True)
    assert (both.encode_entities(kb).matrix != fitted.encode_entities(kb).matrix).nnz == 0
    assert (both.encode_mentions(inputs).matrix != fitted.encode_mentions(inputs).matrix).nnz == 0
    assert (both.metric, both.threshold) == (fitted.metric, (0.5, fitted.threshold[1]))
    assert replace(both, mentions=True).threshold == (0.5, 0.5)


# A cross-encoder, from the command line


@pytest.fixture
def files(bert: Tower, tmp_path: Path) -> Path:
    """A few documents, a knowledge base, and a cross-encoder whose scores mean nothing."""
    documents, kb = arbo.load_sample()
    write_jsonl(documents[:6], tmp_path / "docs.jsonl")
    arbo.KnowledgeBase(kb.entities[:9]).to_jsonl(tmp_path / "kb.jsonl")
    config = CrossEncoderConfig(max_length=40, candidates=3)
    CrossEncoder.of(bert, config).with_markers().save_pretrained(tmp_path / "cross")
    return tmp_path


def linking(files: Path) -> list[object]:
    return [files / "docs.jsonl", "--format", "jsonl", "--kb", files / "kb.jsonl", "--kb-format", "jsonl"]


def test_link_with_a_cross_encoder(run: Run, files: Path) -> None:
    out = files / "run"
    told = run("link", *linking(files), "--reranker", files / "cross", "--out", out, "--json")
    assert told.code == 0, told.err
    result = arbo.Result.load(out)
    assert max(len(link.candidates) for link in result.links) == 3
    for link in result.links:
        assert sum(score for _, score in link.candidates) == pytest.approx(1, abs=1e-5)
    cross = CrossEncoder.from_pretrained(files / "cross")
    assert result.manifest["encoder"]["reranker"]["weights"] == cross.settings["weights"]
    documents, kb = arbo.read_jsonl(files / "docs.jsonl"), arbo.KnowledgeBase.from_jsonl(files / "kb.jsonl")
    own = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=3), reranker=cross).link(documents)
    assert [link.entity for link in own.links] == [link.entity for link in result.links]

    again = run(
        "link", *linking(files), "--reranker", files / "cross", "--candidates", 2, "--skip-margin", 0, "--out", out
    )
    assert again.code == 0
    result = arbo.Result.load(out)
    assert result.manifest["config"]["skip_margin"] == 0
    assert {link.candidates[0][1] for link in result.links} == {1}  # the cross-encoder was spared all


def test_a_dry_run_counts_the_pairs(run: Run, files: Path) -> None:
    told = run("link", *linking(files), "--reranker", files / "cross", "--out", files / "run", "--dry-run", "--json")
    documents = arbo.read_jsonl(files / "docs.jsonl")
    assert told.json["to_read"] == 3 * len(documents.mentions)
    plain = run("link", *linking(files), "--out", files / "run", "--dry-run", "--json")
    assert plain.json["to_read"] == 0
    assert plain.json["seconds"] < told.json["seconds"]
    assert (
        "pairs to read"
        in run("link", *linking(files), "--reranker", files / "cross", "--out", files / "run", "--dry-run").out
    )


def test_tune_remembers_the_reranker(run: Run, files: Path) -> None:
    tuned, out = files / "tuned.json", files / "run"
    assert run("tune", *linking(files), "--reranker", files / "cross", "--out", tuned).code == 0
    assert run("link", *linking(files), "--config", tuned, "--out", out).code == 0
    assert arbo.Result.load(out).manifest["encoder"]["reranker"]["model"] == str(files / "cross")
    changed = CrossEncoder.from_pretrained(files / "cross", replace(CrossEncoderConfig(max_length=40), context=3))
    changed.save_pretrained(files / "other")
    refused = run("link", *linking(files), "--config", tuned, "--reranker", files / "other", "--out", out)
    assert refused.code == 2
    assert "tuned with another reranker" in refused.told
    assert run("tune", *linking(files), "--out", files / "without.json").code == 0
    refused = run(
        "link", *linking(files), "--config", files / "without.json", "--reranker", files / "cross", "--out", out
    )
    assert refused.code == 2
    assert "tuned with no reranker" in refused.told
    discovered = run("discover", files / "docs.jsonl", "--format", "jsonl", "--config", tuned, "--out", out)
    assert discovered.code == 2
    assert f"{tuned} was tuned with a reranker" in discovered.told
    file = files / "by-hand.json"
    file.write_text('{"config": {"rerank_mentions": true}}', "utf-8")
    discovered = run("discover", files / "docs.jsonl", "--format", "jsonl", "--config", file, "--out", out)
    assert discovered.code == 2
    assert "rerank_mentions is for a reranker" in discovered.told


@pytest.mark.parametrize(
    ("asked", "same", "other"),
    [
        ("candidates", ["--candidates", 2], ["--candidates", 3]),
        ("skip_margin", ["--skip-margin", 0.25], ["--skip-margin", 0.5]),
        ("rerank_mentions", ["--rerank-mentions"], ["--rerank-entities"]),
    ],
)
def test_thresholds_are_of_a_reranker_that_is_asked_alike(
    run: Run, files: Path, asked: str, same: list[object], other: list[object]
) -> None:
    tuned, out = files / "tuned.json", files / "run"
    assert run("tune", *linking(files), "--reranker", files / "cross", *same, "--out", tuned).code == 0
    value = json.loads(tuned.read_text("utf-8"))["config"][asked]
    refused = run("link", *linking(files), "--config", tuned, *other, "--out", out)
    assert refused.code == 2
    assert f"was tuned with {asked}={value}, not" in refused.told
    assert not out.exists()
    assert run("link", *linking(files), "--config", tuned, *same, "--k", 1, "--out", out).code == 0


def test_candidates_of_an_encoder_alone_are_free(run: Run, files: Path) -> None:
    assert run("tune", *linking(files), "--out", files / "tuned.json").code == 0
    given = ["--config", files / "tuned.json", "--candidates", 5, "--out", files / "run"]
    assert run("link", *linking(files), *given).code == 0


def test_wrong_models_and_usage(run: Run, files: Path, bert_folder: Path) -> None:
    refused = run("link", *linking(files), "--reranker", bert_folder, "--out", files / "run")
    assert refused.code == 3
    assert "not a cross-encoder that arbo saved" in refused.told
    refused = run("tune", files / "docs.jsonl", "--format", "jsonl", "--reranker", "any", "--out", files / "t.json")
    assert refused.code == 2
    assert "--reranker needs --kb" in refused.told
    refused = run("link", *linking(files), "--skip-margin", 0.1, "--out", files / "run")
    assert refused.code == 2
    assert "skip_margin is for a reranker, and there is none" in refused.told
    assert not (files / "run").exists()

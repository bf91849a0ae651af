"""Candidates, and the second stage: rerankers, functions among them, what they are spared, and the command line."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kb_of, linking, save_data
from conftest import Run
from hypothesis import given, strategies as st
from library.early_exit import skipping
from library.union import is_gold, union, with_gold
from rerankers import Oracle, indifferent, is_right, knows_gold, small

import arbo
from arbo.data import MentionInput, mention_inputs
from arbo.data.gold import Gold
from arbo.encoders.cross import CrossEncoder, CrossEncoderConfig
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.retrieval.reranking import Candidates, FunctionReranker, ScoreMemory, margins, rerank, reranked
from arbo.retrieval.retrieval import PairScores

SAMPLE, BASE = arbo.load_sample()

NONE = -np.inf


def candidates(*rows: list[int], k: int | None = None) -> Candidates:
    """Candidates with descending scores."""
    k = max(map(len, rows), default=0) if k is None else k
    entities = np.array([row + [-1] * (k - len(row)) for row in rows], np.int32).reshape(len(rows), k)
    scores = np.where(entities >= 0, -np.arange(k, dtype=np.float32), NONE)
    return Candidates(entities, scores, "documents", "kb", {"encoder": "made up"})


ROW = st.lists(st.integers(0, 9), unique=True, max_size=5)


def test_those_of_a_linker_are_the_nearest_entities() -> None:
    found = arbo.Linker(BASE).candidates(SAMPLE, k=3)
    assert found.entities.shape == (len(SAMPLE.mentions), 3)
    links = arbo.Linker(BASE, config=arbo.LinkerConfig(candidates=3)).link(SAMPLE).links
    for entities, scores, link in zip(found.entities, found.scores, links, strict=True):
        rows = [(BASE.entities[row].id, float(score)) for row, score in zip(entities, scores, strict=True)]
        assert rows == list(link.candidates)
    found.check(SAMPLE, BASE)


def test_entities_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a linker that encodes the entities first keeps them for the linker, but not for another encoder."""
    encode, encoded = NgramEncoder.named, list[Any]()
    monkeypatch.setattr(NgramEncoder, "named", lambda *given: encoded.append(given) or encode(*given))
    linker = arbo.Linker(BASE)
    once, again = (linker.candidates(SAMPLE[:2], k=3) for _ in range(2))
    linker.configured(config=arbo.LinkerConfig(k=2)).link(SAMPLE[:2])
    linker.undivided().candidates(["RV Petrel"], k=3)
    assert len(encoded) == 1
    assert np.array_equal(once.entities, again.entities)
    assert np.array_equal(once.scores, again.scores)
    replace(linker, encoder=NgramEncoder()).link(SAMPLE[:2])
    linker.configured(kb=arbo.KnowledgeBase(BASE.entities[1:])).link(SAMPLE[:2])
    assert len(encoded) == 3


def test_nothing_and_what_cannot_be_candidates() -> None:
    documents, kb = arbo.Corpus([arbo.Document("d", "nothing")]), arbo.load_sample()[1]
    assert (len(arbo.Linker(kb).candidates(documents)), len(Gold.of(documents, kb).entities)) == (0, 0)
    for make, words in (
        (lambda: arbo.Linker().candidates(documents), "this linker has none"),
        (lambda: arbo.Linker(kb).candidates(documents, k=0), "candidates must be an integer of at least 1"),
        (lambda: union(candidates([1]), replace(candidates([1]), knowledge_base="other")), r"\[1\] were made .*other"),
        (union, "at least one"),
    ):
        with pytest.raises((UsageError, ValueError), match=words):
            make()


def test_another_fingerprint_is_refused() -> None:
    found, fewer, other = arbo.Linker(BASE).candidates(SAMPLE, k=2), SAMPLE[1:], arbo.KnowledgeBase(BASE.entities[1:])
    for some, of, words in (
        (fewer, BASE, f"other documents .*{SAMPLE.fingerprint}.*{fewer.fingerprint}"),
        (SAMPLE, other, f"another knowledge base .*{BASE.fingerprint}.*{other.fingerprint}"),
    ):
        with pytest.raises(DataError, match=words):
            found.check(some, of)
        with pytest.raises(DataError, match=words):
            rerank(indifferent(), found, some, of)


def test_gold_rows() -> None:
    both = (("A", "one"), ("B", "two"))
    first, second = (arbo.Entity(id_, "a", alternative_ids=("X",), domain=domain) for id_, domain in both)
    kb = kb_of(first, second, arbo.Entity("C", "c", domain="two"))
    golds = [("X",), ("C", "X"), ("elsewhere",), (), None]
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 1),), "a", gold=gold) for i, gold in enumerate(golds))
    found = Gold.of(arbo.Corpus([arbo.Document("d", "a", mentions, "two")]), kb).entities
    assert found.tolist() == [[1, -1], [2, 1], [-1, -1], [-1, -1], [-1, -1]]


@given(st.lists(st.tuples(ROW, st.lists(st.integers(0, 9), unique=True, max_size=3)), max_size=6))
def test_gold_is_injected_where_it_is_missed(mentions: list[tuple[list[int], list[int]]]) -> None:
    own = candidates(*(row for row, _ in mentions), k=5)
    table = np.array([gold + [-1] * (3 - len(gold)) for _, gold in mentions], np.int32).reshape(len(mentions), 3)
    completed = with_gold(own, table)
    for (before, gold), after in zip(mentions, completed.entities.tolist(), strict=True):
        expected = [*before[:4], gold[0]] if gold and not set(before) & set(gold) else before
        assert [row for row in after if row >= 0] == expected
    assert is_gold(completed.entities, table).any(axis=1).tolist() == [bool(gold) for _, gold in mentions]


@given(st.integers(0, 4).flatmap(lambda n: st.lists(st.lists(ROW, min_size=n, max_size=n), min_size=1, max_size=3)))
def test_a_union_takes_turns(sets: list[list[list[int]]]) -> None:
    both = union(*(candidates(*rows, k=5) for rows in sets))
    assert both.k == 5 * len(sets)
    for mention, found in enumerate(both.entities.tolist()):
        turns = [rows[mention][turn] for turn in range(5) for rows in sets if turn < len(rows[mention])]
        expected = list(dict.fromkeys(turns))
        assert found == expected + [-1] * (both.k - len(expected))


@pytest.mark.parametrize("train", [None, slice(30)])
def test_scores_are_those_of_the_links(train: slice | None) -> None:
    trained = None if train is None else SAMPLE[train]
    linker = arbo.Linker(BASE, config=arbo.LinkerConfig(method="independent", entity_threshold=None))
    expected = linker.link(SAMPLE).evaluate(train=trained).linking
    scores = linker.candidates(SAMPLE, k=16).evaluate(SAMPLE, BASE, train=trained)
    assert scores.as_dict() == expected.as_dict()
    assert (scores.seen is None) == (train is None)


def test_probabilities_by_hand() -> None:
    documents, kb, found = small([[0.9, 0.8, 0.7], [0.5, 0.4], [0.3], []])
    said = {"E0": 0.0, "E1": np.log(2), "E2": np.log(5)}
    own = Oracle(lambda item, entity: said[entity.id])
    after = rerank(own, found, documents, kb)
    assert after.entities.tolist() == [[2, 1, 0], [1, 0, -1], [0, -1, -1], [-1, -1, -1]]
    expected = [[5 / 8, 2 / 8, 1 / 8], [2 / 3, 1 / 3, NONE], [1, NONE, NONE], [NONE] * 3]
    np.testing.assert_allclose(after.scores, expected, rtol=1e-6)
    assert after.made_by == {"encoder": "none", "reranker": {"encoder": "oracle"}, "skip_margin": None}
    assert sorted(own.asked) == [("m0", "E0"), ("m0", "E1"), ("m0", "E2"), ("m1", "E0"), ("m1", "E1"), ("m2", "E0")]


@given(st.lists(st.lists(st.integers(-3, 3).map(float), max_size=5), min_size=1, max_size=5))
def test_any_scores(rows: list[list[float]]) -> None:
    documents, kb, found = small([[1.0 - i for i in range(len(row))] for row in rows])
    own = Oracle(lambda item, entity: rows[int(item.mention.id[1:])][int(entity.id[1:])])
    after = rerank(own, found, documents, kb)
    for row, entities, scores in zip(rows, after.entities.tolist(), after.scores, strict=True):
        assert entities[: len(row)] == sorted(range(len(row)), key=lambda place: -row[place])
        weight = np.exp(sorted(row, reverse=True))
        np.testing.assert_allclose(scores[: len(row)], weight / weight.sum(), rtol=1e-5)


def test_the_score_of_the_first_stage_is_added() -> None:
    documents, kb, found = small([[0.9, 0.5, 0.25], [0.5]])
    given = with_gold(found, np.array([[1], [2]]))
    assert given.entities.tolist() == [[0, 1, 2], [0, 2, -1]]
    own = replace(Oracle(lambda item, entity: {"E0": 0.0, "E1": 1.0, "E2": 2.0}[entity.id]), retrieval_weight=2.0)
    after, weight = rerank(own, given, documents, kb), np.exp([2.5, 2.0, 1.8])
    np.testing.assert_allclose(after.scores[0], weight / weight.sum(), rtol=1e-6)
    assert after.entities[0].tolist() == [2, 1, 0]
    np.testing.assert_allclose(after.scores[1], [1 / (1 + np.exp(-2)), 1 - 1 / (1 + np.exp(-2)), NONE], rtol=1e-6)


@pytest.mark.parametrize(("said", "weight"), [(np.nan, 0), (-np.inf, 0), (1e39, 0), (3e38, 1e38), (0.0, 1e30)])
def test_scores_that_are_no_numbers_or_beyond_float32(said: float, weight: float) -> None:
    documents, kb, found = small([[0.9, 0.5]])
    own = Oracle(lambda item, entity: said if entity.id == "E0" else 0.0, retrieval_weight=weight)
    if not said:
        found = replace(found, scores=found.scores * np.float32([1e30, 1]))
    added = f", after adding {weight:g} times the score from retrieval" if weight else ";"
    with pytest.raises(DataError, match=re.escape(f"NaN or infinity for 1 of 2 pairs{added}")):
        rerank(own, found, documents, kb)


def test_a_reranked_retrieval_has_the_thresholds_of_who_makes_the_edges() -> None:
    first = arbo.Linker(BASE)
    second = first.configured(reranker=replace(indifferent(), threshold=0.4))
    found, entities = (one.retrieve(SAMPLE, k=2) for one in (first, second))
    assert entities.threshold == (0.4, found.threshold[1])
    assert all((one == other).all() for one, other in zip(entities.mentions, found.mentions, strict=True))
    assert entities.settings == {**found.settings, "reranker": indifferent().settings, "skip_margin": None}
    assert (entities.similarity(entities.entities.dissimilarity) <= 1).all()


def knowing(mentions: Sequence[MentionInput], candidates: Sequence[Sequence[arbo.Entity]]) -> list[list[float]]:
    """Return the scores of `rerankers.knows_gold`."""
    pairs = zip(mentions, candidates, strict=True)
    return [[20.0 * is_right(item.mention, entity) for entity in entities] for item, entities in pairs]


def test_a_function_is_a_reranker() -> None:
    linker = arbo.Linker(BASE, reranker=knowing)
    result, expected = linker.link(SAMPLE), arbo.Linker(BASE, reranker=knows_gold()).link(SAMPLE)
    assert result.link_table == expected.link_table
    assert result.manifest["encoder"]["reranker"]["function"].endswith("knowing")
    arbo.Linker(BASE, reranker=knowing, config=arbo.LinkerConfig(skip_margin=2.0)).link(SAMPLE)


def test_a_function_reads_mentions_with_their_documents_once_and_may_change_its_lists() -> None:
    documents, kb, candidates = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[tuple[str, str, list[str]]] = []

    def function(mentions: Any, lists: Any) -> Any:
        asked.extend((m.mention.id, m.document.text, [e.id for e in es]) for m, es in zip(mentions, lists, strict=True))
        scores = [list(range(len(entities))) for entities in lists]
        for entities in lists:
            entities.reverse()
        mentions.clear()
        lists.clear()
        return scores

    found = rerank(function, candidates, documents, kb)
    assert asked == [("m0", "x", ["E0", "E1", "E2"]), ("m1", "x", ["E0", "E1"])]
    assert found.entities.tolist() == [[2, 1, 0], [1, 0, -1]]
    weighted = rerank(FunctionReranker(function, retrieval_weight=10.0), candidates, documents, kb)
    assert weighted.entities.tolist() == [[0, 1, 2], [0, 1, -1]]


def test_a_function_chooses_among_all_candidates_of_a_mention_that_has_a_new_one() -> None:
    documents, kb, _ = small([[3.0, 2.0, 1.0], [5.0, 1.0]])
    asked: list[str] = []

    def last(mentions: Any, lists: Any) -> Any:
        asked.extend(item.mention.id for item in mentions)
        return [np.arange(len(entities)) == len(entities) - 1 for entities in lists]

    inputs = mention_inputs(documents, expand_abbreviations=False)
    known = PairScores(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0.0, 1.0, 0.0, 1.0]))
    own = ScoreMemory(FunctionReranker(last), known=known)
    given: Any = own.score(inputs, kb, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]))
    assert (given.tolist(), asked) == ([0, 0, 1, 0, 1], ["m0"])


def test_wrong_scores() -> None:
    for back, said in (
        (None, "returned None; return 2 lists, one for each mention"),
        ([[1.0, 2.0]], r"returned \[\[1.0, 2.0\]\]; return 2 lists"),
        ([[1.0, 2.0], [1.0]], r"m1.*returned \[1.0\] for 2 candidates; return a finite number for each"),
        ([[1.0, 2.0], 3.0], r"m1.*returned 3.0 for 2 candidates"),
        ([[1.0, float("nan")], [1.0, 2.0]], r"m0.*\[1.0, nan\] for 2 candidates"),
        ([["yes", "no"], [1.0, 2.0]], r"m0.*\['yes', 'no'\] for 2 candidates"),
    ):
        documents, kb, candidates = small([[3.0, 1.0], [5.0, 1.0]])
        with pytest.raises(DataError, match=said):
            rerank(lambda *_, back=back: back, candidates, documents, kb)


def test_what_cannot_score_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (1, "cross", arbo.CrossEncoder):
        with pytest.raises(UsageError, match="cannot score candidates; give a function of mentions"):
            arbo.Linker(arbo.KnowledgeBase(), reranker=wrong)
    monkeypatch.setattr(Oracle, "score", lambda *_: np.zeros(3))
    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(DataError, match=r"scores of the shape \(3,\), not \(2,\).*return one for each pair"):
        rerank(indifferent(), found, documents, kb)


def test_what_the_encoder_is_sure_of_is_not_read() -> None:
    documents, kb, found = small([[0.9, 0.5], [0.9, 0.75], [0.9], []])
    np.testing.assert_allclose(margins(found.scores), [0.4, 0.15, np.inf, np.inf], rtol=1e-6)
    own = Oracle(lambda item, entity: float(entity.id == "E1"))
    after = rerank(own, found, documents, kb, skip_margin=float(margins(found.scores)[0]))
    assert {mention for mention, _ in own.asked} == {"m1"}
    assert (after.entities.tolist(), after.scores[0].tolist()) == ([[0, 1], [1, 0], [0, -1], [-1, -1]], [1, 0])


@pytest.mark.parametrize("skip_margin", [-1, float("inf"), float("nan"), "0.1", True])
def test_margins_that_cannot_be_meant(skip_margin: Any) -> None:
    with pytest.raises(UsageError, match="skip_margin must be"):
        arbo.LinkerConfig(skip_margin=skip_margin)


DRAWN = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(DRAWN, min_size=1, max_size=8), st.sampled_from([0.0, 0.2, 1.0]))
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


def test_discovery_asks_no_reranker() -> None:
    own = indifferent()
    linker = arbo.Linker(BASE, reranker=own)
    assert linker.discover(SAMPLE[:5]).link_table == arbo.Linker().discover(SAMPLE[:5]).link_table
    assert not own.asked


@pytest.mark.parametrize("method", ["arborescence", "independent"])
def test_links_are_the_rerankers(method: Any) -> None:
    result = arbo.Linker(BASE, config=arbo.LinkerConfig(method=method, k=0), reranker=knows_gold()).link(SAMPLE)
    accepted, gold = arbo.Linker(BASE).candidates(SAMPLE, k=16), Gold.of(SAMPLE, BASE).entities
    hits = ((accepted.entities[:, :, None] == gold[:, None]) & (gold >= 0)[:, None]).any(axis=(1, 2))
    assert hits.mean() > 0.5
    for link, hit in zip(result.links, hits, strict=True):
        if hit:
            assert is_right(link.mention, BASE[str(link.entity)])
            n_right = sum(is_right(link.mention, BASE[id_]) for id_, _ in link.candidates)
            assert link.score == pytest.approx(1 / n_right, abs=1e-4)
            assert link.step == pytest.approx(1 - 1 / n_right, abs=1e-4)
        else:  # each of 16 is as good as the others
            assert link.entity is None
            assert [score for _, score in link.candidates] == pytest.approx([1 / 16] * 16)
    assert result.manifest["threshold"]["entity"] == 0.5
    assert result.manifest["encoder"]["reranker"] == {"encoder": "oracle"}


def test_the_second_stage_is_one_function() -> None:
    linker = arbo.Linker(BASE, reranker=Oracle(lambda item, entity: len(entity.name) / 3.0))
    plain = replace(linker, reranker=None).candidates(SAMPLE, k=7)
    found, again = rerank(linker.reranker, plain, SAMPLE, BASE), linker.candidates(SAMPLE, k=7)
    assert np.array_equal(found.entities, again.entities)
    np.testing.assert_allclose(found.scores, again.scores, atol=1e-7)
    sparing = linker.configured(config=arbo.LinkerConfig(skip_margin=0.25, candidates=7))
    skipped = rerank(linker.reranker, plain, SAMPLE, BASE, skip_margin=0.25)
    one = sparing.candidates(SAMPLE, k=7)
    assert one.made_by == skipped.made_by != again.made_by == found.made_by
    assert np.array_equal(one.entities, skipped.entities)


def test_the_score_of_an_entity_that_is_no_candidate_is_zero() -> None:
    first = arbo.Linker(BASE, config=arbo.LinkerConfig(candidates=2)).retrieve(arbo.Corpus.of(SAMPLE), k=1)
    second = reranked(first, ScoreMemory(indifferent()), BASE)
    nearest, every = second.entities.ids[:, 0], np.arange(len(SAMPLE.mentions))
    assert set(second.similarity(second.dissimilarity_to(nearest, every)).tolist()) == {0.5}
    assert set(second.dissimilarity_to(np.full(len(every), -1, np.int32), every).tolist()) == {np.inf}
    far = ((nearest + 1) % len(BASE)).astype(np.int32)
    far = np.where((second.entities.ids == far[:, None]).any(axis=1), -1, far)
    assert set(second.dissimilarity_to(far, every)[far >= 0].tolist()) == {1.0}


def test_explain_tune_evaluate_and_keep(tmp_path: Path) -> None:
    linker = arbo.Linker(BASE, reranker=knows_gold())
    result = linker.link(SAMPLE)
    for link in result.links:
        told = str(result.explain(link))
        assert ("probability" in told) == bool(link.candidates)
        assert not re.search(r"(?<!dis)similarity", told)
    assert result.evaluate().linking.accuracy > arbo.Linker(BASE).link(SAMPLE).evaluate().linking.accuracy
    tuned = linker.tune(SAMPLE)
    assert tuned.reranker is linker.reranker
    assert tuned.tuning.best.score >= result.evaluate().accuracy_with_nil
    assert tuned.link(SAMPLE).evaluate().accuracy_with_nil == pytest.approx(tuned.tuning.best.score)
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").manifest["encoder"]["reranker"] == {"encoder": "oracle"}


@pytest.fixture
def files(bert: Tower, tmp_path: Path) -> Path:
    """A few documents, a knowledge base, and a cross-encoder whose scores mean nothing."""
    documents, kb = arbo.load_sample()
    save_data(tmp_path, documents[:6], arbo.KnowledgeBase(kb.entities[:9]))
    config = CrossEncoderConfig(max_length=40, candidates=3)
    CrossEncoder.of(bert, config).with_markers().save_pretrained(tmp_path / "cross")
    return tmp_path


def test_link_with_a_cross_encoder(run: Run, files: Path) -> None:
    out = files / "run"
    run("link", *linking(files, "docs.jsonl"), "--reranker", files / "cross", "--out", out, "--json").ok()
    result = arbo.Result.load(out)
    assert max(len(link.candidates) for link in result.links) == 3
    for link in result.links:
        assert sum(score for _, score in link.candidates) == pytest.approx(1, abs=1e-5)
    cross = CrossEncoder.from_pretrained(files / "cross")
    assert result.manifest["encoder"]["reranker"]["weights"] == cross.settings["weights"]
    documents, kb = arbo.read_documents(files / "docs.jsonl"), arbo.read_knowledge_base(files / "kb.jsonl")
    own = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=3), reranker=cross).link(documents)
    assert [link.entity for link in own.links] == [link.entity for link in result.links]

    given = ["--reranker", files / "cross", "--set", "candidates=2", "--set", "skip_margin=0", "--out", out]
    assert run("link", *linking(files, "docs.jsonl"), *given).code == 0
    result = arbo.Result.load(out)
    assert result.manifest["config"]["skip_margin"] == 0
    assert {link.candidates[0][1] for link in result.links} == {1}  # the cross-encoder was spared all


def test_a_run_with_a_cross_encoder_grows(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.read_documents(files / "docs.jsonl"), linking(files, "docs.jsonl")[3:]
    documents[:4].to_jsonl(files / "docs.jsonl")
    documents[4:].to_jsonl(files / "more.jsonl")
    run("link", *linking(files, "docs.jsonl"), "--reranker", files / "cross", "--out", files / "one").ok()
    read, score = list[int](), CrossEncoder.score
    monkeypatch.setattr(CrossEncoder, "score", lambda *given: read.append(len(given[3])) or score(*given))
    run("add", files / "one", files / "more.jsonl", *kb[:2], "--out", files / "two").ok()
    assert read == [3 * len(documents[4:].mentions)]
    assert (run("add", "--anew", files / "two", *kb[:2], "--out", files / "three").code, len(read)) == (0, 1)
    two, three = (arbo.Result.load(files / name) for name in ("two", "three"))
    assert (two.link_table, two.cluster_table) == (three.link_table, three.cluster_table)
    was = arbo.Result.load(files / "one").link_table["candidate_scores"]
    assert two.link_table["candidate_scores"].slice(0, len(was)) == was


def test_tune_remembers_the_reranker_and_how_it_was_asked(run: Run, files: Path) -> None:
    job, same = linking(files, "docs.jsonl"), ["--set", "candidates=2", "--set", "skip_margin=0.25"]
    link, tune, tuned, plain, out = ["link", *job], ["tune", *job], files / "t.json", files / "p.json", files / "run"
    run(*tune, "--reranker", files / "cross", *same, "--out", tuned).ok()
    run(*tune, "--out", plain).ok()
    config = replace(CrossEncoderConfig(max_length=40), context=3)
    CrossEncoder.from_pretrained(files / "cross", config).save_pretrained(files / "other")
    for how, words in (
        (["--config", tuned, "--reranker", files / "other"], "tuned with another reranker"),
        (["--config", plain, "--reranker", files / "cross"], "tuned without a reranker"),
        (["--config", tuned, "--set", "candidates=3"], "was tuned with candidates=2, not"),
        (["--config", tuned, "--set", "skip_margin=0.5"], "was tuned with skip_margin=0.25, not"),
    ):
        refused = run(*link, *how, "--out", out)
        assert (refused.code, words in refused.told) == (2, True), refused.told
    discovered = run("discover", files / "docs.jsonl", "--format", "jsonl", "--config", tuned, "--out", out)
    assert (discovered.code, f"{tuned} was tuned with a reranker" in discovered.told) == (2, True)
    assert not out.exists()
    run(*link, "--config", tuned, *same, "--k", 1, "--out", out).ok()
    assert arbo.Result.load(out).manifest["encoder"]["reranker"]["model"] == str(files / "cross")
    run(*link, "--config", plain, "--set", "candidates=5", "--out", out).ok()  # those of an encoder alone are free

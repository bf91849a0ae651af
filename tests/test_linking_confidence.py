"""The confidence of links, and the gap of a knowledge base: estimates, what follows them, and where a run shows it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kb_of, linking, sample_files
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo.engine import Neighbors
from arbo.explore.report import Payload
from arbo.linking.confidence import Confidence, Reliability, calibrate
from arbo.linking.config import DefaultConfidence, _share_of_twins, estimated_gaps

SAMPLE, BASE = arbo.load_sample()


def drawn_links(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray, Confidence]:
    """Draw links that are right as often as a known confidence says; ten links a document."""
    rng, truth = np.random.default_rng(0), Confidence(-4.0, 5.0, 3.0)
    given = rng.random((n, 2))
    return given, rng.random(n) < truth.of(given), np.arange(n) // 10, truth


def test_a_known_confidence_is_found_again() -> None:
    given, right, document, truth = drawn_links()
    found = calibrate(given, right, document)
    assert np.abs(found[0].of(given) - truth.of(given)).max() < 0.05
    assert found[1].links.sum() == len(right)
    assert found[1].expected_error < 0.03
    large = calibrate(given * 1000 - 7, right, document)  # similarities of any scale
    assert large[0].of(given * 1000 - 7) == pytest.approx(found[0].of(given), abs=1e-3)
    assert calibrate(given * [1, 0], right, document)[0].lead == 0


def test_no_document_predicts_itself() -> None:
    """Links of a document are all right or all wrong, by chance: nothing can be known, though a fit sees it."""
    rng, document = np.random.default_rng(1), np.repeat(np.arange(8), 10)
    right = rng.permutation([True, False] * 4)[document]
    found = calibrate(np.column_stack([document == 0, right]).astype(float) * [1, 0], right, document)
    fit = Reliability.of(found[0].of(np.column_stack([document == 0, right]).astype(float) * [1, 0]), right)
    assert found[1].expected_error > fit.expected_error + 0.05


def test_too_little_gives_no_confidence() -> None:
    given, right, document, _ = drawn_links(40)
    assert calibrate(given, right, document) is not None
    assert calibrate(given[:19], right[:19], document[:19]) is None
    assert calibrate(given, right, np.zeros(40, np.int64)) is None
    assert calibrate(given, np.ones(40, np.bool_), document) is None
    assert calibrate(given, document == 0, document) is None  # without the first document, all are wrong


def test_the_expected_error_is_that_of_the_formula() -> None:
    curve = Reliability.of(np.array([0.05, 0.62, 0.68, 1.0]), np.array([False, True, False, True]))
    assert curve.links.tolist() == [1, 0, 0, 0, 0, 0, 2, 0, 0, 1]
    assert curve.predicted[[0, 6, 9]] == pytest.approx([0.05, 0.65, 1])
    assert curve.expected_error == pytest.approx((0.05 + 2 * 0.15 + 0) / 4)
    assert [line.split() for line in str(curve).splitlines()[3:]] == [
        ["0.0", "to", "0.1", "1", "0.050", "0.000"],
        ["0.6", "to", "0.7", "2", "0.650", "0.500"],
        ["0.9", "to", "1.0", "1", "1.000", "1.000"],
    ]


def test_links_have_the_confidence_of_their_similarity_and_lead() -> None:
    tuned = arbo.Linker(BASE).tune(SAMPLE[:45])
    assert tuned.config.confidence == tuned.tuning.confidence
    result = tuned.link(SAMPLE[45:])
    assert any(link.entity != link.candidates[0][0] for link in result.links if link.entity), "reached over others"
    for link in result.links:
        assert (link.confidence is None) == (link.entity is None)
        if link.confidence is not None and link.score is not None:
            lead = link.score - max(score for id_, score in link.candidates if id_ != link.entity)
            assert link.confidence == pytest.approx(float(tuned.config.confidence.of(np.array([link.score, lead]))))
    assert tuned.discover(SAMPLE[:2]).links[0].confidence is None


def test_by_default_the_confidence_follows_the_gap() -> None:
    half = arbo.KnowledgeBase(entity for i, entity in enumerate(BASE) if i % 2)
    sure, (unsure, alone) = arbo.Linker(BASE).link(SAMPLE), map(arbo.Linker(half).link, (SAMPLE, SAMPLE[:9]))
    for run in (sure, unsure, alone):
        confidence = DefaultConfidence(**run.manifest["confidence"][""])
        for link in run.links:
            if link.entity is None:
                assert link.confidence == pytest.approx(confidence.nil)
            else:
                lead = link.score - max(score for id_, score in link.candidates if id_ != link.entity)
                odds = np.exp(confidence.log_odds) * (max(lead, 0) + 0.02) / (1 - link.score + 0.02)
                assert link.confidence == pytest.approx(odds / (1 + odds), abs=1e-4)
    assert alone.manifest["gap"] is None
    assert alone.manifest["confidence"] == arbo.Linker(half).link(SAMPLE[9:12]).manifest["confidence"]
    assert sure.manifest["confidence"][""]["log_odds"] > unsure.manifest["confidence"][""]["log_odds"]


def test_nil_is_as_right_as_the_gap_says() -> None:
    for gap, nils, nil in ((0.0, 1, 0), (0.0, 30, 0.9), (0.4, 60, 0.4 / 0.65), (0.4, 0, 0.95), (None, 60, 0.33)):
        assert DefaultConfidence.for_gap(gap, np.arange(100) < nils).nil == pytest.approx(nil)


def test_the_command_line_tunes_writes_and_shows_it(run: Run, tmp_path: Path) -> None:
    files, tuned = sample_files(tmp_path), tmp_path / "tuned.json"
    told = run("tune", *linking(files, "train.jsonl"), "--out", tuned)
    assert (told.code, told.err.count("error")) == (0, 0)
    assert "expected calibration error 0.0" in told.out
    assert "predicted  correct" in told.out
    content = json.loads(tuned.read_text("utf-8"))
    assert set(content["config"]["confidence"]) == {"intercept", "similarity", "lead"}
    assert sum(content["tuning"]["reliability"]["links"]) > 200
    assert arbo.LinkerConfig.from_json(tuned).confidence == Confidence(**content["config"]["confidence"])
    run("link", *linking(files, "test.jsonl"), "--config", tuned, "--out", tmp_path / "run")
    shown = run("show", tmp_path / "run", "--json").json["mentions"]
    assert all((row["confidence"] is None) == (row["entity_id"] is None) for row in shown)
    linked = next(row for row in shown if row["entity_id"] and row["margin"])
    explained = run("explain", tmp_path / "run", linked["mention_id"])
    assert f"confidence {linked['confidence']:.3f}, similarity" in explained.out


NAMES = [f"{first}{second}" for first in ("ba", "ke", "mo", "tu", "zi") for second in ("dran", "fel", "gor", "lun")]
WORDS = [f"{one} {other}" for one in NAMES for other in NAMES if one != other]


def base_of(names: list[str], *aliases: str) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase(arbo.Entity(f"E{i}", name, aliases=aliases[i : i + 1]) for i, name in enumerate(names))


def test_twins_are_aliases_with_the_words_of_another_name() -> None:
    cancer = arbo.Entity("A", "breast cancer", aliases=("Cancer, Breast", "mammary carcinoma"))
    kb = kb_of(cancer, arbo.Entity("B", "influenza", aliases=("flu",)), arbo.Entity("C", "cold"))
    assert _share_of_twins(kb) == (1 / 2 + 0) / 2
    assert _share_of_twins(arbo.KnowledgeBase([*kb][::-1])) == _share_of_twins(kb)
    assert _share_of_twins(base_of(["flu"])) == 0


@pytest.mark.parametrize(("clear", "gap"), [(0.9, 0), (0.53, 0), (0.3, 0.5), (0.07, 1), (0.0, 1)])
def test_the_estimate_falls_with_the_share_of_clear_mentions(clear: float, gap: float) -> None:
    lists = Neighbors(np.zeros((1000, 2), np.int32), np.tile(np.float32([0.2, 0.4]), (1000, 1)))
    lists.dissimilarity[: int(1000 * clear), 0] = 0.1
    kb, types, names = base_of(["flu"]), [None] * 1000, (WORDS * 3)[:1000]
    assert estimated_gaps(lists, names, types, kb) == {"": pytest.approx(gap, abs=0.01)}
    assert estimated_gaps(lists.first(1), names, types, kb) == {}


def test_homonyms_are_no_gap_a_second_entity_is_needed_and_another_base_is_estimated_again() -> None:
    twice = arbo.KnowledgeBase(arbo.Entity(f"E{i}", word) for i, word in enumerate([*WORDS, *WORDS]))
    assert arbo.Linker(twice).link(WORDS).manifest["gap"] == 0
    assert arbo.Linker(base_of(["one"])).link(WORDS).manifest["gap"] is None
    linkers = [arbo.Linker(base_of(WORDS[:n])) for n in (40, 380)]
    before = linkers[0].link(WORDS)
    after = linkers[1].add(before, other_kb=True)
    assert before.manifest["gap"] != after.manifest["gap"] == linkers[1].refit(after).manifest["gap"]


def test_entities_that_are_removed_are_missed() -> None:
    bases = [arbo.KnowledgeBase(entity for i, entity in enumerate(BASE) if i % 10 >= gone) for gone in (0, 3, 6)]
    gaps = [arbo.Linker(base).link(SAMPLE).manifest["gap"] for base in bases]
    assert gaps[0] < 0.05 < gaps[1] < gaps[2]


def test_few_mentions_few_names_and_settings_leave_the_constant() -> None:
    cases: list[tuple[list[str], dict[str, Any], float]] = [
        (WORDS[:199], {}, 0.35),
        (WORDS[:50] * 10, {}, 0.35),
        (WORDS, {"entity_threshold": 0.4}, 0.4),
        (WORDS, {"per_document": True}, 0.35),
        (["unlike all"] * 100 + WORDS[:150], {"kb_complete": True}, 0.55),
        ([], {"kb_complete": True}, 0.55),
    ]
    for documents, config, expected in cases:
        manifest = arbo.Linker(base_of(WORDS), config=config).link(documents).manifest
        assert manifest["threshold"]["entity"] == expected
        assert manifest["gap"] == (0 if config.get("kb_complete") else None)


def test_types_have_gaps_and_thresholds_of_their_own() -> None:
    named = [(type_, word[::step]) for word in WORDS for type_, step in (("A", 1), ("B", -1))]  # B is unlike all names
    marked = [[{"spans": [[0, len(word)]], "type": type_}] for type_, word in named]
    rows = [{"id": f"d{i}", "text": named[i][1], "mentions": own} for i, own in enumerate(marked)]
    linker = arbo.Linker(base_of(WORDS))
    result = linker.link(rows)
    gaps, limits = result.manifest["gaps"], result.manifest["limits"]
    assert [*gaps] == ["", "A", "B"]
    assert gaps["A"] < gaps[""] < gaps["B"]
    assert limits["B"] < limits["A"] == result.manifest["threshold"]["entity"]
    direct = [link for link in result.links if link.parent is not None and not link.parent_is_mention]
    assert all(link.step <= limits[link.mention.type] + 1e-6 for link in direct)
    assert linker.link(rows[::2]).manifest["gaps"] == {"": gaps["A"]}
    grown = linker.add(result, [{"id": "more", "text": "flu", "mentions": [{"spans": [[0, 3]], "type": "B"}]}])
    assert all(grown.manifest[name] == result.manifest[name] for name in ("gaps", "limits", "confidence"))
    assert linker.refit(grown).link_table == grown.link_table
    (line,) = result.choices
    assert f"of type B, {gaps['B']:.0%} and {limits['B']:.2f}" in line


@settings(max_examples=8, deadline=None)
@given(st.integers(200, 300), st.data())
def test_growth_keeps_the_estimate_of_the_run(cut: int, data: st.DataObject) -> None:
    kb = base_of([word for i, word in enumerate(WORDS) if i % 3])
    rows = [{"id": f"d{i}", "text": word, "mentions": [{"spans": [[0, len(word)]]}]} for i, word in enumerate(WORDS)]
    linker = arbo.Linker(kb)
    before = linker.link(rows[:cut])
    grown = linker.add(before, rows[cut : cut + data.draw(st.integers(1, 80))])
    again = linker.refit(grown)
    for name in ("gap", "confidence"):
        assert grown.manifest[name] == again.manifest[name] == before.manifest[name]
    assert grown.link_table == again.link_table


def test_the_order_of_documents_does_not_matter() -> None:
    order, linker = np.random.default_rng(0).permutation(len(WORDS)).tolist(), arbo.Linker(base_of(WORDS[::2]))
    assert linker.link(WORDS).manifest["gap"] == linker.link([WORDS[i] for i in order]).manifest["gap"]


def test_the_command_line_says_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join(WORDS))
    base_of(WORDS[::2]).to_jsonl(tmp_path / "kb.jsonl")
    done = run("link", tmp_path / "names.txt", "--kb", tmp_path / "kb.jsonl", "--out", tmp_path / "run")
    (line,) = Payload(arbo.Result.load(tmp_path / "run"), "run").overview["choices"]
    assert line.startswith("estimate: the knowledge base lacks the entity of hardly any mention")
    assert line in done.told

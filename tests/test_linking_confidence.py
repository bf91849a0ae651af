"""The confidence of links: what it is fitted to, how honestly it is measured, and where a run shows it."""

import json
from pathlib import Path

import numpy as np
import pytest
from builders import linking, sample_files
from conftest import Run, Sample

import arbo
from arbo.linking.confidence import Confidence, Reliability, calibrate
from arbo.linking.config import DefaultConfidence


def drawn_links(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray, Confidence]:
    """Draw links that are right as often as a known confidence says; ten links a document."""
    rng = np.random.default_rng(0)
    truth = Confidence(-4.0, 5.0, 3.0)
    given = rng.random((n, 2))
    return given, rng.random(n) < truth.of(given), np.arange(n) // 10, truth


def test_a_known_confidence_is_found_again() -> None:
    given, right, document, truth = drawn_links()
    found = calibrate(given, right, document)
    assert np.abs(found[0].of(given) - truth.of(given)).max() < 0.05
    assert found[1].links.sum() == len(right)
    assert found[1].expected_error < 0.03


def test_similarities_of_any_scale_are_calibrated() -> None:
    given, right, document, _ = drawn_links()
    small, large = calibrate(given, right, document), calibrate(given * 1000 - 7, right, document)
    assert large[0].of(given * 1000 - 7) == pytest.approx(small[0].of(given), abs=1e-3)
    constant = calibrate(given * [1, 0], right, document)
    assert constant[0].lead == 0


def test_no_document_predicts_itself() -> None:
    """Links of a document are all right or all wrong, by chance: nothing can be known, though a fit sees it."""
    rng = np.random.default_rng(1)
    document = np.repeat(np.arange(8), 10)
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


def test_links_have_the_confidence_of_their_similarity_and_lead(sample: Sample) -> None:
    documents, kb = sample
    tuned = arbo.Linker(kb).tune(documents[:45])
    assert tuned.config.confidence == tuned.tuning.confidence
    result = tuned.link(documents[45:])
    assert any(link.entity != link.candidates[0][0] for link in result.links if link.entity), "reached over others"
    for link in result.links:
        assert (link.confidence is None) == (link.entity is None)
        if link.confidence is not None and link.score is not None:
            lead = link.score - max(score for id_, score in link.candidates if id_ != link.entity)
            assert link.confidence == pytest.approx(float(tuned.config.confidence.of(np.array([link.score, lead]))))
    assert tuned.discover(documents[:2]).links[0].confidence is None


def test_by_default_the_confidence_follows_the_gap(sample: Sample) -> None:
    documents, kb = sample
    half = arbo.KnowledgeBase(entity for i, entity in enumerate(kb) if i % 2)
    sure, unsure, alone = (
        arbo.Linker(base).link(some) for base, some in ((kb, documents), (half, documents), (half, documents[:9]))
    )
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
    assert alone.manifest["confidence"] == arbo.Linker(half).link(documents[9:12]).manifest["confidence"]
    assert sure.manifest["confidence"][""]["log_odds"] > unsure.manifest["confidence"][""]["log_odds"]


@pytest.mark.parametrize(
    ("gap", "nils", "nil"), [(0.0, 1, 0), (0.0, 30, 0.9), (0.4, 60, 0.4 / 0.65), (0.4, 0, 0.95), (None, 60, 0.33)]
)
def test_nil_is_as_right_as_the_gap_says(gap: float | None, nils: int, nil: float) -> None:
    assert DefaultConfidence.for_gap(gap, np.arange(100) < nils).nil == pytest.approx(nil)


def test_growth_keeps_the_confidence(sample: Sample) -> None:
    documents, kb = sample
    linker = arbo.Linker(arbo.KnowledgeBase(entity for i, entity in enumerate(kb) if i % 2))
    before = linker.link(documents[:60])
    grown = linker.add(before, documents[60:])
    assert (
        grown.manifest["confidence"] == before.manifest["confidence"] != linker.link(documents).manifest["confidence"]
    )
    assert linker.refit(grown).link_table == grown.link_table


def test_the_command_line_tunes_writes_and_shows_it(run: Run, tmp_path: Path) -> None:
    files, tuned = sample_files(tmp_path), tmp_path / "tuned.json"
    given = linking(files, "train.jsonl")
    told = run("tune", *given, "--out", tuned)
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


def test_a_confidence_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"config": {"confidence": {"intercept": "high"}}}), "utf-8")
    with pytest.raises(arbo.DataError, match="intercept must be a finite number, not 'high'"):
        arbo.LinkerConfig.from_json(file)

"""Plots of a run: what is drawn is what the run says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linker
from conftest import Run, Sample

import arbo
from arbo.results import plots

Drawn = Callable[[arbo.Result, str], tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]]


@pytest.fixture(scope="module")
def result(sample: Sample) -> arbo.Result:
    documents, kb = sample
    return linker(kb).link(documents)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Return what a result gives to be plotted: thresholds, curves and settings."""

    def plotted(result: arbo.Result, name: str) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]:
        given: list[Any] = []
        monkeypatch.setattr(plots, "plot_thresholds", lambda *values, **settings: given.extend([*values, settings]))
        result.plot(name)
        threshold, curves, path, settings = given
        assert path == name
        return threshold, curves, settings

    return plotted


def test_the_curve_is_what_linking_each_mention_alone_gives(sample: Sample, result: arbo.Result, drawn: Drawn) -> None:
    threshold, curves, settings = drawn(result, "a-curve.png")
    assert settings["chosen"] == pytest.approx(0.35)
    for limit in (0.0, 0.2, 0.35, 0.6):
        alone = linker(sample[1], method="independent", entity_threshold=limit + 1e-6).link(sample[0])
        place = np.searchsorted(threshold, limit + 1e-6) - 1
        assert curves["linked"][place] == sum(link.entity is not None for link in alone.links) / len(alone.links)
        assert curves["correct, NIL included"][place] == pytest.approx(alone.evaluate().accuracy_with_nil)


def test_the_curve_without_gold_is_what_is_linked(sample: Sample, drawn: Drawn) -> None:
    plain = [arbo.Document("d", "Root rot", (arbo.Mention("m", "d", ((0, 8),), "Root rot"),))]
    _, curves, _ = drawn(linker(sample[1]).link(plain), "curve.svg")
    assert {name: values.tolist() for name, values in curves.items()} == {"linked": [1.0]}


def test_the_histogram_counts_every_edge_once(result: arbo.Result, drawn: Drawn) -> None:
    edges, counts, settings = drawn(result, "histogram.svg")
    near = np.array([1 - link.candidates[0][1] for link in result.links])
    steps = np.array([link.step for link in result.links if link.parent_is_mention])
    joins = np.array([cluster.weakest_join for cluster in result.discovered if len(cluster.mentions) > 1])
    for (name, values), expected in zip(counts.items(), (near, steps, joins), strict=True):
        n_equal = int((expected <= 0.01).sum())
        assert f"({len(expected) - n_equal:,}, and {n_equal:,} up to 0.01)" in name
        assert values.sum() == len(expected) - n_equal
        assert len(values) == len(edges)
    assert list(settings["chosen"]) == ["entity threshold", "mention threshold"]


def test_discovery_has_no_entities_to_plot(sample: Sample, drawn: Drawn) -> None:
    found = linker().discover(sample[0])
    _, counts, settings = drawn(found, "histogram.svg")
    assert [name.split(" (")[0] for name in counts] == ["weakest join of new entities"]
    assert list(settings["chosen"]) == ["mention threshold"]
    with pytest.raises(arbo.UsageError, match="no nearest entity"):
        found.plot("curve.svg")
    with pytest.raises(arbo.UsageError, match="no nearest entity and no edges between them"):
        linker().discover([arbo.Document("d", "x")]).plot("histogram.svg")
    with pytest.raises(arbo.UsageError, match="must end in `histogram` or `curve`, before"):
        found.plot("plot.svg")


def test_the_command_line_plots_the_mentions_it_shows(run: Run, result: arbo.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    for name in ("curve.svg", "nil-histogram.png"):
        assert run("show", tmp_path / "run", "--nil", "--limit", 0, "--plot", tmp_path / name).code == 0
    curve = (tmp_path / "curve.svg").read_text("utf-8")
    assert curve.startswith("<?xml")
    assert (tmp_path / "nil-histogram.png").read_bytes().startswith(b"\x89PNG")
    run("show", tmp_path / "run", "--limit", 0, "--plot", tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_text("utf-8") != curve, "all mentions, not those that are NIL"
    refused = run("show", tmp_path / "run", "--plot", tmp_path / "curve.pdf")
    assert (refused.code, "must be one of .png, .svg" in refused.told) == (2, True)

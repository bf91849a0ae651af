"""What a terminal or a notebook shows of an object fits on a screen, and of progress what one wants to see."""

import re
import sys
import time
from collections.abc import Callable
from html import unescape
from typing import Any

import numpy as np
import pytest
from builders import document

import arbo
from arbo import progress
from clustering import Graph, merge_tree, partition
from eval import Contingency, Summed, linking_outcomes, proportion, threshold_curve

SCREEN = 3_000


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    documents, kb = arbo.load_sample()
    tuned = arbo.Linker(kb).tune(documents[:45])
    result = tuned.link(documents[45:])
    evaluation = result.evaluate()
    graph = Graph.from_edges(range(999), range(1, 1000), np.ones(999), n_entities=1, n_nodes=1000)
    labels, explanation = np.arange(900) % 30, result.explain(result.links[0].mention.id)
    objects: list[object] = [
        *(documents, documents[0], kb, next(iter(kb)), kb.names(), tuned, tuned.tuning, tuned.config),
        *(tuned.tuning.reliability, tuned.candidates(documents), result, result.links, result.links[0]),
        *(result.clusters, result.clusters[0], evaluation, explanation, evaluation.report()),
        *(arbo.diff(tuned.link(documents[:20]), result), graph, partition(graph), merge_tree(graph)),
        *(threshold_curve(labels > 3, labels * 0.1 + np.arange(900)), Contingency.from_labels(labels, labels % 7)),
        *(linking_outcomes(np.arange(901), labels, labels), Summed(np.ones((900, 2)), proportion)),
    ]
    return {type(each).__name__: each for each in objects}


def test_each_fits_on_a_screen(shown: dict[str, object]) -> None:
    assert not {name: len(repr(each)) for name, each in shown.items() if len(repr(each)) > SCREEN}


def tags(page: str) -> list[str]:
    return re.findall(r"<\s*(\w+)", page)


def text(page: str) -> str:
    return unescape(re.sub("<[^>]*>", "", page))


def test_a_notebook_shows_tables(shown: dict[str, object]) -> None:
    result = shown["Result"]
    for name in ("Result", "Evaluation", "Report"):
        page = shown[name]._repr_html_()
        assert {"table", "tr", "td"} <= set(tags(page)), name
        assert tags(page).count("tr") <= 22
    for rows, more in ((result.links, len(result.links) - 20), (result.discovered, len(result.discovered) - 20)):
        page = rows._repr_html_()
        assert tags(page).count("tr") == 21
        assert f"and {more:,} more" in text(page)
    assert "lantern goby" in text(result._repr_html_())
    assert "accuracy" in text(shown["Evaluation"]._repr_html_())


def test_names_are_inert_in_a_notebook() -> None:
    evil = "<script>alert('&')</script>"
    kb = arbo.KnowledgeBase([arbo.Entity("<b>", evil), arbo.Entity("E2", '"><img src=x onerror=alert(1)>')])
    result = arbo.Linker(kb).link([document("<i>", (evil, ["<b>"]), "zzz")])
    shown = [result, result.links, result.clusters]
    shown += [result.evaluate(), result.evaluate().report("<script>"), arbo.Linker(kb).link([document("d", "x")])]
    shown.append(shown[-1].evaluate())
    for each in shown:
        page = each._repr_html_()
        assert set(tags(page)) <= {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}
        assert tags(page).count("b") <= 1
    assert evil in text(result._repr_html_())


@pytest.fixture
def progress_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Any, float], str]:
    """Go through four items, each of which takes some seconds; return what is shown."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def progress_shown(show: Any, seconds: float) -> str:
        done = []
        for item in show("searching")(range(4), 4):
            now[0] += seconds
            done.append(item)
        assert done == [0, 1, 2, 3]
        return capsys.readouterr().err

    return progress_shown


@pytest.mark.parametrize(("seconds", "lines"), [(0.1, 0), (40.0, 3), (13.0, 1)])
def test_a_line_each_half_minute(seconds: float, lines: int, progress_shown: Any) -> None:
    told = progress_shown(progress.bars, seconds).splitlines()
    assert len(told) == lines
    assert all(line.startswith("searching: ") and line.endswith(" minutes left") for line in told)


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, progress_shown: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for show in (progress.bars, arbo.Linker().announce):
        assert {*re.findall(r"(\d+)%", progress_shown(show, 60))} & {"25", "50", "75", "100"}
    assert progress_shown(arbo.Linker().announce, 0.5) == ""


def test_the_library_says_nothing_away_from_a_screen(monkeypatch: pytest.MonkeyPatch, progress_shown: Any) -> None:
    assert not progress_shown(arbo.Linker().announce, 60)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # a notebook
    assert progress_shown(arbo.Linker().announce, 60)

"""What a terminal or a notebook shows of an object fits on a screen."""

from html.parser import HTMLParser

import numpy as np
import pytest
from builders import document

import arbo
from clustering import Graph, merge_tree, partition
from eval import Contingency, Summed, linking_outcomes, proportion, threshold_curve

SCREEN = 3_000  # characters


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    documents, kb = arbo.load_sample()
    tuned = arbo.Linker(kb).tune(documents[:45])
    result = tuned.link(documents[45:])
    evaluation = result.evaluate()
    graph = Graph.from_edges(range(999), range(1, 1000), np.ones(999), n_entities=1, n_nodes=1000)
    labels = np.arange(900) % 30
    explanation = result.explain(result.links[0].mention.id)
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
    too_long = {name: len(repr(each)) for name, each in shown.items() if len(repr(each)) > SCREEN}
    assert not too_long


class Tags(HTMLParser):
    """Collects the tags and the text of HTML."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_tables(shown: dict[str, object]) -> None:
    result = shown["Result"]
    for name in ("Result", "Evaluation", "Report"):
        page = Tags(shown[name]._repr_html_())
        assert {"table", "tr", "td"} <= set(page.tags), name
        assert page.tags.count("tr") <= 22
    for rows, more in ((result.links, len(result.links) - 20), (result.discovered, len(result.discovered) - 20)):
        page = Tags(rows._repr_html_())
        assert page.tags.count("tr") == 21
        assert f"and {more:,} more" in page.text
    assert "lantern goby" in Tags(result._repr_html_()).text
    assert "accuracy" in Tags(shown["Evaluation"]._repr_html_()).text


def test_names_are_inert_in_a_notebook() -> None:
    evil = "<script>alert('&')</script>"
    kb = arbo.KnowledgeBase([arbo.Entity("<b>", evil), arbo.Entity("E2", '"><img src=x onerror=alert(1)>')])
    result = arbo.Linker(kb).link([document("<i>", (evil, ["<b>"]), "zzz")])
    shown = [result, result.links, result.clusters]
    shown += [result.evaluate(), result.evaluate().report("<script>"), arbo.Linker(kb).link([document("d", "x")])]
    shown.append(shown[-1].evaluate())
    for each in shown:
        page = Tags(each._repr_html_())
        assert set(page.tags) <= {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}
        assert page.tags.count("b") <= 1
    assert evil in Tags(result._repr_html_()).text

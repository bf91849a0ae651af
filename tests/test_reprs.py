"""What a terminal or a notebook shows of an object fits on a screen."""

from __future__ import annotations

import pytest

import arbo

SCREEN = 3_000  # characters


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    documents, kb = arbo.load_sample()
    tuned = arbo.Linker(kb).tune(documents[:45])
    result = tuned.link(documents[45:])
    evaluation = result.evaluate()
    explanation = result.explain(result.links[0].mention.id)
    objects: list[object] = [
        documents,
        documents[0],
        kb,
        next(iter(kb)),
        tuned,
        tuned.tuning,
        tuned.config,
        result,
        result.links,
    ]
    objects += [
        result.links[0],
        result.clusters,
        result.clusters[0],
        evaluation,
        explanation,
        arbo.diff(result, result),
    ]
    return {type(each).__name__: each for each in objects}


def test_each_fits_on_a_screen(shown: dict[str, object]) -> None:
    too_long = {name: len(repr(each)) for name, each in shown.items() if len(repr(each)) > SCREEN}
    assert not too_long


def test_what_is_shown_tells_what_it_is(shown: dict[str, object]) -> None:
    assert repr(shown["Document"]).startswith("Document('D01', 399 characters, 8 mentions")
    assert "mentions)" in repr(shown["Cluster"])
    assert "best=Trial(" in repr(shown["Tuning"])
    assert "accuracy" in repr(shown["Evaluation"])
    assert repr(arbo.Document("a", "b", domain="wiki")) == "Document('a', 1 characters, 0 mentions, domain='wiki')"

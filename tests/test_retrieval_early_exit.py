"""Early exit: of which mentions the second stage is spared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rerankers import Oracle, indifferent, small

import arbo
from arbo.errors import UsageError
from arbo.retrieval.candidates import is_gold
from arbo.retrieval.early_exit import margins, skipping
from arbo.retrieval.reranking import rerank

NONE = -np.inf


def test_what_the_encoder_is_sure_of_is_not_read() -> None:
    documents, kb, found = small([[0.9, 0.5], [0.9, 0.75], [0.9], []])
    np.testing.assert_allclose(margins(found.scores), [0.4, 0.15, np.inf, np.inf], rtol=1e-6)
    own = Oracle(lambda item, entity: float(entity.id == "E1"))
    after = rerank(own, found, documents, kb, skip_margin=float(margins(found.scores)[0]))
    assert {mention for mention, _ in own.asked} == {"m1"}
    assert after.entities.tolist() == [[0, 1], [1, 0], [0, -1], [-1, -1]]
    assert after.scores[0].tolist() == [1, 0]


@pytest.mark.parametrize("skip_margin", [-1, float("inf"), float("nan"), "0.1", True])
def test_margins_that_cannot_be_meant(skip_margin: Any) -> None:
    with pytest.raises(UsageError, match="skip_margin must be"):
        arbo.LinkerConfig(skip_margin=skip_margin)
    documents, kb, found = small([[0.9, 0.5]])
    with pytest.raises(UsageError, match="skip_margin must be"):
        rerank(indifferent(), found, documents, kb, skip_margin=skip_margin)


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

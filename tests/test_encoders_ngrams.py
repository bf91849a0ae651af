"""The n-gram encoder as it is used; `test_encoders_bulk` compares its vectors with plain Python."""

import numpy as np
import pytest
from builders import document

import arbo
from arbo.encoders.string_table import Spans


def test_a_shared_name_goes_to_the_entity_that_prefers_it() -> None:
    for order in (1, -1):
        entities = [arbo.Entity("E1", "fever"), arbo.Entity("E2", "hot skin", aliases=("fever",))][::order]
        link = arbo.Linker(arbo.KnowledgeBase(entities)).link([document("d", "fever")]).links[0]
        assert link.entity == "E1"
        assert 0 < link.margin < 0.01


def test_words_of_a_list_lose_common_n_grams_unless_they_have_no_others() -> None:
    names = ["bank", "banker", "bank of Lund", "Lund"]
    every, rare = (arbo.NgramEncoder(most_names=most).fit(names)._encode(Spans.of(names)) for most in (None, 1))
    assert np.diff(every.indptr).tolist() == [7, 11, 17, 7]
    assert np.diff(rare.indptr).tolist() == [2, 6, 12, 7]  # "bank" keeps "nk" and "ank" with a blank
    assert np.allclose(rare.power(2).sum(axis=1), 1)


def test_an_encoder_that_was_not_fitted_says_so() -> None:
    with pytest.raises(RuntimeError, match="fit"):
        arbo.NgramEncoder().encode_entities(arbo.KnowledgeBase())


@pytest.mark.parametrize("within", [0.0, 0.2, 0.6, 0.99, 1.0])
def test_no_name_that_is_near_is_missed(within: float) -> None:
    _, kb = arbo.load_sample()
    own, rng = arbo.NgramEncoder().fit(kb.names().names), np.random.default_rng(0)
    some = [*kb.names().names[:300], "", "+++", "Wilson's Wilson disease"]
    words = sorted({word for name in some for word in name.split()})
    names = some + [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(300)]
    matrix = own._encode(Spans.of(names))
    near = 1 - (matrix @ matrix.T).toarray() <= within
    sought = rng.permutation(len(names))[:60]
    for rows in (sought, sought[:1]):
        found = own.near(names, np.sort(rows), within)
        assert {*np.flatnonzero(near[rows].any(axis=0)), *rows} <= {*found}
    if within <= 0.2:
        assert len(own.near(names, sought, within)) < near[sought].any(axis=0).sum() + len(names) / 3
    assert own.near(names, sought[:0], within).tolist() == []


def test_a_run_that_grows_encodes_only_names_that_may_be_near(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, _ = arbo.load_sample()
    before = arbo.Linker().discover(documents[:90])
    encoded, encode = list[str](), arbo.NgramEncoder._encode
    monkeypatch.setattr(
        arbo.NgramEncoder,
        "_encode",
        lambda own, names, *rest: encoded.extend(names.strings()) or encode(own, names, *rest),
    )
    arbo.Linker().add(before, [document("new", "Wilson disease")])
    assert "Wilson disease" in encoded
    assert len({*encoded}) < len({link.name for link in before.links}) / 4

"""Lists that grow and shrink are those of a search from scratch."""

import numpy as np
import pytest
from engine_builders import FORMS, Array, gaussian, vectors
from hypothesis import given, settings, strategies as st

from clustering.growth import updated
from clustering.knn import nearest
from clustering.vectors import Vectors

every_form = pytest.mark.parametrize("form", FORMS)


def rows(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Draw vectors: many ties and zero vectors, few distinct ones, or none alike."""
    if kind == "ties":
        return rng.integers(0, 3, (n, 3)).astype(np.float32)
    if kind == "duplicates":
        return rng.normal(size=(4, 6)).astype(np.float32)[rng.integers(0, 4, n)]
    return rng.normal(size=(n, 6)).astype(np.float32)


def rows_of(before: Array, after: Array) -> Array:
    """Return the row of each thing that is there after among those before, or -1."""
    return np.where(before, np.cumsum(before) - 1, -1)[after]


@every_form
def test_many_new_things_are_searched_as_from_scratch(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    things, row = vectors(gaussian(300, 4), form), np.where(np.arange(300) % 3 == 0, -1, 0)
    row[row == 0] = np.arange(200)
    old = things.taken(np.flatnonzero(row >= 0))
    lists = nearest(old, old, 4, self_ids=np.arange(200))
    joined = updated(lists, things, row)
    monkeypatch.setitem(updated.__globals__, "FEW", 0)
    monkeypatch.setitem(updated.__globals__, "_join", lambda *_: pytest.fail("too many to join"))
    for array, other in zip(joined, updated(lists, things, row), strict=True):
        assert array.tobytes() == other.tobytes()


@every_form
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["ties", "duplicates", "gaussian"]), st.sampled_from([0.0, 0.2, 0.7]))
def test_things_far_from_all_that_is_searched_need_no_vector(form: str, seed: int, kind: str, within: float) -> None:
    rng, n, k = np.random.default_rng(seed), 24, 3
    every = vectors(rows(kind, n, rng), form)
    before, after = rng.random((2, n)) < 0.8
    own, things = every.taken(np.flatnonzero(before)), every.taken(np.flatnonzero(after))
    lists = nearest(own, own, k, self_ids=np.arange(own.n), within=within)
    row = rows_of(before, after)
    is_gone = np.append(~np.isin(np.arange(own.n), row), False)
    sought = np.flatnonzero((row < 0) | (lists.ids[row, -1] >= 0) & is_gone[lists.ids[row]].any(axis=1))
    near = np.isin(np.arange(things.n), sought)
    near[nearest(things.taken(sought), things, things.n, within=within).ids] = True  # -1 is the last thing
    some = np.flatnonzero(near[things.owner])
    fewer = Vectors(things.matrix, things.row[some], things.owner[some], things.n)
    for array, other in zip(
        updated(lists, fewer, row, within=within), updated(lists, things, row, within=within), strict=True
    ):
        assert array.tobytes() == other.tobytes()

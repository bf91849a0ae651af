"""Vectors as they come in: what is refused, what is kept, and that nothing given is changed."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, brute, gaussian, same, vectors

from clustering.knn import nearest
from clustering.vectors import Vectors


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", FORMS)
def test_not_finite_names_the_rows(form: str, bad: float) -> None:
    matrix = gaussian(30, 3)
    matrix[[4, 17], [0, 2]] = bad
    matrix[17, 1] = np.nan
    with pytest.raises(ValueError, match=r"in 2 row\(s\): 4, 17 \(from 0\)$"):
        vectors(matrix, form)
    with pytest.raises(ValueError, match=r"in 20 row\(s\): 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. \(from 0\)$"):
        vectors(np.full((20, 2), bad), form)


def test_float16_overflow_names_the_rows() -> None:
    with np.errstate(over="ignore"):
        overflown = np.array([[1.0], [65_504.0], [70_000.0]]).astype(np.float16)
    with pytest.raises(ValueError, match=r"row\(s\): 2 \(from 0\)$"):
        Vectors.of(overflown)
    assert Vectors.of(overflown[:2]).matrix.tolist() == [[1.0], [65_504.0]]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_given_is_neither_changed_nor_kept(form: str) -> None:
    given: Any = gaussian(20, 6)
    before = given.copy()
    if form == "sparse":
        # The same values: places out of order, one of them in two parts, and stored zeros.
        columns = np.tile(np.append(np.arange(6)[::-1], 0), 20)
        values = np.hstack([given[:, ::-1], np.zeros((20, 1), np.float32)]).ravel()
        given = sp.csr_array((values, columns, np.arange(0, 141, 7)), (20, 6))
    points = Vectors.of(given)
    first = nearest(points, points, 3)
    same(first, brute(before, before, 3))
    if form == "sparse":
        assert given.nnz == 140
        assert given.indices[:7].tolist() == [5, 4, 3, 2, 1, 0, 0]
        given.data[:] = 0
    else:
        np.testing.assert_array_equal(given, before)
        given[:] = 0
    same(nearest(points, points, 3), first)


def test_equal_rows_are_stored_once() -> None:
    row = np.random.default_rng(0).integers(0, 200, 3000)
    matrix = gaussian(200, 5)
    points = Vectors.of(matrix[row])
    assert points.matrix.shape[0] == len(np.unique(row))
    np.testing.assert_array_equal(points.matrix[points.row], matrix[row])
    np.testing.assert_array_equal(np.unique(points.row, return_index=True)[1], np.sort(np.unique(row, True)[1]))


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError("pickled")

    def __float__(self) -> float:
        raise AssertionError("converted")


@pytest.mark.parametrize(
    "bad",
    [
        np.array([[Bomb()]], object),
        np.array([[1.0, None]], object),
        np.array([[1j]]),
        np.zeros(3),
        np.float32(1),
        [],
        sp.csr_array(np.array([[1j]])),
        sp.csr_array(np.array([[True]])),
    ],
    ids=lambda bad: f"{type(bad).__name__}-{np.asarray(bad).dtype}-{np.shape(bad)}",
)
def test_not_a_matrix_of_numbers(bad: Any) -> None:
    with pytest.raises(ValueError, match="vectors must be a"):
        Vectors.of(bad)


def test_sparse_indices_out_of_range() -> None:
    """Kernels trust the indices; a broken matrix must not reach them."""
    broken = sp.csr_array((np.ones(3, np.float32), np.array([0, 1, 2]), np.array([0, 2, 3])), (2, 3))
    broken.indices[1] = 999_999
    with pytest.raises(ValueError, match=r"indices|index values"):
        Vectors.of(broken)


@pytest.mark.parametrize(
    ("owner", "n", "message"),
    [
        ([0], None, r"owner has shape \(1,\); give one owner for each of the 2 vectors"),
        ([0, 3], 3, r"0 \.\. 2, not 0 \.\. 3"),
        ([0.0, 1.5], None, "integers, not float64"),
    ],
)
def test_owners(owner: Any, n: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vectors.of([[1.0], [2.0]], owner, n=n)


def test_normalized() -> None:
    points = Vectors.of([[3.0, 4.0], [0.0, 0.0], [1e-45, 0.0], [3e38, 3e38]])
    half = np.float32(np.sqrt(0.5))
    expected = np.array([[0.6, 0.8], [0, 0], [1, 0], [half, half]], np.float32)
    np.testing.assert_array_equal(points.normalized().matrix, expected)
    sparse = Vectors.of(sp.csr_array(points.matrix))
    np.testing.assert_array_equal(sparse.normalized().matrix.toarray(), expected)

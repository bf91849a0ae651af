"""Vectors as they come in: what is refused, what is kept, and that nothing given is changed."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, brute, gaussian, same

from clustering.knn import nearest
from clustering.vectors import Vectors


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


def with_bad(bad: float) -> np.ndarray:
    matrix = gaussian(30, 3)
    matrix[[4, 17], [0, 2]] = bad
    matrix[17, 1] = np.nan
    return matrix


def broken() -> sp.csr_array:
    """A matrix with an index out of range, which must not reach the kernels."""
    matrix = sp.csr_array((np.ones(3, np.float32), np.array([0, 1, 2]), np.array([0, 2, 3])), (2, 3))
    matrix.indices[1] = 999_999
    return matrix


TWO, MATRIX = [[1.0], [2.0]], "vectors must be a"
FEW = r"in 2 row\(s\): 4, 17 \(from 0\)$"
MANY = r"in 20 row\(s\): 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. \(from 0\)$"


@pytest.mark.parametrize(
    ("given", "owners", "words"),
    [
        *(
            (form(matrix), {}, words)
            for bad in (np.nan, np.inf, -np.inf)
            for matrix, words in ((with_bad(bad), FEW), (np.full((20, 2), bad), MANY))
            for form in (np.array, sp.csr_array)
        ),
        (np.float16([[1.0], [65_504.0], [np.inf]]), {}, r"row\(s\): 2 \(from 0\)$"),
        *((np.array(bad, object), {}, MATRIX) for bad in ([[Bomb()]], [[1.0, None]])),
        *((bad, {}, MATRIX) for bad in (np.array([[1j]]), np.zeros(3), np.float32(1), [])),
        *((sp.csr_array(np.array([[bad]])), {}, MATRIX) for bad in (1j, True)),
        (broken(), {}, "indices|index values"),
        (TWO, {"owner": [0]}, r"owner has shape \(1,\); give one owner for each of the 2 vectors"),
        (TWO, {"owner": [0, 3], "n": 3}, r"0 \.\. 2, not 0 \.\. 3"),
        (TWO, {"owner": [0.0, 1.5]}, "integers, not float64"),
    ],
)
def test_vectors_that_are_refused(given: Any, owners: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Vectors.of(given, **owners)


def test_normalized() -> None:
    assert Vectors.of(np.float16([[65_504.0]])).matrix.tolist() == [[65_504.0]]
    points = Vectors.of([[3.0, 4.0], [0.0, 0.0], [1e-45, 0.0], [3e38, 3e38]])
    half = np.float32(np.sqrt(0.5))
    expected = np.array([[0.6, 0.8], [0, 0], [1, 0], [half, half]], np.float32)
    np.testing.assert_array_equal(points.normalized().matrix, expected)
    sparse = Vectors.of(sp.csr_array(points.matrix))
    np.testing.assert_array_equal(sparse.normalized().matrix.toarray(), expected)

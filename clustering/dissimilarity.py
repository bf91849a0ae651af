"""Dissimilarities of vectors: one order of summation and one rounding, on every machine and in any batch."""

import numpy as np

from .arrays import Floats, Ids, Weights
from .kernels import kernel
from .vectors import Metric, dot


def offset_of(metric: Metric) -> float:
    """Return the number from which the product is subtracted: 1 for cosines of unit vectors, 0 for inner products."""
    return 1.0 if metric == "cosine" else 0.0


@kernel
def dissimilarity(product: float, offset: float) -> np.float32:
    """Return offset minus product; a cosine that differs from 1 only by the rounding of unit vectors counts as 1.

    The result never rises with the product, so that a bound of the product bounds the rounded dissimilarity.
    """
    w = offset - product
    return np.float32(0.0 if offset == 1.0 and abs(w) < 1e-6 else w)


@kernel
def dissimilarities(product: Weights, offset: float) -> Floats:
    """Apply `dissimilarity` to each product."""
    values = np.empty(len(product), np.float32)
    for p in range(len(product)):
        values[p] = dissimilarity(product[p], offset)
    return values


@kernel
def dense_products(a: Floats, b: Floats, rows_a: Ids, rows_b: Ids) -> Weights:
    """Return the inner products of row ``rows_a[p]`` of a and row ``rows_b[p]`` of b."""
    product = np.empty(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        product[p] = dot(a[rows_a[p]], b[rows_b[p]])
    return product


@kernel
def sparse_products(
    indptr_a: Ids,
    indices_a: Ids,
    data_a: Floats,
    indptr_b: Ids,
    indices_b: Ids,
    data_b: Floats,
    rows_a: Ids,
    rows_b: Ids,
) -> Weights:
    """Do as `dense_products` for rows in CSR form with sorted indices, summed in the order of the indices."""
    product = np.zeros(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        i, j = indptr_a[rows_a[p]], indptr_b[rows_b[p]]
        while i < indptr_a[rows_a[p] + 1] and j < indptr_b[rows_b[p] + 1]:
            if indices_a[i] == indices_b[j]:
                product[p] += np.float64(data_a[i]) * np.float64(data_b[j])
            step = indices_a[i] - indices_b[j]
            i += step <= 0
            j += step >= 0
    return product

"""Exact search by torch, on a GPU or by bytes: it computes the matrix products of `clustering.knn.nearest` for faiss.

The result is identical: the products only propose candidates, which are scored again on the CPU in a fixed order of
summation (`clustering.dense_search`).
"""

from functools import cache
from typing import Any

import numpy as np
import torch

from arbo.engine import Floats, Ids, Scan, Scanner, Weights, faiss_scanner, kernel, lengths, offer

_PRODUCTS = 1 << 28
"""Number of products in memory at once. They take a gigabyte, and selecting candidates takes as much again."""
_ROWS = 1024  # whose products of bytes are in memory at once
_MOST = 256  # candidates for which bytes are faster than faiss


@cache  # an index keeps a copy of its matrix for each scanner
def torch_scanner(device: str | torch.device) -> Scanner:
    """Return a scanner that computes the products on a device, which holds the whole matrix in float32."""

    def scanner(matrix: Floats) -> Scan:
        rows = torch.tensor(matrix, device=device)  # a copy, since torch warns of arrays that cannot be written

        def scan(vectors: Floats, n: int) -> tuple[Floats, Ids]:
            queries = torch.from_numpy(np.ascontiguousarray(vectors)).to(device)
            step = max(n, _PRODUCTS // max(1, len(queries)))
            best = torch.empty((len(queries), 0), device=device)
            place = torch.empty((len(queries), 0), dtype=torch.int64, device=device)
            precision = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("highest")  # coarser products would miss candidates
            try:
                for begin in range(0, len(rows), step):
                    scores, rows_found = (queries @ rows[begin : begin + step].T).topk(min(n, len(rows) - begin, step))
                    best, place = torch.cat([best, scores], dim=1), torch.cat([place, rows_found + begin], dim=1)
                    best, order = best.topk(min(n, best.shape[1]))
                    place = place.gather(1, order)
            finally:
                torch.set_float32_matmul_precision(precision)
            return best.cpu().numpy(), place.cpu().numpy()

        return scan

    return scanner


def byte_scanner(matrix: Floats) -> Scan:
    """Return a scan by products of bytes, which are exact, and a bound of what is lost when vectors become bytes."""
    step = np.float32(max(matrix.max(), -matrix.min(), 1e-28) / 127)
    parts = [_bytes(matrix[begin : begin + _ROWS], step) for begin in range(0, len(matrix), _ROWS)]
    longest, most = lengths(matrix).max(), max(lost.max() for _, lost in parts)

    def scan(vectors: Floats, n: int) -> tuple[Floats, Ids]:
        if n > _MOST:
            return faiss_scanner(matrix)(vectors, n)
        steps = np.maximum(np.abs(vectors).max(axis=1), np.float32(1e-28)) / np.float32(127)
        queries, lost = _bytes(vectors, steps[:, None])
        place, far = np.full((len(vectors), n), -1), np.full((len(vectors), n), np.iinfo(np.int64).max)
        for part, (rows, _) in enumerate(parts):
            _keep(torch._int_mm(queries, rows.T).numpy(), part * _ROWS, place, far)
        bound = lost * longest + (lengths(vectors) + lost) * most
        return bound[:, None] - far * (np.float64(step) * steps)[:, None], place

    return scan


def _bytes(vectors: Floats, step: Any) -> tuple[torch.Tensor, Weights]:
    """Round to multiples of a step; also return the length of what is lost. torch errs with a single dimension."""
    rounded = np.rint(vectors / step)
    padded = np.pad(rounded.astype(np.int8), ((0, 0), (0, -vectors.shape[1] % 16)))
    return torch.from_numpy(padded), lengths(vectors - step * rounded)


@kernel
def _keep(products: Ids, begin: int, place: Ids, far: Ids) -> None:
    """Keep the largest products of each query: ``far`` has their negatives, ``place`` the rows from ``begin`` on."""
    for query in range(len(products)):
        for row in range(products.shape[1]):
            if -products[query, row] < far[query, -1]:
                offer(place[query], far[query], begin + row, -products[query, row], False)

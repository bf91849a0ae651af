"""Exact search on a GPU: torch instead of faiss computes the matrix products of `clustering.knn.nearest`.

The result is identical: the products only propose candidates, which are scored again on the CPU in a fixed order of
summation (`clustering.dense_search`).
"""

from functools import cache

import numpy as np
import torch

from arbo.engine import Floats, Ids, Scan, Scanner

_PRODUCTS = 1 << 28
"""Number of products in memory at once. They take a gigabyte, and selecting candidates takes as much again."""


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

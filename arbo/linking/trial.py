"""Time the encoding and the search of names on samples, to estimate them for all names.

A sample is spread evenly over the names. The time of encoding is proportional to the characters. A search takes a time
for each query, which grows with a power of the number of names, and a time for preparing the names.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from arbo.data import Entity, KnowledgeBase
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Index, Vectors, nearest

T = TypeVar("T")

_NAMES, _FEWER, _QUERIES = 1 << 16, 4, 1024


def name_seconds(
    encoder: NgramEncoder, names: Sequence[str], queries: Sequence[str], k: int, candidates: int, within: float | None
) -> float:
    """Estimate from samples the seconds of fitting, of encoding names and queries, and of searching both.

    The ``candidates`` nearest names and the ``k`` nearest queries are sought, the latter only up to the dissimilarity
    ``within``. Without ``names``, the encoder is fitted to the queries. No name and no query may occur twice.
    """
    if not queries:
        return 0.0
    known = names or queries
    _encoded(encoder.fit(known[:8]), known[:8])  # loads the kernels
    some = _some(known, _NAMES)
    fitting, fitted = timed(lambda: encoder.fit(some))
    seconds = fitting * len(known) / len(some)
    asked, spent = _timed_vectors(fitted, queries)
    seconds += spent + search_seconds(asked, asked, len(queries), len(queries), k + 1, within)
    if names:
        things, spent = _timed_vectors(fitted, names)
        seconds += spent + search_seconds(asked, things, len(queries), len(names), candidates)
    return seconds


def stored_seconds(
    encoder: NgramEncoder, index: Index, queries: Sequence[str], k: int, candidates: int, within: float | None = None
) -> float:
    """Estimate what is left of `name_seconds` if an index has the names, and ``encoder`` is fitted to them."""
    if not queries:
        return 0.0
    _encoded(encoder, queries[:8])  # loads the kernels
    asked, spent = _timed_vectors(encoder, queries)
    spent += search_seconds(asked, asked, len(queries), len(queries), k + 1, within)
    return spent + search_seconds(asked, index, len(queries), index.n, candidates)


def search_seconds(
    queries: Vectors, things: Vectors | Index, n_queries: int, n_things: int, k: int, within: float | None = None
) -> float:
    """Estimate the seconds of searching ``n_things`` for ``n_queries``, from the times of samples of both.

    An index is searched as it is, and takes no time for preparing its things.
    """
    whole = isinstance(things, Index)
    asked = queries.taken(_places(queries.n, _QUERIES))
    few = asked.taken(_places(asked.n, max(1, asked.n // _FEWER)))
    sizes, costs = [], []
    for part in (things,) if whole else (things.taken(_places(things.n, max(1, things.n // _FEWER))), things):
        nearest(few.taken(np.arange(1)), part, k, within=within)
        short, long = (timed(partial(nearest, some, part, k, within=within))[0] for some in (few, asked))
        each = max(long - short, 0.0) / max(1, asked.n - few.n)
        sizes.append(part.n)
        costs.append((each, max(0.0, short - each * few.n)))
    each, prepare = costs[-1]
    each = extrapolated((costs[0][0], each), (sizes[0], sizes[-1]), n_things)
    return each * n_queries + (0.0 if whole else prepare * n_things / sizes[-1])


def extrapolated(seconds: tuple[float, float], sizes: tuple[int, int], size: int) -> float:
    """Return the seconds at a size by the power law through two measurements, with a power from 0.5 to 1.

    >>> round(extrapolated((1.0, 3.0), (100, 400), 1600), 3)
    9.0
    """
    power = 1.0
    if min(seconds) > 0 and sizes[0] < sizes[1]:
        power = math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])
    return seconds[1] * float((size / sizes[1]) ** min(1.0, max(0.5, power)))


def _timed_vectors(encoder: NgramEncoder, names: Sequence[str]) -> tuple[Vectors, float]:
    """Return the vectors of a sample of names, and the seconds of encoding all."""
    some = _some(names, _NAMES)
    spent, vectors = timed(lambda: _encoded(encoder, some))
    return vectors, spent * sum(map(len, names)) / max(1, sum(map(len, some)))


def _encoded(encoder: NgramEncoder, names: Sequence[str]) -> Vectors:
    return encoder.encode_entities(KnowledgeBase(Entity(str(i), name) for i, name in enumerate(names)))


def _some(names: Sequence[str], most: int) -> list[str]:
    return [names[i] for i in _places(len(names), most).tolist()]


def _places(n: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that a call takes, and its result."""
    begun = time.perf_counter()
    value = call()
    return time.perf_counter() - begun, value

"""Names that may be near others, recognised by their words, so that the vectors of all others are never made.

The vector of a name is the sum of those of its words, which have no negative value: it is at least as long as if these
were orthogonal. So the cosine with a unit vector is at most the sum of the products with the words, divided by the root
of the sum of their squared lengths.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.encoders.ngram_sums import Doubles, Items
from arbo.engine import Bools, Csr, csr, in_parallel, kernel

_WORDS, _NAMES = 1 << 12, 1 << 16  # numbers of words and of names that a thread takes at once
_LEAST = 0.1
"""Smaller cosines of a word are not kept, but count as this: then few are kept, and few names too many are marked."""
_ROUNDING = 1e-5  # more than the rounding of vectors to float32


def may_be_near(in_name: Items, words: sp.csr_array, queries: sp.csr_array, within: float) -> npt.NDArray[np.bool_]:
    """Return whether each name may be within a dissimilarity, below 1, of one of the vectors ``queries``; (names,).

    ``in_name`` has the words of each name, and ``words`` their vectors. A name that is marked may be farther; one that
    is not is farther. ``queries`` are unit vectors, (sought, dimensions of words).
    """
    length, columns = np.sqrt(words.power(2).sum(axis=1)), sp.csr_array(queries.T)

    def products(begin: int) -> sp.csr_array:
        product = words[begin : begin + _WORDS] @ columns
        product.data -= _LEAST * np.repeat(length[begin : begin + _WORDS], np.diff(product.indptr))
        np.maximum(product.data, 0, out=product.data)
        product.eliminate_zeros()
        return product

    near = csr(sp.vstack(in_parallel(products, range(0, max(1, len(length)), _WORDS)), "csr"))
    is_near, n, least = np.zeros(len(in_name[0]) - 1, np.bool_), queries.shape[0], 1 - within - _ROUNDING
    in_parallel(
        lambda begin: _reached(in_name, length, near, n, least, begin, begin + _NAMES, is_near),
        range(0, len(is_near), _NAMES),
    )
    return is_near


@kernel
def _reached(
    in_name: Items, length: Doubles, near: Csr, n: int, least: float, begin: int, end: int, is_near: Bools
) -> None:
    """Write which of the names ``begin`` to ``end`` may have a cosine of ``least`` with one of ``n`` vectors."""
    total = np.zeros(n, np.float64)
    for name in range(begin, min(end, len(is_near))):
        items = in_name[1][in_name[0][name] : in_name[0][name + 1]]
        squares = lengths = 0.0
        for word in items:
            squares += length[word] ** 2
            lengths += length[word]
        missing = least * np.sqrt(squares) - _LEAST * lengths
        is_near[name] = missing <= 0
        for word in items:
            for i in range(near.indptr[word], near.indptr[word + 1]):
                total[near.indices[i]] += near.data[i]
                is_near[name] |= total[near.indices[i]] >= missing
        for word in items:
            total[near.indices[near.indptr[word] : near.indptr[word + 1]]] = 0

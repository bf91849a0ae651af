"""A shortlist: the nearest things offered so far, each once, sorted by (dissimilarity, id).

It is two arrays of the same length and a count of the taken places. Its content does not depend on the order of the
offers. Empty places have -1 and infinity.
"""

import numpy as np

from .arrays import Floats, Ids
from .kernels import kernel


@kernel
def refuses(ids: Ids, dissimilarity: Floats, count: int, thing: int, value: np.float32) -> bool:
    """Return whether the list is full of nearer things, or of equally near things with smaller ids."""
    last = len(ids) - 1
    return count > last and (dissimilarity[last] < value or (dissimilarity[last] == value and ids[last] <= thing))


@kernel
def offer(ids: Ids, dissimilarity: Floats, count: int, thing: int, value: np.float32, several: bool) -> int:
    """Offer a thing and return the new count; with ``several`` a thing may be offered more than once."""
    if refuses(ids, dissimilarity, count, thing, value):
        return count
    place = min(count, len(ids) - 1)
    taken = place + 1
    if several:
        for i in range(count):
            if ids[i] == thing:
                if dissimilarity[i] <= value:
                    return count
                place, taken = i, count
                break
    while place > 0 and (
        dissimilarity[place - 1] > value or (dissimilarity[place - 1] == value and ids[place - 1] > thing)
    ):
        ids[place], dissimilarity[place] = ids[place - 1], dissimilarity[place - 1]
        place -= 1
    ids[place], dissimilarity[place] = thing, value
    return taken


@kernel
def offer_all(
    ids: Ids, dissimilarity: Floats, count: int, things: Ids, begin: int, end: int, value: np.float32, several: bool
) -> int:
    """Offer ``things[begin:end]`` in order, at the same dissimilarity, until no more can be taken."""
    for i in range(begin, end):
        if refuses(ids, dissimilarity, count, things[i], value):
            break
        count = offer(ids, dissimilarity, count, things[i], value, several)
    return count

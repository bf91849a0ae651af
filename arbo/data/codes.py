"""Codes for values."""

from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt


def codes_of(values: Iterable[Hashable]) -> npt.NDArray[np.int64]:
    """Return a code for each value; equal values have the same code, and codes ascend from 0 in order of appearance."""
    items = list(values)
    number = {value: code for code, value in enumerate(dict.fromkeys(items))}
    return np.fromiter(map(number.__getitem__, items), np.int64, len(items))

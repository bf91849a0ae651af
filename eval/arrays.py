"""Check the arrays of public functions, with their numbers in the errors."""

from collections.abc import Mapping, Set
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .labels import IntArray

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]


def integer_array(values: npt.ArrayLike, *, name: str, n_axes: int = 1, low: int = 0) -> IntArray:
    """Return `values` as int64; refuse other kinds, another number of axes, ragged rows, and values below `low`.

    >>> integer_array([3, -2], name="predicted", low=-1)
    Traceback (most recent call last):
    ValueError: predicted holds -2 at position 1; the smallest value allowed is -1
    """
    try:
        array = np.asarray(values)
    except ValueError:
        mend = f"fill short rows up with {low}"
        raise ValueError(f"{name} has rows of different lengths, not {n_axes} axes; {mend}") from None
    if array.ndim != n_axes:
        raise ValueError(f"{name} has {array.ndim} axes {array.shape}, not {n_axes}")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}, not integers")
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}, which is above 2^63 - 1")
    array = array.astype(np.int64, copy=False)
    if array.size and int(array.min()) < low:
        where = np.argwhere(array < low)[0]
        at = "position " + ", ".join(map(str, where.tolist()))
        raise ValueError(f"{name} holds {array[tuple(where)]} at {at}; the smallest value allowed is {low}")
    return array


def boolean_array(values: npt.ArrayLike, *, name: str, length: int | None = None) -> BoolArray:
    """Return `values` as booleans, one for each mention; refuse other types.

    >>> boolean_array([0.0, 1.0], name="seen")
    Traceback (most recent call last):
    TypeError: seen holds float64, not booleans
    >>> boolean_array({"c"}, name="seen")
    Traceback (most recent call last):
    TypeError: seen is a set; give one boolean a mention
    """
    if isinstance(values, Set | Mapping):
        raise TypeError(f"{name} is a {type(values).__name__}; give one boolean a mention")
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} axes {array.shape}, not 1")
    if array.dtype.kind != "b" and array.size:
        raise TypeError(f"{name} holds {array.dtype}, not booleans")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} values for {length} mentions")
    return array.astype(np.bool_, copy=False)

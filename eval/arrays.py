"""Labels of any hashable kind as integers, and checks of the arrays of public functions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
# An array, or any other ordered iterable of hashable labels; an integer array is fastest.
Labels: TypeAlias = npt.NDArray[Any] | Iterable[Any]


def encode_labels(labels: Labels, *, name: str = "labels") -> IntArray:
    """Encode labels, one per item, as codes from 0 without gaps; equal labels get equal codes.

    O(n) for integers with a range of the order of n. Error messages call the labels ``name``. Raise ValueError if an
    array is not one-dimensional or a label is missing (NaN, NaT or None), and TypeError if the labels are unordered or
    a single string, or a label cannot be hashed.
    """
    if labels is None or isinstance(labels, str | bytes | Set | Mapping):
        raise TypeError(f"{name} is of type {type(labels).__name__}, not an array or a list of labels")
    if not hasattr(labels, "__array__"):
        return _encode_hashables(list(labels), name)
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; give one label per item")
    if array.dtype.kind not in "biufcmM":
        return _encode_hashables(array.tolist(), name)
    if array.dtype.kind in "biu":
        low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
        if high - low <= 4 * len(array) + 1024 and high < 2**63:
            offset = array.astype(np.int64) - low
            return (np.cumsum(np.bincount(offset) > 0) - 1)[offset]
    elif len(missing := np.flatnonzero(array != array)):
        raise _missing(name, missing)
    return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)


def _encode_hashables(labels: list[Any], name: str) -> IntArray:
    number: defaultdict[Any, int] = defaultdict()
    number.default_factory = number.__len__  # a new label gets the next code
    codes = np.fromiter(map(number.__getitem__, labels), np.int64, len(labels))
    if any(label is None or label != label for label in number):
        raise _missing(name, np.array([i for i, x in enumerate(labels) if x is None or x != x]))
    return codes


def _missing(name: str, where: npt.NDArray[Any]) -> ValueError:
    count = f"{len(where)} in all, the first at position {where[0]} (from 0)"
    advice = "leave these items out, or give each its own label"
    return ValueError(f"{name} has missing labels (such as NaN or None): {count}; {advice}")


class Brief:
    """Shortens arrays of more than 8 values, so that the repr of a dataclass fits on a screen."""

    __slots__ = ()

    def __repr__(self) -> str:
        with np.printoptions(threshold=8):
            shown = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def checked_array(
    values: npt.ArrayLike, *, name: str, kinds: str, noun: str, n_axes: int = 1, length: int | None = None
) -> npt.NDArray[Any]:
    """Return `values` as an array whose kind, as NumPy names it, is one of ``kinds``, in words ``noun``.

    Raise TypeError for another kind, and ValueError for another number of axes or another ``length``.
    """
    advice = f"give a flat list of {noun}s" if n_axes == 1 else "give rows, and pad short rows with -1"
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; {advice}") from None
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} holds {array.dtype}, not {noun}s")
    if array.ndim != n_axes:
        raise ValueError(f"{name} has shape {array.shape}; {advice}")
    if length is not None and len(array) != length:
        one = noun if n_axes == 1 else "row"
        raise ValueError(f"{name} has length {len(array)}, not {length}; give one {one} for each item")
    return array


def integer_array(
    values: npt.ArrayLike, *, name: str, n_axes: int = 1, low: int = 0, length: int | None = None
) -> IntArray:
    """Return `values` as int64, with the errors of `checked_array`, and ValueError for values below ``low``."""
    array = checked_array(values, name=name, kinds="iu", noun="integer", n_axes=n_axes, length=length)
    array = array.astype(np.int64, copy=False)
    if array.size and int(array.min()) < low:
        where = np.argwhere(array < low)[0]
        at = "position " + ", ".join(map(str, where.tolist()))
        raise ValueError(f"{name} holds {array[tuple(where)]} at {at}; the smallest value allowed is {low}")
    return array


def boolean_array(values: npt.ArrayLike, *, name: str, length: int | None = None) -> BoolArray:
    """Return `values` as booleans, one for each item, with the errors of `checked_array`."""
    return checked_array(values, name=name, kinds="b", noun="boolean", length=length).astype(np.bool_, copy=False)

"""Kernels: functions that numba compiles once and keeps on disk, and calls of them in threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba

T = TypeVar("T")
U = TypeVar("U")
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function to machine code, without the interpreter's lock.

    A cached kernel is found by the file and the qualified name of its function, and imports by name the function's
    module and those of its arguments' types. The files of this package can be imported under two names (see
    `arbo.siblings`), so each name has its own kernels on disk, also for functions of other packages.
    """
    function.__qualname__ = f"{__name__}.{function.__module__}.{function.__qualname__}"
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def in_parallel(call: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Call a function with each item, in threads if there are several, and return the results in order."""
    if len(items) < 2:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as pool:
        return list(pool.map(call, items))

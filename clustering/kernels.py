"""Kernels: functions that numba compiles once and keeps on disk."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function to machine code, without the interpreter's lock.

    A cached kernel is found by the file and the qualified name of its function, and imports the function's module by
    name. The same file can be imported under two names (see `arbo.siblings`), so each name has its own kernels on disk.
    """
    function.__qualname__ = f"{function.__module__}.{function.__qualname__}"
    return cast(Function, numba.njit(cache=True, nogil=True)(function))

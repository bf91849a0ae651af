"""Kernels: functions that numba compiles once and keeps on disk."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function to machine code, without the interpreter's lock.

    What numba keeps on disk imports the module of the function by name, and is found by its file and qualified name.
    The same file can be imported under two names (see `arbo.siblings`): each has kernels of its own on disk.
    """
    function.__qualname__ = f"{function.__module__}.{function.__qualname__}"
    return cast(Function, numba.njit(cache=True, nogil=True)(function))

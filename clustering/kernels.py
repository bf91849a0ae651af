"""Kernels: functions that numba compiles once and keeps on disk."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# With the first kernel numba imports scipy.linalg, 0.1 s, only to see whether it can; what needs it imports it then.
if (_BLAS := "scipy.linalg.cython_blas") not in sys.modules:
    sys.modules[_BLAS] = ModuleType(_BLAS)
    import numba.np.arraymath

    del sys.modules[_BLAS]


def kernel(function: Function) -> Function:
    """Compile a function to machine code that runs without the interpreter's lock.

    numba finds a cached kernel by the file and the qualified name of its function, and then imports the modules of the
    function and of its arguments' types by their names. The files of this package can be imported under two names (see
    `arbo.engine`), so each name has its own kernels on disk, also for functions of other packages.
    """
    function.__qualname__ = f"{__name__}.{function.__module__}.{function.__qualname__}"
    return cast(Function, numba.njit(cache=True, nogil=True)(function))

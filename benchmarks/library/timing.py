"""Seconds and memory of calls, of processes, and of the command line."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def seconds(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    """Time one call."""
    begin = time.perf_counter()
    value = call(*args, **kwargs)
    return time.perf_counter() - begin, value


def best_of_three(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    """Time the best of three calls."""
    best = math.inf
    for _ in range(3):
        spent, value = seconds(call, *args, **kwargs)
        best = min(best, spent)
    return best, value


def in_process(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a process of its own, which has imported nothing but that module."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *args, **kwargs).result()


def resident(field: str) -> int:
    """Read the resident memory of this process in bytes: now (`VmRSS`), or the most there was (`VmHWM`)."""
    status = Path("/proc/self/status").read_text("utf-8")
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])


class Ran(NamedTuple):
    """What a command printed as JSON, its seconds, and its peak memory in bytes."""

    printed: dict[str, Any]
    seconds: float
    peak: int


def run_arbo(*arguments: str) -> Ran:
    """Run the command line in a process of its own."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "arbo", *arguments, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"arbo {' '.join(arguments)} ended with {status}")
    return Ran(json.loads(printed), time.perf_counter() - begin, usage.ru_maxrss * 1024)

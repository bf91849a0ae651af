"""What executes the tasks of a job: this process, or processes of one thread each.

Anything with the `submit` of `concurrent.futures.Executor` can take their place, such as one that asks a cluster.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import threadpool_limits

from arbo.errors import ArboError

_WAITING = 64
"""Number of calls that wait at once, so that neither driver nor executor fills with them; more for many workers."""
_LIBRARIES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


@contextmanager
def executor(workers: int) -> Iterator[Executor | None]:
    """Yield an executor of so many processes of one thread each; for one, None: this process with all its threads.

    Processes end with the block, and if this process is killed; after an error or an interruption they end at once.
    """
    if workers == 1:
        yield None
        return
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    with writer, reader, ProcessPoolExecutor(workers, context, _begin, (reader,)) as pool:
        try:
            yield pool
        except BaseException:
            writer.close()
            pool.shutdown(cancel_futures=True)
            raise


def completed(pool: Executor | None, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Submit functions with their arguments, few at a time, and yield their results in order of completion.

    Without a pool, this process calls them. Raise ArboError if a worker process ended by itself, and the errors of the
    functions.
    """
    if pool is None:
        yield from (function(*args) for function, *args in calls)
        return
    waiting: set[Future[Any]] = set()
    most = max(_WAITING, 2 * getattr(pool, "_max_workers", 1))
    try:
        for call in calls:
            waiting.add(pool.submit(*call))
            if len(waiting) >= most:
                done = next(as_completed(waiting))
                waiting.remove(done)
                yield done.result()
        yield from (future.result() for future in as_completed(waiting))
    except BrokenExecutor as error:
        raise ArboError(
            "a worker ended suddenly, perhaps for lack of memory; run the same command again, which goes on with the "
            "parts that are finished, or use fewer --workers or a smaller --shard-size"
        ) from error


def _begin(reader: Connection) -> None:
    """Prepare a worker: one thread, no interruption by itself, and an end as soon as the driver ends."""
    be_worker()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(reader,), daemon=True).start()


@cache
def be_worker() -> None:
    """Have this process compute in one thread from now on, and search its objects for cycles less often."""
    gc.set_threshold(100_000)  # those of a task are many, and stay until it ends
    os.environ |= dict.fromkeys(_LIBRARIES, "1")  # read when the libraries are loaded
    threadpool_limits(1)  # of those that the user's script has loaded
    os.cpu_count = lambda: 1  # as PYTHON_CPU_COUNT does from Python 3.13 on


def _end_with(reader: Connection) -> None:
    reader.poll(None)  # until the other end is closed
    os._exit(1)

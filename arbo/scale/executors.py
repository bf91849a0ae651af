"""What executes the tasks of a job: this process, processes of one thread each, or a Ray cluster.

Anything with the `submit` of `concurrent.futures.Executor` can take their place. Calls to a cluster carry paths,
numbers and tokens of texts, and return nothing: what a task makes is in the work folder, which all nodes must share.
"""

import gc
import multiprocessing
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import threadpool_limits

from arbo.errors import ArboError, MissingDependency, UsageError
from arbo.scale.parts import code

_WAITING = 64  # calls that wait at once, so that neither driver nor executor fills with them; more for many workers
_LIBRARIES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
LOCAL = "local"
_TOKEN = "~/.ray/auth_token"
_OTHER = (
    "{} has another version of arbo, numpy, scipy, numba, faiss-cpu or torch; install the same on all nodes of the Ray "
    "cluster"
)
_STORE = 80_000_000  # bytes of the object store of a node that is started here; it stays empty


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

    Without a pool, this process calls them. Raise ArboError if a worker ended by itself, and the functions' errors.
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
        remedy = "run the same command again, which goes on, or use fewer --workers or a smaller shard_size (--set)"
        raise ArboError(f"a worker ended suddenly, perhaps for lack of memory; {remedy}") from error


def _begin(reader: Connection) -> None:
    """Prepare a worker: one thread, no interruption by itself, and an end as soon as the driver ends."""
    be_worker()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Polling ends as soon as the other end is closed.
    threading.Thread(target=lambda: reader.poll(None) and os._exit(1), daemon=True).start()


@cache
def be_worker() -> None:
    """Have this process compute in one thread from now on, and search its objects for cycles less often."""
    gc.set_threshold(100_000)  # those of a task are many, and stay until it ends
    os.environ |= dict.fromkeys(_LIBRARIES, "1")  # read when the libraries are loaded
    threadpool_limits(1)  # of those that the user's script has loaded
    os.cpu_count = lambda: 1  # as PYTHON_CPU_COUNT does from Python 3.13 on


class Cluster(Executor):
    """The cluster to which this process is connected; a task has one CPU, ``gpus`` GPUs and ``memory`` bytes or more.

    A task whose node or worker ends, for example because memory does, is not made again.
    """

    def __init__(self, memory: int = 0, gpus: int = 0) -> None:
        import ray

        self._ray, self.memory, self.gpus = ray, memory, gpus
        self.device = "cuda" if gpus else "cpu"
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, memory=memory, max_retries=0)(_call)
        needs = {"CPU": 1, "GPU": gpus, "memory": memory}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= amount for name, amount in needs.items()) for node in nodes):
            remedy = "add such a node, or search with a smaller shard_size (--set shard_size=N)"
            raise UsageError(f"no node of the Ray cluster has a CPU and {memory:,} bytes for a task; {remedy}")
        self._max_workers = int(sum(node.get("GPU" if gpus else "CPU", 0) for node in nodes))

    def for_texts(self, memory: int) -> "Cluster":
        """Return the cluster for tasks of so much memory, if its own need any, with a GPU each if a node has one."""
        needed = memory if self.memory else 0
        try:
            return Cluster(needed, gpus=1)
        except UsageError:
            return Cluster(needed)

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """Submit a call; the future has the error of the function, or BrokenExecutor if its node or worker ended."""
        future = Future[Any]()

        def end(made: Future[Any]) -> None:
            if (error := made.exception()) is None:
                future.set_result(made.result())
            elif not isinstance(error, self._ray.exceptions.RayTaskError):
                future.set_exception(BrokenExecutor(str(error)))
            elif "import on the worker" in str(error.cause):
                future.set_exception(UsageError(_OTHER.format("a node")))
            else:
                future.set_exception(error.cause)

        self._task.remote(code(), call, args, named).future().add_done_callback(end)
        return future


@contextmanager
def connected(address: str, workers: int | None = None, memory: int = 0) -> Iterator[Cluster]:
    """Yield a Ray cluster as executor: that of an address, or one started on this machine, which ends with the block.

    The address is ``HOST:PORT``, ``auto`` for the cluster of this machine, or ``local`` to start one with ``workers``
    CPUs, all by default. If this process is connected already, it stays so. A node has no more tasks than it has memory
    for, of which each needs ``memory`` bytes. Raise MissingDependency without Ray, and UsageError if no cluster
    answers, or no node has enough memory.
    """
    try:
        import ray
    except ImportError:
        raise MissingDependency("--ray", extra="ray") from None
    if ray.is_initialized():
        yield Cluster(memory)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL and not os.path.exists(os.environ.get("RAY_AUTH_TOKEN_PATH", os.path.expanduser(_TOKEN))):
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())  # else Ray writes one, for all later clusters too
    started = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE}
    numeric = address
    try:
        host, _, port = address.rpartition(":")
        if host:  # Ray itself asks for many minutes, if nobody answers or the DNS does not have the name
            with socket.create_connection((host, int(port)), timeout=20) as reached:
                peer = reached.getpeername()[0]
            numeric = address if ":" in peer else f"{peer}:{port}"
        ray.init(numeric, log_to_driver=False, logging_level="ERROR", **started if address == LOCAL else {})
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        remedy = "" if address == LOCAL else f"; with a token, set RAY_AUTH_MODE=token, and copy it to {_TOKEN}"
        raise UsageError(f"cannot use the Ray cluster {address}: {error}{remedy}") from error
    try:
        yield Cluster(memory)
    finally:
        ray.shutdown()


def _call(driver: str, call: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if driver != code():
        raise UsageError(_OTHER.format(socket.gethostname()))
    be_worker()
    return call(*args, **named)

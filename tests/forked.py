"""Verbs in processes forked from a warm one, so that to start, kill and repeat one takes a fraction of a second.

`Forks` starts this file as a process, which runs some commands, and then forks for each verb that it is asked for.
`faulty.c` is preloaded there, which counts file operations and strikes at one of them; without a C compiler it skips.
"""

import atexit
import ctypes
import functools
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import SkipTest

COUNT, KILL, ONCE, ALWAYS, SHORT = range(5)
WRITES, READS, REMOVALS = 1, 2, 4
_MOST_SECONDS = 600


@dataclass(frozen=True)
class Verb:
    """A command, and what is to happen to its process."""

    arguments: Sequence[str]
    log: str
    """File for what it prints, on stdout and stderr alike."""
    below: str = ""
    """Folder, absolute, whose file operations count; empty: none does."""
    action: int = COUNT
    nth: int = 0
    """The operation to strike at, from 0."""
    code: int = 0
    """The errno."""
    kinds: int = WRITES | REMOVALS
    dies_after: float | None = None
    """Seconds of the processor until it is killed."""


@dataclass(frozen=True)
class Ended:
    """What became of a verb."""

    code: int
    """Its exit code; negative for a signal."""
    operations: int
    """File operations that counted."""
    seconds: float
    """Seconds of the processor."""


class Forks:
    """A warm process, which lives as long as this one."""

    def __init__(self, scratch: Path) -> None:
        source, library = Path(__file__).with_name("faulty.c"), scratch / "faulty.so"
        if not shutil.which("cc"):
            raise SkipTest("no C compiler")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env["LD_PRELOAD"] = str(library)
        root = str(Path(__file__).resolve().parents[1])
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
        command = [sys.executable, __file__, library]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *verbs: Verb) -> list[Ended]:
        """Run verbs at the same time, each in a process of its own, and wait for all."""
        return self._run(verbs, ())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _run(self, verbs: Sequence[Verb], warm: Sequence[Sequence[str]]) -> list[Ended]:
        self._process.stdin.write(json.dumps({"warm": warm, "run": [asdict(verb) for verb in verbs]}) + "\n")
        self._process.stdin.flush()
        return [Ended(**one) for one in json.loads(self._process.stdout.readline())]

    def warm(self, *commands: Sequence[str]) -> None:
        """Let commands run in the warm process itself, so that all that they load and compile is there."""
        self._run((), commands)


@functools.cache
def forks() -> Forks:
    scratch = Path(tempfile.mkdtemp(prefix="arbo-forks-"))
    made = Forks(scratch)

    def end() -> None:
        made.close()
        shutil.rmtree(scratch, ignore_errors=True)

    atexit.register(end)
    return made


def _child(verb: Verb, library: ctypes.CDLL, shared: int) -> None:
    log = os.open(verb.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.alarm(_MOST_SECONDS)
    act = (verb.action, ctypes.c_long(verb.nth), verb.code, verb.kinds)
    library.faulty_arm(ctypes.c_void_p(shared), os.fsencode(verb.below), *act)
    if verb.dies_after is not None:
        library.faulty_dies_after(ctypes.c_double(verb.dies_after))
    os._exit(_main(verb.arguments))


def _main(arguments: Sequence[str]) -> int:
    from arbo.cli import main

    sys.argv = ["arbo", *arguments]
    code: object = 0
    try:
        main()
    except SystemExit as done:
        code = done.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 120
    return code if isinstance(code, int) else 0


def _warm() -> None:
    """Have one thread, as what a thread of the parent holds is never released in a child."""
    import pyarrow
    import torch
    import tqdm
    import typer.main

    typer.main.get_command = functools.cache(typer.main.get_command)  # half the time of a verb of milliseconds
    tqdm.tqdm.monitor_interval = 0
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    torch.set_num_threads(1)


def _serve(library: ctypes.CDLL) -> None:
    answers, nothing = os.fdopen(os.dup(1), "w"), os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    if not os.environ.get("ARBO_FORKS_TELL"):
        os.dup2(nothing, 2)
    for line in sys.stdin:
        asked = json.loads(line)
        verbs = [Verb(**one) for one in asked["run"]]
        for arguments in asked["warm"]:
            assert _main(arguments) == 0, arguments
        memory = mmap.mmap(-1, 16 * len(verbs) + 16)
        counts, processes = (ctypes.c_long * (2 * len(verbs))).from_buffer(memory), []
        for place, verb in enumerate(verbs):
            process = os.fork()
            if not process:
                _child(verb, library, ctypes.addressof(counts) + 16 * place)
            processes.append(process)
        ended = []
        for place, process in enumerate(processes):
            _, status, used = os.wait4(process, 0)
            spent = used.ru_utime + used.ru_stime
            one = Ended(os.waitstatus_to_exitcode(status), counts[2 * place], spent)
            ended.append(asdict(one))
        answers.write(json.dumps(ended) + "\n")
        answers.flush()


if __name__ == "__main__":
    _warm()
    _serve(ctypes.CDLL(sys.argv[1]))

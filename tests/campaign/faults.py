"""Disks that are full, broken or slow: a verb that fails says why, leaves nothing, and then succeeds.

`calls` lets one file operation fail, or all from one on, in Python, in Arrow and in safetensors alike (`faulty.c`);
`disks` mounts a small tmpfs, where that is allowed, and fills it.
"""

import errno
import functools
import os
import subprocess
from pathlib import Path
from random import Random
from unittest import SkipTest

from forked import ALWAYS, ONCE, READS, REMOVALS, SHORT, WRITES, Ended
from jobs import Job, begin, check_finished, check_unfinished, do, inputs, jobs, told, tree, undisturbed

from campaign.runner import Campaign

_FULL = errno.ENOSPC, errno.EDQUOT
_FAULTS = (
    *((ONCE, code, WRITES) for code in (*_FULL, errno.EIO, errno.EINTR, errno.EROFS, errno.EACCES)),
    *((ALWAYS, code, WRITES) for code in (*_FULL, errno.EIO)),
    (SHORT, 0, WRITES),
    *((ONCE, code, READS) for code in (errno.EIO, errno.EINTR)),
    (ALWAYS, errno.EIO, READS),
    (SHORT, 0, READS),
    (ONCE, errno.EIO, REMOVALS),
    (ALWAYS, errno.EACCES, REMOVALS),
)


@functools.cache
def _operations(job: Job, kinds: int, below: str) -> int:
    """Return how many operations of a kind an undisturbed run has."""
    place = inputs() / "counted" / f"{job.name} {kinds} {len(below)}"
    whole = undisturbed(job)
    ended = do(job.arguments, begin(job, place, whole.before), kinds=kinds, below=below or str(place))
    assert ended.code == 0, told(place)
    return ended.operations


def check_told(ended: Ended, place: Path, code: int) -> None:
    """Raise AssertionError unless a verb that failed says so in one sentence."""
    said = told(place)
    assert ended.code in (0, 1, 2, 3), f"exit code {ended.code}: {said[-3000:]}"
    assert "Traceback" not in said, said[-3000:]
    if ended.code:
        assert "error: " in said, said[-3000:]
        reason = os.strerror(code) if code else ""
        assert reason in " ".join(said.split()), f"{reason} is not told: {said[-3000:]}"


def _calls(seed: int, folder: Path) -> None:
    random = Random(seed)
    job = random.choice(random.choice([*jobs().values()]))
    action, code, kinds = random.choice(_FAULTS)
    whole, place = undisturbed(job), begin(job, folder / "place", undisturbed(job).before)
    below = str(inputs()) if kinds == READS and random.random() < 0.7 else ""
    n = _operations(job, kinds, below)
    nth = random.randrange(n) if n else 0
    options = {"below": below} if below else {}
    ended = do(job.arguments, place, action=action, code=code, kinds=kinds, nth=nth, **options)
    fault = f"{job.name}: {action=} {os.strerror(code)} {kinds=} at {nth} of {n}"
    try:
        check_told(ended, place, code)
        if ended.code == 0 and kinds != REMOVALS:
            assert tree(place) == whole.files, "it succeeded with other files"
        check_unfinished(job, place, whole, killed=kinds == REMOVALS)
        check_finished(job, place, whole)
    except AssertionError as error:
        raise AssertionError(f"{fault}: {error}") from error


def _disks(seed: int, folder: Path) -> None:
    random = Random(seed)
    job = random.choice([one for verb in jobs().values() for one in verb if not one.others])
    whole, disk = undisturbed(job), folder / "disk"
    done = inputs() / "undisturbed" / job.name / "done"
    most = sum(file.stat().st_size for file in done.rglob("*") if file.is_file())
    disk.mkdir()
    size = 4096 + int(random.random() * 1.3 * most)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], capture_output=True)
    if mounted.returncode:
        raise SkipTest("no tmpfs can be mounted")
    try:
        place = begin(job, disk / "place")
        ended = do(job.arguments, place, log=str(folder / "log"))
        (disk / "place.log").symlink_to(folder / "log")
        try:
            check_told(ended, place, errno.ENOSPC)
            check_unfinished(job, place, whole, killed=False)
            subprocess.run(["mount", "-o", "remount,size=1g", disk], check=True)
            check_finished(job, place, whole)
        except AssertionError as error:
            raise AssertionError(f"{job.name} on {size:,} bytes: {error}") from error
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


_ASKS = "{}: an error that says why, no half file, then success"
CAMPAIGNS = {
    # The first seed is of `add`, which other campaigns have run already; a training alone takes 20 s.
    "calls": Campaign(_calls, _ASKS.format("a file operation fails"), 3000, 1, seconds=900, slow=True, begin=23),
    "disks": Campaign(_disks, _ASKS.format("a disk is full"), 600, 0, seconds=900),
}

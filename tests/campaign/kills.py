"""Verbs that are killed, and then run again: the same command comes to the files of an undisturbed run.

Half of the kills come at a random moment, the others at a random file operation (`faulty.c`), so that each place where
a file is made, written, flushed, moved or removed has its share. A case may have several kills, and has one at least.
How many there were of each verb is printed at the end of a process.
"""

import shutil
from pathlib import Path
from random import Random

from forked import KILL
from jobs import Job, begin, check_finished, check_unfinished, do, jobs, undisturbed

from campaign.runner import Campaign, kills_made

_KILLED = -9


def _killed(job: Job, folder: Path, random: Random) -> bool:
    """Run a job until it is killed; return False if it ended first."""
    whole = undisturbed(job)
    if random.random() < 0.5:
        ended = do(job.arguments, folder, action=KILL, nth=random.randrange(whole.operations))
    else:
        ended = do(job.arguments, folder, dies_after=random.uniform(0, whole.seconds))
    assert ended.code in (0, 2, _KILLED), f"exit code {ended.code}"
    return ended.code == _KILLED


def _case(seed: int, folder: Path) -> None:
    random, verbs = Random(seed), jobs()
    verb = list(verbs)[seed % len(verbs)]
    job = random.choice(verbs[verb])
    whole, place = undisturbed(job), folder / "place"
    n = random.choice([1, 2, 3, 4])
    while True:
        begin(job, place, whole.before)
        kills = 0
        while kills < n and _killed(job, place, random):
            check_unfinished(job, place, whole, killed=True)
            kills += 1
            kills_made()[verb] += 1
        if kills:
            break
        shutil.rmtree(place)
    check_finished(job, place, whole)


_ASKS = "link, discover, add, train, index and export, killed: then the files of an undisturbed run"
CAMPAIGNS = {"verbs": Campaign(_case, _ASKS, 1200, 3, seconds=900, slow=True)}

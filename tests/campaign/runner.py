"""Campaigns: one question asked of many random cases, each made of its seed alone.

    python tests/campaign --list
    python tests/campaign                          all, in their long form (`make campaign` adds --record)
    python tests/campaign readers --cases 100000 --first 5000000

A case raises an error if it fails. One that takes too long, or too much memory, ends its process and has failed too.
One that raises `unittest.SkipTest` is not counted. With ``--record`` the figures are kept in ``record.json``, by
campaign, with the seeds that failed; a run whose seeds go on where those of the record end is added to them.
docs/guarantees.md tells of them. Cases that write are several times faster where ``TMPDIR`` is in memory.
``tests/test_campaign.py`` asks each question a few times, without limits of time and memory.
"""

import argparse
import atexit
import faulthandler
import functools
import json
import logging
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

HERE = Path(__file__).resolve().parent
RECORD = HERE / "record.json"
PAGE = HERE.parents[1] / "docs" / "guarantees.md"
_BATCH_SECONDS = 20
_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Campaign:
    """A question, and how often it is asked; found by the name of its file and its own."""

    case: Callable[[int, Path], None]
    """Given a seed and an empty folder; raises an error if the case fails."""
    asks: str
    """What must hold, in one sentence."""
    many: int
    """Cases of the long form."""
    few: int
    """Cases in CI; 0: none."""
    seconds: float = 300
    """Most that a case may take."""
    gigabytes: float = 8
    """Most address space of the process of a case."""
    processes: bool = False
    """Whether a case starts processes of its own, so that one is made at a time."""
    slow: bool = False
    """Whether its cases in CI take more than about two seconds."""
    begin: int = 0
    """The first seed in CI."""


def campaigns() -> dict[str, Campaign]:
    """Return the campaigns of all files of this folder, by ``file.name``."""
    found = {}
    for file in sorted(HERE.glob("*.py")):
        if file.stem not in ("__init__", "__main__", "runner"):
            for name, campaign in import_module(f"campaign.{file.stem}").CAMPAIGNS.items():
                found[f"{file.stem}.{name}"] = campaign
    return found


@functools.cache
def kills_made() -> Counter[str]:
    """Count the kills of this process by what was killed, and print them when it ends."""
    made = Counter[str]()
    atexit.register(lambda: print(f"\n{made.total():,} kills: {dict(sorted(made.items()))}", file=sys.stderr))
    return made


_made = multiprocessing.Value("q", -1, lock=False)
"""The seed of the case that this process makes; the processes of a campaign share one."""


def failures(name: str, seeds: Sequence[int]) -> tuple[int, list[tuple[int, str]]]:
    """Make the cases of some seeds; return how many were made, and the seeds that failed, with their errors."""
    campaign, failed, made, folder = campaigns()[name], [], len(seeds), None
    with TemporaryDirectory(prefix="arbo-campaign-", ignore_cleanup_errors=True) as root:
        for seed in seeds:
            if folder is None:
                folder = Path(root, str(seed))
                folder.mkdir()
            faulthandler.dump_traceback_later(campaign.seconds, exit=True)
            _made.value = seed
            try:
                campaign.case(seed, folder)
            except SkipTest:
                made -= 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed.append((seed, traceback.format_exc(limit=-6)))
            finally:
                faulthandler.cancel_dump_traceback_later()
            if os.listdir(folder):  # a folder that is still empty serves the next case: most write nothing
                shutil.rmtree(folder, ignore_errors=True)
                folder = None
    return made, failed


def _begin(gigabytes: float, made: Any) -> None:
    global _made
    _made = made
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    logging.disable(logging.WARNING)  # of skipped lines


def asked(name: str, seeds: range, workers: int) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Make cases in processes, and yield the number of cases and the failures of each batch."""
    campaign = campaigns()[name]
    workers = 1 if campaign.processes else workers
    context = multiprocessing.get_context("spawn")
    made = context.Value("q", -1, lock=False)
    next_, size = seeds.start, 1
    while next_ < seeds.stop:
        try:
            with ProcessPoolExecutor(workers, context, _begin, (campaign.gigabytes, made)) as pool:
                while next_ < seeds.stop:
                    begun = time.perf_counter()
                    begins = range(next_, min(next_ + workers * size, seeds.stop), size)
                    batches = [range(first, min(first + size, seeds.stop)) for first in begins]
                    for batch, told in zip(batches, pool.map(failures, [name] * len(batches), batches), strict=True):
                        next_ = batch.stop
                        yield told
                    spent = time.perf_counter() - begun
                    size = max(1, min(4 * size, int(size * _BATCH_SECONDS / max(spent, 0.01))))
        except BrokenProcessPool:
            if workers == 1:  # make the cases before the last one again, as what they told is lost
                yield from asked(name, range(next_, made.value), 1)
                yield 1, [(made.value, "the process ended: out of time or memory, or it crashed")]
                next_ = made.value + 1
            size, workers = max(1, size // 4), 1


def run(name: str, cases: int, first: int, workers: int, *, kept: bool) -> bool:
    """Ask a question so often, print the figures, record them if asked to, and return whether no case failed."""
    made, failed, begun = 0, [], time.perf_counter()
    for n, errors in asked(name, range(first, first + cases), workers):
        made += n
        failed += errors
        print(f"\r{name}: {made:,} of {cases:,}, {len(failed)} failed", end="", flush=True)
        if len(failed) >= _MOST_FAILURES:
            break
    print(f", {time.perf_counter() - begun:,.0f} s", flush=True)
    for seed, error in failed[:_MOST_FAILURES]:
        print(f"  seed {seed}:\n{error}")
    if kept:
        tried = first + cases if len(failed) < _MOST_FAILURES else failed[-1][0] + 1
        _keep(name, made, [seed for seed, _ in failed], range(first, tried), time.perf_counter() - begun)
    return not failed


def _recorded() -> dict[str, dict[str, Any]]:
    return dict(json.loads(RECORD.read_text("utf-8"))) if RECORD.exists() else {}


def untried(name: str) -> int:
    """Return the seed after those of the record; 0 without any."""
    own = _recorded().get(name, {"first": 0, "cases": 0})
    return int(own["first"] + own.get("seeds", own["cases"]))


def _keep(name: str, made: int, failed: Sequence[int], seeds: range, seconds: float) -> None:
    """Record a run; it is added to the runs of the record if its seeds go on where theirs end."""
    record, first = _recorded(), seeds.start
    if name in record and seeds.start == untried(name):
        before = record[name]
        first, made, failed = before["first"], made + before["cases"], [*before["failed"], *failed]
        seconds += before["seconds"]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True)
    own = {"cases": made, "failed": failed, "first": first, "seeds": seeds.stop - first, "seconds": round(seconds, 1)}
    record[name] = own | {"commit": commit.stdout.strip(), "date": datetime.now(UTC).date().isoformat()}
    RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", "utf-8")


def table(record: dict[str, dict[str, Any]]) -> str:
    """Return the figures of all campaigns as a table of Markdown."""
    known = campaigns()
    lines = ["| campaign | what must hold | cases |", "|---|---|---:|"]
    for name, own in record.items():
        lines.append(f"| `{name}` | {known[name].asks} | {own['cases']:,} |")
    total, failed = sum(own["cases"] for own in record.values()), sum(len(own["failed"]) for own in record.values())
    return "\n".join([*lines, f"| all, {failed} failed | | {total:,} |"])


def tell() -> None:
    """Write the table into docs/guarantees.md, between its marks."""
    begin, end = (f"<!-- {mark} of the table -->\n" for mark in ("begin", "end"))
    head, rest = PAGE.read_text("utf-8").split(begin)
    tail = rest.split(end)[1]
    PAGE.write_text(f"{head}{begin}{table(json.loads(RECORD.read_text('utf-8')))}\n{end}{tail}", "utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="default: all; the beginning of a name chooses all that have it")
    parser.add_argument("--cases", type=int, help="default: those of the long form")
    parser.add_argument("--first", type=int, help="first seed; default: the one after those of the record")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--record", action="store_true", help="keep the figures in record.json and docs/guarantees.md")
    parser.add_argument("--table", action="store_true", help="write the table of docs/guarantees.md, and ask nothing")
    parser.add_argument("--list", action="store_true", help="list the campaigns, and ask nothing")
    given, known = parser.parse_args(), campaigns()
    chosen = [name for name in known if not given.name or any(name.startswith(start) for start in given.name)]
    if not chosen:
        parser.error(f"unknown campaign; choose among {', '.join(known)}")
    if given.table:
        tell()
        return
    if given.list:
        for name in chosen:
            print(f"{name:28} {known[name].many:>9,}  {known[name].asks}")
        return
    firsts = {name: untried(name) if given.first is None else given.first for name in chosen}
    how = {"workers": given.workers, "kept": given.record}
    results = [run(name, given.cases or known[name].many, first, **how) for name, first in firsts.items()]
    if given.record:
        tell()
    raise SystemExit(0 if all(results) else 1)

"""Verbs that write, over small inputs, and what they come to undisturbed: for campaigns of kills and faults."""

import atexit
import functools
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny_models
from forked import Ended, Verb, forks

import arbo
from arbo.data.corpus import Corpus

OUT = "out"
_EXPORTS = ("csv", "jsonl", "pubtator", "bioc", "brat", "conll", "clusters")
_TRAINING = {"epochs": 3, "batch_size": 8, "refresh": 2, "n_negatives": 2, "negatives": "mixed", "positives": "1rand"}
_TIMES = re.compile(rb'"(seconds|duration|checksum)": ?(\{[^}]*\}|[0-9.e+-]+|"\w+")')
"""Times, and the checksum of a manifest with them."""


@dataclass(frozen=True)
class Job:
    """A verb that writes `OUT` in its folder."""

    name: str
    arguments: tuple[str, ...]
    others: tuple[str, ...] = ()
    """The same verb with other options, whose output this one replaces; empty: it replaces nothing."""
    left: tuple[str, ...] = ()
    """Further files and folders, beside `OUT`."""
    during: tuple[str, ...] = ()
    """What may be there, unhidden, while it is unfinished."""


@functools.cache
def inputs() -> Path:
    """Write what the jobs read."""
    folder = Path(tempfile.mkdtemp(prefix="arbo-inputs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    documents, kb = arbo.load_sample()
    parts = {"docs": documents[:30], "more": documents[30:40], "train": documents[:4], "dev": documents[80:83]}
    for name, part in parts.items():
        Corpus.of(part).to_jsonl(folder / f"{name}.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    tiny_models.bert(folder / "bert")
    (folder / "config.json").write_text(json.dumps(_TRAINING), "utf-8")
    forks().warm(_arguments(*["link", "docs.jsonl", "--kb", "kb.jsonl", "--out", "run"], at=folder))
    return folder


def placed(arguments: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Let what a job writes lie in a folder."""
    names = {OUT: str(folder / OUT), "cache=cache": f"cache={folder / 'cache'}"}
    return tuple(names.get(word, word) for word in arguments)


def _arguments(*words: str, at: Path) -> tuple[str, ...]:
    """Let the words that name inputs be paths."""
    names = {"run", "bert", "docs.jsonl", "more.jsonl", "train.jsonl", "dev.jsonl", "kb.jsonl"}
    return tuple(str(at / word) if word in names else word.replace("@", f"@{at}/") for word in words)


@functools.cache
def jobs() -> dict[str, tuple[Job, ...]]:

    def job(name: str, words: str, others: str = "", left: str = "", during: str = "") -> Job:
        first, second = (_arguments(*one.split(), at=inputs()) for one in (words, others))
        return Job(name, first, second, tuple(left.split()), tuple(during.split()))

    def three(name: str, words: str) -> tuple[Job, Job, Job]:
        again = job(f"{name} again", words, f"{words} --k 3")
        return job(name, words), again, job(f"{name} embedded", f"{words} {embedded}", left="cache")

    def before(to: str) -> str:
        return "" if to in ("brat", "csv") else "export run --to clusters --out out"

    link, discover = "link docs.jsonl --kb kb.jsonl --out out", "discover docs.jsonl --out out"
    embedded, add = "--encoder bert --set cache=cache", "add run more.jsonl --out out"
    index, on = "kb index kb.jsonl --out out", "out.training"
    train = "train encoder train.jsonl --kb kb.jsonl --encoder bert --set @config.json --out out"
    plain, bert = f"{index} --set generic_names=false", "--encoder bert"
    return {
        "link": three("link", link),
        "discover": three("discover", discover),
        "add": (job("add", add), job("add again", add, "add run dev.jsonl --out out")),
        "train": (
            job("train", train, left="out.log.jsonl", during=on),
            job("train, chosen", f"{train} --dev dev.jsonl", left="out.log.jsonl", during=on),
            job("train again", train, f"{train} --set seed=5", left="out.log.jsonl", during=on),
        ),
        "index": (job("index", index), job("index again", index, plain), job("index embedded", f"{index} {bert}")),
        "export": tuple(job(f"export {to}", f"export run --to {to} --out out", before(to)) for to in _EXPORTS),
    }


@dataclass(frozen=True)
class Undisturbed:
    """What a job comes to if nothing disturbs it."""

    files: dict[str, str]
    """Hash by path; see `tree`."""
    before: Path | None
    """A folder with the output that it replaces."""
    replaced: dict[str, str]
    """The files of that folder."""
    seconds: float
    operations: int


@functools.cache
def undisturbed(job: Job) -> Undisturbed:
    """Run a job alone, after it has run once in the warm process."""
    with tempfile.TemporaryDirectory() as elsewhere:
        forks().warm(placed(job.arguments, Path(elsewhere)))
    place = inputs() / "undisturbed" / job.name
    before = place / "before" if job.others else None
    if before is not None:
        succeed(job.others, before)
    ended = succeed(job.arguments, begin(job, place / "done", before))
    files, replaced = tree(place / "done"), {} if before is None else tree(before)
    assert files
    assert not set(everything(place / "done")) - set(files), "a hidden file is left"
    return Undisturbed(files, before, replaced, ended.seconds, ended.operations)


def begin(job: Job, folder: Path, before: Path | None = None) -> Path:
    """Make a folder to run a job in, with what it replaces and with files of others."""
    if before is None:
        folder.mkdir(parents=True)
    else:
        shutil.copytree(before, folder)
    return folder


def succeed(arguments: Sequence[str], folder: Path) -> Ended:
    folder.mkdir(parents=True, exist_ok=True)
    ended = do(arguments, folder)
    assert ended.code == 0, told(folder)
    return ended


def do(arguments: Sequence[str], folder: Path, **disturbed: Any) -> Ended:
    """Run a command in a folder, and disturb it as the fields of `Verb` say."""
    options = {"log": str(log_of(folder)), "below": str(folder.resolve()), **disturbed}
    verb = Verb(placed(arguments, folder.resolve()), **options)
    return forks().run(verb)[0]


def log_of(folder: Path) -> Path:
    """Return the file for what the last command in a folder prints."""
    return folder.with_name(f"{folder.name}.log")


def told(folder: Path) -> str:
    return log_of(folder).read_text("utf-8", "replace")


def tree(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a folder, without the seconds that something took, and no hidden files."""
    return {name: digest for name, digest in everything(folder).items() if not is_hidden(name)}


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def everything(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a folder, hidden ones too."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            content = _TIMES.sub(b"", file.read_bytes()) if file.suffix == ".json" else file.read_bytes()
            found[file.relative_to(folder).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def part(files: dict[str, str], name: str) -> dict[str, str]:
    """Return the files that are something, or in it, by their paths in it."""
    return {at[len(name) + 1 :]: files[at] for at in files if at == name or at.startswith(f"{name}/")}


def check_unfinished(job: Job, folder: Path, whole: Undisturbed, *, killed: bool) -> None:
    """Raise AssertionError if a folder of a disturbed job has something that looks complete and is not.

    What was there before, or what was to be written, must be there whole, or nothing; of what was there before, at
    least a hidden folder. Hidden files are left by kills alone.
    """
    there = everything(folder)
    seen = {name: digest for name, digest in there.items() if not is_hidden(name)}
    allowed, out = [part(whole.files, OUT), part(whole.replaced, OUT)], part(seen, OUT)
    if killed:
        aside = [part(there, name) for name in {at.split("/")[0] for at in there if is_hidden(at)}]
        assert out in allowed or (not out and allowed[1] in [{}, *aside]), f"{OUT} is incomplete, or lost: {out}"
    else:
        assert out in allowed, f"{OUT} is incomplete, or lost: {out}"
    for name, digest in seen.items():
        top = name.split("/")[0]
        if top != OUT and top not in job.during:
            assert top in job.left, f"{name} is left"
            assert digest in (whole.files.get(name), whole.replaced.get(name)), f"{name} is incomplete"
    for name in set(there) - set(seen):
        top = name.split("/")[0]
        if top not in job.during:
            assert killed, f"{name} is left, though the process was not killed"
            own = next(part for part in name.split("/") if part.startswith("."))
            assert own.startswith((".arbo-partial-", ".arbo-old-", f".{OUT}.training.old")), f"{name} is left"


def check_finished(job: Job, folder: Path, whole: Undisturbed) -> None:
    """Run a job again after it was disturbed; raise AssertionError unless it comes to the same."""
    ended = do(job.arguments, folder)
    is_there = ended.code == 2 and "is not an empty folder" in told(folder)  # brat replaces nothing
    assert ended.code == 0 or is_there, f"exit code {ended.code}: {told(folder)}"
    found = tree(folder)
    names = sorted(name for name in {*found, *whole.files} if found.get(name) != whole.files.get(name))
    assert not names, f"not the files of an undisturbed run: {names}"

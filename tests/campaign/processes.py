"""Two to eight processes on one folder: each does its work or says why not, and none leaves a mixture."""

import json
import multiprocessing
from pathlib import Path
from random import Random

import jobs as work
from forked import Verb, forks

import arbo
from arbo.corrections.lines import corrections_of
from arbo.corrections.review import Review
from campaign.runner import Campaign

_REFUSALS = "another process", "exists and is not an empty folder"


def _together(commands: list[tuple[str, ...]], folder: Path, dies_after: float | None = None) -> list[int]:
    """Run commands at the same time, the first one perhaps killed; check what they say, and return their exit codes."""
    logs = [folder / f"{number}.log" for number in range(len(commands))]
    deaths = [dies_after, *[None] * (len(commands) - 1)]
    verbs = [Verb(command, str(log), dies_after=at) for command, log, at in zip(commands, logs, deaths, strict=True)]
    codes = []
    for ended, log in zip(forks().run(*verbs), logs, strict=True):
        said = log.read_text("utf-8", "replace")
        assert ended.code in (0, 2) or (ended.code == -9 and not codes), f"exit code {ended.code}: {said[-3000:]}"
        assert not ended.code or ended.code == -9 or any(words in said for words in _REFUSALS), said[-3000:]
        codes.append(ended.code)
    return codes


def _one_out(seed: int, folder: Path) -> None:
    """The same command, or one of two, of several processes to one --out, of which one may be killed."""
    random = Random(seed)
    job = random.choice([own for verb in work.jobs().values() for own in verb])
    whole = work.undisturbed(job)
    place = work.begin(job, folder / "place", whole.before)
    n, dies = random.choice([2, 2, 3, 4, 8]), random.random() < 0.3
    others = job.others if job.name != "train again" else ()
    words = [others if others and random.random() < 0.4 else job.arguments for _ in range(n)]
    dies_after = random.uniform(0, n * whole.seconds) if dies else None
    codes = _together([work.placed(own, place) for own in words], folder, dies_after)
    assert 0 in codes or -9 in codes
    work.check_unfinished(job, place, whole, killed=-9 in codes)
    if 0 in codes:
        assert any(name.split("/")[0] == "out" for name in work.tree(place)), "out is lost"
    work.check_finished(job, place, whole)


def _one_cache(seed: int, folder: Path) -> None:
    """Several processes with one cache of embeddings, each with an --out of its own."""
    random = Random(seed)
    n = random.choice([2, 3, 4, 8])
    chosen: list[work.Job] = [random.choice([work.jobs()[verb][2] for verb in ("link", "discover")]) for _ in range(n)]
    (folder / "cache").mkdir()
    commands = []
    for number, job in enumerate(chosen):
        work.undisturbed(job)
        own = folder / f"p{number}"
        own.mkdir()
        (own / "cache").symlink_to(folder / "cache")
        commands.append(work.placed(job.arguments, own))
    dies_after = random.uniform(0, n) if random.random() < 0.3 else None
    codes = _together(commands, folder, dies_after)
    assert set(codes) <= {0, -9}
    for number, (job, code) in enumerate(zip(chosen, codes, strict=True)):
        if code == -9:
            work.succeed(job.arguments, folder / f"p{number}")
        trees = work.undisturbed(job).files, work.tree(folder / f"p{number}")
        wanted, found = ({name: one[name] for name in one if not name.startswith("cache/")} for one in trees)
        assert found == wanted
    if -9 not in codes:
        assert not [name for name in work.everything(folder) if work.is_hidden(name)]


def _write(run: arbo.Result, file: str, who: int, n: int) -> None:
    review = Review(run, Path(file), (), author=f"a{who}")
    for line in range(n):
        review.answer(run.links[0], [{"mention": f"m{who}-{line}", "new": "ü" * 50}])


def _one_corrections(seed: int, folder: Path) -> None:
    """Several reviews that append to one file of corrections, of which one may be killed."""
    random = Random(seed)
    file, context = folder / "corrections.jsonl", multiprocessing.get_context("fork")
    begun = "" if random.random() < 0.5 else json.dumps({"mention": "m", "new": "x"}) + "\n" * random.randrange(2)
    file.write_text(begun, "utf-8")
    n, lines = random.choice([2, 4, 8]), random.randrange(1, 40)
    run = arbo.Linker().discover(["marsh fever"])
    writers = [context.Process(target=_write, args=(run, str(file), who, lines)) for who in range(n)]
    for one in writers:
        one.start()
    dies = random.random() < 0.3
    if dies:
        writers[0].join(random.random() * 0.2)
        writers[0].kill()
    for one in writers:
        one.join()
    found = [line.record.get("mention") for line in corrections_of(file)]
    assert len(set(found)) == len(found)
    wanted = {f"m{who}-{line}" for who in range(dies, n) for line in range(lines)} | ({"m"} if begun else set())
    assert wanted <= set(found), f"lost: {sorted(wanted - set(found))}"


_ONE = "two to eight processes write one --out: one of them whole, and no mixture"
_ALONE = "two to eight processes with one cache of embeddings: what each finds alone"
_LINES = "reviews append to one file of corrections: no line is lost"
CAMPAIGNS = {
    "out": Campaign(_one_out, _ONE, 600, 2, slow=True),
    "cache": Campaign(_one_cache, _ALONE, 200, 1, slow=True),
    "corrections": Campaign(_one_corrections, _LINES, 600, 8, slow=True),
}

r"""One job in several processes: two workers beside one, the cost of a work folder, memory, and the same bytes.

Documents are made: 20 mentions each, with names that are drawn from 3,000 for 10⁵ mentions, 30,000 for 10⁶ and 300,000
for 10⁷; the knowledge base has 10,000, 100,000 and 10⁶ names of one to three made words. The parts are made one by one,
and kept; `--only` makes one of them.

- `speed`: `times_faster` is the time of one worker over that of two, for encoding and search (`search`: n-grams, 60,000
  distinct names against 300,000; `embedding`: MiniLM, 32,000 distinct names against 10: its two parts of a search
  are one for each worker). `ray` has two workers of a cluster that is started here, its start not counted;
  `ray_times_slower` is its time over that of two processes. A worker has one thread, and is warmed by a small job; each
  time is the least of two. Ratios need two free cores: beside other work, two workers get twice the share of one.
- `memory`: `work.times_slower` compares `arbo link --workers 1 --work` with `arbo link` in memory, from files to
  tables, on 10⁵ mentions, least of three. `peak_gb` is the peak memory of `arbo link` and `arbo discover`, and
  `bytes_a_mention` the slope between both sizes, the share of ten mentions of a name in the knowledge base included.
- `largest`: ten million mentions, from files to tables, the knowledge base as an index: the peak memory, with pages of
  mapped files, the seconds of the stages that a run tells (`encode and search`, then those of the driver alone:
  `partition`, `describe`), and the rest: reading, and writing the tables. `work`: linked with two workers.
- `bytes`: each job on BC5CDR diseases against MEDIC, on the entities of ECB+, and with corrections and growth, in one
  process, in 1, 2 and 4 workers, and on Ray with two workers, in shards of 300, 1,000 and 5,000, so that their mentions
  lie in one to four bins; `different` counts the jobs whose tables differ from those of one process in a byte.
"""

import json
import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path

from library.cells import Cells
from library.command import parser_of
from library.corpora import JOBS
from library.folders import DATA
from library.results import Figures, collected, record
from library.timing import run_arbo
from threadpoolctl import threadpool_limits

import arbo
from arbo.encoders.named import encoder_of
from arbo.scale.cluster import LOCAL, connected
from arbo.scale.work import opened
from clustering import METHODS

FILLER = "was found in the sample of patients with "
SIZES = {"1e5": (100_000, 3_000, 10_000), "1e6": (1_000_000, 30_000, 100_000)}
LARGEST = (10_000_000, 300_000, 1_000_000)
SPREADS = [("--workers", "1"), ("--workers", "2"), ("--workers", "4"), ("--ray", "local", "--workers", "2")]
SHARD_SIZES = "300", "1000", "5000"
SPEED = {
    "search": ("ngram", (60_000, 60_000, 300_000)),
    "embedding": ("all-MiniLM-L6-v2", (32_000, 32_000, 10)),
}
"""Encoder, and what is made."""


def make(folder: Path, mentions: int, distinct: int, names: int) -> tuple[Path, Path]:
    """Write documents and a knowledge base; return their files."""
    drawn = random.Random(0)
    syllables = [one + other for one in "bcdfglmnprstvk" for other in "aeiou"]
    words = ["".join(drawn.choices(syllables, k=drawn.randint(2, 4))) for _ in range(20_000)]

    def name() -> str:
        return " ".join(drawn.choices(words, k=drawn.randint(1, 3)))

    folder.mkdir(exist_ok=True)
    files = folder / "documents.jsonl", folder / "entities.jsonl"
    known = [name() for _ in range(names)]
    entities = ({"id": f"E{i}", "name": known[i], "aliases": known[i + 1 : i + 3]} for i in range(0, names, 3))
    files[1].write_text("".join(f"{json.dumps(entity)}\n" for entity in entities), "utf-8")
    pool = [drawn.choice(known) + drawn.choice(["", "s", f" {drawn.choice(words)}"]) for _ in range(distinct)]
    with files[0].open("w", encoding="utf-8") as stream:
        for begin in range(0, mentions, 20):
            text, spans = "", []
            for place in range(begin, min(begin + 20, mentions)):
                own = pool[place] if place < distinct else pool[int(distinct ** drawn.random()) - 1]
                text += FILLER
                spans.append({"spans": [[len(text), len(text) + len(own)]], "type": "Disease"})
                text += f"{own}. "
            stream.write(json.dumps({"id": f"d{begin}", "text": text, "mentions": spans}) + "\n")
    return files


def one_thread() -> None:
    """Make this process a worker."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    threadpool_limits(1)
    os.cpu_count = lambda: 1


def processes(workers: int) -> Executor:
    """Return so many workers."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), one_thread)


POOLS: dict[str, Callable[[], AbstractContextManager[Executor]]] = {
    "one": lambda: processes(1),
    "two": lambda: processes(2),
    "ray": lambda: connected(LOCAL, 2),
}


def seconds_of(linker: arbo.Linker, names: list[str], folder: Path, pool: Executor) -> float:
    """Return the seconds of encoding and search by the workers of a pool."""
    for place, some in (("small", names[:4096]), ("all", names)):
        with opened(folder / place, shard_size=40_000, pool=pool) as work:
            result = work.over(linker.configured(encoder=linker.encoder)).link(some)
    return float(result.manifest["seconds"]["encode and search"])


def speed(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare two workers with one, and with two of Ray."""
    for what, (encoder, sizes) in SPEED.items():
        documents, entities = make(folder / what, *sizes)
        names = [mention.text for mention in arbo.read_documents(documents).mentions]
        linker = arbo.Linker(arbo.read_knowledge_base(entities), encoder_of(encoder))
        spent: dict[str, float] = {}
        for turn, (name, opening) in product("01", POOLS.items()):
            with opening() as pool:
                seconds = seconds_of(linker, names, folder / what / f"{name}{turn}", pool)
            spent[name] = min(seconds, spent.get(name, seconds))
        yield from ((f"{what}.{name}.seconds", seconds) for name, seconds in spent.items())
        yield f"{what}.times_faster", spent["one"] / spent["two"]
        yield f"{what}.ray_times_slower", spent["ray"] / spent["two"]


def memory(folder: Path) -> Iterator[tuple[str, float]]:
    """Measure peaks, and what the work folder costs."""
    peaks: dict[str, list[int]] = {"link": [], "discover": []}
    for size, sizes in SIZES.items():
        documents, entities = make(folder / size, *sizes)
        jobs = {
            "link": ["link", str(documents), "--kb", str(entities), "--out", str(folder / "run")],
            "discover": ["discover", str(documents), "--out", str(folder / "found")],
        }
        if size == "1e5":
            work = ["--workers", "1", "--work"]
            runs = [(run_arbo(*jobs["link"]), run_arbo(*jobs["link"], *work, f"{folder}/work{i}")) for i in range(3)]
            yield "work.times_slower", min(own.seconds for _, own in runs) / min(own.seconds for own, _ in runs)
        for verb, job in jobs.items():
            peaks[verb].append(run_arbo(*job).peak)
            yield f"{verb}.{size}.peak_gb", peaks[verb][-1] / 1e9
    for verb, (small, large) in peaks.items():
        yield f"{verb}.bytes_a_mention", (large - small) / (SIZES["1e6"][0] - SIZES["1e5"][0])


def largest(folder: Path) -> Iterator[tuple[str, float]]:
    """Link and discover ten million mentions."""
    documents, entities = make(folder, *LARGEST)
    run_arbo("kb", "index", str(entities), "--out", str(folder / "index"))
    jobs = {
        "discover": ["discover", str(documents), "--out", str(folder / "found")],
        "link": ["link", str(documents), "--kb", str(folder / "index"), "--out", str(folder / "run")],
    }
    jobs["work"] = [*jobs["link"][:-1], str(folder / "other"), "--workers", "2", "--work", str(folder / "work")]
    for verb, job in jobs.items():
        told, seconds, peak = run_arbo(*job)
        yield f"{verb}.1e7.peak_gb", peak / 1e9
        yield f"{verb}.1e7.seconds", seconds
        for stage, own in told["seconds"].items():
            yield f"{verb}.1e7.{stage.replace(' ', '_')}.seconds", own
        yield f"{verb}.1e7.read_and_write.seconds", seconds - sum(told["seconds"].values())


def same_bytes(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare the tables of jobs in processes with those of one."""
    job = JOBS["BC5CDR disease"]
    (documents,) = {job.test}
    kb, news = ["--kb", str(DATA / job.kb), "--kb-format", job.kb_format], str(DATA / "ecbplus")
    test = job.documents(documents)
    parts = {name: folder / f"{name}.jsonl" for name in ("first", "second", "corrections")}
    test[:400].to_jsonl(parts["first"])
    test[400:].to_jsonl(parts["second"])
    parts["corrections"].write_text("".join(f"{json.dumps(one)}\n" for one in corrections(test[:400])), "utf-8")
    jobs = [[*job.command(documents), "--method", method] for method in METHODS]
    jobs += [["discover", news, "--format", "ecbplus"]]
    jobs += [["link", str(parts["first"]), *kb, "--corrections", str(parts["corrections"]), "--spread", "graph"]]
    compared = different = 0
    for place, words in enumerate(jobs):
        grow = words[1] == str(parts["first"])
        plain = tables(words, folder / f"plain{place}", [str(parts["second"])] if grow else None)
        for number, spread in enumerate(product(SPREADS, SHARD_SIZES)):
            how = [*spread[0], "--shard-size", spread[1]]
            made = tables(words, folder / f"run{place}.{number}", [str(parts["second"])] if grow else None, how)
            compared += 1
            different += made != plain
    yield "bytes.jobs", compared
    yield "bytes.different", different


def corrections(documents: arbo.Corpus) -> Iterator[dict[str, object]]:
    """Make corrections of each kind."""
    mentions = [mention for mention in documents.mentions if mention.gold]
    for number, one in enumerate(mentions[::7]):
        other, where = mentions[number], {"document": one.document_id, "spans": [[one.start, one.end]]}
        kinds: list[dict[str, object]] = [
            {"mention": one.id, "entity": one.gold[0] if one.gold else None},
            {"mention": one.id, "entity": None},
            {"mention": one.id, "new": f"new {number % 5}"},
            {"same": [one.id, other.id]},
            {"different": [one.id, other.id]},
            {**where, "drop": True},
            {**where, "resize": [[one.start, one.end + 1]]},
        ]
        yield kinds[number % 7]


def tables(job: list[str], out: Path, more: list[str] | None, how: Sequence[str] = ()) -> dict[str, str]:
    """Make a run, which perhaps grows by ``more``, and return the hashes of its files."""
    run_arbo(*job, "--out", str(out), *how)
    if more:
        out, before = out.with_name(f"{out.name}.grown"), out
        run_arbo("add", str(before), *more, "--out", str(out), *how)
    found: dict[str, str] = json.loads((out / "manifest.json").read_text("utf-8"))["files"]
    return found


PARTS = {"memory": memory, "speed": speed, "largest": largest, "bytes": same_bytes}
MADE_WITH = {"memory": SIZES, "speed": (SPEED, *POOLS), "largest": LARGEST, "bytes": (SPREADS, SHARD_SIZES, METHODS)}
CELLS = Cells("scale", lambda cell: (cell["part"], MADE_WITH[cell["part"]]))


def main() -> None:
    """Make the parts that are missing, and record all."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=PARTS, help="make this part only")
    given = parser.parse_args()

    def made(part: str) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            return collected(PARTS[part](Path(folder)))

    for name in PARTS:
        if given.only in (None, name):
            CELLS.keep({"part": name}, lambda _, name=name: made(name))  # type: ignore[misc]
    kept = sorted(CELLS.read(), key=lambda cell: list(PARTS).index(cell["part"]))
    rows = (cell.items() for cell in kept)
    record("scale", {name: value for row in rows for name, value in row if name not in ("part", "commit")}, cells=kept)


if __name__ == "__main__":
    main()

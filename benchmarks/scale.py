r"""One job in several processes: two workers beside one, the cost of a work folder, memory, and the same bytes.

Documents are made: 20 mentions each, with names that are drawn from 3,000 for 10⁵ mentions, 30,000 for 10⁶ and 300,000
for 10⁷; the knowledge base has 10,000, 100,000 and 10⁶ names of one to three made words. The parts are made one by one,
and kept; `--only` makes one of them.

- `speed`: `times_faster` is the time of one worker over that of two, for encoding and search (`search`: n-grams, 32,768
  names against 160,000; `embedding`: MiniLM, 32,000 names against 10; `names` are the distinct ones). `ray` has two
  workers of a cluster that is started here; its start, until it has answered a first call, is `ray.start` and not
  counted elsewhere. The pools take turns in five rounds, one worker in the first and the last alone; times are medians,
  and `ray_times_slower` is the median of the ratios of Ray to two processes in a round. A worker has one thread, and is
  warmed by a small job. Ratios need two free cores: beside other work, two workers get twice the share of one.
- `memory`: `work.times_slower` compares `arbo link --workers 1 --work` with `arbo link` in memory, from files to
  tables, on 10⁵ mentions, least of three. `bytes_a_mention` is the slope of the peak memory between both sizes, the
  share of ten mentions of a name in the knowledge base included.
- `largest`: ten million mentions, the knowledge base as an index (`index`: its making). `work`: linked with two
  workers; `different` counts the files that are not those of the run in memory.
- Of both, from files to tables: the peak memory, with pages of mapped files, the seconds, those of the stages that a
  run tells (`encode and search`, then those of the driver alone: `partition`, `describe`), and the rest
  (`read_and_write`); `read` is reading the documents alone, in a process of its own. `changes`: `arbo diff` of the
  linked run and one with an entity threshold of 0.34 instead of 0.35, `mentions` of which change; at 10⁷ it is a part
  of its own (`--only changes`). `driver` is the sum of `partition` and `describe` of the linked run and of `changes`.
- `--only moved`, recorded on its own, makes the table *bytes moved*: the same jobs of linking in two processes.
  `written`: all parts of the work folder; `read`: a task reads its names, each worker every shard once, and the driver
  the lists. `driver GB` is its peak memory, without the workers'.
- `bytes`: jobs whose files are compared, by their hashes, with those of the same job in memory. They are spread in
  seven ways: in parts that the driver makes itself (`--workers 1`), in 1, 2 and 4 processes, on a Ray cluster with two
  workers, on one with two nodes, and in threads that begin each call a little later or earlier than asked. The first 12
  documents of the sample are linked with each method and with average linkage, discovered, and grow: 9 are linked with
  corrections of each kind, 3 are added, and the run is made again (`refit`); in shards of 1 and 7. BC5CDR diseases are
  linked to MEDIC with each method, and grow (400 documents and 100); the entities of ECB+ are discovered, with single
  and average linkage (discovery has no methods); both in shards of 300, 1,000 and 5,000. Jobs of the same data, size
  and spread share a work folder. `different` counts the jobs of which any file
  of a run differs, `made_again` the parts that were made twice.
"""

import json
import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import product
from operator import truediv
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from library.cells import Cells
from library.command import parser_of
from library.corpora import JOBS
from library.folders import DATA, RESULTS
from library.results import Figures, Row, collected, commit, record, record_table, say
from library.timing import Ran, in_process, run_arbo, seconds
from threadpoolctl import threadpool_limits

import arbo
from arbo.encoders.by_name import encoder_of
from arbo.scale.executors import LOCAL, completed, connected, executor
from arbo.scale.parts import MANIFEST
from arbo.scale.work import opened
from clustering import METHODS

FILLER = "was found in the sample of patients with "
SIZES = {"1e5": (100_000, 3_000, 10_000), "1e6": (1_000_000, 30_000, 100_000)}
LARGEST = (10_000_000, 300_000, 1_000_000)
MATRIX: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "sample": ((1, 7), (*METHODS, "average", "discover", "growth")),
    "BC5CDR disease": ((300, 1000, 5000), (*METHODS, "growth")),
    "ECB+": ((300, 1000, 5000), ("discover", "average")),
}
"""Sizes of shards, and jobs."""
SPEED = {
    "search": ("ngram", (32_768, 32_768, 160_000)),
    "embedding": ("all-MiniLM-L6-v2", (32_000, 32_000, 10)),
}
"""Encoder, and what is made."""
ROUNDS = 5


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


class Shuffled(ThreadPoolExecutor):
    """Threads that begin each call a little later or earlier than asked."""

    def submit(self, call: Any, /, *args: Any, **named: Any) -> Future[Any]:
        """Submit a call."""
        return super().submit(later, random.choice((0, 0, 0.003)), call, *args, **named)


def later(seconds: float, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function after a while."""
    time.sleep(seconds)
    return call(*args, **named)


@contextmanager
def two_nodes() -> Iterator[Executor]:
    """Yield a Ray cluster with two nodes on this host."""
    from ray.cluster_utils import Cluster

    how = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000}
    nodes = Cluster(initialize_head=True, head_node_args=how)
    try:
        nodes.add_node(**how)
        with connected(nodes.address) as pool:
            yield pool
    finally:
        nodes.shutdown()


SPREADS: dict[str, Callable[[], AbstractContextManager[Executor | None]]] = {
    "serial": lambda: executor(1),
    "one": lambda: processes(1),
    "two": lambda: processes(2),
    "four": lambda: processes(4),
    "ray": lambda: connected(LOCAL, 2),
    "nodes": two_nodes,
    "shuffled": lambda: Shuffled(3),
}
POOLS = "one", "two", "ray"
"""Those that `speed` compares."""


def seconds_of(linker: arbo.Linker, names: list[str], folder: Path, pool: Executor | None) -> float:
    """Return the seconds of encoding and search by the workers of a pool."""
    for some in (names[:4096], names):
        with TemporaryDirectory(dir=folder) as place, opened(place, shard_size=40_000, pool=pool) as work:
            result = linker.configured(encoder=linker.encoder).configured(over=work).link(some)
    return float(result.manifest["seconds"]["encode and search"])


def speed(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare two workers with one, and with two of Ray."""
    given, spent = {}, defaultdict[str, list[float]](list)
    for what, (encoder, sizes) in SPEED.items():
        documents, entities = make(folder / what, *sizes)
        names = [mention.text for mention in arbo.read_documents(documents).mentions]
        given[what] = arbo.Linker(arbo.read_knowledge_base(entities), encoder_of(encoder)), names
    for turn, name in product(range(ROUNDS), POOLS):
        if name != "one" or turn in (0, ROUNDS - 1):
            begin = time.perf_counter()
            with SPREADS[name]() as pool:
                next(completed(pool, [(abs, 0)]))
                spent[name].append(time.perf_counter() - begin)
                for what, (linker, names) in given.items():
                    spent[f"{what}.{name}"].append(seconds_of(linker, names, folder, pool))
    yield "ray.start.seconds", median(spent["ray"])
    for what, (_, names) in given.items():
        one, two, ray = (spent[f"{what}.{name}"] for name in POOLS)
        yield f"{what}.names", len(set(names))
        yield from ((f"{what}.{name}.seconds", median(spent[f"{what}.{name}"])) for name in POOLS)
        yield f"{what}.times_faster", median(one) / median(two)
        yield f"{what}.ray_times_slower", median(map(truediv, ray, two))


OTHER = "--threshold", "0.34,0.2"
"""Makes another run of a job, by the same search."""


def measured(name: str, ran: Ran) -> Iterator[tuple[str, float]]:
    """Yield the peak memory and the seconds of a command, and of its stages if it tells them."""
    yield f"{name}.peak_gb", ran.peak / 1e9
    yield f"{name}.seconds", ran.seconds
    if stages := ran.printed.get("seconds"):
        for stage, own in stages.items():
            yield f"{name}.{stage.replace(' ', '_')}.seconds", own
        yield f"{name}.read_and_write.seconds", ran.seconds - sum(stages.values())


def changes(size: str, before: Path, after: Path) -> Iterator[tuple[str, float]]:
    """Measure the comparison of two runs."""
    ran = run_arbo("diff", str(before), str(after))
    yield from measured(f"changes.{size}", ran)
    yield f"changes.{size}.mentions", len(ran.printed["mentions"])


def reading(documents: Path) -> float:
    """Return the seconds of reading documents."""
    return seconds(arbo.read_documents, documents)[0]


def memory(folder: Path) -> Iterator[tuple[str, float]]:
    """Measure peaks, and what the work folder costs."""
    peaks: dict[str, list[int]] = {"link": [], "discover": []}
    for size, sizes in SIZES.items():
        documents, entities = make(folder / size, *sizes)
        run, other = folder / "run", folder / "other"
        jobs = {
            "link": ["link", str(documents), "--kb", str(entities), "--out", str(run)],
            "discover": ["discover", str(documents), "--out", str(folder / "found")],
        }
        if size == "1e5":
            work = ["--workers", "1", "--set"]
            runs = [(run_arbo(*jobs["link"]), run_arbo(*jobs["link"], *work, f"{folder}/work{i}")) for i in range(3)]
            yield "work.times_slower", min(own.seconds for _, own in runs) / min(own.seconds for own, _ in runs)
        for verb, job in jobs.items():
            ran = run_arbo(*job)
            peaks[verb].append(ran.peak)
            yield from measured(f"{verb}.{size}", ran)
        yield f"read.{size}.seconds", in_process(reading, documents)
        run_arbo(*jobs["link"][:-1], str(other), *OTHER)
        yield from changes(size, run, other)
    for verb, (small, large) in peaks.items():
        yield f"{verb}.bytes_a_mention", (large - small) / (SIZES["1e6"][0] - SIZES["1e5"][0])


def largest(folder: Path) -> Iterator[tuple[str, float]]:
    """Link and discover ten million mentions."""
    documents, entities = make(folder, *LARGEST)
    yield from measured("index.1e7", run_arbo("kb", "index", str(entities), "--out", str(folder / "index")))
    yield "read.1e7.seconds", in_process(reading, documents)
    yield from measured("discover.1e7", run_arbo("discover", str(documents), "--out", str(folder / "found")))
    rmtree(folder / "found")
    run, other = folder / "run", folder / "other"
    link = ["link", str(documents), "--kb", str(folder / "index"), "--out"]
    yield from measured("link.1e7", run_arbo(*link, str(run)))
    work = [*link, str(other), "--workers", "2", "--set", f"work={folder / 'work'!s}"]
    yield from measured("work.1e7", run_arbo(*work))
    files = [json.loads((own / "manifest.json").read_text("utf-8"))["files"] for own in (run, other)]
    yield "work.1e7.different", sum(files[1].get(name) != digest for name, digest in files[0].items())


def largest_changes(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare two runs of ten million mentions."""
    documents, entities = make(folder, *LARGEST)
    run, other = folder / "run", folder / "other"
    job = [
        "link",
        str(documents),
        "--kb",
        str(entities),
        "--workers",
        "2",
        "--set",
        f"work={folder / 'work'!s}",
        "--out",
    ]
    run_arbo(*job, str(run))
    run_arbo(*job, str(other), *OTHER)
    yield from changes("1e7", run, other)


def moved(folder: Path) -> list[Row]:
    """Measure what two processes write to the work folder, and read there."""
    rows, now = [], commit()
    for size, sizes in {**SIZES, "1e7": LARGEST}.items():
        documents, entities = make(folder / size, *sizes)
        work, job = folder / size / "work", ["link", str(documents), "--kb", str(entities), "--workers", "2"]
        ran = run_arbo(*job, "--out", str(folder / "run"), "--set", f"work={work}")
        parts: defaultdict[str, list[int]] = defaultdict(list)
        for part in work.iterdir():
            parts[part.name.partition("-")[0]].append(sum(file.stat().st_size for file in part.iterdir()))
        names, shards, lists = (sum(parts[stage]) for stage in ("vectors", "things", "search"))
        read = len(parts["things"]) * names + 2 * shards + lists
        peak = {"driver GB": ran.peak / 1e9, "commit": now}
        rows.append({"mentions": size, "written MB": (names + shards + lists) / 1e6, "read MB": read / 1e6, **peak})
        say(str(rows[-1]))
        rmtree(folder / size)
    return rows


def same_bytes(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare the files of jobs that are spread with those of the same jobs in memory."""
    given = {data: given_of(data) for data in MATRIX}
    plain = {data: [[*runs(job, *given[data], folder)] for job in MATRIX[data][1]] for data in MATRIX}
    made: Counter[str] = Counter()
    for (spread, opening), (data, (sizes, jobs)) in product(SPREADS.items(), MATRIX.items()):
        documents, linker = given[data]
        with opening() as pool:
            for size in sizes:
                found, stamps = [], dict[Path, int]()
                with opened(folder / "work", shard_size=size, pool=pool) as work:
                    for job in jobs:
                        found.append([*runs(job, documents, linker.configured(over=work), folder)])
                        now = {part: part.stat().st_mtime_ns for part in work.folder.glob(f"*/{MANIFEST}")}
                        made["made_again"] += sum(now[part] != stamp for part, stamp in stamps.items())
                        stamps = now
                different = [job for job, own, whole in zip(jobs, found, plain[data], strict=True) if own != whole]
                made.update(jobs=len(jobs), different=len(different), parts=len(stamps))
                rmtree(work.folder)
                say(f"{spread}, {data} in shards of {size}: {different or 'the same'}")
    yield from ((f"bytes.{name}", number) for name, number in made.items())


def given_of(data: str) -> tuple[arbo.Corpus, arbo.Linker]:
    """Read documents, and what they are linked to."""
    if data == "sample":
        documents, kb = arbo.load_sample()
        return documents[:12], arbo.Linker(kb)
    if data == "ECB+":
        return arbo.read_documents(DATA / "ecbplus", "ecbplus"), arbo.Linker()
    return JOBS[data].documents(JOBS[data].test), arbo.Linker(JOBS[data].knowledge_base())


def runs(job: str, documents: arbo.Corpus, linker: arbo.Linker, folder: Path) -> Iterator[dict[str, str]]:
    """Make the runs of a job, and yield the hashes of their files."""
    how: Any = {"method": job} if job in METHODS else {"nil_linkage": "average"} if job == "average" else {}
    made, cut = linker.configured(config=replace(linker.config, **how)), len(documents) * 4 // 5
    steps: list[Callable[[Any], arbo.Result]] = [lambda _: made.link(documents)]
    if job == "discover" or linker.kb is None:
        steps = [lambda _: made.discover(documents)]
    elif job == "growth":
        steps = [lambda _: made.link(documents[:cut], [*corrections(documents[:cut])])]
        steps += [lambda before: made.add(before, documents[cut:]), made.refit]
    before = None
    for place, step in enumerate(steps):
        step(before).save(folder / f"run{place}")
        before = arbo.Result.load(folder / f"run{place}")
        yield before.manifest["files"]


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


DRIVER = {"link.1e7.partition.seconds", "link.1e7.describe.seconds", "changes.1e7.seconds"}
"""What workers cannot take from the driver: the forest, the names, and the changes from one run to another."""
PARTS = {"memory": memory, "speed": speed, "largest": largest, "changes": largest_changes, "bytes": same_bytes}
MADE_WITH = {
    "memory": (SIZES, OTHER),
    "speed": (SPEED, ROUNDS, *POOLS),
    "largest": (LARGEST, OTHER),
    "changes": (LARGEST, OTHER),
    "bytes": (MATRIX, *SPREADS),
}
CELLS = Cells("scale", lambda cell: (cell["part"], MADE_WITH[cell["part"]]))


def main() -> None:
    """Make the parts that are missing, and record all."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", choices=[*PARTS, "moved"], help="make this part only")
    given = parser.parse_args()

    def made(part: str) -> Figures:
        memory = "/dev/shm" if part == "bytes" and os.path.isdir("/dev/shm") else None  # many small files
        with TemporaryDirectory(dir=memory) as folder:
            return collected(PARTS[part](Path(folder)))

    if given.only == "moved":
        with TemporaryDirectory() as folder:
            record_table("scale", "bytes moved", moved(Path(folder)))
        return
    for name in PARTS:
        if given.only in (None, name):
            CELLS.keep({"part": name}, lambda _, name=name: made(name))  # type: ignore[misc]
    kept = sorted(CELLS.read(), key=lambda cell: list(PARTS).index(cell["part"]))
    rows = (cell.items() for cell in kept)
    figures: Figures = {name: value for row in rows for name, value in row if name not in ("part", "commit")}
    if figures.keys() >= DRIVER:
        figures["driver.1e7.seconds"] = sum(figures[name] for name in DRIVER)
    tables = json.loads((RESULTS / "scale.json").read_text("utf-8")).get("tables")
    record("scale", figures, tables, cells=kept)


if __name__ == "__main__":
    main()

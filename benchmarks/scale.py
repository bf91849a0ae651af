r"""One job in several processes: two workers beside one, the cost of a work folder, and the memory of a mention.

Documents are made: 20 mentions each, with names that are drawn from 3,000 for 10⁵ mentions and from 30,000 for 10⁶; the
knowledge base has 10,000 and 100,000 names of one to three made words.

`times_faster` is the time of one worker over that of two, for encoding and search (`search`: n-grams, 60,000 distinct
names against 300,000; `embedding`: MiniLM, 4,000 distinct names against 10). A worker is a process of one thread,
warmed by a small job. `work.times_slower` compares `arbo link --workers 1 --work` with `arbo link` in memory,
from files to tables, on 10⁵ mentions, least of three. `peak_gb` is the peak memory of `arbo link` and `arbo discover`,
and `bytes_a_mention` the slope between both sizes, the share of ten mentions of a name in the knowledge base included.

Ratios need two free cores: beside other work, two processes get twice the share of one.
"""

import json
import multiprocessing
import os
import random
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from library.results import Figures, collected, record
from library.timing import run_arbo
from threadpoolctl import threadpool_limits

import arbo
from arbo.encoders.named import encoder_of
from arbo.scale.work import opened

FILLER = "was found in the sample of patients with "
SIZES = {"1e5": (100_000, 3_000, 10_000), "1e6": (1_000_000, 30_000, 100_000)}


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


def seconds_of(linker: arbo.Linker, names: list[str], folder: Path, workers: int) -> float:
    """Return the seconds of encoding and search by so many workers."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), one_thread) as pool:
        for place, some in (("small", names[: 2048 * workers]), ("all", names)):
            with opened(folder / f"{place}{workers}", shard_size=40_000, pool=pool) as work:
                result = work.over(linker.configured(encoder=linker.encoder)).link(some)
    return float(result.manifest["seconds"]["encode and search"])


def speed(folder: Path) -> Iterator[tuple[str, float]]:
    """Compare two workers with one."""
    for what, encoder, sizes in (
        ("search", "ngram", (60_000, 60_000, 300_000)),
        ("embedding", "all-MiniLM-L6-v2", (4_000, 4_000, 10)),
    ):
        documents, entities = make(folder / what, *sizes)
        names = [mention.text for mention in arbo.read_documents(documents).mentions]
        linker = arbo.Linker(arbo.read_knowledge_base(entities), encoder_of(encoder))
        spent = {workers: seconds_of(linker, names, folder / what, workers) for workers in (1, 2)}
        yield f"{what}.one.seconds", spent[1]
        yield f"{what}.two.seconds", spent[2]
        yield f"{what}.times_faster", spent[1] / spent[2]


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


def main() -> None:
    """Measure everything and record it."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in (memory, speed):
            found |= collected(part(Path(folder)), "")
    record("scale", found)


if __name__ == "__main__":
    main()

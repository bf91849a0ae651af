r"""What `--dry-run` says beside what happens: peak memory and seconds of whole jobs.

Each job runs as a process of its own, from files to saved run: BC5CDR diseases against MEDIC, CRAFT UBERON (training
part) against Uberon, with n-grams, and with MiniLM embeddings in the cache or still to be made (`minilm_cold`).
`peak_error` is the difference between estimate and truth, relative to the truth; `seconds_ratio` is estimated seconds
over true ones, which the load of the machine moves as well.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from library.corpora import JOBS
from library.results import Figures, collected, record
from library.timing import run_arbo

COMMANDS = {
    "bc5cdr": JOBS["BC5CDR disease"].command(JOBS["BC5CDR disease"].test),
    "craft": JOBS["CRAFT UBERON"].command(JOBS["CRAFT UBERON"].dev),
}


def figures(name: str, encoder: list[str], folder: Path) -> Iterator[tuple[str, float]]:
    """Estimate a job, run it, compare."""
    job = [*COMMANDS[name], "--out", str(folder / "run"), *encoder]
    said = run_arbo(*job, "--dry-run").printed
    _, seconds, peak = run_arbo(*job)
    yield "estimated_gb", said["peak_bytes"] / 1e9
    yield "peak_gb", peak / 1e9
    yield "peak_error", abs(said["peak_bytes"] - peak) / peak
    yield "estimated_seconds", said["seconds"]
    yield "seconds_ratio", said["seconds"] / seconds


def main() -> None:
    """Measure everything and record it."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        minilm = ["--encoder", "all-MiniLM-L6-v2", "--cache", f"{folder}/cache"]
        for encoder, options in (("ngram", []), ("minilm_cold", minilm), ("minilm", minilm)):
            for name in COMMANDS:
                found |= collected(figures(name, options, Path(folder)), f"{name}.{encoder}.")
    record("estimate", found)


if __name__ == "__main__":
    main()

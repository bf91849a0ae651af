r"""What `--dry-run` says beside what happens: peak memory and seconds of whole jobs.

Each job runs as a process of its own, from files to saved run: BC5CDR diseases against MEDIC, CRAFT UBERON (training
part) against Uberon, with n-grams, and with MiniLM embeddings in the cache or still to be made (`minilm_cold`).
`peak_error` is the difference between estimate and truth, relative to the truth; `seconds_ratio` is estimated seconds
over true ones, which the load of the machine moves as well.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from report import ROOT, record

DATA = Path(os.environ.get("ARBO_DATA", ROOT.parent / "shared" / "data"))
JOBS = {
    "bc5cdr": ["bc5cdr/CDR_TestSet.PubTator.txt", "pubtator", "Disease", "medic/medic_06Jul2012.txt", "medic"],
    "craft": ["craft/train", "brat", "UBERON", "craft/ontologies/UBERON.obo.gz", "obo"],
}


def arbo(*arguments: str) -> tuple[dict[str, float], float, float]:
    """Run the command line; return its JSON, its seconds and its peak memory in bytes."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "arbo", *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"arbo {' '.join(arguments)} ended with {status}")
    return json.loads(printed), time.perf_counter() - begun, usage.ru_maxrss * 1024


def figures(name: str, encoder: list[str], folder: Path) -> Iterator[tuple[str, float]]:
    """Estimate a job, run it, compare."""
    docs, format_, types, kb, kb_format = JOBS[name]
    job = ["link", str(DATA / docs), "--format", format_, "--types", types, "--kb", str(DATA / kb)]
    job += ["--kb-format", kb_format, "--out", str(folder / "run"), *encoder]
    said, _, _ = arbo(*job, "--dry-run")
    _, seconds, peak = arbo(*job)
    yield "estimated_gb", said["peak_bytes"] / 1e9
    yield "peak_gb", peak / 1e9
    yield "peak_error", abs(said["peak_bytes"] - peak) / peak
    yield "estimated_seconds", said["seconds"]
    yield "seconds_ratio", said["seconds"] / seconds


def main() -> None:
    """Measure everything and record it."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        minilm = ["--encoder", "all-MiniLM-L6-v2", "--cache"]
        for encoder, options in (
            ("ngram", []),
            ("minilm_cold", [*minilm, f"{folder}/cache"]),
            ("minilm", [*minilm, f"{folder}/cache"]),
        ):
            for name in JOBS:
                for key, value in figures(name, options, Path(folder)):
                    found[f"{name}.{encoder}.{key}"] = value
                    print(f"{name}.{encoder}.{key} {value:.4g}", file=sys.stderr)
    record("estimate", "python benchmarks/estimate.py", found)


if __name__ == "__main__":
    main()

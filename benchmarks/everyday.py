"""What a person waits for: a column of names, a run, a knowledge base; from Python and from the command line.

The names are made by `benchmarks/library/made_names.py`. Each figure is measured in a process of its own with warm
kernels, in seconds of the clock, with the peak of memory in GB; what pandas or pyarrow need for the same bytes stands
beside it.

**column**: `arbo.Corpus.of` of a pandas Series. **discover**: `Linker().discover` of the same. **frame**, **links**,
**csv**, **page**: `to_pandas()`, a walk over all links, `arbo export --to csv`, `arbo explore --out`. **job**: `arbo
discover` of a CSV file, from file to run. **kb**: a CSV file of entities, read, encoded, and one mention linked.
**show**, **link**, **evaluate**: the verbs on the demo run, the embedded sample, and `show` of the large run.

There are 300,000 names, and for **kb** a million too; `--quick` takes 10,000, prints, and leaves the results alone.
"""

import csv
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from library.command import parser_of
from library.made_names import made_entities, made_names
from library.results import Figures, record, say
from library.timing import in_process, resident, run_arbo

NAMES, MANY = 300_000, 1_000_000


def column(names: Path) -> Figures:
    """Make a corpus of a pandas column; beside it, pandas reads the file."""
    import pandas as pd

    import arbo

    begin = time.perf_counter()
    frame = pd.read_csv(names)
    read = time.perf_counter()
    corpus = arbo.Corpus.of(frame["name"])
    made = time.perf_counter()
    assert corpus.n_mentions == len(frame)
    return {"column.seconds": made - read, "column.pandas_seconds": read - begin, "column.gb": peak()}


def run_of(names: Path, folder: Path) -> Figures:
    """Discover in Python, and save the run."""
    import pandas as pd

    import arbo

    series = pd.read_csv(names)["name"]
    arbo.Linker().discover(series[:100])  # loads the kernels
    begin = time.perf_counter()
    result = arbo.Linker().discover(series)
    figures = {"discover.seconds": time.perf_counter() - begin}
    result.save(folder)
    return figures | {"discover.gb": peak()}


def frame(folder: Path) -> Figures:
    """Make a frame of a saved run, with pandas imported; beside it, pyarrow reads the table of links."""
    import pandas as pd  # noqa: F401
    import pyarrow.parquet as pq

    import arbo

    begin = time.perf_counter()
    pq.ParquetFile(folder / "links.parquet").read()
    read = time.perf_counter()
    result = arbo.Result.load(folder)
    loaded = time.perf_counter()
    rows = len(result.to_pandas())
    done = time.perf_counter()
    assert rows == len(result.links)
    return {
        "frame.seconds": done - loaded,
        "load.seconds": loaded - read,
        "frame.pyarrow_seconds": read - begin,
        "frame.gb": peak(),
    }


def links(folder: Path) -> Figures:
    """Walk over all links of a saved run."""
    import arbo

    result = arbo.Result.load(folder)
    begin = time.perf_counter()
    linked = sum(link.entity is not None or bool(link.cluster) for link in result.links)
    assert linked == len(result.links)
    return {"links.seconds": time.perf_counter() - begin, "links.gb": peak()}


def kb(entities: Path) -> Figures:
    """Read a knowledge base from CSV, and link one mention; beside it, pandas reads the file."""
    import pandas as pd

    import arbo

    begin = time.perf_counter()
    some = pd.read_csv(entities)
    read = time.perf_counter()
    base = arbo.read_knowledge_base(entities)
    based = time.perf_counter()
    result = arbo.Linker(base).link([some["name"][7]])
    done = time.perf_counter()
    assert result.links[0].entity is not None
    return {
        "kb.seconds": done - read,
        "kb.read_seconds": based - read,
        "kb.pandas_seconds": read - begin,
        "kb.gb": peak(),
    }


def peak() -> float:
    """Return the most memory that this process had, in GB."""
    return resident("VmHWM") / 1e9


def verb(key: str, *words: object) -> Figures:
    """Run a verb twice, and return the seconds and the memory of the second time."""
    made = [run_arbo(*map(str, words)) for _ in range(2)][-1]
    return {f"{key}.seconds": made.seconds, f"{key}.gb": made.peak / 1e9}


def written(file: Path, header: tuple[str, ...], rows: Any) -> Path:
    """Write a CSV file."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return file


def of_size(n: int, folder: Path) -> Figures:
    """Measure all with so many names."""
    names = written(folder / "names.csv", ("name",), ([name] for name in made_names(n)))
    entities = written(folder / "kb.csv", ("id", "name", "aliases"), made_entities(n))
    run = folder / "run"
    figures: Figures = {}
    parts: list[Callable[[], Figures]] = [
        lambda: in_process(column, names),
        lambda: in_process(run_of, names, run),
        lambda: in_process(frame, run),
        lambda: in_process(links, run),
        lambda: verb("csv", "export", run, "--to", "csv", "--out", folder / "run.csv"),
        lambda: verb("page", "explore", run, "--out", folder / "run.html"),
        lambda: verb("show", "show", run, "--limit", "20"),
        lambda: verb("job", "discover", names, "--text-column", "name", "--out", folder / "job"),
        lambda: in_process(kb, entities),
    ]
    for part in parts:
        measured = part()
        say(json.dumps(measured))
        figures |= {f"{n}.{key}": value for key, value in measured.items()}
    return figures


def sample(folder: Path) -> Figures:
    """Measure the verbs on the embedded sample."""
    import arbo

    documents, base = arbo.load_sample()
    documents.to_jsonl(folder / "documents.jsonl")
    base.to_jsonl(folder / "entities.jsonl")
    run = folder / "sample"
    inputs = (folder / "documents.jsonl", "--kb", folder / "entities.jsonl")
    figures = verb("sample.link", "link", *inputs, "--out", run)
    return figures | verb("sample.show", "show", run) | verb("sample.evaluate", "evaluate", run)


def main() -> None:
    """Measure, and record."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 names, results left alone")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a person's Python keeps compiled modules
    figures: Figures = {}
    with TemporaryDirectory() as folder:
        figures |= sample(Path(folder))
        figures |= of_size(10_000 if options.quick else NAMES, Path(folder))
        if not options.quick:
            entities = written(Path(folder) / "many.csv", ("id", "name", "aliases"), made_entities(MANY))
            figures |= {f"{MANY}.{key}": value for key, value in in_process(kb, entities).items()}
    if options.quick:
        json.dump(figures, sys.stdout, indent=2)
    else:
        record("everyday", figures)


if __name__ == "__main__":
    main()

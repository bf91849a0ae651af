"""The page of a run of 10^5 mentions: its size, the time until it is painted, and the time that a threshold takes.

The run: CRAFT (three anatomy and sequence ontologies), BC5CDR and NCBI disease, 105,771 mentions in 2,359 documents,
n-grams, linked to MEDIC, Uberon, the Cell Ontology and the Sequence Ontology. The page is opened from a file in
Chromium without a window.

**Size**: `mb` of the file, `texts_mb` of the gzipped texts in it; `mb_beyond_texts` is the file without 1.4 times that.
**Time**: `seconds` to write the page. `painted_ms` from the start of the navigation to the first paint, `threshold_ms`
from a move of a slider until the new counts and the first changes are laid out, the median and the slowest of all
positions of each, and of some of both; `search_ms` of a search, the first included, and `view_ms` of the slowest of a
large cluster and all lists. Each figure, and each position of a slider, is the best of five rounds.
`threshold_processor_ms` is what script, styles and layout of a move take of a processor, whatever else runs.

`--quick` takes NCBI disease only, prints the figures and leaves the results alone.
"""

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

from library.command import measure_or_try
from library.corpora import JOBS
from library.folders import DATA, ROOT
from library.results import Figures, say

import arbo
from arbo.explore.report import report
from arbo.formats import read_documents, read_knowledge_base

sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # type: ignore[import-not-found]

_CORPORA = (
    *(("brat", f"craft/{part}") for part in ("train", "dev")),
    *(("pubtator", f"bc5cdr/CDR_{part}Set.PubTator.txt") for part in ("Training", "Development", "Test")),
    *(("pubtator", f"ncbi_disease/NCBI{part}set_corpus.txt") for part in ("train", "develop", "test")),
)
_ONTOLOGIES = ("UBERON", "CL", "SO")

_WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
_MOVE = """(async (kind, place) => {
  const slider = document.querySelector(`#cut-${kind}`), start = performance.now();
  slider.value = place;
  slider.dispatchEvent(new Event("input"));
  await null; await null; await null; await null;
  document.body.offsetHeight;
  return performance.now() - start;
})"""
_GO = """(async (address) => {
  const main = document.querySelector("#main"), before = main.dataset.ready, start = performance.now();
  location.hash = address;
  await new Promise((done) => new MutationObserver(done).observe(main, { attributeFilter: ["data-ready"] }));
  document.body.offsetHeight;
  return performance.now() - start;
})"""


def linked(quick: bool) -> arbo.Result:
    """Link the corpora."""
    documents: list[arbo.Document] = []
    for format_, path in _CORPORA[-3:] if quick else _CORPORA:
        documents += read_documents(DATA / path, format_)
    entities = list(JOBS["NCBI disease"].knowledge_base().entities)
    for name in () if quick else _ONTOLOGIES:
        entities += read_knowledge_base(DATA / f"craft/ontologies/{name}.obo.gz", "obo").entities
    seen: set[str] = set()
    unique = [one for one in entities if not (one.id in seen or seen.add(one.id))]  # type: ignore[func-returns-value]
    started = time.perf_counter()
    result = arbo.Linker(arbo.KnowledgeBase(unique)).link(documents)
    say(f"linked {result!r} in {time.perf_counter() - started:.0f} s")
    return result


def moved(browser: Browser, kind: str, place: int) -> tuple[float, float]:
    """Move a slider; return the milliseconds until the counts are laid out, and those of the processor."""

    def processor() -> float:
        told = browser.call("Performance.getMetrics")["metrics"]
        return float(sum(one["value"] for one in told if one["name"] in _WORK))

    before = processor()
    took = browser.run(f"{_MOVE}('{kind}', {place})")
    return took, 1000 * (processor() - before)


def shown(file: Path, result: arbo.Result) -> tuple[Figures, list[tuple[float, float]]]:
    """Open the page once; return its figures, and what `moved` does of each position of the sliders."""
    with Browser() as browser:
        browser.look()
        browser.open(file)
        figures = {
            "painted_ms": browser.until("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"),
            "heap_mb": browser.run("performance.memory.usedJSHeapSize") / 1e6,
        }
        figures["search_ms"] = browser.run(f"{_GO}('#/search/syndrome of the')")
        cluster = max(result.clusters, key=lambda one: len(one.mentions)).id
        places = [f"#/cluster/{cluster}", "#/clusters", "#/nil/nearness", "#/mentions/all/margin", "#/documents"]
        figures["view_ms"] = max(browser.run(f"{_GO}({json.dumps(place)})") for place in places)
        browser.call("Performance.enable", timeDomain="threadTicks")
        every = []
        for kind in ("entity", "mention"):
            browser.go("#/threshold")
            last = int(browser.run(f"document.querySelector('#cut-{kind}').max"))
            every += [moved(browser, kind, place) for place in range(last + 1)]
            browser.go("#/")
        for entity in (0, 1):
            browser.go(f"#/threshold/{entity}")  # both move
            every += [moved(browser, "mention", place) for place in range(0, last, last // 4)]
            browser.go("#/")
        assert not browser.messages, browser.messages
    return figures, every


def measure(quick: bool) -> Figures:
    """Measure all."""
    result = linked(quick)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.html"
        started = time.perf_counter()
        size = report(result, file)
        figures: Figures = {"mentions": len(result.links), "seconds": time.perf_counter() - started}
        texts = "".join(result.document_table["text"].to_pylist()).encode()
        gzipped = len(gzip.compress(texts, 9))
        beyond = size - 1.4 * gzipped
        figures |= {"mb": size / 1e6, "texts_mb": gzipped / 1e6, "mb_beyond_texts": beyond / 1e6}
        say(json.dumps(figures))
        rounds = [shown(file, result) for _ in range(1 if quick else 5)]
    figures |= {key: min(one[key] for one, _ in rounds) for key in rounds[0][0]}
    moves = zip(*(every for _, every in rounds), strict=True)
    best = zip(*([min(one) for one in zip(*own, strict=True)] for own in moves), strict=True)
    for name, taken in zip(("threshold_ms", "threshold_processor_ms"), map(sorted, best), strict=True):
        figures |= {f"{name}.median": taken[len(taken) // 2], f"{name}.slowest": taken[-1]}
    return figures


if __name__ == "__main__":
    measure_or_try("page", __doc__, "NCBI disease only", measure)

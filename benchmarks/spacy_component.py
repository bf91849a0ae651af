"""The component of spaCy beside arbo itself: mentions a second, overhead, and equal answers.

The disease mentions of BC5CDR (test part) and all of NCBI disease (test part) are the entities of `Doc`s, and are
linked to MEDIC by n-grams, each document in a graph of its own. The component alone, in batches of 1,000 documents,
takes turns with `Linker.link` of the same documents, as rows (dicts with offsets, as a program without spaCy has them)
and as documents that are ready; the best of seven times counts.

`mentions_per_second` is that of the component, by the clock. `overhead` is its time over that of rows, minus 1, and
`overhead_over_ready` over that of ready documents: seconds of the processors, which other work moves less.
`collective.seconds_ratio`: one graph of all documents over a graph for each, both ready. `one_by_one`: a call of
``nlp`` for each document. The script stops where an answer differs.

`--quick` measures NCBI disease only, prints the figures and leaves the results alone.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import spacy
from library.command import measure_or_try
from library.corpora import JOBS
from library.results import Figures, say
from spacy.tokens import Doc
from spacy.util import filter_spans

import arbo
import arbo.pipeline.component
from arbo.data.corpus import Corpus
from arbo.data.objects import document_line

TIMES, ALONE = 7, 100
Made = TypeVar("Made")


def docs_of(corpus: Corpus, nlp: Any) -> list[Doc]:
    """Make a `Doc` of each document, with its mentions as entities."""
    docs = []
    for document in corpus:
        doc = nlp.make_doc(document.text)
        spans = (doc.char_span(m.start, m.end, m.type, alignment_mode="expand") for m in document.mentions)
        doc.set_ents(filter_spans(span for span in spans if span is not None))
        docs.append(doc)
    return docs


def ids_of(docs: list[Doc]) -> list[str]:
    """Return the ids of all entities."""
    return [span.kb_id_ for doc in docs for span in doc.ents]


def timed(make: Callable[[], Made]) -> tuple[tuple[float, float], Made]:
    """Return the seconds of a call, of the clock and of the processors, and its result."""
    clock, processors = time.perf_counter(), time.process_time()
    made = make()
    return (time.perf_counter() - clock, time.process_time() - processors), made


def fewer(best: dict[str, tuple[float, float]], key: str, spent: tuple[float, float]) -> tuple[float, float]:
    """Return the fewest seconds so far."""
    clock, processors = best.get(key, spent)
    return min(clock, spent[0]), min(processors, spent[1])


def measure_corpus(name: str) -> Figures:
    """Compare component and linker on one corpus."""
    job = JOBS[name]
    nlp = spacy.blank("en")
    component = nlp.add_pipe("arbo")
    component.linker = arbo.Linker(job.knowledge_base())
    linker = component.linker
    collective = linker.configured(config=replace(linker.config, per_document=False))
    docs = docs_of(job.documents(job.test), nlp)
    ready = Corpus.of(docs)
    rows = [json.loads(document_line(document)) for document in ready]
    expected = [link.entity or "NIL" for link in linker.link(ready).links]
    best: dict[str, tuple[float, float]] = {}
    for _ in range(TIMES):
        copies = [doc.copy() for doc in docs]
        spent, found = timed(partial(list[Doc], nlp.pipe(copies)))
        assert ids_of(found) == expected, "the component differs from the linker"
        best["pipe"] = fewer(best, "pipe", spent)
        best["rows"] = fewer(best, "rows", timed(lambda: linker.link(rows))[0])
        best["ready"] = fewer(best, "ready", timed(lambda: linker.link(ready))[0])
        best["collective"] = fewer(best, "collective", timed(lambda: collective.link(ready))[0])
    (alone, _), found = timed(lambda: [nlp(doc.copy()) for doc in docs[:ALONE]])
    ids = ids_of(found)
    assert ids == expected[: len(ids)], "a document alone differs from a batch"
    clock, processors = ({key: spent[i] for key, spent in best.items()} for i in range(2))
    figures = {
        "mentions": len(expected),
        "documents": len(docs),
        "mentions_per_second": len(expected) / clock["pipe"],
        "overhead": processors["pipe"] / processors["rows"] - 1,
        "overhead_over_ready": processors["pipe"] / processors["ready"] - 1,
        "collective.seconds_ratio": processors["collective"] / processors["ready"],
        "one_by_one.mentions_per_second": len(ids) / alone,
    }
    say(f"{name}: {figures}")
    return {f"{name.replace(' ', '_').lower()}.{key}": value for key, value in figures.items()}


def measure(quick: bool) -> Figures:
    """Measure both corpora."""
    names = ("NCBI disease",) if quick else ("BC5CDR disease", "NCBI disease")
    return {key: value for name in names for key, value in measure_corpus(name).items()}


if __name__ == "__main__":
    measure_or_try("spacy_component", __doc__, "NCBI disease only", measure)

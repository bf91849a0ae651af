"""The component of spaCy beside arbo itself: mentions a second, overhead, and equal answers.

The disease mentions of BC5CDR (test part) and all of NCBI disease (test part) are the entities of `Doc`s, and are linked
to MEDIC by n-grams, each document in a graph of its own. `mentions_per_second` is that of ``nlp.pipe`` with the
component alone, in batches of 1,000 documents; `overhead` is its time over that of `Linker.link` of the same documents
in arbo's form, minus 1: it makes documents, and writes ids and spans. Both are the best of seven times, taken in turn.
`collective.seconds_ratio` is the time of one graph of all documents over that of a graph for each, by `Linker.link`.
`one_by_one.mentions_per_second` calls ``nlp`` for each document. The script stops where an answer differs.

`--quick` measures NCBI disease only, prints the figures and leaves the results alone.
"""

from dataclasses import replace
from typing import Any

import spacy
from library.command import measure_or_try
from library.corpora import JOBS
from library.results import Figures, say
from library.timing import seconds
from spacy.tokens import Doc
from spacy.util import filter_spans

import arbo
import arbo.pipeline.component  # noqa: F401
from arbo.data.corpus import Corpus

TIMES, ALONE = 7, 100


def docs_of(corpus: Corpus, nlp: Any) -> list[Doc]:
    """Make a `Doc` of each document, with its mentions as entities."""
    docs = []
    for document in corpus:
        doc = nlp.make_doc(document.text)
        spans = (doc.char_span(m.start, m.end, m.type, alignment_mode="expand") for m in document.mentions)
        doc.set_ents(filter_spans(span for span in spans if span is not None))
        docs.append(doc)
    return docs


def measure_corpus(name: str) -> Figures:
    """Compare component and linker on one corpus."""
    job = JOBS[name]
    nlp = spacy.blank("en")
    component = nlp.add_pipe("arbo")
    component.linker = arbo.Linker(job.knowledge_base())
    linker = component.linker
    collective = linker.configured(config=replace(linker.config, per_document=False))
    docs = docs_of(job.documents(job.test), nlp)
    corpus = Corpus.of(docs)
    n = len(corpus.mentions)
    expected = [link.entity or "NIL" for link in linker.link(corpus).links]
    collective.link(corpus)
    piped, called, together = [], [], []
    for _ in range(TIMES):
        copies = [doc.copy() for doc in docs]
        spent, found = seconds(list, nlp.pipe(copies))
        assert [span.kb_id_ for doc in found for span in doc.ents] == expected, "the component differs from the linker"
        piped.append(spent)
        called.append(seconds(linker.link, corpus)[0])
        together.append(seconds(collective.link, corpus)[0])
    copies = [doc.copy() for doc in docs[:ALONE]]
    alone, found = seconds(list, map(nlp, copies))
    ids = [span.kb_id_ for doc in found for span in doc.ents]
    assert ids == expected[: len(ids)], "a document alone differs from a batch"
    figures = {
        "mentions": n,
        "documents": len(docs),
        "mentions_per_second": n / min(piped),
        "overhead": min(piped) / min(called) - 1,
        "collective.seconds_ratio": min(together) / min(called),
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

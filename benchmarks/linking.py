r"""Linking real documents with the untrained n-gram encoder: accuracy, NIL, clusters, time and memory.

**ncbi_disease**, **bc5cdr_disease**: the test parts against MEDIC, every gold concept counted (any gold id of a mention
is right, ids outside MEDIC are wrong). `accuracy`, `nil_f1`, `ari`, `recall_at_16` are those of the default
configuration; `tuned` is chosen on the development part. More corpora, methods and k: `corpora`.

**\\*_dev**: independent linking without thresholds by encoder; `tfidf` is scikit-learn's, character 1-3-grams;
`expanded` writes out the abbreviations that documents define.

**\\*_train.threshold_\\***: what the default thresholds were chosen from, on the training parts: `links_and_nil` is the
share of mentions linked rightly or rightly called NIL. `bc5cdr_do_train` is BC5CDR against the Disease Ontology through
its MeSH ids, a knowledge base with a real gap.

**job**: `arbo link` on the BC5CDR test part as a process of its own, from files to saved run, kernels cached:
wall-clock seconds, peak memory, and the partition's share.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from library.cells import key
from library.corpora import JOBS, Data
from library.results import collected, record
from library.timing import run_arbo
from sklearn.feature_extraction.text import TfidfVectorizer

import arbo
from arbo.data import MentionInput
from arbo.data.corpus import Corpus
from clustering.vectors import Metric, Vectors

CORPORA = ("NCBI disease", "BC5CDR disease")
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


def quality(data: Data, linker: arbo.Linker) -> Iterator[tuple[str, float]]:
    """Figures of one test part."""
    scores = linker.link(data.test).evaluate()
    assert scores.linking is not None
    assert scores.nil is not None
    assert scores.clustering is not None
    yield "mentions_with_concept", scores.linking.mentions
    yield "accuracy", scores.linking.accuracy
    yield "accuracy_in_kb", scores.linking.accuracy_in_kb
    yield "recall_at_16", scores.linking.recall[16]
    yield "nil_f1", scores.nil.f1
    yield "ari", scores.clustering["ari"]

    tuned = linker.tune(data.dev)
    scores = tuned.link(data.test).evaluate()
    assert scores.linking is not None
    yield "tuned.accuracy", scores.linking.accuracy
    yield "tuned.k", tuned.config.k


class TfidfEncoder:
    """scikit-learn's TF-IDF of character 1-3-grams: the baseline that the n-gram encoder is measured against."""

    metric: Metric = "cosine"
    threshold = (1.0, 1.0)

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"encoder": "tfidf"}
        self.vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3))

    def fit(self, names: Sequence[str]) -> "TfidfEncoder":
        """Learn the frequencies."""
        self.vectorizer.fit(names)
        return self

    def encode_entities(self, kb: arbo.KnowledgeBase, announce: object = None) -> Vectors:
        """Encode each name."""
        names, rows = kb.names()
        return Vectors.of(self.vectorizer.transform(names), rows, n=len(kb))

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: object = None) -> Vectors:
        """Encode each name."""
        return Vectors.of(self.vectorizer.transform([mention.name for mention in mentions]))


def encoders(dev: Corpus, linker: arbo.Linker) -> Iterator[tuple[str, float]]:
    """Accuracy of independent linking without thresholds on a dev part, by encoder."""
    bare = arbo.LinkerConfig("independent", 0, None, None, expand_abbreviations=False)
    expanded = replace(bare, expand_abbreviations=True)
    tfidf = arbo.Linker(linker.kb, TfidfEncoder())
    for name, chosen, config in (
        ("tfidf", tfidf, bare),
        ("tfidf_expanded", tfidf, expanded),
        ("ngram", linker, bare),
        ("ngram_expanded", linker, expanded),
    ):
        scores = chosen.configured(config=config).link(dev).evaluate()
        assert scores.linking is not None
        yield f"{name}.accuracy", scores.linking.accuracy


def thresholds(linker: arbo.Linker, train: Corpus) -> Iterator[tuple[str, float]]:
    """Figures by entity threshold, the others as by default."""
    for limit in THRESHOLDS:
        scores = linker.configured(config=arbo.LinkerConfig(entity_threshold=limit)).link(train).evaluate()
        assert scores.linking is not None
        assert scores.nil is not None
        right = scores.linking.correct + scores.nil.correct
        yield f"threshold_{limit}.links_and_nil", right / scores.nil.mentions
        yield f"threshold_{limit}.nil_f1", scores.nil.f1


def job() -> Iterator[tuple[str, float]]:
    """Time the command line on the BC5CDR test part, kernels cached."""
    bc5cdr = JOBS["BC5CDR disease"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        runs = [run_arbo(*bc5cdr.command(bc5cdr.test), "--out", str(run)) for _ in range(3)]
        stages = json.loads((run / "manifest.json").read_text("utf-8"))["seconds"]
    seconds = min(ran.seconds for ran in runs)
    yield "seconds", seconds
    yield "peak_memory_gb", max(ran.peak for ran in runs) / 1.024e9  # as it was always counted: KiB by the million
    yield "partition_share", stages["partition"] / seconds


def main() -> None:
    """Measure everything and record it."""
    figures = collected(job(), "job.")
    linker: arbo.Linker | None = None
    for name in CORPORA:
        data, prefix = Data.of(name), key(name)
        linker = linker or arbo.Linker(data.kb)  # both corpora are linked to MEDIC
        figures |= collected(quality(data, linker), f"{prefix}.")
        figures |= collected(encoders(data.dev, linker), f"{prefix}_dev.")
        figures |= collected(thresholds(linker, data.train), f"{prefix}_train.")
    data = Data.of("Disease Ontology")
    figures |= collected(thresholds(arbo.Linker(data.kb), data.train), "bc5cdr_do_train.")
    record("linking", figures)


if __name__ == "__main__":
    main()

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

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from report import ROOT, record
from sklearn.feature_extraction.text import TfidfVectorizer

import arbo
from arbo.data.corpus import Corpus
from arbo.data.inputs import MentionInput
from arbo.readers import read_documents
from clustering.vectors import Metric, Vectors

DATA = Path(os.environ.get("ARBO_DATA", ROOT.parent / "shared" / "data"))
MEDIC = DATA / "medic" / "medic_06Jul2012.txt"
DISEASE_ONTOLOGY = DATA / "disease_ontology" / "HumanDO_2015-11-11.obo.gz"
FILES = {
    "ncbi_disease": ("ncbi_disease/NCBI{}set_corpus.txt", ("train", "develop", "test"), None),
    "bc5cdr_disease": ("bc5cdr/CDR_{}Set.PubTator.txt", ("Training", "Development", "Test"), "Disease"),
}
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)


def corpus(name: str, part: int) -> Corpus:
    """Read one part (0 train, 1 dev, 2 test) of a data set."""
    path, parts, types = FILES[name]
    return read_documents(DATA / path.format(parts[part]), "pubtator", types=types)


def quality(name: str, linker: arbo.Linker) -> Iterator[tuple[str, float]]:
    """Figures of one test part."""
    test = corpus(name, 2)
    scores = linker.link(test).evaluate()
    assert scores.linking is not None
    assert scores.nil is not None
    assert scores.clustering is not None
    yield "mentions_with_concept", scores.linking.overall.mentions
    yield "accuracy", scores.linking.accuracy
    yield "accuracy_in_kb", scores.linking.accuracy_in_kb
    yield "recall_at_16", scores.linking.recall[16]
    yield "nil_f1", scores.nil.f1
    yield "ari", scores.clustering["ari"]

    tuned = linker.tune(corpus(name, 1))
    scores = tuned.link(test).evaluate()
    assert scores.linking is not None
    yield "tuned.accuracy", scores.linking.accuracy
    yield "tuned.k", tuned.config.k


class TfidfEncoder:
    """scikit-learn's TF-IDF of character 1-3-grams: the baseline that the n-gram encoder is measured against."""

    metric: Metric = "cosine"
    threshold = (1.0, 1.0)
    settings: Mapping[str, Any] = MappingProxyType({"encoder": "tfidf"})

    def __init__(self) -> None:
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


def encoders(name: str, linker: arbo.Linker) -> Iterator[tuple[str, float]]:
    """Accuracy of independent linking without thresholds on a dev part, by encoder."""
    dev = corpus(name, 1)
    bare = arbo.LinkerConfig("independent", 0, None, None, expand_abbreviations=False)
    expanded = replace(bare, expand_abbreviations=True)
    tfidf = arbo.Linker(linker.kb, TfidfEncoder())
    for key, chosen, config in (
        ("tfidf", tfidf, bare),
        ("tfidf_expanded", tfidf, expanded),
        ("ngram", linker, bare),
        ("ngram_expanded", linker, expanded),
    ):
        scores = chosen.configured(config=config).link(dev).evaluate()
        assert scores.linking is not None
        yield f"{key}.accuracy", scores.linking.accuracy


def thresholds(linker: arbo.Linker, train: Corpus) -> Iterator[tuple[str, float]]:
    """Figures by entity threshold, the others as by default."""
    for limit in THRESHOLDS:
        scores = linker.configured(config=arbo.LinkerConfig(entity_threshold=limit)).link(train).evaluate()
        assert scores.linking is not None
        assert scores.nil is not None
        right = scores.linking.overall.correct + scores.nil.correct
        yield f"threshold_{limit}.links_and_nil", right / scores.nil.mentions
        yield f"threshold_{limit}.nil_f1", scores.nil.f1


def disease_ontology() -> arbo.KnowledgeBase:
    """Read the Disease Ontology, answering to MeSH ids."""
    return arbo.KnowledgeBase.from_obo(DISEASE_ONTOLOGY).through_xrefs("MSH")


def job() -> Iterator[tuple[str, float]]:
    """Time the command line on the BC5CDR test part, kernels cached."""
    path, parts, _ = FILES["bc5cdr_disease"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "arbo", "link", str(DATA / path.format(parts[2]))]
        command += ["--format", "pubtator", "--types", "Disease", "--kb", str(MEDIC), "--kb-format", "medic"]
        command += ["--out", str(run), "--json"]
        seconds = []
        for _ in range(3):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - begun)
        stages = json.loads((run / "manifest.json").read_text("utf-8"))["seconds"]
    yield "seconds", min(seconds)
    yield "peak_memory_gb", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    yield "partition_share", stages["partition"] / min(seconds)


def main() -> None:
    """Measure everything and record it."""
    figures: dict[str, float] = {}

    def add(prefix: str, values: Iterator[tuple[str, float]]) -> None:
        for key, value in values:
            figures[f"{prefix}.{key}"] = value
            print(f"{prefix}.{key} {value:.4g}", file=sys.stderr)

    add("job", job())
    linker = arbo.Linker(arbo.KnowledgeBase.from_medic(MEDIC))
    for name in FILES:
        add(name, quality(name, linker))
        add(f"{name}_dev", encoders(name, linker))
        add(f"{name}_train", thresholds(linker, corpus(name, 0)))
    add("bc5cdr_do_train", thresholds(arbo.Linker(disease_ontology()), corpus("bc5cdr_disease", 0)))
    record("linking", "python benchmarks/linking.py", figures)


if __name__ == "__main__":
    main()

r"""One table of real corpora: linking, NIL and clusters by method and k, and what discovery finds without a KB.

**Linking.** Thresholds are chosen on the development part for each method and k (`Linker.tune`, accuracy with NIL),
the figures are of the test part. `accuracy` is over all mentions with a gold concept, one outside the knowledge base
counting as wrong; `with NIL` is the share of all annotated mentions that are linked rightly or rightly called NIL;
`ari` compares the clusters with the gold concepts. `default` is a first run, without any tuning.
CRAFT's development part serves as test, its training part for tuning. *Disease Ontology* is BC5CDR linked to an
ontology that lacks nearly half of its diseases, through MeSH ids. `ngram` is the encoder that needs no weights,
`minilm` the untrained all-MiniLM-L6-v2 reading bare names. The figures `best_accuracy` are the largest over k, of
`arborescence` on the test part: bounds from above, of nothing that could be chosen beforehand.

**differ**: mentions that `arborescence` and `minimax` link differently on the test part, and how many each gets right:
k = 8, without thresholds, and with the encoder's default ones. A NIL mention is got right by calling it NIL.

**Discovery**: entity mentions of ECB+, threshold and k chosen on dev (ARI), figures on test. `words` reads the mention
alone, `context` takes the mean over the mention's own tokens with 25 words of context on either side within the
sentence, `context beyond sentences` the same across them. HDBSCAN (scikit-learn) works on the same unit vectors, its
`min_cluster_size` chosen on dev, noise as singletons. `same string` joins mentions of equal lower-cased text.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from library.cells import key
from library.corpora import JOBS, Job
from library.decided import decided
from library.folders import CACHE, DATA
from library.results import Figures, Row, Tables, collected_rows, record
from sklearn.cluster import HDBSCAN

import arbo
from arbo.data import mention_inputs
from arbo.data.corpus import Corpus
from arbo.encoders.encoder import Encoder
from arbo.formats import read_documents
from arbo.results.result import Result
from clustering import METHODS
from clustering.vectors import unit
from eval import Contingency, adjusted_rand_index, counts_from_contingency, scores_from_counts

KS = (1, 2, 4, 8)


def linking(job: Job, encoder_name: str, encoder: Encoder) -> Iterator[tuple[str, Row]]:
    """Rows of the tables ``linking`` and ``differ``, and the headline row of the default configuration."""
    kb = job.knowledge_base()
    test = job.documents(job.test)
    linker = arbo.Linker(kb, encoder)
    tuned = linker.tune(job.documents(job.dev))
    assert tuned.tuning is not None
    linker = tuned.configured(config=arbo.LinkerConfig(), tuning=None)  # keeps the entities' vectors
    retrieval = linker.retrieve(test, k=max(KS), in_order=True)
    place = {"corpus": job.name, "encoder": encoder_name}

    yield "linking", {**place, "method": "default", "k": 4, **_scores(decided(kb, retrieval, linker.config))}
    for method in METHODS:
        for k in KS if method != "independent" else (1,):
            trials = [trial for trial in tuned.tuning.trials if trial.method == method]
            best = max((t for t in trials if method == "independent" or t.k == k), key=lambda trial: trial.score)
            config = arbo.LinkerConfig(method, k, best.entity_threshold, best.mention_threshold)
            yield "linking", {**place, "method": method, "k": k, **_scores(decided(kb, retrieval, config))}
    for thresholds, limits in (("none", (None, None)), ("default", ("default", "default"))):
        results = {
            method: decided(kb, retrieval, arbo.LinkerConfig(method, max(KS), *limits))
            for method in ("arborescence", "minimax")
        }
        yield "differ", {**place, "thresholds": thresholds, **_differences(results)}


def _scores(result: Result) -> dict[str, float]:
    scores = result.evaluate()
    assert scores.linking is not None
    assert scores.nil is not None
    assert scores.clustering is not None
    assert scores.accuracy_with_nil is not None
    return {
        "accuracy": scores.linking.accuracy,
        "with NIL": scores.accuracy_with_nil,
        "NIL F1": scores.nil.f1,
        "ari": scores.clustering["ari"],
    }


def _differences(results: dict[str, Result]) -> dict[str, int]:
    linked = {method: results[method].link_table["entity_id"].to_pylist() for method in ("arborescence", "minimax")}
    gold = results["minimax"].mention_table["gold_entities"].to_pylist()
    differ = [row for row, pair in enumerate(zip(*linked.values(), strict=True)) if pair[0] != pair[1]]
    right = {
        f"{method} right": sum(
            ids[row] in (gold[row] or ()) or (ids[row] is None and gold[row] == []) for row in differ
        )
        for method, ids in linked.items()
    }
    return {"mentions": len(gold), "differ": len(differ), **right}


def discovery(minilm: arbo.DualEncoder) -> Iterator[tuple[str, Row]]:
    """Rows of the table ``discovery``."""
    dev, test = (read_documents(DATA / f"ecbplus/ECB_{part}_corpus.txt", "ecbplus") for part in ("Dev", "Test"))
    truth = _truth(test)
    strings: dict[str, int] = {}
    labels = np.array([strings.setdefault(m.text.lower(), len(strings)) for m in test.mentions])
    yield "discovery", {"vectors": "", "clustering": "same string", **_cluster_scores(truth, labels)}
    context = replace(
        minilm.config, mention="[CLS] {left} {mention} {right} [SEP]", pooling="mention", context=25, within_line=True
    )
    for name, encoder in (
        ("ngram", arbo.NgramEncoder()),
        ("minilm words", minilm),
        ("minilm context", replace(minilm, config=context)),
        ("minilm context beyond sentences", replace(minilm, config=replace(context, within_line=False))),
    ):
        linker = arbo.Linker(None, encoder, config=arbo.LinkerConfig(expand_abbreviations=False))
        tuned = linker.tune(dev)
        found = tuned.discover(test).link_table["cluster_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        method = f"arbo (k={tuned.config.k}, {tuned.config.mention_threshold:.3f})"
        yield "discovery", {"vectors": name, "clustering": method, **_cluster_scores(truth, found)}
        if isinstance(encoder, arbo.DualEncoder):
            size = max(range(2, 11), key=lambda size: adjusted_rand_index(_truth(dev), _hdbscan(encoder, dev, size)))
            labels = _hdbscan(encoder, test, size)
            yield "discovery", {"vectors": name, "clustering": f"HDBSCAN ({size})", **_cluster_scores(truth, labels)}


def _truth(corpus: Corpus) -> np.ndarray:
    number: dict[Any, int] = {}
    return np.array([number.setdefault(mention.gold, len(number)) for mention in corpus.mentions])


def _hdbscan(encoder: arbo.DualEncoder, corpus: Corpus, size: int) -> np.ndarray:
    vectors = encoder.encode_mentions(mention_inputs(corpus, expand_abbreviations=False))
    labels: np.ndarray = HDBSCAN(min_cluster_size=size, copy=True).fit_predict(unit(vectors.matrix)[vectors.row])
    noise = labels < 0
    labels[noise] = labels.max() + 1 + np.arange(noise.sum())
    return labels


def _cluster_scores(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    scores = scores_from_counts(counts_from_contingency(Contingency.from_labels(truth, labels)))
    return {"ari": adjusted_rand_index(truth, labels), "B-cubed": scores["b3"]["f1"], "CoNLL": scores["conll"]}


def main() -> None:
    """Measure everything and record it."""
    minilm = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", cache=CACHE)
    tables: Tables = {"linking": [], "differ": [], "discovery": []}
    for job in JOBS.values():
        for name, encoder in (("ngram", arbo.NgramEncoder()), ("minilm", minilm)):
            collected_rows(tables, linking(job, name, encoder))
    collected_rows(tables, discovery(minilm))
    record("corpora", _headlines(tables), tables)


def _headlines(tables: Tables) -> Figures:
    """Figures that have a target, or are worth seeing at once."""
    figures: Figures = {}
    for row in tables["linking"]:
        if row["method"] == "arborescence":
            name = key(row["corpus"], row["encoder"], "best accuracy")
            figures[name] = max(row["accuracy"], figures.get(name, 0))
    for row in tables["discovery"]:
        kind = "hdbscan" if "HDBSCAN" in row["clustering"] else "same_string" if not row["vectors"] else "arbo"
        figures[key("ecbplus", row["vectors"] or "text", kind, "ari")] = row["ari"]
    for thresholds in ("none", "default"):
        rows = [row for row in tables["differ"] if row["thresholds"] == thresholds]
        for column in ("mentions", "differ", "arborescence right", "minimax right"):
            figures[key("differ", thresholds, column)] = sum(row[column] for row in rows)
    return figures


if __name__ == "__main__":
    main()

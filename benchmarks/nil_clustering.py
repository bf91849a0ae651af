r"""NIL meets clustering: which mentions are NIL, and which of those are one new entity, by threshold, graph, or both.

A mention's best entity is the nearest one, at dissimilarity `d`. Mention edges are those of the inference graph.

| way | a mention is NIL if and only if |
|---|---|
| `threshold` | `d > E`: a threshold on its best entity alone (`independent`) |
| `graph` | no entity reaches it over edges up to `L`, of either kind (`arborescence` or `minimax`) |
| `two limits` | no entity reaches it over entity edges up to `E` and mention edges up to `M`, as `arbo tune` chooses |
| `both` | no entity reaches it over edges up to `L`, or `d > E`, with `E > L`: NIL by either of the first two |

Under `threshold` a mention stands for itself; under the others one whose name is far from every entity's can be linked
through mentions that are nearer. NIL mentions cluster under each: what hangs together by edges among them up to `M`
(`threshold`, `two limits`) or `L`.

Everything is chosen on the development part: first for NIL F1, of equals for the ARI of the gold NIL mentions, which is
how well new entities are discovered (table `chosen for NIL F1`); then the other way round (`chosen for ARI`). Figures
are of the test part. ARI is over the gold NIL mentions that have an id; one that is wrongly linked is no discovery, and
counts as a cluster of its own. In `ARI of links too` it is in the cluster of its wrong entity, where mentions of one
new entity often meet: that ARI rewards calling nothing NIL. `p` is against `threshold`: approximate randomisation (F1),
half-samples of the documents (ARI).

**Corpora.** *Disease Ontology*: diseases of BC5CDR against an ontology that lacks nearly half of them. *UBERON without
organs*: CRAFT, with `organ` (UBERON:0000062) and all below it withheld (`arbo.nil_split`; the table of that name has
its checks). *HIPE*: newspapers of HIPE-2022's newseye in four languages; the knowledge base is the entities that are
named in the other parts of the same language (ajmc and sonar too, never a test part), by what they are called there.
Gold NIL mentions have no id there: its ARI is over mentions of entities that the other parts lack.

Table `NIL by threshold` has the figures of Wiatrak et al. 2022, table 4, for `threshold`.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names. `--encoder all-MiniLM-L6-v2` adds
the untrained transformer to the n-grams.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from corpora import CACHE, DATA, JOBS
from report import record
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders.encoder import Encoder
from arbo.kb.withholding import NilSplit
from arbo.readers import read_documents
from arbo.readers.obo import read_obo_parents
from arbo.retrieval.retrieval import Retrieval
from clustering import Method, Partition, partition
from eval import (
    Line,
    LinkingOutcomes,
    Report,
    adjusted_rand_index,
    cluster_lines,
    linking_outcomes,
    nil_as_class,
    nil_curve,
    nil_scores,
)

INF = float("inf")
KS = (1, 2, 4, 8)
CANDIDATES = 64
WAYS = ("threshold", "graph", "two limits", "both")
CLUSTERING: tuple[Method, ...] = ("arborescence", "minimax")
ORGAN = "UBERON:0000062"
HIPE = ("de", "fi", "fr", "sv")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """Documents and what they are linked to."""

    documents: Corpus
    kb: arbo.KnowledgeBase


@dataclass(frozen=True, slots=True)
class Gap:
    """A corpus whose knowledge base lacks something."""

    name: str
    dev: Part
    test: Part


class Setting(NamedTuple):
    """How mentions are decided."""

    method: Method
    k: int
    entity: float
    """largest dissimilarity of entity edges"""
    mention: float
    """and of mention edges"""
    best: float = INF
    """A mention further from its best entity is NIL, whatever reaches it."""

    def __str__(self) -> str:
        limits = f"E {self.entity:.3f}, M {self.mention:.3f}"
        if self.method != "independent" and self.entity == self.mention:
            limits = f"L {self.entity:.3f}" + (f", E {self.best:.3f}" if self.best < INF else "")
        return f"{self.method}, k {self.k}, {limits}"


class Decided(NamedTuple):
    """NIL decisions, and the cluster of each mention."""

    is_nil: Bools
    cluster: Ints

    @property
    def discovered(self) -> Ints:
        """The clusters of NIL mentions, every other mention alone."""
        alone = self.cluster.max(initial=0) + 1 + np.arange(len(self.cluster))
        return np.where(self.is_nil, self.cluster, alone)


class Gold(NamedTuple):
    """What is true of each mention."""

    annotated: Bools
    is_nil: Bools
    new: Ints
    """class of a NIL mention with an id, -1 for every other mention"""
    document: Ints

    @classmethod
    def of(cls, part: Part) -> "Gold":
        """Read the annotations."""
        number: dict[frozenset[str], int] = {}
        rows = []
        for place, document in enumerate(part.documents):
            for mention in document.mentions:
                is_nil = mention.gold is not None and not part.kb.rows_within(mention.gold, document.domain)
                new = number.setdefault(frozenset(mention.gold), len(number)) if is_nil and mention.gold else -1
                rows.append((mention.gold is not None, is_nil, new, place))
        annotated, nil, new, where = np.array(rows, np.int64).T
        return cls(annotated > 0, nil > 0, new, where)

    def f1(self, decided: Decided) -> float:
        """F1 of the NIL decisions."""
        return nil_scores(self.is_nil, decided.is_nil, annotated=self.annotated).f1

    def ari(self, cluster: Ints) -> float:
        """Agreement of clusters with the classes of the NIL mentions."""
        known = self.new >= 0
        return adjusted_rand_index(self.new[known], cluster[known])

    def lines(self, decided: Decided) -> list[Line]:
        """NIL and ARI, with what their intervals are made from."""
        right = self.is_nil & decided.is_nil
        flags = np.column_stack([right, self.is_nil, right, decided.is_nil & self.annotated])
        counts = np.zeros((self.document.max() + 1, 4))
        np.add.at(counts, self.document, flags)
        known = self.new >= 0
        return [
            Line.of_counts("NIL", counts),
            cluster_lines(self.new[known], decided.discovered[known], self.document[known])[0],
        ]


class Decider:
    """Decides the mentions of one part."""

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval = retrieval
        self.nearest = retrieval.entities.dissimilarity[:, 0]
        self.graphs = {k: retrieval.graph(k) for k in KS}
        self._last: tuple[Setting, Partition] | None = None

    def __call__(self, setting: Setting) -> Decided:
        """Decide by a setting; one that differs from the last in ``best`` alone costs no partition."""
        graph, whole = self.graphs[setting.k], setting._replace(best=INF)
        if self._last is None or self._last[0] != whole:
            self._last = whole, partition(graph, setting.method, (setting.entity, setting.mention))
        clusters = self._last[1]
        labels = clusters.labels[graph.n_entities :].astype(np.int64)
        is_nil = clusters.entity < 0
        if setting.best < INF:
            is_nil = is_nil | (self.nearest > np.float32(setting.best))
            node_is_nil = np.concatenate([np.zeros(graph.n_entities, np.bool_), is_nil])
            kept = node_is_nil[graph.source] & node_is_nil[graph.target]
            kept &= graph.weight <= np.float32(setting.mention)
            ends = graph.source[kept], graph.target[kept]
            edges = coo_array((np.ones(len(ends[0]), np.bool_), ends), shape=(graph.n_nodes,) * 2)
            component = connected_components(edges, directed=False)[1][graph.n_entities :]
            labels = np.where(is_nil, graph.n_nodes + component, labels)
        return Decided(is_nil, labels)

    def settings(self, way: str) -> Iterator[Setting]:
        """All that is tried of a way on a development part."""
        entity = _quantiles(self.nearest, 24)
        mention = _quantiles(self.retrieval.mentions.dissimilarity, 12)
        if way == "threshold":
            for k, e, m in product(KS, entity, mention):
                yield Setting("independent", k, e, m)
        elif way == "two limits":
            for method, k, e, m in product(CLUSTERING, KS, entity, mention):
                yield Setting(method, k, e, m)
        else:
            for method, k, limit in product(CLUSTERING, KS, sorted({*entity, *mention})):
                for best in [e for e in entity if e > limit] if way == "both" else [INF]:
                    yield Setting(method, k, limit, limit, best)


def _quantiles(values: npt.NDArray[np.float32], n: int) -> list[float]:
    finite = values[np.isfinite(values)]
    return sorted(set(np.quantile(finite, np.linspace(0, 1, n + 1), method="inverted_cdf").tolist()))


def compare(gap: Gap, encoder_name: str, encoder: Encoder) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the tables of one corpus and encoder."""
    place = {"corpus": gap.name, "encoder": encoder_name}
    retrievals = [
        arbo.Linker(part.kb, encoder, arbo.LinkerConfig(candidates=CANDIDATES)).retrieve(
            part.documents, k=max(KS), discover=False
        )
        for part in (gap.dev, gap.test)
    ]
    dev, test = map(Decider, retrievals)
    dev_gold, test_gold = Gold.of(gap.dev), Gold.of(gap.test)
    tried = {
        way: [(s, dev_gold.f1(d), dev_gold.ari(d.discovered)) for s in dev.settings(way) for d in [dev(s)]]
        for way in WAYS
    }
    orders: Mapping[str, Callable[[tuple[Setting, float, float]], tuple[float, float]]] = {
        "chosen for NIL F1": lambda trial: (trial[1], trial[2]),
        "chosen for ARI": lambda trial: (trial[2], trial[1]),
    }
    for title, order in orders.items():
        chosen = {way: max(trials, key=order)[0] for way, trials in tried.items()}
        decided = {way: test(setting) for way, setting in chosen.items()}
        report = Report.of({way: test_gold.lines(d) for way, d in decided.items()})
        for way, setting in chosen.items():
            row = {**place, "way": way, **_scores(report, way)}
            row |= {"ARI of links too": test_gold.ari(decided[way].cluster), "setting": str(setting)}
            yield title, row
        if title == "chosen for NIL F1":
            yield "NIL by threshold", {**place, **by_threshold(gap.test, retrievals[1], chosen["threshold"].entity)}


def _scores(report: Report, way: str) -> dict[str, Any]:
    nil, ari = (report.systems[way][name] for name in ("NIL", "ARI"))
    assert nil.recall is not None
    assert nil.precision is not None
    row: dict[str, Any] = {"precision": nil.precision.value, "recall": nil.recall.value}
    for name, entry in (("NIL F1", nil), ("ARI", ari)):
        interval, against = entry.interval, entry.comparison
        row[name] = entry.score.value
        row[f"{name}, 95 %"] = "" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"
        row[f"{name}, p"] = "" if against is None else f"{against.p_value:.4f}"
    return row


def by_threshold(part: Part, retrieval: Retrieval, threshold: float) -> dict[str, Any]:
    """Table 4 of the paper, for a threshold on the best entity."""
    gold, nearest = Gold.of(part), retrieval.entities.dissimilarity[:, 0]
    called = nearest > np.float32(threshold)
    scores = nil_scores(gold.is_nil, called, annotated=gold.annotated)
    curve = nil_curve(gold.is_nil, -nearest.astype(np.float64), annotated=gold.annotated)
    counts = nil_as_class(_outcomes(part, retrieval), called).count(k=[1, CANDIDATES])
    return {
        "mentions": int(gold.annotated.sum()),
        "NIL": int(gold.is_nil.sum()),
        "with an id": int((gold.new >= 0).sum()),
        "auPR": curve.average_precision,
        "precision": scores.precision,
        "recall": scores.recall,
        "NIL F1": scores.f1,
        "best F1 on test": curve.best.f1,
        "recall@1 with NIL": counts.recall[1],
        f"recall@{CANDIDATES} with NIL": counts.recall[CANDIDATES],
    }


def _outcomes(part: Part, retrieval: Retrieval) -> LinkingOutcomes:
    rows = [
        part.kb.rows_within(mention.gold or (), document.domain) or ((-1,) if mention.gold else ())
        for document in part.documents
        for mention in document.mentions
    ]
    ids = retrieval.entities.ids
    return linking_outcomes(
        np.cumsum([0, *map(len, rows)]),
        [entity for row in rows for entity in row],
        ids[:, 0],
        annotated=Gold.of(part).annotated,
        candidates=ids,
    )


def gaps() -> Iterator[Gap]:
    """Read the corpora."""
    (job,) = (job for job in JOBS if job.name == "Disease Ontology")
    kb = job.knowledge_base()
    yield Gap(job.name, Part(job.documents(job.dev), kb), Part(job.documents(job.test), kb))
    split, dev, test = without_organs()
    yield Gap("UBERON without organs", Part(dev, split.kb), Part(test, split.kb))
    yield from map(hipe, HIPE)


def without_organs() -> tuple[NilSplit, Corpus, Corpus]:
    """Withhold a branch of UBERON."""
    (job,) = (job for job in JOBS if job.name == "CRAFT UBERON")
    dev, test = job.documents(job.dev), job.documents(job.test)
    parents = read_obo_parents(DATA / job.kb)
    parts = {"development": dev, "test": test}
    return arbo.nil_split(job.knowledge_base(), parts, branches=ORGAN, parents=parents), dev, test


def hipe(language: str) -> Gap:
    """Newspapers of one language, and the entities that its other parts name."""
    files = sorted((DATA / "hipe2022").glob(f"*/{language}/*.tsv.gz"))
    parts = {file.name.removeprefix("HIPE-2022-v2.1-").removesuffix(".tsv.gz"): file for file in files}
    read = {name: read_documents(file, "hipe") for name, file in parts.items() if "-test-" not in name}
    dev, test = f"newseye-dev-{language}", f"newseye-test-{language}"
    without_dev = named(Corpus(d for name, part in read.items() if name != dev for d in part))
    everything = named(Corpus(d for part in read.values() for d in part))
    return Gap(f"HIPE {language}", Part(read[dev], without_dev), Part(read_documents(parts[test], "hipe"), everything))


def named(documents: Corpus) -> arbo.KnowledgeBase:
    """Make a knowledge base of what documents call their entities, the most frequent name first."""
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for mention in documents.mentions:
        for id_ in mention.gold or ():
            names[id_][" ".join(mention.text.split())] += 1
    ordered = {id_: [name for name, _ in count.most_common()] for id_, count in names.items()}
    return arbo.KnowledgeBase(arbo.Entity(id_, name, tuple(aliases)) for id_, (name, *aliases) in ordered.items())


def main() -> None:
    """Measure everything and record it."""
    parser = argparse.ArgumentParser(description="NIL by a threshold, by the graph, and by both")
    parser.add_argument("--encoder", help="a transformer to measure beside the n-grams, such as all-MiniLM-L6-v2")
    model = parser.parse_args().encoder
    encoders: dict[str, Encoder] = {"ngram": arbo.NgramEncoder()}
    if model is not None:
        encoders[model] = arbo.DualEncoder.from_pretrained(model, cache=CACHE)
    tables: dict[str, list[dict[str, Any]]] = {
        title: [] for title in ("chosen for NIL F1", "chosen for ARI", "NIL by threshold")
    }
    for gap in gaps():
        for name, encoder in encoders.items():
            for title, row in compare(gap, name, encoder):
                tables[title].append(row)
                print(title, *row.values(), file=sys.stderr)
    tables["UBERON without organs"] = [
        {"part": name, "mentions of": kind, **check.as_dict()}
        for name, part in without_organs()[0].checks.items()
        for kind, check in (("NIL", part.nil), ("all", part.all))
    ]
    command = "python benchmarks/nil_clustering.py" + (f" --encoder {model}" if model else "")
    record("nil_clustering", command, _headlines(tables), tables=tables)


def _headlines(tables: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    figures = {}
    for title, metric in (("chosen for NIL F1", "NIL F1"), ("chosen for ARI", "ARI")):
        for row in tables[title]:
            key = ".".join((row["corpus"], row["encoder"], row["way"], metric))
            figures[key.lower().replace(" ", "_")] = row[metric]
    return figures


if __name__ == "__main__":
    main()

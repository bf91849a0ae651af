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
organs*: CRAFT, with `organ` (UBERON:0000062) and all below it withheld (the table of that name has
its checks). *HIPE*: newspapers of HIPE-2022's newseye in four languages; the knowledge base is the entities that are
named in the other parts of the same language (ajmc and sonar too, never a test part), by what they are called there.
Gold NIL mentions have no id there: its ARI is over mentions of entities that the other parts lack.

Table `NIL by threshold` has the figures of Wiatrak et al. 2022, table 4, for `threshold`.

`--encoder all-MiniLM-L6-v2` adds the untrained transformer to the n-grams.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import obonet
from library.cells import key
from library.command import parser_of
from library.corpora import JOBS
from library.folders import CACHE, DATA
from library.nil import CANDIDATES, Bools, Ints, NilGold, Part, by_threshold
from library.results import Figures, Row, Tables, collected_rows, record
from library.withholding import checks, rows_below, without_rows
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import arbo
from arbo.data.corpus import Corpus
from arbo.encoders.encoder import Encoder
from arbo.formats import read_documents
from arbo.retrieval.retrieval import Retrieval
from clustering import Method, Partition, partition
from eval import Line, Report, adjusted_rand_index, cluster_lines, nil_scores

INF = float("inf")
KS = (1, 2, 4, 8)
WAYS = ("threshold", "graph", "two limits", "both")
CLUSTERING: tuple[Method, ...] = ("arborescence", "minimax")
ORGAN = "UBERON:0000062"
HIPE = ("de", "fi", "fr", "sv")


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


def f1(gold: NilGold, decided: Decided) -> float:
    """F1 of the NIL decisions."""
    return nil_scores(gold.is_nil, decided.is_nil, annotated=gold.annotated).f1


def ari(gold: NilGold, cluster: Ints) -> float:
    """Agreement of clusters with the classes of the NIL mentions."""
    known = gold.new >= 0
    return adjusted_rand_index(gold.new[known], cluster[known])


def lines(gold: NilGold, decided: Decided) -> list[Line]:
    """NIL and ARI, with what their intervals are made from."""
    right = gold.is_nil & decided.is_nil
    flags = np.column_stack([right, gold.is_nil, right, decided.is_nil & gold.annotated])
    counts = np.zeros((gold.document.max() + 1, 4))
    np.add.at(counts, gold.document, flags)
    known = gold.new >= 0
    return [
        Line.of_counts("NIL", counts),
        cluster_lines(gold.new[known], decided.discovered[known], gold.document[known])[0],
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


def compare(gap: Gap, encoder_name: str, encoder: Encoder) -> Iterator[tuple[str, Row]]:
    """Rows of the tables of one corpus and encoder."""
    place = {"corpus": gap.name, "encoder": encoder_name}
    retrievals = [
        arbo.Linker(part.kb, encoder, arbo.LinkerConfig(candidates=CANDIDATES)).retrieve(part.documents, k=max(KS))
        for part in (gap.dev, gap.test)
    ]
    dev, test = map(Decider, retrievals)
    dev_gold, test_gold = NilGold.of(gap.dev), NilGold.of(gap.test)
    tried = {
        way: [(s, f1(dev_gold, d), ari(dev_gold, d.discovered)) for s in dev.settings(way) for d in [dev(s)]]
        for way in WAYS
    }
    orders: Mapping[str, Callable[[tuple[Setting, float, float]], tuple[float, float]]] = {
        "chosen for NIL F1": lambda trial: (trial[1], trial[2]),
        "chosen for ARI": lambda trial: (trial[2], trial[1]),
    }
    for title, order in orders.items():
        chosen = {way: max(trials, key=order)[0] for way, trials in tried.items()}
        decided = {way: test(setting) for way, setting in chosen.items()}
        report = Report.of({way: lines(test_gold, d) for way, d in decided.items()})
        for way, setting in chosen.items():
            row = {**place, "way": way, **_scores(report, way)}
            row |= {"ARI of links too": ari(test_gold, decided[way].cluster), "setting": str(setting)}
            yield title, row
        if title == "chosen for NIL F1":
            yield "NIL by threshold", {**place, **by_threshold(gap.test, retrievals[1], chosen["threshold"].entity)}


def _scores(report: Report, way: str) -> Row:
    nil, clusters = (report.systems[way][name] for name in ("NIL", "ARI"))
    assert nil.recall is not None
    assert nil.precision is not None
    row: Row = {"precision": nil.precision.value, "recall": nil.recall.value}
    for name, entry in (("NIL F1", nil), ("ARI", clusters)):
        interval, against = entry.interval, entry.comparison
        row[name] = entry.score.value
        row[f"{name}, 95 %"] = "" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"
        row[f"{name}, p"] = "" if against is None else f"{against.p_value:.4f}"
    return row


def gaps() -> Iterator[Gap]:
    """Read the corpora."""
    job = JOBS["Disease Ontology"]
    kb = job.knowledge_base()
    yield Gap(job.name, Part(job.documents(job.dev), kb), Part(job.documents(job.test), kb))
    kb, _, dev, test = without_organs()
    yield Gap("UBERON without organs", Part(dev, kb), Part(test, kb))
    yield from map(hipe, HIPE)


def without_organs() -> tuple[arbo.KnowledgeBase, list[Row], Corpus, Corpus]:
    """Withhold a branch of UBERON; return what remains, the checks, and the parts of CRAFT."""
    job = JOBS["CRAFT UBERON"]
    dev, test = job.documents(job.dev), job.documents(job.test)
    kb = job.knowledge_base()
    terms = obonet.read_obo(DATA / job.kb).nodes(data=True)
    gone = rows_below(kb, ORGAN, {term: tuple(data.get("is_a", ())) for term, data in terms})
    return without_rows(kb, gone), [*checks(kb, gone, {"development": dev, "test": test})], dev, test


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
    parser = parser_of("NIL by a threshold, by the graph, and by both")
    parser.add_argument("--encoder", help="a transformer to measure beside the n-grams, such as all-MiniLM-L6-v2")
    model = parser.parse_args().encoder
    encoders: dict[str, Encoder] = {"ngram": arbo.NgramEncoder()}
    if model is not None:
        encoders[model] = arbo.DualEncoder.from_pretrained(model, cache=CACHE)
    tables: Tables = {title: [] for title in ("chosen for NIL F1", "chosen for ARI", "NIL by threshold")}
    for gap in gaps():
        for name, encoder in encoders.items():
            collected_rows(tables, compare(gap, name, encoder))
    tables["UBERON without organs"] = without_organs()[1]
    figures: Figures = {
        key(row["corpus"], row["encoder"], row["way"], metric): row[metric]
        for title, metric in (("chosen for NIL F1", "NIL F1"), ("chosen for ARI", "ARI"))
        for row in tables[title]
    }
    record("nil_clustering", figures, tables, options=f"--encoder {model}" if model else "")


if __name__ == "__main__":
    main()

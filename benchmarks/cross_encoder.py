r"""The second stage: a cross-encoder that re-ranks the candidates of two dual-encoders, and what it brings to MEDIC.

**candidates** and **re-ranking** ask what ArboEL's tables 3 and 4 and the proxy paper's table 5 ask: do better
candidates make a better re-ranker, and does FGSM help? The first stages are `untrained` (all-MiniLM-L6-v2) and
`trained` (aligned on MEDIC's synonyms, then trained on the training parts of both corpora, see *steps to MEDIC* of
`arborescence_training`). Each has a cross-encoder, from all-MiniLM-L6-v2 too, trained on its 8 candidates of mentions
of both training parts, and tested on the first 200 abstracts of each test part (all 100 of NCBI disease, 200 of 500 of
BC5CDR); one model for both corpora, mentions without context, entities with their aliases, the mean of
all tokens scored. `own` is accuracy among the stage's own candidates, over all mentions with a concept; `SELF` the same
with the gold entity injected; `UNION` among the candidates of both stages, gold injected.

**MEDIC** is all of arbo at work: the first stage is aligned on MEDIC's synonyms, and the knowledge base has the names
of the training documents, so that these cannot train a second stage (each mention would find its own name). It is
trained on four fifths of the development part, on the mentions that the first stage is not sure of, and adds to the
first stage's similarity (`retrieval_weight`); the margin from which on a mention is not read is chosen on the last
fifth. `names`: of which documents the knowledge base has them when it is tested; `CORPUS.accuracy` is with those of
the training and the development part, as is usual for the last test, and with early exit. `per second`: mentions of the
test part, on one core, the first stage's work not counted. Everything is read, for comparison, of NCBI disease alone.

**partition**: accuracy on the test part by method, k = 8, without thresholds. `entity edges` and `mention edges`: whose
they are.

`--part`, `--training`, `--steps`, `--epochs` and `--seeds` choose cells; each is kept in the cache folder, so that the
tables can be made in several goes, and what is there is recorded: `--record` does that alone. The whole table, for a
GPU: `python benchmarks/cross_encoder.py --steps 5000 --epochs 5`. The tables in `results/` hold the cells of `--part
claims`, of `--part claims --steps 100 --training trained`, and of `--part medic`; `trained + FGSM` had the regulariser
of the proxy paper, which cross-encoders no longer have.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from library.cells import Cell, Cells, key
from library.command import parser_of
from library.corpora import Data
from library.decided import decided
from library.early_exit import skipping
from library.folders import MODELS
from library.medic import CORPORA, UNTRAINED, encoder_of
from library.results import Figures, Row, record
from library.timing import seconds
from library.trainings import means
from library.union import is_gold, union, with_gold

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document
from arbo.data.gold import Gold
from arbo.linking.config import LinkerConfig
from arbo.progress import bars
from arbo.retrieval.reranking import best_first, margins, rerank
from clustering import METHODS

CANDIDATES = 8
MOST_DOCUMENTS = 200
"""Of a test part, where trainings are compared."""
READS = arbo.CrossEncoderConfig(
    mention="[CLS] {mention} [SEP]",
    entity="{name} [TITLE] {aliases} [SEP]",
    pooling="mean",
    max_length=40,
    candidates=CANDIDATES,
)
CONFIG = arbo.RerankingConfig(
    epochs=1000, batch_size=4, micro_batch=4, optimizer="adamw", learning_rate=5e-5, warmup=0.1
)
FIRST = (UNTRAINED, "trained")
RECORDED = (*FIRST, *(f"{first} + FGSM" for first in FIRST))
"""With those of a regulariser that cross-encoders no longer have."""
OWN, SELF, UNION = ("own", "SELF", "UNION")
ADDED = replace(READS, retrieval_weight=20.0)
IN_CONTEXT = replace(ADDED, mention="[CLS] {left} [START] {mention} [END] {right} [SEP]", context=8, max_length=56)
MEDIC: dict[str, tuple[arbo.CrossEncoderConfig, tuple[float, ...]]] = {
    "in context": (IN_CONTEXT, ()),
    "names alone, weight tuned": (ADDED, (20.0, 40.0, 80.0, 160.0, 320.0)),
}
"""What is read, and the weights of the first stage's similarity that are tried once it is trained."""
FIGURES = ("first stage", "all read", "early exit", "read", "all read, per second", "early exit, per second")
UNSURE = 0.12
"""The smallest margin of a mention that is not trained on."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The corpora, both linked to MEDIC."""

    data: dict[str, Data]

    @property
    def kb(self) -> arbo.KnowledgeBase:
        """MEDIC."""
        return self.data[CORPORA[0]].kb

    def stage(self, step: str, kb: arbo.KnowledgeBase | None = None) -> arbo.Linker:
        """Return a first stage."""
        return arbo.Linker(self.kb if kb is None else kb, encoder_of(step, self.data), announce=bars)

    @property
    def train(self) -> list[Document]:
        """The training parts of both."""
        return joined(data.train for data in self.data.values())


def joined(parts: Iterable[Iterable[Document]]) -> list[Document]:
    """Put corpora together."""
    return [document for part in parts for document in part]


def train(
    reads: arbo.CrossEncoderConfig,
    config: arbo.RerankingConfig,
    first: arbo.Linker,
    documents: Iterable[Document],
    name: str,
    dev: Iterable[Document] | None = None,
) -> arbo.CrossEncoder:
    """Train a cross-encoder on the candidates of a first stage, unless an interrupted cell has left it."""
    out = MODELS / name
    if out.is_dir():
        return arbo.CrossEncoder.from_pretrained(out)
    tower = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2").mention_tower
    start = arbo.CrossEncoder.of(tower, reads).with_markers()
    MODELS.mkdir(parents=True, exist_ok=True)
    return arbo.train_reranker(start, first, documents, dev=dev, config=config, out=out)


# Do better candidates make a better re-ranker?


def compared(jobs: Jobs, cell: Cell, name: str) -> Row:
    """Train on the candidates of one stage, and choose among those of both."""
    whose = cell["training"]
    model = train(READS, config_of(cell), jobs.stage(whose), jobs.train, name)
    scores: Figures = {}
    for corpus, data in jobs.data.items():
        test = data.test[:MOST_DOCUMENTS]
        gold = Gold.of(test, data.kb).entities
        found = {first: jobs.stage(first).candidates(test, k=CANDIDATES) for first in FIRST}
        everything = rerank(model, with_gold(widened(union(*found.values())), gold), test, data.kb, announce=bars)
        among = {OWN: found[whose], SELF: with_gold(widened(found[whose]), gold), UNION: everything}
        for setting, candidates in among.items():
            score = limited(everything, candidates).evaluate(test, data.kb, train=data.train)
            assert score.seen is not None
            assert score.unseen is not None
            scores |= {f"{corpus} {setting}": score.accuracy}
            if setting == OWN:
                scores |= {f"{corpus} seen": score.seen.accuracy, f"{corpus} unseen": score.unseen.accuracy}
                scores |= {f"{corpus} normalised": score.accuracy_normalized or 0.0}
    shutil.rmtree(MODELS / name)
    return {"scores": scores}


def config_of(cell: Cell) -> arbo.RerankingConfig:
    """Tell how a cell is trained."""
    return replace(CONFIG, steps=cell["steps"], seed=cell["seed"])


def widened(candidates: arbo.Candidates) -> arbo.Candidates:
    """Add an empty place, so that the gold entity takes that of none."""
    n = len(candidates)
    return replace(
        candidates,
        entities=np.hstack([candidates.entities, np.full((n, 1), -1, np.int32)]),
        scores=np.hstack([candidates.scores, np.full((n, 1), -np.inf, np.float32)]),
    )


def limited(reranked: arbo.Candidates, candidates: arbo.Candidates) -> arbo.Candidates:
    """Leave only those of some candidates: what a pair is given does not depend on the others."""
    kept = is_gold(reranked.entities, candidates.entities)
    entities, scores = np.where(kept, reranked.entities, -1), np.where(kept, reranked.scores, -np.inf)
    entities, scores = best_first(entities, scores.astype(np.float32))
    return replace(reranked, entities=entities.astype(np.int32), scores=scores)


def retrieved(jobs: Jobs) -> Iterator[Row]:
    """Tell how good the candidates are."""
    for corpus, data in jobs.data.items():
        for first in FIRST:
            test = data.test[:MOST_DOCUMENTS]
            recall = jobs.stage(first).candidates(test, k=CANDIDATES).evaluate(test, data.kb).recall
            yield {"corpus": corpus, "first stage": first, **{f"recall@{k}": value for k, value in recall.items()}}


# What it brings to MEDIC


def unsure(first: arbo.Linker, documents: Corpus) -> Corpus:
    """Leave out the mentions that a first stage is sure of."""
    margin = iter(margins(first.candidates(documents, k=2).scores).tolist())
    return Corpus(
        replace(document, mentions=tuple(m for m in document.mentions if next(margin) < UNSURE))
        for document in documents
    )


def medic(jobs: Jobs, cell: Cell, name: str) -> Row:
    """Train on the development part, and test."""
    base = jobs.kb.with_names_of(jobs.train)
    first = jobs.stage("aligned", base)
    parts = [(data.dev[: len(data.dev) * 4 // 5], data.dev[len(data.dev) * 4 // 5 :]) for data in jobs.data.values()]
    learnt, held = (Corpus(joined(part)) for part in zip(*parts, strict=True))
    reads, weights = MEDIC[cell["training"]]
    model = train(reads, medic_config(cell), first, unsure(first, learnt), name, dev=unsure(first, held))
    before = first.candidates(held, k=CANDIDATES)
    tried = {}
    for weight in weights:
        weighted = with_weight(model, weight)
        tried[weight] = rerank(weighted, before, held, base, announce=bars).evaluate(held, base).accuracy
    if tried:
        model = with_weight(model, max(tried, key=lambda weight: tried[weight]))
    after = rerank(model, before, held, base, announce=bars)
    spared = skipping(before, after, Gold.of(held, base).entities)
    rows = list(tested(jobs, model, spared.margin))
    partitions = list(by_method(jobs, first, model, base))
    shutil.rmtree(MODELS / name)
    return {"rows": rows, "partitions": partitions, "skipping": spared._asdict(), "tried": list(tried.items())}


def tested(jobs: Jobs, model: arbo.CrossEncoder, margin: float | None) -> Iterator[Row]:
    """Re-rank both test parts, with the names of the training documents, and with those of development too."""
    dev = joined(data.dev for data in jobs.data.values())
    for names, documents in (("training", jobs.train), ("training and development", jobs.train + dev)):
        kb = jobs.kb.with_names_of(documents)
        stage = jobs.stage("aligned", kb)
        for corpus, data in jobs.data.items():
            found = stage.candidates(data.test, k=CANDIDATES)
            row = {"corpus": corpus, "names": names, "first stage": found.evaluate(data.test, kb).accuracy}
            read_all = names == "training" and corpus == CORPORA[0]
            ways = {"early exit": margin} | ({"all read": None} if read_all else {})
            for how, limit in ways.items():
                spent, chosen = seconds(rerank, model, found, data.test, kb, skip_margin=limit)
                score = chosen.evaluate(data.test, kb, train=data.train)
                assert score.seen is not None
                assert score.unseen is not None
                row |= {how: score.accuracy, f"{how}, per second": len(found) / spent}
                if how == "early exit":
                    row |= {"seen": score.seen.accuracy, "unseen": score.unseen.accuracy}
            read = float(np.mean(margins(found.scores) < (np.inf if margin is None else margin)))
            yield row | {"read": read}


def with_weight(model: arbo.CrossEncoder, weight: float) -> arbo.CrossEncoder:
    """Let the first stage count for more, or for less."""
    return replace(model, config=replace(model.config, retrieval_weight=weight))


def medic_config(cell: Cell) -> arbo.RerankingConfig:
    """Return how the second stage of MEDIC is trained."""
    return replace(CONFIG, epochs=cell["epochs"], seed=cell["seed"])


def by_method(jobs: Jobs, first: arbo.Linker, model: arbo.CrossEncoder, kb: arbo.KnowledgeBase) -> Iterator[Row]:
    """Link NCBI disease with every method, by entity edges of the encoder or of the re-ranker."""
    test = jobs.data[CORPORA[0]].test
    config = LinkerConfig(k=8, entity_threshold=None, mention_threshold=None, candidates=CANDIDATES)
    reranked = first.configured(config=config, reranker=model)
    whose = {
        ("encoder", "encoder"): first.configured(config=config),
        ("cross-encoder", "encoder"): reranked,
    }
    for (entity, mention), linker in whose.items():
        retrieval = linker.retrieve(test, k=config.k, in_order=True)
        row: Row = {"corpus": CORPORA[0], "entity edges": entity, "mention edges": mention}
        for method in METHODS:
            linked = decided(kb, retrieval, replace(linker.config, method=method)).evaluate().linking
            assert linked is not None
            row[method] = linked.accuracy
        yield row


CLAIMS = Cells("cross_encoder", lambda cell: (READS, cell["training"], config_of(cell), MOST_DOCUMENTS))
AIMS = Cells(
    "cross_encoder_medic",
    lambda cell: (MEDIC[cell["training"]][0], medic_config(cell), UNSURE, CANDIDATES, *MEDIC[cell["training"]][1]),
)


def compared_rows(cells: Iterable[Cell]) -> list[Row]:
    """Means over the seeds of every cell of the comparison that is there, a row a corpus."""
    cells = sorted(cells, key=lambda cell: (cell["steps"], RECORDED.index(cell["training"])))
    rows = means([cell | {"corpus": "both"} for cell in cells])
    return [
        {name: row[name] for name in ("training", "steps", "seeds")}
        | {"corpus": corpus}
        | {name.removeprefix(f"{corpus} "): value for name, value in row.items() if name.startswith(corpus)}
        for corpus in CORPORA
        for row in rows
    ]


def record_all(jobs: Jobs) -> None:
    """Record every cell that is there."""
    claims, aims = CLAIMS.read(), AIMS.read()
    shown = compared_rows(claims)
    whose = ("training", "steps", "seeds", "corpus")
    figures: Figures = {
        key(row["corpus"], row["training"], row["steps"], name): value
        for row in shown
        for name, value in row.items()
        if name not in whose
    }
    reached: list[Row] = []
    partitions: list[Row] = []
    # The best on the development part comes last, and is what the corpus's own figure tells.
    for cell in sorted(aims, key=lambda cell: cell["skipping"]["accuracy"]):
        of = {"training": cell["training"], "epochs": cell["epochs"]}
        reached += [of | row for row in cell["rows"]]
        partitions += [of | row for row in cell["partitions"]]
        for row in cell["rows"]:
            name = key(row["corpus"], cell["training"], row["names"])
            if row["names"] != "training":
                figures[key(row["corpus"], "accuracy")] = row["early exit"]
            figures |= {f"{name}.{key(how)}": row[how] for how in FIGURES if how in row}
    tables = {
        "candidates": list(retrieved(jobs)),
        "re-ranking": shown,
        "MEDIC": reached,
        "partition": partitions,
    }
    record("cross_encoder", figures, tables, cells=[*claims, *aims])


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = parser_of(__doc__)
    parser.add_argument("--part", choices=["claims", "medic"], help="default: both")
    parser.add_argument("--training", action="append", choices=[*FIRST, *MEDIC], help="default: all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300, help="of the trainings that are compared")
    parser.add_argument("--epochs", type=int, default=1, help="of the trainings for MEDIC")
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    asked = parser.parse_args()
    jobs = Jobs({corpus: Data.of(corpus) for corpus in CORPORA})
    for seed in range(0 if asked.record else asked.seeds):
        for training in FIRST:
            if asked.part != "medic" and training in (asked.training or FIRST):
                cell = {"training": training, "steps": asked.steps, "seed": seed}
                CLAIMS.keep(cell, partial(compared, jobs, cell))
        for training in MEDIC:
            if asked.part != "claims" and training in (asked.training or MEDIC):
                cell = {"training": training, "epochs": asked.epochs, "seed": seed}
                AIMS.keep(cell, partial(medic, jobs, cell))
    record_all(jobs)


if __name__ == "__main__":
    main()

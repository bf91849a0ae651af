r"""The adaptive-mixup paper (AMH): negatives of a batch, mixed up with the positive or not, and two scores.

`random`: the other entities of the batch; `hard`: the 10 most similar of them; `mixed`: 5 of those and 5 others; all
three with cross-entropy. `BCE`: `hard` with binary cross-entropy, adaptive mixup with alpha = 0; `AMH`: the same with
alpha = 0.3. `DUAL`: inner product of first tokens; `mean`: of the means of all tokens; `SOM`, which arbo had once: the
sum over the mention's tokens of their largest inner product with one of the entity's. BM25 (k1 = 1.2, b = 0.75)
compares words, of the entity's name as the others do, or of all its names. The sweeps over alpha and K, the number of
hard negatives, are of `mean AMH`; `W not differentiated` is `mean AMH` with `mixup_gradient` false. **with cosines**:
the mean of all tokens, cosines times 20; `k-NN`: the 4 nearest wrong entities of the knowledge base.

Mentions are read without context, entities by their name; batches of 32, learning rate 5e-5. recall@k is over all test
mentions with a concept, one outside the knowledge base counting as a miss; means over the seeds. `against`: the gain
over the same documents, whose counts are means over the seeds, with the ends of its 95 % bootstrap interval.

`--corpus`, `--training`, `--seeds` and `--steps` choose cells; each is kept in `cells/`, so that the tables can
be made in several goes, and what is there is recorded: `--record` does that alone. The whole table, for a GPU: `python
benchmarks/adaptive_mixup.py --corpus "BC5CDR disease" --corpus "NCBI disease" --corpus "CRAFT UBERON" --steps 2000`.
The tables in `results/` hold the cells of `--seeds 1`, without `SOM mixed`, alpha 0.2 and 0.8, and K 18, and those of
`--seeds 1 --steps 200 --training "mean random" --training "mean hard" --training "mean BCE" --training "mean AMH"`.
"""

from dataclasses import replace

import numpy as np
from library.cells import key
from library.corpora import Data
from library.results import Row, record
from library.trainings import RECALL, Training, Trainings, columns, differences, means, options, recalls
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

import arbo
from arbo.data import mention_inputs
from arbo.data.gold import RECALL_AT

ONE_AN_ENTITY = arbo.EncoderConfig(entity_view="whole", metric="dot")
READS = {
    "DUAL": replace(ONE_AN_ENTITY, pooling="cls"),
    "mean": replace(ONE_AN_ENTITY, pooling="mean"),
}
AMH = arbo.TrainingConfig(
    positives="entity",
    negatives="in-batch-hard",
    n_negatives=10,
    loss="bce",
    mixup=0.3,
    batch_size=32,
    micro_batch=32,
    learning_rate=5e-5,
    epochs=1000,
)
WAYS = {
    "untrained": None,
    "random": replace(AMH, negatives="in-batch", loss="cross-entropy", mixup=None),
    "hard": replace(AMH, loss="cross-entropy", mixup=None),
    "mixed": replace(AMH, negatives="in-batch-mixed", loss="cross-entropy", mixup=None),
    "BCE": replace(AMH, mixup=None),
    "AMH": AMH,
}
MAIN = {f"{score} {way}": Training(reads, config) for way, config in WAYS.items() for score, reads in READS.items()}
SWEEPS = {
    **{
        f"mean AMH, alpha {alpha}": Training(READS["mean"], replace(AMH, mixup=alpha)) for alpha in (0.2, 0.5, 0.8, 1.0)
    },
    **{f"mean AMH, K {k}": Training(READS["mean"], replace(AMH, n_negatives=k)) for k in (1, 4, 18)},
    "mean AMH, W not differentiated": Training(READS["mean"], replace(AMH, mixup_gradient=False)),
}
COSINE = replace(READS["mean"], metric="cosine")
CE = replace(AMH, loss="cross-entropy", mixup=None)
WITH_COSINES = {
    "untrained": Training(COSINE),
    "random": Training(COSINE, replace(CE, negatives="in-batch")),
    "hard": Training(COSINE, CE),
    "k-NN": Training(COSINE, replace(CE, negatives="knn", n_negatives=4)),
    "AMH": Training(COSINE, AMH),
}
START = {f"cosine {way}": training for way, training in WITH_COSINES.items()}
TRAININGS = Trainings("adaptive_mixup", MAIN | SWEEPS | START, recalls)
PAIRS = [
    *((f"{score} {way}", f"{score} random") for score in READS for way in ("hard", "mixed", "BCE", "AMH")),
    *((f"{score} AMH", f"{score} {way}") for score in READS for way in ("hard", "mixed", "BCE")),
    *((name, "mean AMH") for name in SWEEPS),
    *((name, "cosine random") for name in START if name != "cosine random"),
    ("cosine random", "mean random"),
    ("mean AMH", "DUAL AMH"),
]


def bm25(data: Data, *, all_names: bool, k1: float = 1.2, b: float = 0.75) -> Row:
    """Recall of BM25, an entity's document being its name, or all its names."""
    names = [" ".join((entity.name, *(entity.aliases if all_names else ()))) for entity in data.kb]
    inputs = [item for item in mention_inputs(data.test, expand_abbreviations=True) if item.mention.gold]
    words = CountVectorizer(token_pattern=r"\w+")
    count = csr_array(words.fit_transform(names), dtype=np.float64)
    length = count.sum(axis=1)
    frequency = np.bincount(count.indices, minlength=count.shape[1])
    idf = np.log1p((len(names) - frequency + 0.5) / (frequency + 0.5))
    norm = np.repeat(k1 * (1 - b + b * length / length.mean()), np.diff(count.indptr))
    count.data *= idf[count.indices] * (k1 + 1) / (count.data + norm)
    queries = csr_array(words.transform(item.name for item in inputs), dtype=np.float64)
    ranks = []
    for row, item in enumerate(inputs):
        score = (count @ queries[[row]].T).toarray().ravel()
        best = np.argsort(-score, kind="stable")[: max(RECALL_AT)]
        gold = {entity for id_ in item.mention.gold or () for entity in data.kb.rows(id_)}
        hits = [place for place, entity in enumerate(best.tolist()) if entity in gold and score[entity] > 0]
        ranks.append(hits[0] if hits else len(names))
    return {f"recall@{k}": float(np.mean(np.array(ranks) < k)) for k in RECALL_AT}


def record_all() -> None:
    """Record every cell that is there."""
    cells = TRAININGS.read()
    rows = means(cells)
    corpora = dict.fromkeys(cell["corpus"] for cell in cells)
    baselines = [
        {"corpus": corpus, "training": name, **bm25(Data.of(corpus), all_names=all_names)}
        for corpus in corpora
        for name, all_names in (("BM25", False), ("BM25, all names", True))
    ]
    figures = {
        key(row["corpus"], row["training"], row.get("steps", ""), name): row[name]
        for row in (*baselines, *rows)
        for name in RECALL[:1] + RECALL[-1:]
    }
    tables = {
        "scores and negatives": columns([row for row in rows if row["training"] in MAIN], RECALL),
        "alpha, K, and what the paper leaves open": columns(
            [row for row in rows if row["training"] in SWEEPS or row["training"] == "mean AMH"],
            (*RECALL, "recall@1 dev", "recall@64 dev"),
        ),
        "with cosines": columns([row for row in rows if row["training"] in START], (*RECALL, "recall@1 dev")),
        "BM25": baselines,
        "against": differences(cells, PAIRS),
    }
    record("adaptive_mixup", figures, tables, cells=cells)


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    asked = options(__doc__, TRAININGS.known, ["BC5CDR disease"], steps=100).parse_args()
    corpora = asked.corpus or ["BC5CDR disease"]
    if not asked.record:
        TRAININGS.fill(corpora, asked.training or list(TRAININGS.known), asked.seeds, asked.steps)
    record_all()


if __name__ == "__main__":
    main()

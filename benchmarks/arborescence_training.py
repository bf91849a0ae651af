r"""The trainings of the ArboEL paper: what mentions are drawn towards, and what they are pushed away from.

**recall**, **linking**, **clusters**: `in-batch` and `k-NN` are the paper's baselines (the gold entity is the
positive, negatives are entities, with cross-entropy); `arborescence`, `1-NN` and `1-rand` its own (half of the
negatives are mentions, its loss); `arborescence, CE` is the ablation with plain cross-entropy; `in-batch and k-NN` has
the negatives of BLINK (those of the batch, and four that are near), a baseline of three of the papers; `untrained`
is the start, all-MiniLM-L6-v2. One vector an entity, its name; mentions are read without context; cosine, times 20 in
the loss, learning rate 5e-5. recall@k is over all test mentions with a concept, one outside the knowledge base
counting as a miss; `independent` to `undirected` are accuracies, k and thresholds chosen on the development part for
each method. ARI is of clusters without a knowledge base, the threshold chosen on the development part: ALL,
ALL/UNSEEN, UNSEEN ONLY of the paper's section 3.5. Means over the seeds. CRAFT's development part serves as test; the
last tenth of its training documents as dev.

**method** (table 6 of the paper): the accuracy of the method that is best on the development part, less that of
`independent`: the mean over the seeds, the least and the greatest.

**against**: the difference to `in-batch`, and to `k-NN`, over the same documents, whose counts are means over the
seeds, with the ends of its 95 % bootstrap interval.

**cluster sizes**: gold clusters of the training part by their number of mentions (figure 2 of the paper).

**steps to MEDIC**: what brings a general encoder to NCBI disease and BC5CDR diseases, one vector a name. `untrained`;
`aligned`: trained on the synonyms of MEDIC as mentions of the entity's own name (in-batch negatives); `trained`: from
there on the training parts of both corpora, the nearest of the entity's names as positive, the nearest wrong ones as
negatives. `names`: those of the KB, or also those that the training documents give its entities
(`KnowledgeBase.with_names_of`). `CORPUS.accuracy` is that of the method and step that are best on the development part.

`--part`, `--corpus`, `--training`, `--seeds` and `--steps` choose cells; each cell is kept in `cells/`, so that
the tables can be made in several goes, and what is there is recorded: `--record` does that alone. The
tables in `results/` are older than `in-batch and k-NN`, **method** and the comparison with `k-NN`.
The whole table, for a GPU: `python benchmarks/arborescence_training.py --corpus "NCBI disease" --corpus "BC5CDR
disease" --corpus "CRAFT UBERON" --steps 2000`.
"""

from collections import Counter
from dataclasses import asdict, replace
from functools import partial

from library.cells import Cells, key
from library.corpora import TRAINABLE, Data
from library.folders import CELLS as PLACE
from library.medic import (
    BASE,
    CORPORA,
    IN_BATCH,
    KNN,
    ONE_AN_ENTITY,
    STEPS,
    TRAININGS as MEDIC_STEPS,
    UNTRAINED,
    encoder_of,
    settings_of,
)
from library.results import Figures, Row, record
from library.trainings import (
    PARTS,
    RECALL,
    RECALL_BY_PART,
    Training,
    Trainings,
    columns,
    differences,
    gains,
    means,
    options,
    parts,
    recalls,
)

import arbo
from arbo.data.gold import RECALL_AT
from clustering import METHODS

CONFIGS = {
    "in-batch": IN_BATCH,
    "k-NN": KNN,
    "arborescence": BASE,
    "1-NN": replace(BASE, positives="1nn"),
    "1-rand": replace(BASE, positives="1rand"),
    "arborescence, CE": replace(BASE, loss="cross-entropy"),
    "in-batch and k-NN": replace(KNN, negatives="in-batch+knn"),
}
ARI = ("ARI all", "ARI all/unseen", "ARI unseen only")


def scores(data: Data, encoder: arbo.DualEncoder, *, discover: bool = True) -> Row:
    """Score a model on the test part; what is chosen is chosen on dev."""
    config = arbo.LinkerConfig("independent", 8, None, None, candidates=max(RECALL_AT))
    tuned = arbo.Linker(data.kb, encoder, config).tune(data.dev)
    assert tuned.tuning is not None
    found = recalls(data, encoder)
    for method in METHODS:
        best = max((t for t in tuned.tuning.trials if t.method == method), key=lambda trial: trial.score)
        found[f"{method} dev"] = best.score
        chosen = replace(
            config,
            method=method,
            k=best.k,
            entity_threshold=best.entity_threshold,
            mention_threshold=best.mention_threshold,
        )
        evaluation = tuned.configured(config=chosen).link(data.test).evaluate(train=data.train)
        found |= {f"{method}{name}": counts.accuracy for name, counts in parts(evaluation)}
    if discover:
        alone = arbo.Linker(None, encoder).tune(data.dev)
        everything = alone.discover(data.test).evaluate(train=data.train)
        unseen = alone.discover(data.test.unseen_in(data.train)).evaluate()
        settings = everything.clustering, everything.clustering_unseen, unseen.clustering
        for name, clustering in zip(ARI, settings, strict=True):
            found[name] = clustering["ari"] if clustering else 0.0
    return found


def scored(data: Data, encoder: arbo.DualEncoder, name: str) -> Row:
    """Make a cell of a step to MEDIC."""
    return {"scores": scores(data, encoder, discover=False)}


TRAININGS = Trainings(
    "arborescence_training",
    {UNTRAINED: Training(ONE_AN_ENTITY)} | {name: Training(ONE_AN_ENTITY, config) for name, config in CONFIGS.items()},
    scores,
)
AGAINST = [(name, base) for base in ("in-batch", "k-NN") for name in CONFIGS if name not in ("in-batch", base)]
"""What is compared."""
MEDIC = Cells("arborescence_training_medic", lambda cell: settings_of(cell["step"]), PLACE)


def histogram(data: Data) -> dict[str, int]:
    """Count the gold clusters of the training part by size (figure 2 of the paper)."""
    sizes = Counter(Counter(id_ for m in data.train.mentions for id_ in m.gold or () if id_ in data.kb).values())
    bounds = (1, 2, 4, 8, 16, 32, 64, 128, 256, 10**9)
    names = ("1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127", "128-255", "256 and more")
    return {
        name: sum(n for size, n in sizes.items() if low <= size < high)
        for name, low, high in zip(names, bounds[:-1], bounds[1:], strict=True)
    }


def record_all() -> None:
    """Record every cell that is there."""
    trainings, steps = TRAININGS.read(), MEDIC.read()
    if not steps:
        raise SystemExit("the tables of the steps to MEDIC would be lost: make their cells first, --part medic")
    rows = means(trainings)
    medic = [
        {name: value for name, value in {**cell, **cell["scores"]}.items() if name != "scores"}
        for cell in sorted(steps, key=lambda cell: (cell["corpus"], STEPS.index(cell["step"]), cell["names"]))
    ]
    figures: Figures = {}
    for corpus in dict.fromkeys(row["corpus"] for row in medic):
        own = [row for row in medic if row["corpus"] == corpus]
        _, figures[key(corpus, "accuracy")] = max((row[f"{m} dev"], row[m]) for row in own for m in METHODS)
        figures |= {key(corpus, row["step"], row["names"], "recall@1"): row["recall@1"] for row in own}
    for row in rows:
        whose = row["corpus"], row["training"], row["steps"]
        figures |= {key(*whose, name): row[name] for name in (*RECALL, *METHODS, *ARI)}
    sizes = [{"corpus": name, **histogram(Data.of(name))} for name in TRAINABLE if name != "Disease Ontology"]
    settings = [
        {"training": name, **{field: str(value) for field, value in asdict(config).items()}}
        for name, config in (CONFIGS | MEDIC_STEPS).items()
    ]
    tables = {
        "recall": columns(rows, RECALL_BY_PART),
        "linking": columns(rows, (f"{method}{part}" for method in METHODS for part in PARTS)),
        "clusters": columns(rows, ARI),
        "method": gains(trainings),
        "against": differences(trainings, AGAINST),
        "cluster sizes": sizes,
        "steps to MEDIC": columns(medic, (*RECALL, *METHODS, "independent seen", "independent unseen")),
        "settings": settings,
    }
    record("arborescence_training", figures, tables, cells=[*trainings, *steps])


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = options(__doc__, TRAININGS.known, ["CRAFT CL"], steps=250)
    parser.add_argument("--part", choices=["trainings", "medic"], help="default: both")
    asked = parser.parse_args()
    if asked.part != "trainings" and not asked.record:
        fill_medic()
    if asked.part != "medic" and not asked.record:
        TRAININGS.fill(asked.corpus or ["CRAFT CL"], asked.training or list(TRAININGS.known), asked.seeds, asked.steps)
    record_all()


def fill_medic() -> None:
    """Make the cells of the steps to MEDIC."""
    data = {name: Data.of(name) for name in CORPORA}
    for step in STEPS:
        encoder = encoder_of(step, data)
        for corpus, own in data.items():
            for names, kb in (("KB", own.kb), ("KB and training", own.kb.with_names_of(own.train))):
                cell = {"corpus": corpus, "step": step, "names": names}
                MEDIC.keep(cell, partial(scored, replace(own, kb=kb), encoder))


if __name__ == "__main__":
    main()

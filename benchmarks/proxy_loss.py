r"""The proxy paper (PEL): its loss and cross-entropy, random and mixed negatives, FGSM, and NIL by a threshold.

`CE` is cross-entropy over inner products, `proxy` the proxy loss (alpha = 32, margin 0) over cosines, `CE untrained`
and `proxy untrained` the start by these two; 8 negatives, drawn uniformly (`random`) or half of them the nearest of the
knowledge base (`mixed`); `+ FGSM`, which arbo had once, added the loss of perturbed copies (epsilon 0.01, weight 1).
Mean pooling; mentions are read without context, entities by their name; batches of 8, AdamW, learning rate 5e-5
(`papers.py` trains at the paper's). recall@k is over all test mentions with a concept, one outside the knowledge base
counting as a miss; means over the seeds. `against`: the gain over the same documents, whose counts are means over the
seeds, with the ends of its 95 % bootstrap interval.

**gradients**: median norm over the steps, before clipping, and how much it varies: quartile distance through median.
The plots, `plots/gradients.*`, have the norms of every step, as means over 10.

**NIL by threshold** is table 4 of the paper, with margins from 0 to 0.1 (`proxy 0.1`) and random negatives, which are
better on the development part, and with cross-entropy over cosines (times 20) too: a mention is NIL if the similarity
of its best entity is below the threshold that is best on the development part in F1. auPR, precision and recall are of
NIL, `recall@k with NIL` of all classes, NIL being one. *Disease Ontology* is BC5CDR against an ontology that lacks
nearly half of its diseases; training has seen none of those as NIL, only the others as they are. The plot,
`plots/nil.*`, has the curves of the first seed.

`--part`, `--corpus`, `--training`, `--seeds` and `--steps` choose cells; each is kept in `cells/`, so that the
tables can be made in several goes, and what is there is recorded: `--record` does that alone. The whole table, for a
GPU: `python benchmarks/proxy_loss.py --part losses --corpus "BC5CDR disease" --corpus "NCBI disease" --corpus "CRAFT
UBERON" --steps 2000`, then the same with `--part nil` and no corpus. The tables in `results/` hold the cells of
`--seeds 1`, without `CE mixed + FGSM` and `proxy mixed + FGSM`.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
from library.cells import Cell, key
from library.corpora import Data
from library.folders import PLOTS
from library.nil import CANDIDATES, NilGold, Part, by_threshold
from library.plots import plot_precision_recall, plot_steps
from library.results import Row, record
from library.trainings import RECALL, Training, Trainings, columns, differences, means, options, recalls

import arbo
from eval import nil_curve

Floats = npt.NDArray[np.float64]

READS_DOT = arbo.EncoderConfig(entity_view="whole", metric="dot")
READS_COSINE = replace(READS_DOT, metric="cosine")
CE = arbo.TrainingConfig(
    positives="entity",
    negatives="mixed",
    n_negatives=8,
    loss="cross-entropy",
    optimizer="adamw",
    learning_rate=5e-5,
    warmup=0.25,
    batch_size=8,
    micro_batch=8,
    epochs=1000,
)
PROXY = replace(CE, loss="proxy")
LOSSES = {
    "CE untrained": Training(READS_DOT),
    "proxy untrained": Training(READS_COSINE),
    **{
        f"{loss} {negatives}": Training(reads, replace(config, negatives=negatives))
        for negatives in ("random", "mixed")
        for loss, config, reads in (("CE", CE, READS_DOT), ("proxy", PROXY, READS_COSINE))
    },
}
NIL = {
    "CE untrained": Training(READS_DOT),
    "proxy untrained": Training(READS_COSINE),
    "CE": Training(READS_DOT, replace(CE, negatives="random")),
    "CE over cosines": Training(READS_COSINE, replace(CE, negatives="random")),
    **{
        f"proxy {margin}": Training(READS_COSINE, replace(PROXY, negatives="random", margin=margin))
        for margin in (0.0, 0.01, 0.05, 0.1)
    },
}
WAYS = ("random", "mixed")
PAIRS = [
    *((f"proxy {way}", f"CE {way}") for way in WAYS),
    *((f"{loss} mixed", f"{loss} random") for loss in ("CE", "proxy")),
]
WITH_NIL = ("auPR", "precision", "recall", "NIL F1", "recall@1 with NIL", f"recall@{CANDIDATES} with NIL")


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a precision-recall curve."""

    recall: Floats
    precision: Floats

    @classmethod
    def of(cls, points: dict[str, list[float]]) -> Self:
        """Read what a cell keeps."""
        return cls(np.array(points["recall"]), np.array(points["precision"]))


def nil(data: Data, encoder: arbo.DualEncoder) -> Row:
    """Table 4 of the paper, and the curve."""
    linker = arbo.Linker(data.kb, encoder, arbo.LinkerConfig("independent", candidates=CANDIDATES))
    dev, test = (linker.retrieve(part, k=1) for part in (data.dev, data.test))
    curves = []
    for part, retrieval in ((data.dev, dev), (data.test, test)):
        gold = NilGold.of(Part(part, data.kb))
        nearest = -retrieval.entities.dissimilarity[:, 0].astype(np.float64)
        curves.append(nil_curve(gold.is_nil, nearest, annotated=gold.annotated))
    shown = np.unique(np.linspace(0, len(curves[1].recall) - 1, 300).astype(np.int64))
    points = {"recall": curves[1].recall[shown].tolist(), "precision": curves[1].precision[shown].tolist()}
    return by_threshold(Part(data.test, data.kb), test, -curves[0].best.threshold) | {"curve": points}


TABLES = {
    "losses": (Trainings("proxy_loss", LOSSES, recalls), "BC5CDR disease"),
    "nil": (Trainings("proxy_loss_nil", NIL, nil), "Disease Ontology"),
}


def record_all() -> None:
    """Record every cell that is there, and plot."""
    PLOTS.mkdir(exist_ok=True)
    cells, with_nil = (trainings.read() for trainings, _ in TABLES.values())
    rows, nil_rows = means(cells), means(with_nil)
    figures = {
        key(row["corpus"], row["training"], row["steps"], name): row[name]
        for own, names in ((rows, (RECALL[0], RECALL[-1])), (nil_rows, WITH_NIL))
        for row in own
        for name in names
    }
    gradients = []
    for (corpus, steps), own in first_seeds(cells).items():
        norms = {cell["training"]: np.array(cell["gradients"]) for cell in own if cell["gradients"]}
        for name, values in norms.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            row = {"corpus": corpus, "steps": steps, "training": name}
            gradients.append(
                row | {"median": float(middle), "quartile distance / median": float((high - low) / middle)}
            )
        for way in WAYS:
            shown = {loss: _smoothed(norms[f"{loss} {way}"]) for loss in ("CE", "proxy") if f"{loss} {way}" in norms}
            if shown:
                file = PLOTS / f"{key('gradients', corpus, steps, way)}.svg"
                plot_steps(np.arange(steps - 9), shown, file, xlabel="step", ylabel="gradient norm")
    for (corpus, steps), own in first_seeds(with_nil).items():
        curves = {cell["training"]: Curve.of(cell["scores"]["curve"]) for cell in own}
        plot_precision_recall(curves, PLOTS / f"{key('nil', corpus, steps)}.svg")
    tables = {
        "losses": columns(rows, [*RECALL, *(f"recall@{k} {part}" for k in (1, 64) for part in ("seen", "unseen"))]),
        "against": differences(cells, PAIRS),
        "gradients": gradients,
        "NIL by threshold": columns(nil_rows, WITH_NIL),
    }
    record("proxy_loss", figures, tables, cells=[*cells, *with_nil])


def first_seeds(cells: list[Cell]) -> dict[tuple[str, int], list[Cell]]:
    """Group the cells of the first seed by corpus and steps."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        if cell["seed"] == 0:
            found.setdefault((cell["corpus"], cell["steps"]), []).append(cell)
    return found


def _smoothed(norms: Floats, width: int = 10) -> Floats:
    smoothed: Floats = np.convolve(norms, np.full(width, 1 / width), "valid")
    return smoothed


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = options(__doc__, {**LOSSES, **NIL}, [corpus for _, corpus in TABLES.values()], steps=100)
    parser.add_argument("--part", choices=TABLES, help="default: both")
    asked = parser.parse_args()
    for part, (trainings, corpus) in TABLES.items():
        if not asked.record and asked.part in (None, part):
            chosen = [name for name in trainings.known if name in (asked.training or trainings.known)]
            trainings.fill(asked.corpus or [corpus], chosen, asked.seeds, asked.steps)
    record_all()


if __name__ == "__main__":
    main()

r"""The papers at settings nearer their own: in context, until the trainings part, on the corpora with large clusters.

**ArboEL** (its tables 1 and 5): the strategies of `arborescence_training.py` on CRAFT's anatomy and cells together
(14,233 training mentions, the largest clusters there are here), where a mention is the mean of its own tokens, read
with 8 words on either side, and an entity its name. An epoch in batches of 16, 4 negatives, cosine times 20, learning
rate 5e-5, bfloat16; what is near is chosen again in the middle. CRAFT's development part serves as test, the last tenth
of its training documents as dev.

**recall**, **linking**, **clusters**: as in `arborescence_training.py`. **against**: the difference to `in-batch` over
the same documents, with the ends of its 95 % bootstrap interval.

`--corpus`, `--training`, `--seeds` and `--steps` choose cells; each is kept in `cells/`, and what is there is
recorded: `--record` does that alone.
"""

from dataclasses import replace

from arborescence_training import ARI, CONFIGS, scores
from library.cells import key
from library.medic import ONE_AN_ENTITY, UNTRAINED
from library.results import Figures, record
from library.trainings import PARTS, RECALL, Training, Trainings, columns, differences, means, options

from clustering import METHODS

CORPUS = "CRAFT UBERON and CL"
IN_CONTEXT = replace(ONE_AN_ENTITY, mention="[CLS] {left} {mention} {right} [SEP]", context=8, pooling="mention")
TRAININGS = Trainings(
    "papers_arboel",
    {UNTRAINED: Training(IN_CONTEXT)}
    | {
        name: Training(IN_CONTEXT, replace(config, refresh=445, precision="bfloat16"))
        for name, config in CONFIGS.items()
    },
    scores,
)


def record_all() -> None:
    """Record every cell that is there."""
    cells = TRAININGS.read()
    rows = means(cells)
    figures: Figures = {
        key(row["corpus"], row["training"], row["steps"], name): row[name]
        for row in rows
        for name in (*RECALL, *METHODS, *ARI)
    }
    tables = {
        "recall": columns(rows, RECALL),
        "linking": columns(rows, (f"{method}{part}" for method in METHODS for part in PARTS)),
        "clusters": columns(rows, ARI),
        "against": differences(cells, [(name, "in-batch") for name in TRAININGS.known if name != "in-batch"]),
    }
    record("papers", figures, tables, cells=cells)


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    asked = options(__doc__, TRAININGS.known, [CORPUS], steps=890).parse_args()
    if not asked.record:
        TRAININGS.fill(asked.corpus or [CORPUS], asked.training or list(TRAININGS.known), asked.seeds, asked.steps)
    record_all()


if __name__ == "__main__":
    main()

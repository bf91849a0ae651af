r"""The papers at settings nearer their own: their rates, batches and epochs, where two cores have time for them.

**arboel** (ArboEL's tables 1 and 5): the strategies of `arborescence_training.py` on CRAFT's anatomy and cells
together (12,415 training mentions, the largest clusters there are here), where a mention is the mean of its own
tokens, read with 8 words on either side, and an entity its name. 890 steps of 16 are 1.15 epochs; 4 negatives, cosine
times 20, learning rate 5e-5, bfloat16; what is near is chosen again after 445 steps and an epoch. CRAFT's development
part serves as test, the last tenth of its training documents as dev. **recall**, **linking**, **clusters**,
**method**: as in `arborescence_training.py`.

**names**: the three of them whose positive is the entity, on names alone; cells of `arborescence_training.py`.

**second** (its table 3): cross-encoders trained on 16 candidates of these first stages, in batches of 2 at 2e-5, the
paper's; 1,500 steps, a quarter of an epoch. `own`, `SELF` and `UNION` are those of `cross_encoder.py`.

**amh** (adaptive mixup, table 2): the trainings of `adaptive_mixup.py` at the paper's batch (64), rate (2e-5) and least
number of epochs (5), on the diseases of BC5CDR, in bfloat16; mentions without context.

**pel** and **nil** (the proxy paper, tables 2 and 4): the trainings of `proxy_loss.py` at the paper's batch (32), rate
(1e-5) and, for NIL, epochs (7; else 6, an hour), with 16 negatives, in bfloat16; mentions without context. NIL is of
the same diseases against the Disease Ontology, with random negatives.

**presets**: each for an epoch of the embedded sample as it stands, with two towers, in context: recall@1 on the last 30
documents before and after, the mean loss of the first and of the last quarter of the steps, seconds a step.

**against**: the difference over the same documents, with the ends of its 95 % bootstrap interval; means over the seeds.

`--part`, `--corpus`, `--training`, `--seeds` and `--steps` choose cells (**second** and **presets** have to be asked
for); each is kept in `cells/`, and what is there is recorded: `--record` does that alone.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import adaptive_mixup
import cross_encoder
import numpy as np
import proxy_loss
from arborescence_training import AGAINST, ARI, CONFIGS, TRAININGS as ON_NAMES, scores
from library.cells import Cell, Cells, key
from library.corpora import Data
from library.folders import MODELS
from library.medic import ONE_AN_ENTITY, UNTRAINED
from library.results import Figures, Row, record
from library.timing import seconds
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
    recalls,
)
from library.union import union, with_gold

import arbo
from arbo.data.gold import Gold
from arbo.retrieval.reranking import rerank
from arbo.training.presets import PRESETS
from clustering import METHODS

CORPUS = "CRAFT UBERON and CL"
IN_CONTEXT = replace(ONE_AN_ENTITY, mention="[CLS] {left} {mention} {right} [SEP]", context=8, pooling="mention")
FIRST = ("in-batch", "k-NN", "arborescence")
"""The first stages of table 3."""
BY_NEGATIVES = ("in-batch", "k-NN", "in-batch and k-NN")
"""Those whose positives are the entity."""
TRAININGS = Trainings(
    "papers_arboel",
    {UNTRAINED: Training(IN_CONTEXT)}
    | {
        name: Training(IN_CONTEXT, replace(config, refresh=445, precision="bfloat16"))
        for name, config in CONFIGS.items()
    },
    scores,
    kept=FIRST,
)
AT_AMH: dict[str, Any] = {"batch_size": 64, "micro_batch": 64, "learning_rate": 2e-5, "precision": "bfloat16"}
AMH = Trainings(
    "papers_amh",
    {
        name: Training(reads, config and replace(config, **AT_AMH))
        for name, (reads, config) in adaptive_mixup.MAIN.items()
    },
    recalls,
)


def _at_the_papers(training: Training) -> Training:
    """Give a training of `proxy_loss.py` the paper's batch and rate."""
    reads, config = training
    changed = config and replace(
        config, n_negatives=16, batch_size=32, micro_batch=32, learning_rate=1e-5, precision="bfloat16"
    )
    return Training(reads, changed)


PEL = Trainings(
    "papers_pel",
    {name: _at_the_papers(own) for name, own in proxy_loss.LOSSES.items()},
    recalls,
)
NIL = Trainings("papers_nil", {name: _at_the_papers(own) for name, own in proxy_loss.NIL.items()}, proxy_loss.nil)


class Part(NamedTuple):
    """Trainings of a paper, on what, and how long."""

    trainings: Trainings
    corpus: str
    steps: int
    against: list[tuple[str, str]]


TABLES = {
    "arboel": Part(
        TRAININGS,
        CORPUS,
        890,
        [*AGAINST, ("arborescence, CE", "arborescence")],
    ),
    "names": Part(
        replace(ON_NAMES, known={name: ON_NAMES.known[name] for name in BY_NEGATIVES}), "BC5CDR disease", 250, AGAINST
    ),
    "amh": Part(
        AMH,
        "BC5CDR disease",
        325,
        [
            (f"{score} {way}", f"{score} random")
            for score in ("DUAL", "mean")
            for way in ("hard", "mixed", "BCE", "AMH")
        ],
    ),
    "pel": Part(PEL, "BC5CDR disease", 780, [(f"proxy {way}", f"CE {way}") for way in ("random", "mixed")]),
    "nil": Part(NIL, "Disease Ontology", 490, []),
}

# The second stage of ArboEL

READS = replace(cross_encoder.IN_CONTEXT, retrieval_weight=0.0)
CONFIG = arbo.RerankingConfig(epochs=1000, steps=1500, micro_batch=2, precision="bfloat16")
CANDIDATES = 16


def second(data: Data, cell: Cell, name: str) -> Row:
    """Train a cross-encoder on the candidates of one stage, and choose among those of all."""
    firsts = {first: cell | {"training": first, "steps": TABLES["arboel"].steps} for first in FIRST}
    stages = {first: arbo.Linker(data.kb, TRAININGS.encoder(data, of)) for first, of in firsts.items()}
    own = stages[cell["training"]]
    model = cross_encoder.train(READS, replace(CONFIG, seed=cell["seed"]), own, data.train, name)
    found = {first: stage.candidates(data.test, k=CANDIDATES) for first, stage in stages.items()}
    gold = Gold.of(data.test, data.kb).entities
    everything = rerank(model, with_gold(cross_encoder.widened(union(*found.values())), gold), data.test, data.kb)
    among = {
        "own": found[cell["training"]],
        "SELF": with_gold(cross_encoder.widened(found[cell["training"]]), gold),
        "UNION": everything,
    }
    first_stage = found[cell["training"]].evaluate(data.test, data.kb)
    scored = {
        setting: cross_encoder.limited(everything, candidates).evaluate(data.test, data.kb).accuracy
        for setting, candidates in among.items()
    }
    return {
        "scores": {"first stage": first_stage.accuracy, f"recall@{CANDIDATES}": first_stage.recall[CANDIDATES]} | scored
    }


SECOND = Cells(
    "papers_second",
    lambda cell: (READS, replace(CONFIG, seed=cell["seed"]), CANDIDATES, TRAININGS.known[cell["training"]]),
    TRAININGS.cells.place,
)

# The presets


LEARNT = 60
"""Documents of the sample that are trained on."""
MEASURED = ("recall@1 before", "recall@1 after", "loss at first", "loss at last", "seconds a step")


def preset(cell: Cell, name: str) -> Row:
    """Train a preset for an epoch of the sample."""
    training, reads = PRESETS[cell["training"]]
    documents, kb = arbo.load_sample()
    start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", reads).with_markers().with_two_towers()
    log: list[Row] = []
    run = arbo.RunOptions(on_log=log.append)
    config = replace(training, epochs=1, seed=cell["seed"])
    spent, model = seconds(arbo.train, start, documents[:LEARNT], kb, config=config, out=MODELS / name, options=run)
    loss = [line["loss"] for line in log if "loss" in line]
    quarter = max(1, len(loss) // 4)
    before, after = (
        arbo.Linker(kb, encoder, arbo.LinkerConfig("independent")).link(documents[LEARNT:]).evaluate().linking
        for encoder in (start, model)
    )
    assert before is not None
    assert after is not None
    return {
        "scores": {
            "recall@1 before": before.recall[1],
            "recall@1 after": after.recall[1],
            "loss at first": float(np.mean(loss[:quarter])),
            "loss at last": float(np.mean(loss[-quarter:])),
            "seconds a step": spent / len(loss),
        }
    }


PRESET_CELLS = Cells("papers_presets", lambda cell: PRESETS[cell["training"]], TRAININGS.cells.place)


def fill_second(chosen: list[str] | None, seeds: int) -> None:
    """Make the cells of the second stage."""
    for seed in range(seeds):
        for first in [first for first in FIRST if first in (chosen or FIRST)]:
            cell = {"corpus": CORPUS, "training": first, "steps": CONFIG.steps, "seed": seed}
            SECOND.keep(cell, partial(second, Data.of(CORPUS), cell))


def fill_presets(chosen: list[str] | None) -> None:
    """Make the cells of the presets."""
    n_learnt = len(arbo.load_sample()[0][:LEARNT].mentions)
    for name, (config, _) in PRESETS.items():
        if name in (chosen or PRESETS):
            steps = -(-n_learnt // config.batch_size)
            cell = {"corpus": "sample", "training": name, "steps": steps, "seed": 0}
            PRESET_CELLS.keep(cell, partial(preset, cell))


def record_all() -> None:
    """Record every cell that is there."""
    cells = {name: part.trainings.read() for name, part in TABLES.items()}
    cells |= {"second": SECOND.read(), "presets": PRESET_CELLS.read()}
    rows = {name: means(own) for name, own in cells.items()}
    shown = {
        "arboel": (*RECALL, *METHODS, *ARI),
        "names": (*RECALL_BY_PART, *ARI),
        "nil": proxy_loss.WITH_NIL,
        "second": ("first stage", f"recall@{CANDIDATES}", "own", "SELF", "UNION"),
        "presets": MEASURED,
    }
    figures: Figures = {
        key(row["corpus"], row["training"], row["steps"], name): row[name]
        for part, own in rows.items()
        for row in own
        for name in shown.get(part, (RECALL[0], RECALL[-1]))
    }
    arboel = rows["arboel"]
    tables = {
        "recall": columns(arboel, RECALL_BY_PART),
        "linking": columns(arboel, (f"{method}{part}" for method in METHODS for part in PARTS)),
        "clusters": columns(arboel, ARI),
        "method": gains(cells["arboel"]),
        **{name: columns(own, shown.get(name, RECALL)) for name, own in rows.items() if name != "arboel"},
        "against": [row for name, part in TABLES.items() for row in differences(cells[name], part.against)],
    }
    record("papers", figures, tables, cells=[cell for own in cells.values() for cell in own])


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    known = dict.fromkeys(name for part in TABLES.values() for name in part.trainings.known)
    parser = options(__doc__, [*known, *PRESETS], ["the part's own"], steps=None)
    parser.add_argument("--part", choices=[*TABLES, "second", "presets"], help="default: all but the last two")
    asked = parser.parse_args()
    for name, part in TABLES.items():
        chosen = [own for own in part.trainings.known if own in (asked.training or part.trainings.known)]
        if not asked.record and asked.part in (None, name):
            part.trainings.fill(asked.corpus or [part.corpus], chosen, asked.seeds, asked.steps or part.steps)
    if not asked.record and asked.part == "second":
        fill_second(asked.training, asked.seeds)
    if not asked.record and asked.part == "presets":
        fill_presets(asked.training)
    record_all()


if __name__ == "__main__":
    main()

"""Training without a knowledge base: entities of ECB+, gold mentions in context, clusters as the only annotation.

**clusters**: `untrained` is all-MiniLM-L6-v2, which takes the mean over the tokens of the mention, with up to 25 words
of its sentence on either side; the others start there, and are trained by `arbo.train` without a knowledge base on the
training part. `arborescence`: the positive of a mention is its parent in the minimum spanning tree of its gold cluster;
`1nn`: its nearest mate; `1rand`: a random mate. Batches of 16, the four nearest wrong mentions as negatives,
cross-entropy over cosines times 20, learning rate 5e-5. The threshold and k are chosen on the development part by ARI
(`ARI dev`); scores are those of the test part, without topics.

`--positives`, `--steps` and `--seeds` choose cells; each cell is kept in the cache folder, and what is there is
recorded: `--record` does that alone. Figures are means over the seeds that are there.

Data: `../shared/data`, or the folder that the environment variable ARBO_DATA names.
"""

import shutil
from dataclasses import replace
from functools import partial
from statistics import fmean

from library.cells import Cell, Cells, key
from library.command import parser_of
from library.folders import CACHE, DATA, MODELS
from library.results import Row, record

import arbo
from arbo.data.corpus import Corpus
from arbo.progress import bars
from arbo.training.config import WITHOUT_KB

UNTRAINED = "untrained"
POSITIVES = (UNTRAINED, "arborescence", "1nn", "1rand")
SCORES = ("CoNLL", "B-cubed", "ARI")
READS = arbo.EncoderConfig(
    mention="[CLS] {left} {mention} {right} [SEP]", pooling="mention", context=25, within_line=True
)


def config_of(cell: Cell) -> arbo.TrainingConfig | None:
    """Return the training settings of a cell; None for the start as it is."""
    if cell["positives"] == UNTRAINED:
        return None
    return replace(WITHOUT_KB, **{"batch_size": 16, "micro_batch": 16, **cell})


CELLS = Cells("no_kb", lambda cell: [READS, config_of(cell)])


def scored(parts: dict[str, Corpus], cell: Cell, name: str) -> Row:
    """Train and score; the model is forgotten."""
    encoder = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", READS, cache=CACHE)
    config, out = config_of(cell), MODELS / name
    if config is not None:
        MODELS.mkdir(parents=True, exist_ok=True)
        arbo.train(encoder, parts["train"], out=out, config=config, options=arbo.RunOptions(announce=bars))
        encoder = arbo.DualEncoder.from_pretrained(out, cache=CACHE)
    linker = arbo.Linker(None, encoder).tune(parts["dev"])
    assert linker.tuning is not None
    scores = linker.discover(parts["test"]).evaluate().as_dict()
    shutil.rmtree(out, ignore_errors=True)
    coreference = scores["coreference"]
    found = {"CoNLL": coreference["conll"], "B-cubed": coreference["b3"]["f1"], "ARI": scores["clustering"]["ari"]}
    return {"ARI dev": linker.tuning.best.score, **found}


def record_all() -> None:
    """Record every cell that is there."""
    cells = sorted(CELLS.read(), key=lambda cell: (cell["steps"], POSITIVES.index(cell["positives"]), cell["seed"]))
    rows = [{name: cell[name] for name in ("positives", "steps", "seed", "ARI dev", *SCORES)} for cell in cells]
    named: dict[str, list[float]] = {}
    for row in rows:
        for score in SCORES:
            named.setdefault(key("ecb+_entities", row["positives"], row["steps"], score), []).append(row[score])
    figures = {name: fmean(values) for name, values in named.items()}
    record("no_kb", figures, {"clusters": rows}, cells=cells)


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = parser_of(__doc__)
    parser.add_argument("--positives", action="append", choices=POSITIVES, help="default: all")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    asked = parser.parse_args()
    if not asked.record:
        parts = {
            part: arbo.read_documents(DATA / f"ecbplus/ECB_{part.capitalize()}_corpus.txt", "ecbplus")
            for part in ("train", "dev", "test")
        }
        for seed in range(asked.seeds):
            for positives in asked.positives or POSITIVES:
                if seed and positives == UNTRAINED:
                    continue
                cell = {"positives": positives, "steps": 0 if positives == UNTRAINED else asked.steps, "seed": seed}
                CELLS.keep(cell, partial(scored, parts, cell))
    record_all()


if __name__ == "__main__":
    main()

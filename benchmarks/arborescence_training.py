r"""The trainings of the ArboEL paper: what mentions are drawn towards, and what they are pushed away from.

`in-batch` and `k-NN` are the paper's baselines (the gold entity is the positive, negatives are entities, with cross-
entropy); `arborescence`, `1-NN` and `1-rand` its own (half of the negatives are mentions, its loss); `arborescence,
CE` is the ablation with plain cross-entropy. All start from all-MiniLM-L6-v2 reading bare names, one vector a name,
compared by cosine (times 20 in the loss), learning rate 2e-5, batches of 32, 10 negatives.

recall@k is over all test mentions with a concept, one outside the knowledge base counting as a miss. `independent` to
`undirected` are accuracies, k and thresholds chosen on the development part for each method; `CORPUS.accuracy` is
that of the method and training that are best on the development part. ARI is of clusters without a knowledge base,
the threshold chosen on the development part: ALL, ALL/UNSEEN, UNSEEN ONLY of the paper's section 3.5. `untrained` is
the start. CRAFT's development part serves as test; the last tenth of its training documents as dev.

`--corpus`, `--training`, `--seeds` and `--steps` choose cells; each cell is kept in the cache folder, so that the
table can be made in several goes, and what is there is recorded: `--record` does that alone. The whole table, for a
GPU: `python benchmarks/arborescence_training.py --steps 2000 --seeds 3`.

Data: `../shared/data`, or the folder that ARBO_DATA names; cache: the folder that ARBO_CACHE names (default: `.cache`
beside this script).
"""

import argparse
import json
import shutil
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from corpora import BC5CDR, CACHE, JOBS, Job
from report import record

import arbo
from arbo.documents import Corpus
from clustering import METHODS

KS = (1, 2, 4, 8, 16, 32, 64)
BASE = arbo.TrainingConfig(batch_size=32, learning_rate=2e-5, scale=20.0, n_negatives=10, epochs=1000)
TRAININGS = {
    "in-batch": replace(BASE, positives="entity", negatives="in-batch", loss="cross-entropy"),
    "k-NN": replace(BASE, positives="entity", negatives="knn", loss="cross-entropy"),
    "arborescence": BASE,
    "1-NN": replace(BASE, positives="1nn"),
    "1-rand": replace(BASE, positives="1rand"),
    "arborescence, CE": replace(BASE, loss="cross-entropy"),
}
UNTRAINED = "untrained"


@dataclass(frozen=True, slots=True)
class Data:
    """Training, development and test part, and what they are linked to."""

    train: Corpus
    dev: Corpus
    test: Corpus
    kb: arbo.KnowledgeBase

    @classmethod
    def of(cls, job: Job) -> "Data":
        """Read a corpus."""
        test = job.documents(job.test)
        if job.name.startswith("CRAFT"):
            train = job.documents(job.dev)
            cut = len(train) - len(train) // 10
            return cls(train[:cut], train[cut:], test, job.knowledge_base())
        files = {"NCBI disease": "ncbi_disease/NCBItrainset_corpus.txt"}
        path = files.get(job.name, BC5CDR[1].replace("Development", "Training"))
        return cls(job.documents(path), job.documents(job.dev), test, job.knowledge_base())


def train(job: Job, data: Data, training: str, seed: int, steps: int) -> dict[str, Any]:
    """Train and score one cell."""
    start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2")
    if training == UNTRAINED:
        return scores(data, start)
    out = CACHE / "models" / key(job.name, training, seed, steps)
    config = replace(TRAININGS[training], steps=steps, seed=seed)
    from arbo.progress import bars

    model = arbo.train(start, data.train, data.kb, dev=data.dev, config=config, out=out, announce=bars)
    found = scores(data, model)
    shutil.rmtree(out)
    return found


def scores(data: Data, encoder: arbo.DualEncoder) -> dict[str, Any]:
    """Score a model on the test part; what is chosen is chosen on dev."""
    linker = arbo.Linker(data.kb, encoder, arbo.LinkerConfig(candidates=max(KS), k=8))
    tuned = linker.tune(data.dev)
    assert tuned.tuning is not None
    found: dict[str, Any] = {}
    for method in METHODS:
        best = max((t for t in tuned.tuning.trials if t.method == method), key=lambda trial: trial.score)
        config = arbo.LinkerConfig(method, best.k, best.entity_threshold, best.mention_threshold, candidates=max(KS))
        evaluation = tuned.configured(config=config).link(data.test).evaluate(train=data.train)
        linking = evaluation.linking
        assert linking is not None
        assert linking.seen is not None
        assert linking.unseen is not None
        found[method], found[f"{method} dev"] = linking.accuracy, best.score
        found[f"{method} seen"], found[f"{method} unseen"] = linking.seen.accuracy, linking.unseen.accuracy
        found |= {f"recall@{k}": linking.recall[k] for k in KS}
    alone = arbo.Linker(None, encoder).tune(data.dev)
    everything = alone.discover(data.test).evaluate(train=data.train)
    unseen = alone.discover(data.test.unseen_in(data.train)).evaluate()
    found["ARI all"] = everything.clustering["ari"] if everything.clustering else 0.0
    found["ARI all/unseen"] = everything.clustering_unseen["ari"] if everything.clustering_unseen else 0.0
    found["ARI unseen only"] = unseen.clustering["ari"] if unseen.clustering else 0.0
    return found


def key(corpus: str, training: str, seed: int, steps: int) -> str:
    """Name of a cell."""
    return f"{corpus}.{training}.{steps}.{seed}".lower().replace(" ", "_").replace(",", "")


def cells() -> list[dict[str, Any]]:
    """Read the cells that are there."""
    return [json.loads(file.read_text("utf-8")) for file in sorted((CACHE / "arborescence_training").glob("*.json"))]


def table(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean over the seeds of each cell, and of the accuracy its spread."""
    rows = []
    for corpus, steps, training in dict.fromkeys((c["corpus"], c["steps"], c["training"]) for c in found):
        own = [c["scores"] for c in found if (c["corpus"], c["steps"], c["training"]) == (corpus, steps, training)]
        row: dict[str, Any] = {"corpus": corpus, "steps": steps, "training": training, "seeds": len(own)}
        row |= {name: float(np.mean([scores[name] for scores in own])) for name in own[0]}
        row["spread"] = float(np.ptp([scores["independent"] for scores in own]))
        rows.append(row)
    return rows


def histogram(data: Data) -> dict[str, int]:
    """Count the gold clusters of the training part by size (figure 2 of the paper)."""
    sizes = Counter(Counter(id_ for m in data.train.mentions for id_ in m.gold or () if id_ in data.kb).values())
    bounds = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    return {
        f"{low}-{high - 1}" if high - low > 1 else str(low): sum(n for size, n in sizes.items() if low <= size < high)
        for low, high in zip(bounds, (*bounds[1:], 10**9), strict=True)
    }


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    names = [job.name for job in JOBS if job.name in ("NCBI disease", "BC5CDR disease") or "CRAFT" in job.name]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", action="append", choices=names, help="default: NCBI, BC5CDR and CRAFT UBERON")
    parser.add_argument("--training", action="append", choices=[UNTRAINED, *TRAININGS], help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    asked = parser.parse_args()
    folder = CACHE / "arborescence_training"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = []
    for job in JOBS:
        if job.name not in (asked.corpus or ("NCBI disease", "BC5CDR disease", "CRAFT UBERON")):
            continue
        data = Data.of(job)
        sizes.append({"corpus": job.name, **histogram(data)})
        for seed in range(0 if asked.record else asked.seeds):
            for training in asked.training or (UNTRAINED, *TRAININGS):
                file = folder / f"{key(job.name, training, seed, asked.steps)}.json"
                if file.exists() or (training == UNTRAINED and seed):
                    continue
                found = train(job, data, training, seed, asked.steps)
                cell = {"corpus": job.name, "training": training, "seed": seed, "steps": asked.steps, "scores": found}
                file.write_text(json.dumps(cell), "utf-8")
                print(json.dumps(cell), file=sys.stderr)
    rows = table(cells())
    best: dict[str, tuple[float, float]] = {}
    for row in rows:
        name = f"{row['corpus']}.accuracy".lower().replace(" ", "_")
        best[name] = max(best.get(name, (0.0, 0.0)), *((row[f"{method} dev"], row[method]) for method in METHODS))
    figures = {name: accuracy for name, (_, accuracy) in best.items()} | {
        f"{key(row['corpus'], row['training'], 0, row['steps'])}.{name}".replace(" ", "_"): value
        for row in rows
        for name, value in row.items()
        if name.startswith(("recall", "ARI")) or name in METHODS
    }
    tables = {
        "trainings": rows,
        "cluster sizes": sizes,
        "settings": [{"training": n, **asdict(c)} for n, c in TRAININGS.items()],
    }
    record(
        "arborescence_training",
        f"python benchmarks/arborescence_training.py --steps {asked.steps}",
        figures,
        tables=tables,
    )


if __name__ == "__main__":
    main()

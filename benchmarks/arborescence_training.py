r"""The trainings of the ArboEL paper: what mentions are drawn towards, and what they are pushed away from.

**recall**, **linking**, **clusters**: `in-batch` and `k-NN` are the paper's baselines (the gold entity is the positive,
negatives are entities, with cross-entropy); `arborescence`, `1-NN` and `1-rand` its own (half of the negatives are
mentions, its loss); `arborescence, CE` is the ablation with plain cross-entropy; `untrained` is the start, all-MiniLM-
L6-v2. One vector an entity, its name; mentions are read without context; cosine, times 20 in the loss, learning rate
5e-5. recall@k is over all test mentions with a concept, one outside the knowledge base counting as a miss;
`independent` to `undirected` are accuracies, k and thresholds chosen on the development part for each method. ARI is of
clusters without a knowledge base, the threshold chosen on the development part: ALL, ALL/UNSEEN, UNSEEN ONLY of the
paper's section 3.5. Means over the seeds. CRAFT's development part serves as test; the last tenth of its training
documents as dev.

**against in-batch**: the difference to `in-batch` over the same documents, whose counts are means over the seeds, with
the ends of its 95 % bootstrap interval.

**cluster sizes**: gold clusters of the training part by their number of mentions (figure 2 of the paper).

**steps to MEDIC**: what brings a general encoder to NCBI disease and BC5CDR diseases, one vector a name. `untrained`;
`aligned`: trained on the synonyms of MEDIC as mentions of the entity's own name (in-batch negatives); `trained`: from
there on the training parts of both corpora, the nearest of the entity's names as positive, the nearest wrong ones as
negatives. `names`: those of the KB, or also those that the training documents give its entities
(`KnowledgeBase.with_names_of`). `CORPUS.accuracy` is that of the method and step that are best on the development part.

`--part`, `--corpus`, `--training`, `--seeds` and `--steps` choose cells; each cell is kept in the cache folder, so that
the tables can be made in several goes, and what is there is recorded: `--record` does that alone. The whole table, for
a GPU: `python benchmarks/arborescence_training.py --corpus "NCBI disease" --corpus "BC5CDR disease" --corpus "CRAFT
UBERON" --steps 2000`.

Data: `../shared/data`, or the folder that ARBO_DATA names; cache: the folder that ARBO_CACHE names (default: `.cache`
beside this script).
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpora import BC5CDR, CACHE, JOBS, Job
from report import record

import arbo
from arbo.documents import Corpus, Document, Mention
from arbo.evaluation import RECALL_AT, Evaluation
from arbo.progress import bars
from clustering import METHODS
from eval import LinkingCounts, Resampling, Summed
from eval.figures import FloatArray

ONE_A_NAME = arbo.EncoderConfig()
ONE_AN_ENTITY = replace(ONE_A_NAME, entity_view="whole")
BASE = arbo.TrainingConfig(
    batch_size=16, micro_batch=16, learning_rate=5e-5, scale=20.0, n_negatives=4, epochs=1000, steps=250
)
TRAININGS = {
    "in-batch": replace(BASE, positives="entity", negatives="in-batch", loss="cross-entropy"),
    "k-NN": replace(BASE, positives="entity", negatives="knn", loss="cross-entropy"),
    "arborescence": BASE,
    "1-NN": replace(BASE, positives="1nn"),
    "1-rand": replace(BASE, positives="1rand"),
    "arborescence, CE": replace(BASE, loss="cross-entropy"),
}
UNTRAINED = "untrained"
MEDIC_STEPS = {
    "aligned": replace(TRAININGS["in-batch"], batch_size=64, micro_batch=64, epochs=1, steps=200),
    "trained": replace(TRAININGS["k-NN"], batch_size=32, micro_batch=32, epochs=1, steps=None),
}
KNOWN = {job.name: job for job in JOBS if job.name in ("NCBI disease", "BC5CDR disease") or "CRAFT" in job.name}
STEPS = (UNTRAINED, *MEDIC_STEPS)
CELLS, MODELS = CACHE / "arborescence_training", CACHE / "models"
COMPARED = {"accuracy": "recall@1", "recall@64": "recall@64"}
"""Lines of a report without thresholds, and what they are then."""
WHOSE = ("corpus", "training", "step", "names", "steps", "seeds")
RECALL = tuple(f"recall@{k}" for k in RECALL_AT)
PARTS = ("", " seen", " unseen")
ARI = ("ARI all", "ARI all/unseen", "ARI unseen only")


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


def made_with(cell: dict[str, Any]) -> str:
    """Hash the settings of a cell: what was made with others is made again, and not recorded."""
    parts: tuple[Any, ...] = (ONE_A_NAME,)
    if "training" in cell:
        config = TRAININGS.get(cell["training"])
        parts = (ONE_AN_ENTITY, config and replace(config, steps=cell["steps"], seed=cell["seed"]))
    elif cell["step"] == "aligned":
        parts = (ONE_AN_ENTITY, MEDIC_STEPS["aligned"])
    elif cell["step"] == "trained":
        parts = (made_with({"step": "aligned"}), ONE_A_NAME, MEDIC_STEPS["trained"])
    return hashlib.sha256(json.dumps(parts, default=asdict).encode()).hexdigest()[:8]


def trained(data: Data, cell: dict[str, Any]) -> dict[str, Any]:
    """Train and score one cell of the trainings."""
    start = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", ONE_AN_ENTITY, cache=CACHE)
    if cell["training"] == UNTRAINED:
        return scores(data, start)
    config = replace(TRAININGS[cell["training"]], steps=cell["steps"], seed=cell["seed"])
    out = MODELS / key(*cell.values(), made_with(cell))
    arbo.train(start, data.train, data.kb, config=config, out=out, announce=bars)
    return scores(data, arbo.DualEncoder.from_pretrained(out, cache=CACHE))


def medic_model(step: str, jobs: list[Data]) -> Path | str:
    """Return the model of a step to MEDIC, made if it is not there; ``jobs``: NCBI disease and BC5CDR disease."""
    if step == UNTRAINED:
        return "all-MiniLM-L6-v2"
    out, kb = MODELS / key("medic", step, made_with({"step": step})), jobs[0].kb
    if not out.is_dir() and step == "aligned":
        start = arbo.DualEncoder.from_pretrained(medic_model(UNTRAINED, jobs), ONE_AN_ENTITY)
        own_names = arbo.KnowledgeBase(replace(entity, aliases=()) for entity in kb)
        arbo.train(start, synonyms(kb), own_names, config=MEDIC_STEPS[step], out=out, announce=bars)
    elif not out.is_dir():
        start = arbo.DualEncoder.from_pretrained(medic_model("aligned", jobs), ONE_A_NAME, cache=CACHE)
        documents = [document for data in jobs for document in data.train]
        arbo.train(start, documents, kb, config=MEDIC_STEPS[step], out=out, announce=bars)
    return out


def synonyms(kb: arbo.KnowledgeBase) -> Corpus:
    """Make a document of each alias: the mention is all of it."""

    def documents() -> Iterator[Document]:
        for entity in kb:
            for place, alias in enumerate(dict.fromkeys(entity.aliases)):
                id_ = f"{entity.id}/{place}"
                if alias != entity.name:
                    yield Document(id_, alias, (Mention(id_, id_, ((0, len(alias)),), alias, None, (entity.id,)),))

    return Corpus(documents())


def scores(data: Data, encoder: arbo.DualEncoder, *, discover: bool = True) -> dict[str, Any]:
    """Score a model on the test part; what is chosen is chosen on dev."""
    config = arbo.LinkerConfig("independent", 8, None, None, candidates=max(RECALL_AT))
    tuned = arbo.Linker(data.kb, encoder, config).tune(data.dev)
    assert tuned.tuning is not None
    nearest = tuned.configured(config=config).link(data.test).evaluate(train=data.train)
    found: dict[str, Any] = {
        f"{line.name} by document": line.score.counts.tolist()
        for line in nearest.lines
        if line.name in COMPARED and isinstance(line.score, Summed)
    }
    for name, counts in _parts(nearest):
        found |= {f"recall@{k}{name}": counts.recall[k] for k in RECALL_AT}
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
        found |= {f"{method}{name}": counts.accuracy for name, counts in _parts(evaluation)}
    if discover:
        alone = arbo.Linker(None, encoder).tune(data.dev)
        everything = alone.discover(data.test).evaluate(train=data.train)
        unseen = alone.discover(data.test.unseen_in(data.train)).evaluate()
        settings = everything.clustering, everything.clustering_unseen, unseen.clustering
        for name, clustering in zip(ARI, settings, strict=True):
            found[name] = clustering["ari"] if clustering else 0.0
    return found


def _parts(evaluation: Evaluation) -> Iterator[tuple[str, LinkingCounts]]:
    """Name the counts of all mentions, and of those whose entity training has seen or not."""
    assert evaluation.linking is not None
    for name, counts in zip(
        PARTS, (evaluation.linking.overall, evaluation.linking.seen, evaluation.linking.unseen), strict=True
    ):
        assert counts is not None
        yield name, counts


def key(*parts: object) -> str:
    """Name of a cell."""
    return ".".join(str(part).lower().replace(" ", "_").replace(",", "") for part in parts)


def keep(cell: dict[str, Any], make: Callable[[], dict[str, Any]]) -> None:
    """Make the scores of a cell and keep them, unless they are there."""
    file = CELLS / f"{key(*cell.values(), made_with(cell))}.json"
    if not file.exists():
        file.write_text(json.dumps(cell | {"made_with": made_with(cell), "scores": make()}), "utf-8")
        print(file.name, file=sys.stderr)


def cells(column: str) -> list[dict[str, Any]]:
    """Read the cells that have such a column and were made with the settings of today."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted(CELLS.glob("*.json"))]
    return [cell for cell in found if column in cell and cell.pop("made_with") == made_with(cell)]


def groups(found: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Put together the scores of cells that differ in the seed alone, in the order of the trainings."""
    order = [UNTRAINED, *TRAININGS]
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in sorted(found, key=lambda cell: (cell["corpus"], cell["steps"], order.index(cell["training"]))):
        rows.setdefault((cell["corpus"], cell["steps"], cell["training"]), []).append(cell["scores"])
    for (corpus, steps, training), own in rows.items():
        yield {"corpus": corpus, "steps": steps, "training": training, "seeds": len(own)}, own


def table(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean over the seeds of each score."""
    return [
        row | {name: float(np.mean([s[name] for s in own])) for name, value in own[0].items() if type(value) is float}
        for row, own in groups(found)
    ]


def differences(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare each training with `in-batch`."""
    counts = {
        (row["corpus"], row["steps"], row["training"]): {
            name: np.mean([s[f"{line} by document"] for s in own], axis=0) for line, name in COMPARED.items()
        }
        for row, own in groups(found)
    }
    rows = []
    for (corpus, steps, training), own in counts.items():
        base = counts.get((corpus, steps, "in-batch"))
        if base is None or training == "in-batch":
            continue
        row: dict[str, Any] = {"corpus": corpus, "steps": steps, "training": training}
        for name in COMPARED.values():
            gain = Summed(np.column_stack([own[name][:, 0] - base[name][:, 0], own[name][:, 1]]), _ratio)
            interval = gain.interval(Resampling())
            assert interval is not None
            row |= {name: gain.value, f"{name} low": interval.low, f"{name} high": interval.high}
        rows.append(row)
    return rows


def _ratio(counts: FloatArray) -> FloatArray:
    share: FloatArray = counts[..., 0] / counts[..., 1]
    return share


def histogram(data: Data) -> dict[str, int]:
    """Count the gold clusters of the training part by size (figure 2 of the paper)."""
    sizes = Counter(Counter(id_ for m in data.train.mentions for id_ in m.gold or () if id_ in data.kb).values())
    bounds = (1, 2, 4, 8, 16, 32, 64, 128, 256, 10**9)
    names = ("1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127", "128-255", "256 and more")
    return {
        name: sum(n for size, n in sizes.items() if low <= size < high)
        for name, low, high in zip(names, bounds[:-1], bounds[1:], strict=True)
    }


def columns(rows: list[dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Keep what says whose the scores are, and some of the scores."""
    wanted = {*WHOSE, *names}
    return [{name: value for name, value in row.items() if name in wanted} for row in rows]


def record_all() -> None:
    """Record every cell that is there."""
    trainings = cells("training")
    rows = table(trainings)
    medic = [
        {name: value for name, value in {**cell, **cell["scores"]}.items() if name != "scores"}
        for cell in sorted(cells("step"), key=lambda cell: (cell["corpus"], STEPS.index(cell["step"]), cell["names"]))
    ]
    figures = {}
    for corpus in dict.fromkeys(row["corpus"] for row in medic):
        own = [row for row in medic if row["corpus"] == corpus]
        _, figures[key(corpus, "accuracy")] = max((row[f"{m} dev"], row[m]) for row in own for m in METHODS)
        figures |= {key(corpus, row["step"], row["names"], "recall@1"): row["recall@1"] for row in own}
    for row in rows:
        whose = row["corpus"], row["training"], row["steps"]
        figures |= {key(*whose, name): row[name] for name in (*RECALL, *METHODS, *ARI)}
    sizes = [{"corpus": job.name, **histogram(Data.of(job))} for job in JOBS if job.name in KNOWN]
    settings = [
        {"training": name, **{field: str(value) for field, value in asdict(config).items()}}
        for name, config in (TRAININGS | MEDIC_STEPS).items()
    ]
    tables = {
        "recall": columns(rows, RECALL),
        "linking": columns(rows, (f"{method}{part}" for method in METHODS for part in PARTS)),
        "clusters": columns(rows, ARI),
        "against in-batch": differences(trainings),
        "cluster sizes": sizes,
        "steps to MEDIC": columns(medic, (*RECALL, *METHODS, "independent seen", "independent unseen")),
        "settings": settings,
    }
    made = {title: rows for title, rows in tables.items() if rows}
    record("arborescence_training", "python benchmarks/arborescence_training.py", figures, tables=made)


def main() -> None:
    """Fill the cells that are asked for and record all there are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=["trainings", "medic"], help="default: both")
    parser.add_argument("--corpus", action="append", choices=KNOWN, help="of the trainings; default: CRAFT CL")
    parser.add_argument("--training", action="append", choices=[UNTRAINED, *TRAININGS], help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=BASE.steps)
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    asked = parser.parse_args()
    CELLS.mkdir(parents=True, exist_ok=True)
    if asked.part != "trainings" and not asked.record:
        fill_medic()
    if asked.part != "medic" and not asked.record:
        for corpus in asked.corpus or ["CRAFT CL"]:
            fill_trainings(corpus, asked.training or [UNTRAINED, *TRAININGS], asked.seeds, asked.steps)
    record_all()


def fill_trainings(corpus: str, trainings: list[str], seeds: int, steps: int) -> None:
    """Make the cells of the trainings on a corpus."""
    data = Data.of(KNOWN[corpus])
    for seed in range(seeds):
        for training in trainings:
            if training != UNTRAINED or not seed:
                cell = {"corpus": corpus, "training": training, "steps": steps, "seed": seed}
                keep(cell, partial(trained, data, cell))


def fill_medic() -> None:
    """Make the cells of the steps to MEDIC."""
    data = {name: Data.of(KNOWN[name]) for name in ("NCBI disease", "BC5CDR disease")}
    for step in STEPS:
        model = medic_model(step, list(data.values()))
        encoder = arbo.DualEncoder.from_pretrained(model, ONE_A_NAME, cache=CACHE)
        for corpus, own in data.items():
            for names, kb in (("KB", own.kb), ("KB and training", own.kb.with_names_of(own.train))):
                cell = {"corpus": corpus, "step": step, "names": names}
                keep(cell, partial(scores, replace(own, kb=kb), encoder, discover=False))


if __name__ == "__main__":
    main()

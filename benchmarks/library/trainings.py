"""Trainings of dual-encoders that are compared: their cells, means over the seeds, how surely they differ."""

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import arbo
from arbo.data.gold import RECALL_AT
from arbo.progress import bars
from arbo.results.evaluation import Evaluation
from clustering import METHODS
from eval import LinkingCounts, Resampling, Summed
from eval.arrays import FloatArray
from library.cells import Cell, Cells
from library.command import parser_of
from library.corpora import TRAINABLE, Data
from library.folders import CACHE, CELLS, MODELS
from library.results import Row

PARTS = ("", " seen", " unseen")
RECALL = tuple(f"recall@{k}" for k in RECALL_AT)
RECALL_BY_PART = (*RECALL, *(f"{RECALL[0]}{part}" for part in PARTS if part))
"""Also the first for the mentions whose entity training has seen, and for the others."""
COMPARED = {"accuracy": "recall@1", "recall@64": "recall@64"}
"""Lines of a report without thresholds, and what they are then."""

INDEPENDENT = "independent"


class Training(NamedTuple):
    """How a model is made, and what it reads."""

    reads: arbo.EncoderConfig
    config: arbo.TrainingConfig | None = None
    """None for the start as it is."""


Score = Callable[[Data, arbo.DualEncoder], Row]


@dataclass(frozen=True, slots=True)
class Trainings:
    """The cells of a table, all starting with all-MiniLM-L6-v2."""

    name: str
    known: Mapping[str, Training]
    score: Score
    kept: Collection[str] = ()
    """Those whose models stay in the cache."""

    @property
    def cells(self) -> Cells:
        """Where they are kept."""
        return Cells(self.name, lambda cell: self._of(cell) if cell["training"] in self.known else None, CELLS)

    def fill(self, corpora: Iterable[str], chosen: Sequence[str], seeds: int, steps: int) -> None:
        """Make the cells that are not there, every training with one seed before any with the next."""
        for corpus in corpora:
            data = Data.of(corpus)
            for seed in range(seeds):
                for training in chosen:
                    if seed == 0 or self.known[training].config is not None:
                        cell = {"corpus": corpus, "training": training, "steps": steps, "seed": seed}
                        self.cells.keep(cell, partial(self._made, data, cell))

    def read(self) -> list[Cell]:
        """Read the cells, in the order of the trainings."""
        order = list(self.known)
        found = [cell for cell in self.cells.read() if cell["training"] in order]
        return sorted(found, key=lambda cell: (cell["corpus"], cell["steps"], order.index(cell["training"])))

    def _of(self, cell: Cell) -> Training:
        reads, config = self.known[cell["training"]]
        return Training(reads, config and replace(config, steps=cell["steps"], seed=cell["seed"]))

    def encoder(self, data: Data, cell: Cell) -> arbo.DualEncoder:
        """Return the model of a cell, trained unless it was kept."""
        reads, config = self._of(cell)
        encoder = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", reads, cache=CACHE)
        if config is None:
            return encoder
        MODELS.mkdir(parents=True, exist_ok=True)
        out = MODELS / self.cells.name_of(cell)
        if not out.is_dir():
            arbo.train(encoder, data.train, data.kb, config=config, out=out, options=arbo.RunOptions(announce=bars))
        return arbo.DualEncoder.from_pretrained(out)

    def _made(self, data: Data, cell: Cell, name: str) -> Row:
        """Train and score; the model is forgotten, unless a second stage needs it."""
        encoder, out = self.encoder(data, cell), MODELS / name
        log = out.with_name(f"{out.name}.log.jsonl")
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        with tempfile.TemporaryDirectory() as vectors:  # they are asked for several times
            scores = self.score(data, replace(encoder, cache=Path(vectors)))
        if cell["training"] not in self.kept:
            shutil.rmtree(out, ignore_errors=True)
        return {"scores": scores, "gradients": [json.loads(line)["gradient"] for line in lines]}


def options(
    description: str | None, known: Iterable[str], corpora: Iterable[str], steps: int | None
) -> argparse.ArgumentParser:
    """Let cells be chosen."""
    parser = parser_of(description)
    parser.add_argument("--corpus", action="append", choices=TRAINABLE, help=f"default: {', '.join(corpora)}")
    parser.add_argument("--training", action="append", choices=known, help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--record", action="store_true", help="record what is there, and train nothing")
    return parser


def recalls(data: Data, encoder: arbo.DualEncoder) -> Row:
    """Recall of the test part, also of seen and unseen entities and by document, and of the development part."""
    linker = arbo.Linker(data.kb, encoder, arbo.LinkerConfig("independent", 8, None, None, candidates=max(RECALL_AT)))
    nearest = linker.link(data.test).evaluate(train=data.train)
    found: Row = {
        f"{COMPARED[line.name]} by document": line.score.counts.tolist()
        for line in nearest.lines
        if line.name in COMPARED and isinstance(line.score, Summed)
    }
    for name, counts in parts(nearest):
        found |= {f"recall@{k}{name}": counts.recall[k] for k in RECALL_AT}
    on_dev = linker.link(data.dev).evaluate().linking
    assert on_dev is not None
    return found | {f"recall@{k} dev": on_dev.recall[k] for k in RECALL_AT}


def parts(evaluation: Evaluation) -> Iterator[tuple[str, LinkingCounts]]:
    """Name the counts of all mentions, and of those whose entity training has seen or not."""
    assert evaluation.linking is not None
    for name, counts in zip(
        PARTS, (evaluation.linking, evaluation.linking.seen, evaluation.linking.unseen), strict=True
    ):
        assert counts is not None
        yield name, counts


def groups(cells: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Put together the scores of cells that differ in the seed alone, in the order of the cells."""
    rows: dict[tuple[Any, ...], list[Row]] = {}
    for cell in cells:
        rows.setdefault((cell["corpus"], cell["steps"], cell["training"]), []).append(cell["scores"])
    for (corpus, steps, training), own in rows.items():
        yield {"corpus": corpus, "steps": steps, "training": training, "seeds": len(own)}, own


def means(cells: Iterable[Cell]) -> list[Row]:
    """Mean over the seeds of each score."""
    return [
        row | {name: float(np.mean([s[name] for s in own])) for name, value in own[0].items() if type(value) is float}
        for row, own in groups(cells)
    ]


def differences(cells: Iterable[Row], pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Compare trainings with others: recall gained, over the same documents, with the ends of its 95 % interval.

    Counts of a document are means over the seeds that both have; the interval is that of a bootstrap over documents.
    """
    by_training: dict[tuple[str, int], dict[str, dict[int, Row]]] = {}
    for cell in cells:
        there = by_training.setdefault((cell["corpus"], cell["steps"]), {})
        there.setdefault(cell["training"], {})[cell["seed"]] = cell["scores"]
    rows = []
    for (corpus, steps), there in by_training.items():
        for training, base in pairs:
            if seeds := there.get(training, {}).keys() & there.get(base, {}).keys():
                row: Row = {
                    "corpus": corpus,
                    "steps": steps,
                    "seeds": len(seeds),
                    "training": training,
                    "against": base,
                }
                for name in COMPARED.values():
                    one, other = (
                        np.mean([there[of][seed][f"{name} by document"] for seed in sorted(seeds)], axis=0)
                        for of in (training, base)
                    )
                    gain = Summed(np.column_stack([one[:, 0] - other[:, 0], one[:, 1]]), _ratio)
                    interval = gain.interval(Resampling())
                    assert interval is not None
                    row |= {name: gain.value, f"{name} low": interval.low, f"{name} high": interval.high}
                rows.append(row)
    return rows


def gains(cells: Iterable[Row]) -> list[Row]:
    """Tell what the method that is best on the development part gains over independent linking on the test part.

    Of equal ones it is independent linking, else the first. The mean over the seeds, the least and the greatest.
    """
    rows = []
    for whose, own in groups(cells):
        found = []
        for scores in own:
            chosen = max(METHODS, key=lambda method: (scores[f"{method} dev"], method == INDEPENDENT))
            found.append(scores[chosen] - scores[INDEPENDENT])
        rows.append(whose | {"gain": float(np.mean(found)), "least": min(found), "greatest": max(found)})
    return rows


def columns(rows: Iterable[Row], names: Iterable[str]) -> list[Row]:
    """Keep what says whose the scores are, and some of the scores."""
    wanted = {"corpus", "training", "step", "names", "steps", "seeds", *names}
    return [{name: value for name, value in row.items() if name in wanted} for row in rows]


def _ratio(counts: FloatArray) -> FloatArray:
    share: FloatArray = counts[..., 0] / counts[..., 1]
    return share

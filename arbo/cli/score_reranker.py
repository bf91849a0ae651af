"""The verb `score-reranker`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import Docs, Kb
from arbo.cli.train_reranker import candidates_in, expand_abbreviations, load_runs

_RUN = "Run of `arbo link` over DOCS without a reranker, whose candidates are reranked. May be repeated."
_MODEL = "Model of `arbo train-reranker`."
_TRAIN = "Training documents: mentions of their entities are scored apart from the others."


def score_reranker(
    docs: Docs,
    kb: Kb,
    runs: Annotated[list[Path], Option("--run", metavar="RUN", help=_RUN)],
    reranker: Annotated[Path, Option(metavar="MODEL", help=_MODEL)],
    train: Annotated[Path | None, Option(metavar="DOCS", help=_TRAIN)] = None,
    train_ids: options.TrainIds = None,
    as_json: options.Json = False,
) -> None:
    """Score a reranker by itself, with the gold entity among its candidates: the oracles of the ArboEL paper.

    `arbo link dev.txt --kb kb.obo --candidates 64 --out run`, then `arbo score-reranker dev.txt --kb kb.obo --run run
    --reranker cross`.

    For each run: *own*, its candidates as they are; *SELF*, with the gold entity in the last place where they lack it.
    For several runs: *UNION*, the candidates of all runs together, with the gold entity.
    """
    from arbo.data.gold import Gold
    from arbo.progress import bars
    from arbo.retrieval.candidates import union, with_gold
    from arbo.retrieval.reranking import rerank

    base, documents = kb.read(), docs.read()
    learnt = docs.others("--train", train, train_ids)
    results = load_runs(runs)
    expand = expand_abbreviations(results)
    found = {str(run): candidates_in(run, result, base) for run, result in results.items()}
    for run, own in found.items():
        own.check(documents, base)
        if "reranker" in own.made_by:
            raise arbo.DataError(f"{run}: a reranker ordered these candidates; link again without --reranker")
    gold, model = Gold.of(documents, base).entities, arbo.CrossEncoder.from_pretrained(reranker)
    asked = {
        f"{run}, {name}": of
        for run, own in found.items()
        for name, of in (("own", own), ("SELF", with_gold(own, gold)))
    }
    if len(found) > 1:
        asked["UNION"] = with_gold(union(*found.values()), gold)
    how: Any = {"expand_abbreviations": expand, "announce": bars}
    chosen = {name: rerank(model, of, documents, base, **how) for name, of in asked.items()}
    scores = {name: of.evaluate(documents, base, train=learnt) for name, of in chosen.items()}
    if as_json:
        told = {name: of.as_dict() for name, of in scores.items()}
        console.print_json({"reranker": str(reranker), "candidates": told})
        return
    for name, of in scores.items():
        console.print_title(name)
        console.show(of)

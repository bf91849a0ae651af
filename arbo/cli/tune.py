"""The verb `tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, TABLE, Chosen, Shown
from arbo.cli.inputs import Docs, OptionalKb, ReadingConfig, check_output, read_gold
from arbo.cli.models import LinkingModels, load_linker
from arbo.engine import Method
from arbo.errors import UsageError
from arbo.files import write_json

if TYPE_CHECKING:
    from arbo.linking.tuning import Tuning

_OBJECTIVE = (
    "The score to maximise. With --kb: accuracy_with_nil (default) or nil_f1. Without: ari (default), b3, conll or lea."
)
_Objective = Annotated[
    str | None, options.clustering("--objective", show_default=False, metavar="SCORE", help=_OBJECTIVE)
]
_METHOD = f"With --kb, try only this method: {', '.join(get_args(Method))}. [default: all]"
_Method = Annotated[Method | None, options.clustering("--method", metavar="METHOD", help=_METHOD)]


def tune(
    docs: Docs,
    kb: OptionalKb,
    how: Annotated[Chosen, Shown((LINKER, ENCODER, READING, JOB), TABLE)],
    out: Annotated[Path, Option(help="JSON file to write, for `--config` of link and discover.")],
    encoder: options.Encoder = None,
    reranker: options.Reranker = None,
    edges: options.Edges = None,
    objective: _Objective = None,
    method: _Method = None,
) -> None:
    """Choose k, method and thresholds on documents with gold annotations.

    With a knowledge base, tuning maximises the accuracy including NIL decisions or, with `--objective nil_f1`, the F1
    of NIL decisions. With enough links, it also fits a confidence, the probability that a link is correct, which `arbo
    link --config` then writes for each link. Without a knowledge base, tuning maximises the ARI or, with `--objective`,
    the F1 of B-cubed, CoNLL or LEA, over all thresholds.
    """
    from arbo.linking.config import objective_of

    score: Any = objective  # checked by `objective_of`
    if reranker and kb.path is None:
        raise UsageError("--reranker needs --kb, since it compares mentions with entities")
    objective_of(score, method, discovers=kb.path is None)
    check_output(out, "tuned", (".json",), *docs.paths)
    reading = how.of(READING, ReadingConfig())
    linker = load_linker(LinkingModels(encoder=encoder, reranker=reranker, edges=edges), how).configured(
        kb=kb.read(reading)
    )
    documents = docs.read(reading)
    read_gold(documents, linker.kb)
    for warning in linker.learnt(documents):
        console.warn(warning)
    linker = linker.tune(documents, objective=score, method=method)
    tuning = linker.tuning
    assert tuning is not None
    content = {
        "config": linker.config.as_dict(),
        "encoder": linker.encoder.settings,
        "reranker": linker.reranker.settings if linker.reranker else None,
        "edges": None if linker.edges is None or linker.config.treat_as == "list" else linker.edges.settings,
        "tuning": tuning.as_dict(),
    }
    write_json(content, out)
    value: dict[str, Any] = {"config": content["config"], "objective": tuning.objective, "score": tuning.best.score}
    value["reliability"] = tuning.reliability and tuning.reliability.as_dict()
    reliability = "" if tuning.reliability is None else f"\n{tuning.reliability}\n\n"
    console.answer(value, f"{_summary(linker, tuning)}\n{reliability}written to {out}")


def _summary(linker: arbo.Linker, tuning: Tuning) -> str:
    """Describe the best configuration; discovery has neither methods nor entity edges."""
    best, method = tuning.best, "" if linker.kb is None else f"{tuning.best.method}, "
    average = linker.config.nil_linkage == "average"
    kinds = {"entity edges": best.entity_threshold} if linker.kb is not None else {}
    if linker.kb is not None or not average:
        kinds["mention edges"] = best.mention_threshold
    if average:
        kinds["average linkage"] = best.nil_threshold
    limits = (f"no limit on {kind}" if limit is None else f"{kind} up to {limit:.3f}" for kind, limit in kinds.items())
    return (
        f"{tuning.objective} {best.score:.4f}: {method}k={best.k}, {', '.join(limits)} "
        f"({len(tuning.trials):,} trials; a trial can cover all thresholds)"
    )

"""The verb `tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, Chosen, Shown
from arbo.cli.inputs import Docs, OptionalKb, ReadingConfig, read_gold
from arbo.cli.models import LinkingModels, load_linker
from arbo.engine import Method
from arbo.errors import DataError, UsageError
from arbo.linking.config import Objective, objective_of

if TYPE_CHECKING:
    from arbo.linking.tuning import Tuning as Tuned

_OBJECTIVE = (
    "The score to maximise. With --kb: accuracy_with_nil (default) or nil_f1. Without: ari (default), b3, conll or lea."
)
_Objective = Annotated[
    Objective | None, options.clustering("--objective", show_default=False, metavar="SCORE", help=_OBJECTIVE)
]
_METHOD = f"With --kb, try only this method: {', '.join(get_args(Method))}. [default: all]"
_Method = Annotated[Method | None, options.clustering("--method", metavar="METHOD", help=_METHOD)]


def tune(
    docs: Docs,
    kb: OptionalKb,
    how: Annotated[Chosen, Shown((LINKER, ENCODER, READING, JOB))],
    out: Annotated[Path, Option(help="JSON file to write, for `--config` of link and discover.")],
    encoder: options.Encoder = None,
    reranker: options.Reranker = None,
    edges: options.Edges = None,
    objective: _Objective = None,
    method: _Method = None,
    as_json: options.Json = False,
) -> None:
    """Choose k, method and thresholds on documents with gold annotations.

    With a knowledge base, tuning maximises the accuracy including NIL decisions or, with `--objective nil_f1`, the F1
    of NIL decisions. With enough links, it also fits a confidence, the probability that a link is correct, which `arbo
    link --config` then writes for each link. Without a knowledge base, tuning maximises the ARI or, with `--objective`,
    the F1 of B-cubed, CoNLL or LEA, over all thresholds.
    """
    if reranker and kb.path is None:
        raise UsageError("--reranker needs --kb, since it compares mentions with entities")
    objective_of(objective, method, discovers=kb.path is None)
    _check_output(out)
    reading = how.of(READING, ReadingConfig())
    linker = load_linker(LinkingModels(encoder=encoder, reranker=reranker, edges=edges), how).configured(
        kb=kb.read(reading)
    )
    documents = docs.read(reading)
    read_gold(documents, linker.kb)
    linker = linker.tune(documents, objective=objective, method=method)
    assert linker.tuning is not None
    _write(linker, linker.tuning, out)
    _report(linker, linker.tuning, out, as_json=as_json)


def _check_output(out: Path) -> None:
    """Raise UsageError, before the work, if the file cannot be written, or exists and is not a tuned file."""
    from arbo.files import check_writable

    check_writable(out)
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; choose a file")
    if out.exists():
        try:
            arbo.LinkerConfig.from_json(out)
        except DataError as error:
            raise UsageError(f"--out {out} exists, and `arbo tune` did not write it; choose another file") from error


def _write(linker: arbo.Linker, tuning: Tuned, out: Path) -> None:
    """Write the file for `--config`: configuration, models, and trials."""
    from arbo.files import write_json

    content = {
        "config": linker.config.as_dict(),
        "encoder": linker.encoder.settings,
        "reranker": linker.reranker.settings if linker.reranker else None,
        "edges": linker.edges.settings if linker.edges else None,
        "tuning": tuning.as_dict(),
    }
    write_json(content, out)


def _report(linker: arbo.Linker, tuning: Tuned, out: Path, *, as_json: bool) -> None:
    reliability = tuning.reliability
    scored: dict[str, Any] = {"config": linker.config.as_dict(), "objective": tuning.objective}
    scored |= {"score": tuning.best.score, "reliability": reliability and reliability.as_dict()}
    calibrated = "" if reliability is None else f"\n{reliability}\n\n"
    told = _told(tuning, discovery=linker.kb is None, average=linker.config.nil_linkage == "average")
    console.answer(scored, f"{told}\n{calibrated}written to {out}", as_json=as_json)


def _told(tuning: Tuned, *, discovery: bool, average: bool) -> str:
    """Describe the best configuration; discovery has neither methods nor entity edges."""
    best = tuning.best
    kinds = {"entity edges": best.entity_threshold, "mention edges": best.mention_threshold}
    if average:
        kinds["average linkage"] = best.nil_threshold
    told = list(kinds.items())[1 + average :] if discovery else kinds.items()
    limits = ", ".join(f"no limit on {kind}" if limit is None else f"{kind} up to {limit:.3f}" for kind, limit in told)
    method = "" if discovery else f"{best.method}, "
    return (
        f"{tuning.objective} {best.score:.4f}: {method}k={best.k}, {limits} "
        f"({len(tuning.trials):,} trials; a trial can cover all thresholds)"
    )

"""Plots of a run: its dissimilarities, and how many mentions each threshold on entity edges would link."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from arbo.errors import UsageError
from arbo.files import PathLike
from arbo.metrics import linking_outcomes, plot_thresholds
from arbo.results.evaluation import gold_of, nearest, numbers_of, to_nearest
from arbo.results.run import Run

_BINS, _EQUAL = 40, 0.01


def plot(run: Run, path: PathLike) -> None:
    """Plot a histogram or a curve of a run; see `Result.plot`."""
    name = Path(path).stem.lower()
    if name.endswith("histogram"):
        _plot_histogram(run, path)
    elif name.endswith("curve"):
        _plot_curve(run, path)
    else:
        raise UsageError(f"{path}: the name of a plot must end in `histogram` or `curve`, before .svg or .png")


def _plot_histogram(run: Run, path: PathLike) -> None:
    """Count dissimilarities in 40 equal ranges; those of equal names are left out, since they would hide all others."""
    links = run.link_table
    given = {
        "nearest entity": to_nearest(run),
        "mention to mention, of links": links["step"].filter(links["parent_is_mention"]).to_numpy(),
        "weakest join of new entities": run.cluster_table["weakest_join"].drop_null().to_numpy(),
    }
    given = {name: values[np.isfinite(values)] for name, values in given.items() if np.isfinite(values).any()}
    if not given:
        raise UsageError("these mentions have no nearest entity and no edges between them, so there is nothing to plot")
    limits = {
        f"{kind} threshold": limit
        for kind, limit in run.manifest["threshold"].items()
        if kind != "entity" or "nearest entity" in given
    }
    every = np.concatenate([*given.values(), list(limits.values())])
    edges = np.histogram_bin_edges(every[np.isfinite(every)], _BINS)
    counts = {}
    for name, values in given.items():
        other = values[values > _EQUAL] if run.offset else values  # inner products have no such limit
        equal = f", and {len(values) - len(other):,} up to {_EQUAL}" if len(other) < len(values) else ""
        counts[f"{name} ({len(other):,}{equal})"] = np.append(np.histogram(other, edges)[0], 0)
    plot_thresholds(edges, counts, path, chosen=limits, xlabel="dissimilarity", ylabel="number")


def _plot_curve(run: Run, path: PathLike) -> None:
    """Plot the share of linked mentions, and of correct decisions, at each threshold on the nearest entity."""
    dissimilarity = to_nearest(run)
    at = np.unique(dissimilarity[np.isfinite(dissimilarity)])
    if not len(at):
        raise UsageError("these mentions have no nearest entity, so no threshold links them; plot a histogram")

    def linked(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        return np.searchsorted(np.sort(dissimilarity[chosen]), at, side="right")

    gold, row_of = gold_of(run)
    curves = {"linked": linked(np.ones(len(dissimilarity), np.bool_)) / len(dissimilarity)}
    if n := int(gold.annotated.sum()):
        first = numbers_of(row_of, nearest(run, "candidates", None))
        right = linking_outcomes(*gold.accepted, first, annotated=gold.annotated).correct
        nil = gold.is_nil
        curves["correct, NIL included"] = (linked(right) + nil.sum() - linked(nil)) / n
    plot_thresholds(
        at,
        curves,
        path,
        chosen=run.manifest["threshold"]["entity"],
        xlabel="largest dissimilarity of the nearest entity",
        ylabel="share of mentions",
    )

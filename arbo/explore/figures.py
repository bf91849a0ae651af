"""The figures of the first view of a page: counts, scores, dissimilarities and sizes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.results.evaluation import best_scores, evaluate
from arbo.results.run import Run

_BINS = 40


def overview(run: Run) -> dict[str, Any]:
    """Return the figures of a run, ready for JSON; ``scores`` is empty without gold annotations."""
    manifest, links = run.manifest, run.link_table
    nil = links["entity_id"].null_count
    config, kb = manifest["config"], manifest["knowledge_base"]
    is_new = run.cluster_table["entity_id"].null_count
    size, count = np.unique(run.cluster_table["size"].to_numpy(), return_counts=True)
    return {
        "mentions": links.num_rows,
        "documents": len(run.document_ids),
        "linked": links.num_rows - nil,
        "nil": nil,
        "clusters": run.cluster_table.num_rows,
        "discovered": is_new,
        "kb": None if kb is None else f"{kb['entities']:,} entities",
        "method": config["method"],
        "k": config["k"],
        "choices": run.choices,
        "threshold": {kind: _finite(manifest["threshold"][kind]) for kind in ("entity", "mention")},
        "offset": manifest["offset"],
        "scores": _scores(run),
        "histogram": _histogram(run),
        "sizes": np.column_stack([size, count]).tolist(),
    }


def _scores(run: Run) -> dict[str, Any]:
    """Return the headline figures by name, with their intervals."""
    if all(gold is None for gold in run.gold_labels):
        return {}
    (entries,) = evaluate(run).report("run").systems.values()
    return {name: entry.as_dict() for name, entry in entries.items()}


def _histogram(run: Run) -> dict[str, list[Any]]:
    """Count, in equal ranges, the dissimilarities of the nearest entities and of the steps between mentions."""
    links = run.link_table
    dissimilarities = {
        "entity": run.manifest["offset"] - best_scores(run),
        "mention": links["step"].filter(links["parent_is_mention"]).to_numpy(),
    }
    dissimilarities = {name: values[np.isfinite(values.astype(np.float64))] for name, values in dissimilarities.items()}
    every = np.concatenate([*dissimilarities.values()])
    if not len(every):
        return {"bounds": [], "entity": [], "mention": []}
    bounds: npt.NDArray[np.float64] = np.histogram_bin_edges(every, _BINS)
    counts = {name: np.histogram(values, bounds)[0].tolist() for name, values in dissimilarities.items()}
    return {"bounds": bounds.tolist(), **counts}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

"""Runs whose knowledge base is exchanged for another release, and the drift of what is added to them.

The n-grams of a run stay those that it was fitted to, so that growing it equals its refit. A run whose knowledge base
was exchanged therefore differs from a new one in the weights of n-grams; the drift says when a new one is advisable.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from arbo.data import KnowledgeBase
from arbo.data.arrow import numbers
from arbo.data.releases import Exchange, Keys
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import Frequencies, NgramEncoder
from arbo.engine import Ids
from arbo.results.result import Result
from arbo.results.run import Run, compared_in, rows_in

Arrays = Mapping[str, npt.NDArray[Any]]

FROZEN = "encoder."
"""What the names of the arrays of an encoder's state begin with."""
MOST_UNSEEN = 0.25
"""A new run is advised if more of the n-grams in added names are unseen, see `benchmarks/growth.py`."""


def key_arrays(kb: KnowledgeBase) -> Arrays:
    """Return the hashes of a knowledge base, as arrays that a run keeps."""
    return {f"kb.{name}": array for name, array in kb.keys._asdict().items()}


def is_same(was: Mapping[str, Any] | None, kb: KnowledgeBase) -> bool:
    """Return whether a run's manifest describes this knowledge base."""
    return was is not None and was["fingerprint"] == kb.fingerprint


def entity_rows_now(run: Run, arrays: Arrays, encoder: Encoder, kb: KnowledgeBase | None) -> Ids:
    """Return the row of each entity of a run in the present knowledge base, ascending; -1 if it must be searched again.

    With n-grams, these are entities that are gone or have changed; with another encoder, which may not give the same
    vector twice, all entities of another knowledge base.
    """
    if kb is None:
        return np.empty(0, np.int64)
    was = run.manifest["knowledge_base"]
    if is_same(was, kb):
        return np.arange(len(kb))
    if not isinstance(encoder, NgramEncoder):
        return np.full(was["entities"], -1)
    return Exchange(Keys(arrays["kb.ids"], arrays["kb.contents"]), kb.keys).unchanged()


def frozen(encoder: Encoder, arrays: Arrays) -> Encoder:
    """Return an encoder of n-grams with the state that a run keeps; another encoder has no such state."""
    state = {name.removeprefix(FROZEN): array for name, array in arrays.items() if name.startswith(FROZEN)}
    if not (state and isinstance(encoder, NgramEncoder)):
        return encoder
    return replace(encoder, frequencies=Frequencies.from_arrays(state))


def fitted_to(run: Run) -> str | None:
    """Return the fingerprint of the knowledge base to whose names the encoder of a run was fitted."""
    was = run.manifest["knowledge_base"]
    return None if was is None else was.get("fitted", was["fingerprint"])


def with_release_notes(before: Run, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> Result:
    """Return a grown run whose manifest has the release of its n-grams, the replaced ids, and the drift.

    ``encoder`` is that of the linker, which is not fitted.
    """
    manifest = dict(after.manifest)
    if kb is not None:
        was, now = (dict(run.manifest["knowledge_base"]) for run in (before, after))
        if (fitted := fitted_to(before)) != kb.fingerprint:
            now["fitted"] = fitted
        replaced = was.get("replaced", {}) if is_same(was, kb) else _replaced(before, kb)
        if replaced:
            now["replaced"] = replaced
        manifest["knowledge_base"] = now
    if drift := _drift(before, after, encoder, kb):
        manifest["drift"] = drift
        if (most := max(drift.values())) > MOST_UNSEEN:
            verb = "discover" if kb is None else "link"
            unseen = f"{most:.0%} of the n-grams in added names are unseen, so that their weights no longer fit; "
            manifest["warnings"] = [*manifest["warnings"], f"{unseen}`arbo {verb}` all documents again"]
    return replace(after, manifest=manifest)


def _replaced(before: Run, kb: KnowledgeBase) -> dict[str, str]:
    """Return the ids that a run names and one entity of a release has as alternative ids, and the ids of these."""
    named = before.entity_table["entity_id"].to_pylist()
    known = (*before.manifest["knowledge_base"].get("replaced", ()), *named)
    ids = [id_ for id_ in known if len(kb.rows(id_)) == 1]  # of several, none replaces it
    (own,) = kb.taken(("id",), np.array([kb.index(id_) for id_ in ids], np.int64))
    return {id_: other for id_, other in zip(ids, own.to_pylist(), strict=True) if id_ != other}


def _drift(before: Run, after: Result, encoder: Encoder, kb: KnowledgeBase | None) -> dict[str, float]:
    """Return the shares of unseen n-grams in the names of new mentions and, after an exchange, of entities."""
    if not isinstance(encoder, NgramEncoder) or after.arrays is None:
        return {}
    fitted = frozen(encoder, after.arrays())
    assert isinstance(fitted, NgramEncoder)
    names = compared_in(after.mention_table.take(numbers(np.flatnonzero(rows_in(before, after) < 0))))
    drift = {"mentions": fitted.unseen(pc.unique(names).to_pylist())}
    if kb is not None and fitted_to(before) != kb.fingerprint:
        drift["entities"] = fitted.unseen(kb.names().names)
    return drift

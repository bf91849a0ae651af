"""The mentions of a run as they came, before corrections dropped, added or resized them.

A run that grows obeys all its corrections again, since a later one may replace or contradict an earlier one, or its
mention may come back. So it keeps the mentions of the documents that corrections changed, in the array ``given``.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data import Document, Mention
from arbo.linking.altered import Altered
from arbo.linking.releases import Arrays

_GIVEN = "given"


def given_arrays(changed: Mapping[str, Document]) -> dict[str, npt.NDArray[Any]]:
    """Return the array from which `as_given` makes these documents from the same with corrected mentions."""
    if not changed:
        return {}
    text = json.dumps({name: [asdict(mention) for mention in one.mentions] for name, one in changed.items()})
    return {_GIVEN: np.frombuffer(text.encode("utf-8"), np.uint8)}


def as_given(now: Altered, arrays: Arrays) -> Altered:
    """Return the documents of a run with the mentions that they had before corrections."""
    if _GIVEN not in arrays:
        return now
    mentions = json.loads(arrays[_GIVEN].tobytes())
    documents = now.found(mentions).items()
    return now.replaced({id_: replace(one, mentions=tuple(map(_mention, mentions[id_]))) for id_, one in documents})


def _mention(row: dict[str, Any]) -> Mention:
    gold = None if row["gold"] is None else tuple(row["gold"])
    return Mention(**{**row, "spans": tuple(map(tuple, row["spans"])), "gold": gold})

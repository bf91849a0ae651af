"""The mentions of a run as they came, before corrections dropped, added or resized them.

A run that grows obeys all its corrections again, since a later one may replace or contradict an earlier one, or its
mention may come back. So it keeps the mentions of the documents that corrections changed, in the array ``given``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.documents import Mention
from arbo.linking.releases import Arrays

_GIVEN = "given"


def given_arrays(given: Corpus, now: Corpus) -> Arrays:
    """Return the array from which `as_given` makes the documents ``given`` from the same with corrected mentions."""
    changed = {one.id: one.mentions for one, other in zip(given, now, strict=True) if one is not other}
    if not changed:
        return {}
    text = json.dumps({name: [asdict(mention) for mention in own] for name, own in changed.items()})
    return {_GIVEN: np.frombuffer(text.encode("utf-8"), np.uint8)}


def as_given(now: Corpus, arrays: Arrays) -> Corpus:
    """Return the documents of a run with the mentions that they had before corrections."""
    if _GIVEN not in arrays:
        return now
    mentions = json.loads(arrays[_GIVEN].tobytes())
    return now.of_documents(
        replace(one, mentions=tuple(map(_mention, mentions[one.id]))) if one.id in mentions else one for one in now
    )


def _mention(row: dict[str, Any]) -> Mention:
    gold = None if row["gold"] is None else tuple(row["gold"])
    return Mention(**{**row, "spans": tuple(map(tuple, row["spans"])), "gold": gold})

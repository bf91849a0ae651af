"""Texts that a transformer embeds in many processes, in the slices in which one process embeds them.

A vector depends, by rounding, on the texts of its batch. Since slices depend on the texts alone, no vector depends on
who embeds it, nor on the size of shards.
"""

import hashlib
from array import array
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from arbo.encoders.dual import Texts
from arbo.encoders.pooling import Pooling
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Ids
from arbo.scale.parts import Part, Task


def tasks_of(
    work: Path, texts: Texts, slices: Sequence[Ids], pooling: Pooling, *, elsewhere: bool, device: str | None = None
) -> list[Task]:
    """Plan the embedding of slices; write the tower for other processes if the tasks are executed ``elsewhere``.

    Texts become tokens when the call of their task is asked for. Tasks use a ``device``, by default that of the tower.
    Vectors depend on its kind, and not on its number.
    """
    tower, model = texts.tower, texts.identity(pooling)
    place = device or str(tower.model.device)
    kind = place.partition(":")[0]
    stored = Part.of(work, "tower", weights=tower.fingerprint, precision=tower.precision)
    if elsewhere:
        stored.written(tower.save)
    hashes = [hashlib.sha256(texts.keys[chosen].tobytes()).hexdigest() for chosen in slices]
    parts = [Part.of(work, "embedding", model=model, device=kind, texts=digest) for digest in hashes]
    source: Any = (stored.folder, place, tower.precision) if elsewhere else tower

    def call(chosen: Ids) -> tuple[Any, ...]:
        packed: Any = partial(array, "i")  # four bytes a token, as many tasks may wait
        rows = [row._replace(ids=packed(row.ids)) for row in texts.spell(chosen)]
        return embed, source, rows, pooling

    return [Task(part, partial(call, chosen)) for part, chosen in zip(parts, slices, strict=True)]


def embed(source: Any, rows: list[TokenRow], pooling: Pooling) -> dict[str, npt.NDArray[Any]]:
    """Return the vectors of texts by a tower, or by that of a folder, a device and a precision."""
    tower = source if isinstance(source, Tower) else _read(*source)
    return {"vectors": tower.embed(rows, pooling)}


@lru_cache(2)  # one for mentions, one for entities
def _read(folder: Path, device: str, precision: Any) -> Tower:
    return Tower.load(folder, device=device, precision=precision)

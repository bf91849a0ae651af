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
from weakref import WeakValueDictionary

import numpy.typing as npt

from arbo.encoders.dual import Texts
from arbo.encoders.pooling import Pooling
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Ids
from arbo.scale.parts import Part, Task

_AT_HAND: WeakValueDictionary[tuple[str, str], Tower] = WeakValueDictionary()
"""The towers of this process by fingerprint and device, which its tasks need not read."""


def tasks_of(
    work: Path, texts: Texts, slices: Sequence[Ids], pooling: Pooling, *, elsewhere: bool, device: str | None = None
) -> list[Task]:
    """Plan the embedding of slices; write the tower for other processes if the tasks are executed ``elsewhere``.

    Texts become tokens when the call of their task is asked for. Tasks use a ``device``, by default that of the tower.
    Vectors depend on its kind, and not on its number.
    """
    tower, model = texts.tower, texts.identity(pooling)
    device_here = str(tower.model.device)
    _AT_HAND[tower.fingerprint, device_here] = tower
    place = device or device_here
    kind = place.partition(":")[0]
    stored = Part.of(work, "tower", weights=tower.fingerprint, precision=tower.precision)
    if elsewhere:
        stored.written(tower.save)
    hashes = [hashlib.sha256(texts.keys[chosen].tobytes()).hexdigest() for chosen in slices]
    parts = [Part.of(work, "embedding", model=model, device=kind, texts=digest) for digest in hashes]
    known = tower.fingerprint, place

    def call(chosen: Ids) -> tuple[Any, ...]:
        rows = [_packed(row) for row in texts.spell(chosen)]
        return embed, stored.folder, known, tower.precision, rows, pooling

    return [Task(part, partial(call, chosen)) for part, chosen in zip(parts, slices, strict=True)]


def embed(
    folder: Path, known: tuple[str, str], precision: Any, rows: list[TokenRow], pooling: Pooling
) -> dict[str, npt.NDArray[Any]]:
    """Return the vectors of texts by the tower in a folder, or by the same tower of this process."""
    tower = _AT_HAND.get(known) or _read(folder, known, precision)
    return {"vectors": tower.embed(rows, pooling)}


@lru_cache(2)  # one for mentions, one for entities
def _read(folder: Path, known: tuple[str, str], precision: Any) -> Tower:
    return Tower.load(folder, device=known[1], precision=precision)


def _packed(row: TokenRow) -> TokenRow:
    """Return a row that takes four bytes a token while its task waits, as many tasks may."""
    ids: Any = array("i", row.ids)
    return row._replace(ids=ids)


def tower_memory(tower: Tower) -> int:
    """Return the bytes of memory that a task with a tower needs: its weights, torch and the batches."""
    weights = sum(weight.numel() for module in tower.modules for weight in module.parameters())
    return 4 * weights + 1_000_000_000

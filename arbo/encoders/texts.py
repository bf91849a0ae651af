"""The distinct texts to embed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.encoders.embedding_store import KEY_BYTES, Keys, key_of
from arbo.encoders.templates import Speller, TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Ids


@dataclass(frozen=True, eq=False, slots=True)
class Texts:
    """Distinct inputs of a tower, made on demand."""

    tower: Tower
    speller: Speller
    read: Callable[[int], Sequence[str]]  # returns input ``i``: the texts of the template's fields
    owner: Sequence[int]  # (inputs,) the row of the mention or entity of each input
    row: Ids  # (inputs,) the distinct text of each input
    keys: Keys  # (texts,) the key of each text in the store
    first: Ids  # (texts,) the first input with this text
    length: Ids  # (texts,) the length in characters

    @classmethod
    def of(cls, tower: Tower, speller: Speller, read: Callable[[int], Sequence[str]], owner: Sequence[int]) -> Self:
        """Collect the inputs of a tower, and group equal ones."""
        place: dict[bytes, int] = {}
        first: list[int] = []
        length: list[int] = []
        row = np.empty(len(owner), np.int64)
        for i in range(len(owner)):
            texts = read(i)
            row[i] = place.setdefault(key_of(texts), len(first))
            if row[i] == len(first):
                first.append(i)
                length.append(sum(map(len, texts)))
        keys = np.array(list(place), f"S{KEY_BYTES}")
        return cls(tower, speller, read, owner, row, keys, np.array(first, np.int64), np.array(length, np.int64))

    def spell(self, chosen: Ids) -> list[TokenRow]:
        """Tokenise the texts with these indices."""
        return self.speller([self.read(int(i)) for i in self.first[chosen]])

"""What speaks for two rows of a table being one entity: their names, their texts, and the names of the other rows."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, diags
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from arbo.data import MentionInput
from arbo.data.codes import codes_of
from arbo.edges.facts import Names, hashed_words
from arbo.edges.features import Matrix, products
from arbo.edges.pairs import distinct
from arbo.engine import Bools, Ids, Neighbors, ranges
from arbo.errors import MissingDependency
from arbo.text.words import STOP_WORDS

FEATURES = (
    *("letters", "edits", "sorted_edits", "part_edits", "rare_words", "initials_of_longer", "initials_of_shorter"),
    *("acronym", "words_of_longer", "letters_of_shorter", "rows_of_name", "context", "words_of_context"),
)
"""The columns of `Rows.features`."""
_SIGNS = re.compile(r"[^\w\s]|_")
_NUMBER = re.compile(r"\d+|(?<= )(?:x{0,3}(?:ix|iv|vi{1,3}|i{2,3})|x{1,3}[iv]|x{2,3})\b|(?<= )[ivx]$")
_TITLES = frozenset(["mr", "mrs", "ms", "miss", "dr", "prof", "sir", "lord", "lady", "st"])
_ACRONYM = 3  # letters, at least
_HOLDERS = 8  # rows that an acronym may stand for, at most


class Rows(NamedTuple):
    """The parts of names and texts that are compared; each has a value or a row for each row of the table."""

    names: Names
    numbers: npt.NDArray[np.object_]
    """(rows,) the numbers in the name, also Roman ones after its first word."""
    initials: csr_matrix
    """(rows, letters): how many words of the name begin with each letter."""
    rare: csr_matrix
    """(rows, hashes): the words of the name by their rarity in the table."""
    context: csr_matrix
    """(rows, hashes): the words after the name by their rarity, as vectors of length 1."""
    columns: dict[str, Ids]
    """``words`` and ``letters`` of the name, ``rows`` of the same name, ``context``, the number of words after it."""

    @classmethod
    def of(cls, inputs: Sequence[MentionInput]) -> Self:
        """Read the names of rows and the texts after them."""
        names = Names.of([_SIGNS.sub(" ", item.name).strip() or item.name for item in inputs])
        words = hashed_words([item.document.text[item.mention.end :] for item in inputs])
        first = HashingVectorizer(analyzer=_initials, n_features=2**10, alternate_sign=False, norm=None)
        sorted_names = names.keys[:, 1]
        _, which, count = np.unique(sorted_names, return_inverse=True, return_counts=True)
        columns = {
            "words": names.n_words.astype(np.int64),
            "letters": np.array([len(name) for name in sorted_names], np.int64),
            "rows": count[which],
            "context": np.diff(words.indptr).astype(np.int64),
        }
        numbers = np.array([" ".join(sorted(_NUMBER.findall(name))) for name in names.keys[:, 0]], object)
        rare = _by_rarity(names.content)
        return cls(names, numbers, first.transform(sorted_names), rare, normalize(_by_rarity(words)), columns)

    def pairs(self, neighbors: Neighbors) -> tuple[Ids, Ids]:
        """Return distinct pairs to compare: neighbours by their letters, and acronyms with what they may stand for.

        The first row of a pair is the earlier one. Rows with different numbers in their names are left out.
        """
        target, at = np.nonzero(neighbors.ids >= 0)
        sides = zip((neighbors.ids[target, at].astype(np.int64), target), self._acronyms(), strict=True)
        one, two = (np.concatenate(side) for side in sides)
        n = len(self.numbers)
        one, two = distinct(np.minimum(one, two), np.maximum(one, two), n)
        left, right = self.numbers[one], self.numbers[two]
        kept: Bools = (one != two) & np.asarray((left == right) | (left == "") | (right == ""), np.bool_)
        return one[kept], two[kept]

    def _acronyms(self) -> tuple[Ids, Ids]:
        """Return pairs of a name and another name that is its acronym, if few names have it."""
        n, keys = len(self.numbers), self.names.keys
        long = np.flatnonzero([len(initials) >= _ACRONYM for initials in keys[:, 2]])
        codes = codes_of([*keys[:, 2].tolist(), *keys[:, 3].tolist()])
        long = long[np.argsort(codes[long], kind="stable")]
        begin = np.searchsorted(codes[long], codes[n:])
        count = np.searchsorted(codes[long], codes[n:], "right") - begin
        count[count > _HOLDERS] = 0
        return long[ranges(begin, count)], np.repeat(np.arange(n), count)

    def features(self, first: Ids, second: Ids) -> Matrix:
        """Return the features of pairs of rows, which are the same in either order; (pairs, features)."""
        keys = self.names.keys
        rarity = np.asarray(self.rare.multiply(self.names.content).sum(axis=1)).ravel()
        most = {name: np.maximum(column[first], column[second]) for name, column in self.columns.items()}
        least = {name: np.minimum(column[first], column[second]) for name, column in self.columns.items()}
        initials = products(self.initials, self.initials, first, second)
        acronym = (keys[first, 2] == keys[second, 3]) | (keys[first, 3] == keys[second, 2])
        compared = products(self.context, self.context, first, second)
        columns: list[Any] = [
            products(self.names.letters, self.names.letters, first, second),
            *_edits(keys, first, second),
            products(self.rare, self.names.content, first, second)
            / np.maximum(np.maximum(rarity[first], rarity[second]), 1e-6),
            initials / np.maximum(most["words"], 1),
            initials / np.maximum(least["words"], 1),
            acronym & (least["letters"] >= _ACRONYM),
            most["words"],
            least["letters"],
            most["rows"],
            np.where(least["context"] > 0, compared, np.nan),
            least["context"],
        ]
        return np.stack(columns, axis=1, dtype=np.float32, casting="unsafe")


def _edits(keys: npt.NDArray[np.object_], first: Ids, second: Ids) -> list[npt.NDArray[np.float32]]:
    """Compare names, names with sorted words, and the shorter name with the best part of the longer; each (pairs,)."""
    try:
        from rapidfuzz import fuzz
        from rapidfuzz.process import cpdist
    except ImportError:
        raise MissingDependency("the comparison of names in a table", extra="resolve") from None
    scorers = ((0, fuzz.ratio), (1, fuzz.ratio), (0, fuzz.partial_ratio))
    return [cpdist(keys[first, key], keys[second, key], scorer=how, dtype=np.float32) for key, how in scorers]


def _initials(name: str) -> list[str]:
    return [word[0] for word in name.split() if word not in STOP_WORDS and word not in _TITLES]


def _by_rarity(counts: csr_matrix) -> csr_matrix:
    """Multiply each column by the logarithm of the number of rows divided by the number of rows that have it."""
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    return csr_matrix(counts @ diags(np.log((1 + counts.shape[0]) / (1 + having)).astype(np.float32)))

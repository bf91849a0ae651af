"""Find the names of a knowledge base in texts, in one pass over the words for any number of names."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from arbo.data.knowledge_base import KnowledgeBase
from arbo.text.abbreviations import singular_form
from arbo.text.checks import Span
from arbo.text.sentences import sentences
from arbo.text.words import content_words, fold

_ROOT = 0
_NOWHERE = -1
_ACRONYM = 5
"""Maximum length of a one-word name in capitals that must match in capitals: "ALL" is not all, "CAT" not a cat."""


class Match(NamedTuple):
    """A name in a text."""

    begin: int
    end: int
    size: int
    """Number of words, without stop words."""
    entities: tuple[int, ...]
    """Rows of the entities with the name."""


@dataclass(frozen=True, eq=False, slots=True)
class Dictionary:
    """A trie of names: paths of normalised words from a root, without stop words.

    >>> from arbo import Entity
    >>> kb = KnowledgeBase([Entity("D1", "Cancer of the Breast", ("Breast Cancer",)), Entity("D2", "cancer")])
    >>> [(match.begin, match.end, match.entities) for match in Dictionary.of(kb).matches("BREAST cancer")]
    [(0, 13, (0,)), (7, 13, (1,))]
    """

    normalize: Callable[[str], str] = fold
    """Returns the same form for all spellings of a word, in any case."""
    number: dict[str, int] = field(default_factory=dict, repr=False)
    """of each word"""
    step: dict[int, int] = field(default_factory=dict, repr=False)
    """The next node, by the key `_key(node, word)`."""
    ends: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)
    """Rows of the entities with a name that ends in a node, ascending."""

    @classmethod
    def of(
        cls, kb: KnowledgeBase, rows: Iterable[int] | None = None, *, normalize: Callable[[str], str] = fold
    ) -> Self:
        """Make a trie of the names of a knowledge base, or of some rows; names of only stop words are left out.

        A name of one word with at most `_ACRONYM` capitals matches only capitals; a plural s does not matter ("APCs").
        A name of a single character, such as "1", never matches. Digits, such as "34", match only as preferred name of
        an entity, not as alias, since they match too much.
        """
        made = cls(normalize)
        ends: dict[int, dict[int, None]] = {}
        known: dict[str, str] = {}
        for row in range(len(kb)) if rows is None else rows:
            entity = kb.entities[row]
            for name in (entity.name, *entity.aliases):
                node = _ROOT
                path = made._path(name, known)
                if name != entity.name and "".join(path).isdigit():
                    continue
                for word in path:
                    number = made.number.setdefault(word, len(made.number))
                    node = made.step.setdefault(_key(node, number), len(made.step) + 1)
                if node != _ROOT:
                    ends.setdefault(node, {})[row] = None
        made.ends.update((node, tuple(sorted(found))) for node, found in ends.items())
        return made

    def matches(self, text: str) -> list[Match]:
        """Find all names in a text, also nested ones, ordered by begin, the shorter first.

        The words of a name may be separated by stop words and punctuation, but not by the end of a sentence.
        """
        spans = content_words(text)
        surface = [text[begin:end] for begin, end in spans]
        known = {form: self.normalize(form) for form in dict.fromkeys(surface)}
        word = [known[form] for form in surface]
        sentence_ends = sentences(text)[:, 1].tolist()
        found: list[Match] = []
        for first, (begin, _) in enumerate(spans):
            last = bisect(spans, (sentence_ends[bisect(sentence_ends, begin)],))
            if capitals := _capitals(surface[first]):
                found += self._along(spans[first : first + 1], [capitals], 0, 1)
            found += self._along(spans, word, first, last)
        return sorted(set(found))

    def _along(self, spans: list[Span], word: list[str], first: int, last: int) -> Iterator[Match]:
        """Yield the names that begin at word ``first`` and end before word ``last``."""
        node = _ROOT
        for place in range(first, last):
            node = self._next(node, word[place])
            if node == _NOWHERE:
                return
            if node in self.ends:
                yield Match(spans[first][0], spans[place][1], place + 1 - first, self.ends[node])

    def _next(self, node: int, word: str) -> int:
        number = self.number.get(word, -1)
        return _NOWHERE if number < 0 else self.step.get(_key(node, number), _NOWHERE)

    def _path(self, name: str, known: dict[str, str]) -> list[str]:
        """Return the normalised words of a name; ``known`` caches them."""
        surface = [name[begin:end] for begin, end in content_words(name)]
        if len(surface) == 1 and len(surface[0]) == 1:
            return []
        capitals = _capitals(surface[0]) if len(surface) == 1 else ""
        if 0 < len(capitals) <= _ACRONYM:
            return [capitals]  # no word that is compared without case has capitals
        return [known.get(form) or known.setdefault(form, self.normalize(form)) for form in surface]


def _capitals(word: str) -> str:
    """Return a word in capitals without its plural s; an empty string for another word."""
    singular = singular_form(word)
    return singular if singular.isupper() else ""


def _key(node: int, number: int) -> int:
    return node << 32 | number

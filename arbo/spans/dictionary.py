"""Find the names of a knowledge base in texts, in one pass over the words for any number of names.

The gap between two words of a text must match the name: a comma, a bracket, a line end or a stop word in the gap must
also be in the name, except articles. `of` and `in` match a comma ("cancer of the breast" is `Cancer, Breast`). But a
comma in a text does not match the comma of a name that is inverted for an index: "cancer, breast" is a list of two
names if the entity is also called `Breast Cancer`. A comma or bracket inside a word, as in "1,2-dichloroethane", does
not count. A name with signs, such as "CD4+ T cell", matches only with the same signs, see `arbo.text.names`.
"""

import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from arbo.data import KnowledgeBase
from arbo.text.abbreviations import singular_form
from arbo.text.checks import Span
from arbo.text.names import signs_of
from arbo.text.words import ARTICLES, capital_stop_words, content_words, fold, sentences, unwrapped

_ACRONYM = 5
"""Maximum length of a one-word name in capitals that must match in capitals: "ALL" is not all, "CAT" not a cat."""
_LONG = 50  # gaps of this length are seldom seen again, so that they are not cached
_SEPARATOR = re.compile(r"[,;:=|()\[\]{}\n]|\w{2,}")
"""The parts of a gap that count: marks and stop words, but not single letters such as "a" or the s of "Crohn's"."""
_BEFORE, _AFTER = re.compile(r"[^\w\s]*$"), re.compile(r"[-+#%'\u2032\u2212]*")
"""What may hold the signs of a name before its first and after its last word."""
_LIKE_OF = frozenset({"of", "in", "de", "des", "du"})
# Gaps begin with a blank, and words do not.
_COMMA, _OF = " ,", " of"
# Keys of a node: before the signs of a name, which end its path, and before its entities.
_SIGNS, _ENTITIES = "\0", "\1"
Node = dict[str, Any]  # the next node by word or gap, and the rows of the entities whose name ends here


class Match(NamedTuple):
    """A name in a text, at ``text[begin:end]``."""

    begin: int
    end: int
    size: int  # number of words, without stop words
    entities: tuple[int, ...]  # rows of the entities with the name


@dataclass(frozen=True, eq=False, slots=True)
class Dictionary:
    """A trie of names: each name is a path of its normalised words, and a second path with the gaps between them.

    >>> from arbo import Entity
    >>> kb = KnowledgeBase([Entity("D1", "Cancer of the Breast", ("Breast Cancer",)), Entity("D2", "cancer")])
    >>> [(match.begin, match.end, match.entities) for match in Dictionary().add(kb).matches("BREAST cancer")]
    [(0, 13, (0,)), (7, 13, (1,))]
    """

    normalize: Callable[[str], str] = fold  # returns the same form for all spellings of a word, in any case
    root: Node = field(default_factory=dict, repr=False)
    edges: set[str] = field(default_factory=set, repr=False)
    """Stop words without which a name would be one word, such as the Down of "Down syndrome". They count as words of a
    name if they begin with a capital letter."""

    def add(self, kb: KnowledgeBase, rows: Iterable[int] | None = None) -> Self:
        """Add the names of a knowledge base, or of some of its rows, and return the dictionary.

        Names of stop words alone are left out. A name of one word with at most five characters, in capitals, matches
        only capitals; a plural s does not matter ("APCs"). A name of a single character, such as "1", never matches. A
        name of digits, such as "34", matches only if it is preferred; as an alias it would match too much.
        """
        known: dict[str, str] = {}
        chosen = np.fromiter(range(len(kb)) if rows is None else rows, np.int64)
        columns = [column.to_pylist() for column in kb.taken(["name", "aliases"], chosen)]
        for row, name, aliases in zip(chosen.tolist(), *columns, strict=True):
            paths = [self._path(form, known) for form in (name, *aliases)]
            others = {path for path, _ in paths}
            for place, (path, gaps) in enumerate(paths):
                if not path or (place and "".join(path).isdigit()):
                    continue
                ending = (_SIGNS, signs) if (signs := signs_of((name, *aliases)[place])) else ()
                for form in (path, _with_gaps(path, gaps, others)):
                    node = reduce(lambda node, part: node.setdefault(part, {}), (*form, *ending), self.root)
                    node.setdefault(_ENTITIES, set()).add(row)
        return self

    def matches(self, text: str) -> list[Match]:
        """Find all names in a text, including nested ones, ordered by start, then by length.

        The gaps between words must match those of the name, see `arbo.spans.dictionary`. A name may continue on the
        next line of a wrapped paragraph, see `unwrapped`, but not in the next sentence.
        """
        spans = content_words(text)
        if self.edges:
            edges = (span for span in capital_stop_words(text) if fold(text[slice(*span)]) in self.edges)
            spans = sorted({*spans, *edges})
        surface = [text[begin:end] for begin, end in spans]
        known = {form: self.normalize(form) for form in dict.fromkeys(surface)}
        word = [known[form] for form in surface]
        gaps = _gaps(unwrapped(text), spans)
        sentence_ends = sentences(text)[:, 1].tolist()
        matches: list[Match] = []
        for first, (begin, _) in enumerate(spans):
            last = bisect(spans, (sentence_ends[bisect(sentence_ends, begin)],))
            if capitals := _capitals(surface[first]):
                matches += self._along(text, spans[first : first + 1], [capitals], [""], range(1))
            matches += self._along(text, spans, word, gaps, range(first, last))
        return sorted(set(matches))

    def _along(self, text: str, spans: list[Span], word: list[str], gaps: list[str], places: range) -> Iterator[Match]:
        """Yield the names that begin at the first of the places; ``gaps`` stand before the words."""
        first, node = places[0], self.root
        for place in places:
            if place > first and (gap := gaps[place]):
                node = node.get(gap) or (node.get(_COMMA, {}) if gap == _OF else {})
            if (after := node.get(word[place])) is None:
                return
            node = after
            begin, end, size = spans[first][0], spans[place][1], place + 1 - first
            if signed := _with_signs(text, begin, end, node):
                yield signed._replace(size=size)
            elif _ENTITIES in node:
                yield Match(begin, end, size, tuple(sorted(node[_ENTITIES])))

    def _path(self, name: str, known: dict[str, str]) -> tuple[tuple[str, ...], list[str]]:
        """Return the normalised words of a name, and the gaps before them; ``known`` caches words."""
        spans = content_words(name)
        if len(spans) == 1 and (edges := capital_stop_words(name)):
            self.edges.update(fold(name[begin:end]) for begin, end in edges)
            spans = sorted([*spans, *edges])
        surface = [name[begin:end] for begin, end in spans]
        if len(surface) == 1 and len(surface[0]) == 1:
            return (), []
        capitals = _capitals(surface[0]) if len(surface) == 1 else ""
        if 0 < len(capitals) <= _ACRONYM:
            return (capitals,), [""]  # no word that is compared without case has capitals
        words = tuple(known.get(form) or known.setdefault(form, self.normalize(form)) for form in surface)
        return words, _gaps(name, spans)


def _with_signs(text: str, begin: int, end: int, node: Node) -> Match | None:
    """Return the name whose words end in a node, and whose signs the text has; None if there is none."""
    if _SIGNS not in node:
        return None
    before, after = _BEFORE.findall(text[max(0, begin - _LONG) : begin])[0], _AFTER.match(text, end)
    assert after is not None
    wide = begin - len(before), after.end()
    for span in ((begin, end), (begin, wide[1]), (wide[0], end), wide):
        if (signs := signs_of(text[slice(*span)])) in node[_SIGNS]:
            return Match(*span, 0, tuple(sorted(node[_SIGNS][signs][_ENTITIES])))
    return None


def _with_gaps(path: tuple[str, ...], gaps: list[str], others: Collection[tuple[str, ...]]) -> tuple[str, ...]:
    """Return a path with its gaps; a comma becomes `of` if another path of the entity inverts the words."""
    if not any(gaps):
        return path
    form: list[str] = []
    for place, (gap, word) in enumerate(zip(gaps, path, strict=True)):
        turned = gap == _COMMA and path[place:] + path[:place] in others
        form += (_OF if turned else gap, word) if gap else (word,)
    return tuple(form)


def _gaps(text: str, spans: list[Span]) -> list[str]:
    between = (text[end:begin] for (_, end), (begin, _) in pairwise(spans))
    return ["", *(_gap(part) if len(part) < _LONG else _gap.__wrapped__(part) for part in between)]


@lru_cache(1 << 12)
def _gap(between: str) -> str:
    """Return the marks and stop words between two words; an empty string for none, or inside a word."""
    if len(between) < 3 and not any(map(str.isspace, between)):
        return ""
    parts = [part for part in map(str.lower, _SEPARATOR.findall(between)) if part not in ARTICLES]
    return _OF if parts and _LIKE_OF.issuperset(parts) else "".join(f" {part}" for part in parts)


def _capitals(word: str) -> str:
    """Return a word in capitals without its plural s; an empty string for another word."""
    singular = singular_form(word)
    return singular if singular.isupper() else ""

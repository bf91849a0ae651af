"""Split texts into lines, sentences, or passages that a model reads at once."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from arbo.text.checks import Span
from arbo.text.words import Offsets, offsets_of, words

_BREAK = re.compile(r"[.!?][\"'\u2019\u201d\u00bb)\]]*(?P<stop>\s+)|(?P<blank>\n\s*\n)")
_OPENING = "\"'\u2018\u201c\u00ab(["
_MOST_WORDS = 500  # maximum number of words in a passage; a table without full stops is one very long sentence
_WRAPPED = re.compile(r"(?<=[^\n]{40})\n(?=[^\S\n]*(?P<next>\S))")
_INITIAL = re.compile(r"[^\W\d_]\.")
_SHORT = """
al. approx. art. c.-à-d. ca. cf. dr. e.g. env. eq. ex. fig. figs. i.e. incl. mr. mrs. ms. nb. no. nos. p. p.ex. pp.
pr. prof. ref. refs. resp. sp. spp. st. ste. subsp. tab. var. vol. vs.
"""
_ABBREVIATIONS = frozenset(_SHORT.split())


def lines(text: str) -> Offsets:
    r"""Return the offsets of the lines of a text, without blank lines.

    >>> text = "A title\n\n  A paragraph. \r\n"
    >>> [text[begin:end] for begin, end in lines(text)]
    ['A title', 'A paragraph.']
    """
    return _between(text, (match.span() for match in re.finditer(r"\n", text)))


def unwrapped(text: str) -> str:
    r"""Replace the ends of lines of at least 40 characters with blanks if the next line begins in lower case.

    >>> unwrapped("Of all patients, twelve died of an acute\nliver failure.\nA list:\nliver")
    'Of all patients, twelve died of an acute liver failure.\nA list:\nliver'
    """
    return _WRAPPED.sub(lambda end: " " if end["next"].islower() else "\n", text)


def sentences(text: str) -> Offsets:
    r"""Return the offsets of the sentences of a text, found by rules.

    A sentence ends at a blank line. It also ends after a full stop, exclamation or question mark (and closing brackets
    or quotes), if white space follows and then an upper-case letter or a digit, perhaps after an opening bracket or
    quote. The full stop of a frequent abbreviation ("Fig. 2", "St. Louis") or an initial ("J. Smith") ends no sentence,
    nor does the end of a line alone, since lines may be wrapped. In doubt two sentences stay together.

    >>> text = "Titles\n\nSt. Louis encephalitis (Fig. 2) was found.  It was\nrare, cf. E. coli."
    >>> [text[begin:end] for begin, end in sentences(text)]
    ['Titles', 'St. Louis encephalitis (Fig. 2) was found.', 'It was\nrare, cf. E. coli.']
    """
    return _between(text, _ends(text))


def passages(text: str) -> Offsets:
    """Return the offsets of the sentences of a text; sentences of more than 500 words are cut between words.

    >>> [(int(begin), int(end)) for begin, end in passages("In short. " + "Word " * 501)]
    [(0, 9), (10, 2509), (2510, 2514)]
    """
    begins = words(text)[:, 0]
    made: list[Span] = []
    for begin, end in sentences(text).tolist():
        first, last = np.searchsorted(begins, (begin, end))
        cuts = [begin, *begins[first + _MOST_WORDS : last : _MOST_WORDS].tolist(), end]
        made += ((start, start + len(text[start:stop].rstrip())) for start, stop in pairwise(cuts))
    return offsets_of(made)


def _ends(text: str) -> Iterator[Span]:
    for match in _BREAK.finditer(text):
        space = match.span(match.lastgroup or 0)
        if text.count("\n", *space) > 1 or (_begins(text, match.end()) and not _is_abbreviated(text, match.start())):
            yield space


def _begins(text: str, place: int) -> bool:
    while text[place : place + 1] and text[place] in _OPENING:
        place += 1
    return text[place : place + 1].isupper() or text[place : place + 1].isdigit()


def _is_abbreviated(text: str, stop: int) -> bool:
    before = text[max(0, stop - 12) : stop + 1].split()[-1].lstrip(_OPENING)
    return before.casefold() in _ABBREVIATIONS or _INITIAL.fullmatch(before) is not None


def _between(text: str, gaps: Iterator[Span]) -> Offsets:
    """Return the offsets of the pieces between the gaps, without empty ones and without white space at their ends."""
    pieces = []
    begin = 0
    for end, after in (*gaps, (len(text), len(text))):
        piece = text[begin:end]
        if stripped := piece.strip():
            first = begin + len(piece) - len(piece.lstrip())
            pieces.append((first, first + len(stripped)))
        begin = after
    return offsets_of(pieces)


def lay_out(sentences: Sequence[Sequence[str]]) -> tuple[str, list[list[Span]]]:
    r"""Join sentences of words into a text; also return the offsets of each word in it.

    >>> lay_out([["A", "cat", "."], ["It", "sat"]])
    ('A cat .\nIt sat', [[(0, 1), (2, 5), (6, 7)], [(8, 10), (11, 14)]])
    """
    places: list[list[Span]] = []
    offset = 0
    for sentence in sentences:
        places.append([])
        for word in sentence:
            places[-1].append((offset, offset + len(word)))
            offset += len(word) + 1
        offset += not sentence
    return "\n".join(map(" ".join, sentences)), places

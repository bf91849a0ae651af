r"""The words of a text, the stop words among them, and the sentences and passages that they form.

A word is a maximal run of word characters (``\w``: letters, digits, the underscore) with their combining marks,
so that a decomposed accent (NFD) stays with its letter. Hyphens and apostrophes separate words: "Crohn's" is two
words, also with the modifier letter apostrophe (U+02BC).
Scripts without blanks, such as Chinese, are not split: a run of such characters is one word.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from arbo.text.checks import Span
from arbo.text.names import INVISIBLE

Offsets = npt.NDArray[np.int64]  # (n, 2): start and end of pieces of a text, in code points; the end is exclusive

_ENGLISH = """
    a an the this that these those such
    about above across after against along among around as at before behind below beneath beside between beyond by
    down during for from in inside into of off on onto out outside over per since through throughout to toward towards
    under until up upon via with within
    and or but nor so yet than then if because although though while whereas whether when where which who whom whose
    what how why
    i me my we us our you your he him his she her it its they them their there here
    am is are was were be been being has have had having do does did can could may might must shall should will would
    also both each either neither some any all other another same
"""
_FRENCH = """
    le la les un une des du de au aux ce cet cette ces mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs
    à après avant avec chez contre dans depuis derrière dès durant en entre envers hors jusque malgré outre par parmi
    pendant pour selon sous sur vers via
    et ou mais donc or car ni comme lorsque puisque quand que qui quoi dont où si
    je tu il elle on nous vous ils elles me te se lui eux y
    suis es est sommes êtes sont était étaient être été étant ai as avons avez ont avait avaient avoir eu
    aussi plusieurs quelques chaque tout tous toute toutes autre autres même mêmes
"""
STOP_WORDS = frozenset(f"{_ENGLISH} {_FRENCH}".split())
"""English and French articles, prepositions, conjunctions, pronouns and auxiliaries, in lower case.

Negations ("no", "without", "sans") are not stop words, because they distinguish names.
"""

_ELIDED = frozenset({"c", "d", "j", "l", "m", "n", "s", "t", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu"})
_CLITICS = frozenset({"d", "ll", "m", "re", "s", "t", "ve"})
ARTICLES = frozenset({"an", "the", "la", "le", "les", "un", "une"})
SMALL_WORDS = STOP_WORDS | _ELIDED | _CLITICS  # the words that a name may lose, in lower case
APOSTROPHES = "'\u2019\u02bc`"
_OPENING = "\"'\u2018\u201c\u00ab(["
_NEXT = rf"(?=[{re.escape(_OPENING)}]*(?P<next>.?))"
_STOP = re.compile(rf"[.!?][\"'\u2019\u201d\u00bb)\]]*(?P<stop>\s+){_NEXT}|(?P<blank>\n\s*\n)", re.S)
_PIECE = re.compile(r"\S(?:.*\S)?", re.S)
_MOST_WORDS = 500  # maximum number of words in a passage; a table without full stops is one very long sentence
_WRAPPED = re.compile(r"(?<=[^\n]{40})\n(?=[^\S\n]*(?P<next>\S))")
_INITIAL = re.compile(r"[^\W\d_]\.")
_SHORT = """
al. approx. art. c.-à-d. ca. cf. dr. e.g. env. eq. ex. fig. figs. i.e. incl. mr. mrs. ms. nb. no. nos. p. p.ex. pp.
pr. prof. ref. refs. resp. sp. spp. st. ste. subsp. tab. var. vol. vs.
"""
_ABBREVIATIONS = frozenset(_SHORT.split())


def words(text: str) -> Offsets:
    """Return the offsets of the words of a text.

    >>> text = "Crohn's disease, l'iléite"
    >>> [text[begin:end] for begin, end in words(text)]
    ['Crohn', 's', 'disease', 'l', 'iléite']
    """
    return offsets_of(match.span() for match in _word().finditer(text))


def content_words(text: str) -> list[Span]:
    """Return the offsets of the words, without stop words and without letters that an apostrophe joins to a word.

    A word in capitals is a name, such as ALL or the A of "hepatitis A". But in a text all in capitals, with three words
    of two or more letters, a separate one can be a stop word: the OF of "CANCER OF THE COLON", not the AND of "AND-34".

    >>> text = "Crohn's disease of the colon, l'iléite ALL"
    >>> [text[begin:end] for begin, end in content_words(text)]
    ['Crohn', 'disease', 'colon', 'iléite', 'ALL']
    """
    spans = [match.span() for match in _word().finditer(text)]
    in_capitals = text.isupper() and sum(sum(map(str.isalpha, text[begin:end])) > 1 for begin, end in spans) > 2

    def is_content(begin: int, end: int) -> bool:
        word, around = text[begin:end], text[begin - 1 : begin] + text[end : end + 1]
        if in_capitals and len(word) > 1 and not around.strip():
            word = word.lower()
        return word.isupper() or unicodedata.normalize("NFC", word).casefold() not in STOP_WORDS

    return [span for span in spans if is_content(*span) and not _is_clitic(text, *span)]


def capital_stop_words(text: str) -> list[Span]:
    """Return the offsets of the stop words of two or more letters that begin with a capital letter, without articles.

    >>> [text[begin:end] for text in ["The Down syndrome of May"] for begin, end in capital_stop_words(text)]
    ['Down', 'May']
    """
    spans = {(begin, end) for begin, end in words(text).tolist() if end > begin + 1 and text[begin].isupper()}
    return sorted(span for span in spans - {*content_words(text)} if fold(text[slice(*span)]) not in ARTICLES)


def fold(word: str) -> str:
    """Return a word without differences of case, width and Unicode's spelling of accents.

    >>> fold("Ile\u0301ite") == fold("ILÉITE")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())


def offsets_of(spans: Iterable[Span]) -> Offsets:
    """Return spans as an array with two columns, even if there are none."""
    return np.array(list(spans), np.int64).reshape(-1, 2)


def _is_clitic(text: str, begin: int, end: int) -> bool:
    """Tell whether a word is the s of "Crohn's" or the l of "l'iléite"."""
    word = text[begin:end].casefold()
    if word in _ELIDED and text[end : end + 1] in APOSTROPHES and text[end + 1 : end + 2].isalpha():
        return True
    if word not in _CLITICS or begin < 2 or text[begin - 1] not in APOSTROPHES:
        return False
    return text[begin - 2].isalnum() or unicodedata.category(text[begin - 2]).startswith("M")


@cache
def _word() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)).startswith("M"))
    return re.compile(rf"[^\W\u02bc](?:[^\W\u02bc]|[{marks}]|[{INVISIBLE}\u200c\u200d]+(?=\w))*")


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
    pieces, begin = list[Span](), 0
    for end, after in (*_ends(text), (len(text), len(text))):
        if piece := _PIECE.search(text, begin, end):
            pieces.append(piece.span())
        begin = after
    return offsets_of(pieces)


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
    for match in _STOP.finditer(text):
        space, follows = match.span("blank" if match["stop"] is None else "stop"), match["next"] or ""
        begins = follows.isupper() or follows.isdigit()
        if text.count("\n", *space) > 1 or (begins and not _is_abbreviated(text, match.start())):
            yield space


def _is_abbreviated(text: str, stop: int) -> bool:
    before = text[max(0, stop - 12) : stop + 1].split()[-1].lstrip(_OPENING)
    return before.casefold() in _ABBREVIATIONS or _INITIAL.fullmatch(before) is not None


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

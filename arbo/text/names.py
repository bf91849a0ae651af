"""Normalised names, as encoders compare them, and the signs that tell some of them apart.

Signs mean something in CD4+ and CD4-, C and C++, (+)- and (-)-limonene, 3 and 3'. `arbo.encoders.string_table` adds to
a name with signs further forms of each of its words, marked by these signs, so that the cosine of two names that differ
in signs alone is below 0.45, and dissimilarities beyond the default thresholds.
"""

import re
import unicodedata
from collections.abc import Sequence
from zlib import crc32

INVISIBLE = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
INVISIBLE += "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
"""Characters that format a text and are no part of a word, as a class of regular expressions."""
_INVISIBLE = re.compile(rf"[{INVISIBLE}]|(?<=[\0-\u058f])[\u200c\u200d]")  # joiners are part of other scripts
_POSSESSIVE = re.compile(r"['\u2019`]s\b")
_NOT_WORD = re.compile(r"[^\w\0]+")
_PLURAL = re.compile(r"\b\w{2,}[^\Wsiu]s\b")
_GREEK = {
    letter: f" {unicodedata.name(letter).rpartition(' ')[2].lower()} "
    for letter in map(chr, (*range(0x3B1, 0x3C2), *range(0x3C3, 0x3CA)))
}
_LONE_GREEK = re.compile("(?<![\u0370-\u03ff])[\u03b1-\u03c9](?![\u0370-\u03ff])(?<!\u03bc(?=[a-z]))")
"""Greek letters beside no other, but for the sign of micrometres and the like."""
NOT_ASCII = re.compile(r"[^\0-\x7f]+")
_LATIN_DIPHTHONG = re.compile("ae|oe")
_BRITISH_OUR = re.compile(r"our\b")
MAY_HAVE_SIGNS = (
    "[+<>%#'\u2032\u2019\u207a\u208a\ufe62\uff0b\uff05\uff03\uff1c\uff1e]"
    "|[-\u2212\u207b\u208b\ufe63\uff0d](\\W|$)|(^|[^\\w)\\]])[-\u2212\u207b\u208b\ufe63\uff0d]"
)
"""A quick test for parts of names, a regular expression for Python and for Arrow, whose letters are those of ASCII."""
_MAY = re.compile(MAY_HAVE_SIGNS)
_SIGN = re.compile(
    r"(?<!\w)(\w*+)([+<>%#]"
    r"|(?<=[0-9A-Z)\]])-(?![\w(])(?!\s+(?i:and|or)\b)"  # not the hyphen of "IgG- and IgM-positive"
    r"|(?<=\()-(?=\))"
    r"|(?<![\w)\]])-(?=\d)"
    r"|(?<=[0-9A-Z])(?<![^\W\d_]{2})['\u2032\u2019](?![A-Za-z])"  # a prime, no possessive
    r")"
)
_FORMS = 4  # so many that the name without signs is beyond the default threshold, 0.55
_AS = str.maketrans("\u2032\u2019\u2212", "''-")


def normalize_name(name: str) -> str:
    """Remove differences of case, accents, punctuation, English plurals and spelling variants from a name.

    >>> normalize_name("Wilson's Tumours, Haemorrhagic (Type-2)")
    'wilson tumor hemorrhagic type 2'
    """
    return normalize_names([name])[0]


def normalize_names(names: Sequence[str]) -> list[str]:
    """Return `normalize_name` of each name; all names are one text, divided by NULs, which no name has."""
    folded = unicodedata.normalize("NFKC", "\0".join(name.replace("\0", " ") for name in names)).casefold()
    if not folded.isascii():
        folded = _LONE_GREEK.sub(lambda letter: _GREEK.get(letter[0], letter[0]), _INVISIBLE.sub("", folded))
        folded = NOT_ASCII.sub(lambda run: without_marks(run[0]), folded)
    text = _NOT_WORD.sub(" ", _POSSESSIVE.sub("", folded).replace("_", " "))
    text = _LATIN_DIPHTHONG.sub("e", _PLURAL.sub(lambda word: _singular(word[0]), text))
    text = _BRITISH_OUR.sub("or", text).replace(" \0", "\0").replace("\0 ", "\0")
    # "+++" is a name too, and equal to itself.
    both = zip(text.strip(" ").split("\0"), folded.split("\0"), strict=True)
    return [name or " ".join(raw.split()) for name, raw in both][: len(names)]


def without_marks(text: str) -> str:
    """Return a text without accents and other combining marks."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _singular(word: str) -> str:
    if not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes")) else word[:-1]


def signs_of(name: str) -> str:
    """Return the signs of a name, in the order of the words that they follow; an empty string for none.

    >>> [signs_of(name) for name in ("C++", "CD4+CD25- T-cells", "CD25- CD4+ cells", "(-)-limonene", "Crohn's")]
    ['++', '-+', '-+', '-', '']
    """
    if not _MAY.search(name):
        return ""
    text = unicodedata.normalize("NFKC", name).translate(_AS)
    return "".join(sign for _, sign in sorted((match[1].casefold(), match[2]) for match in _SIGN.finditer(text)))


def marked(word: str, signs: str) -> list[str]:
    """Return forms of a word of a name with signs, whose n-grams of three or more letters no word without them has."""
    first = 0x4E00 + crc32(signs.encode()) % 20_000  # a letter that is no part of such words
    return [mark + mark.join(word) + mark for mark in map(chr, range(first, first + _FORMS))]

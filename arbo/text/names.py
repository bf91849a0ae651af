"""Normalised names, as encoders compare them."""

import re
import unicodedata
from collections.abc import Sequence

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

"""Normalised names, as encoders compare them."""

import re
import unicodedata
from collections.abc import Sequence

_POSSESSIVE = re.compile(r"['\u2019`]s\b")
_NOT_WORD = re.compile(r"[^\w\0]+")
_PLURAL = re.compile(r"\b\w{2,}[^\Wsiu]s\b")
_NOT_ASCII = re.compile(r"[^\0-\x7f]+")
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
        folded = _NOT_ASCII.sub(lambda run: _without_marks(run[0]), folded)
    text = _NOT_WORD.sub(" ", _POSSESSIVE.sub("", folded).replace("_", " "))
    text = _LATIN_DIPHTHONG.sub("e", _PLURAL.sub(lambda word: _singular(word[0]), text))
    text = _BRITISH_OUR.sub("or", text).replace(" \0", "\0").replace("\0 ", "\0")
    # "+++" is a name too, and equal to itself.
    both = zip(text.strip(" ").split("\0"), folded.split("\0"), strict=True)
    return [name or " ".join(raw.split()) for name, raw in both][: len(names)]


def _without_marks(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _singular(word: str) -> str:
    if not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes")) else word[:-1]

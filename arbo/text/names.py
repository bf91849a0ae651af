"""Normalised names, as encoders compare them."""

import re
import unicodedata

_POSSESSIVE = re.compile(r"['\u2019`]s\b")
_NOT_WORD = re.compile(r"[\W_]+")
_LATIN_DIPHTHONG = re.compile("ae|oe")
_BRITISH_OUR = re.compile(r"our\b")


def normalize_name(name: str) -> str:
    """Remove differences of case, accents, punctuation, English plurals and spelling variants from a name.

    >>> normalize_name("Wilson's Tumours, Haemorrhagic (Type-2)")
    'wilson tumor hemorrhagic type 2'
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    if not folded.isascii():
        folded = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
    words = [_singular(word) for word in _NOT_WORD.sub(" ", _POSSESSIVE.sub("", folded)).split()]
    if not words:  # "+++" is a name too, and equal to itself
        return " ".join(folded.split())
    return _BRITISH_OUR.sub("or", _LATIN_DIPHTHONG.sub("e", " ".join(words)))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes")) else word[:-1]

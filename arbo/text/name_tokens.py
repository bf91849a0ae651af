"""The tokens of names, and the kind of each: what a name is recognised by, and what it has besides.

Legal forms are abbreviations and words of ISO 20275, the list of Entity Legal Forms of GLEIF, for larger countries.
"""

import re
from collections.abc import Sequence

from arbo.text.names import INVISIBLE, NOT_ASCII, without_marks

WORD, NUMBER, LETTER, LEGAL, TITLE, SMALL, SIGN = range(7)
"""The kinds of tokens; for signs, such as those of C++, see `arbo.text.names`."""
WEIGHT = (1.0, 1.0, 0.6, 0.15, 0.25, 0.1, 0.6)  # how much a token of each kind says
MOST = 24  # the largest number of tokens of a name that are compared

_LEGAL = (
    "ag kg kgaa gmbh ggmbh mbh ohg gbr ug ev se inc incorporated llc llp lp ltd limited corp corporation co company "
    "cie plc pty pte pllc sa sarl sas sasu snc eurl scop spa srl sapa nv bv bvba sprl cv vof oy oyj ab aktiebolag hb "
    "kb as asa aps is ans da ks sp zoo kft zrt nyrt bt rt doo dd ad ood eood sro sl slu slne sca sae ltda lda eireli "
    "oao ooo zao pao ojsc jsc cjsc tov kk gk kabushiki kaisha bhd sdn tbk pt aktiengesellschaft kommanditgesellschaft "
    "gesellschaft haftung aktieselskab aksjeselskap anpartsselskab osakeyhtio unlimited holding holdings group"
)
_TITLES = (
    "mr mrs ms miss mister dr doctor prof professor sir madam madame mme mlle monsieur lady lord dame rev reverend "
    "hon herr frau fraulein st saint san santa sankt jr sr junior senior phd md esq gen general col colonel capt "
    "captain lt lieutenant maj major sgt president king queen prince princess emperor pope bishop sen senator gov "
    "governor don dona signor signora dott dipl ing mag"
)
PERSONS = {"mr", "mrs", "ms", "dr", "prof", "professor", "sir", "herr", "frau", "mme"}
"""Titles of any person; without one in a list, its `RANKS` are words ("General Motors")."""
RANKS = {"general", "major", "president", "king", "queen", "prince", "princess"}
_SMALL = "the a an of and or for in on at to by with de la le les des du di del der die das den van von und et"
_KIND = {word: kind for kind, words in ((SMALL, _SMALL), (LEGAL, _LEGAL), (TITLE, _TITLES)) for word in words.split()}
"""The kinds of known words; a title that is a legal form too is a title."""
_UNITS = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
ROMAN = {"x" * ten + unit: f"{ten}{one}".lstrip("0") for ten in range(4) for one, unit in enumerate(_UNITS)}
"""Roman numerals up to 39, as numbers; the empty one is no token."""
NUMBERED = {"type", "typ", "stage", "grade", "class", "phase", "group", "factor", "part", "volume", "category", "level"}
"""Words after which a numeral may be one letter."""
VERSIONS = {"pro", "plus", "max", "mini", "ultra", "lite"}
"""Words that make another product of a number before them, and are in capitals then."""
_VERSION = re.compile(r"(?<=\d)[a-z](?![^\W_])")  # a letter that does, as in 3S
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_DOTTED = re.compile(r"(?<!\w)(?:[^\W\d_]\.){2,}(?:[^\W\d_](?!\w))?")
_APOSTROPHE = re.compile(r"(?<=\w)['\u2019](?!s\b)")
_UNSEEN = re.compile(f"[{INVISIBLE}]")
_AS = str.maketrans({"\u00df": "ss", "\u00f8": "o", "\u0142": "l", "\u0111": "d", "\u00e6": "ae", "\u0153": "oe"})


def words_in(parts: Sequence[str]) -> list[list[str]]:
    """Return the words and numbers in each part of a name between blanks, without case and accents.

    >>> words_in(["Müller", "&", "G.m.b.H.", "XR-909"])
    [['muller'], ['and'], ['gmbh'], ['xr', '909']]
    """
    # All parts are one text, divided by line breaks.
    text = "\n".join(part.replace("\n", " ") for part in parts).casefold().replace("&", " and ")
    if not text.isascii():
        text = NOT_ASCII.sub(lambda run: without_marks(run[0].translate(_AS)), _UNSEEN.sub("", text))
    text = _APOSTROPHE.sub("", _DOTTED.sub(lambda some: some[0].replace(".", "") + " ", text))
    text = _VERSION.sub(lambda letter: letter[0].upper(), text)
    return [*map(_TOKEN.findall, text.split("\n")[: len(parts)])]


def kind_of(token: str) -> int:
    """Return the kind of a token."""
    if token.isdigit():
        return NUMBER
    if token.isupper():  # of a version, or a state
        return SIGN if len(token) == 1 or token.lower() in VERSIONS else WORD
    if len(token) == 1 and token.isalpha():
        return LETTER
    return _KIND.get(token, WORD) if token.isalnum() else SIGN

"""Signs that mean something in names: CD4+ and CD4-, C and C++, (+)- and (-)-limonene, 3 and 3'.

`arbo.encoders.name_words` adds to a name with signs further forms of each of its words, marked by these signs, so that
the cosine of two names that differ in signs alone is below 0.45, and dissimilarities beyond the default thresholds.
"""

import re
import unicodedata
from zlib import crc32

MAY_HAVE_SIGNS = (
    "[+<>%#'\u2032\u2019\u207a\u208a\ufe62\uff0b\uff05\uff03\uff1c\uff1e]"
    "|[-\u2212\u207b\u208b\ufe63\uff0d](\\W|$)|(^|[^\\w)\\]])[-\u2212\u207b\u208b\ufe63\uff0d]"
)
"""A quick test for parts of names, a regular expression for Python and for Arrow, whose letters are those of ASCII."""
_MAY = re.compile(MAY_HAVE_SIGNS)
_SIGN = re.compile(
    r"(\w*)([+<>%#]"
    r"|(?<=[0-9A-Z)\]])-(?![\w(])(?!\s+(?:and|or)\b)"  # not the hyphen of "IgG- and IgM-positive"
    r"|(?<=\()-(?=\))"
    r"|(?<![\w)\]])-(?=\d)"
    r"|(?<=[0-9A-Z])['\u2032\u2019](?![A-Za-z])"  # a prime, no possessive
    r")"
)
_FORMS = 4  # so many that the name without signs is beyond the default threshold, 0.55
_AS = str.maketrans("\u2032\u2019\u2212", "''-")


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

"""Noun phrases of English: their words, their head, and whether they are a name, a description or a pronoun."""

import re
from collections.abc import Sequence

from arbo.text.names import normalize_name, signs_of

PRONOUNS = (
    "",
    "i me my mine myself",
    "we us our ours ourselves",
    "you your yours yourself yourselves",
    "he him his himself",
    "she her hers herself",
    "it its itself",
    "they them their theirs themselves",
    "who whom whose which",
    "this that these those",
    "there here one",
)
_AFTER_HEAD = """
    of in on at for to with by from who which that and or as about between into where when whose against over under
    through , ( -
"""
_BREAKS = frozenset(_AFTER_HEAD.split())
TOKEN = re.compile(r"'s\b|\w+|[^\w\s]")


def tokens_of(text: str) -> list[str]:
    """Split a text into words and signs, without the s of a possessive.

    >>> tokens_of("Wilson's disease (WD)")
    ['Wilson', 'disease', '(', 'WD', ')']
    """
    return [token for token in TOKEN.findall(text.replace("\u2019", "'")) if token != "'s"] or [text]


def head_of(tokens: Sequence[str]) -> str:
    """Return the head of most English noun phrases: the last word before a preposition, a relative pronoun or a comma.

    A conjunction, an opening bracket or a hyphen also ends the search.

    >>> head_of("the former Governor of Virginia".split())
    'Governor'
    """
    head = ""
    for token in tokens:
        if head and token.lower() in _BREAKS:
            break
        if token[0].isalnum():
            head = token
    return head or tokens[-1]


_WORDS = frozenset(" ".join(PRONOUNS).split())
_DEFINITE = {"the", "this", "that", "these", "those", "such", "my", "our", "your", "his", "her", "its", "their"}


def refers_back(text: str) -> bool:
    """Return whether a phrase means nothing by itself: a pronoun, or "the", "his" etc. without a capital after it.

    >>> [refers_back(text) for text in ("She", "his wife", "the company", "The Hague", "company")]
    [True, True, True, False, False]
    """
    first, *others = tokens_of(text)
    if not others and first.lower() in _WORDS:  # a pronoun
        return True
    return first.lower() in _DEFINITE and not any(letter.isupper() for token in others for letter in token)


def shared_name(text: str) -> str | None:
    """Return the normalised name and its signs, which namesakes share; None for a phrase that means nothing by itself.

    >>> [shared_name(text) for text in ("Marsh Fevers", "marsh fever", "CD4+ cells", "she")]
    ['marsh fever', 'marsh fever', 'cd4 cell +', None]
    """
    return None if refers_back(text) else f"{normalize_name(text)} {signs_of(text)}".strip()

"""Helpers for formats of lines: texts on one line, ids that a line can hold, and mentions as one span."""

import re
from collections import Counter

from arbo.data import Mention
from arbo.errors import DataError
from arbo.text.checks import Span

_BLANKS = str.maketrans("\t\r\n", "   ")


def one_line(text: str) -> str:
    """Replace each tab, carriage return and line feed by a space."""
    return text.translate(_BLANKS)


def check_id(value: str, allowed: re.Pattern[str], *, of: str) -> str:
    """Return an id if it matches a pattern completely; raise DataError for the mention or document ``of`` otherwise."""
    if allowed.fullmatch(value):
        return value
    raise DataError(f"the format cannot hold the id {value!r:.80}; rename it, or export as jsonl", id=of)


def hull(mention: Mention, notes: Counter[str]) -> Span:
    """Return the span from the first to the last offset of a mention; count discontinuous mentions."""
    notes["discontinuous mentions written from first to last offset"] += len(mention.spans) > 1
    return mention.start, mention.end

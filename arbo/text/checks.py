"""Checks of the strings and spans that become part of a document or an entity."""

import json
from collections.abc import Mapping

from arbo.errors import DataError

Span = tuple[int, int]  # start and end of a piece of a text, in Unicode code points; the end is exclusive


def check_text(value: object, what: str, *, of: str | None = None) -> None:
    """Raise DataError, with the id `of`, unless `value` is a string without NUL that can be stored as UTF-8.

    The error calls the value `what` and gives the position, never the text.
    """
    if not isinstance(value, str):
        raise DataError(f"{what} must be a string, not {type(value).__name__}", id=of)
    if value.isascii() and "\0" not in value:  # most are, and need no copy
        return
    if (nul := value.find("\0")) >= 0:
        raise DataError(f"{what} has a NUL at character {nul} (from 0); remove it", id=of)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        wrong = f"{what} has a surrogate (U+{ord(value[error.start]):04X}) at character {error.start} (from 0)"
        raise DataError(f"{wrong}; write the character itself, or in JSON both of its escapes", id=of) from None


def check_name(value: object, what: str, *, of: str | None = None) -> None:
    """Raise DataError unless `value`, an id or a name, is a string that can be stored and is not blank."""
    check_text(value, what, of=of)
    if not str(value).strip():
        raise DataError(f"{what} is empty; fill it in, or leave the entry out", id=of)


def check_texts(values: object, what: str, *, of: str | None = None, blank: bool = True) -> None:
    """Raise DataError unless `values` is a tuple of storable strings; if `blank` is False, none may be blank."""
    if not isinstance(values, tuple):
        raise DataError(f"{what} must be a tuple of strings, not {type(values).__name__}", id=of)
    check = check_text if blank else check_name
    for value in values:
        check(value, f"an item of {what}", of=of)


def check_metadata(value: object, what: str = "the metadata", *, of: str | None = None) -> None:
    """Raise DataError, which calls the value `what`, unless it is a mapping that can be stored as a JSON object."""
    if not isinstance(value, Mapping):
        raise DataError(f"{what} must be a JSON object, not {type(value).__name__}", id=of)
    if value:
        try:
            stored = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{what} cannot be stored as JSON: {error}", id=of) from None
        check_text(stored, what, of=of)


def check_spans(spans: object, *, of: str | None = None) -> None:
    """Raise DataError unless `spans` is a non-empty tuple of pairs `(start, end)` with `0 <= start < end`."""
    if not isinstance(spans, tuple) or not spans:
        raise DataError(f"the spans must be a tuple of one or more pairs (start, end), not {spans!r:.60}", id=of)
    for span in spans:
        # `type`, not `isinstance`: True and False are ints in Python, but never offsets.
        if not isinstance(span, tuple) or len(span) != 2 or type(span[0]) is not int or type(span[1]) is not int:
            raise DataError(f"a span must be a pair of integers (start, end), not {span!r:.60}", id=of)
        start, end = span
        if not 0 <= start < end:
            raise DataError(f"the span {start} to {end} is not one with 0 <= start < end", id=of)

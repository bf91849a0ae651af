"""What every string must satisfy before it becomes part of a document or an entity."""

from __future__ import annotations

from arbo.errors import DataError


def check_text(value: object, what: str, *, of: str | None = None) -> None:
    """Raise unless `value` is a string that can be stored as UTF-8; `of` is the id to name in the error.

    A NUL or a lone surrogate passes through Python unnoticed and breaks whatever is written later.
    The message tells the position, never the text.
    """
    if not isinstance(value, str):
        raise DataError(f"{what} must be a string, not {type(value).__name__}", id=of)
    if (nul := value.find("\0")) >= 0:
        raise DataError(f"{what} has a NUL at character {nul}; remove it", id=of)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        raise DataError(
            f"{what} has a lone surrogate (U+{code:04X}) at character {error.start}; "
            "write the character itself, or a complete surrogate pair",
            id=of,
        ) from None


def check_name(value: object, what: str, *, of: str | None = None) -> None:
    """Raise unless `value` is a string that can be stored and is not blank: an id, a name."""
    check_text(value, what, of=of)
    if not str(value).strip():
        raise DataError(f"{what} is empty; write one, or leave the whole entry out", id=of)


def check_texts(values: object, what: str, *, of: str | None = None, blank: bool = True) -> None:
    """Raise unless `values` is a tuple of strings that can be stored; `blank` tells if they may be blank."""
    if not isinstance(values, tuple):
        raise DataError(f"{what} must be a tuple of strings, not {type(values).__name__}", id=of)
    check = check_text if blank else check_name
    for value in values:
        check(value, f"one of {what}", of=of)

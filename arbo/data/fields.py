"""Check and convert the values of a record, and keep its further keys as metadata.

A converter returns a valid JSON value; for any other value, it raises a TypeError that names the expected type.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from arbo.errors import DataError
from arbo.text.checks import Span

Convert = Callable[[object], Any]


def fields(
    record: object, what: str, known: Mapping[str, Convert], *, required: tuple[str, ...], of: str | None = None
) -> dict[str, Any]:
    """Check a JSON object and convert its values; raise DataError with its id, or with `of` if it has no id.

    Keys that are not in `known` become `metadata`, where values that JSON cannot hold become strings.
    """
    if not isinstance(record, dict):
        raise DataError(f"{what} must be a JSON object, not {_kind(record)}", id=of)
    own = record.get("id")
    of = own if isinstance(own, str) else of
    for key in required:
        if key not in record:
            raise DataError(f"{what} needs the key {key!r}", id=of)
    extra: dict[str, Any] = {}
    values: dict[str, Any] = {"metadata": extra}
    for key, value in record.items():
        if key not in known:
            extra[str(key)] = value
            continue
        try:
            values[key] = known[key](value)
        except TypeError as error:
            raise DataError(f"{key!r} of {what} must be {error}, not {_kind(value)}", id=of) from None
    if extra:
        values["metadata"] = json.loads(json.dumps(extra, default=str))
    return values


def _kind(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value)
    names = {str: "a string", int: "a number", list: "this list", dict: "an object"}
    return names.get(type(value), f"{type(value).__name__!r}")


def string(value: object) -> str:
    """Accept a string."""
    if not isinstance(value, str):
        raise TypeError("a string (in quotes)")
    return value


def or_null(convert: Convert) -> Convert:
    """Return a converter that accepts null, too."""
    return lambda value: None if value is None else convert(value)


def number(value: object) -> float:
    """Accept a finite number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e300:
        raise TypeError("a finite number")
    return float(value)


def anything(value: object) -> Any:
    """Accept any value."""
    return value


def mapping_or_null(value: object) -> dict[str, Any] | None:
    """Accept an object or null."""
    if value is not None and not isinstance(value, dict):
        raise TypeError("an object")
    return value


def any_list(value: object) -> list[object]:
    """Accept any list."""
    if not isinstance(value, list):
        raise TypeError("a list")
    return value


def strings(value: object) -> tuple[str, ...]:
    """Accept a list of strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings")
    return tuple(value)


string_or_null, strings_or_null = or_null(string), or_null(strings)


def spans(value: object) -> tuple[Span, ...]:
    """Accept a list of lists, and return it as tuples; `check_spans` checks that they are pairs of offsets."""
    if not isinstance(value, list) or not all(isinstance(span, list) for span in value):
        raise TypeError("a list of pairs [start, end]")
    return tuple(tuple(span) for span in value)


def offset_or_null(value: object) -> int | None:
    """Accept a whole number or null; 3.0 is accepted too, since pandas makes floats of a column with an empty cell."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and type(value) is not int:
        raise TypeError("a whole number")
    return value

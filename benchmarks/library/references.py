"""References in a text to the numbers of results, so that no number of the text can drift.

| reference | stands for |
|---|---|
| `{linking:job.seconds:.1f}` | a figure of `results/linking.json` |
| `{oslat:end to end[NCBI disease; fuzzy].mentions:,}` | a cell of the one row that holds these values, in this order |
| `{interval A of B}` | the 95 % interval of share A of B mentions, A and B being references without braces or format |
"""

import math
import re
from collections.abc import Mapping

from library.results import Result, Row

_BRACES = re.compile(r"\{([^{}]+)\}")
_NUMBER = re.compile(r"(?P<name>\w+):(?P<of>[^:\[\]]+)(?:\[(?P<row>[^\]]+)\]\.(?P<column>[^:]+))?(?::(?P<format>.+))?")
_INTERVAL = re.compile(r"interval (?P<share>.+) of (?P<number>\w+:.+)")


class MissingReferenceError(ValueError):
    """A text refers to a number that no result holds, or that several do."""


def filled(text: str, results: Mapping[str, Result]) -> str:
    """Replace every reference by its number.

    Raises:
        MissingReferenceError: a reference leads nowhere, to several rows, or to no number.
    """
    return _BRACES.sub(lambda found: _shown(found[1], results), text)


def wilson(share: float, number: float) -> tuple[float, float]:
    """95 % interval of a share of independent trials (Wilson 1927).

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    z = 1.959964
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return middle - half, middle + half


def _shown(reference: str, results: Mapping[str, Result]) -> str:
    if found := _INTERVAL.fullmatch(reference):
        low, high = wilson(_number(found["share"], results)[0], _number(found["number"], results)[0])
        return f"{low:.3f}–{high:.3f}"
    value, form = _number(reference, results)
    return format(value, form)


def _number(reference: str, results: Mapping[str, Result]) -> tuple[float, str]:
    found = _NUMBER.fullmatch(reference)
    if not found or found["name"] not in results:
        raise MissingReferenceError(f"{{{reference}}} names no result")
    result = results[found["name"]]
    holder: Row = result["figures"]
    if found["row"]:
        wanted = [value.strip() for value in found["row"].split(";")]
        rows = [row for row in result.get("tables", {}).get(found["of"], []) if _holds(row, wanted)]
        if len(rows) != 1:
            raise MissingReferenceError(f"{{{reference}}} is in {len(rows)} rows, not in one")
        holder = rows[0]
    value = holder.get(found["column"] or found["of"])
    if not isinstance(value, int | float):
        raise MissingReferenceError(f"{{{reference}}} is no number of that result")
    return value, found["format"] or ""


def _holds(row: Row, wanted: list[str]) -> bool:
    """Whether a row has the values among its own, in this order."""
    values = iter(map(str, row.values()))
    return all(value in values for value in wanted)

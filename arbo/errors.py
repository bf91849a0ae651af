"""The exceptions of arbo, and how messages list and count things."""

import re
from collections.abc import Iterable
from typing import Self

_PLURAL = re.compile(r"\b(\w*?)(ies|(?<=as)es|(?<![su])s)\b")

shown = False  # whether the command line runs: logs then show the errors of documents, which may quote their texts


def listed(items: Iterable[str], most: int) -> str:
    """Join the first items by commas, and count the rest.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    every = list(items)
    return ", ".join(every[:most]) + (f" and {len(every) - most:,} more" if len(every) > most else "")


def counted(n: int, things: str) -> str:
    """Count things, named in the plural; if there is one, the first plural becomes a singular.

    >>> counted(2_000, "mentions"), counted(1, "duplicate entities dropped"), counted(1, "empty aliases")
    ('2,000 mentions', '1 duplicate entity dropped', '1 empty alias')
    """
    one = _PLURAL.sub(lambda plural: plural[1] + "y" * (plural[2] == "ies"), things, 1)
    return f"{n:,} {one if n == 1 else things}"


class ArboError(Exception):
    """Base class of arbo's own exceptions."""


class UsageError(ArboError):
    """An invalid call or option, for example an unknown format, or an output file that cannot be written."""


class DataError(ArboError, ValueError):
    """Invalid input data; the message names the file, the line and the id, if they are known.

    >>> print(DataError("the span 5-3 is empty", file="docs.txt", line=12, id="8701013"))
    docs.txt, line 12, '8701013': the span 5-3 is empty
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(problem)
        self.problem, self.file, self.line, self.id = problem, file, line, id

    def at(self, file: str, line: int | None = None) -> Self:
        """Return a copy of the error, with ``file`` and ``line`` added if the error has none."""
        line = line if self.line is None else self.line
        return type(self)(self.problem, file=self.file or file, line=line, id=self.id)

    def __str__(self) -> str:
        line = None if self.line is None else f"line {self.line}"
        item = None if self.id is None else repr(self.id)
        place = ", ".join(part for part in (self.file, line, item) if part)
        return f"{place}: {self.problem}" if place else self.problem


class MissingDependency(ArboError, ImportError):  # noqa: N818
    """An optional package is missing; the message gives the command that installs it.

    >>> print(MissingDependency("a transformer encoder", extra="torch"))
    a transformer encoder needs packages that are not installed; run: pip install 'arbo[torch]'
    """

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed; run: pip install 'arbo[{extra}]'")

"""Settings from JSON: a file that is read, an object that becomes a dataclass."""

from __future__ import annotations

import json
from dataclasses import fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from arbo.errors import DataError, UsageError

Settings = TypeVar("Settings")


def read_json(path: str | PathLike[str], what: str) -> Any:
    """Read a JSON file; ``what`` names it in the error."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {what}: {error}", file=fspath(path)) from None


def settings_of(kind: type[Settings], values: object, *, file: str | None) -> Settings:
    """Make a dataclass of named values; unknown names are an error, and what the class refuses is one of the file."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(known)) if isinstance(values, dict) else []
    if not isinstance(values, dict) or unknown:
        raise DataError(
            f"expected an object with some of {', '.join(known)}"
            + (f"; unknown: {', '.join(map(repr, unknown))}" if unknown else ""),
            file=file,
        )
    try:
        return kind(**values)
    except UsageError as error:
        raise DataError(str(error), file=file) from None

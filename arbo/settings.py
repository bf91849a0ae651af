"""Settings: named values for JSON, each checked against the type of its field and explained by its docstring."""

import ast
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from os import fspath
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

from arbo.errors import DataError, UsageError
from arbo.files import PathLike


class Range(NamedTuple):
    """The range of valid numbers, including both ends, for types such as `Annotated[int, Range(...)]`."""

    what: str
    """Describes the valid numbers in errors, such as "an integer of at least 1"."""
    least: float
    most: float


_LARGEST = sys.float_info.max
Count = Annotated[int, Range("an integer of at least 1", 1, math.inf)]
Number = Annotated[int, Range("an integer of at least 0", 0, math.inf)]
Share = Annotated[float, Range("a number from 0 to 1", 0, 1)]
Above0 = Annotated[float, Range("a number above 0", math.ulp(0), _LARGEST)]
NotBelow0 = Annotated[float, Range("a number of at least 0", 0, _LARGEST)]
Finite = Annotated[float, Range("a finite number", -_LARGEST, _LARGEST)]


@dataclass(frozen=True, slots=True)
class Settings:
    """Base class of settings; subclasses are frozen dataclasses with defaults.

    A field is a Literal, a bool, a string or one of the number types of this module, such as `Count`, with or without
    ``| None``. A subclass checks fields of other types itself.
    """

    format: ClassVar[str] = ""
    """Name of the kind of model in manifests, for the settings of a model."""

    def __new__(cls, *_: object, **values: object) -> Self:
        """Raise UsageError for an unknown field, and name the most similar known one."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(values.keys() - known):
            raise UsageError(f"unknown setting {unknown[0]!r}; {names_like(unknown[0], known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            _check(field.name, getattr(self, field.name), hints[field.name])

    @classmethod
    def from_dict(cls, values: object, *, file: str | None = None) -> Self:
        """Make settings from a dict of values by the names of their fields; other fields have their defaults.

        Raise DataError, with ``file`` as the source, if ``values`` is no dict, or for an unknown name or invalid value.
        """
        if not isinstance(values, dict):
            known = ", ".join(field.name for field in fields(cls))
            raise DataError(f"expected a JSON object with some of the keys {known}", file=file)
        try:
            return cls(**values)
        except UsageError as error:
            raise DataError(str(error), file=file) from None

    def changed_by_words(self, words: Mapping[str, Any]) -> Self:
        """Return these settings with values that are words of a command line, or JSON; raise UsageError for others."""
        hints = get_type_hints(type(self), include_extras=True)
        return replace(self, **{name: _value_of(word, hints.get(name, str)) for name, word in words.items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name, ready for JSON."""
        return asdict(self)


def _value_of(word: Any, hint: Any) -> Any:
    """Return the value that a text means for a field of a type, or the text if it means none; the class checks it."""
    if not isinstance(word, str):
        return word
    options = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if type(None) in options and word.lower() in ("none", "null"):
        return None
    for option in options:
        kind = get_args(option)[0] if get_origin(option) is Annotated else option
        choices = (True, False) if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
        if same := [one for one in choices if str(one).lower() == word.lower()]:
            return same[0]
        if kind in (int, float) and word.isascii() and "_" not in word:  # which Python would read as 01
            for number in (int, float):
                with suppress(ValueError):
                    value = number(word)
                    return word if abs(value) == math.inf and word.strip("+-")[:1].isdigit() else value
    return word


class FieldText(NamedTuple):
    """What the source of a settings class says about a field."""

    name: str
    kind: str
    default: str
    text: str
    """The docstring under the field."""


@cache
def field_texts(module: str, name: str) -> Mapping[str, FieldText]:
    """Read the fields of a settings class from its source, since the import of its module may load much."""
    file = Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    classes = {node.name: node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef)}

    def texts_of(name: str) -> dict[str, FieldText]:
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name) and base.id in classes]
        texts = {field: text for base in bases for field, text in texts_of(base).items()}
        for line, after in pairwise([*classes[name].body, ast.Pass()]):
            if isinstance(line, ast.AnnAssign) and line.value:
                field, kind, default = map(ast.unparse, (line.target, line.annotation, line.value))
                text = texts[field].text if field in texts else ""  # that of the base, if there is no other
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    text = " ".join(str(after.value.value).split())
                if not kind.startswith("ClassVar"):
                    texts[field] = FieldText(field, kind, default, text)
        return texts

    return texts_of(name)


def read_json(path: PathLike, what: str) -> Any:
    """Read a JSON file; raise DataError, which calls the file ``what``, if that fails."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {what}: {error.strerror}; check the path", file=fspath(path)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {what}: {error}; write JSON in UTF-8", file=fspath(path)) from None


def check_choice(name: str, value: object, known: Sequence[object]) -> None:
    """Raise UsageError unless a value is one of ``known``; the error calls the value ``name``."""
    if value not in known:
        raise UsageError(f"{name} {value!r} is not one of {', '.join(map(str, known))}")


def names_like(unknown: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown name: the known ones that are like it, or all."""
    near = get_close_matches(unknown, known, 3, 0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"


def _check(name: str, value: Any, hint: Any) -> None:
    options = [option for option in get_args(hint) if option is not type(None)]
    or_none = "" if type(None) not in get_args(hint) else " or None"
    if or_none:
        if value is None or len(options) > 1:  # the class checks unions itself
            return
        hint = options[0]
    if get_origin(hint) is Literal:
        check_choice(name, value, get_args(hint))
    elif hint is str:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a string{or_none}, not {value!r}")
    elif hint is bool or get_origin(hint) is Annotated:
        kind, (what, least, most) = (bool, Range("true or false", 0, 1)) if hint is bool else get_args(hint)
        if type(value) not in ((int, float) if kind is float else (kind,)) or not least <= value <= most:
            raise UsageError(f"{name} must be {what}{or_none}, not {value!r}")

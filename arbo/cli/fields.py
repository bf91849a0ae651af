"""Options from the fields of settings: some are options of their own, the others are reached by `--set`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer import Option

from arbo.errors import UsageError
from arbo.settings import FieldText, Settings, field_texts, read_json

S = TypeVar("S", bound=Settings)
_PANEL = "Settings"
_SET = (
    "Set a field of the settings, such as `k=8`; see `--settings`. `@FILE` reads a JSON object of fields; may be "
    "repeated."
)


class Group(NamedTuple):
    """A class of settings that a verb uses, by its name in `--set NAME.FIELD=VALUE`."""

    name: str
    module: str
    settings: str

    @property
    def texts(self) -> Mapping[str, FieldText]:
        """What the source says about the fields."""
        return field_texts(self.module, self.settings)


QUOTES = "\"'"
_METAVARS = {"k": "N", "ids": "FILE", "kb_types": "TYPE", "kb_xrefs": "PREFIX", "workers": "N", "ray": "ADDRESS"}
LINKER = Group("linker", "arbo.linking.config", "LinkerConfig")
ENCODER = Group("encoder", "arbo.encoders.encoder_config", "EncoderConfig")
READING = Group("reading", "arbo.cli.inputs", "ReadingConfig")
JOB = Group("job", "arbo.cli.work", "JobConfig")


class Shown(NamedTuple):
    """The groups of settings of a verb, and the fields that are options of their own."""

    groups: tuple[Group, ...]
    panels: Mapping[str, str] = {}
    """The names of the fields by the panel of the help in which their options stand."""

    @property
    def options(self) -> Iterator[str]:
        """The names of the fields that are options of their own."""
        return chain.from_iterable(map(str.split, self.panels.values()))

    def group_of(self, name: str) -> tuple[Group, str] | None:
        """Return the group that a name such as `k` or `encoder.context` means, with the field; None if unknown.

        A name without a group means the first group that has it.
        """
        prefix, dot, rest = name.partition(".")
        if not dot:
            return next(((group, name) for group in self.groups if name in group.texts), None)
        return next(((group, rest) for group in self.groups if group.name == prefix and rest in group.texts), None)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The fields of settings that a command line sets, by the name of their group."""

    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def given(self, group: Group) -> Mapping[str, Any]:
        """Return the fields of a group that are set, as texts or JSON."""
        return self.values.get(group.name, {})

    def of(self, group: Group, base: S, **more: Any) -> S:
        """Return settings with the fields that are set, and those of ``more`` that are not None."""
        changes = {**self.given(group), **{name: value for name, value in more.items() if value is not None}}
        return base.changed_by_words(changes)

    @classmethod
    def parsed(cls, shown: Shown, pairs: Sequence[str], options: Mapping[str, Any]) -> Chosen:
        """Read the values of `--set`, and then those of options; raise UsageError for an unknown field."""
        found: dict[str, dict[str, Any]] = {}

        def put(name: str, value: Any) -> None:
            if (place := shown.group_of(name)) is None:
                raise UsageError(_unknown(name, shown))
            group, key = place
            own = found.setdefault(group.name, {})
            is_list = isinstance(value, str) and _is_list(group.texts[key])
            own[key] = [*own.get(key, ()), value] if is_list else value

        for pair in pairs:
            name, sign, value = pair.partition("=")
            if pair.startswith("@"):
                for key, one in _flat(read_json(pair[1:], "the settings"), pair[1:], shown):
                    put(key, one)
            elif not sign:
                raise UsageError(f"--set {shlex.quote(pair)}: write NAME=VALUE, such as k=8, or @FILE")
            else:
                put(name.strip(), value.strip())
        for name, word in options.items():
            if word is not None:
                put(name, word)
        return cls(found)


def _flat(values: Any, file: str, shown: Shown) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a JSON object by name, and those of an object of a group as `GROUP.FIELD`."""
    if not isinstance(values, dict):
        raise UsageError(f"--set @{file}: the file must have a JSON object of fields")
    for name, value in values.items():
        if isinstance(value, dict) and name in {group.name for group in shown.groups}:
            yield from ((f"{name}.{key}", one) for key, one in value.items())
        else:
            yield name, value


def _unknown(name: str, shown: Shown) -> str:
    known = list(dict.fromkeys(key for group in shown.groups for key in group.texts))
    near = get_close_matches(name.rpartition(".")[2], known, 3, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
    return f"unknown setting {name!r}; {hint} `--settings` explains all"


def _explain(shown: Shown) -> None:
    """Print the fields of the settings with their types, defaults and docstrings."""
    from arbo.cli import console

    for group in shown.groups:
        console.print_title(f"{group.name} (arbo.{group.settings})")
        for one in group.texts.values():
            taken = "" if shown.group_of(one.name) == (group, one.name) else f"{group.name}."
            console.show(f"{taken}{one.name}={one.default}   {one.kind}", style="bold cyan")
            console.show(f"    {one.text.replace('``', '`')}")
    sys.stdout.flush()
    raise typer.Exit


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb that takes the fields of its groups as options, those without a default first.

    A parameter that is annotated with a dataclass stands for the options of its fields, and ``Annotated[Chosen,
    Shown(...)]`` for `--set`, `--settings` and the options of the fields that are shown. Options that a dataclass adds
    to those of another come before these.
    """
    own = signature(verb, eval_str=True).parameters
    shown = {name: get_args(one.annotation)[1] for name, one in own.items() if _is_chosen(one.annotation)}
    groups: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}

    @wraps(verb)
    def called(**given: Any) -> None:
        for name, one in shown.items():
            pairs, _ = given.pop("set_") or (), given.pop("settings_")
            given[name] = Chosen.parsed(one, pairs, {option: given.pop(option) for option in one.options})
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    options: list[Parameter] = []
    for name, one in own.items():
        options += _fields(one) if name in groups else _settings(shown[name]) if name in shown else [one]
    options = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    vars(called)["__signature__"] = Signature(sorted(options, key=_place))
    return called


def _place(option: Parameter) -> tuple[bool, bool]:
    """Return the key of the order of options: the required first, `--set` and `--settings` last."""
    return option.default is not Parameter.empty, option.name in ("set_", "settings_")


def _is_chosen(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and get_args(annotation)[0] is Chosen


def _fields(parameter: Parameter) -> Iterator[Parameter]:
    group = parameter.annotation
    hints = get_type_hints(group, include_extras=True)
    own = {field.name: field.default for field in fields(group)}
    for name in dict.fromkeys(name for base in group.__mro__ for name in vars(base).get("__annotations__", ())):
        default = Parameter.empty if own[name] is MISSING else own[name]
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])


def _settings(shown: Shown) -> Iterator[Parameter]:
    """Yield the options of fields, whose help is the first sentence of their docstring, `--set` and `--settings`."""
    for panel, names in shown.panels.items():
        for name in names.split():
            text = next(group.texts[name] for group in shown.groups if name in group.texts)
            default = "" if text.default == "None" else f" [default: {text.default.strip(QUOTES)}]"
            option = Option(f"--{name.replace('_', '-')}", help=f"{text.summary}{default}", rich_help_panel=panel)
            if text.kind == "bool":
                option.help, option.callback = text.summary, lambda given: "true" if given else None
                yield _parameter(name, bool, False, option)
                continue
            option.metavar = _METAVARS.get(name, name.upper())
            yield _parameter(name, list[str] | None if _is_list(text) else str | None, None, option)
    yield _parameter(
        "set_", list[str] | None, None, Option("--set", metavar="NAME=VALUE", help=_SET, rich_help_panel=_PANEL)
    )

    def explain(wanted: bool) -> None:
        if wanted:
            _explain(shown)

    listed = Option(
        "--settings",
        help="Explain all fields of `--set`, and exit.",
        is_eager=True,
        callback=explain,
        rich_help_panel=_PANEL,
    )
    yield _parameter("settings_", bool, False, listed)


def _is_list(text: FieldText) -> bool:
    return text.kind.startswith("list[")


def _parameter(name: str, kind: Any, default: Any, info: Any) -> Parameter:
    annotated: Any = Annotated
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotated[kind, info])

"""Options from the fields of settings: some are options of their own, the others are reached by `--set`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

import typer
from typer import Option

from arbo.cli import console
from arbo.errors import UsageError
from arbo.formats import DocumentFormat, KnowledgeBaseFormat
from arbo.settings import FieldText, Settings, field_texts, names_like, read_json

S = TypeVar("S", bound=Settings)
_PANEL = "Settings"
_SET = (
    "Set a field of the settings, such as `k=8`; see `--settings`. `@FILE` reads a JSON object of fields; may be "
    "repeated."
)
_FLAGS = {"treat_as": "as", "docs_format": "format"}
_KNOWN: Mapping[str, Any] = {"docs_format": DocumentFormat, "kb_format": KnowledgeBaseFormat}
_METAVARS = {"treat_as": "list|text", "evidence": "COLUMNS", "kb_xrefs": "PREFIX", "ray": "ADDRESS"}
"""What stands for a value in the help, where this is not the last word of the field's name, or N for a number."""


class Group(NamedTuple):
    """A class of settings that a verb uses, by its name in `--set NAME.FIELD=VALUE`."""

    name: str
    module: str
    settings: str
    only: str = ""
    """The only field that is a setting of the verb; empty for all."""

    @property
    def texts(self) -> Mapping[str, FieldText]:
        """What the source says about the fields."""
        texts = field_texts(self.module, self.settings)
        return {self.only: texts[self.only]} if self.only else texts


LINKER = Group("linker", "arbo.linking.config", "LinkerConfig")
ENCODER = Group("encoder", "arbo.encoders.encoder_config", "EncoderConfig")
READING = Group("reading", "arbo.cli.inputs", "ReadingConfig")
DOCS = {"Documents": "docs_format types text_column"}
KB = {"Knowledge base": "kb_format"}
"""The panels of the options that say how documents and a knowledge base are read."""
JOB = Group("job", "arbo.cli.models", "JobConfig")


class Shown(NamedTuple):
    """The groups of settings of a verb, and the fields that are options of their own."""

    groups: tuple[Group, ...]
    panels: Mapping[str, str] = {}
    """The names of the fields by the panel of the help in which their options stand."""

    @property
    def options(self) -> dict[str, str]:
        """The panel of each field that is an option of its own."""
        return {name: panel for panel, names in self.panels.items() for name in names.split()}

    def place(self, name: str) -> tuple[Group, str] | None:
        """Return the group that a name such as `k` or `encoder.context` means, with the field; None if unknown.

        A name without a group means the first group that has it.
        """
        prefix, _, key = name.rpartition(".")
        return next(((group, key) for group in self.groups if prefix in ("", group.name) and key in group.texts), None)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The fields of settings that a command line sets, by the name of their group."""

    values: Mapping[str, Mapping[str, Any]]

    def changes(self, group: Group) -> Mapping[str, Any]:
        """Return the fields of a group that are set, as texts or JSON."""
        return self.values.get(group.name, {})

    def of(self, group: Group, base: S, **more: Any) -> S:
        """Return settings with the fields that are set, and those of ``more`` that are not None."""
        changes = {**self.changes(group), **{name: value for name, value in more.items() if value is not None}}
        return base.changed_by_words(changes)

    @classmethod
    def parsed(cls, shown: Shown, pairs: Sequence[str], options: Mapping[str, Any]) -> Chosen:
        """Read the values of `--set`, and then those of options; raise UsageError for an unknown field."""
        values: dict[str, dict[str, Any]] = {}
        items = [item for pair in pairs for item in _items(pair)]
        for name, value in [*items, *options.items()]:
            if (place := shown.place(name)) is None:
                known = [*dict.fromkeys(key for group in shown.groups for key in group.texts)]
                hint = names_like(name.rpartition(".")[2], known)
                raise UsageError(f"unknown setting {name!r}; {hint} (`--settings` explains all)")
            group, key = place
            group_values = values.setdefault(group.name, {})
            adds = isinstance(value, str) and group.texts[key].kind.startswith("list[")
            group_values[key] = [*group_values.get(key, ()), value] if adds else value
        return cls(values)


def _items(pair: str) -> list[tuple[str, Any]]:
    """Return the names and values of `NAME=VALUE` or `@FILE`."""
    name, sign, value = pair.partition("=")
    if pair.startswith("@"):
        content = read_json(pair[1:], "the settings")
        if not isinstance(content, dict):
            raise UsageError(f"--set {pair}: the file must have a JSON object of fields")
        return list(content.items())
    if not sign:
        raise UsageError(f"--set {pair}: write NAME=VALUE, such as k=8, or @FILE")
    return [(name.strip(), value.strip())]


def _explain(shown: Shown) -> None:
    """Print the fields of the settings with their types, defaults and docstrings."""
    for group in shown.groups:
        console.print_title(f"{group.name} (arbo.{group.settings})")
        for text in group.texts.values():
            prefix = "" if shown.place(text.name) == (group, text.name) else f"{group.name}."
            console.show(f"{prefix}{text.name}={text.default}   {text.kind}", style="bold cyan")
            console.show(f"    {text.text.replace('``', '`')}")
    sys.stdout.flush()
    raise typer.Exit


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb with the option `--json`, and the fields of its groups as options, those without a default first.

    A parameter that is annotated with a dataclass stands for the options of its fields, and ``how: Annotated[Chosen,
    Shown(...)]`` for `--set`, `--settings` and the options of the fields that are shown.
    """
    parameters = signature(verb, eval_str=True).parameters
    shown: Shown | None = get_args(parameters["how"].annotation)[1] if "how" in parameters else None
    groups: dict[str, Any] = {name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)}
    fields = {name: signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(verb)
    def flat(**values: Any) -> None:
        console.as_json = values.pop("json")
        if shown is not None:
            pairs, _ = values.pop("set_") or (), values.pop("settings_")
            options = {name: value for name in shown.options if (value := values.pop(name)) is not None}
            values["how"] = Chosen.parsed(shown, pairs, options)
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields[name]})
        verb(**values)

    options: list[Parameter] = []
    for name, one in parameters.items():
        options += _settings(shown) if shown and name == "how" else fields[name].values() if name in groups else [one]
    options = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    options.append(_parameter("json", bool, False, Option("--json", help="Print only JSON on stdout.")))
    # The required first, `--set` and `--settings` last.
    options.sort(key=lambda one: (one.default is not Parameter.empty, one.name in ("set_", "settings_")))
    vars(flat)["__signature__"] = Signature(options)
    return flat


def _settings(shown: Shown) -> Iterator[Parameter]:
    """Yield the options of fields, whose help is the first sentence of their docstring, `--set` and `--settings`."""
    for name, panel in shown.options.items():
        text = next(group.texts[name] for group in shown.groups if name in group.texts)
        value = text.default.strip("\"'")
        default = "" if value == "None" else f" [default: {value}]"
        if name in _KNOWN:
            default = f" Known: {', '.join(sorted(get_args(_KNOWN[name])))}."
        usual = "N" if text.kind in ("Count", "Number") else name.rpartition("_")[2].removesuffix("s").upper()
        flag, metavar = _FLAGS.get(name, name.replace("_", "-")), _METAVARS.get(name, usual)
        option = Option(f"--{flag}", metavar=metavar, help=f"{text.summary}{default}", rich_help_panel=panel)
        yield _parameter(name, list[str] | None if text.kind.startswith("list[") else str | None, None, option)
    set_ = Option("--set", metavar="NAME=VALUE", help=_SET, rich_help_panel=_PANEL)
    yield _parameter("set_", list[str] | None, None, set_)
    how: Any = {"is_eager": True, "callback": lambda is_given: _explain(shown) if is_given else None}
    settings = Option("--settings", help="Explain all fields of `--set`, and exit.", rich_help_panel=_PANEL, **how)
    yield _parameter("settings_", bool, False, settings)


def _parameter(name: str, kind: Any, default: Any, info: Any) -> Parameter:
    annotated: Any = Annotated
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotated[kind, info])

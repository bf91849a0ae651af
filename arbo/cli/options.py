"""Options: those that several verbs share, and those of fields of settings, of which `--set` reaches the others."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar, get_args

import typer
from typer import Option

import arbo
from arbo.cli import console
from arbo.errors import UsageError
from arbo.formats import DocumentFormat, KnowledgeBaseFormat, expanded
from arbo.settings import FieldText, Settings, field_texts, names_like, read_json

if TYPE_CHECKING:
    from arbo.encoders.encoder_config import EncoderConfig
    from arbo.linking.config import LinkerConfig

option = partial(Option, case_sensitive=False)  # makes an option; the case of choices is ignored


def _replaceable(run: Path | None) -> Path | None:
    from arbo.results.run_folder import FORMAT

    if run is not None:
        FORMAT.check_replaceable(run)
    return run


_read = partial(option, rich_help_panel="Documents")
model = partial(option, rich_help_panel="Models")
clustering = partial(option, rich_help_panel="Clustering")

_DOCS = "Files, folders, patterns in quotes, or `-` for standard input."
Documents = Annotated[list[Path], typer.Argument(metavar="DOCS...", help=_DOCS, callback=expanded)]
"""A pattern means the files that match at the start, and none that the command writes before it reads."""
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, written by `arbo link` or `arbo discover`.")]
_FIND_MENTIONS = (
    "Find the mentions first, as `arbo find` does: `dictionary`, or a model. `arbo evaluate --gold` scores the "
    "result against those of DOCS. [default: link those of DOCS]"
)
FindMentions = Annotated[str | None, _read(metavar="FINDER", help=_FIND_MENTIONS)]
_LEARN_FROM = (
    "Learn from these annotated documents: their names, thresholds, edges and, to find mentions, a tagger; may be "
    "repeated. The results stand beside the run, as RUN.kb.jsonl, RUN.edges.json and RUN.finder."
)
LearnFrom = Annotated[list[Path] | None, _read(metavar="DOCS", help=_LEARN_FROM)]
_FINDER = (
    "`dictionary` finds names of the knowledge base (case and plural forms are ignored), and abbreviations "
    "that a document defines; a model of `arbo train finder` also finds other names."
)
Finder = Annotated[str, _read(metavar="FINDER", help=_FINDER)]

_KB = "The knowledge base: a file (a table has columns id, name, aliases), a folder, a pattern or an index."
_kb = option("--kb", metavar="KB", help=_KB, rich_help_panel="Knowledge base")
Kb = Annotated[Path, _kb]
OptionalKb = Annotated[Path | None, _kb]
KbArgument = Annotated[Path, typer.Argument(metavar="KB", help="The knowledge base: a file, a folder or an index.")]

_ANSWERS = "File to append the corrections to. [default: RUN.corrections.jsonl beside the run]"
Answers = Annotated[Path | None, option("--corrections", metavar="FILE", help=_ANSWERS)]
Author = Annotated[str | None, option(help="Your name, to write into each correction.")]

_out = option("--out", metavar="RUN", help="Run folder to write; replaces an earlier run.", callback=_replaceable)
Out = Annotated[Path, _out]
OutUnlessPreview = Annotated[Path | None, _out]
_LIMIT = "Number of rows to show. [default: 20 on a terminal, else all]"
Limit = Annotated[int | None, option("--limit", metavar="N", min=0, help=_LIMIT)]

_DEV = "Annotated documents that select the best model. [default: the last]"
Dev = Annotated[Path | None, option(metavar="DOCS", help=_DEV)]
_START = "Model to start from: a local folder, `all-MiniLM-L6-v2` from its package, or a name on the Hugging Face Hub."
Start = Annotated[str, model("--encoder", metavar="MODEL", help=_START)]
_MODEL_OUT = "Model to write or replace, with MODEL.log.jsonl; the same command resumes MODEL.training."
ModelOut = Annotated[Path, option(metavar="MODEL", help=_MODEL_OUT)]

S = TypeVar("S", bound=Settings)
_PANEL = "Settings"
_PANELS = {
    **dict.fromkeys(("docs_format", "types", "text_column", "evidence"), "Documents"),
    **dict.fromkeys(("kb_format", "kb_types", "kb_xrefs"), "Knowledge base"),
    **dict.fromkeys(("method", "k", "treat_as", "threshold"), "Clustering"),
    **dict.fromkeys(("encoder", "edges", "config", "reranker"), "Models"),
    **dict.fromkeys(("corrections", "preview"), "Corrections"),
    **dict.fromkeys(("workers", "ray"), "Processes"),
}
"""The panels of the help in which the options of fields stand."""
_SET = "Set a field, such as `k=8` (see `--settings`), or those of a JSON object in `@FILE`; may be repeated."
_KNOWN: Mapping[str, Any] = {"docs_format": DocumentFormat, "kb_format": KnowledgeBaseFormat}
_METAVARS = {"treat_as": "list|text", "evidence": "COLUMNS", "kb_xrefs": "PREFIX", "ray": "ADDRESS", "config": "FILE"}
_METAVARS |= {"threshold": "E[,M]", "corrections": "FILE", **dict.fromkeys(("encoder", "reranker", "edges"), "MODEL")}
"""What stands for a value in the help, where this is not the last word of the field's name, or N for a number."""


class Group(NamedTuple, Generic[S]):
    """A class of settings that a verb uses, by its name in `--set NAME.FIELD=VALUE`; imported when it is needed."""

    name: str
    module: str
    settings: str
    shown: bool = False  # whether each field is an option of its own wherever the group is used
    only: str = ""  # the only fields that are settings of the verb; empty for all

    @property
    def texts(self) -> Mapping[str, FieldText]:
        """What the source says about the fields."""
        texts = field_texts(self.module, self.settings)
        return {name: texts[name] for name in self.only.split() or texts}

    @property
    def defaults(self) -> S:
        """The settings with the default of each field."""
        settings: S = getattr(import_module(self.module), self.settings)()
        return settings


LINKER: Group[LinkerConfig] = Group("linker", "arbo.linking.config", "LinkerConfig")
ABBREVIATIONS = LINKER._replace(only="expand_abbreviations")
ENCODER: Group[EncoderConfig] = Group("encoder", "arbo.encoders.encoder_config", "EncoderConfig")
DOCS, KB = ("docs_format", "types", "text_column"), ("kb_format",)
"""The options that say how documents and a knowledge base are read."""


class Shown(NamedTuple):
    """The groups of settings of a verb, and the fields that are options of their own."""

    groups: tuple[Group[Any], ...]
    some: tuple[str, ...] = ()  # the fields that are options in this verb, beside those of groups of which all are

    @property
    def options(self) -> list[str]:
        """The names of the fields that are options of their own."""
        return [*self.some, *(name for group in self.groups if group.shown for name in group.texts)]

    def place(self, name: str) -> tuple[Group[Any], str] | None:
        """Return the first group and its field that a name such as `k` or `encoder.context` means, if any."""
        prefix, _, key = name.rpartition(".")
        return next(((group, key) for group in self.groups if prefix in ("", group.name) and key in group.texts), None)


class Chosen(NamedTuple):
    """The fields of settings that a command line sets, by the name of their group."""

    values: Mapping[str, Mapping[str, Any]]

    def changes(self, group: Group[Any]) -> Mapping[str, Any]:
        """Return the fields of a group that are set, as texts or JSON."""
        return self.values.get(group.name, {})

    def of(self, group: Group[S], base: S | None = None) -> S:
        """Return the settings ``base``, or the defaults, with the fields that are set."""
        return (group.defaults if base is None else base).changed_by_words(self.changes(group))

    @classmethod
    def parsed(cls, shown: Shown, pairs: Sequence[str], options: Mapping[str, Any]) -> Chosen:
        """Read the values of `--set`, and then those of options; raise UsageError for an unknown field."""
        values: dict[str, dict[str, Any]] = {}
        for name, value in [*(item for pair in pairs for item in _items(pair)), *options.items()]:
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
    for group in shown.groups:
        console.print_title(f"{group.name} (arbo.{group.settings})" if group.settings in arbo.__all__ else group.name)
        for text in group.texts.values():
            prefix = "" if shown.place(text.name) == (group, text.name) else f"{group.name}."
            console.show(f"{prefix}{text.name}={text.default}   {text.kind}", bold=True, fg="cyan")
            console.show(f"    {text.text.replace('``', '`')}")
    sys.stdout.flush()
    raise typer.Exit


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb with the option `--json`, and the options of its settings; those without a default come first.

    ``how: Annotated[Chosen, Shown(...)]`` stands for `--set`, `--settings` and the options of the fields shown.
    """
    parameters = signature(verb, eval_str=True).parameters
    shown: Shown | None = get_args(parameters["how"].annotation)[1] if "how" in parameters else None

    @wraps(verb)
    def flat(**values: Any) -> None:
        console.as_json = values.pop("json")
        if shown is not None:
            pairs, _ = values.pop("set_") or (), values.pop("settings_")
            options = {name: value for name in shown.options if (value := values.pop(name)) is not None}
            values["how"] = Chosen.parsed(shown, pairs, options)
        verb(**values)

    options: list[Parameter] = []
    for name, one in parameters.items():
        options += _settings(shown) if shown and name == "how" else [one.replace(kind=Parameter.KEYWORD_ONLY)]
    options.append(_parameter("json", bool, False, Option("--json", help="Print only JSON on stdout.")))
    # The required first, `--set` and `--settings` last.
    options.sort(key=lambda one: (one.default is not Parameter.empty, one.name in ("set_", "settings_")))
    vars(flat)["__signature__"] = Signature(options)
    return flat


def _settings(shown: Shown) -> Iterator[Parameter]:
    """Yield the options of fields, whose help is the first sentence of their docstring, `--set` and `--settings`."""
    for name in shown.options:
        text = next(group.texts[name] for group in shown.groups if name in group.texts)
        value = text.default.strip("\"'")
        default = "" if value in ("None", "False") else f" [default: {value}]"
        if name in _KNOWN:
            default = f" Known: {', '.join(sorted(get_args(_KNOWN[name])))}."
        usual = "N" if text.kind in ("Count", "Number") else name.rpartition("_")[2].removesuffix("s").upper()
        kind: Any = list[str] if text.kind.startswith("list[") else bool if text.kind == "bool" else str
        metavar = None if kind is bool else _METAVARS.get(name, usual)
        flag = {"treat_as": "as", "docs_format": "format"}.get(name, name.replace("_", "-"))
        summary = re.split(r"(?<=\.)\s(?=[A-Z`])", text.text, maxsplit=1)[0].replace("``", "`")
        option = Option(f"--{flag}", metavar=metavar, help=f"{summary}{default}", rich_help_panel=_PANELS.get(name))
        yield _parameter(name, kind | None, None, option)
    set_ = Option("--set", metavar="NAME=VALUE", help=_SET, rich_help_panel=_PANEL)
    yield _parameter("set_", list[str] | None, None, set_)
    how: Any = {"is_eager": True, "callback": lambda is_given: _explain(shown) if is_given else None}
    settings = Option("--settings", help="Explain all fields of `--set`, and exit.", rich_help_panel=_PANEL, **how)
    yield _parameter("settings_", bool, False, settings)


def _parameter(name: str, kind: Any, default: Any, info: Any) -> Parameter:
    annotated: Any = Annotated
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotated[kind, info])

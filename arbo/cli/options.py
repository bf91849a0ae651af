"""The options that several verbs share."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from arbo.formats import expanded

option = partial(typer.Option, case_sensitive=False)
"""Makes an option; the case of choices is ignored."""


def _expanded(paths: list[Path]) -> list[Path]:
    return [*map(Path, expanded(paths))]


_read = partial(option, rich_help_panel="Documents")
_base = partial(option, rich_help_panel="Knowledge base")
model = partial(option, rich_help_panel="Models")
_correct = partial(option, rich_help_panel="Corrections")
clustering = partial(option, rich_help_panel="Clustering")

_DOCS = "Files, folders, patterns in quotes, or `-` for standard input."
Documents = Annotated[list[Path], typer.Argument(metavar="DOCS", help=_DOCS, callback=_expanded)]
"""A pattern means the files that match at the start, and none that the command writes before it reads."""
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, written by `arbo link` or `arbo discover`.")]
_FIND_MENTIONS = (
    "Find the mentions first, as `arbo find` does: `dictionary`, or a model. `arbo evaluate --gold` scores the "
    "result against those of DOCS. [default: link those of DOCS]"
)
FindMentions = Annotated[str | None, _read(metavar="FINDER", help=_FIND_MENTIONS)]
_LEARN_FROM = (
    "Learn from these annotated documents: their names, thresholds and, to find mentions, a tagger; may be repeated. "
    "The results stand beside the run, as RUN.kb.jsonl and RUN.finder."
)
LearnFrom = Annotated[list[Path] | None, _read(metavar="DOCS", help=_LEARN_FROM)]
_FINDER = (
    "`dictionary` finds names of the knowledge base (case and plural forms are ignored), and abbreviations "
    "that a document defines; a model of `arbo train finder` also finds other names."
)
Finder = Annotated[str, _read(metavar="FINDER", help=_FINDER)]

_KB = "The knowledge base: a file (a table has columns id, name, aliases), a folder, a pattern or an index."
_kb = _base("--kb", metavar="KB", help=_KB)
Kb = Annotated[Path, _kb]
OptionalKb = Annotated[Path | None, _kb]
KbArgument = Annotated[Path, typer.Argument(metavar="KB", help="The knowledge base: a file, a folder or an index.")]

_ENCODER = (
    "`ngram` (needs no weights), or a transformer: a local folder, `all-MiniLM-L6-v2` from its pip package, "
    "or a name on the Hugging Face Hub. [default: ngram]"
)
Encoder = Annotated[str | None, model(metavar="MODEL", help=_ENCODER)]
_RERANKER = "Model of `arbo train reranker`; thresholds then limit 1 minus the probability of an entity."
Reranker = Annotated[str | None, model(metavar="MODEL", help=_RERANKER)]
_EDGES = (
    "Edge model of `arbo train edges`, or `english`, which arbo contains. For edges that it scores, "
    "thresholds limit 1 minus the probability of equal meaning."
)
Edges = Annotated[Path | None, model(metavar="MODEL", help=_EDGES)]
_CONFIG = "File of `arbo tune`, with defaults for the other options."
Config = Annotated[Path | None, model(metavar="FILE", help=_CONFIG)]
_THRESHOLD = (
    "Largest dissimilarity of edges from entities (E) and between mentions (M), or one number for both; "
    "`none` for no limit. [default: chosen from the model and the knowledge base]"
)
Threshold = Annotated[str | None, clustering(metavar="E[,M]", help=_THRESHOLD)]

_CORRECTIONS = "File of corrections to obey: JSON lines, as `arbo review` writes them, or a table."
Corrections = Annotated[Path | None, _correct(metavar="FILE", help=_CORRECTIONS)]
_PREVIEW = "Show what --corrections changes, and write nothing."
Preview = Annotated[bool, _correct("--preview", help=_PREVIEW)]
_ANSWERS = "File to append the corrections to. [default: RUN.corrections.jsonl beside the run]"
Answers = Annotated[Path | None, option("--corrections", metavar="FILE", help=_ANSWERS)]
Author = Annotated[str | None, option(help="Your name, to write into each correction.")]

Out = Annotated[Path, option(metavar="RUN", help="Run folder to write; replaces an earlier run.")]
_LIMIT = "Number of rows to show. [default: 20 on a terminal, else all]"
Limit = Annotated[int | None, option("--limit", metavar="N", min=0, help=_LIMIT)]

_DEV = "Annotated documents that select the best model. [default: the last]"
Dev = Annotated[Path | None, option(metavar="DOCS", help=_DEV)]
_START = (
    "Model to start from: a local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the Hugging Face Hub."
)
Start = Annotated[str, model("--encoder", metavar="MODEL", help=_START)]
_MODEL_OUT = (
    "Model to write or replace. Repeat the command to resume an interrupted training from MODEL.training; "
    "at the end, the log is in MODEL.log.jsonl."
)
ModelOut = Annotated[Path, option(metavar="MODEL", help=_MODEL_OUT)]

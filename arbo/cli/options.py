"""The options that several verbs share."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from arbo.data import OnError
from arbo.engine import Method, NilLinkage, SearchMethod
from arbo.formats import DocumentFormat, KnowledgeBaseFormat
from arbo.linking.spread import Spread

option = partial(typer.Option, case_sensitive=False)
"""Makes an option; the case of choices is ignored."""


def _formats(choices: Any) -> str:
    return f"{', '.join(sorted(get_args(choices)))}. [default: guessed]"


def document_format(what: str) -> Any:
    """Return the option that names the format of documents."""
    told = f"Format of {what}: {_formats(DocumentFormat)}"
    return option("--format", metavar="FORMAT", show_default=False, help=told)


_find = partial(option, rich_help_panel="Finding mentions")
_cluster = partial(option, rich_help_panel="Clustering")
encode = partial(option, rich_help_panel="Encoder")
training = partial(option, rich_help_panel="Training")
_rerank = partial(option, rich_help_panel="Reranker")
_spread = partial(option, rich_help_panel="Processes")
_kb_format = option(
    "--kb-format",
    metavar="FORMAT",
    show_default=False,
    help=f"Format of the knowledge base: {_formats(KnowledgeBaseFormat)}",
)
Documents = Annotated[
    list[Path], typer.Argument(metavar="DOCS", help="Files, folders, patterns in quotes, or `-` for standard input.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, written by `arbo link` or `arbo discover`.")]
Format = Annotated[DocumentFormat | None, document_format("DOCS")]
Types = Annotated[list[str] | None, option(metavar="TYPE", help="Keep only mentions of this type; may be repeated.")]
Ids = Annotated[Path | None, option(metavar="FILE", help="Keep only documents with the ids in this file.")]
DevIds = Annotated[Path | None, option("--dev-ids", metavar="FILE", help="Like --ids, for --dev.")]
TextColumn = Annotated[str | None, option(metavar="NAME", help="Column of a table whose cells are mentions.")]
_kb = typer.Option("--kb", help="The knowledge base: file, folder, pattern or index.")
Kb = Annotated[Path, _kb]
KbFormat = Annotated[KnowledgeBaseFormat | None, _kb_format]
_KB_XREFS = "Accept cross-references with this prefix as ids of their entity, e.g. MSH for MeSH; may be repeated."
KbXrefs = Annotated[list[str] | None, option(metavar="PREFIX", help=_KB_XREFS)]
_KB_TYPES = "Type to keep (UMLS: name, id, `ST21pv`); repeatable."
KbTypes = Annotated[list[str] | None, option(metavar="TYPE", help=_KB_TYPES)]
NoGenericNames = Annotated[bool, option("--no-generic-names", help="Leave out generic names; see `arbo kb validate`.")]
ByTopic = Annotated[
    bool, option("--by-topic", help="Compare only mentions of documents with the same `topic` in their metadata.")
]
OptionalKb = Annotated[Path | None, _kb]
KbArgument = Annotated[Path, typer.Argument(metavar="KB", help="The knowledge base: a file, a folder or an index.")]
_ABBREVIATIONS = "Do not expand abbreviations that a document defines."
Abbreviations = Annotated[
    bool | None,
    option(
        "--no-abbreviations", help=_ABBREVIATIONS, callback=lambda given: False if given else None, show_default=False
    ),
]
"""False if the option is given, else None, as for a field of `LinkerConfig`."""
Out = Annotated[Path, option(help="Run folder to write; replaces an earlier run.")]
Config = Annotated[Path | None, option(metavar="FILE", help="File of `arbo tune` with defaults for other options.")]
MethodOption = Annotated[
    Method | None,
    _cluster(
        metavar="METHOD", help=f"How to cluster the graph: {', '.join(get_args(Method))}. [default: arborescence]"
    ),
]
_K = "Number of nearest mentions to connect to each mention; 0 links each alone. [default: 4]"
K = Annotated[int | None, _cluster("--k", metavar="N", min=0, help=_K)]
PerDocument = Annotated[
    bool | None, _cluster("--per-document", help="Link each document alone, in a graph of its own.", show_default=False)
]
_SEARCH_OPTION = "How to find nearest neighbours; `hnsw` is approximate, and needs a transformer. [default: exact]"
SearchOption = Annotated[SearchMethod | None, _cluster(help=_SEARCH_OPTION)]
_MAP_TYPES = "Compare mentions of type MENTION only with entities of type ENTITY, e.g. Chemical=drug. [default: all]"
MapTypes = Annotated[str | None, _cluster(metavar="MENTION=ENTITY,...", help=_MAP_TYPES)]
_THRESHOLD = (
    "Largest dissimilarity of edges from entities (E) and between mentions (M), or one number for both; "
    "`none` for no limit. [default: those of the model]"
)
Threshold = Annotated[str | None, _cluster(metavar="E[,M]", help=_THRESHOLD)]
_NIL_LINKAGE_OPTION = (
    "How to cluster mentions that no entity reaches: `single` linkage up to the mention threshold, or "
    "`average` up to the NIL threshold. [default: single]"
)
NilLinkageOption = Annotated[NilLinkage | None, _cluster(metavar="LINKAGE", help=_NIL_LINKAGE_OPTION)]
_NIL_THRESHOLD = (
    "Largest average dissimilarity at which --nil-linkage average merges clusters. [default: that of the model]"
)
NilThreshold = Annotated[float | None, _cluster(metavar="A", help=_NIL_THRESHOLD)]
_ENCODER_MODEL = (
    "`ngram` (needs no weights), or a transformer: a local folder, `all-MiniLM-L6-v2` from its pip package, "
    "or a name on the Hugging Face Hub. [default: ngram]"
)
EncoderModel = Annotated[str | None, encode(metavar="MODEL", help=_ENCODER_MODEL)]
_ENCODER_CONFIG_FILE = (
    "JSON file with fields of arbo.EncoderConfig, which say how the transformer reads mentions and entities, "
    'e.g. {"pooling": "mention", "context": 25}. [default: the model\'s own]'
)
EncoderConfigFile = Annotated[Path | None, encode(metavar="FILE", help=_ENCODER_CONFIG_FILE)]
_CACHE = (
    "Folder for the transformer's embeddings, so that nothing is embedded twice. [default: arbo in the "
    "user's cache folder]"
)
Cache = Annotated[Path | None, encode(metavar="FOLDER", help=_CACHE)]
_RERANKER_MODEL = "Model of `arbo train-reranker`; thresholds then limit 1 minus the probability of an entity."
RerankerModel = Annotated[str | None, _rerank(metavar="MODEL", help=_RERANKER_MODEL)]
_EDGES_FILE = (
    "Edge model of `arbo train-edges`, or `english`, which arbo contains. For edges that it scores, "
    "thresholds limit 1 minus the probability of equal meaning."
)
EdgesFile = Annotated[Path | None, _cluster(metavar="MODEL", help=_EDGES_FILE)]
_NUMBER_OF_CANDIDATES = "Nearest entities to keep per mention. [default: 16, or the reranker's]"
NumberOfCandidates = Annotated[int | None, _rerank(metavar="N", min=1, help=_NUMBER_OF_CANDIDATES)]
_SKIP_MARGIN = "Do not rerank if the nearest entity is closer than the second by this margin. [default: rerank all]"
SkipMargin = Annotated[float | None, _rerank(metavar="MARGIN", min=0.0, help=_SKIP_MARGIN)]
_FINDER = (
    "`dictionary` finds names of the knowledge base (case and plural forms are ignored), and abbreviations "
    "that a document defines; a model folder of `arbo train-finder` also finds other names."
)
Finder = Annotated[str, _find(metavar="FINDER", help=_FINDER)]
_FIND_MENTIONS = (
    "Find the mentions first, as `arbo spans` does: `dictionary`, or a model folder. Mentions of DOCS then only score "
    "the result. [default: link those of DOCS]"
)
FindMentions = Annotated[str | None, _find(metavar="FINDER", help=_FIND_MENTIONS)]
_FIND_THRESHOLD = "Minimum score of a mention that a model proposes. [default: that of the model]"
FindThreshold = Annotated[float | None, _find(metavar="SCORE", help=_FIND_THRESHOLD)]
CorrectionsFile = Annotated[
    Path | None, option(metavar="FILE", help="JSON lines of corrections to obey; see `arbo review`.")
]
_SPREAD_OPTION = "How corrections spread: none, same-name, or graph (same-name, then along edges). [default: graph]"
SpreadOption = Annotated[Spread | None, option(metavar="HOW", help=_SPREAD_OPTION)]
Preview = Annotated[bool, option("--preview", help="Show what --corrections changes, and write nothing.")]
NoTexts = Annotated[bool, option("--no-texts", help="Drop texts and columns; mentions keep their texts.")]
_WORKERS = "Processes that share the work; see docs/scale.md. [default: 1]"
Workers = Annotated[int | None, _spread(metavar="N", min=1, help=_WORKERS)]
_SHARD_SIZE = "Most names of a search task; see docs/scale.md. [default: 524,288]"
ShardSize = Annotated[int | None, _spread(metavar="N", min=1, help=_SHARD_SIZE)]
_WORK = "Folder of finished parts. [default: OUT.work, removed at the end]"
Work = Annotated[Path | None, _spread(metavar="FOLDER", help=_WORK)]
_RAY = "Embed, search and partition on this Ray cluster; `local` starts one."
Ray = Annotated[str | None, _spread(metavar="ADDRESS", help=_RAY)]
OnErrorOption = Annotated[
    OnError, option(help="At a malformed record, stop or skip. [default: fail]", show_default=False)
]
_LIMIT = "Number of rows to show. [default: 20 on a terminal, else all]"
Limit = Annotated[int | None, option("--limit", "--examples", metavar="N", min=0, help=_LIMIT, show_default=False)]
Json = Annotated[bool, option("--json", help="Print only JSON on stdout.")]
_ANSWERS = "File to append the corrections to. [default: RUN.corrections.jsonl beside the run]"
Answers = Annotated[Path | None, option(metavar="FILE", show_default=False, help=_ANSWERS)]
Author = Annotated[str | None, option(help="Your name, to write into each correction.")]

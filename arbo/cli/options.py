"""The options that several verbs share: one name, one meaning, one explanation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class DocumentFormat(StrEnum):
    """Formats of documents."""

    blink = "blink"
    brat = "brat"
    conll = "conll"
    ecbplus = "ecbplus"
    ecbplus_events = "ecbplus-events"
    gsc = "gsc"
    hipe = "hipe"
    jsonl = "jsonl"
    pubtator = "pubtator"
    text = "text"
    zeshel = "zeshel"


class KnowledgeBaseFormat(StrEnum):
    """Formats of knowledge bases."""

    blink = "blink"
    jsonl = "jsonl"
    medic = "medic"
    obo = "obo"
    tsv = "tsv"
    umls = "umls"
    zeshel = "zeshel"


class MethodName(StrEnum):
    """Ways to cluster the graph."""

    arborescence = "arborescence"
    minimax = "minimax"
    undirected = "undirected"
    independent = "independent"


class SearchName(StrEnum):
    """Ways to find neighbours."""

    exact = "exact"
    hnsw = "hnsw"
    ivf = "ivf"


class OnError(StrEnum):
    """What to do about a malformed record."""

    fail = "fail"
    skip = "skip"


Documents = Annotated[Path, typer.Argument(metavar="DOCS", help="A file or a folder of files.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, written by `arbo link` or `discover`.")]
Format = Annotated[DocumentFormat, typer.Option("--format", help="Format of DOCS.")]
Types = Annotated[list[str] | None, typer.Option("--types", help="Keep mentions of this type alone; may be repeated.")]
Kb = Annotated[Path, typer.Option("--kb", help="The knowledge base.")]
KbFormat = Annotated[KnowledgeBaseFormat, typer.Option("--kb-format", help="Format of the knowledge base.")]
KbXrefs = Annotated[
    list[str] | None,
    typer.Option(
        "--kb-xrefs",
        metavar="PREFIX",
        help="Let entities answer to their cross-references of this prefix, e.g. MSH for MeSH ids; may be repeated.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Run folder to write; an earlier run there is replaced.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings that `arbo tune` wrote; other options override them."),
]
MethodOption = Annotated[
    MethodName | None, typer.Option("--method", help="How the graph is clustered. [default: arborescence]")
]
K = Annotated[
    int | None,
    typer.Option("--k", min=0, help="Nearest mentions of each in the graph; 0: independent. [default: 4]"),
]
SearchOption = Annotated[
    SearchName | None,
    typer.Option(
        "--search",
        help="How neighbours are found; hnsw and ivf are approximate, for a transformer's vectors alone. With the "
        "pooling tokens every search of more than 256 things is. What is missed is measured. [default: exact]",
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="E[,M]",
        help="Largest dissimilarity of entity edges and of mention edges: two numbers, or one for both; `none` for "
        "no limit. [default: the encoder's]",
    ),
]
EncoderModel = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="MODEL",
        help="`ngram` (needs no weights), or a transformer: a local folder, `all-MiniLM-L6-v2` from its pip package, "
        "or a name on the hub. [default: ngram, or what --config was tuned with]",
    ),
]
EncoderConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--encoder-config",
        metavar="FILE",
        help="What the transformer reads and how: a JSON file with fields of arbo.EncoderConfig, e.g. "
        '{"pooling": "mention", "context": 25}.',
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FOLDER",
        help="Where the transformer's embeddings are kept, so that nothing is embedded twice and a killed run goes "
        "on. [default: arbo in the user's cache folder]",
    ),
]
RerankerModel = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        metavar="MODEL",
        help="A cross-encoder that arbo saved: it reads each mention with each of its candidates; the threshold on "
        "entity edges is then on 1 minus the probability among them. [default: none, or what --config was tuned with]",
    ),
]
NumberOfCandidates = Annotated[
    int | None,
    typer.Option(
        "--candidates",
        min=1,
        help="Nearest entities kept of each mention, and read by the reranker. [default: 16, with a reranker as many "
        "as it is made for]",
    ),
]
SkipMargin = Annotated[
    float | None,
    typer.Option(
        "--skip-margin",
        min=0.0,
        help="Spare the reranker the mentions whose nearest entity the encoder finds so much more similar than the "
        "second. [default: it reads all]",
    ),
]
RerankMentions = Annotated[
    bool | None,
    typer.Option(
        "--rerank-mentions/--rerank-entities",
        help="Let the reranker make the edges between mentions too, or those of entities alone. [default: entities]",
        show_default=False,
    ),
]
FindMentions = Annotated[
    str | None,
    typer.Option(
        "--find-mentions",
        metavar="FINDER",
        help="Find the mentions first, as `arbo spans` does: `dictionary`, `fuzzy`, or a model of `arbo train --preset "
        "oslat`. Mentions that DOCS have are not looked at; if they are annotated, what was found and linked is scored "
        "against them. With --dry-run they are found too. [default: link the mentions of DOCS]",
    ),
]
FindThreshold = Annotated[
    float | None,
    typer.Option(
        "--find-threshold",
        help="Score from which on `fuzzy` or a model believes that an entity is there. [default: 0.8, or the model's]",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Read the inputs, say how much memory and time the job will take, and stop.")
]
OnErrorOption = Annotated[OnError, typer.Option("--on-error", help="Stop at a malformed record, or skip and count it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone.")]

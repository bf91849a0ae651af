"""The verb `link`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arbo.cli import options
from arbo.cli.finding import find_in, load_finder
from arbo.cli.inputs import read_documents, read_kb
from arbo.cli.linker import LinkerOptions
from arbo.cli.run import run
from arbo.cli.work import Shards
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.spans.finding import Finder


def link(
    docs: options.Documents,
    kb: options.Kb,
    out: options.Out,
    format_: options.Format = None,
    kb_format: options.KbFormat = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    no_generic_names: options.NoGenericNames = False,
    types: options.Types = None,
    ids: options.Ids = None,
    text_column: options.TextColumn = None,
    find_mentions: options.FindMentions = None,
    find_threshold: options.FindThreshold = None,
    config: options.Config = None,
    method: options.MethodOption = None,
    map_types: options.MapTypes = None,
    k: options.K = None,
    per_document: options.PerDocument = None,
    threshold: options.Threshold = None,
    nil_linkage: options.NilLinkageOption = None,
    nil_threshold: options.NilThreshold = None,
    search: options.SearchOption = None,
    edges: options.EdgesFile = None,
    encoder: options.EncoderModel = None,
    encoder_config: options.EncoderConfigFile = None,
    cache: options.Cache = None,
    reranker: options.RerankerModel = None,
    candidates: options.NumberOfCandidates = None,
    skip_margin: options.SkipMargin = None,
    rerank_mentions: options.RerankMentions = None,
    corrections: options.CorrectionsFile = None,
    spread: options.SpreadOption = None,
    preview: options.Preview = False,
    no_texts: options.NoTexts = False,
    workers: options.Workers = None,
    shard_size: options.ShardSize = None,
    work: options.Work = None,
    ray: options.Ray = None,
    dry_run: options.DryRun = False,
    expand: options.Abbreviations = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    With `--find-mentions dictionary`, for example, DOCS need no mentions.
    """
    from arbo.results.run_folder import check_replaceable

    check_replaceable(out)
    fields: dict[str, Any] = {"method": method, "k": k, "map_types": map_types, "search": search, "spread": spread}
    fields |= {"candidates": candidates, "skip_margin": skip_margin, "rerank_mentions": rerank_mentions}
    fields |= {"nil_linkage": nil_linkage, "nil_threshold": nil_threshold, "per_document": per_document}
    fields["expand_abbreviations"] = expand
    linker = LinkerOptions(fields, encoder, encoder_config, cache, reranker, threshold, config, edges).load()
    finder = _finder(find_mentions, find_threshold, expand=linker.config.expand_abbreviations)
    base = read_kb(kb, kb_format, kb_xrefs, kb_types, no_generic_names=no_generic_names)
    documents = read_documents(docs, format_, types, on_error, ids=ids, mentions=finder is None, column=text_column)
    given = documents if finder is None else find_in(documents, base, finder).corpus
    annotated = None if finder is None else documents
    how: dict[str, Any] = {"texts": not no_texts, "dry_run": dry_run, "as_json": as_json, "annotated": annotated}
    how |= {"corrections": corrections, "preview": preview, "shards": Shards(workers, shard_size, work, ray)}
    run(linker.configured(kb=base), given, out, **how)


def _finder(name: str | None, threshold: float | None, *, expand: bool) -> Finder | None:
    if name is None and threshold is not None:
        raise UsageError("--find-threshold needs --find-mentions with `fuzzy` or a model")
    return None if name is None else load_finder(name, "--find-mentions", threshold, expand)

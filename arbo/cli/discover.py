"""The verb `discover`."""

from __future__ import annotations

from arbo.cli import options
from arbo.cli.inputs import read_documents
from arbo.cli.linker import LinkerOptions
from arbo.cli.run import run
from arbo.cli.work import Shards
from arbo.errors import UsageError


def discover(
    docs: options.Documents,
    out: options.Out,
    format_: options.Format = None,
    types: options.Types = None,
    ids: options.Ids = None,
    text_column: options.TextColumn = None,
    by_topic: options.ByTopic = False,
    config: options.Config = None,
    k: options.K = None,
    threshold: options.Threshold = None,
    nil_linkage: options.NilLinkageOption = None,
    nil_threshold: options.NilThreshold = None,
    search: options.SearchOption = None,
    edges: options.EdgesFile = None,
    encoder: options.EncoderModel = None,
    encoder_config: options.EncoderConfigFile = None,
    cache: options.Cache = None,
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
    """Cluster mentions across documents without a knowledge base; each cluster is a discovered entity."""
    from arbo.linking.config import tuned_model
    from arbo.results.run_folder import check_replaceable

    if tuned_model(config, "reranker"):
        raise UsageError(
            f"{config} was tuned with a reranker, but discover uses none, so its thresholds would not fit; tune again "
            "without --kb and --reranker"
        )
    check_replaceable(out)
    fields = {"k": k, "search": search, "nil_linkage": nil_linkage, "nil_threshold": nil_threshold, "spread": spread}
    fields["expand_abbreviations"] = expand
    linker = LinkerOptions(fields, encoder, encoder_config, cache, None, threshold, config, edges).load()
    documents = read_documents(docs, format_, types, on_error, ids=ids, column=text_column)
    run(
        linker,
        documents.by_topic() if by_topic else documents,
        out,
        corrections=corrections,
        preview=preview,
        texts=not no_texts,
        dry_run=dry_run,
        shards=Shards(workers, shard_size, work, ray),
        as_json=as_json,
    )

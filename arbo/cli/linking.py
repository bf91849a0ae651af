"""The verbs that cluster: link, discover, and tune, which chooses their settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arbo.cli.finding import find_in, scores_against
from arbo.cli.inputs import linker_config, load_encoder, load_finder, load_reranker, read_documents, read_kb
from arbo.cli.options import (
    Cache,
    Config,
    DocumentFormat,
    Documents,
    DryRun,
    EncoderConfigFile,
    EncoderModel,
    FindMentions,
    FindThreshold,
    Format,
    Json,
    K,
    Kb,
    KbFormat,
    KbXrefs,
    KnowledgeBaseFormat,
    MethodOption,
    NumberOfCandidates,
    OnError,
    OnErrorOption,
    Out,
    RerankerModel,
    RerankMentions,
    SearchOption,
    SkipMargin,
    Threshold,
    Types,
)
from arbo.cli.reporting import check_outputs, drawing

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.linker import Linker
    from arbo.results.result import Result
    from arbo.spans.evaluation import FoundScores


def link(
    docs: Documents,
    format_: Format,
    kb: Kb,
    kb_format: KbFormat,
    out: Out,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    find_mentions: FindMentions = None,
    find_threshold: FindThreshold = None,
    config: Config = None,
    method: MethodOption = None,
    k: K = None,
    threshold: Threshold = None,
    search: SearchOption = None,
    encoder: EncoderModel = None,
    encoder_config: EncoderConfigFile = None,
    cache: Cache = None,
    reranker: RerankerModel = None,
    candidates: NumberOfCandidates = None,
    skip_margin: SkipMargin = None,
    rerank_mentions: RerankMentions = None,
    dry_run: DryRun = False,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Link every mention to an entity of the knowledge base, or call it NIL and cluster it with its like.

    With `--reranker` a cross-encoder chooses among the candidates that the encoder finds. With `--find-mentions` DOCS
    need no mentions: `arbo link notes/ --format text --find-mentions dictionary ...`.
    """
    from arbo import Linker, UsageError
    from arbo.progress import bars
    from arbo.results.run_folder import check_replaceable

    if find_mentions is None and format_ is DocumentFormat.text:
        raise UsageError("in files of text no mention is marked: find them with --find-mentions dictionary")
    if find_mentions is None and find_threshold is not None:
        raise UsageError("--find-threshold says what --find-mentions believes: name `fuzzy` or a model with that")
    settings = linker_config(config, method, k, threshold, search, candidates, skip_margin, rerank_mentions)
    check_replaceable(out)
    finder = load_finder(find_mentions, "--find-mentions", find_threshold) if find_mentions is not None else None
    reader = load_encoder(encoder, encoder_config, cache, config)
    second = load_reranker(reranker, config)
    if second and candidates is None and config is None:
        settings = replace(settings, candidates=second.config.candidates)
    linker = Linker(None, reader, settings, announce=bars, reranker=second)
    base = read_kb(kb, kb_format, kb_xrefs)
    linker = linker.configured(kb=base)
    documents = read_documents(docs, format_, types, on_error)
    if finder is None:
        _run(linker, documents, out, dry_run=dry_run, as_json=as_json)
    else:
        found = find_in(documents, base, finder).corpus
        _run(linker, found, out, dry_run=dry_run, as_json=as_json, annotated=documents)


def discover(
    docs: Documents,
    format_: Format,
    out: Out,
    types: Types = None,
    config: Config = None,
    k: K = None,
    threshold: Threshold = None,
    search: SearchOption = None,
    encoder: EncoderModel = None,
    encoder_config: EncoderConfigFile = None,
    cache: Cache = None,
    dry_run: DryRun = False,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Cluster mentions across documents without a knowledge base: every cluster is an entity."""
    from arbo import Linker, UsageError
    from arbo.linking.config import tuned_reranker
    from arbo.progress import bars
    from arbo.results.run_folder import check_replaceable

    settings = linker_config(config, None, k, threshold, search)
    if config and tuned_reranker(config):
        raise UsageError(
            f"{config} was tuned with a reranker, and discover asks none: thresholds would not fit; tune again "
            "without --reranker"
        )
    check_replaceable(out)
    reader = load_encoder(encoder, encoder_config, cache, config)
    documents = read_documents(docs, format_, types, on_error)
    _run(Linker(None, reader, settings, announce=bars), documents, out, dry_run=dry_run, as_json=as_json)


def tune(
    docs: Documents,
    format_: Format,
    out: Annotated[Path, typer.Option("--out", help="JSON file to write; `--config` of link and discover reads it.")],
    kb: Annotated[Path | None, typer.Option("--kb", help="The knowledge base; without one, tune discovery.")] = None,
    kb_format: Annotated[KnowledgeBaseFormat | None, typer.Option("--kb-format", help="Its format.")] = None,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    nil: Annotated[
        bool, typer.Option("--nil", help="Seek the best F1 of NIL decisions, whatever other mentions are linked to.")
    ] = False,
    encoder: EncoderModel = None,
    encoder_config: EncoderConfigFile = None,
    cache: Cache = None,
    reranker: RerankerModel = None,
    candidates: NumberOfCandidates = None,
    skip_margin: SkipMargin = None,
    rerank_mentions: RerankMentions = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the score against the threshold; .png or .svg."),
    ] = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Choose k, method and thresholds on documents with gold annotations.

    With a knowledge base the best accuracy is sought, NIL decisions included, or with `--nil` their F1 alone; without
    one the best ARI.
    """
    from arbo import Linker, LinkerConfig, UsageError
    from arbo.cli import console
    from arbo.files import check_writable, write_json
    from arbo.progress import bars

    if (kb is None) != (kb_format is None):
        raise UsageError("--kb and --kb-format go together")
    if reranker and kb is None:
        raise UsageError("--reranker needs --kb: it reads mentions with entities")
    if nil and kb is None:
        raise UsageError("--nil needs --kb: without a knowledge base no mention is NIL")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file")
    if out.exists():
        LinkerConfig.from_json(out)  # an earlier tuning is replaced, nothing else is
    check_writable(out)
    check_outputs([docs], None, plot)
    settings = linker_config(None, None, None, None, None, candidates, skip_margin, rerank_mentions)
    reader = load_encoder(encoder, encoder_config, cache, None)
    second = load_reranker(reranker, None)
    if second and candidates is None:
        settings = replace(settings, candidates=second.config.candidates)
    linker = Linker(None, reader, settings, announce=bars, reranker=second)
    base = None if kb is None or kb_format is None else read_kb(kb, kb_format, kb_xrefs)
    documents = read_documents(docs, format_, types, on_error)
    linker = linker.configured(kb=base).tune(documents, objective="nil_f1" if nil else None)
    assert linker.tuning is not None
    content = {
        "config": linker.config.as_dict(),
        "encoder": reader.settings,
        "reranker": second.settings if second else None,
        "tuning": linker.tuning.as_dict(),
    }
    write_json(content, out)
    if plot is not None:
        with drawing(plot):
            linker.tuning.plot(plot)
    best = linker.tuning.best
    if as_json:
        console.print_json({"config": content["config"], "objective": linker.tuning.objective, "score": best.score})
        return
    kinds = [("mention", best.mention_threshold)]
    if base is not None:  # discovery has neither methods nor entity edges
        kinds.insert(0, ("entity", best.entity_threshold))
    limits = ", ".join(
        f"no limit on {kind} edges" if limit is None else f"{kind} edges up to {limit:.3f}" for kind, limit in kinds
    )
    method = "" if base is None else f"{best.method}, "
    console.out.print(
        f"{linker.tuning.objective} {best.score:.4f}: {method}k={best.k}, {limits} "
        f"({len(linker.tuning.trials):,} choices tried, thresholds exactly where results are nested)\nwritten to {out}"
    )


def _run(
    linker: Linker,
    documents: Corpus,
    out: Path,
    *,
    dry_run: bool,
    as_json: bool,
    annotated: Corpus | None = None,
) -> None:
    """Link, or discover without a knowledge base; or only tell what that will take.

    Score found mentions against the annotated ones, if these are given.
    """
    from arbo.cli import console

    if not dry_run:
        result = linker.discover(documents) if linker.kb is None else linker.link(documents)
        scores = None
        if annotated is not None and linker.kb is not None:
            scores = scores_against(annotated, documents, linker.kb, result.link_table["entity_id"].to_pylist())
        _finish(result, out, as_json, scores)
        return
    estimate = linker.estimate(documents)
    if as_json:
        console.print_json(estimate.as_dict())
    else:
        console.out.print(str(estimate))


def _finish(result: Result, out: Path, as_json: bool, scores: FoundScores | None) -> None:
    """Save a result and say what came out."""
    from arbo.cli import console

    result.save(out)
    for note, count in result.manifest["notes"]["gold"].items():
        console.say(f"{count:,} {note}")
        with_ids = sum(map(bool, result.mention_table["gold"].to_pylist()))
        if count > with_ids / 2:
            console.say(
                f"that is {count / with_ids:.0%} of those with an id: do the ids match? --kb-xrefs MSH, say, lets "
                "entities answer to MeSH ids"
            )
    search = result.manifest["search"]
    for what, recall in search["recall"].items():
        how = "the first stage" if search["method"] == "exact" else search["method"]
        console.say(f"{how} found {recall:.1%} of the nearest {what} (on a sample)")
    for giant in result.giants:
        console.warn(str(giant))
    if as_json:
        nil = result.link_table["entity_id"].null_count
        console.print_json(
            {
                "run": str(out),
                "mentions": result.link_table.num_rows,
                "linked": result.link_table.num_rows - nil,
                "nil": nil,
                "discovered": len(result.discovered),
                "giants": result.manifest["giants"],
                "seconds": result.manifest["seconds"],
                **({"against_annotated": scores.as_dict()} if scores else {}),
            }
        )
        return
    console.print_summary(result)
    if len(result.discovered):
        console.print_title("Largest discovered entities")
        console.print_clusters(result.discovered[:5])
    if scores:
        console.print_title("Against the mentions that the documents have")
        console.out.print(console.plain(str(scores)))
    gold = result.mention_table["gold"]
    evaluate = f"arbo evaluate {out}, or " if gold.null_count < len(gold) else ""
    console.out.print(f"\nwritten to {out}; next: {evaluate}arbo explain {out} MENTION")

"""The verb that finds mentions in unmarked documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arbo.cli.inputs import load_finder, read_documents, read_kb
from arbo.cli.options import (
    Documents,
    FindThreshold,
    Format,
    Json,
    Kb,
    KbFormat,
    KbXrefs,
    OnError,
    OnErrorOption,
    Types,
)
from arbo.cli.reporting import check_jsonl_output

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.spans.evaluation import FoundScores
    from arbo.spans.finding import Finder, Found


def spans(
    docs: Documents,
    format_: Format,
    kb: Kb,
    kb_format: KbFormat,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder",
            metavar="FINDER",
            help="What finds them: `dictionary`, names of the knowledge base that stand in the text but for case, "
            "plurals and stop words, and the abbreviations that the text gives them; `fuzzy`, runs of words spelt much "
            "like a name; or a model that `arbo train --preset oslat` made.",
        ),
    ] = "dictionary",
    find_threshold: FindThreshold = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="JSON lines to write the documents to, with the mentions found: `arbo link` reads them."
        ),
    ] = None,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Mentions to show.")] = 20,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Find mentions of the entities of a knowledge base in documents without any.

    `arbo spans notes/ --format text --kb kb.obo --kb-format obo --out found.jsonl`, then look at found.jsonl, correct
    it, and `arbo link found.jsonl --format jsonl ...`. `arbo link notes/ ... --find-mentions dictionary` does both.

    Mentions that the documents have are not looked at. If there are any, what is found is scored against them, or
    against those of `--types` alone.
    """
    from arbo.cli import console

    if out is not None:
        check_jsonl_output(out, docs, kb)
    finder = load_finder(encoder, "--encoder", find_threshold)
    base = read_kb(kb, kb_format, kb_xrefs)
    documents = read_documents(docs, format_, types, on_error)
    found = find_in(documents, base, finder)
    scores = scores_against(documents, found.corpus, base, [base.entities[at.entity].id for at in found.proposals])
    if out is not None:
        Corpus.of(found.corpus).to_jsonl(out)
    if as_json:
        console.print_json(
            {
                "documents": len(found.corpus),
                "mentions": len(found.corpus.mentions),
                "out": None if out is None else str(out),
                "found": [
                    {
                        "document": mention.document_id,
                        "mention": mention.id,
                        "spans": mention.spans,
                        "text": mention.text,
                        "entity": base.entities[at.entity].id,
                        "score": at.score,
                    }
                    for mention, at in zip(found.corpus.mentions, found.proposals, strict=True)
                ],
                "against_annotated": scores.as_dict() if scores else None,
            }
        )
        return
    console.print_found(found, base, examples)
    if scores:
        console.print_title("Against the mentions that the documents have, each with the entity it was found by")
        console.out.print(console.plain(str(scores)))
    if out is not None:
        console.out.print(f"\nwritten to {out}; next: arbo link {out} --format jsonl")


def find_in(documents: Corpus, kb: KnowledgeBase, finder: Finder) -> Found:
    """Find mentions in documents; say how many of their own are not looked at, and what to do if none is found."""
    from arbo.cli import console
    from arbo.progress import bars
    from arbo.spans.finding import LEFT_OUT, PairFinder, find

    found = find(finder, documents, kb, announce=bars)
    if LEFT_OUT in found.corpus.notes:
        console.say(f"{found.corpus.notes[LEFT_OUT]:,} {LEFT_OUT}")
    if not found.proposals:
        limit = f", from the score {finder.threshold:.3f} on" if isinstance(finder, PairFinder) else ""
        lower = " Or is a lower --find-threshold needed?" if limit else ""
        console.warn(f"nothing was found{limit}: is it the right knowledge base, in the language of the texts?{lower}")
    return found


def scores_against(
    annotated: Corpus, found: Corpus, kb: KnowledgeBase, entities: Sequence[str | None]
) -> FoundScores | None:
    """Score found mentions and the entities they are linked to; None where the documents had no mentions."""
    from arbo.spans.evaluation import found_scores

    return found_scores(annotated, found, kb, entities) if annotated.mentions else None

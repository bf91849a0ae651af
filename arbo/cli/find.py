"""The verb `find`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import READING, Chosen, Shown
from arbo.cli.finding import ABBREVIATIONS, FINDING, AbbreviationConfig, FindingConfig, find_in
from arbo.cli.inputs import Docs, Kb, ReadingConfig
from arbo.cli.reporting import check_jsonl_output

if TYPE_CHECKING:
    from arbo.spans.evaluation import FoundScores
    from arbo.spans.finding import Found


_OUT = "File to write the documents with the found mentions to, as JSON lines for `arbo link`."


def find(
    docs: Docs,
    kb: Kb,
    how: Annotated[Chosen, Shown((READING, FINDING, ABBREVIATIONS))],
    finder: options.Finder = "dictionary",
    out: Annotated[Path | None, Option(help=_OUT)] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> None:
    """Find mentions of the entities of a knowledge base in documents without mentions.

    Run `arbo find notes/ --kb kb.obo --out found.jsonl`, correct found.jsonl, and link it with `arbo link found.jsonl
    --kb kb.obo --out run`. To find and link mentions in one step, use `arbo link --find-mentions dictionary`.

    If DOCS have mentions already, these are only used to score the found mentions. `--types` limits the mentions to
    score against, not the found mentions.
    """
    from arbo.spans.by_name import finder_of
    from arbo.spans.evaluation import found_scores

    if out is not None:
        check_jsonl_output(out, kb.path, *docs.paths)
    expand = how.of(ABBREVIATIONS, AbbreviationConfig()).expand_abbreviations
    threshold = how.of(FINDING, FindingConfig()).find_threshold
    chosen = finder_of(finder, threshold, abbreviations=expand, option="--finder")
    reading = how.of(READING, ReadingConfig())
    base = kb.read(reading)
    documents = docs.read(reading, mentions=False)
    found = find_in(documents, base, chosen)
    entities = [base.entities[at.entity].id for at in found.proposals]
    scores = found_scores(documents, found.corpus, base, entities) if documents.n_mentions else None
    if out is not None:
        found.corpus.to_jsonl(out)
    if as_json:
        console.print_json(_as_dict(found, base, out, scores))
        return
    console.print_found(found, base, console.rows_shown(limit))
    if scores:
        console.print_title("Scores against the mentions of the documents, with the entities that the finder proposes")
        console.show(scores)
    if out is not None:
        console.show(f"\nwritten to {out}; next: arbo link {out} --kb {kb.path} --out run")


def _as_dict(found: Found, kb: arbo.KnowledgeBase, out: Path | None, scores: FoundScores | None) -> dict[str, Any]:
    mentions = [
        {"document": mention.document_id, "mention": mention.id, "spans": mention.spans, "text": mention.text}
        | {"entity": kb.entities[at.entity].id, "score": at.score}
        for mention, at in zip(found.corpus.mentions, found.proposals, strict=True)
    ]
    return {
        "documents": len(found.corpus),
        "mentions": len(mentions),
        "out": None if out is None else str(out),
        "found": mentions,
        "against_annotated": scores.as_dict() if scores else None,
    }

"""The verb `find`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import DOCS, KB, READING, Chosen, Shown
from arbo.cli.inputs import ReadingConfig, check_output
from arbo.cli.models import ABBREVIATIONS, FINDING, expands_abbreviations, load_finder
from arbo.progress import bars

if TYPE_CHECKING:
    from arbo.spans.finding import Finder, Found

_OUT = "File to write the documents with the found mentions to, as JSON lines for `arbo link`."


def find(
    docs: options.Documents,
    kb: options.Kb,
    how: Annotated[Chosen, Shown((READING, FINDING, ABBREVIATIONS), DOCS | KB)],
    finder: options.Finder = "dictionary",
    out: Annotated[Path | None, Option(help=_OUT)] = None,
    limit: options.Limit = None,
) -> None:
    """Find mentions of the entities of a knowledge base in documents without mentions.

    Run `arbo find notes/ --kb kb.obo --out found.jsonl`, correct found.jsonl, and link it with `arbo link found.jsonl
    --kb kb.obo --out run`. To find and link mentions in one step, use `arbo link --find-mentions dictionary`.

    If DOCS have mentions already, these are only used to score the found mentions. `--types` limits the mentions to
    score against, not the found mentions.
    """
    from arbo.spans.evaluation import found_scores

    if out is not None:
        check_output(out, "jsonl", (".jsonl", ".jsonl.gz"), kb, *docs)
    model = load_finder(finder, how, "--finder", expand_abbreviations=expands_abbreviations(how))
    reading = how.of(READING, ReadingConfig())
    base = reading.knowledge_base(kb)
    documents = reading.documents(docs, mentions=False)
    found = find_in(documents, base, model)
    ids = [base.entities[proposal.entity].id for proposal in found.proposals]
    scores = found_scores(documents, found.corpus, base, ids) if documents.n_mentions else None
    if out is not None:
        found.corpus.to_jsonl(out)
    if console.as_json:
        mentions = [
            {"document": mention.document_id, "mention": mention.id, "spans": mention.spans, "text": mention.text}
            | {"entity": id_, "score": proposal.score}
            for mention, id_, proposal in zip(found.corpus.mentions, ids, found.proposals, strict=True)
        ]
        counts = {"documents": len(found.corpus), "mentions": len(mentions), "out": None if out is None else str(out)}
        console.print_json(counts | {"found": mentions, "against_annotated": scores.as_dict() if scores else None})
        return
    console.show(f"{len(ids):,} mentions of {len({*ids}):,} entities found in {len(documents):,} documents")
    if rows := [*islice(_rows(found, base), console.rows_shown(limit))]:
        console.print_table(("document", "in context", "found as", "", "score"), rows, total=len(ids))
    if scores:
        console.print_title("Scores against the mentions of the documents, with the entities that the finder proposes")
        console.show(scores)
    if out is not None:
        console.show(f"\nwritten to {out}; next: arbo link {out} --kb {kb} --out run")


def find_in(documents: arbo.Corpus, kb: arbo.KnowledgeBase, finder: Finder) -> Found:
    """Find mentions in documents; print how many existing mentions are left out, and warn if no mention is found."""
    from arbo.data.fingerprint import warnings_of
    from arbo.spans.finding import LEFT_OUT, find as find_mentions

    console.warn(*warnings_of(documents.tables, {"the finder": getattr(finder, "model", finder)}))
    found = find_mentions(finder, documents, kb, announce=bars)
    if isinstance(finder, arbo.DictionaryFinder) and (generic := finder.left_out(kb)):
        console.say(f"generic names are not looked for: {', '.join(generic)} (--set find_generic=true overrides)")
    if LEFT_OUT in found.corpus.notes:
        console.say(f"{found.corpus.notes[LEFT_OUT]:,} {LEFT_OUT}")
    if not found.proposals:
        console.warn("no mentions found; check the texts and their language, or lower the find_threshold of a model")
    return found


def _rows(found: Found, kb: arbo.KnowledgeBase) -> Iterator[tuple[str, ...]]:
    """Yield a row for each found mention, which stands in brackets among 30 characters of context on either side."""
    texts = {document.id: document.text for document in found.corpus}
    for mention, proposal in zip(found.corpus.mentions, found.proposals, strict=True):
        text, begin, end = texts[mention.document_id], mention.start, mention.spans[-1][1]
        context = f"{text[max(0, begin - 30) : begin]}[{text[begin:end]}]{text[end : end + 30]}"
        entity = kb.entities[proposal.entity]
        yield mention.document_id, console.on_one_line(context), entity.name, entity.id, f"{proposal.score:.3f}"

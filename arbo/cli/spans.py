"""The verb `spans`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.finding import beside_dictionary, find_in, load_finder
from arbo.cli.inputs import Docs, Kb, read_gold
from arbo.cli.reporting import check_jsonl_output

if TYPE_CHECKING:
    from arbo.spans.evaluation import FoundScores
    from arbo.spans.finding import Finder, Found


_GIVEN = (
    "Look in each sentence for the entities annotated there, and score the words found and, with `fuzzy` or a model, "
    "how high these entities rank, as the OSLAT paper does."
)
_Given = Annotated[bool, Option("--given-entities", help=_GIVEN)]
_TRAIN = "With --given-entities: training documents; entities with and without mentions in them are scored apart."
_Train = Annotated[Path | None, Option("--train", metavar="DOCS", help=_TRAIN)]
_OUT = "File to write the documents with the found mentions to, as JSON lines for `arbo link`."


def spans(
    docs: Docs,
    kb: Kb,
    no_generic_names: options.NoGenericNames = False,
    finder: options.Finder = "dictionary",
    find_threshold: options.FindThreshold = None,
    out: Annotated[Path | None, Option(help=_OUT)] = None,
    given_entities: _Given = False,
    train: _Train = None,
    train_ids: options.TrainIds = None,
    limit: options.Limit = None,
    expand: options.Abbreviations = None,
    as_json: options.Json = False,
) -> None:
    """Find mentions of the entities of a knowledge base in documents without mentions.

    Run `arbo spans notes/ --kb kb.obo --out found.jsonl`, correct found.jsonl, and link it with `arbo link found.jsonl
    --kb kb.obo --out run`. To find and link mentions in one step, use `arbo link --find-mentions dictionary`.

    If DOCS have mentions already, these are only used to score the found mentions. `--types` limits the mentions to
    score against, not the found mentions.
    """
    from arbo.spans.evaluation import found_scores

    for option, file in {"--train": train, "--train-ids": train_ids}.items():
        if file is not None and not given_entities:
            raise arbo.UsageError(f"{option} needs --given-entities; add it, or leave {option} out")
    if given_entities and out is not None:
        raise arbo.UsageError("--given-entities only scores; leave --out out")
    if given_entities and limit is not None:
        raise arbo.UsageError("--given-entities shows no mentions; leave --limit out")
    if given_entities and find_threshold is not None and beside_dictionary(finder).lower() != "fuzzy":
        wrong = "--find-threshold says which entities a text has, but with --given-entities they are given"
        raise arbo.UsageError(f"{wrong}; leave it out, or use --finder fuzzy, where it limits the words found")
    if out is not None:
        check_jsonl_output(out, kb.path, *docs.inputs)
    chosen = load_finder(finder, "--finder", find_threshold, expand is None)
    base = kb.read(no_generic_names=no_generic_names)
    documents = docs.read(mentions=given_entities)
    if given_entities:
        known = docs.others("--train", train, train_ids)
        _show_given(chosen, documents, known, base, as_json=as_json)
        return
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


def _show_given(
    finder: Finder, documents: arbo.Corpus, train: arbo.Corpus | None, kb: arbo.KnowledgeBase, *, as_json: bool
) -> None:
    """Find the words that name the entities of each sentence, and print their scores, then those of the entities."""
    import numpy as np

    from arbo.progress import bars
    from arbo.spans.finding import PairFinder
    from arbo.spans.given import given_scores, given_spans, linked_scores
    from arbo.spans.pieces import Pairs, pieces
    from arbo.text.sentences import passages

    pairs = Pairs.of(pieces(documents, passages).corpus, kb)
    if not len(pairs):
        raise arbo.UsageError("no mention has an entity of the knowledge base; check that the ids match")
    gold = read_gold(documents, kb)
    if lost := int((gold.has_id & ~gold.in_kb).sum()):
        console.warn(f"{console.counted(lost, 'mention')} left out, whose entities the knowledge base does not have")
    seen = None if train is None else np.isin(pairs.entity, Pairs.of(train, kb).entity)
    scores = given_scores(pairs, given_spans(finder, pairs, kb, bars), seen)
    if not as_json:
        console.print_title("Words found of given entities, against those annotated")
        console.show(scores)
    linked = linked_scores(finder.reader, pairs, kb, seen, bars) if isinstance(finder, PairFinder) else None
    n_entities = len(np.unique(pairs.entity))
    if as_json:
        linking = None if linked is None else linked.as_dict()
        sizes = {"pairs": len(pairs), "entities": n_entities}
        console.print_json(sizes | {"groups": scores.as_dict(), "linking": linking})
    elif linked is None:
        console.say("a dictionary has no scores, so that entities of a sentence have no ranks")
    else:
        console.print_title(f"Entities of each sentence among its k best by score, of {n_entities:,} in all sentences")
        console.show(linked)


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

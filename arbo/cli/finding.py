"""Finding mentions, for `arbo spans` and `arbo link --find-mentions`."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import arbo
from arbo.cli import console
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.spans.finding import Finder, Found


def load_finder(name: str, option: str, threshold: float | None = None, expand: bool = True) -> Finder:
    """Return a finder; a threshold of None means the finder's default, and errors name ``option``.

    If ``expand`` is false, it does not expand the abbreviations that a document defines.
    """
    from arbo.spans.model_finder import ModelFinder

    if threshold is not None and not isfinite(threshold):
        raise UsageError(f"--find-threshold must be a finite number, not {threshold}")
    if name.lower() == "dictionary":
        if threshold is not None:
            raise UsageError(f"`dictionary` has no scores; leave --find-threshold out, or use {option} with a model")
        return arbo.DictionaryFinder(abbreviations=expand)
    if not name or not Path(name).is_dir():
        raise UsageError(
            f"{option} {name!r}: no such folder; choose `dictionary` for exact names, or a model folder of arbo "
            "train-finder"
        )
    model = arbo.LabelAttention.from_pretrained(name)
    return ModelFinder(model if threshold is None else model.with_threshold(threshold), abbreviations=expand)


def find_in(documents: arbo.Corpus, kb: arbo.KnowledgeBase, finder: Finder) -> Found:
    """Find mentions in documents; print how many existing mentions are ignored, and warn if no mention is found."""
    from arbo.progress import bars
    from arbo.spans.finding import LEFT_OUT, find
    from arbo.spans.model_finder import ModelFinder

    found = find(finder, documents, kb, announce=bars)
    if LEFT_OUT in found.corpus.notes:
        console.say(f"{found.corpus.notes[LEFT_OUT]:,} {LEFT_OUT}")
    if kinds := sorted({mention.type for mention in found.corpus.mentions if mention.type}):
        shown = ", ".join(kinds[:10]) + ", ..." * (len(kinds) > 10)
        console.say(f"the found mentions have the types of their entities (in OBO, the namespace): {shown}")
    if not any(document.text.strip() for document in documents):
        console.warn("no mentions found; the texts are empty")
    elif not found.proposals:
        limit = f" with a score of at least {finder.model.threshold:.3f}" if isinstance(finder, ModelFinder) else ""
        lower = ", or lower --find-threshold" if limit else ""
        console.warn(f"no mentions found{limit}; check that knowledge base and texts have the same language{lower}")
    return found

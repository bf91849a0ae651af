"""How mentions are found, for `arbo find`, `arbo link` and `arbo serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import arbo
from arbo.cli import console
from arbo.cli.fields import Group
from arbo.settings import Finite, Settings

if TYPE_CHECKING:
    from arbo.spans.finding import Finder, Found


@dataclass(frozen=True, slots=True)
class FindingConfig(Settings):
    """Which proposed mentions are kept."""

    find_threshold: Finite | None = None
    """Minimum score of a mention that a model proposes; None means that of the model."""


@dataclass(frozen=True, slots=True)
class AbbreviationConfig(Settings):
    """How abbreviations are read."""

    expand_abbreviations: bool = True
    """Whether to replace abbreviations that a document defines by their long forms."""


FINDING = Group("finding", __name__, "FindingConfig")
ABBREVIATIONS = Group("abbreviations", __name__, "AbbreviationConfig")


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
        lower = ", or lower find_threshold" if limit else ""
        console.warn(f"no mentions found{limit}; check that knowledge base and texts have the same language{lower}")
    return found

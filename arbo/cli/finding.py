"""Finding mentions, for `arbo spans` and `arbo link --find-mentions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arbo.cli import console
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.spans.evaluation import FoundScores
    from arbo.spans.finding import Finder, Found


def load_finder(name: str, option: str, threshold: float | None = None) -> Finder:
    """Return a finder of mentions; a threshold of None is the finder's own, and ``option`` names it in errors."""
    from arbo.spans.baselines import Fuzzy
    from arbo.spans.finding import DictionaryFinder, PairFinder, without_repetition

    if name == "dictionary":
        if threshold is not None:
            raise UsageError(f"--find-threshold: `dictionary` gives no scores; name `fuzzy` or a model with {option}")
        return DictionaryFinder()
    if name == "fuzzy":
        fuzzy = Fuzzy() if threshold is None else Fuzzy(threshold)
        return PairFinder(fuzzy, fuzzy.threshold)
    if not Path(name).is_dir():
        raise UsageError(
            f"{option} {name!r}: no such folder; there are `dictionary`, for names as they are, `fuzzy`, for names "
            "spelt similarly, and the model folders of arbo train-finder"
        )
    from arbo.spans.model import LabelAttention

    model = LabelAttention.from_pretrained(name)
    return PairFinder(model, model.threshold if threshold is None else threshold, mentions=without_repetition)


def find_in(documents: Corpus, kb: KnowledgeBase, finder: Finder) -> Found:
    """Find mentions in documents; say how many of their own are ignored, and what to do if none is found."""
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

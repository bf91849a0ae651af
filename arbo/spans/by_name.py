"""Finders by name."""

from pathlib import Path

from arbo.errors import UsageError
from arbo.spans.finding import DictionaryFinder, Finder


def finder_of(
    name: str, threshold: float | None = None, *, abbreviations: bool = True, option: str = "finder"
) -> Finder:
    """Return the finder ``dictionary``, or that of a model folder.

    Args:
        name: the name.
        threshold: the minimum score of a proposed mention; None for that of the model.
        abbreviations: whether it expands the abbreviations that a document defines.
        option: what errors call the name.

    Raise UsageError for an unknown name, or a threshold of a dictionary, which has no scores.
    """
    if name.lower() == "dictionary":
        if threshold is not None:
            raise UsageError(f"`dictionary` has no scores; leave find_threshold out, or use {option} with a model")
        return DictionaryFinder(abbreviations=abbreviations)
    if not name or not Path(name).is_dir():
        raise UsageError(
            f"{option} {name!r}: no such folder; choose `dictionary` for exact names, or a model folder of `arbo train "
            "finder`"
        )
    from arbo.spans.model import LabelAttention
    from arbo.spans.model_finder import ModelFinder

    model = LabelAttention.from_pretrained(name)
    return ModelFinder(model if threshold is None else model.with_threshold(threshold), abbreviations=abbreviations)

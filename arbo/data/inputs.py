"""The input of encoders: the name of each mention, and its document."""

from __future__ import annotations

from typing import NamedTuple

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.text.abbreviations import expander


class MentionInput(NamedTuple):
    """A mention as an encoder sees it."""

    name: str
    """The text of the mention; abbreviations that the document defines may be replaced by their long forms."""
    mention: Mention
    document: Document


def mention_inputs(corpus: Corpus, *, expand_abbreviations: bool) -> list[MentionInput]:
    """Return the mentions of a corpus as input for an encoder."""
    inputs: list[MentionInput] = []
    for document in corpus:
        expand = expander(document.text) if expand_abbreviations and document.mentions else str
        inputs.extend(MentionInput(expand(mention.text), mention, document) for mention in document.mentions)
    return inputs

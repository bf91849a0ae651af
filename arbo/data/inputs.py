"""The input of encoders: the name of each mention, and its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

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


class Inputs(Sequence[MentionInput]):
    """Mentions of which the names and domains are known, while the documents of most are read when they are needed."""

    def __init__(
        self,
        names: Sequence[str],
        domains: Sequence[str | None],
        some: Mapping[int, MentionInput],
        read: Callable[[], Sequence[MentionInput]],
    ) -> None:
        self.names, self.domains, self._some, self._read = names, domains, some, read

    @cached_property
    def _all(self) -> Sequence[MentionInput]:
        return self._read()

    def taken(self, rows: Sequence[int]) -> Inputs:
        """Return the mentions in these rows."""
        some = {place: self._some[row] for place, row in enumerate(rows) if row in self._some}
        names, domains = [self.names[row] for row in rows], [self.domains[row] for row in rows]
        return Inputs(names, domains, some, lambda: [self._all[row] for row in rows])

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: Any) -> Any:
        is_there = not isinstance(place, slice) and place in self._some
        return self._some[place] if is_there else self._all[place]


def names_of(inputs: Sequence[MentionInput]) -> Sequence[str]:
    """Return the names of mentions."""
    return inputs.names if isinstance(inputs, Inputs) else [item.name for item in inputs]


def domains_of(inputs: Sequence[MentionInput]) -> Sequence[str | None]:
    """Return the domains of mentions."""
    return inputs.domains if isinstance(inputs, Inputs) else [item.document.domain for item in inputs]

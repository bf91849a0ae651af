"""The input of encoders: the name of each mention, and its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.text.abbreviations import expander

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from arbo.data.tables import Tables


class MentionInput(NamedTuple):
    """A mention as an encoder sees it."""

    name: str
    """The text of the mention; abbreviations that the document defines may be replaced by their long forms."""
    mention: Mention
    document: Document


def mention_inputs(corpus: Corpus, *, expand_abbreviations: bool) -> Sequence[MentionInput]:
    """Return the mentions of a corpus as input for an encoder."""
    if corpus.tables is not None:
        names = _names_in(corpus.tables, expand=expand_abbreviations)
        return Inputs(names, corpus.tables.mentions["domain"].to_pylist(), {}, partial(_all, corpus, names))
    inputs: list[MentionInput] = []
    for document in corpus:
        expand = expander(document.text) if expand_abbreviations and document.mentions else str
        inputs.extend(MentionInput(expand(mention.text), mention, document) for mention in document.mentions)
    return inputs


def _names_in(tables: Tables, *, expand: bool) -> list[str]:
    """Return the names of mentions in tables; equal names are one in memory."""
    names: list[str] = []
    one: dict[str, str] = {}
    for part in tables.parts():
        own = iter(part.mentions["text"].to_pylist())
        for text, size in zip(part.documents["text"].to_pylist(), part.sizes.tolist(), strict=True):
            write_out = expander(text) if expand and size else str
            names += [one.setdefault(name, name) for name in map(write_out, islice(own, size))]
    return names


def _all(corpus: Corpus, names: Sequence[str]) -> list[MentionInput]:
    owners = (document for document in corpus for _ in document.mentions)
    return [*map(MentionInput, names, corpus.mentions, owners)]


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

    def taken(self, rows: npt.NDArray[np.integer[Any]]) -> Inputs:
        """Return the mentions in these rows."""
        places = rows.tolist()
        some = {place: self._some[row] for place, row in enumerate(places) if row in self._some} if self._some else {}
        names, domains = [self.names[row] for row in places], [self.domains[row] for row in places]
        return Inputs(names, domains, some, partial(self._in, rows))  # as an array, which takes a fifth of the memory

    def _in(self, rows: npt.NDArray[np.integer[Any]]) -> list[MentionInput]:
        return [self._all[row] for row in rows.tolist()]

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

"""Join finders: what one proposes, and what the next adds to it."""

from collections.abc import Iterator
from dataclasses import dataclass

from arbo.data import Corpus, KnowledgeBase
from arbo.progress import Announce, quiet
from arbo.spans.finding import Finder, Proposal, best_of


@dataclass(frozen=True, slots=True)
class UnionFinder:
    """Proposes the mentions of a finder, and those of a second one that share no character with the best of them.

    With a dictionary and a model, this is the ensemble that the OSLAT paper suggests (appendix D). The dictionary goes
    first, as its names are almost always right there, and as its score of 1 exceeds every cosine.
    """

    first: Finder
    second: Finder

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions of both finders; entities of another domain than the document's leave their place free."""
        proposed: list[list[Proposal]] = [[] for _ in documents]
        taken = [bytearray(len(document.text)) for document in documents]
        for proposal in self.first.propose(documents, kb, announce):
            proposed[proposal.document].append(proposal)
        for document, place, own in zip(documents, taken, proposed, strict=True):
            kept = best_of([of for of in own if kb.entities[of.entity].domain == document.domain])
            for begin, end in (span for proposal in kept for span in proposal.spans):
                place[begin:end] = b"\1" * (end - begin)
        for proposal in self.second.propose(documents, kb, announce):
            if not any(any(taken[proposal.document][begin:end]) for begin, end in proposal.spans):
                proposed[proposal.document].append(proposal)
        for own in proposed:
            yield from own

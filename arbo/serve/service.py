"""What the HTTP service answers, without HTTP: links, explanations, entities and searches of one knowledge base."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from time import monotonic
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt

from arbo.data import Document, Marked
from arbo.data.documents import marked_document, span_inside
from arbo.data.objects import entity_line
from arbo.errors import UsageError
from arbo.files import json_ready
from arbo.linker import Linker
from arbo.progress import quiet
from arbo.results.result import Result
from arbo.results.run import Link
from arbo.serve.web import Limits, Refused
from arbo.spans.finding import DictionaryFinder, Finder, find_mentions
from arbo.text.checks import check_text

Answer = dict[str, Any]
Limit = Annotated[int, Field(ge=1, le=100, description="Number of results.")]
_SPANS = "Start and length of each mention, in Unicode code points; without them, mentions are found."
Span = Annotated[list[StrictInt], Field(min_length=2, max_length=2)]


class Text(BaseModel, extra="forbid"):
    """A text to link."""

    text: str
    spans: Annotated[list[Span] | None, Field(description=_SPANS)] = None
    domain: str | None = None


class Candidate(BaseModel):
    """An entity with a name near that of the mention."""

    id: str
    name: str | None
    score: float | None


class Place(BaseModel):
    """A mention, and the id of its entity; null for NIL."""

    start: int
    end: int
    text: str
    id: str | None


class Linked(Place):
    """A mention with its link."""

    name: str | None
    score: float | None
    cluster: str
    candidates: list[Candidate]


class Explained(Place):
    """A mention with the explanation of its link."""

    explanation: str
    path: list[Answer]
    weakest: int | None
    rivals: list[Answer]


class Match(BaseModel):
    """An entity that a search found."""

    id: str
    name: str
    types: list[str]
    score: float


class Health(BaseModel):
    """The state of the service."""

    status: str
    version: str
    entities: int
    knowledge_base: str
    encoder: str | None


class Service:
    """Answers requests about one knowledge base, which stays in memory; use it from one thread at a time.

    Its methods are the operations of the web application, which reads their parameters from the signatures. Answers are
    ready for JSON. Raise DataError or UsageError for invalid requests, Refused for unknown entities or beyond a limit.

    >>> import arbo
    >>> service = Service(arbo.Linker(arbo.load_sample()[1]))
    >>> [link["name"] for link in service.link(Text(text="The RV Petrel lay at anchor.", spans=[[4, 9]]))]
    ['RV Petrel']
    """

    def __init__(self, linker: Linker, finder: Finder | None = None, limits: Limits | None = None) -> None:
        """Encode the entities of a linker, with its progress; ``finder`` finds the mentions of texts without spans."""
        if linker.kb is None or not len(linker.kb):
            raise UsageError("a service needs a knowledge base with entities: use Linker(kb)")
        self.kb, self.finder, self.limits = linker.kb, finder or DictionaryFinder(), limits or Limits()
        self.undivided = linker.undivided().configured(announce=quiet)  # of the entities of all domains and types
        self.linker = linker.configured(announce=quiet)
        self._domains = {domain for (domain,) in self.kb.columns("domain")}

    def warm(self) -> None:
        """Load what requests need, such as the finder's names, so that the first one does not wait."""
        first = self.kb.entities[0]
        twice, n = f"{first.name} {first.name}", len(first.name)
        self.explain(Text(text=twice, domain=first.domain))
        self.link(Text(text=twice, domain=first.domain, spans=[[0, n], [n + 1, n]]))

    def link(
        self, body: Text | list[Text], *, collective: bool = False, candidates: Annotated[int, Field(ge=0, le=100)] = 5
    ) -> list[Any]:
        """Link a text, or each text of a list; return a list of links for a text, and a list of these for a list.

        Texts of a list are linked each alone, or together if ``collective``, so that their mentions help each other.
        Up to ``candidates`` nearest entities are returned with each link, at most those of the configuration.
        """
        _, linked = self._linked(body, collective=collective)
        answers = [[self._answer(link, candidates) for link in links] for links in linked]
        return answers if isinstance(body, list) else answers[0]

    def explain(self, body: Text) -> list[Answer]:
        """Explain the decision on each mention of one text, see `arbo.Result.explain`."""
        result, (links,) = self._linked(body)
        both = ((link, result.explain(link)) for link in links)
        return [json_ready(asdict(why) | _place(link) | {"explanation": why.text}) for link, why in both]

    def entity(self, *, id: str) -> Answer:  # noqa: A002
        """Return the entity with this id or alternative id, with the keys of arbo's JSON lines."""
        if id not in self.kb:
            raise Refused(f"no entity has the id or alternative id {id!r:.100}", 404)
        return dict(json_ready(json.loads(entity_line(self.kb[id]))))

    def search(self, *, q: str, limit: Limit = 10) -> list[Answer]:
        """Return the entities whose names are nearest to ``q``, nearest first, with scores above 0."""
        near = ((self.kb.entities[row], score) for row, score in self.nearest([q], limit)[0] if score > 0)
        return [{"id": one.id, "name": one.name, "types": list(one.types), "score": score} for one, score in near]

    def health(self) -> Answer:
        """Return the version of arbo, and the number of entities and the fingerprint of the knowledge base."""
        return {
            "status": "ok",
            "version": version("arbo"),
            "entities": len(self.kb),
            "knowledge_base": self.kb.fingerprint,
            "encoder": self.linker.encoder.settings.get("encoder"),
        }

    def nearest(self, names: Sequence[str], k: int) -> list[list[tuple[int, float]]]:
        """Return the rows and scores of the ``k`` entities nearest to each name, of all domains and types.

        Nothing is near a blank name.
        """
        for name in names:
            check_text(name, "a name")
        near = self.undivided.candidates(names, k)
        both = zip(near.entities.tolist(), near.scores.tolist(), strict=True)
        return [[one for one in zip(*of_name, strict=True) if one[0] >= 0] for of_name in both]

    def _answer(self, link: Link, most: int) -> Answer:
        near = [{"id": id_, "name": self.kb[id_].name, "score": score} for id_, score in link.candidates[:most]]
        values = {"name": link.entity_name, "score": link.score, "cluster": link.cluster, "candidates": near}
        return _place(link) | values

    def _linked(self, body: Text | list[Text], *, collective: bool = False) -> tuple[Result, list[list[Link]]]:
        """Link the mentions of texts, finding them where there are no spans; return also the links of each text."""
        texts = body if isinstance(body, list) else [body]
        self.limits.check("texts", len(texts), "texts")
        spans = [span for text in texts for span in text.spans or ()]
        self.limits.check("mentions", len(spans), "spans")
        # A mention keeps the text of its span, and spans may overlap.
        self.limits.check("body", sum(max(length, 0) for _, length in spans), "characters in its spans")
        documents, end = list[Document](), monotonic() + self.limits.seconds
        for number, text in enumerate(texts, 1):
            what = f"a span [start, length] of text {number}"
            marked = [Marked((span_inside(start, start + n, text.text, what),)) for start, n in text.spans or ()]
            document = marked_document(str(number), text.text, marked, text.domain)
            documents += find_mentions(self.finder, [document], self.kb) if text.spans is None else [document]
            if monotonic() > end:
                raise Refused(f"the texts take more than {self.limits.seconds} seconds; send fewer at a time")
        self.limits.check("mentions", sum(len(one.mentions) for one in documents), "mentions")
        for one in documents:
            if one.mentions and one.domain not in self._domains:
                raise UsageError(f"no entity is in the domain {one.domain!r:.60} of text {one.id}; correct it")
        linker = self.linker.configured(config=replace(self.linker.config, per_document=not collective))
        result = linker.link(documents)
        links = iter(result.links)
        return result, [[next(links) for _ in one.mentions] for one in documents]


def _place(link: Link) -> Answer:
    return {"start": link.mention.start, "end": link.mention.end, "text": link.mention.text, "id": link.entity}

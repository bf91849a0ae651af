"""The bodies of requests and answers as models, of which the OpenAPI document is made; errors never quote a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StrictFloat, StrictInt, TypeAdapter, ValidationError
from pydantic_core import from_json

from arbo.errors import DataError, UsageError

Model = TypeVar("Model")
Answer = dict[str, Any]
Limit = Annotated[int, Field(ge=1, le=100, description="Number of results.")]
_SPANS = "Start and length of each mention, in Unicode code points; without them, mentions are found."
Span = Annotated[list[StrictInt], Field(min_length=2, max_length=2)]


class Refused(UsageError):  # noqa: N818
    """A request that gets another status of HTTP than 400, by default that of a request beyond a limit."""

    def __init__(self, message: str, status: int = 413) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of requests; a request beyond one gets a status of 4xx."""

    body: int = 2_000_000
    """Bytes of a body, and characters in the spans of its mentions, which may overlap."""
    texts: int = 100
    """Texts, or queries, of one request."""
    mentions: int = 5_000
    """Mentions of all texts of one request, given or found."""
    seconds: int = 30
    """Seconds for a body to arrive, for a request to wait for its turn, and for its texts to be linked."""

    def check(self, name: str, number: int, what: str) -> None:
        """Raise Refused if a number exceeds the limit ``name``."""
        if number > (most := getattr(self, name)):
            raise Refused(f"the request has {number:,} {what}, but at most {most:,} are allowed; send fewer at a time")


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


class Error(BaseModel):
    """A sentence that says what is wrong with a request."""

    error: str


class Property(BaseModel, extra="forbid"):
    """A property of a reconciliation query, with one value or several."""

    pid: str
    v: Any


class Query(BaseModel, extra="forbid"):
    """A reconciliation query."""

    query: str = ""
    type: str | list[str] = []
    type_strict: Literal["any", "should", "all"] = "should"
    limit: StrictInt | StrictFloat = 5
    properties: list[Property] = []


class PropertyId(BaseModel):
    """A property to extend data by."""

    id: str


class Extension(BaseModel, extra="forbid"):
    """A data extension query."""

    ids: list[str]
    properties: list[PropertyId]


def parsed(text: bytes | str) -> Any:
    """Parse JSON in UTF-8; raise DataError for anything else, such as NaN, half of a surrogate pair, or deep nesting.

    >>> parsed(b'{"text": "flu"}')
    {'text': 'flu'}
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DataError(f"the body is not JSON: {error}") from None


def checked(kind: type[Model], text: str, what: str) -> Model:
    """Parse JSON as a model; raise DataError for another shape, and as `parsed` does."""
    try:
        return TypeAdapter(kind).validate_python(parsed(text))
    except ValidationError as error:
        raise DataError(f"{what}: {sentence(error.errors(include_input=False, include_url=False))}") from None


def sentence(errors: Sequence[Any]) -> str:
    """Say where the most deeply nested error is, and what is wrong there."""
    error = max(errors, key=lambda one: len(one["loc"]))
    place = ".".join(str(name) for name in error["loc"])
    return f"{place:.100}: {error['msg']}" if place else str(error["msg"])

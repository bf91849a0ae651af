"""The bodies of requests and the answers, as models; the OpenAPI document is made of them, and errors quote no text."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StrictFloat, StrictInt, TypeAdapter, ValidationError

from arbo.errors import DataError

Model = TypeVar("Model")
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


def checked(kind: type[Model], value: object, what: str) -> Model:
    """Return JSON as a model; raise DataError for another shape."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise DataError(f"{what}: {sentence(error.errors(include_input=False, include_url=False))}") from None


def sentence(errors: Sequence[Any]) -> str:
    """Say where the most deeply nested error is, and what is wrong there."""
    error = max(errors, key=lambda one: len(one["loc"]))
    place = ".".join(str(name) for name in error["loc"])
    return f"{place:.100}: {error['msg']}" if place else str(error["msg"])

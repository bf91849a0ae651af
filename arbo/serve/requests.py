"""Read the bodies of requests: texts with spans, and PubAnnotation documents; errors never quote a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arbo.data import Document, Marked
from arbo.data.documents import marked_document, span_inside
from arbo.data.fields import Convert, any_list, fields, or_null, string, string_or_null
from arbo.data.objects import parse
from arbo.errors import DataError, UsageError
from arbo.formats.pubannotation import spans_of
from arbo.text.checks import Span, check_text

Given = tuple[Document, bool]
"""A document, and whether its mentions are given."""


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


def parsed(text: bytes | str) -> Any:
    """Parse JSON in UTF-8; raise DataError for NaN, infinity, and strings that `check_text` refuses.

    >>> parsed(b'{"text": "flu"}')
    {'text': 'flu'}
    """
    try:
        value = parse(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"the body is not UTF-8 (byte {error.start}); encode it as UTF-8") from None
    except DataError as error:
        raise DataError(error.problem.removesuffix("; write each object on one line")) from None
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            check_text(item, "a string of the body")
        elif isinstance(item, float) and item - item != 0:
            raise DataError("the body has a number that is NaN or too large")
        elif isinstance(item, list):
            rest += item
        elif isinstance(item, dict):
            rest += [*item, *item.values()]
    return value


def value_of(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    """Return the value of a parameter in an address, as its JSON schema wants it; raise UsageError for another."""
    message = f"the parameter {name!r} must"
    if schema.get("type") == "boolean":
        if text not in ("true", "false"):
            raise UsageError(f"{message} be true or false")
        return text == "true"
    if schema.get("type") == "integer":
        least, most = schema["minimum"], schema["maximum"]
        if not (text.isascii() and text.isdecimal() and len(text) < 13 and least <= int(text) <= most):
            raise UsageError(f"{message} be a number from {least} to {most}")
        return int(text)
    if text not in schema.get("enum", (text,)):
        raise UsageError(f"{message} be one of {', '.join(schema['enum'])}")
    if len(text) > schema.get("maxLength", len(text)):
        raise UsageError(f"{message} have at most {schema['maxLength']:,} characters")
    return text


def only(record: object, what: str, known: Mapping[str, Convert], *required: str) -> dict[str, Any]:
    """Check a JSON object as `fields` does; raise DataError for an unknown key."""
    values = fields(record, what, known, required=required)
    if unknown := next(iter(values.pop("metadata")), None):
        raise DataError(f"unknown key {unknown!r:.60} of {what}; known are {', '.join(known)}")
    return values


def texts_of(body: object, limits: Limits) -> list[Given]:
    """Return the documents of a body, one object or a list; their ids are their numbers, from 1."""
    records = body if isinstance(body, list) else [body]
    limits.check("texts", len(records), "texts")
    read = [_text(record, number) for number, record in enumerate(records, 1)]
    _check_spans([one for _, _, marked in read for one in marked or ()], limits)
    return [
        (replace(marked_document(str(number), text, marked or ()), domain=domain), marked is not None)
        for number, (text, domain, marked) in enumerate(read, 1)
    ]


def _text(record: object, number: int) -> tuple[str, str | None, list[Marked] | None]:
    known: dict[str, Convert] = {"text": string, "spans": or_null(any_list), "domain": string_or_null}
    values = only(record, f"text {number}", known, "text")
    text, spans = values["text"], values.get("spans")
    marked: list[Marked] = [((_span(span, text, number),), None, None) for span in spans or ()]
    return text, values.get("domain"), None if spans is None else marked


def _check_spans(marked: Sequence[Marked], limits: Limits) -> None:
    """Raise Refused for too many spans, or if their texts, which a mention keeps, are longer than a body may be."""
    limits.check("mentions", len(marked), "spans")
    limits.check("body", sum(end - start for spans, *_ in marked for start, end in spans), "characters in its spans")


def _span(given: object, text: str, number: int) -> Span:
    pair = given if isinstance(given, list) and len(given) == 2 else [None]
    whole = all(type(offset) is int for offset in pair)
    return span_inside(pair[0], sum(pair) if whole else None, text, f"a span [start, length] of text {number}")


def annotated_text(body: object, limits: Limits) -> Given:
    """Return the document of a PubAnnotation object; keys besides its text and denotations are not read."""
    values = fields(body, "a PubAnnotation document", {"text": string, "denotations": any_list}, required=("text",))
    given = values.get("denotations")
    limits.check("mentions", len(given or ()), "denotations")
    marked: list[Marked] = [(*spans_of(one, values["text"])[:2], None) for one in given or ()]
    _check_spans(marked, limits)
    return marked_document("1", values["text"], marked), given is not None

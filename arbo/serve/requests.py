"""Read the bodies of requests: JSON, texts with spans, and PubAnnotation documents; errors never quote a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from arbo.data import Document, Marked
from arbo.data.documents import marked_document, span_inside
from arbo.data.fields import any_list, fields, string
from arbo.data.objects import parse
from arbo.errors import DataError, UsageError
from arbo.formats.pubannotation import spans_of
from arbo.text.checks import check_text

_DEEPEST = 100
"""Levels of lists and objects in a body."""


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
    """Parse JSON in UTF-8; raise DataError for NaN, infinity, deep nesting, and strings that `check_text` refuses.

    >>> parsed(b'{"text": "flu"}')
    {'text': 'flu'}
    """
    try:
        value = parse(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"the body is not UTF-8 (byte {error.start}); encode it as UTF-8") from None
    except DataError as error:
        raise DataError(error.problem.removesuffix("; write each object on one line")) from None
    level, depth = [value], 0
    while level:
        for item in level:
            if isinstance(item, str):
                check_text(item, "a string of the body")
            elif isinstance(item, float) and item - item != 0:
                raise DataError("the body has a number that is NaN or too large")
        several = (item for item in level if isinstance(item, (dict, list)))
        level = [inner for item in several for inner in (item if isinstance(item, list) else [*item, *item.values()])]
        if (depth := depth + 1) > _DEEPEST:
            raise DataError(f"the body is nested more than {_DEEPEST} levels deep")
    return value


def text_document(number: int, text: str, pairs: Sequence[Sequence[int]], domain: str | None) -> Document:
    """Return the document of a text; its id is its number, and ``pairs`` are the start and length of its mentions."""
    what = f"a span [start, length] of text {number}"
    marked: list[Marked] = [((span_inside(start, start + n, text, what),), None, None) for start, n in pairs]
    return replace(marked_document(str(number), text, marked), domain=domain)


def annotated_document(body: object, limits: Limits) -> tuple[Document, bool]:
    """Return the document of a PubAnnotation object, and whether it has denotations; other keys are not read."""
    values = fields(body, "a PubAnnotation document", {"text": string, "denotations": any_list}, required=("text",))
    denotations = values.get("denotations")
    limits.check("mentions", len(denotations or ()), "denotations")
    marked: list[Marked] = [(*spans_of(one, values["text"])[:2], None) for one in denotations or ()]
    limits.check("body", sum(end - start for spans, *_ in marked for start, end in spans), "characters in its spans")
    return marked_document("1", values["text"], marked), denotations is not None

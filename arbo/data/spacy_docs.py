"""Documents of spaCy as documents of arbo.

The entities of a `Doc`, or the spans of one of its span groups, are mentions: the label is the type, and the knowledge
base id the gold id, if there is one. The id ``NIL`` means an entity that is in no knowledge base, as in spaCy.
"""

from collections.abc import Iterable
from typing import Any

from arbo.data.documents import Document, Marked, marked_document

NIL = "NIL"


def is_doc(item: Any) -> bool:
    """Return whether an object is a `Doc`; spaCy is not loaded for it."""
    return hasattr(item, "ents") and hasattr(item, "user_data")


def document_of_doc(id_: str, doc: Any, spans_key: str | None = None) -> Document:
    """Make a document from a `Doc`; the mentions are its entities or, by ``spans_key``, a span group, if it has it."""
    return marked_document(id_, doc.text, [_marked(span) for span in spans_of(doc, spans_key)])


def spans_of(doc: Any, spans_key: str | None) -> Iterable[Any]:
    """Return the entities of a `Doc`, or the spans of a span group except empty ones."""
    return (span for span in (doc.ents if spans_key is None else doc.spans.get(spans_key, ())) if len(span))


def docs_in(bin_: Any) -> list[Any]:
    """Return the `Doc`s of a `DocBin`."""
    from spacy.vocab import Vocab  # whoever has a `DocBin` has spaCy

    return list(bin_.get_docs(Vocab()))


def _marked(span: Any) -> Marked:
    known = span.kb_id_.strip()
    gold = None if not known else () if known == NIL else (known,)
    return Marked(((span.start_char, span.end_char),), span.label_ or None, gold)

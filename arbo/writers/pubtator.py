"""Write PubTator (see `arbo.readers.pubtator`).

Documents do not mark their titles, so the first sentence or line, whichever is shorter, becomes the title. Offsets do
not depend on this.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from arbo.data import Document
from arbo.files import PathLike, write_lines
from arbo.text.sentences import lines, sentences
from arbo.writers.lines import check_id, hull, one_line

_DOCUMENT_ID = re.compile(r"[^|\t\r\n\ufeff]+")
_ID = re.compile(r"(?!-1$)[^|+\s]([^|+\t\r\n]*[^|+\s])?")


def write_pubtator(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write a PubTator file; `|` joins acceptable ids, and `-1` is NIL. Raise DataError for an id that does not fit."""
    notes: Counter[str] = Counter()
    write_lines((line for document in documents for line in _block(document, notes)), path)
    return notes


def _block(document: Document, notes: Counter[str]) -> Iterator[str]:
    name, text = check_id(document.id, _DOCUMENT_ID, of=document.id), one_line(document.text)
    notes["texts whose tabs and line ends became blanks"] += text != document.text
    ends = (pieces[:1, 1].tolist() for pieces in (sentences(document.text), lines(document.text)))
    end = min(chain(*ends), default=0)
    title, abstract = (text[:end], text[end + 1 :]) if text[end : end + 1] == " " else (text, "")
    notes["texts that got a blank at their end"] += title == text
    yield f"{name}|t|{title}"
    yield f"{name}|a|{abstract}"
    for mention in document.mentions:
        start, end = hull(mention, notes)
        ids = "|".join(check_id(id_, _ID, of=mention.id) for id_ in mention.gold or ()) or "-1"
        kind = one_line(mention.type or "")
        notes["types whose tabs and line ends became blanks, and empty ones"] += (kind or None) != mention.type
        columns = [name, str(start), str(end), text[start:end], kind]
        yield "\t".join(columns + [ids] * (mention.gold is not None))
    yield ""

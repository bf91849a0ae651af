"""Read plain text: each file is a document without mentions, and its name without the ending is the document id.

`arbo.spans` finds mentions in such documents. Offsets count the code points of the file; a line end of two characters
counts as two.
"""

from pathlib import Path

from arbo.data import Corpus, Document, OnError, Records
from arbo.formats.files import Paths, Piece, read_items, read_text

SUFFIXES = (".txt",)


def read_plain(path: Paths, *, on_error: OnError = "fail") -> Corpus:
    """Read a file, or each `.txt` or `.txt.gz` file of a folder, as a document without mentions."""
    records: Records[Document] = Records("documents", on_error)
    return Corpus(read_items(path, SUFFIXES, lambda file, _: [Piece(None, file)], _document, records))


def _document(piece: Piece, records: Records[Document]) -> Document:
    file = Path(piece.file)
    name = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
    text = read_text(file)
    records.notes["empty texts"] += not text.strip()
    return Document(name[:-4] if name.lower().endswith(SUFFIXES) else name, text)

"""Read plain text: each file is a document without mentions, and its name without the ending is the document id.

`arbo.spans` finds mentions in such documents. Offsets count the code points of the file; a line end of two characters
counts as two.
"""

import re
from pathlib import Path

from arbo.data import Document, Records
from arbo.formats.files import Piece, read_text

SUFFIXES = (".txt",)


def pieces(file: Path, _: object) -> list[Piece]:
    """Return the file as the only piece."""
    return [Piece(None, file)]


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of a file."""
    file = Path(piece.file)
    text = read_text(file)
    records.notes["empty texts"] += not text.strip()
    return Document(re.sub(r"(\.txt)?(\.gz)?\Z", "", file.name, flags=re.I), text)

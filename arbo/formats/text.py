"""Read plain text: each file is a document without mentions, and its name without the ending is the document id.

`arbo.spans` finds mentions in such documents. Offsets count the code points of the file; a line end of two characters
counts as two.
"""

from arbo.data import Corpus, Document, DocumentRecords, OnError
from arbo.files import PathLike
from arbo.formats.files import data_files, read_text

SUFFIXES = (".txt",)


def read_plain(path: PathLike, *, on_error: OnError = "fail") -> Corpus:
    """Read a file, or each `.txt` or `.txt.gz` file of a folder, as a document without mentions."""
    records = DocumentRecords(on_error)
    for file in data_files(path, SUFFIXES):
        with records.record(file):
            name = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
            name = name[:-4] if name.lower().endswith(SUFFIXES) else name
            text = read_text(file)
            records.notes["empty texts"] += not text.strip()
            records.add(Document(name, text), file)
    return Corpus(records)

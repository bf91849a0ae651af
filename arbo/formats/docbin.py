"""Read files of spaCy (``.spacy``): documents that `DocBin.to_disk` wrote.

The entities are the mentions, see `arbo.data.spacy_docs`. The id of a document is the name of the file without its
ending, and its number in the file, from 0. Such files hold no code.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

from arbo.data import Document
from arbo.data.spacy_docs import docs_in, document_of_doc
from arbo.errors import DataError, MissingDependency
from arbo.formats.files import LARGEST_ARCHIVE, Piece

SUFFIXES = (".spacy",)


def pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the documents of spaCy in a file; raise MissingDependency if spaCy is not installed."""
    try:
        from spacy.tokens import DocBin
    except ImportError:
        raise MissingDependency("reading files of spaCy", extra="spacy") from None
    try:
        if len(zlib.decompressobj().decompress(data := file.read_bytes(), LARGEST_ARCHIVE + 1)) > LARGEST_ARCHIVE:
            problem = f"the file unpacks to more than {LARGEST_ARCHIVE >> 20} MiB; write several smaller ones"
            raise DataError(problem, file=str(file))
        docs = docs_in(DocBin().from_bytes(data))
    except DataError:
        raise
    except Exception as error:  # zlib, msgpack and spaCy let any error of their parts through
        raise DataError(f"not a file of spaCy ({error}); write one with DocBin.to_disk", file=str(file)) from None
    return (Piece(doc, file, None, f"{file.stem}:{number}") for number, doc in enumerate(docs))


def document(piece: Piece, _: object) -> Document:
    """Make a document of one of spaCy."""
    return document_of_doc(piece.name, piece.content)

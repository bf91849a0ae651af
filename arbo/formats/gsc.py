"""Read GSC+: phenotype mentions in abstracts, with one block for each document and a blank line between blocks.

    11312426
    Nevoid basal cell carcinoma syndrome ...
    7 <tab> 27 <tab> basal cell carcinoma <tab> HP:0002671

A block has the document id, the text on one line, and a line for each mention: start, end, text, and one id of the
Human Phenotype Ontology. The text must be that at the offsets, but for white space. Mentions may nest, without types.
"""

from arbo.data import Document, Marked, Records, compare, marked_document, span_between
from arbo.errors import DataError
from arbo.formats.files import Piece, blocks as pieces  # noqa: F401

SUFFIXES = (".tsv",)


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of a block."""
    block = piece.content
    document_id = block[0][1].strip()
    if "\t" in document_id or len(block) < 2:
        raise DataError("expected a document id, its text on the next line, then its mentions", id=document_id[:60])
    text = block[1][1]
    mentions = []
    for number, line in block[2:]:
        with records.record(piece.file, number, kind="lines"):
            columns = line.split("\t")
            if len(columns) != 4 or not columns[3].strip():
                form = "a mention needs 4 tab-separated columns (start, end, text, concept id), none of them empty"
                raise DataError(f"{form}, but this line has {len(columns)}", id=document_id)
            start, end, surface, concept = columns
            span = span_between(start, end, text, of=document_id)
            compare(surface, (span,), text, records.notes, of=document_id)
            mentions.append(Marked((span,), gold=(concept.strip(),)))
    return marked_document(document_id, text, mentions)

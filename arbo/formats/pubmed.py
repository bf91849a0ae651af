"""Read abstracts as PubMed saves them: XML (`PubmedArticle`), or lines of MEDLINE (`.nbib`); they have no mentions.

    PMID- 20301427
    TI  - Marsh fever in birds.
    AB  - AIM: To count petrels
          by night.

The document id is the PMID. The text is the title and, on the next line, the abstract; its parts keep their labels.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from arbo.data import Document, Records
from arbo.errors import DataError
from arbo.formats.files import Piece, blocks, read_head, xml_elements

SUFFIXES = (".xml", ".nbib", ".txt")
_TAG = re.compile(r"([A-Z]{2,4}) *-(?: |\Z)")


def pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield id, title and abstract of each article."""
    if "<PubmedArticle" in read_head(file):
        yield from (Piece(_fields(one), file) for one in xml_elements(file, "PubmedArticle", "PubmedBookArticle"))
        return
    for block in blocks(file, None, lambda line: line.startswith("PMID")):
        fields, tag = dict.fromkeys(("PMID", "TI", "AB"), ""), ""
        for _number, line in block.content:
            found = _TAG.match(line)
            tag = found[1] if found else tag
            if tag in fields:
                fields[tag] = f"{fields[tag]} {line[found.end() :] if found else line.strip()}".strip()
        yield block._replace(content=tuple(fields.values()))


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of an article."""
    id_, title, abstract = piece.content
    if not id_:
        raise DataError("an article has no PMID")
    records.notes["articles without an abstract"] += not abstract
    return Document(id_, "\n".join(filter(None, (title, abstract))))


def _fields(article: Element) -> tuple[str, ...]:
    def text(element: Element) -> str:
        label = f"{element.get('Label')}: " if element.get("Label") else ""
        return label + " ".join("".join(element.itertext()).split())

    paths = ("*/PMID", ".//ArticleTitle", ".//Abstract/AbstractText")
    return tuple(" ".join(map(text, article.iterfind(path))) for path in paths)

"""Read SKOS vocabularies, as Turtle, N-Triples or RDF/XML: each concept that is not deprecated is an entity.

- The id of an entity is the address of its concept, of an ontology of OBO the short id (`HP:0001250`). Its `notation`,
  and the address shortened by a prefix of the file (`ex:c1`), are alternative ids; `exactMatch` gives xrefs.
- The name is the `prefLabel` in English, else that without a language, else that of the first language by its tag.
  Other labels, `altLabel` and `hiddenLabel` of all languages are aliases. `language="fr"` keeps labels and definitions
  in French or without a language, and counts concepts without a name in it, which are left out.
- Types are other classes of the concept. `broader` concepts are kept as metadata.
- Concepts are of the class `skos:Concept` or a subclass. If the file has none of these, all with a `prefLabel` are
  concepts, except those of other classes of SKOS, and properties. So are those without a class. Others with a
  `prefLabel`, such as collections, are left out and counted, and so are concepts without an address.
- If a deprecated concept (`owl:deprecated`) names one replacement (`dcterms:isReplacedBy`), its ids become alternative
  ids of the concept that replaces it.

The entities are sorted by their addresses; relative ones stay as they are. Nothing is fetched from the network.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError, MissingDependency
from arbo.formats.files import Paths, Piece, check_entities, read_text
from arbo.formats.ontologies import Obsolete, is_true, read_entities as read_ontology, short_id

try:
    import rdflib
    from rdflib import DCTERMS, OWL, RDF, RDFS, SKOS, BNode
except ImportError:
    raise MissingDependency("reading RDF", extra="rdf") from None

SUFFIXES = (".ttl", ".nt", ".rdf", ".skos", ".xml")

_OTHER_KINDS = ("Property", "#Ontology")
_LABELS = ("prefLabel", "altLabel", "hiddenLabel")
_BASE = "http://relative.invalid/"
"""Where relative addresses lead while a file is parsed."""


def read_entities(path: Paths, *, language: str | None = None, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a file, or all files of a folder with one of `SUFFIXES`.

    ``language``, a tag such as ``"fr"``, leaves out labels and definitions in other languages. Raise DataError for a
    malformed file. The import of this module raises MissingDependency if rdflib is not installed.
    """
    return read_ontology(path, SUFFIXES, _subjects, partial(_entity, language=language), on_error)


def _subjects(file: Path, records: Records[Entity]) -> Iterator[Piece]:
    graph = _graph(file)
    classes = {SKOS.Concept, *graph.subjects(RDFS.subClassOf, SKOS.Concept)}
    is_blank = [isinstance(one, BNode) for kind in classes for one in graph.subjects(RDF.type, kind)]
    records.notes["concepts without an address left out"] += sum(is_blank)
    begins = ((_written(iri), name) for name, iri in graph.namespaces() if name)
    prefixes = sorted((one for one in begins if one[0]), key=lambda one: -len(one[0]))

    def short(iri: str) -> str:
        rests = ((name, iri.removeprefix(begin)) for begin, name in prefixes if iri.startswith(begin))
        name, rest = next(rests, ("", ""))
        return f"{name}:{rest}" if re.fullmatch(r"[^/#\s]+", rest) else short_id(iri)

    content = graph, short, set[str]() if all(is_blank) else {*map(_written, classes)}
    subjects = {one for one in graph.subjects() if not isinstance(one, BNode)}
    return (Piece((one, *content), file) for one in sorted(subjects, key=_written))


def _graph(file: Path) -> Any:
    """Return the graph of rdflib in a file; raise DataError if it is malformed."""
    text = re.sub(r"\A\s*<\?xml[^>]*>", "", read_text(file, limited=True))  # it is no longer in another encoding
    check_entities(text, file)
    graph = rdflib.Graph(bind_namespaces="none")
    try:
        is_xml = re.match(r"\s*<([!?]|(\w+:)?RDF[\s>])", text)
        with _as_written():
            return graph.parse(data=text, format="xml" if is_xml else "turtle", publicID=_BASE)
    except Exception as error:  # rdflib and its parsers raise errors of any kind
        line = error.lines + 1 if hasattr(error, "lines") else getattr(error, "getLineNumber", lambda: None)()
        said = re.search(r"Bad syntax \(([^)]*)\)", str(error))
        reason = (said and said[1]) or type(error).__name__
        raise DataError(f"not RDF ({reason:.100}); correct the file", file=str(file), line=line) from None


def _written(node: Any) -> str:
    """Return a literal or an address as it is written."""
    return str(node).removeprefix(_BASE)


@contextmanager
def _as_written() -> Iterator[None]:
    """Keep literals as they are written, such as the number 01, and let rdflib log no tracebacks of invalid ones."""
    logger = logging.getLogger("rdflib.term")
    before = rdflib.NORMALIZE_LITERALS, logger.disabled
    rdflib.NORMALIZE_LITERALS, logger.disabled = False, True
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS, logger.disabled = before


def _entity(piece: Piece, records: Records[Entity], language: str | None) -> Entity | Obsolete | None:
    """Return the entity of a subject, if it is a concept with a name in the language."""
    (node, graph, short, classes), notes = piece.content, records.notes

    def values(name: Any) -> list[Any]:
        return [value for value in graph.objects(node, name) if not isinstance(value, BNode)]

    def ids(name: Any, shortened: Any = short) -> tuple[str, ...]:
        return tuple(sorted({shortened(_written(value)) for value in values(name)}))

    def texts(name: Any) -> list[str]:
        given = ((one, isinstance(one, BNode) or (one, None, None) in graph) for one in graph.objects(node, name))
        texts = (graph.objects(one, RDF.value) if has_value else [one] for one, has_value in given)
        return _chosen(chain.from_iterable(texts), language)

    kinds = {*map(_written, values(RDF.type))}
    if kinds.isdisjoint(classes):
        if not values(SKOS.prefLabel):
            return None
        if (kinds and classes) or any(kind.startswith(str(SKOS)) or kind.endswith(_OTHER_KINDS) for kind in kinds):
            notes["items with a label that are not concepts left out"] += 1
            return None
    iri = _written(node)
    term_id = short_id(iri)
    others = tuple(dict.fromkeys(id_ for id_ in (*ids(SKOS.notation), short(iri)) if id_ != term_id))
    labels = [*dict.fromkeys(label for name in _LABELS for label in texts(SKOS[name]))]
    if any(map(is_true, values(OWL.deprecated))):
        return Obsolete((term_id, *others), ids(DCTERMS.isReplacedBy, short_id))
    if not labels:
        notes[f"concepts without a name {f'in {language} ' if language else ''}left out"] += 1
        return None
    broader = [*ids(SKOS.broader, short_id)]
    return Entity(
        id=term_id,
        name=labels[0],
        aliases=tuple(labels[1:]),
        definition=next(iter(texts(SKOS.definition)), None),
        types=tuple(sorted(short(kind) for kind in kinds if not kind.startswith((str(SKOS), str(OWL))))),
        alternative_ids=others,
        xrefs=ids(SKOS.exactMatch),
        metadata={"broader": broader} if broader else {},
    )


def _chosen(values: Iterable[Any], language: str | None) -> list[str]:
    """Return the texts of literals and addresses, those in the wanted language first; see `read_entities`."""
    preferred, ranked = (language or "en").lower(), []
    for value in values:
        tag, text = (getattr(value, "language", None) or "").lower(), _written(value)
        rank = 0 if tag == preferred else 1 if tag.startswith(f"{preferred}-") else 2 if not tag else 3
        if text.strip() and (language is None or rank < 3):
            ranked.append((rank, tag, text))
    return [text for *_, text in sorted(ranked)]

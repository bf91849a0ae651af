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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from arbo.data import Entity, KnowledgeBase, OnError, Records
from arbo.errors import DataError, MissingDependency
from arbo.formats.files import Paths, Piece, check_entities, read_text
from arbo.formats.ontologies import Obsolete, is_true, read_entities as read_ontology, short_id

SUFFIXES = (".ttl", ".nt", ".rdf", ".skos", ".xml")

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_OWL = "http://www.w3.org/2002/07/owl#"
_TYPE, _VALUE, _DEPRECATED, _BROADER = f"{_RDF}type", f"{_RDF}value", f"{_OWL}deprecated", f"{_SKOS}broader"
_CONCEPT, _DEFINITION, _PREFERRED = f"{_SKOS}Concept", f"{_SKOS}definition", f"{_SKOS}prefLabel"
_SUBCLASS_OF = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
_OTHER_KINDS = ("Property", "#Ontology")
_BASE = "http://relative.invalid/"
"""Where relative addresses lead while a file is parsed."""
_REPLACED_BY = "http://purl.org/dc/terms/isReplacedBy"
_LABELS = ("prefLabel", "altLabel", "hiddenLabel")
_KEPT = {f"{_SKOS}{name}" for name in (*_LABELS, "definition", "notation", "broader", "exactMatch")}
_KEPT |= {_TYPE, _VALUE, _DEPRECATED, _REPLACED_BY, _SUBCLASS_OF}

Facts = defaultdict[str, list[Any]]
"""The objects of each property of a subject, literals or addresses, in no particular order."""


def read_entities(path: Paths, *, language: str | None = None, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a file, or all files of a folder with one of `SUFFIXES`.

    ``language``, a tag such as ``"fr"``, leaves out labels and definitions in other languages. Raise MissingDependency
    if rdflib is not installed, and DataError for a malformed file.
    """
    try:
        import rdflib  # noqa: F401
    except ImportError:
        raise MissingDependency("reading RDF", extra="rdf") from None
    return read_ontology(path, SUFFIXES, _subjects, partial(_entity, language=language), on_error)


def _subjects(file: Path, records: Records[Entity]) -> Iterator[Piece]:
    facts, short = _facts(file, records)
    classes = {_CONCEPT, *(iri for iri, fact in facts.items() if _CONCEPT in fact[_SUBCLASS_OF])}
    if not any(kind in classes for fact in facts.values() for kind in fact[_TYPE]):
        classes = set()
    return (Piece((iri, facts, short, classes), file) for iri in sorted(facts))


def _facts(file: Path, records: Records[Entity]) -> tuple[dict[str, Facts], Callable[[str], str]]:
    """Return what the file says about each subject, and a function that shortens addresses by the file's prefixes."""
    from rdflib import BNode, Graph, Literal

    text = re.sub(r"\A\s*<\?xml[^>]*>", "", read_text(file, limited=True))  # it is no longer in another encoding
    check_entities(text, file)
    graph = Graph(bind_namespaces="none")
    try:
        is_xml = re.match(r"\s*<([!?]|(\w+:)?RDF[\s>])", text)
        with _as_written():
            graph.parse(data=text, format="xml" if is_xml else "turtle", publicID=_BASE)
    except Exception as error:  # rdflib and its parsers raise errors of any kind
        line = error.lines + 1 if hasattr(error, "lines") else getattr(error, "getLineNumber", lambda: None)()
        said = re.search(r"Bad syntax \(([^)]*)\)", str(error))
        reason = (said and said[1]) or type(error).__name__
        raise DataError(f"not RDF ({reason:.100}); correct the file", file=str(file), line=line) from None
    facts: defaultdict[str, Facts] = defaultdict(lambda: defaultdict(list))
    for subject, name, value in graph:
        # A node without an address holds the text of a definition, and nothing else that is kept.
        allowed = _VALUE if isinstance(subject, BNode) else _DEFINITION if isinstance(value, BNode) else str(name)
        if str(name) in _KEPT and str(name) == allowed:
            object_ = value if isinstance(value, Literal) else str(value).removeprefix(_BASE)
            facts[str(subject).removeprefix(_BASE)][str(name)].append(object_)
        elif str(value) == _CONCEPT and isinstance(subject, BNode):
            records.notes["concepts without an address left out"] += 1
    begins = ((str(iri).removeprefix(_BASE), name) for name, iri in graph.namespaces() if name)
    prefixes = sorted(filter(itemgetter(0), begins), key=lambda one: -len(one[0]))

    def short(iri: str) -> str:
        rests = ((name, iri.removeprefix(begin)) for begin, name in prefixes if iri.startswith(begin))
        name, rest = next(rests, ("", ""))
        return f"{name}:{rest}" if re.fullmatch(r"[^/#\s]+", rest) else short_id(iri)

    return facts, short


@contextmanager
def _as_written() -> Iterator[None]:
    """Keep literals as they are written, such as the number 01, and let rdflib log no tracebacks of invalid ones."""
    import rdflib

    logger = logging.getLogger("rdflib.term")
    before = rdflib.NORMALIZE_LITERALS, logger.disabled
    rdflib.NORMALIZE_LITERALS, logger.disabled = False, True
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS, logger.disabled = before


def _entity(piece: Piece, records: Records[Entity], language: str | None) -> Entity | Obsolete | None:
    """Return the entity of a subject, if it is a concept with a name in the language."""
    from rdflib import Literal

    iri, facts, short, classes = piece.content
    concept, notes = facts[iri], records.notes
    kinds = set(concept[_TYPE])
    if kinds.isdisjoint(classes):
        if not concept[_PREFERRED]:
            return None
        if (kinds and classes) or any(kind.startswith(_SKOS) or kind.endswith(_OTHER_KINDS) for kind in kinds):
            notes["items with a label that are not concepts left out"] += 1
            return None

    def ids(name: str) -> tuple[str, ...]:
        return tuple(sorted({short(str(value)) for value in concept[name]}))

    def texts(name: str) -> list[str]:
        values = (
            one
            for value in concept[f"{_SKOS}{name}"]
            for one in ([value] if isinstance(value, Literal) else facts.get(str(value), {_VALUE: [value]})[_VALUE])
        )
        return _chosen(values, language)

    term_id = short_id(iri)
    others = tuple(dict.fromkeys(id_ for id_ in (*ids(f"{_SKOS}notation"), short(iri)) if id_ != term_id))
    labels = [*dict.fromkeys(label for name in _LABELS for label in texts(name))]
    if any(map(is_true, concept[_DEPRECATED])):
        return Obsolete((term_id, *others), tuple(short_id(str(value)) for value in concept[_REPLACED_BY]))
    if not labels:
        notes[f"concepts without a name {f'in {language} ' if language else ''}left out"] += 1
    else:
        broader = sorted(short_id(str(value)) for value in concept[_BROADER])
        return Entity(
            id=term_id,
            name=labels[0],
            aliases=tuple(labels[1:]),
            definition=next(iter(texts("definition")), None),
            types=tuple(sorted(short(kind) for kind in kinds if not kind.startswith((_SKOS, _OWL)))),
            alternative_ids=others,
            xrefs=ids(f"{_SKOS}exactMatch"),
            metadata={"broader": broader} if broader else {},
        )
    return None


def _chosen(values: Iterable[Any], language: str | None) -> list[str]:
    """Return the texts of literals, those in the wanted language first; see `read_entities`."""
    preferred, ranked = (language or "en").lower(), []
    for value in values:
        tag = (getattr(value, "language", None) or "").lower()
        rank = 0 if tag == preferred else 1 if tag.startswith(f"{preferred}-") else 2 if not tag else 3
        if str(value).strip() and (language is None or rank < 3):
            ranked.append((rank, tag, str(value)))
    return [text for *_, text in sorted(ranked)]

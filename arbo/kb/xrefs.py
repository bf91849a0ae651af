"""Use cross-references as alternative ids, so that the gold ids of one vocabulary match the entities of another.

The Disease Ontology writes `MSH:D012345`, while a corpus has `D012345` or `MESH:D012345`. With the prefix `MSH`, the
bare xref and the xref with each spelling of the prefix become alternative ids. An entity's own id takes precedence, and
if several entities have the same xref, each is acceptable as gold (`KnowledgeBase.rows`).
"""

from collections import Counter
from collections.abc import Iterator

from arbo.data import KnowledgeBase
from arbo.errors import UsageError

_SPELLINGS = (("MSH", "MESH", "MeSH"), ("UMLS_CUI", "UMLS"), ("OMIM", "MIM"))
_GROUPS = {spelling.casefold(): group for group in _SPELLINGS for spelling in group}


def through_xrefs(kb: KnowledgeBase, *prefixes: str) -> KnowledgeBase:
    """Return the entities; xrefs with these prefixes become alternative ids, bare and in each spelling of the prefix.

    Raise UsageError if no prefix is given, or a given prefix occurs in no xref.

    >>> from arbo import Entity
    >>> kb = KnowledgeBase([Entity("DOID:8", "flu", xrefs=("MSH:D7251",)), Entity("DOID:9", "cold")])
    >>> view = through_xrefs(kb, "MESH")
    >>> view["D7251"].name, view["MESH:D7251"].name, view["DOID:9"].name
    ('flu', 'flu', 'cold')
    """
    spelt = {prefix: (prefix, *_GROUPS.get(prefix.casefold(), ())) for prefix in prefixes}
    present = Counter(xref.partition(":")[0] for (xrefs,) in kb.columns("xrefs") for xref in xrefs if ":" in xref)
    folded = {prefix.casefold() for prefix in present}
    missing = [prefix for prefix, spellings in spelt.items() if folded.isdisjoint(map(str.casefold, spellings))]
    if missing or not prefixes:
        known = ", ".join(f"{prefix} ({count:,})" for prefix, count in present.most_common(12)) or "none"
        wrong = f"no xref has the prefix {' or '.join(missing)}" if missing else "name at least one prefix"
        raise UsageError(f"{wrong}; the most frequent prefixes of xrefs: {known}")
    forms = {spelling.casefold(): spellings for spellings in spelt.values() for spelling in spellings}
    return kb.with_alternative_ids(_ids(id_, xrefs, forms) for id_, xrefs in kb.columns("id", "xrefs"))


def _ids(id_: str, xrefs: tuple[str, ...], forms: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for xref in xrefs:
        prefix, colon, concept = xref.partition(":")
        spellings = forms.get(prefix.casefold())
        if not (colon and concept.strip() and spellings):
            continue
        for form in (concept, xref, *(f"{spelling}:{concept}" for spelling in spellings)):
            if form != id_:
                yield form

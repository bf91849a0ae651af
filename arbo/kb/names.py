"""Generic names, and the removal of names.

A single-word name is generic if it is the head of the names of many other entities, since texts then use it for any of
these, as in "the disease". The head is the last word, or the last word before the first comma ("Wilson disease",
"Syndrome, Marfan"); words are compared after `normalize_name`. "Many" means at least 8 % of all entities and at least
20. By this rule, ``disease`` and ``syndrome`` are generic in the Disease Ontology (each heads 9 % of its diseases) and
in MEDIC, ``cell`` in the Cell Ontology, and ``site`` in the Sequence Ontology. Not generic are ``carcinoma`` (7 %),
``lymphocyte`` (6 %), and all words of UBERON (``muscle``, 4 %), the Human Phenotype Ontology and MeSH.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.kb.homonyms import Holders, Spellings, holders, spellings
from arbo.text.names import normalize_name

_SHARE, _LEAST = 0.08, 20


def generic_names(kb: KnowledgeBase, names: Spellings | None = None) -> Iterator[Holders]:
    """Yield the generic names (see `arbo.kb.names`) in all their spellings, with the entities that have them."""
    names = spellings(kb) if names is None else names
    headed: defaultdict[str, set[int]] = defaultdict(set)
    for form, written in names.items():
        for name, row in written if " " in form else ():
            first, comma, _ = name.partition(", ")
            headed[(normalize_name(first) if comma else form).rpartition(" ")[2]].add(row)
    for form, written in names.items():
        if len(headed.get(form, set()) - {row for _, row in written}) >= max(_LEAST, _SHARE * len(kb)):
            yield holders(kb, (row for _, row in written), *(name for name, _ in written))


def without_names(kb: KnowledgeBase, names: Iterable[str]) -> KnowledgeBase:
    """Return the entities without these names, in all spellings that are equal after `normalize_name`.

    If an entity loses its preferred name, its first remaining alias becomes its name. An entity without any other name
    is left out, so that its mentions count as NIL. Raise DataError if no entity would keep a name.

    >>> from arbo import Entity
    >>> kb = KnowledgeBase([Entity("D1", "Disease"), Entity("D2", "diseases", aliases=("flu",))])
    >>> [entity.name for entity in without_names(kb, ["disease"])]
    ['flu']
    """
    removed = set(map(normalize_name, [names] if isinstance(names, str) else names))
    left = [[name for name in (own.name, *own.aliases) if normalize_name(name) not in removed] for own in kb]
    if not any(left):
        raise DataError("no entity would keep a name; remove fewer names")
    return kb.changed(
        replace(own, name=kept[0], aliases=tuple(kept[1:])) for own, kept in zip(kb, left, strict=True) if kept
    )

"""Generic names, and the removal of names.

A name of one word is generic if it is the head of the names of many other entities: texts use it for any of these, as
"the disease" for the disease that they are about. The head is the last word, or the last before the first comma
("Wilson disease", "Syndrome, Marfan"); words are compared as `normalize_name` writes them. Many are 8 % of all
entities, and at least 20. By this rule ``disease`` and ``syndrome`` are generic in the Disease Ontology (each heads 9 %
of its diseases) and in MEDIC, ``cell`` in the Cell Ontology and ``site`` in the Sequence Ontology; but neither
``carcinoma`` (7 %) nor ``lymphocyte`` (6 %), nor any word of UBERON (``muscle``, 4 %), of the Human Phenotype Ontology
or of MeSH.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError
from arbo.kb.homonyms import Holders, Spellings, holders
from arbo.text.names import normalize_name

_SHARE, _LEAST = 0.08, 20


def generic_names(kb: KnowledgeBase, names: Spellings) -> Iterator[Holders]:
    """Yield the generic names of a knowledge base, in all their spellings, with the entities that have them."""
    headed: defaultdict[str, set[int]] = defaultdict(set)
    for form, written in names.items():
        words = form.split()
        for name, row in written if len(words) > 1 else ():
            first, comma, _ = name.partition(", ")
            headed[(normalize_name(first) if comma else form).rpartition(" ")[2]].add(row)
    least = max(_LEAST, _SHARE * len(kb))
    for form, written in names.items():
        if len(headed.get(form, set()) - {row for _, row in written}) >= least:
            yield holders(kb, (row for _, row in written), *(name for name, _ in written))


def without_names(kb: KnowledgeBase, names: Iterable[str]) -> KnowledgeBase:
    """Return the entities without these names; see `KnowledgeBase.without_names`."""
    removed = set(map(normalize_name, [names] if isinstance(names, str) else names))
    notes: Counter[str] = Counter()

    def kept() -> Iterator[Entity]:
        for entity in kb:
            every = (entity.name, *entity.aliases)
            left = [name for name in every if normalize_name(name) not in removed]
            notes["names removed"] += len(every) - len(left)
            if left:
                yield replace(entity, name=left[0], aliases=tuple(left[1:]))
            else:
                notes["entities left out: all their names are removed"] += 1

    changed = kb.changed(kept())
    if not len(changed):
        raise DataError("no entity would keep a name; remove fewer names")
    changed.notes.update(+notes)
    return changed

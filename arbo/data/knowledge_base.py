"""Entities and the knowledge base they form."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from arbo.data.entities import Entity
from arbo.data.objects import entity_line
from arbo.data.records import Records
from arbo.data.rows import entities_of, items_of, numbered
from arbo.errors import DataError, UsageError, listed
from arbo.files import PathLike, write_lines

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from arbo.data.columns import Table
    from arbo.data.index_folder import IndexFolder
    from arbo.data.releases import Keys
    from arbo.kb.problems import Problem
    from arbo.kb.stats import KnowledgeBaseStats


_CONTENT = tuple(column.name for column in fields(Entity) if column.compare)


class Names(NamedTuple):
    """The names of all entities: `names[i]` belongs to the entity in row `rows[i]`; rows ascend."""

    names: tuple[str, ...]
    rows: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Names({len(self.names):,} names of {len(set(self.rows)):,} entities)"


# Without slots: `cached_property` keeps the fingerprint in the instance's dictionary.
@dataclass(frozen=True, init=False, repr=False)
class KnowledgeBase:
    """Entities in order, with access by id or alternative id; `notes` counts irregularities of the source.

    The row of an entity is its position. An alternative id never hides an entity's own id. If several entities have the
    same alternative id, indexing returns the first entity and `rows` returns all; `notes` counts the others. A second
    entity with the same id is dropped and counted if its content is equal, and is an error if its content differs.
    Empty aliases are dropped and counted. If the knowledge base is opened from an index, `stored` is the index,
    and an entity is read from its files whenever it is used.

    >>> kb = KnowledgeBase([Entity("D1", "flu", aliases=("influenza", "flu"), alternative_ids=("X9",))])
    >>> kb["X9"].name, kb.index("D1"), "D2" in kb
    ('flu', 0, False)
    >>> kb.names().names, kb.names().rows
    (('flu', 'influenza'), (0, 0))
    """

    entities: Sequence[Entity]
    row_of: Mapping[str, int] = field(compare=False)
    _shared: Mapping[str, tuple[int, ...]] = field(compare=False)
    notes: dict[str, int] = field(compare=False)
    stored: IndexFolder | None = field(compare=False)

    def __init__(self, entities: Iterable[Entity] = (), notes: Mapping[str, int] | None = None) -> None:
        counts = Counter(entities.notes if notes is None and isinstance(entities, Records) else notes)
        distinct = _distinct((_without_empty_aliases(entity, counts) for entity in entities), counts)
        self._set(distinct, *_rows(distinct, counts), dict(counts), None)

    def _set(self, *values: object) -> None:
        for own, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, own.name, value)

    @classmethod
    def of(cls, entities: Iterable[Any]) -> KnowledgeBase:
        """Make a knowledge base from entities, or from rows of a frame or a `Dataset`, see `arbo.data.rows`.

        A knowledge base is returned as it is.
        """
        if isinstance(entities, KnowledgeBase):
            return entities
        items = items_of(entities)
        if items is None:
            remedy = "put a single entity into a list, or choose one split of a DatasetDict"
            if isinstance(entities, (str, os.PathLike)):
                remedy = "read files with arbo.read_knowledge_base(path)"
            kind = type(entities).__name__
            raise UsageError(f"the knowledge base must be a KnowledgeBase, entities or rows, not {kind}; {remedy}")
        if not (items and isinstance(items[0], Mapping)):
            return cls(items)
        return cls(entities_of(numbered(items)))

    @classmethod
    def from_jsonl(cls, path: PathLike) -> KnowledgeBase:
        """Read JSON lines, arbo's own format; see `arbo.formats.jsonl`."""
        from arbo.formats.jsonl import read_entities

        return read_entities(path)

    @classmethod
    def from_obo(cls, path: PathLike) -> KnowledgeBase:
        """Read an ontology in OBO format; see `arbo.formats.obo`."""
        from arbo.formats.obo import read_obo

        return read_obo(path)

    @classmethod
    def from_index(cls, path: PathLike) -> KnowledgeBase:
        """Open an index that `arbo.build_index` or `arbo kb index` wrote; an entity is read whenever it is used.

        Raise DataError if this is no index, a newer arbo wrote it, or a file is missing, cut or damaged at its ends;
        `arbo kb check` checks everything.
        """
        from arbo.data.columns import FirstRows, StoredEntities
        from arbo.data.index_folder import IndexFolder

        stored = IndexFolder.open(path)
        table = stored.table("entities")
        rows, known = stored.rows(table), stored.manifest["kb"]
        kb = cls.__new__(cls)
        kb._set(StoredEntities(table), FirstRows(rows), rows, dict(known["notes"]), stored)
        vars(kb)["fingerprint"] = known["fingerprint"]
        return kb

    def to_jsonl(self, path: PathLike) -> None:
        """Write the knowledge base as JSON lines, which `from_jsonl` reads; see `Corpus.to_jsonl`."""
        write_lines(map(entity_line, self.entities), path)

    def save(self, path: PathLike) -> dict[str, int]:
        """Write a file in the format of its ending; return counts of the values that the format cannot hold.

        See `arbo.kb.saving`.
        """
        from arbo.kb.saving import save

        return save(self, path)

    def index(self, entity_id: str) -> int:
        """Return the row of the first entity with this id or alternative id; raise KeyError if there is none."""
        if entity_id not in self.row_of:
            raise KeyError(f"no entity has the id or alternative id {entity_id!r}")
        return self.row_of[entity_id]

    def rows(self, entity_id: str) -> tuple[int, ...]:
        """Return the row of the entity with this id or, without one, all rows with this alternative id, ascending."""
        if entity_id in self._shared:
            return self._shared[entity_id]
        return (self.row_of[entity_id],) if entity_id in self.row_of else ()

    def rows_within(self, ids: Iterable[str], domain: str | None) -> tuple[int, ...]:
        """Return the distinct rows that `rows` finds for these ids, of entities of the domain, in the order of the ids.

        A mention in this domain with these gold ids means one of these entities, or NIL if there are none.
        """
        rows = dict.fromkeys(row for id_ in ids for row in self.rows(id_))
        return tuple(row for row in rows if self._value(row, "domain") == domain)

    def _value(self, row: int, name: str) -> Any:
        return getattr(self.entities[row], name) if self._table is None else self._table.row(row, name)[0]

    @property
    def _table(self) -> Table | None:
        return getattr(self.entities, "table", None)

    def _in_memory(self) -> KnowledgeBase:
        """Return the same knowledge base with all entities in memory, for methods that look at each several times."""
        return self if self._table is None else self.changed(self.entities)

    def changed(self, entities: Iterable[Entity]) -> KnowledgeBase:
        """Return a knowledge base of these entities, with the notes of this one."""
        # The constructor counts the notes about alternative ids again.
        notes = {note: count for note, count in self.notes.items() if not note.startswith("alternative ids")}
        return KnowledgeBase(entities, notes)

    def of_types(self, types: str | Iterable[str]) -> KnowledgeBase:
        """Return the entities with one of these types; raise UsageError for a type that no entity has."""
        chosen = {types} if isinstance(types, str) else set(types)
        present = {type_ for (own,) in self.columns("types") for type_ in own}
        if missing := sorted(chosen - present):
            known = listed(sorted(present), 12) or "none"
            raise UsageError(f"no entity has the type {', '.join(map(repr, missing))}; types of entities: {known}")
        return self.changed(entity for entity in self if not chosen.isdisjoint(entity.types))

    def through_xrefs(self, *prefixes: str) -> KnowledgeBase:
        """Return the same entities; xrefs with one of these prefixes become alternative ids, see `arbo.kb.xrefs`."""
        from arbo.kb.xrefs import through_xrefs

        return through_xrefs(self, *prefixes)

    def with_names_of(self, documents: Iterable[Any], *, expand_abbreviations: bool = True) -> KnowledgeBase:
        """Return the same entities, with the names of annotated mentions as aliases.

        A name becomes an alias of the entity that it means most often, and is removed from the aliases of all other
        entities of the domain; see `arbo.kb.names`. Raise DataError if no mention has an entity.
        """
        from arbo.data.corpus import Corpus
        from arbo.kb.names import with_names_of

        return with_names_of(self, Corpus.of(documents), expand_abbreviations=expand_abbreviations)

    def without_names(self, names: Iterable[str]) -> KnowledgeBase:
        """Return the entities without these names; an entity that loses all its names is left out.

        Case, plural and punctuation are ignored. See `arbo.kb.names`.
        """
        from arbo.kb.names import without_names

        return without_names(self, names)

    def generic_names(self) -> list[str]:
        """Return single-word names, such as "disease", that head the names of many entities; see `arbo.kb.names`."""
        from arbo.kb.names import generic_names

        return [name for generic in generic_names(self) for name in generic.values]

    def names(self) -> Names:
        """Return the distinct names of each entity: its name first, then its aliases."""
        own = [tuple(dict.fromkeys((name, *aliases))) for name, aliases in self.columns("name", "aliases")]
        rows = chain.from_iterable(repeat(row, len(names)) for row, names in enumerate(own))
        return Names(tuple(chain.from_iterable(own)), tuple(rows))

    def columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some fields of each entity; an index reads only these fields.

        >>> list(KnowledgeBase([Entity("D1", "flu"), Entity("D2", "cold", types=("T047",))]).columns("id", "types"))
        [('D1', ()), ('D2', ('T047',))]
        """
        if self._table is not None:
            return self._table.each(*names)
        return (tuple(getattr(entity, name) for name in names) for entity in self.entities)

    def taken(self, names: Sequence[str], rows: npt.NDArray[np.integer[Any]]) -> list[pa.Array]:
        """Return text fields, such as ``id`` or ``aliases``, of the entities in these rows, as Arrow arrays."""
        import pyarrow as pa

        from arbo.data.arrow import string_lists, strings

        single = ("id", "name", "definition", "domain")
        if self._table is not None:
            kinds = [pa.string() if name in single else pa.list_(pa.string()) for name in names]
            return [own.cast(kind) for own, kind in zip(self._table.taken(names, rows), kinds, strict=True)]
        entities = [self.entities[row] for row in rows.tolist()]
        columns = [(name, [getattr(entity, name) for entity in entities]) for name in names]
        return [strings(own) if name in single else string_lists(own) for name, own in columns]

    def stats(self) -> KnowledgeBaseStats:
        """Count entities, names, definitions, types and ids, and the names that several entities share."""
        from arbo.kb.stats import stats

        return stats(self._in_memory())

    def problems(self, *, examples: int = 3) -> tuple[Problem, ...]:
        """Return the problems, errors first, each with its count, a way to fix it and up to ``examples`` examples."""
        from arbo.kb.problems import problems

        return problems(self._in_memory(), examples=examples)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the entities without metadata, in order, since embeddings refer to entities by row."""
        return self._hashes[0]

    @cached_property
    def keys(self) -> Keys:
        """Hashes of the entities, by which `arbo.data.releases` compares two knowledge bases; an index has them."""
        from arbo.data.releases import Keys

        stored = {} if self.stored is None else self.stored.arrays("keys")
        return Keys(**stored) if stored else self._hashes[1]

    @cached_property
    def _hashes(self) -> tuple[str, Keys]:
        from arbo.data.releases import Keys, digest_of

        digest, ids, contents = hashlib.sha256(), bytearray(), bytearray()
        for values in self.columns(*_CONTENT):
            digest.update(json.dumps(values).encode("ascii") + b"\n")
            ids += digest_of(values[0])
            contents += digest_of(repr(values[1:5] + values[7:]))  # without alternative ids and cross-references
        return digest.hexdigest(), Keys.of(bytes(ids), bytes(contents))

    @cached_property
    def source(self) -> Mapping[str, Any] | None:
        """The file or folder that it was read from (``path``), and how; None if that would not give it again."""
        return None

    def __getitem__(self, entity_id: str) -> Entity:
        return self.entities[self.index(entity_id)]

    def __contains__(self, entity_id: object) -> bool:
        return entity_id in self.row_of

    def __iter__(self) -> Iterator[Entity]:
        return iter(self.entities)

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"KnowledgeBase({len(self.entities)} entities)"


def _without_empty_aliases(entity: Entity, counts: Counter[str]) -> Entity:
    if not isinstance(entity, Entity):
        raise UsageError(f"expected entities, not {type(entity).__name__}; make them from dicts with KnowledgeBase.of")
    named = tuple(alias for alias in entity.aliases if alias.strip())
    if len(named) == len(entity.aliases):
        return entity
    counts["empty aliases dropped"] += len(entity.aliases) - len(named)
    return replace(entity, aliases=named)


def _distinct(entities: Iterable[Entity], counts: Counter[str]) -> tuple[Entity, ...]:
    by_id: dict[str, Entity] = {}
    for entity in entities:
        if entity.id not in by_id:
            by_id[entity.id] = entity
        elif by_id[entity.id] == entity:
            counts["duplicate entities dropped"] += 1
        else:
            raise DataError("two different entities have this id; merge them, or change one id", id=entity.id)
    return tuple(by_id.values())


def _rows(entities: tuple[Entity, ...], counts: Counter[str]) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return the row of each id, and all rows of each id that several entities have."""
    row_of = {entity.id: row for row, entity in enumerate(entities)}
    shared: dict[str, list[int]] = {}
    for row, entity in enumerate(entities):
        for alternative in entity.alternative_ids:
            holder = row_of.setdefault(alternative, row)
            if holder == row:
                continue
            if entities[holder].id == alternative:
                counts["alternative ids ignored, since they are another entity's own id"] += 1
                continue
            rows = shared.setdefault(alternative, [holder])
            if rows[-1] != row:
                rows.append(row)
                counts["alternative ids shared with an earlier entity"] += 1
    return row_of, {alternative: tuple(rows) for alternative, rows in shared.items()}

"""Entities and the knowledge base they form."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import Arrays, Ints, OnDemand, Strings, numbers
from arbo.data.documents import Entity
from arbo.data.entity_table import CONTENT, SCHEMA, columns_in, entities_of_rows, joined, sound, table_of, with_columns
from arbo.data.fingerprint import Hashes, hash_of, update
from arbo.data.groups import grouped
from arbo.data.objects import entity_line
from arbo.data.records import Records
from arbo.data.releases import Keys
from arbo.data.rows import entities_in
from arbo.errors import DataError, UsageError, counted, listed
from arbo.files import Format, PathLike, map_array, real, save_arrays, whole_folder, write_lines, writing
from arbo.text.names import normalize_name

_TOGETHER = 1 << 12  # number of entities whose fields become values of Python at a time
_GROUPS = (("MSH", "MESH", "MeSH"), ("UMLS_CUI", "UMLS"), ("OMIM", "MIM"))
_SPELLINGS = {spelling.casefold(): group for group in _GROUPS for spelling in group}
"""The spellings of prefixes of cross-references."""
ADVICE, MANIFEST = "build the index again with `arbo kb index`", "arbo-index.json"
_KEYS, _VERSIONS = {"kb": dict, "encoder": dict, "files": dict}, ("arbo", "numpy", "pyarrow", "scipy")
FORMAT = Format("arbo-index", 4, _KEYS, "an index of a knowledge base", ADVICE, MANIFEST, _VERSIONS)


class Names(NamedTuple):
    """The names of all entities: `names[i]` belongs to the entity in row `rows[i]`; rows ascend."""

    names: Strings
    rows: Ints


class IndexFolder(NamedTuple):
    """An index: a knowledge base in columns, with the arrays of an encoder, all mapped into memory.

    The manifest has the notes and the fingerprint of the knowledge base, the settings of the encoder, and the hash of
    each file. ``kb`` holds the entities and their ids, ``encoder`` the fitted encoder, and ``vectors`` those of the
    entities. Mapping a file checks its header and its size; `arbo.encoders.index.check_index` reads everything.
    """

    folder: Path
    manifest: dict[str, Any]

    def table(self) -> pa.RecordBatch:
        """Return the entities, mapped into memory; raise DataError if they are damaged."""
        file = self.folder / "kb/entities.arrow"
        try:
            table = pa.ipc.open_file(pa.memory_map(str(file))).get_batch(0)
            table.validate()
            if table.schema != SCHEMA:
                raise ValueError("other columns")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(file)) from None
        return table

    def arrays(self, folder: str) -> Arrays:
        """Map the arrays in the subfolder ``kb``, ``encoder`` or ``vectors``; changes are not written to the files.

        Raise DataError if a file is missing, cut or damaged at its beginning.
        """
        arrays, names = {}, (Path(name) for name in self.manifest["files"])
        for file in (self.folder / name for name in names if name.parent.name == folder and name.suffix == ".npy"):
            try:
                arrays[file.stem] = map_array(file)
            except Exception as error:  # a damaged header lets any error of its parsers through
                raise DataError(f"the array cannot be read ({error}); {ADVICE}", file=str(file)) from None
        return arrays


class KnowledgeBase:
    """Entities in order, with access by id or alternative id; `notes` counts irregularities of the source.

    The entities are the rows of one table, in memory or, with an index, `stored`, mapped from its files; an `Entity` is
    made of a row whenever it is used. An alternative id never hides an entity's own id. If several entities have the
    same alternative id, indexing returns the first entity and `rows` returns all. A second entity with the same id is
    dropped if its content is equal, and is an error if its content differs. Empty aliases are dropped.

    >>> kb = KnowledgeBase([Entity("D1", "flu", aliases=("influenza", "flu"), alternative_ids=("X9",))])
    >>> kb["X9"].name, kb.index("D1"), "D2" in kb
    ('flu', 0, False)
    >>> list(kb.names().names), kb.names().rows.tolist()
    (['flu', 'influenza'], [0, 0])
    """

    table: pa.RecordBatch
    """The entities, with the columns of `arbo.data.entity_table.SCHEMA`."""
    hashes: Hashes
    """(ids,) the hashes of all ids and alternative ids, ascending."""
    places: Ints
    """(ids,) the rows of their entities; of equal ids, an entity's own comes first, then alternative ids by row."""
    notes: dict[str, int]
    stored: IndexFolder | None = None
    source: Mapping[str, Any] | None = None
    """The file or folder that it was read from (``path``), and how; None if that would not give it again."""

    def __init__(
        self, entities: Iterable[Entity] | pa.RecordBatch = (), notes: Mapping[str, int] | None = None
    ) -> None:
        if isinstance(entities, Records):
            table = joined(entities.tables())
            notes = entities.notes if notes is None else notes
        else:
            table = entities if isinstance(entities, pa.RecordBatch) else table_of(entities)
        counts = Counter(notes or {})
        self.table, self.hashes, self.places = sound(table, counts)
        self.notes = dict(+counts)

    @classmethod
    def of(cls, entities: Iterable[Any]) -> "KnowledgeBase":
        """Make a knowledge base from entities or rows, see `arbo.data.rows`; one is returned as it is."""
        return entities if isinstance(entities, KnowledgeBase) else cls(entities_in(entities))

    @classmethod
    def from_index(cls, path: PathLike) -> Self:
        """Open an index that `arbo.build_index` or `arbo kb index` wrote; an entity is read whenever it is used.

        Raise DataError if this is no index, a newer arbo wrote it, or the table is missing, cut or damaged;
        `arbo kb check` checks everything.
        """
        kb, stored = cls.__new__(cls), IndexFolder(Path(path), FORMAT.read(Path(path)))
        known = stored.manifest["kb"]
        vars(kb).update(stored.arrays("kb"), table=stored.table(), notes=dict(known["notes"]), stored=stored)
        kb.fingerprint = known["fingerprint"]
        return kb

    @cached_property
    def entities(self) -> Sequence[Entity]:
        """The entities in order; each is made when it is used."""
        return OnDemand(len(self.table), partial(entities_of_rows, self.table))

    def to_jsonl(self, path: PathLike) -> None:
        """Write the knowledge base as JSON lines, which `read_knowledge_base` reads; see `Corpus.to_jsonl`."""
        write_lines(map(entity_line, self.entities), path)

    def index(self, entity_id: str) -> int:
        """Return the row of the first entity with this id or alternative id; raise KeyError if there is none."""
        if not (rows := self.rows(entity_id)):
            raise KeyError(f"no entity has the id or alternative id {entity_id!r}")
        return rows[0]

    def rows(self, entity_id: object) -> tuple[int, ...]:
        """Return the row of the entity with this id or, without one, all rows with this alternative id, ascending."""
        if not isinstance(entity_id, str):
            return ()
        key = hash_of(entity_id)
        first, last = (np.searchsorted(self.hashes, key, side) for side in ("left", "right"))
        rows = dict.fromkeys(self.places[first:last].tolist())
        own = [row for row in rows if self.table["id"][row].as_py() == entity_id]
        return tuple(own[:1] or [row for row in rows if entity_id in self.table["alternative_ids"][row].as_py()])

    @cached_property
    def discovered(self) -> Mapping[str, str]:
        """The ids of entities that a run discovered, by their names."""
        of_runs = self.table.filter(pc.starts_with(self.table["id"], "new-"))
        return dict(zip(of_runs["name"].to_pylist(), of_runs["id"].to_pylist(), strict=True))

    def rows_within(self, ids: Iterable[str], domain: str | None) -> tuple[int, ...]:
        """Return the distinct rows that `rows` finds for these ids, of entities of the domain, in the order of the ids.

        A mention in this domain with these gold ids means one of these entities, or NIL if there are none.
        """
        rows = dict.fromkeys(row for id_ in ids for row in self.rows(id_))
        return tuple(row for row in rows if self.table["domain"][row].as_py() == domain)

    def changed(self, entities: Iterable[Entity] | pa.RecordBatch) -> Self:
        """Return a knowledge base of these entities, or of a table of them, with the notes of this one.

        Notes about alternative ids are left out, as every new knowledge base counts them again.
        """
        notes = {note: count for note, count in self.notes.items() if not note.startswith("alternative ids")}
        return type(self)(entities, notes)

    def of_rows(self, rows: Iterable[int]) -> Self:
        """Return a knowledge base of the entities in these rows, with the notes of this one."""
        return self.changed(self.table.take(numbers(np.fromiter(rows, np.int64))))

    def with_alternative_ids(self, more: Iterable[Iterable[str]]) -> Self:
        """Return the same entities; each gets those of ``more`` in its place as further alternative ids."""
        pairs = zip(self.columns("alternative_ids"), more, strict=True)
        lists = [[*dict.fromkeys((*ids, *new))] for (ids,), new in pairs]
        return self.changed(with_columns(self.table, alternative_ids=lists))

    def of_types(self, types: str | Iterable[str]) -> Self:
        """Return the entities with one of these types; raise UsageError for a type that no entity has."""
        chosen = {types} if isinstance(types, str) else set(types)
        present = {type_ for (own,) in self.columns("types") for type_ in own}
        if missing := sorted(chosen - present):
            known = listed(sorted(present), 12) or "none"
            raise UsageError(f"no entity has the type {', '.join(map(repr, missing))}; types of entities: {known}")
        return self.of_rows(row for row, (own,) in enumerate(self.columns("types")) if not chosen.isdisjoint(own))

    def through_xrefs(self, *prefixes: str) -> Self:
        """Return the same entities; xrefs with these prefixes become alternative ids, so that other gold ids match.

        The Disease Ontology writes `MSH:D012345`, while a corpus has `D012345` or `MESH:D012345`. With the prefix
        `MSH`, the bare xref and the xref with each spelling of the prefix become alternative ids. Raise UsageError for
        a prefix that no xref has.

        >>> kb = KnowledgeBase([Entity("DOID:8", "flu", xrefs=("MSH:D7251",)), Entity("DOID:9", "cold")])
        >>> view = kb.through_xrefs("MESH")
        >>> view["D7251"].name, view["MESH:D7251"].name, view["DOID:9"].name
        ('flu', 'flu', 'cold')
        """
        spelt = {prefix: (prefix, *_SPELLINGS.get(prefix.casefold(), ())) for prefix in prefixes}
        present = Counter(xref.partition(":")[0] for (xrefs,) in self.columns("xrefs") for xref in xrefs if ":" in xref)
        folded = {prefix.casefold() for prefix in present}
        if missing := [one for one, spellings in spelt.items() if folded.isdisjoint(map(str.casefold, spellings))]:
            known = ", ".join(f"{prefix} ({count:,})" for prefix, count in present.most_common(12)) or "none"
            wrong = f"no xref has the prefix {' or '.join(missing)}"
            raise UsageError(f"{wrong}; the most frequent prefixes of xrefs: {known}")
        forms = {spelling.casefold(): spellings for spellings in spelt.values() for spelling in spellings}
        return self.with_alternative_ids(_ids_in(id_, xrefs, forms) for id_, xrefs in self.columns("id", "xrefs"))

    def with_names_of(self, documents: Iterable[Any], *, expand_abbreviations: bool = True) -> "KnowledgeBase":
        """Return the entities with the names of annotated mentions as aliases; see `arbo.kb.names.with_names_of`."""
        from arbo.kb.names import with_names_of

        return with_names_of(self, documents, expand_abbreviations=expand_abbreviations)

    def without_names(self, names: Iterable[str]) -> Self:
        """Return the entities without these names, in all spellings that are equal after `normalize_name`.

        If an entity loses its preferred name, its first remaining alias becomes its name. An entity without any other
        name is left out, so that its mentions count as NIL. Raise DataError if no entity would keep a name.
        """
        removed = set(map(normalize_name, [names] if isinstance(names, str) else names))
        left = [
            [name for name in (preferred, *aliases) if normalize_name(name) not in removed]
            for preferred, aliases in self.columns("name", "aliases")
        ]
        if not any(left):
            raise DataError("no entity would keep a name; remove fewer names")
        kept, named = self.of_rows(row for row, of in enumerate(left) if of), [of for of in left if of]
        return kept.changed(with_columns(kept.table, name=[of[0] for of in named], aliases=[of[1:] for of in named]))

    def generic_names(self) -> list[str]:
        """Return single-word names, such as "disease", that head the names of many entities; see `arbo.kb.names`."""
        from arbo.kb.names import generic_names, spellings

        return [name for generic in generic_names(self, spellings(self)) for name in generic.values]

    def names(self) -> Names:
        """Return the distinct names of each entity: its name first, then its aliases."""
        name, aliases = self.table["name"], self.table["aliases"]
        row = np.concatenate([np.arange(len(self)), np.from_dlpack(pc.list_parent_indices(aliases))])
        order = np.argsort(row, kind="stable")
        names, row = pa.concat_arrays([name, aliases.flatten()]).take(numbers(order)), row[order]
        code = np.from_dlpack(names.dictionary_encode().indices)
        first = np.sort(np.unique(row * len(names) + code, return_index=True)[1])
        return Names(Strings(names.take(numbers(first))), row[first])

    def columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some fields of each entity, as a tuple."""
        for begin in range(0, len(self), _TOGETHER):
            yield from zip(*columns_in(self.table.slice(begin, _TOGETHER), names), strict=True)

    def parents(self, id_: str) -> list[str]:
        """Return the ids above an entity, from ``parents`` in its metadata: a list, or ids separated by `|`."""
        return _parents(self[id_].metadata) if id_ in self else []

    @cached_property
    def children(self) -> defaultdict[str, list[str]]:
        """The ids of the entities that have an id among their parents."""
        entities = self.columns("id", "metadata")
        return grouped((parent, id_) for id_, metadata in entities for parent in _parents(metadata))

    def taken(self, names: Sequence[str], rows: npt.NDArray[np.integer[Any]]) -> list[pa.Array]:
        """Return text fields, such as ``id`` or ``aliases``, of the entities in these rows, as Arrow arrays."""
        columns, text = (self.table[name].take(numbers(rows)) for name in names), pa.string()
        return [one.cast(text if pa.types.is_large_string(one.type) else pa.list_(text)) for one in columns]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the entities without metadata, in order, since embeddings refer to entities by row."""
        digest = hashlib.sha256()
        for name in CONTENT:
            update(digest, self.table[name])
        return digest.hexdigest()

    @cached_property
    def keys(self) -> Keys:
        """Hashes of the entities, by which `arbo.data.releases` compares two knowledge bases; an index has them."""
        stored = {} if self.stored is None else self.stored.arrays("keys")
        return Keys(**stored) if stored else Keys.of(self.table)

    def __getitem__(self, entity_id: str) -> Entity:
        return self.entities[self.index(entity_id)]

    def __contains__(self, entity_id: object) -> bool:
        return bool(self.rows(entity_id))

    def __iter__(self) -> Iterator[Entity]:
        return iter(self.entities)

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnowledgeBase) and bool(self.table.select(CONTENT).equals(other.table.select(CONTENT)))

    def __repr__(self) -> str:
        return f"KnowledgeBase({counted(len(self), 'entities')})"


def _parents(metadata: Mapping[str, Any]) -> list[str]:
    given = metadata.get("parents") or []
    return given.split("|") if isinstance(given, str) else [*map(str, given if isinstance(given, list) else [given])]


def _ids_in(id_: str, xrefs: tuple[str, ...], forms: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for xref in xrefs:
        prefix, _, concept = xref.partition(":")
        if concept.strip() and (spellings := forms.get(prefix.casefold())):
            every = (concept, xref, *(f"{spelling}:{concept}" for spelling in spellings))
            yield from (form for form in every if form != id_)


def write_index(
    path: PathLike,
    kb: Mapping[str, Any],
    encoder: Mapping[str, Any],
    table: pa.RecordBatch,
    arrays: Mapping[str, Arrays],
) -> None:
    """Write an index in place of what is there, see `FORMAT.check_replaceable`; raise UsageError if that fails.

    ``kb`` and ``encoder`` are parts of the manifest, ``arrays`` those of each subfolder.
    """
    target = real(path)
    with writing(f"the index {target}"), whole_folder(target) as partial:
        (partial / "kb").mkdir()
        with pa.OSFile(str(partial / "kb/entities.arrow"), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            writer.write_batch(table)
        for folder, parts in arrays.items():
            if parts:
                (partial / folder).mkdir(exist_ok=True)
                save_arrays(partial / folder, parts)
        FORMAT.write(partial, {"kb": dict(kb), "encoder": dict(encoder)})

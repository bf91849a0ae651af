"""The tables of a run: each column is declared here, once; files, checks, views and exports follow.

A table is a class, and its fields are its columns, in order. The annotation says the type of a column, and whether
values may be null (``| None``); a default says that a run may lack the column; the docstring says what it means, also
in docs/tables.md. Values come from `arbo.linking.tables`. Ids of mentions and entities are strings; spans count
characters from 0, the end excluded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa

from arbo.data.documents import Mention
from arbo.errors import counted

_TYPES = {str: pa.string(), float: pa.float32(), bool: pa.bool_(), int: pa.int32(), Mention: pa.string()}
_SPANS = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))


@dataclass(frozen=True)
class Stored:
    """How a field is stored, where its name and its annotation do not say so."""

    names: tuple[str, ...] = ()
    """The columns, if the field has another name; a field of pairs has two."""
    type: pa.DataType | None = None
    flat: bool = False
    """Whether the column is one of the flat tables of mentions, and on the page."""
    elsewhere: bool = False
    """Whether the value comes from another table."""


_FLAT = Stored(flat=True)
_LARGE = Stored(type=pa.large_string())


class MentionRow(NamedTuple):
    """``mentions``: one row for each mention, in the order of the documents."""

    mention_id: Annotated[str, _FLAT]
    """Id of the mention."""
    document_id: Annotated[str, _FLAT]
    """Id of its document."""
    spans: Annotated[tuple[tuple[int, int], ...], Stored(type=_SPANS, flat=True)]
    """Start and end of each of its pieces."""
    text: Annotated[str, _FLAT]
    """The text at its spans."""
    expansion: str | None
    """The text with abbreviations replaced by their long forms; null if none is replaced."""
    type: Annotated[str | None, _FLAT]
    """Type, as given."""
    domain: str | None
    """Domain of its document."""
    gold: tuple[str, ...] | None
    """Gold ids, as annotated; null if it is not annotated."""
    found_score: Annotated[float | None, Stored(type=pa.float64(), flat=True)]
    """Score of its finder, if it was found."""
    gold_entities: tuple[str, ...]
    """The knowledge base's own ids of the gold entities in its domain."""
    cluster: str | None = None
    """Gold cluster; no column if no mention has one."""
    metadata: Annotated[str | None, _LARGE] = None
    """Further columns or keys, as a JSON object; no column without any or without texts."""


class Link(NamedTuple):
    """``links``: the decision on each mention, in the same order."""

    mention: Annotated[Mention, Stored(("mention_id",))]
    """The mention; the table has its id."""
    expansion: Annotated[str | None, Stored(elsewhere=True)]
    """The mention's text with abbreviations replaced by their long forms; None if no abbreviation is replaced."""
    entity: Annotated[str | None, Stored(("entity_id",), flat=True)]
    """Id of the entity; null for NIL."""
    entity_name: Annotated[str | None, _FLAT]
    """Name of the entity; null for NIL."""
    cluster: Annotated[str, Stored(("cluster_id",), flat=True)]
    """Id of the cluster: the entity's id, or a new id that all mentions of a discovered entity share."""
    score: Annotated[float | None, _FLAT]
    """Similarity of mention and entity, or the entity's probability by a reranker or edge model; null for NIL."""
    margin: Annotated[float | None, _FLAT]
    """Score of the nearest entity minus that of the second nearest; null without a second, or if spelling decided."""
    parent: str | None
    """Id of the entity or mention from which the mention is reached; null for NIL."""
    parent_is_mention: bool
    """Whether the parent is a mention."""
    step: float | None
    """Dissimilarity of the edge from the parent; null for NIL, or if people decided on the edge."""
    bottleneck: float | None
    """Dissimilarity of the heaviest edge on the path from the entity; infinite for NIL, null if people decided on all
    edges."""
    candidates: Annotated[tuple[tuple[str, float], ...], Stored(("candidates", "candidate_scores"))]
    """Ids of the nearest entities, and their scores; nearest first."""
    nearest: str | None = None
    """With an edge model, the parent or, for NIL, the nearest mention of the cluster."""
    reasons: Annotated[tuple[tuple[str, float], ...], Stored(("reasons", "reason_log_odds"))] = ()
    """With an edge model, the features that counted most for the edge from ``nearest``, and their log-odds."""
    confidence: Annotated[float | None, _FLAT] = None
    """Probability that the link, or NIL, is correct; null if unknown, such as for NIL after `Linker.tune`; no column
    without n-grams or `Linker.tune`."""
    corrected: Annotated[bool, _FLAT] = False
    """Whether a correction that was obeyed names the mention; a column of runs with corrections."""
    follows: Annotated[str | None, _FLAT] = None
    """The mention whose correction decided on this one too; a column of runs with corrections."""

    @property
    def name(self) -> str:
        """The name that was compared: the mention's text, with abbreviations replaced by their long forms."""
        return self.expansion or self.mention.text

    @property
    def row(self) -> dict[str, Any]:
        """The decision as a flat row."""
        names = ("entity", "entity_name", "cluster", "confidence", "score", "margin")
        where = {"mention": self.mention.id, "document": self.mention.document_id, "text": self.mention.text}
        return where | {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"Link({', '.join(f'{name}={value!r}' for name, value in self.row.items())})"


class Cluster(NamedTuple):
    """``clusters``: mentions of one entity, known or discovered.

    Clusters of entities come first, in the order of the knowledge base, then discovered ones, largest first.
    """

    id: Annotated[str, Stored(("cluster_id",))]
    """Its entity's id; for a discovered one, ``new-`` and the id of its first (or first corrected) mention; if this is
    taken, ``#2`` or a higher number is appended."""
    entity: Annotated[str | None, Stored(("entity_id",))]
    """Id of its entity; null for a discovered cluster."""
    name: str
    """Name of its entity; for a discovered one, its most frequent name, or people's name for it."""
    size: int
    """Number of its mentions."""
    weakest_join: float | None
    """Dissimilarity of the heaviest edge that holds the cluster together or, under average linkage, the average
    dissimilarity of its last two parts; null for a cluster of a known entity or of one mention."""
    mentions: Annotated[tuple[Mention, ...], Stored(elsewhere=True)]
    """Its mentions, in the order of the documents."""

    @property
    def row(self) -> dict[str, Any]:
        """The cluster as a flat row, with up to three distinct texts of its mentions."""
        texts = dict.fromkeys(mention.text for mention in self.mentions[:50])
        fields = {"cluster": self.id, "entity": self.entity, "name": self.name, "mentions": self.size}
        return fields | {"weakest_join": self.weakest_join, "examples": list(texts)[:3]}

    def __repr__(self) -> str:
        return f"Cluster({self.id!r}, entity={self.entity!r}, name={self.name!r}, {counted(self.size, 'mentions')})"


class DocumentRow(NamedTuple):
    """``documents``: the documents, as given."""

    document_id: str
    """Id of the document."""
    domain: str | None
    """Domain; others are not compared."""
    text: Annotated[str, _LARGE] = ""
    """Text; no column if the run was saved without texts."""
    metadata: Annotated[str | None, _LARGE] = None
    """Further columns or keys, as of mentions."""


class EntityRow(NamedTuple):
    """``entities``: the entities that are links or candidates."""

    entity_id: str
    """Id of the entity."""
    name: str
    """Preferred name."""
    aliases: tuple[str, ...]
    """Other names."""
    several: tuple[str, ...] | None = None
    """Ids of the entities that a correction gives together; no column without one."""


class CorrectionRow(NamedTuple):
    """``corrections``: what people decided; no table without corrections."""

    record: Annotated[str, _LARGE]
    """The correction, as a JSON object."""
    file: str
    """File from which it was read."""
    line: Annotated[int, Stored(type=pa.int64())]
    """Line in the file."""
    status: str
    """``obeyed``, ``replaced`` by a later line, ``waiting`` for what is missing, or ``conflict``."""
    reason: str | None
    """Why it was not obeyed."""


class Column(NamedTuple):
    """A column of a table."""

    field: str
    type: pa.DataType
    null: bool
    """Whether values may be null."""
    optional: bool
    """Whether a run may lack the column."""
    flat: bool  # as in `Stored`


def columns_of(table: type[Any]) -> Iterator[tuple[str, Column]]:
    """Yield the columns that the fields of a class declare, with their names."""
    for field, hint in get_type_hints(table, include_extras=True).items():
        kind, stored = get_args(hint) if get_origin(hint) is Annotated else (hint, Stored())
        null = get_origin(kind) is UnionType
        (kind,) = (one for one in (get_args(kind) if null else (kind,)) if one is not type(None))
        types = [stored.type or _TYPES.get(kind)]
        if types == [None]:
            items = get_args(kind)[0]
            types = [pa.list_(_TYPES[item]) for item in (get_args(items) or (items,))]
        for name, type_ in zip(stored.names or (field,), types, strict=True) if not stored.elsewhere else ():
            yield name, Column(field, type_, null, field in table._field_defaults, stored.flat)


TABLES: Mapping[str, Any] = {
    "mentions": MentionRow,
    "links": Link,
    "clusters": Cluster,
    "documents": DocumentRow,
    "entities": EntityRow,
    "corrections": CorrectionRow,
}
SCHEMA: Mapping[str, Mapping[str, Column]] = {name: dict(columns_of(table)) for name, table in TABLES.items()}
"""The columns of each table by its name; all runs have the tables but for ``corrections``."""


def views_of(name: str, rows: pa.Table, others: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return rows of the table of a name as objects; ``others`` are the fields that it does not hold as they are."""
    kind, values = TABLES[name], {**others}
    for column, (field, *_) in SCHEMA[name].items():
        if column not in rows.column_names:
            values[field] = [kind._field_defaults[field]] * len(rows)
        elif field not in values:
            values[field] = rows[column].to_pylist()
        elif field not in others:  # the second column of pairs
            values[field] = [
                tuple(zip(*pair, strict=True)) for pair in zip(values[field], rows[column].to_pylist(), strict=True)
            ]
    return [*map(kind, *(values[field] for field in kind._fields))]


def problem_of(table: str, content: pa.Table) -> str | None:
    """Return what is wrong with a table: a column is missing, has another type, or empty values; None without fault."""
    columns, names = SCHEMA[table], content.column_names
    if missing := [name for name, column in columns.items() if name not in names and not column.optional]:
        return f"the table has no column {', '.join(missing)}"
    for name in columns.keys() & {*names}:
        if content[name].type != columns[name].type:
            return f"the column {name} has the type {content[name].type}, not {columns[name].type}"
        if content[name].null_count and not columns[name].null:
            return f"the column {name} has empty values"
    return None

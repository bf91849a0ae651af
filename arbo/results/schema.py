"""The columns of the tables in a run folder; `arbo.linking.tables` and `arbo.linking.links` say what they mean."""

from typing import NamedTuple

import pyarrow as pa

_TEXT, _LONG, _FLOAT = pa.string(), pa.large_string(), pa.float32()
_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])


class Column(NamedTuple):
    """A column of a table."""

    type: pa.DataType
    null: bool = False
    """Whether values may be null."""
    optional: bool = False
    """Whether a run may lack the column."""


SCHEMA = {
    "mentions": {
        "mention_id": Column(_TEXT),
        "document_id": Column(_TEXT),
        "spans": Column(pa.list_(_SPAN)),
        "text": Column(_TEXT),
        "expansion": Column(_TEXT, null=True),
        "type": Column(_TEXT, null=True),
        "domain": Column(_TEXT, null=True),
        "gold": Column(pa.list_(_TEXT), null=True),
        "found_score": Column(pa.float64(), null=True),
        "gold_entities": Column(pa.list_(_TEXT)),
        "cluster": Column(_TEXT, null=True, optional=True),
        "metadata": Column(_LONG, null=True, optional=True),
    },
    "links": {
        "mention_id": Column(_TEXT),
        "entity_id": Column(_TEXT, null=True),
        "entity_name": Column(_TEXT, null=True),
        "cluster_id": Column(_TEXT),
        "score": Column(_FLOAT, null=True),
        "margin": Column(_FLOAT, null=True),
        "parent": Column(_TEXT, null=True),
        "parent_is_mention": Column(pa.bool_()),
        "step": Column(_FLOAT, null=True),
        "bottleneck": Column(_FLOAT, null=True),
        "candidates": Column(pa.list_(_TEXT)),
        "candidate_scores": Column(pa.list_(_FLOAT)),
        "nearest": Column(_TEXT, null=True, optional=True),
        "reasons": Column(pa.list_(_TEXT), optional=True),
        "reason_log_odds": Column(pa.list_(_FLOAT), optional=True),
        "confidence": Column(_FLOAT, null=True, optional=True),
        "corrected": Column(pa.bool_(), optional=True),
        "follows": Column(_TEXT, null=True, optional=True),
    },
    "clusters": {
        "cluster_id": Column(_TEXT),
        "entity_id": Column(_TEXT, null=True),
        "name": Column(_TEXT),
        "size": Column(pa.int32()),
        "weakest_join": Column(_FLOAT, null=True),
    },
    "documents": {
        "document_id": Column(_TEXT),
        "domain": Column(_TEXT, null=True),
        "text": Column(_LONG, optional=True),
        "metadata": Column(_LONG, null=True, optional=True),
    },
    "entities": {
        "entity_id": Column(_TEXT),
        "name": Column(_TEXT),
        "aliases": Column(pa.list_(_TEXT)),
    },
    "corrections": {
        "record": Column(_LONG),
        "file": Column(_TEXT),
        "line": Column(pa.int64()),
        "status": Column(_TEXT),
        "reason": Column(_TEXT, null=True),
    },
}
"""The columns of each table by its name; all runs have the tables but for ``corrections``."""


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

"""Writers, one module for each format; `arbo.readers` or `arbo score` read the files, except for tables of runs.

A writer of documents takes three arguments: the documents, whose gold ids it writes; a path; and a mapping of each id
to its name. It returns counts of the items that the format changes or cannot hold. A writer of tables takes a
table and a path.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

from arbo.errors import UsageError

ExportFormat = Literal["csv", "tsv", "jsonl", "pubtator", "pubannotation", "bioc", "brat", "conll", "clusters"]
Ids = Literal["links", "gold"]
TABLES = ("csv", "tsv")

WRITERS: Mapping[str, str] = {
    "csv": "arbo.writers.tables:write_csv",
    "tsv": "arbo.writers.tables:write_tsv",
    "jsonl": "arbo.writers.json_lines:write_jsonl",
    "pubtator": "arbo.writers.pubtator:write_pubtator",
    "pubannotation": "arbo.writers.pubannotation:write_pubannotation",
    "bioc": "arbo.writers.bioc:write_bioc",
    "brat": "arbo.writers.brat:write_brat",
    "conll": "arbo.writers.conll:write_conll",
    "clusters": "arbo.writers.json_lines:write_clusters",
}


def writer(format: str) -> Callable[..., Any]:  # noqa: A002
    """Return the function that writes a format; raise UsageError if it is unknown."""
    if format not in WRITERS:
        raise UsageError(f"unknown format {format!r}; known: {', '.join(WRITERS)}")
    module, function = WRITERS[format].split(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]

"""Write a knowledge base to a file, in the format of its ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from os import fspath
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.objects import entity_line
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, write_lines, write_whole

_LEFT_OUT = ("types", "alternative_ids", "xrefs")
"""Lists of an entity that a table in four columns cannot hold."""


def save(kb: KnowledgeBase, path: PathLike) -> dict[str, int]:
    """Write a knowledge base; see `KnowledgeBase.save`."""
    name, lost = fspath(path), Counter[str]()
    ending = next((ending for ending in WRITERS if name.lower().endswith(ending)), None)
    if ending is None:
        raise UsageError(f"{name}: the file's ending must be one of {', '.join(WRITERS)}")
    WRITERS[ending](kb, path, lost)
    return dict(+lost)


def _save_jsonl(kb: KnowledgeBase, path: PathLike, lost: Counter[str]) -> None:
    write_lines(map(entity_line, kb), path)


def _save_tsv(kb: KnowledgeBase, path: PathLike, lost: Counter[str]) -> None:
    def lines() -> Iterator[str]:
        yield "id\tname\taliases\tdefinition"
        for entity in kb:
            if entity.id.strip() != entity.id or len(entity.id.splitlines()) > 1 or "\t" in entity.id:
                raise DataError("a table cannot hold the white space of this id; write .jsonl", id=entity.id)
            for field in _LEFT_OUT:
                lost[field.replace("_", " ")] += len(getattr(entity, field))
            lost["domains"] += entity.domain is not None
            aliases = [alias for alias in entity.aliases if "|" not in alias]
            lost["aliases with a bar"] += len(entity.aliases) - len(aliases)
            cells = (entity.name, "|".join(aliases), entity.definition or "")
            yield "\t".join((entity.id, *(" ".join(cell.split()) for cell in cells)))

    write_lines(lines(), path)


def _save_parquet(kb: KnowledgeBase, path: PathLike, lost: Counter[str]) -> None:
    hints = get_type_hints(Entity)
    columns: dict[str, Any] = {
        field.name: pa.array(
            [getattr(entity, field.name) for entity in kb],
            pa.list_(pa.string()) if hints[field.name] == tuple[str, ...] else pa.string(),
        )
        for field in fields(Entity)
        if field.compare
    }
    write_whole(path, lambda partial: pq.write_table(pa.table(columns), partial))


WRITERS: Mapping[str, Callable[[KnowledgeBase, PathLike, Counter[str]], None]] = {
    ".jsonl": _save_jsonl,
    ".jsonl.gz": _save_jsonl,
    ".tsv": _save_tsv,
    ".tsv.gz": _save_tsv,
    ".parquet": _save_parquet,
}
"""The function that writes each ending, and counts what the format cannot hold."""

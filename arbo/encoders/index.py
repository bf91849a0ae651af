"""Indexes: a knowledge base on disk with its fitted encoder and its vectors, all mapped into memory."""

from __future__ import annotations

from itertools import islice
from typing import Any

from arbo.data.columns import SCHEMAS, HashedIds
from arbo.data.index_folder import Arrays, write_index
from arbo.data.knowledge_base import KnowledgeBase
from arbo.files import PathLike


def save_index(kb: KnowledgeBase, path: PathLike, arrays: Arrays, settings: dict[str, Any]) -> None:
    """Write an index with the arrays and the settings of an encoder; see `write_index`."""
    others = [(id_, kb.rows(id_)) for id_ in islice(kb.row_of, len(kb), None)]  # own ids come first
    known = {
        "entities": len(kb),
        "other_ids": len(others),
        "fingerprint": kb.fingerprint,
        "notes": kb.notes,
    }
    tables = {"entities": kb.columns(*SCHEMAS["entities"].names), "other_ids": others}
    write_index(path, known, settings, tables, {"kb": HashedIds.of(kb.row_of)._asdict(), "encoder": arrays})

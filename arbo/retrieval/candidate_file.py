"""Files of candidates: one Parquet file with a row for each mention, written completely or not at all.

Its columns are two lists: ``candidates``, as rows of the knowledge base, and ``candidate_scores``. The metadata of the
schema contains the origin of the candidates.
"""

import json
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.engine import Floats, Ids
from arbo.errors import DataError, UsageError
from arbo.files import Format, PathLike, check_manifest, json_ready, write_whole

MEND = "make the candidates again"
FORMAT = Format(
    "arbo-candidates",
    1,
    {"k": int, "documents": str, "knowledge_base": str, "made_by": dict},
    "a file of candidates",
    MEND,
)
_COLUMNS = ("candidates", "candidate_scores")


def save_candidates(entities: Ids, scores: Floats, made_of: dict[str, Any], path: PathLike) -> None:
    """Write candidates and their scores, both of the shape (mentions, k), and their origin; see `Candidates.save`."""
    target = Path(path)
    if target.exists():
        try:
            _metadata(target)
        except DataError as error:
            raise UsageError(f"{error}; choose another file, or remove this one first") from None
    there = entities >= 0
    start = pa.array(np.concatenate([[0], np.cumsum(there.sum(axis=1))]), pa.int32())
    arrays = [pa.ListArray.from_arrays(start, pa.array(column[there])) for column in (entities, scores)]
    own = {**FORMAT.head(), "k": entities.shape[1], **json_ready(made_of)}
    table = pa.table(dict(zip(_COLUMNS, arrays, strict=True)), metadata={FORMAT.name: json.dumps(own)})
    write_whole(target, lambda file: pq.write_table(table, file, write_page_checksum=True))


def load_candidates(path: PathLike) -> tuple[Ids, Floats, dict[str, Any]]:
    """Read candidates, their scores and their origin; see `Candidates.load`."""
    own = _metadata(Path(path))
    try:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        entities, scores = (table[name].combine_chunks() for name in _COLUMNS)
        count = entities.value_lengths().to_numpy(zero_copy_only=False)
        if entities.value_lengths() != scores.value_lengths():
            raise ValueError("the lists of candidates and the lists of scores differ in length")
        if count.max(initial=0) > own["k"]:
            raise ValueError(f"a list has {count.max():,} candidates, but the file has k={own['k']}")
        return *padded(entities.flatten().to_numpy(), scores.flatten().to_numpy(), count, own["k"]), own
    except (OSError, KeyError, AttributeError, ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"the candidates cannot be read: {error}; {MEND}", file=fspath(path)) from None


def padded(entities: Ids, scores: Floats, count: Ids, k: int) -> tuple[Ids, Floats]:
    """Convert concatenated lists of the lengths ``count`` to arrays of (mentions, k), padded with -1 and -inf."""
    there = np.arange(k) < count[:, None]
    found = np.full(there.shape, -1, np.int32), np.full(there.shape, -np.inf, np.float32)
    found[0][there], found[1][there] = entities, scores
    return found


def _metadata(file: Path) -> dict[str, Any]:
    try:
        own = json.loads((pq.read_schema(file).metadata or {})[FORMAT.name.encode()])
    except (OSError, KeyError, ValueError, RecursionError, pa.ArrowException) as error:
        raise DataError(f"not a readable file of candidates ({error!r:.200})", file=str(file)) from None
    return check_manifest(own, FORMAT, file)

"""Resolve the entities of a knowledge graph in a folder, and write the graph with merged entities to a new folder.

A folder of GraphRAG has `entities.parquet` and `relationships.parquet`, one of LightRAG has
`graph_chunk_entity_relation.graphml`. A file is any table of entities. Every new folder has `merges.csv`, see
`Resolution.frame`.
"""

from os import PathLike
from pathlib import Path

from pyarrow.csv import write_csv

from arbo.errors import UsageError
from arbo.files import check_writable, real, whole_folder
from arbo.resolving.graphrag import ENTITIES, read_graphrag, write_graphrag
from arbo.resolving.lightrag import GRAPH, read_lightrag, write_lightrag
from arbo.resolving.resolution import THRESHOLD, Resolution, resolve

_KINDS = {
    ENTITIES: (("title", "type", "description"), read_graphrag, write_graphrag),
    GRAPH: (("entity_id", "entity_type", "description"), read_lightrag, write_lightrag),
}
"""The file that tells the kind of a folder; its columns, how it is read, and how the merged graph is written."""


def resolve_graph(
    source: str | PathLike[str],
    out: str | PathLike[str],
    name: str = "title",
    type: str | None = None,  # noqa: A002
    context: str | None = None,
    *,
    threshold: float = THRESHOLD,
) -> Resolution:
    """Resolve a folder of GraphRAG or LightRAG, or a file; write a new folder completely or not at all.

    The columns are those of `arbo.resolve`, for a file; those of the folders are known. Raise UsageError if ``out`` is
    not empty, or the folder is of neither, DataError if it cannot be read, and the errors of `arbo.resolve`.
    """
    folder, target = Path(source), real(out)
    check_writable(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} exists and is not empty; choose a new folder")
    kind = next((file for file in _KINDS if (folder / file).exists()), None)
    if kind is None and folder.is_dir():
        raise UsageError(f"{folder} has neither {' nor '.join(_KINDS)}; give the folder that has one of them")
    if kind is None:
        found = resolve(folder, name, type, context, threshold=threshold)
    else:
        columns, read, _ = _KINDS[kind]
        found = resolve(read(folder), *columns, threshold=threshold)
    with whole_folder(target) as partial:
        write_csv(found.frame, partial / "merges.csv")
        if kind is not None:
            _KINDS[kind][2](folder, partial, found)
    return found

"""What the formats of knowledge graphs share: a document for each node, and which node stands for each when merged.

The document is the node's name, which is its only mention. Nodes are compared within their type, which is the domain of
the document, without case. Placeholders such as UNKNOWN are no type. A node without a type has that of the nodes of its
name, if they have one type. The texts in which nodes occur are evidence.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arbo.data import Corpus, OnError, grouped
from arbo.data.rows import documents_of
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, real
from arbo.formats.files import Paths, each_path, new_folder
from arbo.text.names import normalize_names

_NO_TYPES = frozenset(["", "entity", "n/a", "na", "none", "null", "other", "undefined", "unknown"])
_TEXTS = "text_units"
Mentions = Mapping[str, tuple[str, Hashable]]  # the text and the cluster of the mention of each node, by its id


class Node(NamedTuple):
    """A node of a graph, in the order of its file."""

    id: str
    name: str  # empty without a name
    type: str  # as it is written; empty without a type
    texts: str = ""  # the ids of the texts in which it occurs, divided by semicolons

    @property
    def kind(self) -> str:
        """The type that is compared; empty without one."""
        kind = self.type.casefold()
        return "" if kind in _NO_TYPES else kind

    @classmethod
    def of(cls, id_: str, name: Any, type_: Any, texts: Any = None) -> "Node":
        """Make a node of values of any kind; None is missing, and so are texts that are no list."""
        name, type_ = ("" if value is None else str(value).strip() for value in (name, type_))
        ids = texts if isinstance(texts, list) else []
        return cls(id_, name, type_, ";".join(str(one).replace(";", ",") for one in ids))


Groups = Sequence[Sequence[int]]  # the rows of each merged node, that which stands for it first, in their order
Graph = tuple[list[Node], Callable[[Path, Groups], Any]]  # nodes, and what writes the graph; it may return notes


def read_documents(path: Paths, graph_in: Callable[[Path], Graph], format_: str, on_error: OnError = "fail") -> Corpus:
    """Read the nodes of a folder, or of that of a file; raise UsageError for several. A node needs a name."""
    one, *others = each_path(path)
    if others:
        raise UsageError(f"a graph is one folder, not {1 + len(others)} paths; give one")
    folder = one if one.is_dir() else one.parent
    nodes, _ = graph_in(folder)
    names = [" ".join(sorted(name.split())) for name in normalize_names([node.name for node in nodes])]
    kinds = grouped({(name, node.kind): 0 for node, name in zip(nodes, names, strict=True) if node.kind})
    rows: list[tuple[str, Any]] = []
    for number, (node, name) in enumerate(zip(nodes, names, strict=True), 1):
        place, (only, *more) = f"{folder}, node {number}", kinds[name] or [""]
        row: dict[str, Any] = {"document_id": node.id, "mention_id": node.id, "text": node.name, "start": 0}
        row |= {"end": len(node.name), "type": node.type or None, "domain": node.kind or ("" if more else only) or None}
        row |= {_TEXTS: node.texts} if node.texts else {}
        rows.append((place, row if node.name else DataError("the node has no name; fill it in", id=node.id)))
    graph = {"format": format_, "path": str(real(folder))}
    graph |= {"evidence": f"{_TEXTS}:set"} if any(node.texts for node in nodes) else {}
    return Corpus(documents_of(rows, on_error), graph=graph)


def write_merged(folder: Path, out: PathLike, mentions: Mentions, graph_in: Callable[[Path], Graph]) -> Counter[str]:
    """Write the graph of a folder with merged nodes to a new one.

    Of a cluster, a node stands that has a type, and of these one of the most frequent name, the first. Nodes without a
    mention stand alone. Raise UsageError if ``out`` has content, DataError if the mentions are not those of the nodes.
    """
    nodes, write = graph_in(folder)
    there = {(node.id, node.name) for node in nodes}
    if gone := [id_ for id_, (name, _) in mentions.items() if (id_, name) not in there]:
        raise DataError("the graph has changed since the run was made; discover it again", file=str(folder), id=gone[0])
    names, groups = normalize_names([node.name for node in nodes]), list[list[int]]()
    clusters = (mentions[node.id][1] if node.id in mentions else ("alone", row) for row, node in enumerate(nodes))
    for rows in grouped((cluster, row) for row, cluster in enumerate(clusters)).values():
        count = Counter(names[row] for row in rows)
        best = max(rows, key=lambda row: (nodes[row].kind != "", count[names[row]]))
        groups.append([best, *(row for row in rows if row != best)])
    with new_folder(out) as partial:
        notes: Counter[str] = Counter(write(partial, sorted(groups)))
    return notes + Counter({"nodes merged into others": len(nodes) - len(groups)})

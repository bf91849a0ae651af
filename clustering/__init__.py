"""The engine of arbo: exact, near-linear clustering of a directed graph of mentions and entities.

>>> from clustering import Graph, partition
>>> graph = Graph.from_edges([2, 3, 0], [3, 4, 4], [-1.0, -5.0, -4.0], n_entities=3, n_nodes=5)
>>> partition(graph).entity.tolist()
[2, 2]
>>> partition(graph, threshold=-2).entity.tolist()
[-1, 0]
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arrays import Edges as Edges
    from .average import average_tree as average_tree
    from .decisions import Decisions as Decisions
    from .estimator import ArborescenceClustering as ArborescenceClustering
    from .graph import Graph as Graph
    from .linkage import MergeTree as MergeTree, merge_tree as merge_tree
    from .methods import METHODS as METHODS, Method as Method, NilLinkage as NilLinkage
    from .partitions import Partition as Partition, partition as partition

# The module of each name; it is imported when the name is first used, since most load numba, and one scikit-learn. No
# module has the name of something that it defines, because importing it would hide that.
_IMPORTS = (node for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))) if isinstance(node, ast.ImportFrom))
_HOME = {name.name: node.module for node in _IMPORTS if node.level for name in node.names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'clustering' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

"""The names of the packages `clustering` and `eval` that arbo uses.

A user's script may have its own `eval.py` beside it, which arbo must neither use nor execute: then the package beside
arbo is loaded under a private name, otherwise under its own, so that only one copy is loaded.
"""

import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arbo.declared import declared

if TYPE_CHECKING:
    from clustering import Decisions, Edges, Graph, MergeTree, Partition, average_tree, merge_tree, partition
    from clustering.arrays import Bools, Floats, Ids, Weights, id_dtype, pairs_of, ranges, sorted_unique
    from clustering.average import SAME
    from clustering.decisions import NEW, OUTSIDE, UNDECIDED
    from clustering.dense import spanning_tree
    from clustering.dense_search import Scan, Scanner, faiss_scanner
    from clustering.growth import FEW, renumbered, updated
    from clustering.index import Index, is_below, is_start
    from clustering.kernels import kernel
    from clustering.knn import Limit, Neighbors, Searchable, lists_of, merged, nearest, pair_dissimilarity
    from clustering.methods import Method, Metric, NilLinkage
    from clustering.progress import Progress, T, in_parallel, silent
    from clustering.search import offer
    from clustering.vectors import Csr, Vectors, csr, lengths, offset_of
    from eval import *
    from eval import report
    from eval.alignment import best_alignment
    from eval.coreference import recall_precision_f1
    from eval.lines import without_singletons
    from eval.ratio import ratio
    from eval.report import text_of
    from eval.table import Cell, Table

_HOME = declared(__file__)  # the modules of the names above; a module is imported when one of its names is first used


def __getattr__(name: str) -> Any:
    """Return a name of `clustering` or `eval`, and store it in this module."""
    if not name.startswith("__"):  # such as `__path__`, for which every import of a name asks
        package, dot, module = _HOME.get(name, _HOME["*"]).partition(".")
        with suppress(AttributeError):
            return globals().setdefault(name, getattr(import_module(_name_of(package) + dot + module), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _name_of(package: str) -> str:
    """Return the name under which to import a package beside arbo."""
    init = Path(__file__).resolve().parent.parent / package / "__init__.py"
    spec = find_spec(package)
    if spec is not None and spec.origin and Path(spec.origin).resolve().with_suffix(".py") == init:
        return package
    name = f"arbo._{package}"
    beside = spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
    assert beside is not None
    assert beside.loader is not None
    module = sys.modules[name] = module_from_spec(beside)
    beside.loader.exec_module(module)
    return name

"""The names of `eval` that arbo uses.

They are arbo's own even if the user has another module called `eval`, see `arbo.siblings`.
"""

from typing import TYPE_CHECKING, Any

from arbo.siblings import attribute

if TYPE_CHECKING:
    from eval import *
    from eval import plots, report
    from eval.arrays import Brief
    from eval.conll import BracketError, Chains, columns_of, is_comment
    from eval.lines import lines_of_codes, resampled, without_singletons
    from eval.ratio import ratio
    from eval.report import Value
    from eval.table import Cell, Table

# Maps modules of `eval` to the names above that they define; other names are looked up in the package `eval` itself.
_NAMES = {
    "arrays": "Brief",
    "conll": "BracketError Chains columns_of is_comment",
    "lines": "lines_of_codes resampled without_singletons",
    "ratio": "ratio",
    "report": "Value",
    "table": "Cell Table",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, "eval", _NAMES, name)

"""The edges of a table of entities: how likely two rows are one entity."""

from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import ClassVar, Self

import numpy as np

from arbo.data import KnowledgeBase
from arbo.data.codes import codes_of
from arbo.edges.model import THRESHOLD, EdgeModel, blocks, largest_shares, lists_of, weights_of
from arbo.edges.trees import Trees
from arbo.engine import Bools, Floats, Ids
from arbo.files import Format, check_manifest
from arbo.progress import Announce, quiet
from arbo.resolving.features import FEATURES, Rows
from arbo.retrieval.retrieval import Reasons, Retrieval
from arbo.settings import read_json

FORMAT = Format("arbo-rows", 1, {"trees": dict, "trained": dict}, "a model of rows", "install arbo again")
NEIGHBORS = 32
"""Number of nearest names by their letters that each row is compared with."""


@dataclass(frozen=True, eq=False)
class RowEdges(EdgeModel):
    """Weights of edges between rows: 1 minus the probability that they are one entity, by `Rows.features`.

    Rows of different types have no edge. A row without a type counts as of the type of its most probable partner, if
    that is more likely right than wrong.
    """

    neighbors: ClassVar[int] = NEIGHBORS

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int, announce: Announce = quiet) -> Retrieval:
        """Return the retrieval with the weights of this model, and at most ``k`` edges into each row."""
        rows = Rows.of(retrieval.inputs)
        first, second = rows.pairs(retrieval.mentions)
        weight = np.empty(len(first), np.float32)
        for some in blocks(len(first)):
            features = rows.features(first[some], second[some])
            weight[some] = weights_of(self.mentions.scores(features), features, FEATURES)
        types = codes_of([type_ or "" for type_ in retrieval.inputs.column("type")] + [""])
        kept = _of_one_type(types[:-1], int(types[-1]), first, second, weight)
        first, second, weight = first[kept], second[kept], weight[kept]
        ends = np.concatenate([first, second]), np.concatenate([second, first])
        edges = lists_of(*ends, np.concatenate([weight, weight]), np.arange(len(rows.numbers)), k)
        settings, limits = {**retrieval.settings, "edges": self.settings}, (retrieval.threshold[0], THRESHOLD)
        explain = partial(self._row_reasons, rows)
        return replace(retrieval, mentions=edges, threshold=limits, settings=settings, reasons=explain)

    def _row_reasons(self, rows: Rows, first: Ids, second: Ids) -> Reasons:
        """Return the features that counted most for pairs of rows."""
        return largest_shares(
            FEATURES, len(first), lambda some: self.mentions.shares(rows.features(first[some], second[some]))
        )

    @classmethod
    def default(cls) -> Self:
        """Load the model that arbo contains; `benchmarks/resolve.py` makes it."""
        file = files("arbo.resolving") / "rows.json"
        content = check_manifest(read_json(str(file), "the model of rows"), FORMAT, str(file))
        return cls(Trees.from_dict(content["trees"], len(FEATURES), file=str(file)), None, content["trained"])


def _of_one_type(types: Ids, unknown: int, first: Ids, second: Ids, weight: Floats) -> Bools:
    """Tell which pairs have one type, where rows of the type ``unknown`` count as of that of their lightest edge."""
    types, known = types.copy(), types != unknown
    row, other = np.concatenate([first, second]), np.concatenate([second, first])
    weight = np.concatenate([weight, weight])
    likely = np.flatnonzero(~known[row] & known[other] & (weight <= THRESHOLD))
    likely = likely[np.lexsort((-other[likely], -weight[likely]))]  # of several assignments, the last one stays
    types[row[likely]] = types[other[likely]]
    return np.asarray(types[first] == types[second])

"""The result of linking: the tables of a run, with methods to explain, evaluate and save them."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from arbo.data.tables import blank_notes, metadata_in
from arbo.errors import counted
from arbo.files import PathLike
from arbo.results.explanation import explain
from arbo.results.export import export, flat_table
from arbo.results.graphs import only_graph, pairs
from arbo.results.run import ROWS_SHOWN, Run, table_of
from arbo.results.run_folder import save_run
from arbo.results.schema import SCHEMA

if TYPE_CHECKING:
    from arbo.results.evaluation import Evaluation


@dataclass(frozen=True, eq=False, repr=False)
class Result(Run):
    """Links, NIL decisions and clusters of a collection of mentions; `Run` describes its tables and views."""

    explain, export, pairs = explain, export, pairs

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the result: giants, ties in most links, or a gold id that seems to mean NIL."""
        kind = "mention" if self.manifest["config"]["nil_linkage"] == "single" else "NIL"
        giants = (_warning(kind, **giant) for giant in self.manifest.get("giants", ()))
        return (*self.manifest.get("warnings", ()), *giants)

    def evaluate(
        self, *, train: Iterable[Any] | None = None, per_document: bool = False, singletons: bool = True
    ) -> "Evaluation":
        """Score the result against the gold annotations of its mentions.

        Args:
            train: documents whose gold entities count as seen; adds scores of links for seen and unseen entities.
            per_document: score coreference within each document: all clusters are split by document, without ARI.
            singletons: if False, gold and predicted clusters of one mention are left out, and there is no ARI.
        """
        from arbo.results.evaluation import evaluate

        return evaluate(self, train=train, per_document=per_document, singletons=singletons)

    def save(self, folder: PathLike, *, texts: bool = True) -> None:
        """Write a run folder, completely or not at all; only an earlier run folder is replaced.

        Without ``texts``, the texts of documents and all metadata are left out, so that the run cannot grow; mentions
        keep their texts, and ``growth.npz`` says which are alike and what was decided. Raise UsageError if the folder
        cannot be written, or has other content, and DataError if its manifest is not that of a run.
        """
        tables = {name: getattr(self, field.name) for name, field in zip(SCHEMA, fields(self), strict=False)}
        if not texts:
            for name, private in {"documents": {"text", "metadata"}, "mentions": {"metadata"}}.items():
                tables[name] = tables[name].drop_columns([*private.intersection(tables[name].column_names)])
        arrays = self.arrays()
        save_run(tables, self.manifest, folder, only_graph(arrays) if arrays and not texts else arrays)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row for each mention, see `arbo.results.export.flat_table`.

        If the documents were a frame or a Series, the rows have its index, so that `frame.join` joins them; a run saved
        without texts has lost this index.
        """
        from pandas import Index

        metadata, index = metadata_in(self.mention_table), self.manifest.get("index", {})
        frame = flat_table(self, metadata).to_pandas()
        columns = {key: renamed if (renamed := f"own_{key}") in frame else key for key in index}
        if not index or not {*columns.values()} <= {*frame}:
            return frame
        levels = []
        for key in index:
            labels = [json.dumps(one) if isinstance(one, list) else one for one in (row.get(key) for row in metadata)]
            levels.append(Index(frame[key] if all(label is None for label in labels) else labels))
        return frame.drop(columns=[*columns.values()]).set_index(levels).rename_axis([*index.values()])

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        """Give the rows of `to_pandas` to polars and others, for example to ``polars.DataFrame(result)``."""
        return flat_table(self).__arrow_c_stream__(schema)

    def _repr_html_(self) -> str:
        return table_of([link.row for link in self.links[:ROWS_SHOWN]], repr(self), len(self.links)).to_html()

    def __repr__(self) -> str:
        nil, found = self.n_nil, counted(len(self.discovered), "discovered entities")
        counts = blank_notes(self.tables) | {"warnings": len(self.warnings)}
        more = "".join(f"; {counted(n, note)}" for note, n in counts.items() if n)
        if len(self.document_table) and not len(self.mention_table):
            more = "; no document has a mention: see arbo.find_mentions"
        if self.manifest["knowledge_base"] is None:
            return f"Result({counted(nil, 'mentions')} in {found}{more})"
        return f"Result({counted(self.mention_table.num_rows - nil, 'linked mentions')}, {nil:,} NIL, {found}{more})"


def _warning(kind: str, cluster: str, mentions: int, share: float, names: int, splits_below: float) -> str:
    """Describe a giant, see `arbo.linking.tables`, and the threshold of a ``kind`` that splits it."""
    head = (
        f"the discovered cluster {cluster} has {share:.0%} of all mentions: {mentions:,} under {names:,} names; the "
        "page of the run (arbo explore) shows the bridges that join its largest parts"
    )
    below = math.floor(splits_below * 1000) / 1000
    tail = f"set the {kind} threshold below {below:.3f} to split it"
    return f"{head}\n{tail if below else f'no {kind} threshold splits it: its mentions have equal vectors'}"

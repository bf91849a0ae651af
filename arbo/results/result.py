"""What linking gives: the tables of a run, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from arbo.data.corpus import Corpus
from arbo.files import PathLike
from arbo.results.evaluation import Evaluation, evaluate
from arbo.results.explanation import Explanation, explain
from arbo.results.giants import Giant, giants_of
from arbo.results.run import Link, Run
from arbo.results.run_folder import load_run, save_run


@dataclass(frozen=True, eq=False, repr=False)
class Result(Run):
    """Links, NIL decisions and clusters of a collection of mentions.

    The tables hold a row a mention, a mention, a cluster, and a document; their columns are described in
    `arbo.linking.tables`.
    """

    @property
    def giants(self) -> tuple[Giant, ...]:
        """Discovered clusters that have swallowed too much, with the edges that did it; largest first."""
        return giants_of(self)

    def explain(self, link: Link | str) -> Explanation:
        """Say why a link, or a mention of this id, is what it is: the path from the entity, or what kept them away."""
        return explain(self, self.link_of(link) if isinstance(link, str) else link)

    def evaluate(self, *, train: Iterable[Any] | None = None) -> Evaluation:
        """Score the result against the gold annotations of its mentions.

        Args:
            train: documents whose gold entities count as seen; linking is then also given for seen and unseen.

        """
        return evaluate(self, train=None if train is None else Corpus.of(train))

    def save(self, folder: PathLike, *, texts: bool = True) -> None:
        """Write a run folder; complete or not at all. A run folder of that name is replaced, nothing else is.

        Args:
            folder: where.
            texts: whether the texts of the documents are kept in it; mentions keep theirs.

        """
        tables = {"mentions": self.mention_table, "links": self.link_table, "clusters": self.cluster_table}
        if self.document_table is not None:
            dropped = [] if texts else [name for name in self.document_table.column_names if name == "text"]
            tables["documents"] = self.document_table.drop_columns(dropped)
        save_run(tables, self.manifest, folder)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read a run folder, checking that its files are those that were written."""
        tables, manifest = load_run(folder)
        return cls(tables["mentions"], tables["links"], tables["clusters"], manifest, tables.get("documents"))

    def with_seconds(self, seconds: dict[str, float]) -> Self:
        """Return the same result with the seconds spent by stage in its manifest."""
        return replace(self, manifest={**self.manifest, "seconds": seconds})

    def __repr__(self) -> str:
        nil = self.link_table["entity_id"].null_count
        return (
            f"Result({self.link_table.num_rows - nil:,} linked mentions, {nil:,} NIL, "
            f"{len(self.discovered):,} discovered entities)"
        )

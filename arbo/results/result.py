"""The result of linking: the tables of a run, with methods to explain, evaluate and save them."""

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

    There are four tables: mentions and links have a row for each mention, clusters a row for each cluster, documents
    a row for each document; `arbo.linking.tables` describes their columns.
    """

    @property
    def giants(self) -> tuple[Giant, ...]:
        """Discovered clusters that are too large, with the edges that join their parts; largest first."""
        return giants_of(self)

    def explain(self, link: Link | str) -> Explanation:
        """Explain the link of a mention: the path from the entity, or for NIL the nearest entity and mentions."""
        return explain(self, self.link_of(link) if isinstance(link, str) else link)

    def evaluate(self, *, train: Iterable[Any] | None = None) -> Evaluation:
        """Score the result against the gold annotations of its mentions.

        Args:
            train: documents whose gold entities count as seen; adds scores of links for seen and unseen entities.

        """
        return evaluate(self, train=None if train is None else Corpus.of(train))

    def save(self, folder: PathLike, *, texts: bool = True) -> None:
        """Write a run folder, completely or not at all; only an earlier run folder is replaced.

        Args:
            folder: the folder to write.
            texts: keep the texts of the documents and all metadata; the surfaces of mentions are always kept.

        """
        tables = {"mentions": self.mention_table, "links": self.link_table, "clusters": self.cluster_table}
        if self.document_table is not None:
            tables["documents"] = self.document_table
        if not texts:
            private = {("documents", "text"), ("documents", "metadata"), ("mentions", "metadata")}
            for name, table in tables.items():
                tables[name] = table.drop_columns([key for key in table.column_names if (name, key) in private])
        save_run(tables, self.manifest, folder)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read a run folder, and check the hashes of its files."""
        tables, manifest = load_run(folder)
        return cls(tables["mentions"], tables["links"], tables["clusters"], manifest, tables.get("documents"))

    def with_seconds(self, seconds: dict[str, float]) -> Self:
        """Return the same result, with the seconds of each stage in its manifest."""
        return replace(self, manifest={**self.manifest, "seconds": seconds})

    def __repr__(self) -> str:
        nil = self.link_table["entity_id"].null_count
        return (
            f"Result({self.link_table.num_rows - nil:,} linked mentions, {nil:,} NIL, "
            f"{len(self.discovered):,} discovered entities)"
        )

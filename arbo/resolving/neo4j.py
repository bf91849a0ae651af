"""A resolver for neo4j-graphrag, in place of its exact, fuzzy and spaCy resolvers."""

from typing import Any

from arbo.errors import MissingDependency
from arbo.resolving.resolution import THRESHOLD, resolve

try:
    from neo4j_graphrag.components.resolver import EntityResolver, ResolutionStats
except ImportError:  # an earlier version, or none
    try:
        from neo4j_graphrag.experimental.components.resolver import EntityResolver, ResolutionStats
    except ImportError:
        EntityResolver, ResolutionStats = object, None

_READ = """
MATCH (entity:__Entity__) {where}
RETURN elementId(entity) AS id, labels(entity) AS labels, properties(entity) AS properties ORDER BY id
"""
_MERGE = """
UNWIND $ids AS id MATCH (entity) WHERE elementId(entity) = id WITH collect(entity) AS entities
CALL apoc.refactor.mergeNodes(entities, {properties: 'discard', mergeRels: true}) YIELD node RETURN elementId(node)
"""
_OWN_LABELS = {"__Entity__", "__KGBuilder__"}


class ArboResolver(EntityResolver):  # type: ignore[misc]
    """Merges nodes that `arbo.resolve` finds to be one entity.

    Args:
        driver: the driver of the database, which needs the plugin APOC, as the other resolvers do.
        filter_query: a Cypher WHERE clause that says which nodes ``entity`` to resolve.
        name: the property with the name; nodes without one are left alone.
        context: the property with a text, such as a description.
        threshold: see `arbo.resolve`.
        neo4j_database: the name of the database.
    """

    def __init__(
        self,
        driver: Any,
        filter_query: str | None = None,
        name: str = "name",
        context: str = "description",
        threshold: float = THRESHOLD,
        neo4j_database: str | None = None,
    ) -> None:
        if ResolutionStats is None:
            raise MissingDependency("the resolver for Neo4j", extra="neo4j")
        super().__init__(driver, filter_query)
        self.name, self.context, self.threshold, self.neo4j_database = name, context, threshold, neo4j_database

    async def run(self) -> ResolutionStats:
        """Merge nodes with the same labels; the properties of the node with the canonical name stay."""
        query = _READ.replace("{where}", self.filter_query or "")
        records, _, _ = self.driver.execute_query(query, database_=self.neo4j_database)
        rows = [
            {
                "id": record["id"],
                "name": record["properties"][self.name],
                "type": "|".join(sorted({*record["labels"]} - _OWN_LABELS)) or "__Entity__",
                "text": record["properties"].get(self.context),
            }
            for record in records
            if str(record["properties"].get(self.name) or "").strip()
        ]
        merges = resolve(rows, "name", "type", "text", threshold=self.threshold).merges if rows else ()
        for merge in merges:
            others = [row for row in merge.rows if row != merge.canonical]
            ids = [rows[row]["id"] for row in (merge.canonical, *others)]
            self.driver.execute_query(_MERGE, {"ids": ids}, database_=self.neo4j_database)
        return ResolutionStats(number_of_nodes_to_resolve=len(rows), number_of_created_nodes=len(merges))

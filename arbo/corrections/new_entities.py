"""New entities, which people named in corrections, as entities of a knowledge base."""

import numpy as np

from arbo.data import Entity
from arbo.data.tables import names_in
from arbo.results.result import Result
from arbo.text.phrases import refers_back


def new_entities(result: Result) -> list[Entity]:
    """Return the discovered entities that people named, in the order of the run.

    An entity has the id of its cluster, the name that people gave it, and the distinct names of its mentions as
    aliases, but for pronouns and phrases like "the company"; its types are those of its mentions.
    """
    lines = (row["record"] for row in result.corrections if row["status"] == "obeyed")
    named = [result.row_of[record["mention"]] for record in lines if "new" in record]
    order, start = result.rows_of_cluster
    entities = []
    for place in np.unique(result.cluster_rows[named]).tolist():
        mentions = result.mention_table.take(order[start[place] : start[place + 1]])
        cluster = {name: result.cluster_table[name][place].as_py() for name in ("cluster_id", "name")}
        names = names_in(mentions).to_pylist()
        aliases = dict.fromkeys(name for name in names if name != cluster["name"] and not refers_back(name))
        types = sorted(set(mentions["type"].drop_null().to_pylist()))
        domain = mentions["domain"][0].as_py()
        entities.append(
            Entity(cluster["cluster_id"], cluster["name"], tuple(aliases), types=tuple(types), domain=domain)
        )
    return entities

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
        id_, name = (result.cluster_table[key][place].as_py() for key in ("cluster_id", "name"))
        others = (one for one in names_in(mentions).to_pylist() if one != name and not refers_back(one))
        types = tuple(sorted(set(mentions["type"].drop_null().to_pylist())))
        domain = mentions["domain"][0].as_py()
        entities.append(Entity(id_, name, tuple(dict.fromkeys(others)), types=types, domain=domain))
    return entities

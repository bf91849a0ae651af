"""Withhold a branch of an ontology, so that its mentions become NIL.

Wiatrak et al. 2022 (Proxy-based zero-shot entity linking by effective candidate retrieval, section 5.1 and appendix D)
check that such mentions are neither easier nor harder than others: their entities and names occur in training as often,
and their entities are defined as often.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from arbo import KnowledgeBase, Mention
from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from eval.ratio import ratio
from library.results import Row


def rows_below(kb: KnowledgeBase, top: str, parents: Mapping[str, Sequence[str]]) -> set[int]:
    """Return the rows of an entity and of all its descendants, even if reached through ids without an entity."""
    children: defaultdict[int | str, set[int | str]] = defaultdict(set)
    for id_, above in parents.items():
        for parent in above:
            for node in kb.rows(parent) or (parent,):
                children[node].update(kb.rows(id_) or (id_,))
    found: set[int | str] = {*kb.rows(top)}
    waiting = [*found]
    while waiting:
        new = children[waiting.pop()] - found  # a circle ends here
        found |= new
        waiting += new
    return {node for node in found if isinstance(node, int)}


def without_rows(kb: KnowledgeBase, gone: set[int]) -> KnowledgeBase:
    """Return the entities but those in the rows ``gone``."""
    return KnowledgeBase(entity for row, entity in enumerate(kb) if row not in gone)


def checks(kb: KnowledgeBase, gone: set[int], parts: Mapping[str, Corpus]) -> Iterator[Row]:
    """Yield figures of the mentions that become NIL, and of all, in each part; the first part is for training."""
    of_part = {
        name: [(mention, {*rows}) for mention, rows in zip(part.mentions, Gold.of(part, kb).lists, strict=True) if rows]
        for name, part in parts.items()
    }
    training = next(iter(of_part.values()))
    known = {row for _, rows in training for row in rows}
    names = {mention.text.casefold() for mention, _ in training}

    def check(mentions: list[tuple[Mention, set[int]]]) -> Row:
        own = {row for _, rows in mentions for row in rows}
        lengths = [len(text) for row in own if (text := (kb.entities[row].definition or "").strip())]
        counts = {
            "mentions": len(mentions),
            "entities": len(own),
            "entities_seen": len(own & known),
            "mentions_seen": sum(not rows.isdisjoint(known) for _, rows in mentions),
            "names_seen": sum(mention.text.casefold() in names for mention, _ in mentions),
            "defined": len(lengths),
        }
        of_mentions, of_entities = counts["mentions"], counts["entities"]
        return {
            **counts,
            "definition_length": median(lengths) if lengths else 0.0,
            "entities_seen_share": ratio(counts["entities_seen"], of_entities),
            "mentions_seen_share": ratio(counts["mentions_seen"], of_mentions),
            "names_seen_share": ratio(counts["names_seen"], of_mentions),
            "defined_share": ratio(counts["defined"], of_entities),
        }

    for name, mentions in of_part.items():
        nil = [(mention, rows) for mention, rows in mentions if rows <= gone]
        for kind, some in (("NIL", nil), ("all", mentions)):
            yield {"part": name, "mentions of": kind, **check(some)}

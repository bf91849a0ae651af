"""Turn corrections into decisions about the mentions of a graph, and find the mentions that follow them.

How far a correction spreads is a setting (`LinkerConfig.spread`). ``none``: the edges out of a corrected mention are
left out. ``same-name``: besides, an uncorrected mention of the same compared name, type and domain gets the same root
(the entity, new entity, or none of the knowledge base), unless corrections of that name disagree, or it is no name,
such as "she". ``graph``: mentions of the same name get the same root, and the edges of the graph do the rest.
``unlinked``: the same, but mentions that nobody decided on keep the entity that they have without corrections. A
mention that is as similar as `SURE` to an entity stays with it, unless its own document or two documents that agree say
otherwise of its name. Nothing that a person decided is overruled by what spreads from others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from arbo.corrections.agreement import NO_ENTITY, Agreement, Root, agree
from arbo.corrections.lines import Correction
from arbo.data import Inputs, KnowledgeBase, coded, codes_of, grouped, names_in
from arbo.engine import NEW, OUTSIDE, UNDECIDED, Bools, Decisions, Ids, Partition
from arbo.text.phrases import shared_name

SURE = 0.8
"""The similarity to its entity from which on a mention does not leave it for a correction in one other document alone;
chosen on the development parts of NCBI disease and BC5CDR diseases (``benchmarks/review.py``)."""


@dataclass(frozen=True, eq=False, slots=True)
class Constraints:
    """Corrections as decisions about the mentions of a graph."""

    lines: Sequence[Correction]
    """All corrections, with what became of them."""
    decisions: Decisions
    names: tuple[str, ...]
    """The names of the new entities of the decisions."""
    several: tuple[tuple[int, ...], ...]
    """The rows of entities that are one root together; in the graph, these roots follow the knowledge base."""
    corrected: Bools
    """(mentions,) whether a correction that is obeyed names the mention."""
    namesake: Ids
    """(mentions,) the corrected mention of the same name that gave it a root; itself if it keeps an entity; else -1."""

    def named(self, clusters: Partition) -> dict[int, tuple[int, str]]:
        """Return the first corrected mention and the name of each cluster of a new entity, by the cluster's label."""
        named: dict[int, tuple[int, str]] = {}
        labels = clusters.labels[clusters.n_entities :]
        is_new = (self.decisions.root <= NEW) & ~self.decisions.passed_on
        for mention in np.flatnonzero(is_new).tolist():
            named.setdefault(int(labels[mention]), (mention, self.names[NEW - int(self.decisions.root[mention])]))
        return named

    def follows(self, clusters: Partition) -> Ids:
        """Return, for each mention, the corrected mention whose decision it follows, (mentions,); -1 for none."""
        assert clusters.follows is not None
        chain = self.namesake[clusters.follows]  # where that mention follows another by its name
        followed = np.where((clusters.follows >= 0) & (chain >= 0), chain, clusters.follows)
        followed = np.where(self.namesake >= 0, self.namesake, followed)
        followed[self.corrected | (followed == np.arange(len(followed)))] = -1
        # A namesake that `different` or `not` cut off does not follow; neither do mentions that hang below it.
        together = clusters.labels[clusters.n_entities :]
        outside = self.decisions.root == OUTSIDE
        cut = (followed >= 0) & (together[followed] != together) & ~(outside[followed] & (clusters.entity < 0))
        return np.where(cut, -1, followed)

    def sparing(self, before: Ids, clusters: Partition, clustered: Callable[..., Partition]) -> tuple[Self, Partition]:
        """Return constraints and a partition in which mentions that nobody decided on keep their entity.

        ``before`` is the entity of each mention without corrections, (mentions,), -1 for none; ``clusters`` is the
        partition by these constraints, and ``clustered`` makes that of other ``decisions``.
        """
        constraints = self
        while True:
            of = constraints.decisions
            loses = (before >= 0) & (clusters.entity != before) & (of.root == UNDECIDED) & ~self.corrected
            if not loses.any():
                return constraints, clusters
            root = np.where(loses, before, of.root)
            of = of._replace(root=root, passed_on=of.passed_on | loses, alone=of.alone | loses)
            constraints, clusters = replace(constraints, decisions=of), clustered(decisions=of)

    def counts(self, follows: Ids) -> dict[str, int]:
        """Count the corrections by status, mentions that are corrected or follow, and what several people agree on."""
        states = [line.status for line in self.lines]
        by_status = {name: states.count(name) for name in ("obeyed", "replaced", "waiting", "conflict")}
        by_name = int((follows >= 0)[self.namesake >= 0].sum())
        followed = {"same_name": by_name, "graph": int((follows >= 0).sum()) - by_name}
        authors, disputed = defaultdict[str, set[str | None]](set), set[str]()
        for line in self.lines:
            if line.kind in ("entity", "new") and line.status != "replaced":
                authors[line.mentions[0]].add(line.author)
                disputed.update(line.mentions if line.status == "conflict" else ())
        shared = {mention for mention, of in authors.items() if len(of) > 1}
        agreed = {"by_several": len(shared), "agreed": len(shared - disputed)} if shared else {}
        return {"corrections": len(states), **by_status, "mentions": int(self.corrected.sum()), **followed, **agreed}


def constraints_on(
    corrections: Sequence[Correction], inputs: Inputs, kb: KnowledgeBase | None, spread: str, sure: Ids | None = None
) -> Constraints:
    """Return the decisions that corrections make about the mentions of a graph, whose entities are those of ``kb``.

    Corrections of spans stay as they are: `arbo.corrections.edits` obeys them. The decisions are for `partition`, and
    for `Retrieval.graph`, which adds edges from further entities to a mention for which they rule out an entity.
    ``sure`` is the row of the entity to which a mention is as similar as `SURE`, (mentions,), -1 for none; None if
    each mention follows corrections of its own document alone.
    """
    ids, domains = inputs.column("mention_id"), inputs.column("domain")
    there = {id_: row for row, id_ in enumerate(ids)}
    agreed = agree(corrections, dict(zip(ids, domains, strict=True)), kb)
    of_groups = agreed.roots()
    root = {row: of_groups[group] for m, row in there.items() if (group := agreed.group_of(m)) in of_groups}
    namesake: Ids = np.full(len(inputs), -1, np.int64)
    if spread != "none":
        for row, (twin, key) in _namesakes(agreed, inputs, there, root, sure).items():
            root[row], namesake[row] = key, twin
    several = tuple(sorted({key[1] for key in root.values() if key[0] == "several"}))
    number = {rows: len(kb or ()) + place for place, rows in enumerate(several)}
    root = {row: ("entity", number[key[1]]) if key[0] == "several" else key for row, key in root.items()}
    roots, names = _numbered(root, domains)
    corrected = np.zeros(len(inputs), np.bool_)
    named = (mention for line in agreed.lines if line.status == "obeyed" for mention in line.mentions)
    corrected[[there[mention] for mention in named if mention in there]] = True
    stays = corrected | (roots != UNDECIDED) if spread in ("none", "same-name") else roots >= len(kb or ())
    stays |= namesake == np.arange(len(inputs))
    decisions = Decisions(roots, namesake >= 0, stays, *_pairs(agreed, there))
    return Constraints(agreed.lines, decisions, names, several, corrected, namesake)


def _numbered(root: Mapping[int, Root], domain: Sequence[str | None]) -> tuple[Ids, tuple[str, ...]]:
    """Return the roots of the mentions as numbers, and the names of the new entities, each of one domain."""
    domains = {row: domain[row] or "" for row in root}
    new = sorted({(str(key[1]), domains[row]) for row, key in root.items() if key[0] == "new"})
    number = {name: NEW - i for i, name in enumerate(new)}
    roots: Ids = np.full(len(domain), UNDECIDED, np.int64)
    for row, key in root.items():
        roots[row] = OUTSIDE if key == NO_ENTITY else key[1] if key[0] == "entity" else number[key[1], domains[row]]
    return roots, tuple(name for name, _ in new)


def _pairs(agreed: Agreement, there: Mapping[str, int]) -> Iterator[Ids]:
    """Yield the pairs of mentions that are the same, of mentions that differ, and of mentions and wrong entities."""
    members = grouped((group, there[mention]) for mention, group in agreed.group.items() if mention in there)
    for pairs in (
        [pair for group in members.values() for pair in pairwise(group)],
        [(there[one], there[other]) for one, other in agreed.different if one in there and other in there],
        [(there[mention], entity) for mention, entity in agreed.wrong() if mention in there],
    ):
        yield np.array(pairs, np.int64).reshape(-1, 2)


def _namesakes(
    agreed: Agreement, inputs: Inputs, there: Mapping[str, int], root: Mapping[int, Root], sure: Ids | None
) -> dict[int, tuple[int, Root]]:
    """Return a corrected mention of the same name, and its root, for each mention that shall have this root."""
    ids, document = inputs.column("mention_id"), inputs.column("document_id")
    name = name_numbers(inputs.corpus.tables.mentions, per_document=sure is None)[inputs.rows].tolist()
    decided, homes = defaultdict[int, dict[Root, int]](dict), defaultdict[int, set[str]](set)
    for row in sorted(root):
        decided[name[row]].setdefault(root[row], row)
        homes[name[row]].add(document[row])
    for mention, entity in agreed.wrong():
        if mention in there and ("entity", entity) in (known := decided.get(name[there[mention]], {})):
            known["not", entity] = -1
    agree_on = {of: next(iter(known.items())) for of, known in decided.items() if len(known) == 1}
    proposed, members = defaultdict[str, dict[Root, int]](dict), defaultdict[str, list[int]](list)
    for row in range(len(inputs)):
        group = agreed.group_of(ids[row])
        if row not in root and (agree_on or group in agreed.group):
            members[group].append(row)
            if (proposal := agree_on.get(name[row])) is not None:
                own: Root = ("entity", -1 if sure is None else int(sure[row]))
                is_apart = len(homes[name[row]]) == 1 and document[row] not in homes[name[row]]
                key, twin = (own, row) if own[1] != -1 and is_apart and own != proposal[0] else proposal
                proposed[group].setdefault(key, twin)
    chosen = {group: next(iter(keys)) for group, keys in proposed.items() if len(keys) == 1}
    for group in _overruling(agreed, chosen):
        del chosen[group]
    return {row: (proposed[group][key], key) for group, key in chosen.items() for row in members[group]}


def name_numbers(mentions: pa.Table, *, per_document: bool) -> Ids:
    """Return a number for each mention: the same for the same compared name, type and domain, perhaps ``per_document``.

    Mentions such as "she" or "the company" name nothing, and have a number each.
    """
    code, distinct = coded(names_in(mentions))
    names = [shared_name(name) for name in distinct.to_pylist()]
    number, is_name = codes_of(names)[code], np.array([name is not None for name in names], np.bool_)[code]
    for column in ("type", "domain", *["document_id"] * per_document):
        code, values = coded(mentions[column])
        number = np.unique(number * (len(values) + 1) + code, return_inverse=True)[1]
    return np.where(is_name, number, len(number) + np.arange(len(number)))


def _overruling(agreed: Agreement, proposed: Mapping[str, Root]) -> set[str]:
    """Return the groups whose proposed root would violate a `not` or a `different`."""
    wrong = ((agreed.group_of(mention), entity) for mention, entity in agreed.wrong())
    groups = {group for group, entity in wrong if proposed.get(group) == ("entity", entity)}
    roots = {**proposed, **agreed.roots()}
    for one, other in (map(agreed.group_of, pair) for pair in agreed.different):
        if roots.get(one, NO_ENTITY) == roots.get(other) != NO_ENTITY:
            groups |= {one, other} & proposed.keys()
    return groups

"""Which corrections can be obeyed together; the order of the lines matters only between lines of one author.

1. A later line of the same author replaces the earlier lines that it contradicts.
2. Lines that contradict each other about the same mention, pair or spans are a conflict; none of them is obeyed.
3. Mentions that are the same form groups, over mentions that are gone too. If what is known of the mentions of a group
   is contradictory, or they are of several domains, its lines ``same`` are a conflict; what is known of each mention
   holds.
4. ``different`` is a conflict if both mentions are in one group, or have one entity by corrections.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import scipy  # its modules are imported when they are used

from arbo.corrections.lines import Correction
from arbo.data import KnowledgeBase, grouped

Claim = tuple[Any, ...]
"""What a line claims, such as ``("root", "entity", row)`` or ``("not", "entity", row)`` of a mention."""
Root = tuple[Any, ...]
"""What a mention is: ``("entity", row)``, ``("several", rows)``, `NO_ENTITY` (none of the knowledge base), or
``("new", name)``."""
NO_ENTITY: Root = ("outside",)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The corrections that can be obeyed together."""

    lines: list[Correction]
    """All corrections, with what became of them."""
    claims: dict[str, dict[Claim, Correction]] = field(default_factory=lambda: defaultdict(dict))
    """Of mentions: what is claimed of them, and the line."""
    group: dict[str, str] = field(default_factory=dict)
    """Of mentions in lines ``same``: one mention of the group."""
    different: list[tuple[str, str]] = field(default_factory=list)

    def group_of(self, mention: str) -> str:
        """Return the name of a mention's group: the id of one of its mentions; without a group, that of the mention."""
        return self.group.get(mention, mention)

    def roots(self) -> dict[str, Root]:
        """Return the root (`Root`) of each group of mentions that has one, by the name that `group_of` returns."""
        every = ((self.group_of(mention), claim) for mention, claims in self.claims.items() for claim in claims)
        return {group: claim[1:] for group, claim in every if claim[0] == "root"}

    def wrong(self) -> list[tuple[str, int]]:
        """Return pairs of a mention and the row of an entity that it is not."""
        return [(mention, claim[2]) for mention, claims in self.claims.items() for claim in claims if claim[0] == "not"]


def settled(lines: Sequence[Correction], claims: Sequence[tuple[Hashable, Claim] | None]) -> list[Correction]:
    """Return all lines; one that a later line of its author contradicts gets the status ``replaced``.

    Lines of several authors that contradict each other get the status ``conflict``. ``claims`` has the subject of each
    line, and what the line claims about it; None for a line that stays as it is.
    """
    about = grouped((claimed[0], (place, claimed[1])) for place, claimed in enumerate(claims) if claimed is not None)
    outcomes = list(lines)
    for of_subject in about.values():
        later: defaultdict[str | None, dict[Claim, int]] = defaultdict(dict)
        current: defaultdict[Claim, list[int]] = defaultdict(list)
        for place, claim in reversed(of_subject):
            of_author = later[lines[place].author]
            by = next((other for held, other in of_author.items() if _contradict(held, claim)), None)
            of_author.setdefault(claim, place)
            if by is None:
                current[claim].append(place)
            else:
                outcomes[place] = lines[place].but("replaced", f"replaced by {lines[by]}")
        for claim, places in current.items():
            others = [at[-1] for held, at in current.items() if _contradict(held, claim)]
            for place in places if others else ():
                outcomes[place] = lines[place].but("conflict", f"contradicts {lines[min(others)]}")
    return outcomes


def _contradict(one: Claim, other: Claim) -> bool:
    if "not" in (one[0], other[0]):
        rows = [claim[2] if claim[1] == "several" else claim[2:3] for claim in (one, other)]
        return one[0] != other[0] and not {*rows[0]}.isdisjoint(rows[1])
    return one != other


def agree(lines: Sequence[Correction], domain_of: Mapping[str, str | None], kb: KnowledgeBase | None) -> Agreement:
    """Return which corrections can be obeyed together; ``domain_of`` has the domain of each mention by its id.

    Corrections of spans stay as they are.
    """
    claims = [None if line.document is not None else _claim(line, domain_of, kb) for line in lines]
    agreement = Agreement(settled(lines, claims))
    for place, (line, claimed) in enumerate(zip(agreement.lines, claims, strict=True)):
        if claimed is not None and line.status == "obeyed" and line.kind in ("entity", "new", "not"):
            mention, claim = claimed
            if claim[1] == "unknown":
                agreement.lines[place] = line.but("waiting", claim[-1])
            else:
                agreement.claims[mention][claim] = line
    _join(agreement, domain_of)
    _part(agreement)
    for place, line in enumerate(agreement.lines):
        missing = [mention for mention in line.mentions if mention not in domain_of]
        if line.status == "obeyed" and missing:
            enough = line.kind == "same" and len(line.mentions) - len(missing) > 1
            reason = f"no mention has the id {', '.join(map(repr, missing[:3]))}; check it, or leave the line for later"
            agreement.lines[place] = line.but("obeyed" if enough else "waiting", reason)
    return agreement


def _claim(line: Correction, domain_of: Mapping[str, str | None], kb: KnowledgeBase | None) -> tuple[Any, Claim]:
    """Return the subject of a line and its claim: ``unknown``, with a reason, unless each id means one entity."""
    if line.kind in ("same", "different"):
        return frozenset(line.mentions), (line.kind,)
    (mention,), value = line.mentions, line.value
    if line.kind == "new":
        if kb is None or value not in kb.discovered:
            return mention, ("root", "new", value)
        value = kb.discovered[value]  # which was added since
    if value is None:
        return mention, ("root", *NO_ENTITY)
    kind, entities = "not" if line.kind == "not" else "root", set[int]()
    for id_ in (value,) if isinstance(value, str) else value:
        rows: tuple[int, ...] = () if kb is None else kb.rows(id_)
        if kb is not None and mention in domain_of:
            rows = kb.rows_within([id_], domain_of[mention])
        if kb is not None and len(rows) > 1:
            names = ", ".join(kb.entities[row].id for row in rows)
            return mention, (kind, "unknown", value, f"several entities have the id {id_!r}: {names}; name one")
        if not rows:
            where = "there is no knowledge base" if kb is None else "no entity of the mention's domain has the id"
            return mention, (kind, "unknown", value, f"{where}: {id_!r}; check it, or use the key 'new'")
        entities.update(rows)
    return mention, ((kind, "entity", *entities) if len(entities) == 1 else (kind, "several", tuple(sorted(entities))))


def _join(agreement: Agreement, domain_of: Mapping[str, str | None]) -> None:
    """Join the mentions that are the same to groups, but for groups that are a conflict."""
    same = {i: line for i, line in enumerate(agreement.lines) if line.kind == "same" and line.status == "obeyed"}
    if not same:
        return
    joined = scipy.cluster.hierarchy.DisjointSet(mention for line in same.values() for mention in line.mentions)
    for one, other in (pair for line in same.values() for pair in pairwise(line.mentions)):
        joined.merge(one, other)
    problems: dict[str, str] = {}
    for members in sorted(map(sorted, joined.subsets())):
        if reason := _problem(agreement, members, domain_of):
            problems |= dict.fromkeys(members, reason)
        else:
            agreement.group.update(dict.fromkeys(members, members[0]))
    for place, line in same.items():
        if line.mentions[0] in problems:
            agreement.lines[place] = line.but("conflict", problems[line.mentions[0]])


def _problem(agreement: Agreement, members: Sequence[str], domain_of: Mapping[str, str | None]) -> str | None:
    """Say why these mentions cannot be the same, if they cannot."""
    claimed = {claim: line for mention in members for claim, line in agreement.claims.get(mention, {}).items()}
    if bad := next((pair for pair in combinations(claimed, 2) if _contradict(*pair)), None):
        return "joins mentions, directly or through others, of: " + "; ".join(str(claimed[claim]) for claim in bad)
    domains = {domain_of[mention]: mention for mention in members if mention in domain_of}
    return f"joins mentions of different domains: {', '.join(domains.values())}" if len(domains) > 1 else None


def _part(agreement: Agreement) -> None:
    """Keep the pairs that differ, but for those that are a conflict."""
    roots = agreement.roots()
    for place, line in enumerate(agreement.lines):
        if line.kind != "different" or line.status != "obeyed":
            continue
        one, other = map(agreement.group_of, line.mentions)
        if one != other and (roots.get(one, NO_ENTITY) == NO_ENTITY or roots.get(one) != roots.get(other)):
            agreement.different.append((line.mentions[0], line.mentions[1]))
            continue
        about = [line for line in agreement.lines if line.status == "obeyed" and line.kind in ("entity", "new", "same")]
        about = [line for line in about if {agreement.group_of(line.mentions[0])} <= {one, other}]
        reason = f"both mentions have one entity, directly or through others: {'; '.join(map(str, about[:4]))}"
        agreement.lines[place] = line.but("conflict", reason)

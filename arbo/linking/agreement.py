"""Which corrections can be obeyed together; the order of the lines matters only between lines of one author.

1. A later line of the same author replaces the earlier lines that it contradicts.
2. Lines that contradict each other about the same mention, pair or spans are a conflict; none of them is obeyed.
3. Mentions that are the same form groups, over mentions that are gone too. If a group has several entities or domains,
   or an entity that one of its mentions is not, its lines ``same`` are a conflict; what is known of each mention holds.
4. ``different`` is a conflict if both mentions are in one group, or have one entity by corrections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from arbo.data.knowledge_base import KnowledgeBase
from arbo.linking.corrections import Correction

Claims = Iterator[tuple[Hashable, tuple[Any, ...]]]
"""What a line is about, and what it claims of it."""
OUTSIDE = ("outside",)
"""The root of mentions that are not in the knowledge base."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The corrections that can be obeyed together."""

    lines: list[Correction]
    """All corrections, with what became of them."""
    root: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of mentions: ``("entity", row)``, `OUTSIDE`, or ``("new", name)``."""
    wrong: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Of mentions: rows of the entities that they are not."""
    group: dict[str, str] = field(default_factory=dict)
    """Of mentions in lines ``same``: one mention of the group."""
    different: list[tuple[str, str]] = field(default_factory=list)

    def group_of(self, mention: str) -> str:
        """Return the name of the group of a mention, which may be the only one in it."""
        return self.group.get(mention, mention)

    def roots_of_groups(self) -> dict[str, tuple[Any, ...]]:
        """Return the root of each group that has one."""
        return {self.group_of(mention): root for mention, root in self.root.items()}


def settled(lines: Sequence[Correction], claims_of: Callable[[Correction], Claims]) -> list[Correction]:
    """Return the lines; those that were replaced, and those that contradict lines of other authors, say so."""
    about: defaultdict[Hashable, list[tuple[int, tuple[Any, ...]]]] = defaultdict(list)
    for place, line in enumerate(lines):
        if line.status == "obeyed":
            for subject, claim in claims_of(line):
                about[subject].append((place, claim))
    found = list(lines)
    for claims in about.values():
        later: defaultdict[str | None, dict[tuple[Any, ...], int]] = defaultdict(dict)
        current: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for place, claim in reversed(claims):
            of_author = later[lines[place].author]
            by = next((other for held, other in of_author.items() if _contradict(held, claim)), None)
            of_author.setdefault(claim, place)
            if by is None:
                current[claim].append(place)
            else:
                found[place] = lines[place].but("replaced", f"replaced by {lines[by]}")
        for claim, places in current.items():
            other = min((own[-1] for held, own in current.items() if _contradict(held, claim)), default=None)
            for place in places if other is not None else ():
                found[place] = lines[place].but("conflict", f"contradicts {lines[other]}")
    return found


def _contradict(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if "not" in (one[0], other[0]):
        return one[0] != other[0] and one[1:] == other[1:]
    return one != other


def agree(lines: Sequence[Correction], domain_of: Mapping[str, str | None], kb: KnowledgeBase | None) -> Agreement:
    """Return which corrections of mentions can be obeyed together; ``domain_of`` has the mentions that are there."""

    def claims(line: Correction) -> Claims:
        if line.kind in ("same", "different"):
            yield frozenset(line.mentions), (line.kind,)
        else:
            yield line.mentions[0], _claim(line, domain_of, kb)

    found = Agreement(settled(lines, claims))
    for place, line in enumerate(found.lines):
        if line.status == "obeyed" and line.kind in ("entity", "new", "not"):
            _hold(found, place, _claim(line, domain_of, kb), domain_of, kb)
    _join(found, domain_of)
    _part(found)
    for place, line in enumerate(found.lines):
        missing = [mention for mention in line.mentions if mention not in domain_of]
        if line.status == "obeyed" and missing:
            enough = line.kind == "same" and len(line.mentions) - len(missing) > 1
            told = f"no mention has the id {', '.join(map(repr, missing[:3]))}; check it, or leave the line for later"
            found.lines[place] = line.but("obeyed" if enough else "waiting", told)
    return found


def _claim(line: Correction, domain_of: Mapping[str, str | None], kb: KnowledgeBase | None) -> tuple[Any, ...]:
    """Return ``("root", *root)`` or ``("not", "entity", row)``; an unknown entity has its id instead of a row."""
    mention = line.mentions[0]
    if line.kind == "new":
        return "root", "new", line.value
    if line.value is None:
        return "root", *OUTSIDE
    rows = () if kb is None else kb.rows(line.value)
    if kb is not None and mention in domain_of:
        rows = kb.rows_within([line.value], domain_of[mention])
    return "root" if line.kind == "entity" else "not", "entity", rows[0] if rows else line.value


def _hold(
    found: Agreement,
    place: int,
    claim: tuple[Any, ...],
    domain_of: Mapping[str, str | None],
    kb: KnowledgeBase | None,
) -> None:
    """Keep what a line claims of a mention, unless its entity is unknown or belongs to another domain."""
    line, mention = found.lines[place], found.lines[place].mentions[0]
    if isinstance(claim[-1], str) and claim[1] == "entity":
        if kb is not None and line.value in kb.row_of:
            wrong = f"the entity {line.value!r} is not in the domain of the mention, {domain_of[mention]!r}"
            found.lines[place] = line.but("conflict", f"{wrong}; correct the id")
        else:
            where = "there is no knowledge base" if kb is None else f"no entity has the id {line.value!r}"
            found.lines[place] = line.but("waiting", f"{where}; check the id, or use the key 'new'")
    elif claim[0] == "not":
        found.wrong[mention].add(claim[2])
    else:
        found.root[mention] = claim[1:]


def _join(found: Agreement, domain_of: Mapping[str, str | None]) -> None:
    """Join the mentions that are the same to groups, but for groups that are a conflict."""
    same = {i: line for i, line in enumerate(found.lines) if line.kind == "same" and line.status == "obeyed"}
    up: dict[str, str] = {}

    def top(mention: str) -> str:
        while (above := up.setdefault(mention, mention)) != mention:
            up[mention] = up[above]
            mention = above
        return mention

    for line in same.values():
        for one, other in pairwise(line.mentions):
            low, high = sorted((top(one), top(other)))
            up[high] = low
    members: defaultdict[str, list[str]] = defaultdict(list)
    for mention in sorted(up):
        members[top(mention)].append(mention)
    problem = {name: told for name, own in members.items() if (told := _problem(found, own, domain_of))}
    for name, own in members.items():
        if name not in problem:
            found.group.update(dict.fromkeys(own, name))
    for place, line in same.items():
        if told := problem.get(top(line.mentions[0])):
            found.lines[place] = line.but("conflict", told)


def _problem(found: Agreement, members: Sequence[str], domain_of: Mapping[str, str | None]) -> str | None:
    """Say why these mentions cannot be the same, if they cannot."""
    roots = {found.root[mention]: mention for mention in reversed(members) if mention in found.root}
    domains = {domain_of[mention]: mention for mention in reversed(members) if mention in domain_of}
    if len(roots) > 1:
        one, other = sorted(roots.values())[:2]
        return f"joins {one!r} and {other!r}, but: {_line_about(found, one)}; {_line_about(found, other)}"
    if len(domains) > 1:
        one, other = sorted(domains.values())[:2]
        return f"joins {one!r} and {other!r}, which belong to different domains"
    for root, mention in roots.items():
        for other in members:
            if root[0] == "entity" and root[1] in found.wrong.get(other, ()):
                lines = f"{_line_about(found, mention)}; {_line_about(found, other, 'not')}"
                return f"joins {mention!r} and {other!r}, but: {lines}"
    return None


def _line_about(found: Agreement, mention: str, *kinds: str) -> str:
    wanted = kinds or ("entity", "new")
    lines = (line for line in found.lines if line.status == "obeyed" and line.kind in wanted)
    return next((str(line) for line in lines if mention in line.mentions), repr(mention))


def _part(found: Agreement) -> None:
    """Keep the pairs that differ, but for those that are a conflict."""
    roots = found.roots_of_groups()
    for place, line in enumerate(found.lines):
        if line.kind != "different" or line.status != "obeyed":
            continue
        one, other = map(found.group_of, line.mentions)
        root = roots.get(one)
        if one == other:
            mention = line.mentions[0]
            told = f"contradicts {_line_about(found, mention, 'same')}, which joins them, directly or through others"
        elif root is not None and root != OUTSIDE and root == roots.get(other):
            own = [m for m in found.root if found.group_of(m) in (one, other)]
            told = "contradicts " + "; ".join(dict.fromkeys(_line_about(found, mention) for mention in sorted(own)[:2]))
        else:
            found.different.append((line.mentions[0], line.mentions[1]))
            continue
        found.lines[place] = line.but("conflict", told)

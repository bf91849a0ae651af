"""Explanations of links and NIL decisions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Self

from arbo.errors import UsageError, listed
from arbo.results.graphs import next_joins
from arbo.results.run import Link, Run
from arbo.results.views import rows_called
from arbo.text.names import normalize_name


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the path from the entity to the mention."""

    id: str
    name: str
    document_id: str | None
    """None for the entity."""
    dissimilarity: float | None
    """Dissimilarity of the edge to this step; None at the start."""
    alias: str | None = None
    """The alias of the entity that is spelt most like the next step, as in `Candidate`; None for a mention."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity near a mention."""

    id: str
    name: str
    alias: str | None  # the alias that is spelt most like the mention; None if the preferred name is closer
    score: float | None

    @classmethod
    def of(cls, run: Run, link: Link, id_: str, score: float | None) -> Self:
        """Name an entity by the alias that is spelt most like the link's mention."""
        compared, names = normalize_name(link.name), run.names_of(id_)
        closest = max(names, key=lambda name: SequenceMatcher(None, compared, normalize_name(name)).ratio())
        return cls(id_, names[0], closest if closest != names[0] else None, score)

    def __str__(self) -> str:
        alias = f', alias "{self.alias}"' if self.alias else ""
        return f"{self.name} ({self.id}{alias})"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The path to a linked mention, or the nearest entities and mentions of a NIL mention; printed as text."""

    mention: str
    entity: str | None
    path: tuple[Step, ...]  # the steps from the entity to the mention; for NIL, only the mention
    weakest: int | None  # index in ``path``, from 0, of the step with the heaviest edge; None for NIL
    rivals: tuple[Candidate, ...]  # the nearest other entities, at most three
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def explain(result: Run, link: Link | str) -> Explanation:
    """Explain the decision on a mention: the path from the entity or, for NIL, the nearest entity and mentions.

    ``link`` is a link or the id of a mention; or, if only one mention has it, the id of a document, a cluster or an
    entity, the name of an entity, or the text of a mention. Raise UsageError if no mention or several have it.
    """
    if not isinstance(link, Link):
        first, *others = rows_called(result, str(link)).tolist()
        if others:
            some = ", ".join(result.mention_table["mention_id"].take([first, *others[:9]]).to_pylist())
            raise UsageError(f"{1 + len(others):,} mentions of {link!r}; choose one by its id, such as {some}")
        link = result.links[int(first)]
    others = [(id_, score) for id_, score in link.candidates if id_ != link.entity][:3]
    rivals = tuple(Candidate.of(result, link, *other) for other in others)
    path, weakest, lines = (_of_link if link.entity is not None else _of_nil)(result, link, rivals)
    if more := "; ".join(f"{rival}, {_number(rival.score)}" for rival in rivals[1:]):  # the lines name the first
        lines.append(f"    other candidates, by {_measure(result)}: {more}")
    return Explanation(link.mention.id, link.entity, tuple(path), weakest, rivals, "\n".join(lines))


def _of_link(result: Run, link: Link, rivals: Sequence[Candidate]) -> tuple[list[Step], int | None, list[str]]:
    """Return the path of an `Explanation`, its weakest step, and the lines of the text."""
    chain = [result.links[row] for row in result.path_of(result.row_of[link.mention.id])]
    entity = Candidate.of(result, chain[0], str(link.entity), link.score)
    decided = result.correction_table is not None
    steps = [Step(entity.id, str(link.entity_name), None, None, entity.alias)]
    steps += [Step(at.mention.id, at.name, at.mention.document_id, at.step) for at in chain]
    weakest = max(range(1, len(steps)), key=lambda i: steps[i].dissimilarity or 0.0)
    lines = [f"{_called(link)} is {link.entity_name} ({link.entity}), {_score(result, link, rivals)}:", f"    {entity}"]
    for i, step in enumerate(steps[1:], start=1):
        mark = "  <- weakest step" if i == weakest and len(steps) > 2 else ""
        weight = "decided" if decided and step.dissimilarity is None else _number(step.dissimilarity)
        lines.append(f'      {weight} -> "{step.name}" in {step.document_id} ({step.id}){mark}')
        lines += _because(chain[i - 1])
    return steps, weakest, lines + _decided(result, link)


def _of_nil(result: Run, link: Link, rivals: Sequence[Candidate]) -> tuple[list[Step], int | None, list[str]]:
    entity_limit, mention_limit = (result.manifest["threshold"][kind] for kind in ("entity", "mention"))
    entity_limit = result.manifest.get("limits", {}).get(link.mention.type, entity_limit)
    average = result.manifest["threshold"].get("nil")  # None under single linkage
    cluster = result.cluster_of(link)
    is_nil = result.manifest["knowledge_base"] is not None
    called = f"NIL, {_sure(link)}" if is_nil else ""
    lines = [f'{_called(link)} is {called}in cluster {link.cluster} "{cluster.name}":']
    method, k = result.manifest["config"]["method"], result.manifest["config"]["k"]
    unlinked = f", and none of the {k} most similar mentions is linked"
    by_mentions = "" if method == "independent" or k == 0 else unlinked
    decided = _decided(result, link)
    if rivals and not decided:
        nearest = f"{_measure(result)} {_number(rivals[0].score)}"
        limit = f"the entity threshold is a dissimilarity of {_number(entity_limit)}"
        lines.append(f"    the nearest entity, {rivals[0]}, has {nearest}; {limit}{by_mentions}")
    if average is None:
        near = f"no other {'NIL ' * is_nil}mention within {_number(mention_limit)}"
        join, limit = "the weakest join of the cluster is", f"the mention threshold is {_number(mention_limit)}"
    else:
        near = f"no {'NIL' if is_nil else 'other'} cluster has an average dissimilarity of at most {_number(average)}"
        join = "the last two parts of the cluster have the average dissimilarity"
        limit = f"the limit of average linkage is {_number(average)}"
    others = [m for m in cluster.mentions if m.id != link.mention.id]
    if others:
        shown, weakest = listed((f'"{m.text}" in {m.document_id}' for m in others), 3), cluster.weakest_join
        joined = "" if weakest is None else f"; {join} {_number(weakest)}, {limit}"  # None: people decided on it
        lines += [f"    together with {shown}{joined}", *_because(link)]
    else:
        lines.append(f"    alone: {near if k else 'mentions are not compared with k=0'}")
    lines[1:1] = decided
    place = result.cluster_rows[result.row_of[link.mention.id]]
    other, height = (-1, 0.0) if is_nil else (values[place].item() for values in next_joins(result))
    if other >= 0:
        near = f'"{result.clusters[other].name}" ({result.clusters[other].id})'
        lines.append(f"    the cluster that would join next, at {height:.3f}: {near}")
    return [Step(link.mention.id, link.name, link.mention.document_id, None)], None, lines


def _decided(result: Run, link: Link) -> list[str]:
    """Tell the corrections that decided on a mention, and those about it that were not obeyed."""
    lines = []
    if link.follows is not None:
        other = result.link_of(link.follows)
        how = "has the same name as" if normalize_name(other.name) == normalize_name(link.name) else "follows"
        lines.append(f"    {how} {_called(other)} ({link.follows}), which is corrected")
    if result.correction_table is None:
        return lines
    if link.entity is not None and link.step is None and not link.corrected and link.follows is None:
        lines.append("    keeps its entity: only the graph, and nobody, would take it by what is corrected")
    about = {link.mention.id, link.follows} if link.follows else {link.mention.id}
    for row in result.correction_table.to_pylist():
        record = json.loads(row["record"])
        named = {record.get("mention"), *record.get("same", ()), *record.get("different", ())}
        if named & about and (row["status"] == "obeyed" or link.mention.id in named):
            why = f" ({row['status']}: {row['reason']})" if row["reason"] else ""
            lines.append(f"    correction, {row['file']}, line {row['line']}: {row['record']}{why}")
    return lines


def _because(link: Link) -> list[str]:
    """Describe the features that counted most for the edge to a mention."""
    reasons = ", ".join(f"{name} {log_odds:+.2f}" for name, log_odds in link.reasons)
    return [f"        edge from {link.nearest} by log-odds: {reasons}"] if reasons else []


def _called(link: Link) -> str:
    expansion = f" (= {link.expansion})" if link.expansion else ""
    by_finder = "" if link.mention.score is None else f" (found with score {_number(link.mention.score)})"
    return f'"{link.mention.text}"{expansion} in {link.mention.document_id}{by_finder}'


def _measure(result: Run) -> str:
    """Return what a score is: a similarity, or the probability of a reranker or an edge model."""
    models = result.manifest["encoder"]
    learnt = "reranker" in models or models.get("edges", {}).get("of_entities", False)
    return "probability" if learnt else "similarity"


def _score(result: Run, link: Link, rivals: Sequence[Candidate]) -> str:
    score = f"{_sure(link)}{_measure(result)} {_number(link.score)}"
    tied = [id_ for id_, near in link.candidates[:2] if near == link.candidates[0][1]]
    if len(tied) == 2 and link.entity in tied:
        why = " but spelled like the mention" if link.margin is None and link.entity == tied[0] else ""
        return f"{score}, as near as {rivals[0]}{why}"
    if link.margin is None or not rivals:
        return score
    if link.candidates[0][0] == link.entity:
        return f"{score}, margin {link.margin:.3f} over {rivals[0]}"
    return f"{score}; nearest entity {rivals[0]} ({_number(rivals[0].score)}, margin {link.margin:.3f})"


def _sure(link: Link) -> str:
    of_nil = " (as of all NIL)" if link.entity is None else ""
    return "" if link.confidence is None else f"confidence {link.confidence:.3f}{of_nil}, "


def _number(value: float | None) -> str:
    return "any" if value is None or value == float("inf") else f"{round(value, 3) + 0.0:.3f}"

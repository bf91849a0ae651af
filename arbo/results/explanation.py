"""Explanations of decisions on mentions."""

from __future__ import annotations

from dataclasses import dataclass

from arbo.results.run import Link, Run


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the path from the entity to the mention."""

    id: str
    name: str
    document_id: str | None
    """None for the entity."""
    dissimilarity: float | None
    """Dissimilarity of the edge to this step; None at the start."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The path of a linked mention, or the nearest entities and mentions of a NIL mention; prints as text."""

    mention: str
    entity: str | None
    path: tuple[Step, ...]
    """The steps from the entity to the mention; for NIL only the mention."""
    weakest: int | None
    """Index in ``path`` of the step with the heaviest edge."""
    text: str

    def __str__(self) -> str:
        return self.text


def explain(result: Run, link: Link) -> Explanation:
    """Explain a link of the result."""
    return _explain_link(result, link) if link.entity is not None else _explain_nil(result, link)


def _explain_link(result: Run, link: Link) -> Explanation:
    chain = [link]
    while chain[-1].parent_is_mention:
        chain.append(result.link_of(str(chain[-1].parent)))
    steps = [Step(str(link.entity), str(link.entity_name), None, None)]
    steps += [
        Step(at.mention.id, at.expansion or at.mention.text, at.mention.document_id, at.step) for at in reversed(chain)
    ]
    weakest = max(range(1, len(steps)), key=lambda i: steps[i].dissimilarity or 0.0)
    lines = [f"{_called(link)} is {link.entity_name} ({link.entity}), {_score(link, _measure(result))}:"]
    lines.append(f"    {link.entity_name} ({link.entity})")
    for i, step in enumerate(steps[1:], start=1):
        mark = "  <- weakest step" if i == weakest and len(steps) > 2 else ""
        lines.append(f'      {_number(step.dissimilarity)} -> "{step.name}" in {step.document_id} ({step.id}){mark}')
    return Explanation(link.mention.id, link.entity, tuple(steps), weakest, "\n".join(lines))


def _explain_nil(result: Run, link: Link) -> Explanation:
    entity_limit, mention_limit = (result.manifest["threshold"][kind] for kind in ("entity", "mention"))
    lines = [f"{_called(link)} is NIL, in cluster {link.cluster}:"]
    method, k = result.manifest["config"]["method"], result.manifest["config"]["k"]
    by_mentions = "" if method == "independent" or k == 0 else f", and none of its {k} nearest mentions leads to one"
    if link.candidates:
        id_, score = link.candidates[0]
        lines.append(
            f"    the nearest entity, {id_}, has {_measure(result)} {score:.3f}; the entity threshold "
            f"is dissimilarity {_number(entity_limit)}{by_mentions}"
        )
    cluster = result.cluster_of(link)
    others = [m for m in cluster.mentions if m.id != link.mention.id]
    if others:
        shown = ", ".join(f'"{m.text}" in {m.document_id}' for m in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        lines.append(
            f"    together with {shown}{more}; its weakest join is {_number(cluster.weakest_join)}, "
            f"the mention threshold is {_number(mention_limit)}"
        )
    else:
        why = (
            "mentions are not compared with k=0" if k == 0 else f"no other NIL mention within {_number(mention_limit)}"
        )
        lines.append(f"    alone: {why}")
    step = Step(link.mention.id, link.expansion or link.mention.text, link.mention.document_id, None)
    return Explanation(link.mention.id, None, (step,), None, "\n".join(lines))


def _called(link: Link) -> str:
    expansion = f" (= {link.expansion})" if link.expansion else ""
    found = "" if link.mention.score is None else f" (found with score {_number(link.mention.score)})"
    return f'"{link.mention.text}"{expansion} in {link.mention.document_id}{found}'


def _measure(result: Run) -> str:
    """Return the name of scores: similarity of an encoder, or probability of a reranker."""
    return "probability" if "reranker" in result.manifest["encoder"] else "similarity"


def _score(link: Link, measure: str) -> str:
    own = f"{measure} {_number(link.score)}"
    if link.margin is None:
        return own
    (nearest, score), (second, _) = link.candidates[:2]
    if nearest == link.entity:
        return f"{own}, margin {link.margin:.3f} over {second}"
    return f"{own}; nearest entity {nearest} ({_number(score)}, margin {link.margin:.3f})"


def _number(value: float | None) -> str:
    return "any" if value is None or value == float("inf") else f"{value + 0.0:.3f}"

"""A review over HTTP: the sitting of `arbo review`, and what a decision spreads to before it is taken."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from pydantic import BaseModel

from arbo.corrections import review
from arbo.corrections.review import Question, Review, Sitting
from arbo.errors import UsageError
from arbo.files import json_ready
from arbo.results.run import Link
from arbo.serve.requests import Answer, Refused

_SHOWN = 20
"""Number of mentions that are listed of those to which a decision spreads."""
Search = Callable[[str, Link], list[tuple[str, str, float]]]
"""Returns id, name and similarity of entities with names like the words; see the verb `review`."""


class Decision(BaseModel, extra="forbid"):
    """An answer about a mention, with its value if it has one; also to skip the question, or to undo the last."""

    answer: review.Answer | Literal["skip", "undo"]
    mention_id: str = ""
    value: str = ""


@dataclass
class Reviewing:
    """Questions and answers about a run; use it from one thread at a time."""

    sitting: Sitting
    search: Search
    offered: set[str] = field(default_factory=set)
    """Ids of the entities that searches found."""

    @property
    def review(self) -> Review:
        """The review, with its run and its file."""
        return self.sitting.review

    def next(self) -> Answer:
        """Return the present question, and how far the sitting is; ``question`` is None at the end."""
        question = self.sitting.question
        return {
            "place": self.sitting.place + 1,
            "total": self.sitting.total,
            "answers": len(self.review.written),
            "file": self.review.file.name,
            "question": None if question is None else self._shown(question),
        }

    def question(self, id: str) -> Answer:  # noqa: A002
        """Return the question about any mention; raise Refused for an unknown id."""
        return self._shown(Question.of(self.review.run, self._link(id), 0, 0.0))

    def entities(self, words: str, mention_id: str) -> Answer:
        """Search entities for a mention by name."""
        rows = self.search(words, self._link(mention_id))
        self.offered.update(id_ for id_, *_ in rows)
        return {"rows": [_choice(*one) for one in rows]}

    def answer(self, decision: Decision) -> Answer:
        """Write the correction that an answer means, or skip or undo; return it as ``written``, and `next`.

        Raise UsageError if it does not apply, and Refused for an unknown mention.
        """
        kind, value = decision.answer, decision.value
        if kind in ("new", "same", "different"):
            value = value.strip()  # as the verb reads words
        if kind == "skip":
            question = self.sitting.question
            if question is not None and question.link.mention.id == decision.mention_id:  # no question that nobody saw
                self.sitting.skip()
            return {"written": None, **self.next()}
        if kind == "undo":
            if not self.sitting.undo():
                raise UsageError(
                    "nothing to undo: this sitting wrote nothing, or somebody else wrote to the file since"
                )
            return {"written": None, **self.next()}
        link = self._link(decision.mention_id)
        if kind in ("candidate", "new", "same", "different") and not value:
            raise UsageError(f"the answer {kind!r} needs a value")
        if kind == "candidate" and value not in {id_ for id_, _ in link.candidates} | self.offered:
            raise UsageError(f"no candidate and no search offered the entity {value!r:.100}")
        written = self.review.correction(link, kind, value)
        self.sitting.answer(link, written)
        return {"written": json_ready(written), **self.next()}

    def _link(self, id_: str) -> Link:
        if id_ not in self.review.run.row_of:
            raise Refused(f"the run has no mention {id_!r:.100}", 404)
        return self.review.run.link_of(id_)

    def _shown(self, question: Question) -> Answer:
        link = question.link
        return {
            "mention_id": link.mention.id,
            "name": link.name,
            "doubt": question.doubt,
            "choices": [_choice(*one) for one in question.choices],
            "why_not": {kind: self.review.why_not(link, kind) for kind in get_args(review.Answer)},
            "nearest": link.nearest,
            "spread": self._spread(link),
        }

    def _spread(self, link: Link) -> Answer:
        """Return which other mentions follow a decision by their name.

        Those that hang on the mention may follow too if corrections spread along the graph, which only the new
        partition tells.
        """
        run = self.review.run
        row, spread = run.row_of[link.mention.id], run.manifest["config"].get("spread", "graph")
        rows = np.flatnonzero(self.review.names == self.review.names[row]) if spread != "none" else np.array([row])
        ids = (id_ for id_ in run.mention_table["mention_id"].take(rows).to_pylist() if id_ not in self.review.decided)
        others = [id_ for id_ in ids if id_ != link.mention.id]
        return {"spread": spread, "mentions": len(others), "ids": others[:_SHOWN]}


def _choice(id_: str, name: str, score: float) -> Answer:
    return {"entity_id": id_, "name": name, "score": score}

"""A review of a run: which mentions come first, and a file of corrections that grows by lines.

Every decision is on disk before the next mention is shown. The run does not change; `--corrections` obeys the file.

A decision on a mention counts for its twins too: the mentions of the same compared name, type and domain, to which
corrections spread. So names are asked, not mentions (once for all types if a link is kept). First come those that are
worth most, the number of their mentions times their *doubt*:

- 1 minus its confidence or, if it is unknown, 0.5; of a link in a run without confidence, the share of the links with a
  higher similarity times the share of those with a larger margin over the second entity, half of the equal ones counted
  in both;
- for a mention of a discovered entity, this times the logarithm of the size of its cluster to base 2, plus 1: a
  decision on one name of a large cluster divides it.

Of a list of names or a table, pairs of rows are asked, see `arbo.corrections.pairs`.
"""

import errno
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow.compute as pc

from arbo.corrections.constraints import SURE, name_numbers
from arbo.corrections.lines import corrections_of
from arbo.corrections.pairs import DrawnPairs
from arbo.data import Corpus, Inputs, KnowledgeBase
from arbo.data.columns import cells_of
from arbo.engine import Bools
from arbo.errors import UsageError
from arbo.files import json_ready, writing
from arbo.results.run import Floats, Ints, Link, Run
from arbo.text.phrases import shared_name

Answer = Literal["accept", "candidate", "nil", "new", "not", "same", "different", "drop", "drop-all"]
_AROUND, _NAMES = 60, 3
"""Characters of context on either side of a mention, and other names of an entity, that are shown."""
NEAR = 1 / 3  # an entity is shown if its similarity is at least this share of the largest
_UNKNOWN = 0.5  # doubt about a decision of unknown confidence


class Queue(NamedTuple):
    """Mentions to look at, one for each name, the most useful first; three arrays have a value for each."""

    rows: Ints
    """Rows of the mentions in the run: for each name the one with the largest doubt. A mention in another document that
    is `sure` comes next, in case that the answer moves the first one."""
    twins: Ints
    """Number of mentions of the name that nobody decided yet, this one included; 0 for a second one of a name."""
    doubt: Floats
    """Between 0 and 1 for links; for discovered entities, see above."""
    names: Ints
    """What `names_of` returns."""
    pairs: DrawnPairs | None = None
    """The pairs of a list, whose first rows are asked; None for another run."""

    @classmethod
    def of(cls, run: Run, decided: Iterable[str] = (), dropped: Iterable[str] = (), moved: Iterable[str] = ()) -> Self:
        """Order the names of a run by twins times doubt, and equal ones by their place in the documents.

        The names of mentions whose ids are ``decided`` are left out, but not if only one is and it ``moved``; of
        ``dropped`` mentions, only they themselves.
        """
        name, row_of = names_of(run), run.row_of
        answered, gone, changed = ([row_of[id_] for id_ in ids if id_ in row_of] for ids in (decided, dropped, moved))
        once = [row for row in changed if (name[answered] == name[row]).sum() == 1]
        left = ~np.isin(name, np.setdiff1d(name[answered], name[once]))
        left[gone] = False
        if pairs := DrawnPairs.of(run):
            place = np.sort(np.unique(pairs.first, return_index=True)[1])
            place = place[left[pairs.first[place]]]
            rows = pairs.first[place]
            return cls(rows, np.bincount(name)[name[rows]], pairs.doubt[place], name, pairs)
        rows, doubt = np.flatnonzero(left), doubts(run)
        rows = rows[np.argsort(-doubt[rows], kind="stable")]
        _, first, twins = np.unique(name[rows], return_index=True, return_counts=True)
        rows, others = rows[first], rows
        order = np.lexsort([rows, -twins * doubt[rows]])
        rows, twins, home = rows[order], twins[order], run.document_rows
        place = np.zeros(name.max(initial=-1) + 1, np.int64)
        place[name[rows]] = np.arange(len(rows))
        others = others[sure(run)[others]]
        others = others[home[others] != home[rows[place[name[others]]]]]
        after, first = np.unique(place[name[others]] + 1, return_index=True)
        rows, twins = np.insert(rows, after, others[first]), np.insert(twins, after, 0)
        return cls(rows, twins, doubt[rows], name)


def names_of(run: Run) -> Ints:
    """Return the `name_numbers` of the mentions of a run."""
    return name_numbers(run.mention_table, per_document=run.manifest["config"].get("per_document") is True)


def sure(run: Run) -> Bools:
    """Return whether a mention leaves its entity only for corrections in its own or in two documents; (mentions,)."""
    if run.manifest["knowledge_base"] is None or run.manifest["config"].get("spread") != "unlinked":
        return np.zeros(len(run.mention_table), np.bool_)
    score = pc.if_else(pc.is_valid(run.link_table["entity_id"]), run.link_table["score"], -1)
    return np.asarray(pc.fill_null(score, -1).to_numpy() >= SURE)


def doubts(run: Run) -> Floats:
    """Return the doubt about each mention of a run, as `arbo.corrections.review` defines it; (mentions,)."""
    links = run.link_table
    linked = pc.is_valid(links["entity_id"]).to_numpy()
    size = run.cluster_table["size"].to_numpy()[run.cluster_rows].astype(np.float64)
    doubt: Floats = np.full(len(linked), _UNKNOWN)
    if "confidence" in links.column_names:
        doubt = 1 - pc.fill_null(links["confidence"], _UNKNOWN).to_numpy().astype(np.float64)
    elif linked.any():
        doubt[linked] = 1
        for by in ("score", "margin"):
            values = pc.fill_null(links[by], float("inf")).to_numpy()[linked]
            _, place, count = np.unique(values, return_inverse=True, return_counts=True)
            doubt[linked] *= 1 - (np.cumsum(count) - count / 2)[place] / len(values)
    return np.where(linked, doubt, doubt * (1 + np.log2(size)))


class Choice(NamedTuple):
    """An entity that a reviewer may choose."""

    id: str
    name: str
    score: float
    about: str  # its other names, parents, siblings and definition, as far as the knowledge base is known

    @classmethod
    def of(cls, id_: str, name: str, score: float, kb: KnowledgeBase | None) -> Self:
        """Describe an entity by a knowledge base, if it is there."""
        if kb is None or id_ not in kb:
            return cls(id_, name, score, "")
        parents = kb.parents((known := kb[id_]).id)
        beside = (other for parent in parents for other in kb.children[parent] if other != known.id)
        shown = ([*dict.fromkeys(ids)][:_NAMES] for ids in (parents, beside))
        above, near = (", ".join(kb[one].name if one in kb else one for one in ids) for ids in shown)
        parts = [", ".join(known.aliases[:_NAMES]), above and f"a kind of {above}", near and f"beside {near}"]
        return cls(id_, name, score, " · ".join(filter(None, [*parts, " ".join((known.definition or "").split())])))


@dataclass(frozen=True, slots=True)
class Question:
    """A mention to decide on."""

    link: Link
    twins: int
    doubt: float  # both as in `Queue`
    before: str  # the text before the mention, at most `_AROUND` characters; empty if the run has no texts
    after: str
    choices: tuple[Choice, ...]  # the candidates, nearest first


class _Written(NamedTuple):
    """The lines of an answer that a review wrote and did not undo: their end in the file, and their bytes."""

    end: int
    data: bytes
    place: int  # the place of the review when they were written
    decides: Ints  # the places of the questions that they decide


@dataclass
class Review:
    """A reviewer's way through the mentions of a run: each answer is appended to a file of corrections, or undone."""

    run: Run
    file: Path
    decided: Collection[str]
    """Ids of the mentions on which the file already decides."""
    dropped: Collection[str] = ()
    """Ids of the mentions that the file drops; others of their names are asked."""
    moved: Collection[str] = ()
    """Ids of the mentions that the file takes from their entity; another document may be asked about their names."""
    author: str | None = None
    kb: KnowledgeBase | None = None
    limit: int = 10_000
    """Number of names at most; second questions about a name come besides."""
    at_random: bool = False
    """Whether mentions are drawn at random, always in the same order, so that the answers are a sample."""
    place: int = 0
    """Place of the present question in the queue, from 0."""
    written: list[_Written] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of questions, answered ones and second ones included."""
        return int(np.searchsorted(np.cumsum(self.queue.twins > 0), self.limit, "right"))

    @property
    def counted(self) -> tuple[int, int]:
        """The number of the present name, from 1, and that of all names."""
        is_name = self.queue.twins[: self.total] > 0
        return int(is_name[: self.place + 1].sum()), int(is_name.sum())

    @property
    def present(self) -> Question | None:
        """The present question; None at the end."""
        self._go_on(self.place)
        return self.question(self.place) if self.place < self.total else None

    def question(self, place: int) -> Question:
        """Return the question at a place of the queue; a mention of each name comes there, the most useful first."""
        row, twins, doubt = (values[place].item() for values in self.queue[:3])
        return self.about(self.run.links[row], twins, doubt)

    def about(self, link: Link, twins: int = 0, doubt: float = 0.0) -> Question:
        """Return the question about any mention."""
        text = self.run.text_of(link.mention.document_id) or ""
        before, after = text[: link.mention.start][-_AROUND:], text[link.mention.end :][:_AROUND]
        least = max((score for _, score in link.candidates), default=0.0) * NEAR
        near = ((id_, score) for id_, score in link.candidates if least <= 0 or score >= least)
        names = (Choice.of(id_, (self.run.names_of(id_) or [""])[0], score, self.kb) for id_, score in near)
        other = self.other(link)
        return Question(link, twins, doubt, before, after, tuple(names) if other is None else (other,))

    def other(self, link: Link) -> Choice | None:
        """Return the row of a list that a row may be one with, and the evidence of both; None for no pair."""
        row = self.run.row_of[link.mention.id]
        if self.queue.pairs is None or not len(place := np.flatnonzero(self.queue.pairs.first == row)[:1]):
            return None
        second = self.queue.pairs.second[place]
        other = self.run.links[int(second[0])]
        columns = [(weights["column"], weights["kind"]) for weights in self.run.evidence]
        cells = cells_of(Inputs(Corpus(self.run.tables), np.append(row, second)), columns, check=False)
        about = " · ".join(f"{name}: {one or '-'} | {two or '-'}" for name, (one, two) in cells.items())
        return Choice(other.mention.id, other.name, float(self.queue.pairs.probability[place[0]]), about)

    @cached_property
    def queue(self) -> Queue:
        """The names that were not decided when the review began; what it writes does not change the queue."""
        queue = Queue.of(self.run, self.decided, self.dropped, self.moved)
        if not self.at_random or queue.pairs is not None:
            return queue
        gone = [self.run.row_of[id_] for id_ in {*self.decided, *self.dropped} if id_ in self.run.row_of]
        rows = self._drawn[~np.isin(self._drawn, gone)]
        return Queue(rows, np.ones(len(rows), np.int64), doubts(self.run)[rows], queue.names)

    @property
    def _drawn(self) -> Ints:
        return np.random.default_rng(0).permutation(len(self.run.mention_table))

    @property
    def rates(self) -> dict[str, tuple[float, float]]:
        """The `DrawnPairs.rates` of a list by all answers in the file, or the accuracy by those `at_random`."""
        if not self.file.exists():
            return {}
        if self.queue.pairs is None:
            return self._accuracy() if self.at_random else {}
        lines = [line for line in corrections_of(self.file) if line.kind in ("same", "different")]
        rows = (frozenset(self.run.row_of.get(id_, -1) for id_ in line.mentions) for line in lines)
        return self.queue.pairs.rates(dict(zip(rows, (line.kind == "same" for line in lines), strict=True)))

    def _accuracy(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % interval of the share of right decisions, by answers to all that were drawn first."""
        said, dropped = dict[str, dict[str, Any]](), set[Any]()
        for line in corrections_of(self.file):
            said |= {id_: {**line.record} for id_ in line.mentions[:1]}
            dropped |= {(line.document, line.spans)} if line.kind == "drop" else set()
        right = list[bool]()
        for link in (self.run.links[row] for row in self._drawn.tolist()):
            mention, answer = link.mention, said.get(link.mention.id, {})
            if not answer and (mention.document_id, mention.spans) not in dropped:
                break
            right.append(json_ready(self.accept(link)).items() <= answer.items())
        share = np.random.default_rng(0).beta(sum(right) + 0.5, len(right) - sum(right) + 0.5, 10_000)
        return {"accuracy": tuple(np.quantile(share, (0.025, 0.975)).tolist())} if right else {}

    @property
    def errors_left(self) -> tuple[float, int]:
        """The number of wrong decisions to expect about undecided names, and of how many; 0, 0 without confidence."""
        links, rows = self.run.link_table, self.queue.rows
        if "confidence" not in links.column_names:
            return 0.0, 0
        left = np.isin(self.queue.names, self.queue.names[np.delete(rows, self._done)])
        return float((1 - pc.fill_null(links["confidence"], _UNKNOWN).to_numpy()[left]).sum()), int(left.sum())

    def corrections(self, link: Link, answer: Answer, value: str | None = None) -> list[dict[str, Any]]:
        """Return the corrections that an answer about a mention means; several for ``drop-all``, or for several types.

        ``value`` is the id of the entity (`candidate`), the name of a `new` entity, or the id of the other mention
        (`same`, `different`). Raise UsageError if the answer does not apply to the mention, or for an unknown id.
        """
        lines = self._lines(link, answer, value)
        is_kept = lines == [self.accept(link)] and not self.at_random
        return [*lines, *map(self.accept, self._of_other_types(link))] if is_kept else lines

    def _lines(self, link: Link, answer: Answer, value: str | None) -> list[dict[str, Any]]:
        about = {"mention": link.mention.id}
        if problem := self.why_not(link, answer):
            raise UsageError(problem)
        if answer == "accept":
            return [self.accept(link)]
        if answer in ("drop", "drop-all"):
            here, names = self.run.row_of[link.mention.id], self.queue.names
            rows = np.flatnonzero(names == names[here]).tolist() if answer == "drop-all" else [here]
            some = (self.run.links[row].mention for row in rows)
            lines = (json.loads(line) for one in self.written for line in one.data.split(b"\n") if line)
            decided = {*self.decided, *(line.get("mention") for line in lines)}
            others = (one for one in some if one.id == link.mention.id or one.id not in decided)
            return [{"document": one.document_id, "spans": one.spans, "drop": True} for one in others]
        if answer in ("nil", "not"):
            return [about | ({"entity": None} if answer == "nil" else {"not": link.entity})]
        if answer in ("same", "different") or (answer == "candidate" and self.queue.pairs is not None):
            answer = "different" if answer == "different" else "same"
            if value not in self.run.row_of or value == link.mention.id:
                raise UsageError(f"no other mention has the id {value}; arbo show lists the ids")
            return [{answer: [link.mention.id, value]}]
        return [about | {"entity" if answer == "candidate" else "new": value}]

    def why_not(self, link: Link, answer: Answer) -> str | None:
        """Return why an answer does not apply to a mention; None if it does."""
        of_kb = ("candidate", "nil") if self.queue.pairs is None else ("nil",)
        if answer in of_kb and self.run.manifest["knowledge_base"] is None:
            return "the run has no knowledge base"
        if answer == "not" and (link.entity is None or link.entity in self.run.several):
            return "the mention has no entity" if link.entity is None else "the mention has several entities"
        return None

    def accept(self, link: Link) -> dict[str, Any]:
        """Return the correction that confirms what the run says: the link, the discovered entity, or NIL."""
        mention, cluster = link.mention.id, self.run.cluster_of(link)
        if link.entity is not None:
            return {"mention": mention, "entity": self.run.several.get(link.entity, link.entity)}
        if link.follows is not None and link.follows != mention:
            return {"same": [mention, link.follows]}
        if other := self.other(link):
            is_same = cluster.id == self.run.link_of(other.id).cluster
            return {"same" if is_same else "different": [mention, other.id]}
        if self.run.manifest["knowledge_base"] is not None:
            return {"mention": mention, "entity": None}
        others = [other.id for other in cluster.mentions if other.id != mention]
        return {"same": [mention, others[0]]} if others else {"mention": mention, "new": f"{cluster.name} ({mention})"}

    def answer(self, link: Link | None, corrections: Sequence[Mapping[str, Any]]) -> None:
        """Append the corrections of an answer, with the author and the time; raise UsageError if that is impossible.

        ``link`` is that of the mention that was asked about, if one was. Half a line is not left behind; if it is
        unknown whether lines reached the disk, they stay, and can be undone.
        """
        more = {"author": self.author} if self.author else {}
        more["date"] = datetime.now(UTC).isoformat(timespec="seconds")
        data = "".join(json.dumps({**line, **more}, ensure_ascii=False) + "\n" for line in corrections).encode()
        with writing(self.file), open(self.file, "ab+", buffering=0) as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # somebody's editor left it out
                    data = b"\n" + data
            n = file.write(data)
            end = file.tell()  # others may have written since the file was opened
            if n < len(data):
                file.truncate(end - n)
                raise OSError(errno.ENOSPC, "no space left")
            self.written.append(_Written(end, data, self.place, self._decided(link, corrections)))
            os.fsync(file.fileno())
        self._go_on(self.place)

    def skip(self) -> None:
        """Go on with the next name, without an answer."""
        self._go_on(self.place + 1 + (not self.queue.twins[self.place + 1 : self.total][:1].all()))

    def undo(self) -> None:
        """Remove the lines of the last answer that this review wrote, and return to its place.

        Raise UsageError if there is none, the file was changed since, or it cannot be written.
        """
        cause = "somebody else wrote to the file since" if self.written else "this sitting wrote nothing yet"
        for end, data, place, _ in self.written[-1:] if self.file.exists() else ():
            with writing(self.file), open(self.file, "rb+", buffering=0) as file:
                file.seek(end - len(data))
                if file.read() == data:
                    file.truncate(end - len(data))
                    self.place = place
                    self.written.pop()
                    return
        raise UsageError(f"nothing to undo: {cause}; earlier answers are lines of {self.file}")

    def _of_other_types(self, link: Link) -> Iterator[Link]:
        """Yield a mention for each question that is left about the same name of another type in the same cluster."""
        config, row, name = self.run.manifest["config"], self.run.row_of[link.mention.id], shared_name(link.name)
        rows, names, clusters = np.delete(self.queue.rows, self._done), self.queue.names, self.run.cluster_rows
        rows = rows[(clusters[rows] == clusters[row]) & (names[rows] != names[row])]
        if not (config.get("map_types") or config.get("per_document") or config.get("spread") == "none"):
            others = (self.run.links[at] for at in rows.tolist() if name is not None and self.queue.pairs is None)
            yield from (other for other in others if shared_name(other.name) == name)

    def _decided(self, link: Link | None, corrections: Sequence[Mapping[str, Any]]) -> Ints:
        """Return the places of the questions about names (of a list: a row) that an answer about a mention decides."""
        ids = [link and link.mention.id, *(one.get("mention") or one.get("same", [None])[0] for one in corrections)]
        rows, names, row_of = self.queue.rows, self.queue.names, self.run.row_of
        about = [row_of[id_] for id_ in ids if id_ in row_of]
        is_left = np.isin(names[np.delete(rows, self._done)], names[about])
        moves = link is not None and {"entity", "new"} & corrections[0].keys() and corrections[0] != self.accept(link)
        waits = moves and is_left.sum() > 1  # for the answer about another document
        is_of_one = len(corrections) == 1 and {"not", "drop"} & corrections[0].keys()
        apart = is_of_one or waits or self.at_random or self.queue.pairs is not None
        return np.flatnonzero(np.isin(rows, about) if apart else np.isin(names[rows], names[about]))

    @property
    def _done(self) -> Ints:
        before = np.flatnonzero(np.isin(self.queue.rows, [self.run.row_of[id_] for id_ in self.moved]))
        return np.concatenate([before, *(line.decides for line in self.written)])

    def _go_on(self, place: int) -> None:
        """Go to the first place from ``place`` on whose question no answer decided."""
        self.place = min(np.setdiff1d(np.arange(place, self.total), self._done).tolist(), default=self.total)

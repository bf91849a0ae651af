"""A review of a run: mentions in the order of `arbo.results.queue`, and a file of corrections that grows line by line.

Every decision is on disk before the next mention is shown, so that a review ends at any moment and goes on later. The
run does not change; `--corrections` of `arbo link` and `arbo discover` obeys the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arbo.errors import UsageError
from arbo.results.queue import Queue
from arbo.results.run import Link, Run

AROUND = 60
"""Characters of context that are shown on either side of a mention."""


@dataclass(frozen=True, slots=True)
class Question:
    """A mention to decide on."""

    link: Link
    twins: int
    """Number of undecided mentions of its name, this one included."""
    doubt: float
    """See `arbo.results.queue`."""
    before: str
    """The text before the mention, at most `AROUND` characters; empty if the run has no texts."""
    after: str
    choices: tuple[tuple[str, str, float], ...]
    """Id, name and similarity of the candidates, nearest first."""

    @classmethod
    def of(cls, run: Run, link: Link, twins: int, doubt: float) -> Question:
        """Collect what is shown of a mention."""
        text = run.text_of(link.mention.document_id) or ""
        before, after = text[: link.mention.start][-AROUND:], text[link.mention.end :][:AROUND]
        names = ((id_, (run.names_of(id_) or [""])[0], score) for id_, score in link.candidates)
        return cls(link, twins, doubt, before, after, tuple(names))


@dataclass
class Review:
    """Asks about the mentions of a run, and appends each answer to a file of corrections."""

    run: Run
    file: Path
    decided: Collection[str]
    """Ids of the mentions on which the file already decides."""
    dropped: Collection[str] = ()
    """Ids of the mentions that the file drops; others of their names are asked."""
    author: str | None = None
    written: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end in the file of each line that this review wrote and did not undo."""

    def questions(self) -> Iterator[Question]:
        """Yield a question about a mention of each name that is not decided yet, the most useful first."""
        queue = Queue.of(self.run, self.decided, self.dropped)
        for row, twins, doubt in zip(*(values.tolist() for values in queue), strict=True):
            yield Question.of(self.run, self.run.links[row], twins, doubt)

    def accept(self, link: Link) -> dict[str, Any]:
        """Return the correction that confirms what the run says: the link, the discovered entity, or NIL."""
        mention, cluster = link.mention.id, self.run.cluster_of(link)
        if link.entity is not None:
            return {"mention": mention, "entity": link.entity}
        if link.follows is not None and link.follows != mention:
            return {"same": [mention, link.follows]}
        if self.run.manifest["knowledge_base"] is not None:
            return {"mention": mention, "entity": None}
        others = [other.id for other in cluster.mentions if other.id != mention]
        return {"same": [mention, others[0]]} if others else {"mention": mention, "new": f"{cluster.name} ({mention})"}

    def write(self, correction: Mapping[str, Any]) -> None:
        """Append a correction, with the author and the time; raise UsageError if the file cannot be written."""
        told = {"author": self.author} if self.author else {}
        line = {**correction, **told, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            with open(self.file, "ab+") as file:
                begin = file.tell()
                if begin:
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":  # somebody's editor left it out
                        file.write(b"\n")
                file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
                self.written.append((begin, file.tell()))
        except OSError as error:
            raise UsageError(f"cannot write {self.file}: {error.strerror or error}") from error

    def undo(self) -> bool:
        """Remove the last correction that this review wrote; return False if there is none, or the file was changed."""
        if not self.written or not self.file.exists() or self.file.stat().st_size != self.written[-1][1]:
            return False
        os.truncate(self.file, self.written.pop()[0])
        return True

"""The views of a served page over a run; fields are called as in `arbo show --json`, and answers are ready for JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from arbo.data import KnowledgeBase
from arbo.explore.figures import overview
from arbo.explore.lookups import Lookups
from arbo.results.diff import Diff, diff
from arbo.results.export import sentence_ends
from arbo.results.result import Result
from arbo.results.run import Bools, Ints, Link, Run
from arbo.results.views import cluster_view, mention_view
from arbo.serve.requests import Refused

Answer = dict[str, Any]
Offset = Annotated[int, Field(ge=0, le=10**9)]
Limit = Annotated[int, Field(ge=0, le=500)]
_MEMBERS = 500
"""Number of mentions of a cluster that a view shows."""
_STEP = ("id", "text", "is_mention", "step")
_FOUND = 20
"""Number of mentions, clusters and documents that a search shows."""


class Views:
    """The views of a run; what they look up is computed when it is made, and stays in memory.

    Rows of mentions and clusters come in pages, and ``total`` is the number of all. Raise Refused for an unknown id.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> views = Views(arbo.Linker(kb).link(documents), "sample")
    >>> views.mentions(words="petrel", limit=1)["rows"][0]["entity_name"]
    'RV Petrel'
    """

    def __init__(
        self,
        run: Result,
        name: str,
        *,
        before: Run | None = None,
        since: str | None = None,
        kb: KnowledgeBase | None = None,
    ) -> None:
        """Take a run and its name, perhaps with an earlier one, which is named ``since``."""
        self._lookups = Lookups(run)
        self.run = self._lookups.run
        self._kb = kb
        self._chosen = lru_cache(8)(self._rows_of)
        self._since = since
        self._changes: Diff | None = None if before is None else diff(before, run)
        self._overview = overview(self.run) | {"name": name, "changes": before is not None}

    def overview(self) -> Answer:
        """Return the counts, scores, dissimilarities and sizes of the run."""
        return self._overview

    def mentions(
        self,
        *,
        nil: bool = False,
        words: str = "",
        document: str | None = None,
        entity: str | None = None,
        cluster: str | None = None,
        sort: Literal["order", "margin"] = "order",
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Answer:
        """Return the mentions that pass all filters, as `Selection` does."""
        rows = self._chosen(nil, words, document, entity, cluster, sort)
        return {"total": len(rows), "rows": self._rows(rows[offset : offset + limit])}

    def _rows_of(
        self, nil: bool, words: str, document: str | None, entity: str | None, cluster: str | None, sort: str
    ) -> Ints:
        """Return the rows of `mentions`; `_chosen` remembers the last ones, since pages of a list are asked in turn."""
        lookups = self._lookups
        chosen: Bools = lookups.words.having(words) if words else np.ones(len(lookups.nil), np.bool_)
        if nil:
            chosen &= lookups.nil
        if document is not None:
            chosen &= self.run.document_rows == self._document(document)
        for id_, column in ((cluster, "cluster_id"), (entity, "entity_id")):
            if id_ is not None:
                inside = np.zeros(len(chosen), np.bool_)
                inside[lookups.members(self._cluster(id_, column))] = True
                chosen &= inside
        return np.flatnonzero(chosen) if sort == "order" else lookups.by_margin[chosen[lookups.by_margin]]

    def clusters(
        self,
        *,
        nil: bool | None = None,
        words: str = "",
        sort: Literal["size", "nearness", "name", "order"] = "size",
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Answer:
        """Return clusters of entities (``nil=False``), discovered ones (True) or all, whose names have words.

        Only discovered clusters are sorted by nearness to an entity.
        """
        chosen = self._lookups.cluster_words.having(words) if words else np.ones(len(self._lookups.sizes), np.bool_)
        if nil is not None or sort == "nearness":
            chosen &= self._lookups.cluster_nil == (nil is not False)
        order = self._lookups.cluster_orders[sort]
        places = order[chosen[order]]
        return {"total": len(places), "rows": self._clusters(places[offset : offset + limit])}

    def cluster(self, id: str) -> Answer:  # noqa: A002
        """Return a cluster as a tree: its first 500 mentions, its weakest steps, and the edges that join its parts."""
        place = self._cluster(id)
        (head,) = self.run.cluster_table.slice(place, 1).to_pylist()
        rows = self._lookups.members(place)
        tree, ids = self._lookups.tree.part(rows), self.run.mention_table["mention_id"].take(rows).to_pylist()

        def hanging(at: int) -> Answer:
            above = int(tree.parent[at])
            return {"parent": ids[above] if above >= 0 else head["entity_id"], "step": _or_none(tree.step[at])}

        order = tree.order(_MEMBERS)
        members = zip(self._rows(rows[order]), order.tolist(), strict=True)
        return {
            **{name: head[name] for name in ("cluster_id", "entity_id", "name", "size")},
            "members": [row | hanging(at) | {"parent_is_mention": bool(tree.parent[at] >= 0)} for row, at in members],
            "weakest": [ids[at] for at in tree.weakest()],
            "bridges": [
                {"mention_id": ids[at], **hanging(at), "below": tree.below(at) + 1} for at in tree.bridges().tolist()
            ],
        }

    def mention(self, id: str) -> Answer:  # noqa: A002
        """Return a mention with its path, its candidates, and what kept it NIL."""
        link = self.link(id)
        why, (row,) = self.run.explain(link), self._rows(np.array([self.run.row_of[id]]))
        lines = (line.strip() for line in why.text.splitlines()[1:])
        reasons = [f"{line[:1].upper()}{line[1:]}." for line in lines if not line.startswith("other candidates")]
        steps = [(one.id, one.name, one.document_id is not None, one.dissimilarity) for one in why.path]
        return row | {
            "cluster_name": self.run.cluster_table["name"][int(self.run.cluster_rows[self.run.row_of[id]])].as_py(),
            "path": [dict(zip(_STEP, one, strict=True)) for one in steps] if link.entity else self._nil_path(id),
            "candidates": [
                {"entity_id": near, "name": self._name(near), "score": score} for near, score in link.candidates
            ],
            "nil_reason": " ".join(reasons) if link.entity is None else None,
            "gold": None if link.mention.gold is None else list(link.mention.gold),
            "queue": None,
        }

    def _nil_path(self, id_: str) -> list[Answer]:
        """Return the mentions from the root of a discovered cluster's tree to a mention."""
        tree, rows = self._lookups.tree, [self.run.row_of[id_]]
        while (above := int(tree.parent[rows[-1]])) >= 0:
            rows.append(above)
        path = [(self.run.links[row], _or_none(tree.step[row])) for row in reversed(rows)]
        return [dict(zip(_STEP, (link.mention.id, link.name, True, step), strict=True)) for link, step in path]

    def below(self, id_: str) -> int:
        """Return the number of mentions that hang on a mention in the tree of its cluster."""
        row = self.run.row_of[id_]
        rows = self._lookups.members(int(self.run.cluster_rows[row]))
        return self._lookups.tree.part(rows).below(int(np.searchsorted(rows, row)))

    def document(self, id: str) -> Answer:  # noqa: A002
        """Return a document with its mentions; their spans count code points."""
        rows = np.flatnonzero(self.run.document_rows == self._document(id))
        spans = self.run.mention_table["spans"].take(rows).to_pylist()
        pieces = [[[one["start"], one["end"]] for one in parts] for parts in spans]
        shown = [row | {"spans": parts} for row, parts in zip(self._rows(rows), pieces, strict=True)]
        return {"document_id": id, "text": self.run.text_of(id), "mentions": shown}

    def documents(self, *, words: str = "", offset: Offset = 0, limit: Limit = 50) -> Answer:
        """Return the documents whose id contains words, with the numbers of their mentions."""
        lookups = self._lookups
        places = np.flatnonzero(lookups.document_words.having(words)) if words else np.arange(len(lookups.documents))
        return {"total": len(places), "rows": self._documents(places[offset : offset + limit])}

    def entity(self, id: str) -> Answer:  # noqa: A002
        """Return an entity that the run names or the knowledge base has; what the run does not know is empty."""
        names, known = self.run.names_of(id), self._kb[id] if self._kb is not None and id in self._kb else None
        if not names and known is None:
            raise Refused(f"the run names no entity {id!r:.100}", 404)
        if known is not None:
            names = [known.name, *known.aliases]
        place = self._lookups.place_of_cluster(id, "entity_id")
        return {
            "entity_id": id,
            "name": names[0],
            "names": names,
            "description": known.definition if known else None,
            "types": list(known.types) if known else [],
            "size": int(self._lookups.sizes[place]) if place >= 0 else 0,
            "cluster_id": id if place >= 0 else None,
        }

    def search(self, words: str) -> Answer:
        """Return the first mentions, clusters and documents whose names contain words, and those with this id."""
        rows = self._chosen(False, words, None, None, None, "order")[:_FOUND]
        if (named := self.run.row_of.get(words)) is not None:
            rows = np.append(named, rows[rows != named])[:_FOUND]
        clusters = self.clusters(words=words, sort="order", limit=_FOUND)["rows"]
        if (place := self._lookups.place_of_cluster(words)) >= 0:
            one = self._clusters(np.array([place]))
            clusters = (one + [row for row in clusters if row["cluster_id"] != words])[:_FOUND]
        documents = self.documents(words=words, limit=_FOUND)["rows"]
        return {"mentions": self._rows(rows), "clusters": clusters, "documents": documents}

    def changes(self, *, offset: Offset = 0, limit: Limit = 50) -> Answer:
        """Return the clusters that changed since the run before this one, those that matter most first."""
        rows = () if self._changes is None else self._changes.ranked
        shown = [asdict(row) for row in rows[offset : offset + limit]]
        counts = {} if self._changes is None else self._changes.counts()
        return {"total": len(rows), "rows": shown, "counts": counts, "since": self._since}

    def link(self, id_: str) -> Link:
        """Return the link of a mention; raise Refused for an unknown one."""
        if id_ not in self.run.row_of:
            raise Refused(f"the run has no mention {id_!r:.100}", 404)
        return self.run.link_of(id_)

    def _cluster(self, id_: str, column: str = "cluster_id") -> int:
        if (place := self._lookups.place_of_cluster(id_, column)) < 0:
            raise Refused(f"the run has no {column[:-3]} {id_!r:.100}", 404)
        return place

    def _document(self, id_: str) -> int:
        if (place := self._lookups.place_of_document(id_)) < 0:
            raise Refused(f"the run has no document {id_!r:.100}", 404)
        return place

    def _name(self, entity: str) -> str | None:
        return next(iter(self.run.names_of(entity)), None)

    def _rows(self, rows: Ints) -> list[Answer]:
        """Return mentions with their links and sentences."""
        flat = mention_view(self.run, rows)
        bounds = zip(*(ends.tolist() for ends in sentence_ends(self.run, rows)), strict=True)
        shown: list[Answer] = flat.to_pylist()
        spans = self.run.mention_table["spans"].take(rows).to_pylist()
        for row, parts, (begin, stop) in zip(shown, spans, bounds, strict=True):
            text = self.run.text_of(row["document_id"])
            row["sentence"] = None
            if text is not None:
                ends = _ends([(one["start"], one["end"]) for one in parts])
                pieces = [text[one:other] for one, other in pairwise(ends)]
                row["sentence"] = {"before": text[begin : ends[0]], "pieces": pieces, "after": text[ends[-1] : stop]}
        return shown

    def _clusters(self, places: Ints) -> list[Answer]:
        shown: list[Answer] = cluster_view(self.run, places).to_pylist()
        for row, place in zip(shown, places.tolist(), strict=True):
            row["nearest"] = None
            if (id_ := self._lookups.nearest[place].as_py()) is not None:
                distance = float(self._lookups.nearness[place])
                row["nearest"] = {"entity_id": id_, "name": self._name(id_), "dissimilarity": distance}
        return shown

    def _documents(self, places: Ints) -> list[Answer]:
        ids = self._lookups.documents.take(places).to_pylist()
        counts: Sequence[Ints] = [numbers[places] for numbers in self._lookups.per_document]
        rows = zip(ids, *(numbers.tolist() for numbers in counts), strict=True)
        return [{"document_id": id_, "mentions": n, "nil": n_nil} for id_, n, n_nil in rows]


def _or_none(step: float) -> float | None:
    return None if np.isnan(step) else float(step)


def _ends(spans: list[tuple[int, int]]) -> list[int]:
    """Return where the parts of a mention begin and end, in order; parts that overlap or touch are one."""
    first, *others = sorted(spans)
    ends = [*first]
    for start, end in others:
        if start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            ends += (start, end)
    return ends

"""The Reconciliation Service API 0.2, which OpenRefine speaks, over one knowledge base; without HTTP.

Queries are answered one by one: a query never depends on the others of its batch. The score of a candidate is 100 times
the mean of the similarity of its name and of its properties, which are 1 if the entity has one of the values of the
query, else 0; blank values and properties that no entity has are ignored. Candidates of other types have half the score
or, if ``type_strict`` is ``any`` or ``all``, are left out; the specification leaves the default to the service, and it
is ``should``, as OpenRefine sets it. Scores are above 0, to 100. A name that is the id of an entity means this entity,
which is a match.

https://www.w3.org/community/reports/reconciliation/CG-FINAL-specs-0.2-20230410/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib.metadata import version
from math import inf
from typing import Any

from arbo.data import Corpus, Entity
from arbo.data.fields import any_list, number, string
from arbo.errors import DataError
from arbo.files import json_ready
from arbo.serve.requests import only, parsed
from arbo.serve.service import Answer, Service
from arbo.settings import check_choice
from arbo.text.names import normalize_name

MARGIN = 10.0
"""A candidate is a match only if its score leads by this much."""
_LIMIT, _MOST, _DEEP = 5, 100, 100
"""The default and the largest number of candidates to return, and the number of nearest entities to choose from."""
_FIELDS = ("aliases", "definition", "types", "alternative_ids", "xrefs")


# Without slots: `cached_property` keeps its values in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class Reconciliation:
    """Answers of a reconciliation service; for errors and threads see `Service`."""

    service: Service
    name: str = "arbo"

    @cached_property
    def types(self) -> list[str]:
        """The types of the knowledge base, the most frequent first."""
        counts = Counter(kind for (kinds,) in self.service.kb.columns("types") for kind in kinds)
        return [kind for kind, _ in counts.most_common()]

    @cached_property
    def properties(self) -> list[str]:
        """The fields of entities, and the keys of their metadata."""
        return list(
            dict.fromkeys((*_FIELDS, *(key for (kept,) in self.service.kb.columns("metadata") for key in kept)))
        )

    @cached_property
    def threshold(self) -> float:
        """The score from which a candidate may be a match: that from which the linker links a mention on its own."""
        linker = self.service.undivided
        found = linker.retrieve(Corpus.of([self.service.kb.entities[0].name]), k=0, discover=False)
        return 100 * (found.offset - linker.config.limits(found.threshold)[0])

    def reconcile(self, form: Mapping[str, str], base: str) -> Answer:
        """Answer the queries or the request for data in a form, both JSON; without these, return the manifest."""
        if queries := form.get("queries"):
            return self.queries(queries)
        extend = form.get("extend")
        return self.extend(extend) if extend else self.manifest(base)

    def manifest(self, base: str) -> Answer:
        """Return the manifest of a service at the URL ``base``, which ends in a slash."""
        here = f"{base}reconcile"
        page = {"url": f"{here}/preview?id={{{{id}}}}"}
        return {
            "versions": ["0.2"],
            "name": self.name,
            "identifierSpace": f"{base}entities/",
            "schemaSpace": f"{here}/properties",
            "serviceVersion": version("arbo"),
            "view": page,
            "preview": {**page, "width": 400, "height": 240},
            "suggest": {
                kind: {"service_url": here, "service_path": f"/suggest/{kind}"}
                for kind in ("entity", "property", "type")
            },
            "extend": {"propose_properties": {"service_url": here, "service_path": "/properties"}},
            "defaultTypes": _named(self.types[:20]),
        }

    def queries(self, given: str) -> Answer:
        """Answer a batch of queries, given as JSON."""
        batch = parsed(given)
        if not isinstance(batch, dict):
            raise DataError("'queries' must be a JSON object of queries by key")
        self.service.limits.check("texts", len(batch), "queries")
        read = [_Query.of(query) for query in batch.values()]
        self.service.limits.check("texts", max((len(query.properties) for query in read), default=0), "properties")
        read = [replace(query, properties=self._with_evidence(query)) for query in read]
        found = self.service.nearest([query.name for query in read], _DEEP)
        answers = (self._ranked(query, near[: query.depth]) for query, near in zip(read, found, strict=True))
        return {key: {"result": answer} for key, answer in zip(batch, answers, strict=True)}

    def _with_evidence(self, query: _Query) -> list[tuple[str, frozenset[str]]]:
        """Return the properties that say something: with a value, and in the knowledge base."""
        return [(name, values) for name, values in query.properties if values and name in self.properties]

    def _ranked(self, query: _Query, near: Sequence[tuple[int, float]]) -> list[Answer]:
        kb, rated = self.service.kb, []
        own = kb.index(query.name) if query.name in kb else None
        if own is not None:
            near = [(own, 1.0), *(one for one in near if one[0] != own)]
        for row, similarity in near:
            entity = kb.entities[row]
            evidence = {**query.agreeing(entity), "name": similarity}
            score = 100 * sum(evidence.values()) / len(evidence)
            if row == own:
                rated.append((inf, evidence, entity))
            elif score > 0 and query.has_type(entity):
                rated.append((score, evidence, entity))
            elif score > 0 and query.strict == "should":
                rated.append((score / 2, evidence, entity))
        rated.sort(key=lambda one: -one[0])
        second = rated[1][0] if len(rated) > 1 else 0.0
        return [
            {
                **_described(entity),
                "type": _named(entity.types),
                "score": min(score, 100.0),
                "features": [{"id": id_, "value": value} for id_, value in evidence.items()],
                "match": place == 0 and score >= self.threshold and score - second >= MARGIN,
            }
            for place, (score, evidence, entity) in enumerate(rated[: query.limit])
        ]

    def suggest(self, *, kind: str, prefix: str, cursor: int = 0) -> Answer:
        """Return entities, properties or types for a prefix; entities whose names begin with it come first."""
        begin, kb = normalize_name(prefix), self.service.kb
        if kind != "entity":
            names = self.types if kind == "type" else self.properties
            return {"result": _named([name for name in names if begin in normalize_name(name)][cursor : cursor + 10])}

        def begins(one: Entity) -> bool:
            return bool(begin) and any(normalize_name(name).startswith(begin) for name in (one.name, *one.aliases))

        near = ((kb.entities[row], score) for row, score in self.service.nearest([prefix], _DEEP)[0])
        found = [one for one, score in near if score > 0 or begins(one)]  # one letter is similar to no name
        found.sort(key=lambda one: not begins(one))
        if prefix in kb:
            own = kb[prefix]
            found = [own, *(one for one in found if one.id != own.id)]
        return {"result": [{**_described(one), "notable": _named(one.types)} for one in found[cursor : cursor + 10]]}

    def propose(self, *, type: str | None = None, limit: int = 100) -> Answer:  # noqa: A002
        """Return the properties that `extend` can fetch, which are the same for all types."""
        of_type = {} if type is None else {"type": type}
        return {**of_type, "limit": limit, "properties": _named(self.properties[:limit])}

    def extend(self, given: str) -> Answer:
        """Return the values of some properties of some entities; unknown entities and properties have none."""
        query = only(parsed(given), "'extend'", {"ids": any_list, "properties": any_list}, "ids", "properties")
        ids, kb = [_string(one, "an id") for one in query["ids"]], self.service.kb
        names = [
            _string(one.get("id") if isinstance(one, dict) else None, "'id' of a property")
            for one in query["properties"]
        ]
        self.service.limits.check("mentions", len(ids) * len(names), "values")
        known = {one: kb[one] for one in ids if one in kb}
        rows = {one: {name: self._cells(known[one], name) if one in known else [] for name in names} for one in ids}
        return {"meta": _named(names), "rows": rows}

    def _cells(self, entity: Entity, name: str) -> list[Answer]:
        kb, cells = self.service.kb, []
        for value in _values(entity, name):
            if name not in _FIELDS and isinstance(value, str) and value in kb:
                cells.append({"id": value, "name": kb[value].name})
            else:
                kind = {int: "int", float: "float"}.get(type(value), "str")
                cells.append({kind: str(value) if kind == "str" else value})
        return cells

    def preview(self, *, id: str) -> str:  # noqa: A002
        """Return an HTML page about an entity, with all values escaped."""
        one = self.service.entity(id=id)
        shown = {"id": one["id"], "types": ", ".join(one["types"]), "also": "; ".join(one["aliases"][:20])}
        rows = "".join(f"<p><small>{key}</small> {escape(value)}</p>" for key, value in shown.items() if value)
        title, definition = escape(one["name"]), escape(one["definition"] or "")
        head = f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title></head>'
        return f"{head}<body><h3>{title}</h3>{rows}<p>{definition}</p></body></html>"


@dataclass(frozen=True, slots=True)
class _Query:
    """A query; ``properties`` are names of properties with the values that agree, in lower case."""

    name: str
    types: frozenset[str]
    strict: str
    limit: int
    properties: Sequence[tuple[str, frozenset[str]]]

    @classmethod
    def of(cls, given: object) -> _Query:
        known = {"query": string, "type": _one_or_more, "type_strict": string, "limit": number, "properties": any_list}
        values = only(given, "a query", known)
        check_choice("type_strict", strict := values.get("type_strict", "should"), ("any", "should", "all"))
        limit = int(min(max(values.get("limit", _LIMIT), 1), _MOST))
        properties = []
        for one in values.get("properties", ()):
            own = only(one, "a property", {"pid": string, "v": _one_or_more}, "pid", "v")
            properties.append((own["pid"], _folded(own["v"])))
        types = frozenset(_string(one, "a type") for one in values.get("type", ()))
        return cls(values.get("query", ""), types, strict, limit, properties)

    @property
    def depth(self) -> int:
        """The number of candidates to look at; two are needed to tell a match."""
        return _DEEP if self.types or self.properties else max(self.limit, 2)

    def has_type(self, entity: Entity) -> bool:
        """Whether the entity has the type that is asked for or, with several, one or all of them."""
        held = self.types & {*entity.types}
        return held == self.types if self.strict == "all" or not self.types else bool(held)

    def agreeing(self, entity: Entity) -> dict[str, float]:
        """Return 1 for each property with a value of the query, and 0 for the others."""
        return {name: float(bool(values & _folded(_values(entity, name)))) for name, values in self.properties}


def _string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{what} must be a string")
    return value


def _one_or_more(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _values(entity: Entity, name: str) -> list[Any]:
    value = json_ready(getattr(entity, name) if name in _FIELDS else entity.metadata.get(name))
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def _folded(values: Iterable[Any]) -> frozenset[str]:
    """Return values to compare: without case, entities by their ids, and without blank ones."""
    ids = (value.get("id", "") if isinstance(value, dict) else value for value in values)
    return frozenset(str(value).strip().casefold() for value in ids if value is not None) - {""}


def _described(entity: Entity) -> Answer:
    shown = {} if entity.definition is None else {"description": entity.definition}
    return {"id": entity.id, "name": entity.name, **shown}


def _named(names: Iterable[str]) -> list[Answer]:
    return [{"id": name, "name": name} for name in names]

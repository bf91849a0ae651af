"""The Reconciliation Service API 0.2, which OpenRefine speaks, over one knowledge base; without HTTP.

A query never depends on the others of its batch. docs/openrefine.md says how candidates are scored; their scores are
above 0, to 100. The specification leaves the default of ``type_strict`` to the service: ``should``, as in OpenRefine.

https://www.w3.org/community/reports/reconciliation/CG-FINAL-specs-0.2-20230410/
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, StrictFloat, StrictInt, TypeAdapter, ValidationError

from arbo.data import Corpus, Entity
from arbo.errors import DataError
from arbo.files import json_ready
from arbo.serve.service import Answer, Limit, Service
from arbo.serve.web import parsed, sentence
from arbo.text.names import normalize_name

Model = TypeVar("Model")
MARGIN = 10.0  # a candidate is a match only if its score leads by this much
_MOST, _DEEP = 100, 100  # the largest number of candidates to return, and the number of nearest entities to choose from
Kind = Literal["entity", "property", "type"]
_FIELDS = ("aliases", "definition", "types", "alternative_ids", "xrefs")


class Property(BaseModel, extra="forbid"):
    """A property of a reconciliation query, with one value or several."""

    pid: str
    v: Any


class Query(BaseModel, extra="forbid"):
    """A reconciliation query."""

    query: str = ""
    type: str | list[str] = []
    type_strict: Literal["any", "should", "all"] = "should"
    limit: StrictInt | StrictFloat = 5
    properties: list[Property] = []


class PropertyId(BaseModel):
    """A property to extend data by."""

    id: str


class Extension(BaseModel, extra="forbid"):
    """A data extension query."""

    ids: list[str]
    properties: list[PropertyId]


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
        keys = (key for (record,) in self.service.kb.columns("metadata") for key in record)
        return list(dict.fromkeys((*_FIELDS, *keys)))

    @cached_property
    def threshold(self) -> float:
        """The score from which a candidate may be a match: that from which the linker links a mention on its own."""
        linker = self.service.undivided
        lists = linker.retrieve(Corpus.of([self.service.kb.entities[0].name]), k=0)
        return 100 * (lists.offset - linker.config.limits(lists.threshold)[0])

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
            "suggest": {kind: {"service_url": here, "service_path": f"/suggest/{kind}"} for kind in get_args(Kind)},
            "extend": {"propose_properties": {"service_url": here, "service_path": "/properties"}},
            "defaultTypes": _named(self.types[:20]),
        }

    def queries(self, text: str) -> Answer:
        """Answer a batch of queries, an object in JSON."""
        batch = _checked(dict[str, Query], text, "'queries'")
        self.service.limits.check("texts", len(batch), "queries")
        most = max((len(one.properties) for one in batch.values()), default=0)
        self.service.limits.check("texts", most, "properties")
        near = self.service.nearest([query.query for query in batch.values()], _DEEP)
        return {key: {"result": rows} for key, rows in zip(batch, map(self._ranked, batch.values(), near), strict=True)}

    def _ranked(self, query: Query, near: Sequence[tuple[int, float]]) -> list[Answer]:
        kb, rated, types = self.service.kb, [], {*_several(query.type)}
        limit = int(min(max(query.limit, 1), _MOST))
        properties = [(one.pid, _folded(_several(one.v))) for one in query.properties if one.pid in self.properties]
        properties = [(name, values) for name, values in properties if values]
        if not (types or properties):
            near = near[: max(limit, 2)]  # two tell a match
        if (named := kb.index(query.query) if query.query in kb else None) is not None:
            near = [(named, 1.0), *(one for one in near if one[0] != named)]
        for row, similarity in near:
            entity = kb.entities[row]
            evidence = {name: float(bool(values & _folded(_values(entity, name)))) for name, values in properties}
            evidence["name"] = similarity
            score = 100 * sum(evidence.values()) / len(evidence)
            shared = types & {*entity.types}
            has_type = shared == types if query.type_strict == "all" or not types else bool(shared)
            if row == named:
                score = float("inf")
            elif not has_type:
                score = score / 2 if query.type_strict == "should" else 0.0
            if score > 0:
                rated.append((score, evidence, entity))
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
            for place, (score, evidence, entity) in enumerate(rated[:limit])
        ]

    def suggest(self, *, kind: Kind, prefix: str, cursor: Annotated[int, Field(ge=0, le=100)] = 0) -> Answer:
        """Return entities, properties or types for a prefix; entities whose names begin with it come first."""
        begin, kb = normalize_name(prefix), self.service.kb
        if kind != "entity":
            names = self.types if kind == "type" else self.properties
            return {"result": _named([name for name in names if begin in normalize_name(name)][cursor : cursor + 10])}

        def begins(one: Entity) -> bool:
            return bool(begin) and any(normalize_name(name).startswith(begin) for name in (one.name, *one.aliases))

        near = ((kb.entities[row], score) for row, score in self.service.nearest([prefix], _DEEP)[0])
        entities = [one for one, score in near if score > 0 or begins(one)]  # one letter is similar to no name
        entities.sort(key=lambda one: not begins(one))
        if prefix in kb:
            entities = [kb[prefix], *(one for one in entities if one.id != kb[prefix].id)]
        return {"result": [{**_described(one), "notable": _named(one.types)} for one in entities[cursor : cursor + 10]]}

    def propose(self, *, type: str | None = None, limit: Limit = 100) -> Answer:  # noqa: A002
        """Return the properties that `extend` can fetch, which are the same for all types."""
        of_type = {} if type is None else {"type": type}
        return {**of_type, "limit": limit, "properties": _named(self.properties[:limit])}

    def extend(self, text: str) -> Answer:
        """Return the values of some properties of some entities; unknown entities and properties have none."""
        query, kb = _checked(Extension, text, "'extend'"), self.service.kb
        names = [one.id for one in query.properties]
        self.service.limits.check("mentions", len(query.ids) * len(names), "values")
        rows = {id_: {name: self._cells(kb[id_], name) if id_ in kb else [] for name in names} for id_ in query.ids}
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


def _checked(kind: type[Model], text: str, what: str) -> Model:
    """Parse JSON as a model; raise DataError for another shape, and as `parsed` does."""
    try:
        return TypeAdapter(kind).validate_python(parsed(text))
    except ValidationError as error:
        raise DataError(f"{what}: {sentence(error.errors(include_input=False, include_url=False))}") from None


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _values(entity: Entity, name: str) -> list[Any]:
    value = json_ready(getattr(entity, name) if name in _FIELDS else entity.metadata.get(name))
    return [one for one in _several(value) if one is not None]


def _folded(values: Iterable[Any]) -> frozenset[str]:
    """Return values to compare: without case, entities by their ids, and without blank ones."""
    ids = (value.get("id", "") if isinstance(value, dict) else value for value in values)
    return frozenset(str(value).strip().casefold() for value in ids if value is not None) - {""}


def _described(entity: Entity) -> Answer:
    shown = {} if entity.definition is None else {"description": entity.definition}
    return {"id": entity.id, "name": entity.name, **shown}


def _named(names: Iterable[str]) -> list[Answer]:
    return [{"id": name, "name": name} for name in names]

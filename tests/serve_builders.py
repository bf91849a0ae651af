"""A service over a small knowledge base, and a client that asks its web application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import arbo
from arbo.serve.requests import Limits

if TYPE_CHECKING:
    from arbo.serve.service import Service

KB = arbo.KnowledgeBase(
    [
        arbo.Entity("D:1", "marsh fever", ("swamp fever",), "A fever of the <marsh>.", ("Disease",), xrefs=("M:1",)),
        arbo.Entity("D:2", "hill fever", (), None, ("Disease",), ("D:9",), metadata={"is_a": "D:1", "year": 1990}),
        arbo.Entity("P:1", "marsh", ("fen",), None, ("Place",)),
        arbo.Entity("X/1 ü", "<script>alert(1)</script> & co"),
    ]
)


@cache
def linker() -> arbo.Linker:
    return arbo.Linker(KB)


def service_of(**limits: int) -> Service:
    from arbo.serve.service import Service

    return Service(linker(), limits=Limits(**limits))


def client_of(service: Service | None = None, **options: Any) -> Any:
    """Return a client whose requests name 127.0.0.1 as their host."""
    from starlette.testclient import TestClient

    from arbo.serve.app import app_of

    app = app_of(service or service_of(), **options)
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=True)


_KINDS: dict[str, Any] = {
    "boolean": bool,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "array": list,
    "object": dict,
}


def fits(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any] | None = None) -> bool:
    """Whether a value fits a JSON schema, with the few keywords that our schemas use."""
    if "$ref" in schema:
        schema = (schemas or {})[schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        return any(fits(value, one, schemas) for one in schema["oneOf"])
    named = schema.get("type", [])
    kinds = [_KINDS[one] for one in ([named] if isinstance(named, str) else named)]
    if kinds and not any(isinstance(value, kind) and (kind is bool) >= isinstance(value, bool) for kind in kinds):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, list):
        return all(fits(item, schema.get("items", {}), schemas) for item in value)
    if isinstance(value, dict):
        own, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
        if rest is False and {*value} - {*own}:
            return False
        return {*schema.get("required", ())} <= {*value} and all(
            fits(item, own.get(key, rest or {}), schemas) for key, item in value.items()
        )
    return True

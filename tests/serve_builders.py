"""A service over a small knowledge base, and a client that asks its web application."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from builders import kb_of

import arbo
from arbo.serve.web import Limits

if TYPE_CHECKING:
    from arbo.serve.service import Service

KB = kb_of(
    arbo.Entity("D:1", "marsh fever", ("swamp fever",), "A fever of the <marsh>.", ("Disease",), xrefs=("M:1",)),
    arbo.Entity("D:2", "hill fever", (), None, ("Disease",), ("D:9",), metadata={"is_a": "D:1", "year": 1990}),
    arbo.Entity("P:1", "marsh", ("fen",), None, ("Place",)),
    arbo.Entity("X/1 ü", "<script>alert(1)</script> & co"),
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

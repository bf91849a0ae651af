"""The operations of the HTTP service, as `openapi.json` describes them.

The methods of `Service` and `Reconciliation` that answer them have the names of the operations and of the parameters.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

from arbo.errors import UsageError
from arbo.serve.reconciliation import Reconciliation
from arbo.serve.requests import value_of

Described = dict[str, Any]


@cache
def openapi() -> Described:
    """Return the OpenAPI document."""
    described: Described = json.loads(files("arbo.serve").joinpath("openapi.json").read_text("utf-8"))
    described["info"]["version"] = version("arbo")
    return described


class Call(NamedTuple):
    """What a request asks for."""

    body: Any
    """The parsed JSON; None if there is none."""
    form: Mapping[str, str]
    """The query string and the fields of a form."""
    base: str
    """The URL of the service, with a slash at the end."""


_QUICK = {"health", "entity", "openapi", "preview"}


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path."""

    method: str
    path: str
    described: Described

    @property
    def body(self) -> str | None:
        """The type of its body, if it has one."""
        return next(iter(self.described.get("requestBody", {"content": ()})["content"]), None)

    @property
    def shared(self) -> bool:
        """Whether pages of any origin may read its answers."""
        return self.path.startswith("/reconcile")

    @property
    def quick(self) -> bool:
        """Whether it is answered at once, without waiting for its turn."""
        return self.described["operationId"] in _QUICK

    def answer(self, own: Reconciliation, call: Call, path: Mapping[str, str]) -> Any:
        """Answer a request; raise UsageError for an unknown, missing or invalid parameter."""
        parameters = {one["name"]: one for one in self.described.get("parameters", ())}
        if not self.shared and (unknown := sorted(call.form.keys() - parameters)):
            known = f"; known are {', '.join(parameters)}" if parameters else ""
            raise UsageError(f"unknown parameter {unknown[0]!r:.60}{known}")
        values = {name: _value(one, {**call.form, **path}.get(name)) for name, one in parameters.items()}
        name = self.described["operationId"]
        if name == "openapi":
            return openapi()
        if name in ("reconcile", "reconcile_form"):
            return own.reconcile(call.form, call.base)
        if self.body:
            values["body"] = call.body
        return getattr(own if self.shared else own.service, name)(**values)


def _value(parameter: Described, text: str | None) -> Any:
    schema, name = parameter["schema"], parameter["name"]
    if text is None and parameter.get("required"):
        raise UsageError(f"the parameter {name!r} is missing")
    return schema.get("default") if text is None else value_of(name, text, schema)


OPERATIONS = [
    Operation(method, path, described)
    for path, methods in openapi()["paths"].items()
    for method, described in methods.items()
]

"""Run the command line in this process without pytest, as campaigns do."""

import json
from typing import Any

from typer.testing import CliRunner

from arbo.cli import app
from arbo.errors import ArboError


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def asked(*arguments: object, stdin: str | bytes | None = None) -> Any:
    """Run a command; return its JSON, its output, or the error that arbo told; raise any other error."""
    words = [str(argument) for argument in arguments]
    done = CliRunner().invoke(app, words, input=stdin)
    if isinstance(done.exception, ArboError):
        assert str(done.exception)
        return done.exception
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"arbo {words}") from done.exception
    assert done.exit_code in (0, 1, 2, 3), done.exit_code
    if done.exit_code == 0 and "--json" in words:
        return json.loads(done.stdout, parse_constant=refuse)
    return done.stdout if done.exit_code == 0 else done.exit_code

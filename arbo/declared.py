"""The names that a module imports for type checkers alone, so that it can import each when it is first used."""

import ast
from pathlib import Path


def declared(file: str) -> dict[str, str]:
    """Return the module of each name that a file imports in its first ``if``, which is `if TYPE_CHECKING`."""
    block = next(node for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {one.name: str(node.module) for node in imports for one in node.names}

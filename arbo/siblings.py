"""The packages `clustering` and `eval`, whatever else has these names.

A script may lie beside an `eval.py` of its own: Python then finds that file under the name, and arbo must neither take
it for its own nor execute it. Where nothing stands in the way, each package is imported under its own name, so that
there is one module for everybody; else the one that lies beside arbo is loaded under a private name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def attribute(facade: str, package: str, home: Mapping[str, str], name: str) -> Any:
    """Return what a facade has under a name, and keep it there.

    Args:
        facade: the module that is asked.
        package: `clustering` or `eval`.
        home: the module of each name inside the package; empty for the package itself.
        name: what is asked for.

    """
    if name not in home:
        raise AttributeError(f"module {facade!r} has no attribute {name!r}")
    module = import_module(f"{_name_of(package)}.{home[name]}".rstrip("."))
    value = getattr(module, name)
    setattr(sys.modules[facade], name, value)
    return value


@cache
def _name_of(package: str) -> str:
    """Return the name under which a package beside arbo is imported."""
    init = Path(__file__).resolve().parent.parent / package / "__init__.py"
    if package in sys.modules:
        found = getattr(sys.modules[package], "__file__", None)
    else:
        spec = find_spec(package)
        found = spec.origin if spec else None
    if found is not None and Path(found).resolve() == init:
        return package
    name = f"arbo._{package}"
    own = spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
    assert own is not None
    assert own.loader is not None
    module = sys.modules[name] = module_from_spec(own)
    own.loader.exec_module(module)
    return name

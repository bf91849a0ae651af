"""Import arbo's packages `clustering` and `eval`, even if other modules have these names.

A user's script may have its own `eval.py` beside it. Python then finds that file under the name `eval`, and arbo must
neither use nor execute it. If there is no such conflict, each package is imported under its own name, so that only one
copy is loaded; otherwise, the package beside arbo is loaded under a private name.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def attribute(facade: str, package: str, names: Mapping[str, str], name: str) -> Any:
    """Return an attribute for a facade module, such as `arbo.engine`, and store it in that module.

    ``names`` maps a module of ``package`` (`clustering` or `eval`) to the names that it defines, separated by blanks;
    other names are looked up in the package itself.
    """
    home = next((module for module, own in names.items() if name in own.split()), "")
    try:
        value = getattr(import_module(f"{_name_of(package)}.{home}".rstrip(".")), name)
    except AttributeError:
        raise AttributeError(f"module {facade!r} has no attribute {name!r}") from None
    setattr(sys.modules[facade], name, value)
    return value


@cache
def _name_of(package: str) -> str:
    """Return the name under which to import a package beside arbo."""
    init = Path(__file__).resolve().parent.parent / package / "__init__.py"
    if package in sys.modules:
        found = getattr(sys.modules[package], "__file__", None)
    else:
        spec = find_spec(package)
        found = spec.origin if spec else None
    if found is not None and Path(found).resolve().with_suffix(".py") == init:
        return package
    name = f"arbo._{package}"
    own = spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
    assert own is not None
    assert own.loader is not None
    module = sys.modules[name] = module_from_spec(own)
    own.loader.exec_module(module)
    return name

"""The cells of tables that take long: each is made once, and kept.

A cell is kept, in the cache folder unless told, with a hash of the settings and the recipe that made it, and the
commit, with the GPU if there was one. One that was made with others is made again, and is not recorded; one that was
made by another commit is recorded, and the report says so.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from library.folders import CACHE
from library.results import NO_COMMIT, commit, say

Cell = dict[str, Any]
RECIPE = 1
"""To be raised when arbo does otherwise by the same settings, so that all cells and models are made again."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Figures that are kept in a folder, with a hash of the settings that they were made with."""

    name: str
    settings: Callable[[Cell], object]
    """What a cell is made with."""
    place: Path = CACHE

    def keep(self, cell: Cell, make: Callable[[str], dict[str, Any]]) -> None:
        """Make the figures of a cell, which has a name, and keep them, unless they are there."""
        made_with, name = hashed(self.settings(cell)), self.name_of(cell)
        file = self.place / self.name / f"{name}.json"
        if not file.exists():
            before = commit()
            figures = make(name)
            made = cell | {"made_with": made_with, "commit": before + _on_gpu(), **figures}
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(made), "utf-8")
            say(file.name)

    def name_of(self, cell: Cell) -> str:
        """Name a cell, and what it is made with."""
        return f"{key(*cell.values())}.{hashed(self.settings(cell))}"

    def read(self) -> list[Cell]:
        """Read the cells that were made with the settings of today, each with the ``commit`` that made it."""
        files = sorted((self.place / self.name).glob("*.json"))
        found = [{"commit": NO_COMMIT} | json.loads(file.read_text("utf-8")) for file in files]
        return [cell for cell in found if cell.pop("made_with") == hashed(self.settings(cell))]


def _on_gpu() -> str:
    """Name the GPU of this machine, whose sums differ from a CPU's."""
    torch = sys.modules.get("torch")
    return f" on {torch.cuda.get_device_name()}" if torch is not None and torch.cuda.is_available() else ""


def hashed(settings: object) -> str:
    """Hash settings that are dataclasses, lists of such, or None, and the recipe, unless it is the first."""
    made_with = settings if RECIPE == 1 else [RECIPE, settings]
    return hashlib.sha256(json.dumps(made_with, default=asdict, sort_keys=True).encode()).hexdigest()[:8]


def key(*named: object) -> str:
    """Name a cell or figure."""
    return ".".join(str(part).lower().replace(" ", "_").replace(",", "") for part in named)

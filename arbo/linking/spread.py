"""How far a correction spreads; see `arbo.linking.obedience`."""

from __future__ import annotations

from typing import Literal

Spread = Literal["none", "same-name", "graph"]

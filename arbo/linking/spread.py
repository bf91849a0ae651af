"""How far a correction spreads; see `arbo.linking.obedience`."""

from typing import Literal

Spread = Literal["none", "same-name", "graph"]

"""How far a correction spreads; see `arbo.linking.mention_decisions`."""

from typing import Literal

Spread = Literal["none", "same-name", "graph"]

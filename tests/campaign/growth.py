"""Growth against refit, in the random histories of ``tests/histories.py``."""

from pathlib import Path

import histories

from campaign.runner import Campaign


def _history(seed: int, folder: Path) -> None:
    histories.live(seed, **histories.KINDS[seed % len(histories.KINDS)])


CAMPAIGNS = {
    "histories": Campaign(_history, "a run that grew equals its refit, after each of four steps", many=20_000, few=6)
}

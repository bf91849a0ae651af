"""The campaigns in short: each question is asked a few times, of seeds that the long form has too."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign.runner import campaigns

KNOWN = campaigns()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * known.processes) for name, known in KNOWN.items()]
)
def test_no_case_fails(name: str, tmp_path: Path) -> None:
    for seed in range(KNOWN[name].few):
        (tmp_path / str(seed)).mkdir()
        KNOWN[name].case(seed, tmp_path / str(seed))

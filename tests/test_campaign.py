"""The campaigns in short: each question is asked a few times, of seeds that the long form has too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from campaign.runner import PAGE, RECORD, campaigns, table

KNOWN = campaigns()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * known.processes) for name, known in KNOWN.items()]
)
def test_no_case_fails(name: str, tmp_path: Path) -> None:
    for seed in range(KNOWN[name].few):
        (tmp_path / str(seed)).mkdir()
        KNOWN[name].case(seed, tmp_path / str(seed))


def test_the_page_on_reliability_has_the_figures_of_the_record() -> None:
    """After a merge: ``python tests/campaign --table``."""
    assert table(json.loads(RECORD.read_text("utf-8"))) in PAGE.read_text("utf-8")


def test_the_table_tells_of_failures() -> None:
    name = next(iter(KNOWN))
    assert f"| `{name}` | {KNOWN[name].asks} | 1,200 | 2 |" in table({name: {"cases": 1200, "failed": [3, 5]}})

"""What several test files use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Find a file in the folder `shared` beside the repository; without it skip, or fail in CI."""

    def find(path: str) -> Path:
        if not _SHARED.is_dir() and not os.environ.get("CI"):
            pytest.skip(f"the folder {_SHARED} is absent")
        if not (_SHARED / path).exists():
            pytest.fail(f"{_SHARED / path} is absent")
        return _SHARED / path

    return find

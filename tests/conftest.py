"""What several test files use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent
_SHARED = _ROOT.parent / "shared"

# Numba's cache on disk does not notice a change in a helper of another file: let its folder depend on all of them.
_SOURCES = b"".join(file.read_bytes() for file in sorted((_ROOT / "clustering").glob("*.py")))
os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".numba_cache" / hashlib.sha256(_SOURCES).hexdigest()[:16]))


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

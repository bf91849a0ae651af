"""Run campaigns: ``python tests/campaign``."""

import sys
from pathlib import Path

tests = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(tests), str(tests.parent)]

if __name__ == "__main__":
    from campaign.runner import main

    main()

"""Where the benchmarks read and write."""

import os
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]
ROOT = BENCHMARKS.parent
RESULTS = BENCHMARKS / "results"
PLOTS = BENCHMARKS / "plots"
REPORTS = BENCHMARKS / "reports"
DATA = Path(os.environ.get("ARBO_DATA", ROOT.parent / "shared" / "data"))
"""The corpora and knowledge bases."""
CACHE = Path(os.environ.get("ARBO_CACHE", BENCHMARKS / ".cache"))
"""Vectors, models and cells that are kept from one run to the next."""
CELLS = BENCHMARKS / "cells"
"""The cells of trainings, which stay with the project."""
MODELS = CACHE / "models"

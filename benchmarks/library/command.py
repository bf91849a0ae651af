"""The command line of a benchmark."""

import argparse
import json
from collections.abc import Callable

from library.results import Figures, record


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Make a parser that describes a script by the first line of its docstring."""
    return argparse.ArgumentParser(description=(description or "").partition("\n")[0])


def measure_or_try(name: str, description: str | None, smaller: str, measure: Callable[[bool], Figures]) -> None:
    """Measure all and record it; with `--quick` measure less, print the figures and leave the results alone.

    Args:
        name: the script's.
        description: its docstring.
        smaller: what `--quick` measures.
        measure: is told whether to be quick.
    """
    parser = parser_of(description)
    parser.add_argument("--quick", action="store_true", help=f"{smaller}, results left alone")
    if parser.parse_args().quick:
        print(json.dumps(measure(True), indent=2))
    else:
        record(name, measure(False))

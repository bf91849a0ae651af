"""Run the command line with `python -m arbo`."""

from arbo.cli import main

main()

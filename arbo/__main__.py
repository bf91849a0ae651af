"""`python -m arbo` is `arbo`."""

from arbo.cli import main

main()

"""The verb `link`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arbo.cli import options
from arbo.cli.finding import find_in, load_finder
from arbo.cli.inputs import Docs, Kb
from arbo.cli.linker import Linking
from arbo.cli.run import Output, run
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.spans.finding import Finder


def link(
    docs: Docs,
    kb: Kb,
    output: Output,
    linking: Linking,
    no_generic_names: options.NoGenericNames = False,
    text_column: options.TextColumn = None,
    find_mentions: options.FindMentions = None,
    find_threshold: options.FindThreshold = None,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    With `--find-mentions dictionary`, for example, DOCS need no mentions.
    """
    from arbo.results.run_folder import check_replaceable

    check_replaceable(output.out)
    linker = linking.load()
    finder = _finder(find_mentions, find_threshold, expand=linker.config.expand_abbreviations)
    base = kb.read(no_generic_names=no_generic_names)
    documents = docs.read(mentions=finder is None, column=text_column)
    given = documents if finder is None else find_in(documents, base, finder).corpus
    annotated = None if finder is None else documents
    run(linker.configured(kb=base), given, output, annotated)


def _finder(name: str | None, threshold: float | None, *, expand: bool) -> Finder | None:
    if name is None and threshold is not None:
        raise UsageError("--find-threshold needs --find-mentions with `fuzzy` or a model")
    return None if name is None else load_finder(name, "--find-mentions", threshold, expand)

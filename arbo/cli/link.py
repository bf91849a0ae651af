"""The verb `link`."""

import arbo
from arbo.cli import options
from arbo.cli.finding import find_in, load_finder
from arbo.cli.inputs import Docs, Kb
from arbo.cli.linker import Linking
from arbo.cli.run import Output, run
from arbo.errors import UsageError


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
    if find_mentions is None and find_threshold is not None:
        raise UsageError("--find-threshold needs --find-mentions with a model")
    how = "--find-mentions", find_threshold, linker.config.expand_abbreviations
    finder = None if find_mentions is None else load_finder(find_mentions, *how)
    base = kb.read(no_generic_names=no_generic_names)

    def read() -> tuple[arbo.Corpus, arbo.Corpus | None]:
        documents = docs.read(mentions=finder is None, column=text_column)
        return (documents, None) if finder is None else (find_in(documents, base, finder).corpus, documents)

    run(linker.configured(kb=base), read, output)

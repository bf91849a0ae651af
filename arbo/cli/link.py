"""The verb `link`."""

from typing import Annotated

import arbo
from arbo.cli import options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, Chosen, Shown
from arbo.cli.finding import FINDING, FindingConfig, find_in
from arbo.cli.inputs import Docs, Kb, ReadingConfig
from arbo.cli.models import LinkingModels, load_linker
from arbo.cli.run import PREVIEW, Output, run
from arbo.errors import UsageError

_SETTINGS = Shown(
    (LINKER, ENCODER, READING, FINDING, JOB, PREVIEW),
    {
        "Documents": "ids",
        "Knowledge base": "kb_types kb_xrefs",
        "Clustering": "method k",
        "Corrections": "preview",
        "Processes": "workers ray",
    },
)


def link(
    docs: Docs,
    kb: Kb,
    *,
    text_column: options.TextColumn = None,
    find_mentions: options.FindMentions = None,
    how: Annotated[Chosen, _SETTINGS],
    threshold: options.Threshold = None,
    models: LinkingModels,
    output: Output,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    Documents with mentions: `arbo link notes.jsonl --kb kb.obo --out run`.

    A table of names: `arbo link names.csv --text-column name --kb kb.csv --out run`.

    Texts without mentions: `arbo link notes.txt --find-mentions dictionary --kb kb.obo --out run`.

    Then look at the links: `arbo show run`, or `arbo explore run`.
    """
    from arbo.results.run_folder import check_replaceable
    from arbo.spans.by_name import finder_of

    check_replaceable(output.out)
    linker = load_linker(models, how, threshold)
    if find_mentions is None and how.given(FINDING):
        raise UsageError("find_threshold needs --find-mentions with a model")
    reading, finder = how.of(READING, ReadingConfig()), None
    if find_mentions is not None:
        expand, least = linker.config.expand_abbreviations, how.of(FINDING, FindingConfig()).find_threshold
        finder = finder_of(find_mentions, least, abbreviations=expand, option="--find-mentions")
    base = kb.read(reading)

    def read() -> tuple[arbo.Corpus, arbo.Corpus | None]:
        documents = docs.read(reading, mentions=finder is None, column=text_column)
        return (documents, None) if finder is None else (find_in(documents, base, finder).corpus, documents)

    run(linker.configured(kb=base), read, output, how)

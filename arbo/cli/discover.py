"""The verb `discover`."""

import arbo
from arbo.cli import options
from arbo.cli.inputs import Docs
from arbo.cli.linker import Discovering
from arbo.cli.run import Output, run
from arbo.errors import UsageError


def discover(
    docs: Docs,
    output: Output,
    linking: Discovering,
    text_column: options.TextColumn = None,
    by_topic: options.ByTopic = False,
) -> None:
    """Cluster mentions across documents without a knowledge base; each cluster is a discovered entity."""
    from arbo.linking.config import tuned_model
    from arbo.results.run_folder import check_replaceable

    if tuned_model(linking.config, "reranker"):
        wrong = f"{linking.config} was tuned with a reranker, but discover uses none, so its thresholds would not fit"
        raise UsageError(f"{wrong}; tune again without --kb and --reranker")
    check_replaceable(output.out)
    linker = linking.load()

    def read() -> tuple[arbo.Corpus, None]:
        documents = docs.read(column=text_column)
        return documents.by_topic() if by_topic else documents, None

    run(linker, read, output)

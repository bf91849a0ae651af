"""The verb `discover`."""

from typing import Annotated

import arbo
from arbo.cli import options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, Chosen, Shown
from arbo.cli.inputs import Docs, ReadingConfig
from arbo.cli.models import Models, load_linker
from arbo.cli.run import PREVIEW, Output, run
from arbo.errors import UsageError

_SETTINGS = Shown((LINKER, ENCODER, READING, JOB, PREVIEW), {"Clustering": "k", "Processes": "workers ray"})


def discover(
    docs: Docs,
    *,
    text_column: options.TextColumn = None,
    how: Annotated[Chosen, _SETTINGS],
    threshold: options.Threshold = None,
    models: Models,
    output: Output,
) -> None:
    """Cluster mentions across documents without a knowledge base; each cluster is a discovered entity."""
    from arbo.linking.config import tuned_model
    from arbo.results.run_folder import check_replaceable

    if tuned_model(models.config, "reranker"):
        wrong = f"{models.config} was tuned with a reranker, but discover uses none, so its thresholds would not fit"
        raise UsageError(f"{wrong}; tune again without --kb and --reranker")
    check_replaceable(output.out)
    linker = load_linker(models, how, threshold)
    reading = how.of(READING, ReadingConfig())

    def read() -> tuple[arbo.Corpus, None]:
        return docs.read(reading, column=text_column), None

    run(linker, read, output, how)

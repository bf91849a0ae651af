"""The verb `entity-split`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Option

from arbo.cli import console, options
from arbo.cli.inputs import Docs, Kb
from arbo.cli.reporting import check_jsonl_output
from arbo.files import real

_FILES = ("train.jsonl", "test.jsonl", "unseen.jsonl", "kb.jsonl")


def entity_split(
    docs: Docs,
    kb: Kb,
    out: Annotated[Path, Option(help=f"Folder to write {', '.join(_FILES)} to.")],
    unseen: Annotated[float, Option(min=0, max=0.8, help="Share of the entities that training does not have.")] = 0.1,
    seed: Annotated[int, Option(min=0, help="Random seed.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Split sentences by their entities, as the OSLAT paper does: some entities occur only in the test part.

    `arbo entity-split docs.jsonl --kb kb.obo --out split`, then `arbo train-finder split/train.jsonl --kb
    split/kb.jsonl --encoder aligned --out model`, then `arbo spans split/test.jsonl --kb kb.obo --finder model
    --given-entities --train split/train.jsonl`.

    A pair is a sentence and an entity in it. All pairs of the unseen entities, and a tenth of each other entity's
    (rounded down, at least five stay), are to test on; a sentence may be in both parts with different mentions.
    unseen.jsonl has the test pairs of unseen entities alone, and kb.jsonl all entities but the unseen ones.
    """
    import arbo
    from arbo.kb.withholding import remaining
    from arbo.metrics import Table
    from arbo.spans.entity_split import documents_of, entity_split
    from arbo.spans.pieces import pieces
    from arbo.text.sentences import passages

    for name in _FILES:
        check_jsonl_output(out / name, kb.path, *docs.inputs)
    base = kb.read()
    split = entity_split(pieces(docs.read(), passages).corpus, base, unseen=unseen, seed=seed)
    tests = (documents_of(pairs, base) for pairs in (split.test, split.test_unseen))
    known = remaining(base, set(split.unseen.tolist()))
    written: tuple[arbo.Corpus | arbo.KnowledgeBase, ...] = split.train, *tests, known
    with TemporaryDirectory(prefix=".arbo-partial-", dir=out) as partial:
        for name, made in zip(_FILES, written, strict=True):  # all, before one is seen: the disk may be full
            made.to_jsonl(Path(partial) / name)
        for name in _FILES:
            (Path(partial) / name).replace(real(out / name))
    counts = split.counts(base)
    train, test = counts.values()
    rows = ((name.replace("_", " "), f"{n:,}", f"{test[name]:,}") for name, n in train.items())
    told = Table.of_texts("", ("", *counts), rows)
    console.answer({"out": str(out), **counts}, f"{told}\n\nwritten to {out}", as_json=as_json)

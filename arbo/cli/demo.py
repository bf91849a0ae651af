"""The verb `demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.data.objects import document_line, entity_line
from arbo.errors import UsageError

_FILES = "Folder to write the sample to, as documents.jsonl and entities.jsonl."
_EXPLAINED = ("D06-3", "D20-4", "D01-4")
"""Mentions of the sample: one that is linked through other names, one by its long form, and one by its name alone."""


def demo(
    files: Annotated[Path | None, Option(help=_FILES)] = None,
    out: options.Out = Path("demo-run"),
) -> None:
    """Link the embedded sample; show scores, explained decisions and discovered entities; save the run.

    The sample is a small invented collection of bulletins from an island research station. The demo needs no network
    and no model weights.
    """
    console.say("linking the embedded sample; the first run compiles the engine, which takes about 20 seconds")
    from arbo.progress import bars
    from arbo.results.run_folder import check_replaceable

    check_replaceable(out)
    documents, kb = arbo.load_sample()
    if files is not None:
        sample = {"documents": map(document_line, documents), "entities": map(entity_line, kb.entities)}
        for name, lines in sample.items():
            file, content = files / f"{name}.jsonl", "".join(f"{line}\n" for line in lines)
            if file.exists() and file.read_bytes() != content.encode():
                raise UsageError(f"{file} exists and is not the sample; choose another folder")
        documents.to_jsonl(files / "documents.jsonl")
        kb.to_jsonl(files / "entities.jsonl")
        console.say(f"wrote {files / 'documents.jsonl'} and {files / 'entities.jsonl'}")
    result = arbo.Linker(kb, announce=bars).link(documents)
    result.save(out)
    evaluation = result.evaluate()
    if console.as_json:
        console.print_json({"run": str(out), **evaluation.as_dict()})
        return
    console.show(f"{len(documents)} documents, {len(kb)} entities in the knowledge base")
    console.print_summary(result)
    console.print_title("Scores against the gold annotations")
    console.show(evaluation)
    console.print_title("Three linked mentions, and why")
    for mention in _EXPLAINED:
        console.show(result.explain(mention))
    console.print_title("Three discovered entities")
    console.print_discovered(result, 3)
    console.print_next(out, ["show", "--nil"], ["explain", _EXPLAINED[0]])
    console.show("  arbo link --help  (your own documents)")
    page = shlex.join(["explore", str(out), "--out", f"{out.name}.html"])
    console.show(f"  arbo {page}  (a page to open in a browser)")

"""The verb `demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

import arbo
from arbo.cli import console, options

_FILES = "Folder to write the sample to, as documents.jsonl and entities.jsonl."


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
        files.mkdir(parents=True, exist_ok=True)
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
    links = _different_links(result)
    for link in links:
        console.show(result.explain(link))
    console.print_title("Three discovered entities")
    console.print_discovered(result, 3)
    console.print_next(out, ["show", "--nil"], ["explain", links[0].mention.id])
    console.show("  arbo link --help  (your own documents)")
    page = shlex.join(["explore", str(out), "--out", f"{out.name}.html"])
    console.show(f"  arbo {page}  (a page to open in a browser)")


def _different_links(result: arbo.Result) -> list[arbo.Link]:
    """Choose three links: one through mentions with other names, one of an abbreviation, and one by its name alone."""

    def n_names(link: arbo.Link) -> int:
        return len({step.name.casefold() for step in result.explain(link).path})

    links = [link for link in result.links if link.entity is not None]
    chosen = [max(links, key=n_names)]
    for is_abbreviation in (True, False):
        entities = {link.entity for link in chosen}
        plain = (link for link in links if link.entity not in entities and 0.7 < (link.score or 0) < 0.99)
        chosen += [link for link in plain if (link.expansion is not None) == is_abbreviation][:1]
    return chosen

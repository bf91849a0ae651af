"""The verb that trains edge models: train-edges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import arbo
from arbo.cli import console, options, train_options
from arbo.cli.inputs import read_documents, read_kb
from arbo.cli.linker import LinkerOptions
from arbo.cli.reporting import check_no_input
from arbo.errors import UsageError

_OUT = "JSON file to write, or with --cross a folder, which `--edges` of other verbs reads."
_CROSS = (
    "Also train a cross-encoder, which reads the pairs of mentions that are doubtful; it starts from this model: a "
    "local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the Hugging Face Hub. [default: none]"
)
_NAMES = "Also learn to link with a knowledge base to which `arbo kb add-names` added the names of DOCS."


def train_edges(
    docs: options.Documents,
    dev: Annotated[
        Path, typer.Option("--dev", metavar="DOCS", help="Annotated documents to calibrate the probabilities on.")
    ],
    out: Annotated[Path, typer.Option("--out", help=_OUT)],
    format_: options.Format = None,
    kb: options.OptionalKb = None,
    kb_format: options.KbFormat = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    names: Annotated[bool, typer.Option("--names", help=_NAMES)] = False,
    cross: Annotated[str | None, typer.Option("--cross", metavar="MODEL", help=_CROSS)] = None,
    types: options.Types = None,
    ids: options.Ids = None,
    dev_ids: train_options.DevIds = None,
    encoder: options.EncoderModel = None,
    encoder_config: options.EncoderConfigFile = None,
    cache: options.Cache = None,
    expand: options.Abbreviations = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Train an edge model for `--edges` of link, discover, tune and train: it says whether two mentions mean the same.

    `arbo train-edges train.jsonl --dev dev.jsonl --out edges.json`, then `arbo discover test.jsonl --edges edges.json
    --out run`. With --kb the edge model also says whether a mention means an entity. Gold ids and gold clusters both
    say which mentions mean the same. Training takes about a minute for a million pairs, and needs no GPU.

    With --cross, training takes some minutes more. Repeat the command to resume it from OUT.training.
    """
    from arbo.files import check_writable

    if names and not kb:
        raise UsageError("--names needs --kb, the knowledge base that gets the names; give --kb, or leave --names out")
    check_no_input("--out", out, [*docs, dev, *([kb] if kb else [])])
    check_writable(out)
    linker = LinkerOptions({"expand_abbreviations": expand}, encoder, encoder_config, cache).load()
    base = None if kb is None else read_kb(kb, kb_format, kb_xrefs, kb_types)
    documents = read_documents(docs, format_, types, on_error, ids=ids)
    held_out = read_documents(dev, format_, types, on_error, ids=dev_ids)
    if cross is None:
        model = arbo.train_edges(documents, held_out, base, linker=linker, names=names)
        model.save(out)
    else:
        model = arbo.train_edges(documents, held_out, base, linker=linker, names=names, cross=cross, out=out)
    if as_json:
        console.print_json({"edges": str(out), **model.settings})
    else:
        pairs = ", ".join(f"{count:,}" for count in model.trained["pairs"])
        found = {name: f"{share:.1%}" for name, share in model.trained["recall"].items()}
        console.out.print(
            f"of the pairs of mentions in --dev that mean the same, {found['all']} are compared: found by place "
            f"{found['near']}, by shared words {found['words']}, by similar names in other documents {found['names']}"
        )
        console.out.print(f"trained on {pairs} pairs; written to {out}\nnext: arbo discover DOCS --edges {out} ...")

"""The verb `train edges`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, Chosen, Group, Shown
from arbo.cli.inputs import Docs, OptionalKb, ReadingConfig
from arbo.cli.models import Models, load_linker
from arbo.cli.reporting import check_no_input
from arbo.errors import UsageError
from arbo.settings import Settings

_OUT = "JSON file to write, or with --cross a folder, which `--edges` of other verbs reads."
_CROSS = (
    "Also train a cross-encoder, which reads the pairs of mentions that are doubtful; it starts from this model: a "
    "local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the Hugging Face Hub. [default: none]"
)


@dataclass(frozen=True, slots=True)
class NamesConfig(Settings):
    """What is learnt besides."""

    names: bool = False
    """Also learn to link with a knowledge base to which `arbo kb edit --add-names` added the names of DOCS."""


_LEARNT = Group("learnt", __name__, "NamesConfig")


def train_edges(
    docs: Docs,
    kb: OptionalKb,
    how: Annotated[Chosen, Shown((LINKER, ENCODER, READING, _LEARNT, JOB))],
    dev: Annotated[Path, Option(metavar="DOCS", help="Annotated documents to calibrate the probabilities on.")],
    out: Annotated[Path, Option(help=_OUT)],
    cross: Annotated[str | None, Option(metavar="MODEL", help=_CROSS)] = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> None:
    """Train an edge model for `--edges` of link, discover, tune and train: it says whether two mentions mean the same.

    `arbo train edges train.jsonl --dev dev.jsonl --out edges.json`, then `arbo discover test.jsonl --edges edges.json
    --out run`. With --kb the edge model also says whether a mention means an entity. Gold ids and gold clusters both
    say which mentions mean the same. Training takes about a minute for a million pairs, and needs no GPU.

    With --cross, training takes some minutes more. Repeat the command to resume it from OUT.training.
    """
    from arbo.files import check_writable

    names = how.of(_LEARNT, NamesConfig()).names
    if names and not kb.path:
        raise UsageError("names needs --kb, the knowledge base that gets the names; give --kb, or leave names out")
    check_no_input("--out", out, [*docs.paths, dev, kb.path])
    check_writable(out)
    linker = load_linker(Models(encoder=encoder), how)
    reading = how.of(READING, ReadingConfig())
    base, documents, held_out = kb.read(reading), docs.read(reading), docs.dev(dev, reading)
    assert held_out is not None
    more: dict[str, Any] = {} if cross is None else {"cross": cross, "out": out}
    model = arbo.train_edges(documents, held_out, base, linker=linker, names=names, **more)
    if cross is None:
        model.save(out)
    pairs = ", ".join(f"{count:,}" for count in model.trained["pairs"])
    found = {name: f"{share:.1%}" for name, share in model.trained["recall"].items()}
    told = (
        f"of the pairs of mentions in --dev that mean the same, {found['all']} are compared: found by place "
        f"{found['near']}, by shared words {found['words']}, by similar names in other documents {found['names']}\n"
        f"trained on {pairs} pairs; written to {out}\nnext: arbo discover DOCS --edges {out} ..."
    )
    console.answer({"edges": str(out), **model.settings}, told, as_json=as_json)

"""What several test files build: documents, linkers and encoders, files, and processes of their own."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from hypothesis import strategies as st

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import text_of
from arbo.files import checksum

Gold = Iterable[str] | None

NAMES_ONLY = arbo.EncoderConfig()


def document(id_: str, *mentions: str | tuple[str, Gold], domain: str | None = None) -> arbo.Document:
    """Make a document of names, one a line, each a mention `<id>-<number>`; a pair is a name and its gold ids."""
    made, at = [], 0
    for i, mention in enumerate(mentions):
        name, gold = (mention, None) if isinstance(mention, str) else mention
        span = (at, at + len(name))
        made.append(arbo.Mention(f"{id_}-{i}", id_, (span,), name, None, None if gold is None else tuple(gold)))
        at += len(name) + 1
    return arbo.Document(id_, "\n".join(mention.text for mention in made), tuple(made), domain)


def passage(id_: str, text: str, *names: str, gold: Gold = None) -> arbo.Document:
    """Make a document of a text whose mentions are the first places of these names, all with the same gold ids."""
    own = None if gold is None else tuple(gold)
    mentions = []
    for i, name in enumerate(names):
        at = text.index(name)
        mentions.append(arbo.Mention(f"{id_}-{i}", id_, ((at, at + len(name)),), name, None, own))
    return arbo.Document(id_, text, tuple(mentions))


def texts(least: int = 0, most: int = 12) -> st.SearchStrategy[str]:
    """Draw texts of that many characters, of any script; NUL and halves of characters are in no text."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.text(letters, min_size=least, max_size=most)


NAMES = texts(most=8).filter(str.strip)


@st.composite
def drawn_document(draw: st.DrawFn, name: str, most_spans: int = 3) -> arbo.Document:
    """Draw a document with up to three mentions, each of up to so many pieces."""
    text = draw(texts())
    piece = st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True).map(sorted).map(tuple)
    mentions = []
    for number in range(draw(st.integers(0, 3)) if text else 0):
        spans = tuple(draw(st.lists(piece, min_size=1, max_size=most_spans)))
        kind, gold = draw(st.none() | texts()), draw(st.none() | st.lists(NAMES, max_size=2, unique=True).map(tuple))
        mentions.append(arbo.Mention(f"{name}:{number}", name, spans, text_of(spans, text), kind, gold))
    return arbo.Document(name, text, tuple(mentions))


def drawn_documents(most_spans: int = 3) -> st.SearchStrategy[tuple[arbo.Document, ...]]:
    ids = st.lists(NAMES, unique=True, max_size=3)
    return ids.flatmap(lambda ids: st.tuples(*(drawn_document(id_, most_spans) for id_ in ids)))


def drawn_entities(ids: st.SearchStrategy[str], min_size: int = 0) -> st.SearchStrategy[list[arbo.Entity]]:
    """Draw up to five entities with different ids of these; others may have them as alternative ids."""
    entity = st.builds(
        arbo.Entity,
        id=ids,
        name=texts(1).filter(str.strip),
        aliases=st.lists(texts(), max_size=3).map(tuple),
        definition=st.none() | texts(),
        types=st.lists(st.sampled_from(("T1", "T2")), max_size=2).map(tuple),
        alternative_ids=st.lists(ids, max_size=3).map(tuple),
        xrefs=st.lists(st.sampled_from(("MSH:1", "MSH:2", "UMLS:3", "x")), max_size=2).map(tuple),
        domain=st.none() | st.just("a") | texts(),
        metadata=st.just({}) | st.just({"a": [1, {"b": None}]}),
    )
    return st.lists(entity, min_size=min_size, max_size=5, unique_by=lambda entity: entity.id)


def kb_of(*entities: arbo.Entity) -> arbo.KnowledgeBase:
    return arbo.KnowledgeBase(entities)


def linker(kb: arbo.KnowledgeBase | None = None, **settings: Any) -> arbo.Linker:
    """Make a linker with the encoder of letters; settings are those of its configuration."""
    return arbo.Linker(kb, config=replace(arbo.LinkerConfig(), **settings))


def dual_encoder(tower: Any, config: Any = NAMES_ONLY, cache: Path | None = None, **changes: Any) -> arbo.DualEncoder:
    """Make an encoder that has one tower for mentions and entities; changes are to its configuration."""
    return arbo.DualEncoder(tower, tower, replace(config, **changes), cache)


def projecting(tower: Any, dim: int) -> Any:
    """Return a copy of a tower whose vectors a linear layer maps to ``dim`` dimensions."""
    import torch

    from arbo.encoders.pretrained import linear_of
    from arbo.encoders.tower import Tower

    copy, width = tower.copy(), tower.model.config.hidden_size
    weight = torch.nn.init.orthogonal_(torch.empty(dim, width), generator=torch.Generator().manual_seed(0))
    return Tower.of(copy.model, copy.tokenizer, linear_of({"weight": weight}, width))


@contextmanager
def batches(tower: Any) -> Iterator[list[tuple[int, int]]]:
    """Watch the (texts, tokens) of the batches that go through a model."""
    shapes: list[tuple[int, int]] = []
    hook = tower.model.register_forward_pre_hook(
        lambda _, __, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    try:
        yield shapes
    finally:
        hook.remove()


def scores_of(model: Any, texts: list[str], kb: arbo.KnowledgeBase, text: Any, entity: Any) -> Any:
    """Return the score of each pair of a text and an entity, by label attention."""
    scores = np.empty(len(text), np.float32)
    for look in model.looks(texts, kb, text, entity):
        assert look.score.dtype == np.float32
        scores[look.pairs] = look.score
    return scores


def every_pair(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Number all pairs of n things and m others."""
    return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)


def save_lines(path: Path, *lines: object, end: str = "\n") -> Path:
    """Write lines, each with its end, and return the path; objects become JSON, and `.gz` is zipped."""
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    content = "".join(f"{line}{end}" for line in written).encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def save_data(folder: Path, documents: Iterable[arbo.Document], kb: arbo.KnowledgeBase) -> list[object]:
    """Write `docs.jsonl` and `kb.jsonl`, and return how a command takes them."""
    Corpus.of(documents).to_jsonl(folder / "docs.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    return linking(folder, "docs.jsonl")


@cache
def sample_edges() -> arbo.EdgeModel:
    """Train edges between mentions on the sample."""
    documents, _ = arbo.load_sample()
    return arbo.train_edges(documents[:60], documents[60:])


def sample_files(folder: Path) -> Path:
    """Write the sample: all documents, the halves `train` and `test`, and the knowledge base."""
    documents, kb = arbo.load_sample()
    for name, part in (("all", documents), ("train", documents[:45]), ("test", documents[45:])):
        part.to_jsonl(folder / f"{name}.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    return folder


def linking(folder: Path, docs: str = "all.jsonl", kb: str = "kb.jsonl") -> list[object]:
    """Name documents and a knowledge base of a folder as a command takes them."""
    return [folder / docs, "--format", "jsonl", "--kb", folder / kb, "--kb-format", "jsonl"]


def edit_json(file: Path, **changes: object) -> None:
    content = json.loads(file.read_text("utf-8")) | changes
    if content.pop("checksum", None) is not None:
        content["checksum"] = checksum(content)
    file.write_text(json.dumps(content), "utf-8")


def files_in(folder: Path) -> set[str]:
    """Name the files below a folder, with the folders they are in."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.trace),)


def python(code: str, *arguments: object, **environment: str) -> str:
    """Run code in a process of its own and return what it prints; fail with what it complains of."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def arbo_process(*arguments: object, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arbo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=stdin)

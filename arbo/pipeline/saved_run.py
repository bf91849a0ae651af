"""A run in a folder, opened again: its knowledge base, its linker, the run that it was made of, and its review."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

import arbo
from arbo import formats
from arbo.corrections.lines import corrections_of
from arbo.corrections.review import NEAR, Choice, Review
from arbo.data import Entity, KnowledgeBase, strings
from arbo.data.tables import mentions_in
from arbo.encoders.by_name import NGRAM
from arbo.encoders.encoder import Encoder
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import ArboError, UsageError, counted
from arbo.files import PathLike, real, sha256_of
from arbo.formats.files import ending
from arbo.linker import Linker
from arbo.linking.config import LinkerConfig
from arbo.linking.memory import check_release
from arbo.progress import Announce, on_screen
from arbo.results.result import Result
from arbo.results.run import Link
from arbo.results.run_folder import FORMAT, MANIFEST

if TYPE_CHECKING:
    from arbo.encoders.dual import DualEncoder

_SHOWN = 9  # number of entities that a search shows
_LEAST = 0.2  # the smallest similarity of a name that a search shows
Search = Callable[[str, Link], list[Choice]]
"""Returns the entities with an id or, if the words are none, with names like them, in the domain of the mention."""
Tell = Callable[[str], None]


def read_base(
    path: Path,
    format_: formats.KnowledgeBaseFormat | None = None,
    *,
    xrefs: list[str] | None = None,
    types: list[str] | None = None,
    generic_names: bool = True,
    columns: Mapping[str, str] | None = None,
    tell: Tell,
) -> KnowledgeBase:
    """Read a knowledge base, which then knows how it was read (`KnowledgeBase.source`).

    For ``columns`` see `arbo.read_knowledge_base`, for others `arbo.cli.inputs.ReadingConfig`. ``tell`` takes notes.
    """

    def announce(name: str) -> None:
        tell(f"{path.name}: read as {name} (--kb-format overrides)")

    kb = formats.read_knowledge_base(path, format_, announce_format=announce, columns=columns, types=types or None)
    source = kb.source
    if xrefs:
        kb = kb.through_xrefs(*xrefs)
    for note, count in kb.notes.items():
        tell(f"{path.name}: {counted(count, note)}")
    if not generic_names:
        generic = kb.generic_names()
        kb = kb.without_names(generic)
        shown = f": {', '.join(generic)}" if generic else ""
        tell(f"{path.name}: left out {counted(len(generic), 'generic names')}{shown}")
    if source and source["format"] == "index" and (xrefs or types or not generic_names):
        tell(f"{path.name}: settings change it, so that it is encoded again; give them to `arbo kb index` instead")
    if source:
        kb.source = {**source, "xrefs": xrefs, "types": types, "generic_names": generic_names}
    return kb


def encoder_like(
    settings: Mapping[str, Any],
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    *,
    file: Path | None = None,
) -> Encoder:
    """Load the encoder ``model``, else that of the settings in a file, else make an n-gram encoder.

    ``fields`` are values, perhaps as texts, for fields of its `EncoderConfig`. Raise UsageError if
    ``fields`` or ``cache`` are given for the n-gram encoder.
    """
    model = settings.get("model", NGRAM) if model is None else model
    if model == NGRAM:
        if setting := next(iter(fields or ()), None) or (cache and "cache"):
            raise UsageError(f"{setting} needs a transformer, not ngram; choose a transformer, or leave {setting} out")
        return NgramEncoder()
    config = None  # the model's own
    if "model" in settings and not fields:
        config = EncoderConfig.from_dict(settings.get("config"), file=str(file))
    folder = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "arbo")
    return changed_encoder(arbo.DualEncoder.from_pretrained(model, config, cache=folder), fields or {})


def changed_encoder(encoder: "DualEncoder", fields: Mapping[str, Any]) -> "DualEncoder":
    """Return an encoder with changed fields; a new metric or pooling drops the thresholds, which depend on them."""
    before = encoder.config
    config = before.changed_by_words(fields)
    if (config.pooling, config.metric) != (before.pooling, before.metric):
        config = replace(before, entity_threshold=None, mention_threshold=None).changed_by_words(fields)
    return replace(encoder, config=config)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run in a folder, which never changes; `open_run` reads it."""

    folder: Path
    result: Result

    def knowledge_base(
        self, path: Path | None = None, *, tell: Tell = lambda note: None, **how: Any
    ) -> KnowledgeBase | None:
        """Read the knowledge base of the run again, or another one in the same way; None if the run has none.

        ``how``: arguments of `read_base` replace those of the run. Raise UsageError if the knowledge base is not where
        it was, or has changed though no ``path`` is given.
        """
        known, source = self.result.manifest["knowledge_base"], self.result.manifest.get("kb_source") or {}
        is_given = path is not None or bool(how)
        if known is None:
            if is_given:
                raise UsageError(f"{self.folder} has no knowledge base; leave --kb and its settings out")
            return None
        known_place = source.get("path", "")
        place = path or Path(known_place)
        if path is None and not os.path.exists(known_place):
            wrong = f"is no longer at {known_place}; move it back" if known_place else "has no known file; link again"
            raise UsageError(f"the knowledge base of {self.folder} {wrong}, or give it to --kb, if the verb has it")
        known_how = {name: source[name] for name in ("xrefs", "types", "generic_names") if name in source}
        format_ = source.get("format") if place.suffix == Path(known_place).suffix else None
        kb = read_base(place, tell=tell, **{"format_": format_, **known_how, **how})
        if not is_given and kb.fingerprint != known["fingerprint"]:
            follow = f"`arbo add {self.folder} --kb {place} --out NEW` follows it, or give the old one to --kb"
            raise UsageError(f"the knowledge base {place} has changed since {self.folder} was made; {follow}")
        return kb

    def known_base(self, path: Path | None, *, tell: Tell) -> KnowledgeBase | None:
        """Return `knowledge_base`, which must be that of the run; None, with a note, if it is lost and none given."""
        try:
            kb = self.knowledge_base(path, tell=tell)
        except ArboError as error:
            if path is not None:
                raise
            tell(f"entities are not described: {error}")
            return None
        check_release(self.result, kb)
        return kb

    def linker(
        self,
        kb: KnowledgeBase | None,
        *,
        edges: PathLike | None = None,
        cache: Path | None = None,
        announce: Announce = on_screen,
    ) -> Linker:
        """Return the linker that made the run, for a knowledge base and an edge model like those of the run.

        Without ``edges``, it is that of `arbo link --learn-from`, if there is one. ``cache`` is the folder of
        embeddings. Raise UsageError if a function reranked the run.
        """
        made = self.result.manifest["encoder"]
        encoder = encoder_like(made, cache=cache, file=self.folder)
        config = LinkerConfig.from_dict(self.result.manifest["config"], file=str(self.folder))
        reranker = made.get("reranker", {})
        if "function" in reranker:
            raise UsageError(f"{self.folder} was reranked by a function; use Linker.add, remove or refit in Python")
        cross = arbo.CrossEncoder.from_pretrained(reranker["model"]) if "model" in reranker else None
        weighs: Any = edges or self.result.manifest.get("reading", {}).get("edges")
        return Linker(kb, encoder, config, announce=announce, edges=weighs, reranker=cross)

    def check_out(self, out: Path) -> None:
        """Raise UsageError unless a run can be written to ``out`` without a change to this one."""
        if real(self.folder) in (real(out), *real(out).parents):
            raise UsageError(f"--out {out} is the run itself or inside it, which is not changed; choose another folder")
        FORMAT.check_replaceable(out)

    def save_child(self, after: Result, out: Path) -> None:
        """Save a run that was made of this one, with its path as it was given (`.` in full) and its manifest's hash."""
        path = self.folder if self.folder.name else real(self.folder)
        parent = {"path": str(path), "sha256": sha256_of(self.folder / MANIFEST)}
        replace(after, manifest={**after.manifest, "parent": parent}).save(out)

    def parent(self) -> Path | None:
        """Return the run that this one was made of, if any, at its path as given then or beside this run.

        Raise UsageError if it is not there, or is another one by now.
        """
        if (known := self.result.manifest.get("parent")) is None:
            return None
        path, folder = Path(known["path"]), self.folder
        for place in (path, real(folder).parent / path.name):
            if (place / MANIFEST).is_file() and sha256_of(place / MANIFEST) == known["sha256"]:
                return place
        remedy = f"give its place: `arbo diff PLACE {folder}`, or `arbo explore {folder} --before PLACE`"
        raise UsageError(f"the run {path}, of which {folder} was made, is gone or has changed; {remedy}")

    @property
    def corrections(self) -> Path:
        """The file to which the answers of a review are appended by default: beside the run."""
        folder = real(self.folder)
        return folder.with_name(f"{folder.name}.corrections.jsonl")


def open_run(path: PathLike) -> SavedRun:
    """Read a run folder, to grow or review the run with the linker that made it.

    >>> import arbo, tempfile
    >>> documents, kb = arbo.load_sample()
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> arbo.Linker(kb).link(documents[:9]).save(folder)
    >>> saved = arbo.open_run(folder)
    >>> len(saved.linker(kb).add(saved.result, documents[9:12]).links) > len(saved.result.links)
    True
    """
    return SavedRun(Path(path), Result.load(path))


def review_of(run: Result, file: Path, author: str | None = None, kb: KnowledgeBase | None = None) -> Review:
    """Return a review of a run, in which no name is asked that corrections of the run or the file decide on."""
    if ending(file) in formats.TABLES:
        raise UsageError(f"a review does not write the spreadsheet {file}; give a .jsonl file to --corrections")
    lines = corrections_of(file) if file.exists() else ()
    dropped = {(line.document or "", line.spans) for line in lines if line.kind == "drop"}
    documents = strings([document for document, _ in dropped])
    near = run.mention_table.filter(pc.is_in(run.mention_table["document_id"], documents))
    gone = {mention.id for mention in mentions_in(near) if (mention.document_id, mention.spans) in dropped}
    records = [row["record"] for row in run.corrections if row["status"] == "obeyed"]
    lines = (*corrections_of(records), *lines)
    gone |= {id_ for line in lines if line.kind == "not" for id_ in line.mentions}
    decided = {id_ for line in lines if line.kind != "not" for id_ in line.mentions}
    said = {line.mentions[0]: line.value for line in lines if line.kind in ("entity", "new")}
    moved = [id_ for id_, value in said.items() if id_ in run.row_of and run.link_of(id_).entity not in (None, value)]
    return Review(run, file, decided, gone, moved, author, kb)


def search_of(run: Result, kb: KnowledgeBase | None) -> Search:
    """Return a search in a knowledge base; without one, in the entities of the run."""
    rows = run.entity_table.to_pylist() if kb is None else ()
    named_by_run = (Entity(row["entity_id"], row["name"], tuple(row["aliases"])) for row in rows)
    known = KnowledgeBase(named_by_run) if kb is None else kb
    linker = Linker(known)

    def search(words: str, link: Link) -> list[Choice]:
        row = run.row_of[link.mention.id]
        domain = None if kb is None else run.mention_table["domain"][row].as_py()  # a run's entities have none
        if named := _with_id(known, words, domain):
            return [Choice.of(one.id, one.name, 1.0, kb) for one in named]
        query = {"id": "search", "text": words, "domain": domain, "mentions": [{"spans": [[0, len(words)]]}]}
        nearest = linker.candidates([query], k=_SHOWN)
        both = list(zip(nearest.entities[0].tolist(), nearest.scores[0].tolist(), strict=True))
        least = max(_LEAST, max((score for _, score in both), default=0.0) * NEAR)
        near = ((known.entities[row], score) for row, score in both if score >= least)
        return [Choice.of(one.id, one.name, score, kb) for one, score in near]

    return search


def _with_id(kb: KnowledgeBase, words: str, domain: str | None) -> list[Entity]:
    """Return entities of a domain with an id or alternative id, in any case and, if none has it so, with any prefix."""
    id_ = words.strip().casefold()
    local = id_.rpartition(":")[2]
    others = kb.table["alternative_ids"]
    own, more = (pc.ends_with(pc.utf8_lower(ids), pattern=local) for ids in (kb.table["id"], others.flatten()))
    rows = {*pc.indices_nonzero(own).to_pylist(), *pc.list_parent_indices(others).filter(more).to_pylist()}
    some = [one for one in map(kb.entities.__getitem__, sorted(rows)) if local and one.domain == domain]
    ids = [[known.casefold() for known in (one.id, *one.alternative_ids)] for one in some]
    same = [one for one, known in zip(some, ids, strict=True) if id_ in known]
    bare = ({known.rpartition(":")[2] for known in these} for these in ids)
    return (same or [one for one, these in zip(some, bare, strict=True) if local in these])[:_SHOWN]

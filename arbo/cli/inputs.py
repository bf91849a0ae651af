"""What options name, and how it is read: documents, knowledge bases, models and jobs; and checks of output files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import arbo
from arbo import formats
from arbo.cli import console
from arbo.cli.options import ENCODER, LINKER, Chosen, Group
from arbo.data import OnError
from arbo.errors import ArboError, DataError, UsageError, listed
from arbo.files import check_writable, real
from arbo.formats import DocumentFormat, KnowledgeBaseFormat
from arbo.formats.files import read_head, read_lines
from arbo.progress import bars
from arbo.settings import Count, Finite, Settings

if TYPE_CHECKING:
    from arbo.encoders.encoder import Encoder
    from arbo.spans.finding import Finder


@dataclass(frozen=True, slots=True)
class ReadingConfig(Settings):
    """How documents and knowledge bases are read."""

    docs_format: DocumentFormat | None = None
    """Format of documents, guessed by default."""
    types: list[str] | None = None
    """Keep only mentions of this type; may be repeated."""
    ids: str | None = None
    """File with an id on each line: keep only the documents with these ids."""
    on_error: OnError = "fail"
    """At a malformed record, stop (``fail``) or leave it out (``skip``)."""
    text_column: str | None = None
    """Column of a table whose cells are names; each is a mention."""
    by_topic: bool = False
    """Compare only mentions of documents with the same `topic` in their metadata."""
    kb_format: KnowledgeBaseFormat | None = None
    """Format of the knowledge base, guessed by default."""
    kb_types: list[str] | None = None
    """Keep only entities of this type (in UMLS its name, its id or `ST21pv`); may be repeated."""
    kb_xrefs: list[str] | None = None
    """Accept cross-references with this prefix as ids of their entity, such as MSH for MeSH; may be repeated."""
    generic_names: bool = True
    """Whether entities keep generic names, such as `disease`; `arbo kb check` lists some."""

    @property
    def of_kb(self) -> dict[str, Any]:
        """What is set of a knowledge base, as `arbo.pipeline.saved_run.read_base` takes it."""
        generic = None if self.generic_names else False
        how = {"format_": self.kb_format, "xrefs": self.kb_xrefs, "types": self.kb_types, "generic_names": generic}
        return {name: value for name, value in how.items() if value is not None}

    def knowledge_base(self, path: Path, columns: Mapping[str, str] | None = None) -> arbo.KnowledgeBase:
        """Read a knowledge base, and print what is noteworthy."""
        from arbo.pipeline.saved_run import read_base

        kb = read_base(path, columns=columns, tell=console.say, **self.of_kb)
        _say_columns("entities", (metadata for (metadata,) in kb.columns("metadata")), path.name)
        return kb

    def documents(self, docs: Sequence[Path], *, mentions: bool | None = True) -> arbo.Corpus:
        """Read documents, the names in a column of a table, or those in the lines of a text without mentions.

        Raise DataError if the documents have no mentions, unless ``mentions`` is false, or None and they are prose.
        """
        from arbo.data.tables import metadata_in

        name = docs[0].name if len(docs) == 1 else f"{len(docs)} inputs"
        read_as: list[str] = [self.docs_format or ""]
        if self.text_column is None:

            def announce(guess: str) -> None:
                read_as.append(guess)
                console.say(f"{name}: read as {guess} (--format overrides)")

            how_read: Any = {"types": self.types, "on_error": self.on_error, "announce_format": announce}
            documents = formats.read_documents(docs, self.docs_format, **how_read)
            if mentions is not False and "text" in read_as and not _is_prose(documents, titles=bool(mentions)):
                if not any(document.text.strip() for document in documents):
                    raise DataError("no names, since all lines are blank; check the file", file=str(docs[0]))
                console.say_notes(documents.notes, f"{name}: ")
                console.say(f"{name}: each line is a name{_too_long(documents)}")
                documents = arbo.Corpus.of(_lines_of(documents))
        else:
            from arbo.formats.table import read_column

            if len(docs) > 1:
                raise UsageError("--text-column reads one table at a time; give one file")
            documents = read_column(docs[0], self.text_column, on_error=self.on_error)
            documents = documents if self.types is None else documents.of_types(self.types)
        if self.ids is not None:
            documents = _of_ids(documents, Path(self.ids))
        console.say_notes(documents.notes, f"{name}: " if self.ids is None else f"{name}, in all documents: ")
        _say_columns("documents", metadata_in(documents.tables.documents), name)
        _say_columns("mentions", metadata_in(documents.tables.mentions), name)
        if mentions is not False and not documents.n_mentions and (mentions or self.types or not _is_prose(documents)):
            long = _too_long(documents) if "text" in read_as else ""
            raise DataError(
                f"the documents have no mentions{long}; if a column of a table has the names, give "
                "--text-column NAME; for plain text, give --find-mentions dictionary; else check --format, --types and "
                "the names of keys",
                file=str(docs[0]),
            )
        return documents.by_topic() if self.by_topic else documents

    def all(
        self, docs: Sequence[Path], kb: Path | None, dev: Path | None = None
    ) -> tuple[arbo.Corpus, Any, arbo.Corpus | None]:
        """Read documents to learn from, a knowledge base, and the documents of --dev; None for what is not given."""
        documents, base = self.documents(docs), None if kb is None else self.knowledge_base(kb)
        return documents, base, None if dev is None else replace(self, ids=None).documents([dev])

    def as_read(self) -> dict[str, Any]:
        """Return how documents are read, for the manifest of a run; documents are added to the run in the same way."""
        return {key: value for name, key in AS_READ.items() if (value := getattr(self, name))}


AS_READ = {"docs_format": "format", "types": "types", "text_column": "text_column", "by_topic": "by_topic"}
"""The keys in the manifest of a run of the fields that say how its documents were read."""


_LONG = 300  # a line with more characters is rarely a name


def _lines_of(documents: arbo.Corpus) -> list[str]:
    texts = (document.text.removesuffix("\n").split("\n") for document in documents)
    return [line.removesuffix("\r") for lines in texts for line in lines]


def _is_prose(documents: arbo.Corpus, *, titles: bool = False) -> bool:
    """Return whether no mention is marked, and a line is long or most are sentences; of ``titles``, many are long."""
    if documents.n_mentions:
        return False
    lines = [line for line in map(str.strip, _lines_of(documents)) if line]
    long = sum(len(line) > _LONG for line in lines)
    sentences = sum(line[-1] in ".!?" and line.count(" ") >= 4 for line in lines)
    return 10 * long > len(lines) if titles else long > 0 or 2 * sentences > len(lines)


def _too_long(documents: arbo.Corpus) -> str:
    """Name the lines that are long for names; an empty string without any."""
    long = [f"line {number}" for number, line in enumerate(_lines_of(documents), 1) if len(line.strip()) > _LONG]
    return f"; {listed(long, 3)}: over {_LONG} characters, which is long for a name" if long else ""


def _of_ids(documents: arbo.Corpus, file: Path) -> arbo.Corpus:
    """Return the documents whose ids a file lists, and warn of unknown ids; lines with `#` first are comments."""
    lines = (line.strip() for _, line in read_lines(file))
    ids = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    chosen = documents.of_ids(ids)
    known = {document.id for document in chosen}
    unknown = listed((f"{id_!r:.60}" for id_ in ids if id_ not in known), 3)
    if not known:
        raise DataError(f"no document has one of these ids: {unknown or 'there are none'}; check them", file=str(file))
    if unknown:
        console.warn(f"{file.name}: no documents with the ids {unknown}")
    return chosen


def _say_columns(what: str, items: Iterable[Mapping[str, object]], name: str) -> None:
    if columns := dict.fromkeys(key for item in items for key in item):
        console.say(f"{name}: further columns of {what} kept: {listed(columns, 10)}")


@dataclass(frozen=True, slots=True)
class FindingConfig(Settings):
    """Which proposed mentions are kept."""

    find_threshold: Finite | None = None
    """Minimum score of a mention that a model proposes; None means that of the model."""
    find_generic: bool = False
    """Whether a dictionary finds generic names too, such as `disease`."""


@dataclass(frozen=True, slots=True)
class JobConfig(Settings):
    """How a job is shared among processes, and what it keeps."""

    workers: Count = 1
    """Number of processes that share the work."""
    ray: str | None = None
    """Share the work on the Ray cluster at this address; ``local`` starts one."""
    cache: str | None = None
    """Folder for the embeddings of a transformer, so that no text is embedded twice; None means `arbo` in the user's
    cache folder."""
    texts: bool = True
    """Whether a run keeps the texts and columns of documents; mentions keep their texts."""
    shard_size: Count | None = None
    """Largest number of names of a search task; None means 524,288. See docs/scale.md."""
    work: str | None = None
    """Folder of finished parts; None means OUT.work, which is removed at the end."""

    @contextmanager
    def over(self, linker: arbo.Linker, out: Path, before: Path | None = None) -> Iterator[arbo.Linker]:
        """Yield the linker, which then embeds and searches in parts if a setting asks for it.

        ``out`` is the run or index that is written; the run ``before`` is not changed.
        """
        if (self.shard_size, self.work, self.ray, self.workers) == (None, None, None, 1):
            yield linker
            return
        from arbo.scale.executors import LOCAL, connected
        from arbo.scale.parts import MANIFEST
        from arbo.scale.work import opened, remove, search_memory

        run = real(out)
        folder = Path(self.work) if self.work else run.with_name(f"{run.name}.work")
        if any(real(folder).is_relative_to(real(kept)) for kept in (run, before) if kept is not None):
            raise UsageError(f"the work folder {folder} is in a run folder; choose another folder")
        if self.workers > 1 and self.ray not in (None, LOCAL):
            raise UsageError("--workers is for --ray local; a cluster has the workers that its nodes have CPUs for")
        size, workers = self.shard_size, self.workers if self.workers > 1 else None
        cluster = connected(self.ray, workers, search_memory(size)) if self.ray else nullcontext()
        try:
            with cluster as pool, opened(folder, self.workers, pool=pool, shard_size=size, tell=console.say) as work:
                yield linker.configured(over=work)
        except BaseException:
            if any(folder.glob(f"*/{MANIFEST}")):
                console.say(f"finished parts are kept in {folder}, and the same command takes them")
            with suppress(OSError):
                folder.rmdir()  # if it is empty
            raise
        if self.work is None:
            remove(folder)


@dataclass(frozen=True, slots=True)
class ModelsConfig(Settings):
    """The models of a linker, and its thresholds."""

    encoder: str | None = None
    """`ngram` (needs no weights; the default), or a transformer: a local folder, `all-MiniLM-L6-v2` from its pip
    package, or a name on the Hugging Face Hub."""
    edges: str | None = None
    """Edge model of `arbo train edges`; for edges that it scores, thresholds limit 1 minus the probability of equal
    meaning."""
    config: str | None = None
    """File of `arbo tune`, with defaults for the other options."""
    reranker: str | None = None
    """Model of `arbo train reranker`; thresholds then limit 1 minus the probability of an entity."""
    threshold: str | None = None
    """Largest dissimilarity of edges from entities (E) and between mentions (M), or one number for both; `none` for no
    limit; by default, it is chosen from the model and the knowledge base."""


@dataclass(frozen=True, slots=True)
class CorrectionsConfig(Settings):
    """What people decided."""

    corrections: str | None = None
    """File of corrections to obey: JSON lines, as `arbo review` writes them, or a table."""
    preview: bool = False
    """Show what --corrections changes, and write nothing; needs no --out."""


READING: Group[ReadingConfig] = Group("reading", __name__, "ReadingConfig")
FINDING: Group[FindingConfig] = Group("finding", __name__, "FindingConfig")
JOB: Group[JobConfig] = Group("job", __name__, "JobConfig")
MODELS: Group[ModelsConfig] = Group("models", __name__, "ModelsConfig", shown=True)
CORRECTIONS: Group[CorrectionsConfig] = Group("corrections", __name__, "CorrectionsConfig", shown=True)


def load_linker(how: Chosen, *, discovers: bool = False) -> arbo.Linker:
    """Return the linker of the models and settings, without a knowledge base."""
    from arbo.linking.config import tuned_model

    models, threshold = how.of(MODELS), how.changes(MODELS).get("threshold")  # a word, as `none` is no limit
    tuned = Path(models.config) if models.config else None
    limits = [] if threshold is None else [part.strip() for part in threshold.split(",")]
    if threshold and re.fullmatch(r"0,\d*[1-9]\d*", threshold):
        raise UsageError(f"--threshold {threshold}: write {threshold.replace(',', '.')} with a decimal point")
    if len(limits) > 2:
        raise UsageError(f"--threshold {threshold!r}: expected a number or `none`, or two of them separated by a comma")
    edges = arbo.EdgeModel.load(models.edges) if models.edges else None
    own = edges.config if edges and discovers == (edges.entities is None) else {}
    base = arbo.LinkerConfig.from_json(tuned) if tuned else arbo.LinkerConfig.from_dict(own, file=models.edges)
    settings = how.of(LINKER, base)
    if limits:
        settings = settings.changed_by_words({"entity_threshold": limits[0], "mention_threshold": limits[-1]})
    encoder, reranker = load_encoder(models.encoder, how, tuned), None
    if not discovers and (name := models.reranker or tuned_model(tuned, "reranker").get("model")):
        reranker = arbo.CrossEncoder.from_pretrained(name)
    if tuned is not None:
        _check_tuned(tuned, base, settings, encoder=encoder, reranker=reranker, edges=edges)
    elif reranker and "candidates" not in how.changes(LINKER):
        settings = replace(settings, candidates=reranker.config.candidates)
    return arbo.Linker(None, encoder, settings, announce=bars, reranker=reranker, edges=edges)


def _check_tuned(tuned: Path, before: arbo.LinkerConfig, settings: arbo.LinkerConfig, **models: Any) -> None:
    """Raise UsageError if thresholds of a file of `arbo tune`, with its settings ``before``, do not fit those used."""
    from arbo.encoders.encoder import same_model
    from arbo.linking.config import tuned_model

    def refuse(how: str, remedy: str) -> NoReturn:
        raise UsageError(f"{tuned} was tuned {how}, so its thresholds would not fit; {remedy}, or tune again")

    names: dict[Any, str] = {"encoder": "an encoder", "reranker": "a reranker", "edges": "an edge model"}
    for part, name in names.items():
        was, now = tuned_model(tuned, part), models[part].settings if models[part] else {}
        if was and not same_model(was, now):
            other = f"another {name.partition(' ')[2]}, or with other settings or weights of it" if now else name
            refuse(f"with {other}", f"give --{part} the model that it was tuned with")
        if now and not was and part != "encoder":
            refuse(f"without {name}", f"leave --{part} out")
    for setting in ("candidates", "skip_margin") if tuned_model(tuned, "reranker") else ():
        if (value := getattr(settings, setting)) != (value_was := getattr(before, setting)):
            refuse(f"with {setting}={value_was}, not {value}", f"leave {setting} out")


def load_encoder(model: str | None, how: Chosen, tuned: Path | None = None) -> Encoder:
    """Return the chosen encoder with the chosen settings, else that of a file of `arbo tune`, else n-grams."""
    from arbo.linking.config import tuned_model
    from arbo.pipeline.saved_run import encoder_like

    cache = how.changes(JOB).get("cache")
    return encoder_like(tuned_model(tuned, "encoder"), model, how.changes(ENCODER), cache and Path(cache), file=tuned)


def load_finder(name: str, how: Chosen, option: str, *, expand_abbreviations: bool) -> Finder:
    """Return the finder that an option names, with the chosen threshold."""
    finding, threshold = how.of(FINDING), how.of(FINDING).find_threshold
    if name.lower() == "dictionary":
        if threshold is not None:
            raise UsageError(f"`dictionary` has no scores; leave find_threshold out, or use {option} with a model")
        return arbo.DictionaryFinder(abbreviations=expand_abbreviations, generic_names=finding.find_generic)
    if not name or not Path(name).exists():
        raise UsageError(f"{option} {name!r}: no such file or folder; choose `dictionary`, or a trained finder")
    if Path(name).is_file():
        return arbo.Tagger.load(name, threshold=threshold or 0.0, abbreviations=expand_abbreviations)
    model = arbo.LabelAttention.from_pretrained(name)
    model = model if threshold is None else model.with_threshold(threshold)
    return arbo.ModelFinder(model, abbreviations=expand_abbreviations)


_TEXT = r'"(?:\\.|[^"\\])*+"'
_BEGINS = {
    "bioc": r'\{"source": "arbo"',
    "clusters": r'\{"mentions": \[',
    "conll": r"#begin document \(.*\n([^\t\n]*\t){4}[^\t\n]*\n",
    **dict.fromkeys(("csv", "tsv"), r'"mention_id"[,\t]"document_id"[,\t]'),
    "edges": r'\{\n  "format": "arbo-edges"',
    "entities": rf'\{{"id": {_TEXT}, "name": {_TEXT}, "aliases": \[.*("domain": |[^\n}}]\Z)|'
    r'"id"\t"name"\t"aliases"\t|id,name,aliases,definition,types,',
    "jsonl": rf'\{{"id": {_TEXT}, "text": "(?:\\.|[^"\\])*+(", "mentions": \[|\\?\Z)',
    "page": r"<!doctype html>\n<html .*>\n<head>\n.*\n<meta http-equiv=\"Content-Security-Policy\" content=\"default",
    "pubtator": r"([^|\n]+)\|t\|.*\n\1\|a\|",
    "report": r'(\*\*.*\*\*\n\n)?\|  \||% \\usepackage|system,line,score,|\{\n  "title": .*\n  "resampling": |'
    r"(.*\n\n)? {6}",
    "tagger": r'\{\n  "format": "arbo-tagger"',
    "tuned": r'\{\n  "config": ',
}
"""How the files of each kind begin that arbo writes; of Parquet, the columns count."""


def check_output(out: Path, kind: str, endings: Collection[str], *inputs: Path | None) -> None:
    """Create the folder of an output file of a kind of `_BEGINS`.

    Raise UsageError if the file has another ending than ``endings``, cannot be written, is an input, or has content
    that does not begin as arbo's files of this kind do.
    """
    if not out.name.lower().endswith(tuple(endings)):
        raise UsageError(f"{out}: the file's ending must be {' or '.join(endings)}")
    check_no_input(out, *inputs)
    check_writable(out)
    if out.is_dir():
        raise UsageError(f"cannot write {out}: it is a folder; choose another path")
    if out.exists() and out.stat().st_size:
        from pyarrow.parquet import read_schema

        head = ""  # of a damaged file
        with suppress(ArboError, OSError, ValueError):
            head = read_head(out)
            head = ",".join(read_schema(out).names) if head.startswith("PAR1") else head
        if not re.match(_BEGINS[kind], head):
            raise UsageError(f"{out} exists, and arbo did not write it; choose another path, or remove this file first")
    out.parent.mkdir(parents=True, exist_ok=True)


def check_no_input(file: Path, *inputs: Path | None) -> None:
    """Raise UsageError if an output is an input, matches the pattern of one, or lies in an input folder."""
    target = real(file)
    for path in (one for pattern in inputs if pattern is not None for one in formats.expanded(pattern)):
        if real(path) in {target, *target.parents}:
            raise UsageError(f"{file} would change the input {path}; choose another file")

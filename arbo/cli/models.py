"""The linkers, encoders and finders that options name, and how a job is shared among processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, JOB, LINKER, Chosen, Group
from arbo.errors import UsageError
from arbo.files import real
from arbo.progress import bars
from arbo.settings import Count, Finite, Settings

if TYPE_CHECKING:
    from arbo.encoders.encoder import Encoder
    from arbo.spans.finding import Finder


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

    @property
    def is_spread(self) -> bool:
        """Whether a setting asks for shards."""
        return (self.shard_size, self.work, self.ray, self.workers) != (None, None, None, 1)

    @contextmanager
    def over(self, linker: arbo.Linker, out: Path, before: Path | None = None) -> Iterator[arbo.Linker]:
        """Yield the linker, which then embeds and searches in parts if a setting asks for it.

        ``out`` is the run or index that is written; the run ``before`` is not changed. Without ``work``, the folder of
        parts stands beside ``out``, and is removed at the end of the block unless the job fails.
        """
        if not self.is_spread:
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
        several = self.workers if self.workers > 1 else None
        cluster = connected(self.ray, several, search_memory(self.shard_size)) if self.ray else nullcontext()
        how: Any = {"shard_size": self.shard_size, "tell": console.say}
        try:
            with cluster as pool, opened(folder, self.workers, pool=pool, **how) as work:
                yield linker.configured(over=work)
        except BaseException:
            if any(folder.glob(f"*/{MANIFEST}")):
                console.say(f"finished parts are kept in {folder}, and the same command takes them")
            with suppress(OSError):
                folder.rmdir()  # if it is empty
            raise
        if self.work is None:
            remove(folder)


FINDING = Group("finding", __name__, "FindingConfig")
ABBREVIATIONS = Group("abbreviations", "arbo.linking.config", "LinkerConfig", "expand_abbreviations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a linker without a knowledge base."""

    encoder: options.Encoder = None
    edges: options.Edges = None
    config: options.Config = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkingModels(Models):
    """The models of a linker."""

    reranker: options.Reranker = None


def load_linker(models: Models, how: Chosen, threshold: str | None = None) -> arbo.Linker:
    """Return the linker of models and settings, without a knowledge base.

    Raise UsageError if ``threshold`` is malformed, or the configuration file was tuned with another encoder, reranker
    or edge model, or with other settings of the reranker, so that its thresholds would not fit.
    """
    from arbo.linking.config import tuned_model

    tuned, limits = models.config, [None] if threshold is None else [part.strip() for part in threshold.split(",")]
    if threshold and re.fullmatch(r"0,\d*[1-9]\d*", threshold):
        raise UsageError(f"--threshold {threshold}: write {threshold.replace(',', '.')} with a decimal point")
    if len(limits) > 2:
        raise UsageError(f"--threshold {threshold!r}: expected a number or `none`, or two of them separated by a comma")
    base = arbo.LinkerConfig() if tuned is None else arbo.LinkerConfig.from_json(tuned)
    settings = how.of(LINKER, base, entity_threshold=limits[0], mention_threshold=limits[-1])
    encoder, reranker = load_encoder(models.encoder, how, tuned), None
    edges = arbo.EdgeModel.load(models.edges) if models.edges else None
    if isinstance(models, LinkingModels) and (name := models.reranker or tuned_model(tuned, "reranker").get("model")):
        reranker = arbo.CrossEncoder.from_pretrained(name)
    if tuned is not None:
        _check_tuned(tuned, base, settings, encoder=encoder, reranker=reranker, edges=edges)
    if reranker and tuned is None and "candidates" not in how.changes(LINKER):
        settings = replace(settings, candidates=reranker.config.candidates)
    return arbo.Linker(None, encoder, settings, announce=bars, reranker=reranker, edges=edges)


def _check_tuned(tuned: Path, before: arbo.LinkerConfig, settings: arbo.LinkerConfig, **models: Any) -> None:
    """Raise UsageError if thresholds of a file of `arbo tune` do not fit, as models or settings were others.

    ``before`` are the settings of the file, ``settings`` those that are used, and ``models`` the encoder, the reranker
    and the edge model that are used.
    """
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
    """Return the finder that an option names, with the chosen threshold.

    Raise UsageError for an unknown name, or a threshold of a dictionary, which has no scores.
    """
    finding = how.of(FINDING, FindingConfig())
    threshold = finding.find_threshold
    if name.lower() == "dictionary":
        if threshold is not None:
            raise UsageError(f"`dictionary` has no scores; leave find_threshold out, or use {option} with a model")
        return arbo.DictionaryFinder(abbreviations=expand_abbreviations, generic_names=finding.find_generic)
    if not name or not Path(name).exists():
        raise UsageError(
            f"{option} {name!r}: no such file or folder; choose `dictionary` for exact names, or a model of "
            "`arbo train finder`"
        )
    if Path(name).is_file():
        return arbo.Tagger.load(name, threshold=threshold or 0.0, abbreviations=expand_abbreviations)
    model = arbo.LabelAttention.from_pretrained(name)
    model = model if threshold is None else model.with_threshold(threshold)
    return arbo.ModelFinder(model, abbreviations=expand_abbreviations)


def expands_abbreviations(how: Chosen) -> bool:
    """Whether to replace abbreviations by their long forms."""
    return how.of(ABBREVIATIONS, arbo.LinkerConfig()).expand_abbreviations

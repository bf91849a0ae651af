"""Indexes: a knowledge base on disk with its fitted encoder and its vectors, all mapped into memory."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from arbo.data import Arrays, KnowledgeBase
from arbo.data.knowledge_base import ADVICE, FORMAT, IndexFolder, write_index
from arbo.encoders.by_name import encoder_of
from arbo.encoders.encoder import Encoder, same_model
from arbo.encoders.ngrams import Frequencies, NamedEntities, NgramEncoder
from arbo.encoders.word_index import WordIndex
from arbo.engine import Index
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, check_hashes
from arbo.progress import Announce, on_screen, quiet

logger = logging.getLogger(__name__)

Entities: TypeAlias = Index | NamedEntities
Made = TypeVar("Made")


def build_index(
    kb: Iterable[Any], path: PathLike, *, encoder: Encoder | PathLike = "ngram", announce: Announce = on_screen
) -> KnowledgeBase:
    """Write a knowledge base, the encoder fitted to its names, and the vectors of its entities to a folder.

    Return the knowledge base opened from the folder, which `KnowledgeBase.from_index` opens again. A `Linker` with it
    and the same encoder encodes no entity; another encoder encodes them as usual, and a warning is logged.

    Args:
        kb: the knowledge base, or rows that `KnowledgeBase.of` accepts.
        path: the folder; an earlier index there is replaced, completely or not at all.
        encoder: the encoder, or its name, see `Linker`.
        announce: shows progress, see `arbo.progress`.

    Raises:
        UsageError: the folder has other content or cannot be written, or ``fit`` of a user's encoder returns another.
    """
    FORMAT.check_replaceable(Path(path))
    base, maker = KnowledgeBase.of(kb), encoder_of(encoder)
    fitted, entities = encoded(base, maker, announce)
    corpus = entities.whole if isinstance(entities, NamedEntities) else entities
    state = fitted.frequencies.arrays() if isinstance(fitted, NgramEncoder) and fitted.frequencies is not None else {}
    if not state and fitted is not maker:
        wrong = f"an index cannot hold a fitted {type(fitted).__name__}"
        raise UsageError(f"{wrong}; its `fit` must return the encoder itself")
    arrays = {"kb": {"hashes": base.hashes, "places": base.places}, "encoder": state}
    arrays |= {"vectors": corpus.arrays(), "words": word_index(base).arrays(), "keys": base.keys._asdict()}
    known = {"entities": len(base), "fingerprint": base.fingerprint, "notes": base.notes}
    write_index(path, known, maker.settings, base.table, arrays)
    return KnowledgeBase.from_index(path)


def encoded(kb: KnowledgeBase, encoder: Encoder, announce: Announce = quiet) -> tuple[Encoder, Entities]:
    """Return the fitted encoder and the entities of a knowledge base, from its index if it has one for this encoder."""
    if stored := indexed(kb, encoder):
        return stored
    fitted = encoder.fit(kb.names().names)
    return fitted, searchable(kb, fitted, announce)


def searchable(kb: KnowledgeBase, fitted: Encoder, announce: Announce = quiet) -> Entities:
    """Encode the entities of a knowledge base by a fitted encoder; by n-grams, only when needed."""
    if isinstance(fitted, NgramEncoder) and fitted.floor >= 0:
        return fitted.named(kb)
    return Index.of(fitted.encode_entities(kb, announce), fitted.metric)


def indexed(kb: KnowledgeBase, encoder: Encoder) -> tuple[Encoder, Index] | None:
    """Map the fitted encoder and the entities from an index; None without one, and (with a warning) for another."""
    if kb.stored is None:
        return None
    made_by, other = kb.stored.manifest["encoder"], encoder.settings
    if same_model(made_by | {"mentions": None}, other | {"mentions": None}):  # on which no entity depends
        if isinstance(encoder, NgramEncoder):
            encoder = replace(encoder, frequencies=_mapped(kb.stored, "encoder", Frequencies.from_arrays))
        return encoder, _mapped(kb.stored, "vectors", partial(Index.from_arrays, metric=encoder.metric))
    one, another = (settings.get("model") or settings.get("encoder") for settings in (made_by, other))
    difference = "other settings" if one == another else f"the encoder {one}, not {another}"
    logger.warning("%s was built for %s, so the entities are encoded again; %s", kb.stored.folder, difference, ADVICE)
    return None


def word_index(kb: KnowledgeBase) -> WordIndex:
    """Return the names of a knowledge base by their words, mapped from its index if it has one."""
    if kb.stored is None:
        return WordIndex.of(kb)
    return _mapped(kb.stored, "words", partial(WordIndex.from_arrays, n_entities=len(kb)))


def check_index(kb: KnowledgeBase) -> None:
    """Read all of an index, if there is one; raise DataError if a file was changed."""
    if kb.stored is not None:
        check_hashes(kb.stored.folder, kb.stored.manifest["files"], ADVICE)


def _mapped(stored: IndexFolder, name: str, make: Callable[[Arrays], Made]) -> Made:
    """Make a value of the arrays in a subfolder of an index, which are mapped; raise DataError if they do not fit."""
    arrays = stored.arrays(name)
    try:
        return make(arrays)
    except (KeyError, ValueError, TypeError) as error:
        problem = f"an array is missing, or the arrays do not fit together ({error}); {ADVICE}"
        raise DataError(problem, file=str(stored.folder)) from None

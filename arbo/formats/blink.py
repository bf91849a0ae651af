"""Read the JSON lines of BLINK (Wu et al. 2020): mentions with left and right context, entities with their text.

    {"context_left": "the painter", "mention": "Klee", "context_right": "died in Muralto .", "label_id": 34398}
    {"title": "Paul Klee", "text": "Paul Klee was a Swiss-born German artist ...",
     "idx": "https://en.wikipedia.org/wiki?curid=34398"}

In the file, each object is on one line. Further keys, which differ between files, are kept as metadata.

Mentions: each line is a document. Its text is `context_left`, `mention` and `context_right` (all required), with a
space between pieces that would otherwise touch. Its id is the first of `id`, `mention_id` and `query_id`, or else the
file and line (`test:7`). `world` is its domain. `label_id` is the gold id; if it is null, absent, empty or negative,
the mention is not annotated. BLINK refers to an entity of a world by its line in the world's file, counted from 0: in a
mention with the `world` lego, the `label_id` 12 becomes the gold id `lego/12`; the reader `zeshel` makes alternative
ids of this form.

Entities: `title` (required) is the name, `text` the definition, `world` the domain. `idx`, `id`, `document_id`,
`entity_id` and `kb_idx` are ids, given as strings or integers: the first is the id, the others are alternative ids. Of
`idx`, only the part after `curid=` counts, which is the page number in Wikipedia. The id of an entity without ids is
its line, counted from 0, to which a `label_id` refers; with a world, it is, for example, `lego/12`.
"""

from collections.abc import Mapping
from pathlib import Path

from arbo.data import Document, Entity, Marked
from arbo.data.documents import marked_document
from arbo.data.objects import Convert, a_kind, fields, parse, string
from arbo.errors import DataError
from arbo.formats.files import Piece

SUFFIXES = (".jsonl",)

_CONTEXT = ("context_left", "mention", "context_right")
_MENTION_IDS = ("id", "mention_id", "query_id")
_ENTITY_IDS = ("idx", "id", "document_id", "entity_id", "kb_idx")


def document(piece: Piece, _: object) -> Document:
    """Make a document of a line, with its one mention."""
    values = fields(parse(piece.content), "a mention", _MENTION, required=_CONTEXT)
    made = f"{Path(piece.file).name.removesuffix('.gz').removesuffix('.jsonl')}:{piece.line}"
    name = next((values[key] for key in _MENTION_IDS if values.get(key) is not None), made)
    left, mention, right = (values[key] for key in _CONTEXT)
    if not mention.strip():
        raise DataError("the mention is empty", id=name)
    before = left + _blank(left, mention)
    span = len(before), len(before) + len(mention)
    text = before + mention + _blank(mention, right) + right
    world = values.get("world")
    marked = Marked((span,), gold=_gold(values.get("label_id"), world))
    return marked_document(name, text, [marked], world, values["metadata"])


def _blank(left: str, right: str) -> str:
    """Return a space if two pieces need one between them, else an empty string."""
    return " " if left and right and not left[-1].isspace() and not right[0].isspace() else ""


def _gold(label: str | int | None, world: str | None) -> tuple[str, ...] | None:
    if label is None or label in ("", "-1") or (isinstance(label, int) and label < 0):
        return None
    return (f"{world}/{label}" if world is not None and isinstance(label, int) else str(label),)


def entity(piece: Piece, _: object) -> Entity:
    """Make an entity of a line."""
    values = fields(parse(piece.content), "an entity", _ENTITY, required=("title",))
    world = values.get("world")
    names = [str(values[key]).rpartition("curid=")[2].strip() for key in _ENTITY_IDS if values.get(key) is not None]
    place = (piece.line or 1) - 1
    first, *others = names or [f"{world}/{place}" if world is not None else str(place)]
    definition = (values.get("text") or "").strip() or None
    title, metadata = values["title"], values["metadata"]
    return Entity(first, title, (), definition, alternative_ids=tuple(others), domain=world, metadata=metadata)


_ID = a_kind("a string or a whole number", lambda value: type(value) in (str, int))
_NAME = a_kind("a string or a whole number", lambda value: type(value) in (str, int), str)

_MENTION: Mapping[str, Convert] = {
    **dict.fromkeys(_CONTEXT, string),
    **dict.fromkeys(_MENTION_IDS, _NAME),
    "label_id": _ID,
    "world": string,
}

_ENTITY: Mapping[str, Convert] = {
    "title": string,
    "text": string,
    **dict.fromkeys(_ENTITY_IDS, _NAME),
    "world": string,
}

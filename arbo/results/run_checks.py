"""Checks of the tables, the manifest and the kept arrays of a run: hashes that were computed again do not show damage.

Functions return what is wrong, or None.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, rows_among
from arbo.data.fields import Convert, fields, mapping_or_null, number, or_null, string, strings

Tables = Mapping[str, pa.Table]

_COLUMNS = {
    "mentions": "mention_id=text document_id=text spans=spans text=text expansion=text? type=text? domain?=text? "
    "gold=texts? found_score?=number? gold_entities=texts cluster?=text? metadata?=text?",
    "links": "mention_id=text entity_id=text? entity_name=text? cluster_id=text score=number? margin=number? "
    "parent=text? parent_is_mention=flag step=number? bottleneck=number? candidates=texts candidate_scores=numbers "
    "nearest?=text? reasons?=texts reason_log_odds?=numbers confidence?=number? corrected?=flag follows?=text?",
    "clusters": "cluster_id=text entity_id=text? name=text size=whole weakest_join=number?",
    "documents": "document_id=text domain?=text? text?=text metadata?=text?",
    "entities": "entity_id=text name=text aliases=texts",
    "corrections": "record=text file=text line=whole status=text reason=text?",
}
"""Columns by table, each with the kind of its values; a `?` behind the name if it may be missing, behind the kind if
values may be null."""
_LIST = r"(large_)?list<\w+: {}( not null)?>"
_TEXT, _NUMBER = "(large_)?string", "float|double"
_KINDS = {
    "text": _TEXT,
    "texts": _LIST.format(_TEXT),
    "number": _NUMBER,
    "numbers": _LIST.format(f"({_NUMBER})"),
    "whole": "u?int(8|16|32|64)",
    "flag": "bool",
    "spans": _LIST.format(r"struct<start: int(32|64)( not null)?, end: int(32|64)( not null)?>"),
}


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise TypeError("a whole number from 0")
    return value


def _count(value: object) -> float:
    if number(value) < 0:
        raise TypeError("a number from 0")
    return number(value)


def _object(what: str, least: str = "", **known: Convert) -> Convert:
    """Accept an object, ``what`` in errors; the keys that are named in ``least`` are needed."""
    return lambda value: fields(value, what, known, required=(*least.split(),))


def _each(convert: Convert) -> Convert:
    """Accept an object or a list, all of whose values are like this."""

    def converted(value: object) -> Any:
        if not isinstance(value, (dict, list)):
            raise TypeError("an object or a list")
        return [convert(one) for one in (value.values() if isinstance(value, dict) else value)]

    return converted


_BRIDGE = _object(
    "a bridge", "mentions dissimilarity sides", mentions=strings, dissimilarity=number, sides=_each(_whole)
)
_GIANT = {"cluster": string, "mentions": _whole, "share": number, "names": _whole, "splits_below": number}
_SOURCE = {"path": string, "format": or_null(string), "xrefs": or_null(strings), "types": or_null(strings)}
REQUIRED = ("config", "encoder", "knowledge_base", "threshold")
OF_MANIFEST: Mapping[str, Convert] = {
    "config": _object("config", "method k", method=string, k=_whole, candidates=_whole),
    "documents": _object("documents", "fingerprint", fingerprint=string),
    "encoder": _object("encoder", reranker=_object("reranker"), edges=_object("edges")),
    "giants": _each(_object("a giant", " ".join((*_GIANT, "bridges")), **_GIANT, bridges=_each(_BRIDGE))),
    "index": or_null(_each(or_null(string))),
    "kb_source": or_null(_object("kb_source", "", **_SOURCE)),
    "knowledge_base": or_null(
        _object("knowledge_base", "entities fingerprint", entities=_whole, fingerprint=string, replaced=_each(string))
    ),
    "notes": _object("notes", "documents", documents=_each(_whole), knowledge_base=_each(_whole), gold=_each(_whole)),
    "offset": number,
    "search": mapping_or_null,
    "seconds": _each(_count),
    "threshold": _object("threshold", "entity mention", **dict.fromkeys(("entity", "mention", "nil"), or_null(number))),
    "versions": mapping_or_null,
    "warnings": strings,
}
"""The keys of a manifest that are read again; those in `REQUIRED` must be there."""
_LISTS = ("mentions", "mention_dissimilarity", "entities", "entity_dissimilarity")
_ARRAYS = {
    "mentions": ("iu", "nk", -1, "n"),
    "mention_dissimilarity": ("f", "nk", 0, ""),
    "entities": ("iu", "nc", -1, "e"),
    "entity_dissimilarity": ("f", "nc", 0, ""),
    "graph.entities": ("iu", "", 0, ""),
    "graph.source": ("iu", "g", 0, "rn"),
    "graph.target": ("iu", "g", 0, "rn"),
    "graph.weight": ("f", "g", 0, ""),
    "decided.root": ("iu", "n", -(2**31), "e"),
    "decided.passed_on": ("b", "n", 0, ""),
    "decided.alone": ("b", "n", 0, ""),
    "decided.same": ("iu", "s2", 0, "n"),
    "decided.different": ("iu", "d2", 0, "n"),
    "decided.wrong": ("iu", "w2", 0, "ne"),
    "vectors": ("f", "vm", 0, ""),
    "vector_row": ("iu", "n", 0, "v"),
    "scored.entities": ("iu", "p2", 0, "ne"),
    "score.entities": ("f", "p", 0, ""),
    "scored.mentions": ("iu", "q2", 0, "n"),
    "score.mentions": ("f", "q", 0, ""),
    "kb.ids": ("u", "e", 0, ""),
    "kb.contents": ("u", "e", 0, ""),
    "given": ("u", "j", 0, ""),
}
"""Kept arrays: kinds of their type, letters of their sizes (n mentions, e entities), and, unless the last is empty, the
least value and the sizes whose sum is above all values."""
_UNIQUE = {"mentions": "mention_id", "clusters": "cluster_id", "documents": "document_id", "entities": "entity_id"}


def wrong_columns(name: str, table: pa.Table) -> str | None:
    """Check the values of those columns of a table that are known."""
    for own, kind in _known(name):
        if own.rstrip("?") not in table.column_names:
            continue
        column, nulls = table[own.rstrip("?")], kind[-1] == "?"
        if not re.fullmatch(_KINDS[kind.rstrip("?")], str(column.type)):
            return f"the column {own.rstrip('?')} holds {column.type}, not {kind.rstrip('?')}"
        parts = [] if nulls else [column]
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            items = pc.list_flatten(column)
            parts += [items, *(items.flatten() if pa.types.is_struct(items.type) else ())]
        if any(part.null_count for part in parts):
            return f"the column {own.rstrip('?')} has empty values"
        if any(pa.types.is_floating(part.type) and pc.any(pc.is_nan(part)).as_py() for part in (column, *parts)):
            return f"the column {own.rstrip('?')} has values that are no numbers"
    return None


def wrong_ids(name: str, table: pa.Table, *, is_whole: bool = True) -> str | None:
    """Check that the ids of a table are unique, and that corrections are objects.

    Ids of mentions are not checked if the table is not whole, since that takes as long as all else.
    """
    if name == "corrections" and not all(map(_is_object, table["record"].to_pylist())):
        return "it has a line that is not a JSON object"
    id_ = _UNIQUE.get(name) if is_whole or name != "mentions" else None
    if id_ and pc.count_distinct(table[id_]).as_py() < len(table):
        return f"an id stands in it twice ({id_})"
    return None


def needed_columns(name: str) -> set[str]:
    """Return the columns that a table has in any run."""
    return {own for own, _ in _known(name) if own[-1] != "?"}


def _known(name: str) -> list[list[str]]:
    return [column.split("=") for column in _COLUMNS[name].split()]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def wrong_tables(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield tables that contradict others, and what is wrong; the columns must be right."""
    links, mentions, clusters = tables["links"], tables["mentions"], tables["clusters"]
    if links["mention_id"] != mentions["mention_id"]:
        yield "links", f"its {len(links):,} rows do not match the {len(mentions):,} mentions in mentions.parquet"
        return
    place = rows_among(links["cluster_id"], clusters["cluster_id"])
    if (place < 0).any():
        yield "links", "it names a cluster that is missing from clusters.parquet"
        return
    if clusters["entity_id"].take(numbers(place)) != links["entity_id"]:
        yield "links", "it links mentions to other entities than clusters.parquet does"
    if (np.bincount(place, minlength=len(clusters)) != clusters["size"].to_numpy()).any():
        yield "clusters", "its sizes are not those of the clusters in links.parquet"
    is_new = pc.is_null(clusters["entity_id"]).to_numpy()
    if (is_new[:-1] > is_new[1:]).any():
        yield "clusters", "it has a cluster of an entity behind a discovered one"
    nil, told = links["entity_id"].is_null(), {"entity_name", "score"}.intersection(links.column_names)
    if any(links[name].is_null() != nil for name in told):
        yield "links", "it has links without a name or a score, or NIL mentions with one"
    for one, other in (("candidates", "candidate_scores"), ("reasons", "reason_log_odds")):
        if one in links.column_names:
            lengths = [pc.list_value_length(links[name]) for name in (one, other) if name in links.column_names]
            if len(lengths) < 2 or lengths[0] != lengths[1]:
                yield "links", f"its lists of {one} and {other} differ in length"
    yield from _wrong_parents(links, mentions["mention_id"], place)
    yield from _wrong_homes(mentions, tables.get("documents"))


def _wrong_parents(links: pa.Table, ids: pa.ChunkedArray, cluster: npt.NDArray[np.int64]) -> Iterator[tuple[str, str]]:
    is_mention = links["parent_is_mention"].to_numpy()
    direct = numbers(np.flatnonzero(~is_mention))
    if links["parent"].take(direct) != links["entity_id"].take(direct):
        yield "links", "it has a parent that is neither a mention nor the entity"
    if not is_mention.any():
        return
    parent = rows_among(links["parent"], ids)
    if (parent[is_mention] < 0).any():
        yield "links", "it names a parent that is missing from mentions.parquet"
        return
    parent = np.where(is_mention, parent, np.arange(len(parent)))
    if (cluster[parent] != cluster).any():
        yield "links", "it has a parent that is in another cluster"
    for _ in range(len(parent).bit_length()):
        parent = parent[parent]  # twice as far each time
    if is_mention[parent].any():
        lost = ids[int(np.argmax(is_mention[parent]))]
        yield "links", f"the parents of mention {lost.as_py()!r} lead back to themselves"


def _wrong_homes(mentions: pa.Table, documents: pa.Table | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the documents and the spans of mentions."""
    home, known = mentions["document_id"], None if documents is None else documents["document_id"]
    place = rows_among(home, pa.chunked_array([home.unique()]) if known is None else known)
    if (place < 0).any():
        yield "mentions", "it names a document that is missing from documents.parquet"
        return
    if (np.diff(place) < 0).any():
        yield "mentions", "its mentions do not have the order of the documents"
    if "spans" not in mentions.column_names:
        return
    if (
        pc.is_null(mentions["gold"]).to_numpy() & (pc.list_value_length(mentions["gold_entities"]).to_numpy() > 0)
    ).any():
        yield "mentions", "it has gold entities of mentions that are not annotated"
    spans = mentions["spans"].combine_chunks()
    start, end = (spans.flatten().field(name).to_numpy() for name in ("start", "end"))
    n = pc.list_value_length(spans).to_numpy()
    length = np.full(len(mentions), np.iinfo(np.int64).max)
    if documents is not None and "text" in documents.column_names:
        length = pc.utf8_length(documents["text"]).to_numpy()[place]
    if (n < 1).any() or (start < 0).any() or (start >= end).any() or (end > np.repeat(length, n)).any():
        yield "mentions", "it has spans that are empty or outside of their text"


def wrong_arrays(arrays: Mapping[str, npt.NDArray[Any]], n: int, n_entities: int) -> str | None:
    """Check types, shapes and ranges of what a run of so many mentions keeps; an encoder checks its own arrays."""
    together = (name.rpartition(".")[0] for name in arrays if name.startswith(("graph.", "decided.", "kb.")))
    for group in {"", *together}:
        own = {name for name in _ARRAYS if name.startswith(f"{group}.")} if group else {*_LISTS}
        if (lacking := sorted(own - arrays.keys())) and (group or own & arrays.keys()):
            return f"the arrays lack {', '.join(lacking)}"
    sizes = {"n": n, "e": n_entities, "2": 2}
    for name, (kind, shape, least, most) in _ARRAYS.items():
        if (array := arrays.get(name)) is None:
            continue
        if array.dtype.kind not in kind or array.ndim != len(shape) or (kind == "f" and np.isnan(array).any()):
            return f"the array {name} is of {array.dtype} and the shape {array.shape}"
        if any(sizes.setdefault(letter, size) != size for letter, size in zip(shape, array.shape, strict=True)):
            return f"the array {name} has the shape {array.shape}, which does not fit the others"
        if most and array.size and not (least <= array.min() and array.max() < sum(sizes[letter] for letter in most)):
            return f"the array {name} has numbers that are out of range"
        if name == "graph.entities":
            sizes["r"] = int(array)
    if "graph.target" in arrays and (np.diff(arrays["graph.target"]) < 0).any():
        return "the edges do not have the order of their targets"
    return None

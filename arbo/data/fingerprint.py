"""Hashes of Arrow columns: SHA-256 of all their values, and 64 bits of each value. They do not depend on chunks.

A model keeps the hashes of the texts that it learnt from, with which linking warns.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, text_of
from arbo.data.tables import Tables
from arbo.errors import DataError

_OF_DOCUMENTS = "document_id", "domain", "text"
_OF_MENTIONS = "mention_id", "spans", "text", "type", "gold", "cluster"
Hashes = npt.NDArray[np.uint64]

_DOCUMENTS = 1 << 12  # number of documents that are hashed at a time; the fingerprint depends on it
_TOGETHER = 1 << 18  # number of bytes or items that are hashed at a time
_BYTES = 6
"""Of each hash that a model keeps, so that of a million documents and a million others, one pair is equal with a
probability of 0.4 %."""
_FACTOR, _LENGTH, _MIX = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD))
_SHIFTS = np.array([33, 29, 32], np.uint64)


def fingerprint_of(tables: Tables) -> str:
    """Return the SHA-256 of the columns of documents and mentions, some thousand documents at a time.

    It depends on values alone: not on chunks, nor on whether a column without a value is null or missing.
    """
    digest = hashlib.sha256()
    for begin in range(0, len(tables.sizes), _DOCUMENTS):
        part = tables.between(begin, _DOCUMENTS)
        digest.update(part.sizes.astype(np.int64).data)
        for table, names in ((part.documents, _OF_DOCUMENTS), (part.mentions, _OF_MENTIONS)):
            for name in names:
                if name in table.column_names and table[name].null_count < len(table):
                    digest.update(name.encode("ascii"))
                    update(digest, table[name].combine_chunks())
    return digest.hexdigest()


def update(digest: Any, column: pa.Array) -> None:
    """Hash the lengths of lists and strings, -1 for null, and what they consist of."""
    if pa.types.is_struct(column.type):
        for place in range(column.type.num_fields):
            update(digest, column.field(place))
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        digest.update(_lengths(pc.list_value_length(column)))
        update(digest, column.flatten())
    elif pa.types.is_integer(column.type):
        digest.update(np.from_dlpack(column).astype(np.int64).data)
    else:
        digest.update(_lengths(pc.binary_length(column)))
        digest.update(text_of(column.drop_null())[0].data)


def _lengths(lengths: pa.Array) -> Any:
    return np.from_dlpack(pc.coalesce(lengths.cast(pa.int64()), numbers(np.full(1, -1, np.int64))[0])).data


def hash_of(text: str) -> Any:
    """Return the hash of a string, see `hashes_of`; also of one with surrogates, which no column has."""
    units = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    power = _powers(len(units).bit_length())[: len(units)]
    return _mixed((_CODES[units] * power).sum(keepdims=True), len(units))[0]


def hashes_of(column: pa.Array) -> Hashes:
    """Hash each string, or each list of strings by the hashes of its items; (values,), 0 for null.

    Two values have the same hash by a chance of 2^-64, unless somebody has chosen them for it.
    """
    if pa.types.is_large_list(column.type):
        start = np.from_dlpack(column.offsets)
        hashes = hashes_of_rows(hashes_of(column.flatten()), start - start[0])
    else:
        hashes = hashes_of_rows(*text_of(column))
    hashes[np.from_dlpack(pc.indices_nonzero(column.is_null()))] = 0
    return hashes


def hashes_of_rows(items: npt.NDArray[np.unsignedinteger[Any]], start: npt.NDArray[np.int64]) -> Hashes:
    """Hash the items from ``start[i]`` to ``start[i + 1]``, bytes or numbers: the value of a polynomial, mixed."""
    size, hashes, begin = np.diff(start), np.empty(len(start) - 1, np.uint64), 0
    power = _powers(int(size.max(initial=0)).bit_length())
    while begin < len(size):
        end = max(begin + 1, int(np.searchsorted(start, start[begin] + _TOGETHER, "right")) - 1)
        first = start[begin : end + 1] - start[begin]
        place = np.arange(first[-1]) - np.repeat(first[:-1], size[begin:end])
        chunk = items[start[begin] : start[end]]
        total = np.append(np.uint64(0), np.cumsum((_CODES[chunk] if chunk.dtype == np.uint8 else chunk) * power[place]))
        hashes[begin:end] = total[first[1:]] - total[first[:-1]]
        begin = end
    return _mixed(hashes, size)


@cache
def _powers(n_bits: int) -> Hashes:
    """Return the powers by which items are multiplied, for fewer than 2^``n_bits`` of them."""
    return np.cumprod(np.full(1 << n_bits, _FACTOR), dtype=np.uint64)


def _mixed(hashes: Hashes, size: Any) -> Hashes:
    """Mix the bits of sums, and the number of their items."""
    mixed: Hashes = hashes + np.multiply(size, _LENGTH, dtype=np.uint64, casting="unsafe")
    for shift in _SHIFTS:
        mixed = (mixed ^ mixed >> shift) * _MIX
    return mixed


_CODES = _mixed(np.arange(1, 257, dtype=np.uint64) * _FACTOR, 0)


def learnt_from(documents: Tables, before: str = "") -> str:
    """Return the hashes of documents together with those that ``before`` holds, ascending, as base64.

    A hash is that of the text without white space; empty texts have none.
    """
    every = np.union1d(_unpacked(before), _hashes(documents))
    every = every[every > 0].astype(">u8")
    return b64encode(every.view(np.uint8).reshape(-1, 8)[:, -_BYTES:].tobytes()).decode()


def warnings_of(documents: Tables, models: Mapping[str, object]) -> list[str]:
    """Say how many documents each model was trained on; ``models`` have names for sentences, and perhaps `learnt`."""
    warnings = []
    for name, model in models.items():
        if learnt := getattr(model, "learnt", ""):
            known = are_known(documents, learnt)
            if n := int(known.sum()):
                which = f"{n:,} of {len(known):,} documents are among those that {name} was trained on"
                warnings.append(f"{which}, or of the same corpus; scores on them do not hold for other documents")
    return warnings


def are_known(documents: Tables, learnt: str) -> npt.NDArray[np.bool_]:
    """Return whether each document is among those that a model learnt from; (documents,)."""
    return np.isin(_hashes(documents), _unpacked(learnt))


def _hashes(documents: Tables) -> Hashes:
    """Return the hashes of the documents; 0 for an empty text."""
    bare = [pc.replace_substring_regex(text, r"\s+", "") for text in documents.documents["text"].chunks]
    hashes = (np.where(pc.equal(one, ""), 0, hashes_of(one) >> np.uint64(8 * (8 - _BYTES))) for one in bare)
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def _unpacked(learnt: str) -> Hashes:
    try:
        rows = np.frombuffer(b64decode(learnt, validate=True), np.uint8).reshape(-1, _BYTES)
    except (TypeError, ValueError):
        raise DataError("a model has damaged hashes of the documents that it learnt from; train it again") from None
    return np.pad(rows, ((0, 0), (8 - _BYTES, 0))).view(">u8").ravel().astype(np.uint64)

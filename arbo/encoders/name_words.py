"""The normalised words of many names at once; names in ASCII are split by a kernel, as `normalize_name` would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from arbo.encoders.string_table import Bytes, Spans
from arbo.engine import Bools, Ids, kernel
from arbo.text.names import normalize_name


def words_of(names: Sequence[str], normalize: Callable[[str], str] = normalize_name) -> tuple[Spans, Ids]:
    """Return the words of all names, ``normalize(name).split()``, and where each name begins among them.

    >>> spans, start = words_of(["Wilson's Disease", "", "Tumours"])
    >>> [bytes(spans.text[begin:end]).decode() for begin, end in zip(spans.begin, spans.end)], start.tolist()
    (['wilson', 'disease', 'tumor'], [0, 2, 2, 3])
    """
    is_raw = np.array([normalize is normalize_name and name.isascii() for name in names], np.bool_)
    texts = [
        name if raw else " ".join(normalize(name).split()) for name, raw in zip(names, is_raw.tolist(), strict=True)
    ]
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    for place in np.flatnonzero(~is_raw).tolist():
        length[place] = len(texts[place].encode("utf-8", "surrogatepass"))
    text = np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8)
    *spans, start = _split(text, np.append(0, np.cumsum(length)), is_raw)
    return Spans(*spans), start


@kernel
def _split(text: Bytes, place: Ids, is_raw: Bools) -> tuple[Bytes, Ids, Ids, Ids]:
    """Return the words of names, and where each name begins; those that are not raw are normalised already."""
    made, size = np.empty(len(text), np.uint8), 0
    begin = np.empty(len(text) // 2 + len(is_raw), np.int64)
    end, start, n = np.empty_like(begin), np.empty(len(place), np.int64), 0
    start[0] = 0
    for name in range(len(is_raw)):
        i, stop = place[name], place[name + 1]
        while is_raw[name] and i < stop:
            if not _is_word(text[i]):
                i += 2 if _is_possessive(text, i, stop) else 1
                continue
            begin[n] = size
            while i < stop and _is_word(text[i]):
                made[size] = _lower(text[i])
                size, i = size + 1, i + 1
            size = end[n] = _spelt(made, begin[n], _singular(made, begin[n], size))
            n += 1
        i = place[name] if n == start[name] else stop  # a name such as "+++", or normalised already
        while i < stop:
            begin[n] = size
            while i < stop and not _is_blank(text[i]):
                made[size] = _lower(text[i]) if is_raw[name] else text[i]
                size, i = size + 1, i + 1
            end[n] = size
            n += size > begin[n]
            i += 1
        start[name + 1] = n
    return made, begin[:n].copy(), end[:n].copy(), start


@kernel
def _lower(c: int) -> int:
    return c + 32 if ord("A") <= c <= ord("Z") else c


@kernel
def _is_word(c: int) -> bool:
    return ord("a") <= _lower(c) <= ord("z") or ord("0") <= c <= ord("9")


@kernel
def _is_blank(c: int) -> bool:
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31


@kernel
def _is_possessive(text: Bytes, i: int, stop: int) -> bool:
    """Return whether an apostrophe and an s, the last letter of a word, begin at ``i``."""
    if i + 1 == stop or _lower(text[i + 1]) != ord("s") or (text[i] != ord("'") and text[i] != ord("`")):
        return False
    return i + 2 == stop or not (_is_word(text[i + 2]) or text[i + 2] == ord("_"))


@kernel
def _singular(text: Bytes, begin: int, end: int) -> int:
    """Make a word singular in place, see `arbo.text.names`; return its end."""
    if end - begin < 4 or text[end - 1] != ord("s"):
        return end
    before, third, fourth = text[end - 2], text[end - 3], text[end - 4]
    if before == ord("s") or before == ord("u") or before == ord("i"):
        return end
    if before != ord("e"):
        return end - 1
    if third == ord("i") and end - begin > 4:
        text[end - 3] = ord("y")
        return end - 2
    hisses = third == ord("s") and fourth == ord("s")
    hushes = third == ord("h") and (fourth == ord("s") or fourth == ord("c"))
    return end - 2 if hisses or hushes or third == ord("x") else end - 1


@kernel
def _spelt(text: Bytes, begin: int, end: int) -> int:
    """Write the diphthongs and the ending of a word as Americans do, in place; return its end."""
    size = i = begin
    while i < end:
        if i + 1 < end and text[i + 1] == ord("e") and (text[i] == ord("a") or text[i] == ord("o")):
            i += 1
        text[size] = text[i]
        size, i = size + 1, i + 1
    if size - begin >= 3 and text[size - 3] == ord("o") and text[size - 2] == ord("u") and text[size - 1] == ord("r"):
        text[size - 2] = ord("r")
        size -= 1
    return size

"""The normalised words of many names at once."""

import numpy as np
import pyarrow.compute as pc

from arbo.encoders.string_table import Bytes, Spans, StringTable
from arbo.engine import Bools, Ids, kernel
from arbo.text.names import MAY_HAVE_SIGNS, marked, normalize_names, signs_of


def words_of(names: Spans, *, signs: bool = True) -> tuple[StringTable, tuple[Ids, Ids]]:
    """Return the distinct words of ``normalize_name(name).split()`` by first appearance, and those of each name.

    The words of name ``i`` have the numbers ``items[start[i]:start[i + 1]]``, each once. `normalize_name` changes the
    parts of a name between blanks independently, so it is called once for each distinct part. With ``signs``, a name
    with signs has further words, see `arbo.text.names`, which come last in the table.

    >>> words, (start, items) = words_of(Spans.of(["Wilson's Disease", "", "Diseases of Wilson"]))
    >>> words.spans.strings(), start.tolist(), items.tolist()
    (['wilson', 'disease', 'of'], [0, 2, 2, 5], [0, 1, 1, 2, 0])
    """
    spans, begins = _parts(names)
    parts, numbers = spans.numbered()
    normalized = normalize_names([*parts])
    spans, first = _parts(Spans.of(normalized))
    words, in_part = spans.numbered()
    # A part such as "+++" is a word only in a name of such parts; what follows an apostrophe is no word either.
    is_mark = np.array([not word[:1].isalnum() for word in normalized], np.bool_)
    start, items, order = _distinct_words(begins, numbers, first, in_part, is_mark, len(words))
    distinct = Spans.of(words).taken(order)
    if signs and (has_sign := np.asarray(pc.match_substring_regex(parts.array, MAY_HAVE_SIGNS))).any():
        before = np.append(0, np.cumsum(has_sign[numbers]))[begins]
        rows = np.flatnonzero(np.diff(before))
        distinct, start, items = _with_marked(distinct, start, items, rows, names.taken(rows).strings())
    return StringTable.of(distinct), (start, items)


def _with_marked(words: Spans, start: Ids, items: Ids, rows: Ids, names: list[str]) -> tuple[Spans, Ids, Ids]:
    """Add the marked words of the names in some rows, if these have signs, to the words and to the names."""
    number: dict[str, int] = {}
    signed = [(row, sign) for row, name in zip(rows.tolist(), names, strict=True) if (sign := signs_of(name))]
    numbers = [items[start[row] : start[row + 1]].tolist() for row, _ in signed]
    used = [*{word: None for of in numbers for word in of}]
    texts = dict(zip(used, words.taken(np.array(used, np.int64)).strings(), strict=True))  # copies the text once
    new = [
        [form for word in of for form in marked(texts[word], sign)]
        for (_, sign), of in zip(signed, numbers, strict=True)
    ]
    more = [number.setdefault(word, len(words.begin) + len(number)) for of in new for word in of]
    row = np.repeat([row for row, _ in signed], [len(of) for of in new]).astype(np.int64)
    items = np.insert(items, start[row + 1], np.array(more, items.dtype))
    start = start + np.append(0, np.cumsum(np.bincount(row, minlength=len(start) - 1)))
    return words.joined(Spans.of([*number])), start, items


def _parts(names: Spans) -> tuple[Spans, Ids]:
    """Return the parts between blanks of all strings, and where those of each string begin."""
    text, place, start = _split(*names)
    return Spans(text, place[:-1], place[1:]), start


@kernel
def _split(text: Bytes, first: Ids, last: Ids) -> tuple[Bytes, Ids, Ids]:
    """Return the parts of strings without blanks, where each begins, and the number of parts before each string."""
    joined, n_bytes = np.empty((last - first).sum(), np.uint8), 0
    place, start, n = np.zeros((last - first + 1).sum() // 2 + 1, np.int64), np.zeros(len(first) + 1, np.int64), 0
    for row in range(len(first)):
        is_inside = False
        for i in range(first[row], last[row]):
            if text[i] != 32:
                joined[n_bytes] = text[i]
                n_bytes += 1
                n += not is_inside
                place[n] = n_bytes
            is_inside = text[i] != 32
        start[row + 1] = n
    return joined[:n_bytes].copy(), place[: n + 1].copy(), start


@kernel
def _distinct_words(
    start: Ids, parts: Ids, first: Ids, words: Ids, is_mark: Bools, n_words: int
) -> tuple[Ids, Ids, Ids]:
    """Return the distinct words of each row of parts, renumbered in order of first use, and the old number of each."""
    most = 0
    for part in parts:
        most += first[part + 1] - first[part]
    items, begins, n = np.empty(most, np.int32), np.zeros_like(start), 0
    number, order, n_used = np.full(n_words, -1, np.int32), np.empty(n_words, np.int64), 0
    last = np.full(n_words, -1, np.int64)
    for row in range(len(start) - 1):
        is_bare = True
        for part in parts[start[row] : start[row + 1]]:
            is_bare &= is_mark[part]
        for part in parts[start[row] : start[row + 1]]:
            for word in words[first[part] : first[part + 1]]:
                if is_mark[part] != is_bare or last[word] == row:
                    continue
                last[word] = row
                if number[word] < 0:
                    number[word], order[n_used] = n_used, word
                    n_used += 1
                items[n] = number[word]
                n += 1
        begins[row + 1] = n
    return begins, items[:n].copy(), order[:n_used].copy()

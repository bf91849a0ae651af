"""A list of names as numbers of tokens, and the acronyms among them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, strings
from arbo.encoders.string_table import Spans
from arbo.engine import Bools, Ids, pairs_of, ranges
from arbo.text.name_tokens import MOST, NUMBERED, ROMAN, VERSIONS, words_in
from arbo.text.names import MAY_HAVE_SIGNS, signs_of

_STATES = (", CO", ", DE", ", IN", ", KS", ", LA", ", NV", ", ON", ", OR")  # which are no small words and legal forms
_THREE_WORDS = r"(?s)\p{Lu}.*[ -]\p{Lu}.*[ -]\p{Lu}"  # in capitals, as names with an acronym have


def tokens_in(names: Sequence[str]) -> tuple[list[str], Ids, Ids]:
    """Return the distinct tokens of names by first appearance, those of each name, and where these begin.

    The tokens of a name are its words and numbers and its signs, at most `MOST`, or "?"; a Roman numeral that does not
    come first is a number (of one letter, after "type" and the like). What is before or after a blank does not change a
    word, so that only distinct parts of names are divided into words.

    >>> tokens_in(["C++ of Müller", "+", "Xi XIV"])
    (['c', 'of', 'muller', '++', '+', 'xi', '14'], array([0, 1, 2, 3, 4, 5, 6]), array([0, 4, 5, 7]))
    """
    number, spans = dict[str, int](), Spans.of(names)
    parts, first = spans.parts()
    distinct, part = parts.numbered()
    words = words_in([*distinct])
    size = np.array([*map(len, words)], np.int64)
    coded = (number.setdefault(word, len(number)) for some in words for word in some)
    word = np.fromiter(coded, np.int64)[ranges((np.cumsum(size) - size)[part], size[part])]
    n_words = np.diff(np.append(0, np.cumsum(size[part]))[first])
    place, length = np.arange(len(word)) - np.repeat(np.cumsum(n_words) - n_words, n_words), n_words.clip(max=MOST - 1)
    word = _with_numbers(number, word, place)
    end = np.cumsum(n_words)
    for row in [row for row, name in enumerate(names) if name.endswith(_STATES)]:
        word[end[row] - 1] = number.setdefault(names[row][-2:], len(number))
    may = np.asarray(pc.match_substring_regex(distinct.array, MAY_HAVE_SIGNS))[part]
    rows, last = np.flatnonzero(np.diff(np.append(0, np.cumsum(may))[first])), np.full(len(length), -1)
    signs = [*map(signs_of, spans.taken(rows).strings())]
    last[rows] = [number.setdefault(sign, len(number)) if sign else -1 for sign in signs]
    last[(length == 0) & (last < 0)] = number.setdefault("?", len(number))
    token = np.insert(word[place < MOST - 1], np.cumsum(length)[last >= 0], last[last >= 0])
    encoded, every = pa.array(token).dictionary_encode(), [*number]
    tokens = [every[code] for code in encoded.dictionary.to_pylist()]
    return tokens, encoded.indices.to_numpy().astype(np.int64), np.append(0, np.cumsum(length + (last >= 0)))


def _with_numbers(number: dict[str, int], word: Ids, place: Ids) -> Ids:
    """Return the numbers of words, with those of figures for Roman numerals; ``place`` is that in the name."""
    as_figure, is_long, counts = np.arange(len(number)), np.ones(len(number), bool), np.zeros(len(number), bool)
    for numeral in ROMAN.keys() & number.keys():
        is_long[number[numeral]] = len(numeral) > 1
        as_figure[number[numeral]] = number.setdefault(ROMAN[numeral], len(number))
    counts[[number[one] for one in NUMBERED & number.keys()]] = True
    is_numeral = (place > 0) & (is_long[word] | np.append(False, counts[word])[:-1])
    word = np.where(is_numeral, as_figure[word], word)
    after = (place > 0) & np.append(False, np.array([one.isdigit() for one in number], bool)[word])[:-1]
    for version in number.keys() & VERSIONS:
        word[after & (word == number[version])] = number.setdefault(version.upper(), len(number))
    return word


def acronyms(names: Sequence[str], some: Bools | None = None) -> tuple[Ids, Ids]:
    """Return the pairs of a word in capitals and a name with these initials, or one more, for its legal form.

    Two letters are those of too many names. With ``some``, (names,), one name of each pair is one of these.

    >>> acronyms(["I.B.M.", "International Business Machines Corp", "Bank of Avalon City", "BAC"])
    (array([3, 0]), array([2, 1]))
    """
    array = strings(names)
    short = np.flatnonzero(pc.match_substring_regex(array, r"^(\p{Lu}\.?){3,8}$"))
    words = pc.replace_substring(array.take(numbers(short)), ".", "")
    long = np.arange(len(names) if len(short) else 0) if some is None or some[short].any() else np.flatnonzero(some)
    texts = array.take(numbers(long))
    long = long[np.asarray(pc.match_substring_regex(texts, _THREE_WORDS)) & ~np.asarray(pc.utf8_is_upper(texts))]
    first = pc.replace_substring_regex(array.take(numbers(long)), "([^ -])[^ -]*[ -]?", r"\1")  # letters of words
    initials = pc.replace_substring_regex(first, "[a-z&]", "")
    initials = pa.concat_arrays([initials, pc.utf8_slice_codeunits(initials, 0, -1)])
    code, of_long = (np.asarray(pc.fill_null(pc.index_in(keys, words.unique()), -1)) for keys in (words, initials))
    order = np.argsort(code, kind="stable")
    place, pair = pairs_of(code[order], of_long)
    shorts, longs = short[order[place]], np.tile(long, 2)[pair]
    chosen = np.ones(len(shorts), bool) if some is None else some[shorts] | some[longs]
    return shorts[chosen], longs[chosen]

"""The features of pairs of names alone: which tokens are equal or alike, and what is left over on either side.

The tokens of both names are matched one by one: first equal ones, then one that is two of the other name ("database",
"data base"), similar ones (a typing error), abbreviations and initials ("Eng.", "J."), and acronyms. A token weighs
more the fewer names of this list have it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from arbo.edges.name_list import tokens_in
from arbo.engine import Bools, Floats, Ids, Neighbors, Weights, kernel, sorted_unique
from arbo.text.name_tokens import (
    LEGAL,
    LETTER,
    MOST,
    NUMBER,
    PERSONS,
    RANKS,
    SIGN,
    SMALL,
    TITLE,
    WEIGHT,
    WORD,
    kind_of,
)

_EQUAL, _JOINED, _SIMILAR, _SHORTENED, _INITIAL, _ACRONYM = range(1, 7)
_KINDS = ("words", "numbers", "letters", "legal", "titles", "small", "signs")
NAME_FEATURES = (
    *("equal", "joined", "similar", "shortened", "initials", "acronym"),
    *("least_left", "most_left", "least_rare_left", "most_rare_left", "least_similar", "similar_weight"),
    *(f"{side}_{kind}_left" for kind in _KINDS for side in ("least", "most")),
    *("n_equal", "least_tokens", "most_tokens", "holders", "rarest_equal", "out_of_order", "first", "last"),
    *("n_shortened", "n_initials", "weights", "spelling", "least_parts_left", "is_inside"),
    *("letters", "best_rank", "worst_rank", "least_share_of_best", "most_share_of_best"),
    *("names", "single_words", "with_legal", "with_numbers", "with_titles", "tokens_a_name", "names_a_token"),
)
"""The columns of `NameTable.features`."""
OF_LIST = NAME_FEATURES.index("names")  # the columns from here on are equal for all pairs of a list
IN_WORDS = (
    *("equal words", "words written as one", "words spelt alike", "shortened words", "initials", "an acronym"),
    *(f"{what} {one} has alone" for what in ("parts", "a rare part") for one in ("each name", "one name")),
    *("least alike words", "weight of words spelt alike"),
    *(
        f"{what} {one} has alone"
        for what in ("words", "numbers", "single letters", "legal forms", "titles", "small words", "signs")
        for one in ("each name", "one name")
    ),
    *("number of equal words", "length of the shorter name", "length of the longer name", "names with an equal word"),
    *("rarest equal word", "order of words", "first words", "last words", "number of shortened words"),
    *("number of initials", "weight of the names", "letters to change", "main parts each name has alone"),
    *("one name inside the other", "similarity of letters", "better rank as neighbours", "worse rank as neighbours"),
    *("least share of the best similarity", "most share of the best similarity"),
)
"""What explanations call the features of a pair, those before `OF_LIST`."""
_OF_PAIR = NAME_FEATURES.index("letters")
_DIFFERENT = [NAME_FEATURES.index(name) for name in ("least_parts_left", "most_signs_left", "is_inside")]
_IN_TERMS = [*map(NAME_FEATURES.index, ("least_numbers_left", "least_letters_left", "most_signs_left", "is_inside"))]
_LETTER_AND_NUMBER = [*map(NAME_FEATURES.index, ("least_parts_left", "most_letters_left", "most_numbers_left"))]
_OF_TERMS = {"single_words": 0.02, "tokens_a_name": 2.8, "names_a_token": 1.5}
_BOTH_ENDS, _MOST_WORDS = 0.015, 10
"""What terms have more of: features of a list; and the share of names that its most frequent words begin and end."""
_PARTS = NAME_FEATURES.index("least_parts_left")
_NO, _ONE = np.uint64(0), np.uint64(1)


class EarlierNames(NamedTuple):
    """What a run of a list keeps, so that its names weigh the same when it grows."""

    tokens: npt.NDArray[np.uint8]  # the tokens of its first names in UTF-8, divided by line breaks
    holders: Ids  # (tokens,) number of first names that have the token
    n_names: Ids  # (1,) number of first names
    of_list: npt.NDArray[np.float64]  # the features that all pairs have
    are_terms: Bools  # (1,) whether they are terms ("kidney tumour", "tumours, kidney"), not persons, firms or products
    pairs: Ids  # (pairs, 2) mentions
    scores: Weights  # (pairs,) their scores by a model

    @classmethod
    def of(cls, tokens: list[str], token: Ids, begin: Ids, kind: npt.NDArray[np.int8]) -> Self:
        """Count the tokens of names, see `NameTable`; no pair is scored yet."""
        size, n, some = np.diff(begin), len(begin) - 1, max(len(begin) - 1, 1)
        owner = np.repeat(np.arange(n), size)
        distinct = sorted_unique(owner * len(tokens) + token)
        holders = np.bincount(distinct % max(len(tokens), 1), minlength=len(tokens))
        shares = [len(sorted_unique(owner[kind[token] == which])) / some for which in (LEGAL, NUMBER, TITLE)]
        of_list = [np.log(some), (size == 1).sum() / some, *shares, size.sum() / some, n / max(len(tokens), 1)]
        text = np.frombuffer("\n".join(tokens).encode(), np.uint8)
        ends = [np.bincount(token[place[size > 1]], minlength=len(tokens)) for place in (begin[:-1], begin[1:] - 1)]
        at_both = np.sort(np.minimum(*ends)[kind == WORD])[-_MOST_WORDS:].sum()
        more = [of_list[NAME_FEATURES.index(name) - OF_LIST] > least for name, least in _OF_TERMS.items()]
        are_terms = np.array([all(more) and at_both > _BOTH_ENDS * n])
        return cls(text, holders, np.array([n]), np.array(of_list), are_terms, np.empty((0, 2), np.int32), np.empty(0))


class NameTable(NamedTuple):
    """Names as numbers of tokens, and tokens as letters."""

    earlier: EarlierNames | None
    token: Ids
    begin: Ids  # (names + 1,) where the tokens of each name begin
    kind: npt.NDArray[np.int8]  # (tokens,)
    weight: npt.NDArray[np.float64]  # (tokens,)
    holders: Ids  # (tokens,) the number of names that have the token
    letter: Ids
    letter_begin: Ids
    comma: Ids  # (names,) the number of tokens before the last comma

    @classmethod
    def of(cls, names: Sequence[str], earlier: EarlierNames | None = None) -> Self:
        """Divide names into tokens, and count these unless earlier names did."""
        tokens, token, begin = tokens_in(names)
        kind = np.array([kind_of(one) for one in tokens], np.int8)
        earlier = earlier or EarlierNames.of(tokens, token, begin, kind)
        known = dict(zip(earlier.tokens.tobytes().decode().split("\n"), earlier.holders.tolist(), strict=False))
        if PERSONS.isdisjoint(known):
            kind[[row for row, one in enumerate(tokens) if one in RANKS]] = WORD
        holders, n = np.array([known.get(token, 1) for token in tokens], np.int64), earlier.n_names[0]
        rarity = np.log((n + 1) / (holders + 0.5)).clip(0.05) / np.log(n + 2)
        letter = np.unique(np.array([ord(one) for one in "".join(tokens).lower()], np.int32), return_inverse=True)[1]
        letter_begin = np.cumsum([0, *map(len, tokens)])
        with_comma = [(row, name.rpartition(",")[0]) for row, name in enumerate(names) if "," in name[1:]]
        comma = np.zeros(len(names), np.int64)
        comma[[row for row, _ in with_comma]] = np.diff(tokens_in([head for _, head in with_comma])[2])
        weight = rarity * np.array(WEIGHT)[kind]
        return cls(earlier, token, begin, kind, weight, holders, letter, letter_begin, comma)

    def features(self, first: Ids, second: Ids, lists: Neighbors) -> Floats:
        """Return the features of pairs of names; (pairs, features).

        ``lists`` are the neighbours of the names by letters, at dissimilarities of 1 minus a cosine.
        """
        assert self.earlier is not None
        out = np.full((len(first), len(NAME_FEATURES)), np.nan, np.float32)
        _compare_all(first, second, self._replace(earlier=None), out)
        _ranks(first, second, lists, out[:, _OF_PAIR:OF_LIST])
        out[:, OF_LIST:] = self.earlier.of_list
        return out

    def rivals(self, first: Ids, second: Ids, lists: Neighbors) -> Ids:
        """Return for pairs how many neighbours of a name extend it otherwise ("Siemens Energy") than the other."""
        return _rivals(first, second, lists.ids, self._replace(earlier=None), np.zeros(len(first), np.int64))


class _Memory(NamedTuple):
    """What a comparison of two names writes, made once for many."""

    of: npt.NDArray[np.int8]  # (2, tokens) how each token of both names is matched; 0 for one that is left
    place: Ids  # the token of the other name that each token of the first is matched with, or -1
    similarity: Weights
    kinds: Weights  # (2, kinds) the number of tokens left of each kind
    places: npt.NDArray[np.uint64]  # (letters,) see `_edits`


def differ(features: Floats, are_terms: bool = False) -> Bools:
    """Return whether pairs of names mean different things whatever a model says; (pairs,).

    Both have a word (unless they `are_terms`), a number or a letter that the other lacks, or one has a sign, or one is
    a letter of the other, or what comes after its last comma ("Queensland, Australia").
    """
    apart = (features[:, _IN_TERMS if are_terms else _DIFFERENT] > 0).any(axis=1)
    return np.asarray(apart | (features[:, _LETTER_AND_NUMBER] > 0).all(axis=1))


@kernel
def _rank(other: int, ids: Ids, dissimilarity: Floats) -> tuple[int, float, float]:
    """Return the place of a name in a list, the similarity there, NaN without one, and that of the first place."""
    best = max(float(1 - np.float64(dissimilarity[0])), 1e-6) if np.isfinite(dissimilarity[0]) else 1.0
    for place in range(len(ids)):
        if ids[place] == other:
            return place, np.float64(np.float32(1) - dissimilarity[place]), best
    return len(ids), np.nan, best


@kernel
def _ranks(first: Ids, second: Ids, lists: Neighbors, out: Floats) -> None:
    """Write the similarity of pairs, their smaller and larger rank in the lists, and their shares of the best."""
    for row in range(len(first)):
        a, b = first[row], second[row]
        place_a, letters, best_a = _rank(b, lists.ids[a], lists.dissimilarity[a])
        place_b, similarity, best_b = _rank(a, lists.ids[b], lists.dissimilarity[b])
        letters = np.fmax(letters, similarity)  # which may be NaN
        out[row, 0], out[row, 1], out[row, 2] = letters, min(place_a, place_b), max(place_a, place_b)
        shares = letters / best_a, letters / best_b
        out[row, 3], out[row, 4] = min(shares), max(shares)


@kernel
def _edits(a: Any, b: Any, places: Any) -> int:
    """Return the edits and exchanges of neighbours between the first 64 letters of two words (Hyyro 2003).

    ``places`` are the places of each letter, as bits, all 0 before and after.
    """
    a, b = a[:64], b[:64]
    if len(a) == 0:
        return len(b)
    for i in range(len(a)):
        places[a[i]] |= _ONE << np.uint64(i)
    last, score = _ONE << np.uint64(len(a) - 1), len(a)
    more, less, same, before = ~_NO, _NO, _NO, _NO  # vertical differences of 1 and -1, and diagonal ones of 0
    for letter in b:
        here = places[letter]
        crossed = ((~same & here) << _ONE) & before
        same = (((here & more) + more) ^ more) | here | less | crossed
        right, left = less | ~(same | more), same & more
        score += int((right & last) != _NO) - int((left & last) != _NO)
        right, left = (right << _ONE) | _ONE, left << _ONE
        more, less, before = left | ~(same | right), right & same, here
    for letter in a:
        places[letter] = _NO
    return score


@kernel
def _word(table: Any, token: int) -> Any:
    return table.letter[table.letter_begin[token] : table.letter_begin[token + 1]]


@kernel
def _match_joined(table: Any, x: Any, y: Any, of_x: Any, of_y: Any) -> None:
    """Match tokens of one name that are two neighbouring tokens of the other."""
    for i in range(len(x)):
        for j in range(len(y) - 1):
            if of_x[i] or of_y[j] or of_y[j + 1]:
                continue
            word, left, right = _word(table, x[i]), _word(table, y[j]), _word(table, y[j + 1])
            if len(word) != len(left) + len(right) or (table.kind[y[j]] == table.kind[y[j + 1]] == NUMBER):
                continue  # "25" is not "2.5"
            if (word[: len(left)] == left).all() and (word[len(left) :] == right).all():
                of_x[i] = of_y[j] = of_y[j + 1] = _JOINED


@kernel
def _match_similar(table: Any, x: Any, y: Any, of_x: Any, of_y: Any, memory: Any) -> tuple[float, float, float]:
    """Match similar words, the most similar first; return their weight, that times similarity, and the smallest one."""
    weight, total, worst = 0.0, 0.0, 1.0
    similarity, any_similar = memory.similarity, False
    for i in range(len(x)):
        word, is_word = _word(table, x[i]), not of_x[i] and table.kind[x[i]] not in (NUMBER, LETTER, SIGN)
        for j in range(len(y)):
            similarity[i, j] = 0
            if not is_word or of_y[j] or table.kind[y[j]] in (NUMBER, LETTER, SIGN):
                continue
            other = _word(table, y[j])
            most, least = max(len(word), len(other)), min(len(word), len(other))
            limit = max(1, most // 3)
            if least < 3 or most - least > limit:
                continue
            edits = _edits(word, other, memory.places)
            if edits <= limit:
                similarity[i, j], any_similar = 1 - edits / most, True
    while any_similar:
        best, at_x, at_y = 0.0, -1, -1
        for i in range(len(x)):
            for j in range(len(y)):
                if similarity[i, j] > best and not of_x[i] and not of_y[j]:
                    best, at_x, at_y = similarity[i, j], i, j
        if at_x < 0:
            break
        of_x[at_x] = of_y[at_y] = _SIMILAR
        memory.place[at_x] = at_y
        both = (table.weight[x[at_x]] + table.weight[y[at_y]]) / 2
        weight, total, worst = weight + both, total + both * best, min(worst, best)
    return weight, total, worst


@kernel
def _is_short_for(short: Any, long: Any) -> bool:
    """Return whether a word has the first and later letters of a longer one; of two, the second or last one of it."""
    if len(long) <= len(short) or short[0] != long[0]:
        return False
    found = 0
    for letter in long:
        found += int(found < len(short) and letter == short[found])
    return found == len(short) and (found != 2 or short[1] == long[1] or short[1] == long[-1])


@kernel
def _has_letter_there(table: Any, x: Any, i: int, y: Any, of_y: Any) -> bool:
    """Return whether a letter of its own is in a name where another one has a letter: first, or after an equal word."""
    for j in range(len(y)):
        if table.kind[y[j]] == LETTER and not of_y[j] and (i == j == 0 or (i * j > 0 and x[i - 1] == y[j - 1])):
            return True
    return False


@kernel
def _match_shortened(
    table: Any, x: Any, y: Any, of_x: Any, of_y: Any, place: Any, swapped: bool
) -> tuple[float, float, int, int]:
    """Match abbreviations and initials in one name with words of the other; return weights and numbers of both."""
    short, initials, n_short, n_initials = 0.0, 0.0, 0, 0
    for i in range(len(x)):
        if of_x[i] or table.kind[x[i]] in (NUMBER, SIGN):
            continue
        word = _word(table, x[i])
        if len(word) == 1 and _has_letter_there(table, x, i, y, of_y):
            continue
        for j in range(len(y)):
            if of_y[j] or table.kind[y[j]] in (NUMBER, SIGN) or not _is_short_for(word, _word(table, y[j])):
                continue
            is_initial = len(word) == 1
            of_x[i] = of_y[j] = _INITIAL if is_initial else _SHORTENED
            if is_initial:
                initials, n_initials = initials + table.weight[y[j]], n_initials + 1
            else:
                short, n_short = short + table.weight[y[j]], n_short + 1
            place[j if swapped else i] = i if swapped else j
            break
    return short, initials, n_short, n_initials


@kernel
def _match_acronyms(table: Any, x: Any, y: Any, of_x: Any, of_y: Any) -> float:
    """Match tokens that are the initials of neighbouring words of the other name; return the weight of these words."""
    weight = 0.0
    for i in range(len(x)):
        word = _word(table, x[i])
        for j in range(len(y)):
            for skips in range(2):
                if of_x[i] or table.kind[x[i]] in (NUMBER, SIGN) or len(word) < 2:
                    continue
                found, at = 0, j
                while at < len(y) and found < len(word) and not of_y[at]:
                    is_skipped = skips and at > j and table.kind[y[at]] == SMALL
                    if not is_skipped and _word(table, y[at])[0] != word[found]:
                        break
                    found, at = found + int(not is_skipped), at + 1
                if found == len(word):
                    of_x[i] = _ACRONYM
                    for some in range(j, at):
                        of_y[some] = _ACRONYM
                        weight += table.weight[y[some]]
    return weight


@kernel
def _left(table: Any, x: Any, of: Any, by_kind: Any) -> tuple[float, float, float]:
    """Return the weight of a name, of its unmatched tokens and of the heaviest of these; count them by kind."""
    total, left, heaviest = 0.0, 0.0, 0.0
    for i in range(len(x)):
        weight = table.weight[x[i]]
        total += weight
        if not of[i]:
            left, heaviest = left + weight, max(heaviest, weight)
            by_kind[table.kind[x[i]]] += 1
    return total, left, heaviest


@kernel
def _joined_letters(table: Any, x: Any) -> Any:
    """Return the letters of a name without blanks, at most 48."""
    out, n = np.empty(48, np.int32), 0
    for token in x:
        word = _word(table, token)[: 48 - n]
        out[n : n + len(word)] = word
        n += len(word)
    return out[:n]


@kernel
def _is_inside(table: Any, x: Any, y: Any, of_x: Any, of_y: Any, comma: int) -> bool:
    """Return whether a name is one letter of another, or what comes after a comma of it, with words before that."""
    if len(y) == 1 and len(x) > 1 and table.kind[y[0]] == LETTER:
        return True
    return comma > 0 and not of_x[:comma].any() and (table.kind[x[:comma]] <= LETTER).any() and of_y.all()


@kernel
def _compare(table: Any, x: Any, y: Any, comma_x: int, comma_y: int, memory: Any, out: Any) -> None:
    """Write the features of two names."""
    of_x, of_y, place = memory.of[0, : len(x)], memory.of[1, : len(y)], memory.place
    of_x[:], of_y[:], place[:] = 0, 0, -1
    equal, n_equal, holders, rarest = 0.0, 0, np.inf, 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            if not of_x[i] and not of_y[j] and x[i] == y[j]:
                of_x[i] = of_y[j] = _EQUAL
                place[i] = j
                equal, n_equal = equal + table.weight[x[i]], n_equal + 1
                if table.kind[x[i]] in (WORD, NUMBER):
                    holders, rarest = min(holders, table.holders[x[i]]), max(rarest, table.weight[x[i]])
    _match_joined(table, x, y, of_x, of_y)
    _match_joined(table, y, x, of_y, of_x)
    similar, similar_total, worst = _match_similar(table, x, y, of_x, of_y, memory)
    one = _match_shortened(table, x, y, of_x, of_y, place, False)
    two = _match_shortened(table, y, x, of_y, of_x, place, True)
    acronym = _match_acronyms(table, x, y, of_x, of_y) + _match_acronyms(table, y, x, of_y, of_x)
    kinds_x, kinds_y = memory.kinds[0], memory.kinds[1]
    kinds_x[:], kinds_y[:] = 0, 0
    (all_x, left_x, most_x), (all_y, left_y, most_y) = _left(table, x, of_x, kinds_x), _left(table, y, of_y, kinds_y)
    for kind in range(7):
        out[12 + 2 * kind] = min(kinds_x[kind], kinds_y[kind])
        out[13 + 2 * kind] = max(kinds_x[kind], kinds_y[kind])
    out[38] = min(kinds_x[: LETTER + 1].sum(), kinds_y[: LETTER + 1].sum())
    out[39] = _is_inside(table, x, y, of_x, of_y, comma_x) or _is_inside(table, y, x, of_y, of_x, comma_y)
    joined = 0.0
    for name, of in ((x, of_x), (y, of_y)):
        for i in range(len(name)):
            joined += table.weight[name[i]] * (of[i] == _JOINED) / 2
    whole = max(all_x + all_y, 1e-9)
    out[0], out[1], out[2] = 2 * equal / whole, 2 * joined / whole, 2 * similar_total / whole
    out[3], out[4], out[5] = 2 * (one[0] + two[0]) / whole, 2 * (one[1] + two[1]) / whole, 2 * acronym / whole
    out[6], out[7] = min(left_x, left_y) / whole, max(left_x, left_y) / whole
    out[8], out[9] = min(most_x, most_y), max(most_x, most_y)
    out[10], out[11] = worst if similar > 0 else np.nan, similar
    out[26], out[27], out[28] = n_equal, min(len(x), len(y)), max(len(x), len(y))
    out[29], out[30] = np.log(holders) if holders < np.inf else np.nan, rarest
    last, out_of_order = -1, 0
    for i in range(len(x)):
        if place[i] >= 0:
            out_of_order += int(place[i] < last)
            last = int(place[i])
    out[31] = out_of_order
    is_longer = left_x > left_y or (left_x == left_y and all_x > all_y)
    short, long = (of_y, of_x) if is_longer else (of_x, of_y)
    out[32] = (short[0] > 0) + 2 * (long[0] > 0)
    out[33] = (short[-1] > 0) + 2 * (long[-1] > 0)
    out[34], out[35], out[36] = one[2] + two[2], one[3] + two[3], min(all_x, all_y) / max(all_x, all_y, 1e-9)
    a, b = _joined_letters(table, x), _joined_letters(table, y)
    most = max(len(a), len(b), 1)
    out[37] = 1 - _edits(a, b, memory.places) / most


@kernel
def _name(table: Any, row: int) -> Any:
    return table.token[table.begin[row] : table.begin[row + 1]]


@kernel
def _compare_all(first: Ids, second: Ids, table: Any, out: Floats) -> None:
    memory = _memory(table)
    for row in range(len(first)):
        a, b = first[row], second[row]
        _compare(table, _name(table, a), _name(table, b), table.comma[a], table.comma[b], memory, out[row])


@kernel
def _memory(table: Any) -> Any:
    of, letters = np.zeros((2, MOST), np.int8), np.zeros(table.letter.max() + 1 if len(table.letter) else 1, np.uint64)
    return _Memory(of, np.zeros(MOST, np.int64), np.zeros((MOST, MOST)), np.zeros((2, 7)), letters)


@kernel
def _extends(table: Any, x: Any, y: Any) -> bool:
    """Return whether a name has all words, numbers and letters of another one, and more."""
    n_x, n_y = (table.kind[x] <= LETTER).sum(), (table.kind[y] <= LETTER).sum()
    for token in x:
        if table.kind[token] <= LETTER and not (y == token).any():
            return False
    return bool(0 < n_x < n_y)


@kernel
def _rivals(first: Ids, second: Ids, near: Ids, table: Any, n: Ids) -> Ids:
    memory, features = _memory(table), np.empty(OF_LIST, np.float32)
    for row in range(len(first)):
        for a, b in ((first[row], second[row]), (second[row], first[row])):
            if _extends(table, _name(table, a), _name(table, b)):
                for other in near[a]:
                    if other >= 0 and other != b and _extends(table, _name(table, a), _name(table, other)):
                        _compare(table, _name(table, other), _name(table, b), 0, 0, memory, features)
                        n[row] += int(features[_PARTS] > 0)
    return n

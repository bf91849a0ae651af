"""The ids of an annotation, for all formats: where one string holds several.

Readers split a string at the separators of their format, unless it is one id, such as the variant `c|SUB|A|5|G` of
tmVar. Where ids are compared, a knowledge base decides: an id that it has is never split, and pieces that it has are
ids. Without one, commas and semicolons separate pieces with digits.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

Ids = tuple[str, ...]

_ALL = "|,;+"
_VARIANT = re.compile(r"(?:\A|[:;,|])[a-z]?\|[A-Z][A-Za-z]+\|")
_LONGEST = 8  # pieces that are joined again at most, to look for them in a knowledge base


def ids_in(text: str, separators: str) -> Ids:
    """Return the distinct ids that a string holds.

    Of the ``separators``, commas and semicolons count only between pieces with digits, a `+` not at the end of an id.

    >>> ids_in("D1|D2+D3", "|+"), ids_in("CD4+|CD8+", "|+"), ids_in("c|SUB|A|5|G", "|+")
    (('D1', 'D2', 'D3'), ('CD4+', 'CD8+'), ('c|SUB|A|5|G',))
    >>> ids_in("102, 103", "|,;+"), ids_in("Paris, Texas|Rome", "|,;+")
    (('102', '103'), ('Paris, Texas', 'Rome'))
    """
    pieces = [text] if _VARIANT.search(text) else _pieces(separators).findall(text)
    if not {*",;"}.isdisjoint(separators) and not all(map(_like_an_id, pieces)):
        others = separators.replace(",", "").replace(";", "")
        return ids_in(text, others) if others else (text,)
    return tuple(dict.fromkeys(filter(None, map(str.strip, pieces))))


@cache
def _pieces(separators: str) -> re.Pattern[str]:
    ends = separators.replace("+", "")
    return re.compile(rf"[^{separators}]+" + rf"(?:\++(?=\s*(?:[{ends}]|\Z)))?" * ("+" in separators))


def _like_an_id(piece: str) -> bool:
    balanced = all(piece.count(left) == piece.count(right) for left, right in ("()", "[]"))
    return not piece.strip() or (balanced and any(map(str.isdigit, piece)))


def known_ids(ids: Ids, has: Callable[[str], bool] | None = None) -> Ids:
    """Return the ids of an annotation as they are compared.

    ``has`` says whether the knowledge base has an id. Without one, if it has none of their pieces, or if other pieces
    do not look like ids, only commas and semicolons between pieces with digits separate ids.

    >>> known_ids(("102,103",), {"102", "103"}.__contains__), known_ids(("102,103",), {"102,103"}.__contains__)
    (('102', '103'), ('102,103',))
    >>> known_ids(("A", "B"), {"A|B"}.__contains__), known_ids(("c|SUB|A|5|G",), {"5"}.__contains__)
    (('A|B',), ('c|SUB|A|5|G',))
    """
    text = "|".join(ids)
    if {*_ALL}.isdisjoint(text):
        return ids
    if has is not None:
        pieces = [text] if has(text) else [*_known(text, has)]
        others = [piece for piece in pieces if not has(piece)]
        if len(others) < len(pieces) and all(piece in ids or _like_an_id(piece) for piece in others):
            return tuple(dict.fromkeys(pieces))
    return tuple(dict.fromkeys(piece for id_ in ids for piece in ids_in(id_, ",;")))


def _known(text: str, has: Callable[[str], bool]) -> Iterator[str]:
    """Yield the pieces of a text; neighbours that are one id together, perhaps with another separator, are one."""
    spans = [piece.span() for piece in _pieces(_ALL).finditer(text) if piece[0].strip()]
    first = 0
    while first < len(spans):
        for n in range(min(len(spans) - first, _LONGEST), 0, -1):
            whole = text[spans[first][0] : spans[first + n - 1][1]].strip()
            ways = (whole.replace("|", separator) for separator in _ALL)
            if n == 1 or (whole := next(filter(has, ways), "")):
                yield whole
                break
        first += n


def changes(written: Sequence[Ids | None], known: Sequence[Ids | None]) -> dict[str, int]:
    """Count, with an example, the mentions whose ids `known_ids` split or joined."""
    others = ["|".join(ids) for ids, now in zip(written, known, strict=True) if ids and ids != now]
    return {f"mentions whose gold ids were split or joined, such as {others[0]!r:.60}": len(others)} if others else {}

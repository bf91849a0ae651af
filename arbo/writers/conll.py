"""Write coreference in the format of CoNLL-2012 (see `arbo.readers.conll`): words, and the chains of each document.

Mentions with the same ids form a chain. The number of a chain has no meaning outside its document; chains that come
from CoNLL keep their numbers. Each line of the text is a sentence. Texts are split into words at white space and, if a
mention begins or ends inside such a word, also at punctuation, so that each mention consists of whole words. Files
with the same mentions have the same words.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, pairwise

from arbo.data import Document
from arbo.files import PathLike, write_lines
from arbo.text.checks import Span
from arbo.text.words import words
from arbo.writers.lines import check_id, hull, one_line

_DOCUMENT_ID = re.compile(r"[^\t\r\n]+")
_PART = re.compile(r"(.+)/([0-9]{3})")
_WORD = re.compile(r"[^ \t\r\n]+")
_CHAIN = re.compile(r"[^()|\s]+")


def write_conll(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write a CoNLL file; raise DataError for a document id with a tab or a line end."""
    notes: Counter[str] = Counter()
    write_lines((line for document in documents for line in _part(document, notes)), path)
    return notes


def _part(document: Document, notes: Counter[str]) -> Iterator[str]:
    named = _PART.fullmatch(check_id(document.id, _DOCUMENT_ID, of=document.id))
    name, part = named.groups() if named else (document.id, "0")
    yield f"#begin document ({name});" + (f" part {part}" if named else "")
    found = _words(document, notes)
    brackets = _brackets(document, found, notes)
    before = number = 0
    for at, (start, end) in enumerate(found):
        if at and "\n" in document.text[before:start]:
            yield ""
            number = 0
        yield f"{name}\t{int(part)}\t{number}\t{document.text[start:end]}\t{'|'.join(brackets.get(at, '-'))}"
        before, number = end, number + 1
    yield "\n#end document"


def _words(document: Document, notes: Counter[str]) -> list[Span]:
    text = document.text
    cuts = {edge for match in _WORD.finditer(text) for edge in match.span()}
    edges = {edge for mention in document.mentions for edge in (mention.start, mention.end)}
    if not edges <= cuts:
        cuts |= edges | set(words(text).ravel().tolist())
        notes["texts split at punctuation, so that mentions begin and end with a word"] += 1
    return [(start, end) for start, end in pairwise(sorted(cuts)) if one_line(text[start:end]).strip(" ")]


def _brackets(document: Document, found: list[Span], notes: Counter[str]) -> dict[int, list[str]]:
    """Return the brackets of each word that has one."""
    starts, ends = [start for start, _ in found], [end for _, end in found]
    places = []
    for mention in document.mentions:
        start, end = hull(mention, notes)
        first, last = bisect_left(starts, start), bisect_right(ends, end) - 1
        if mention.labels and first <= last:
            places.append((first, -last, tuple(sorted(set(mention.labels)))))
    notes["mentions without an id or a word left out"] += len(document.mentions) - len(places)
    notes["repeated mentions left out"] += len(places) - len(set(places))
    chains: dict[tuple[str, ...], list[Span]] = {}
    for first, last, ids in sorted(set(places)):  # of two that begin together the longer comes first
        chains.setdefault(ids, []).append((first, -last))
    brackets: defaultdict[int, list[str]] = defaultdict(list)
    for name, spans in zip(_names(document.id, list(chains)), chains.values(), strict=True):
        notes["mentions that cross another mention of their chain, which readers take as nested"] += sum(
            begin < first <= end < last for (begin, end), (first, last) in combinations(spans, 2)
        )
        for first, last in spans:
            brackets[first].append(f"({name}" + ")" * (first == last))
            if first < last:
                brackets[last].insert(0, f"{name})")
    return brackets


def _names(document_id: str, chains: list[tuple[str, ...]]) -> list[str]:
    """Return the names that the chains had in CoNLL, or else consecutive numbers."""
    own = [ids[0].removeprefix(f"{document_id}/") for ids in chains]
    if all(map(_CHAIN.fullmatch, own)) and chains == [(f"{document_id}/{name}",) for name in own]:
        return own
    return [str(number) for number in range(len(chains))]

"""Read coreference chains in the format of CoNLL-2011 and CoNLL-2012, like the reference scorer.

::

    #begin document (bc/cctv/00/cctv_0000); part 000
    bc/cctv/00/cctv_0000  0  0  The    (12
    bc/cctv/00/cctv_0000  0  1  mayor  12)|(7)
    #end document

Each line is one word, with its chains as brackets in the last column: ``(12`` begins a mention of chain 12, ``12)``
ends the mention of chain 12 that began last, and ``(7)`` is a mention of one word. Mentions may nest and cross, and the
``|`` may be left out. The brackets of a word are read in a fixed order, however they are written: first one-word
mentions, then beginnings, then ends.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

from .documents import ClusteredDocuments, FileFormatError

Span: TypeAlias = tuple[int, int]
"""The first and the last word of a mention, counted from 0 in its document."""

_BEGIN = re.compile(r"#\s*begin document ?(.*)")
_END = re.compile(r"#\s*end document")
_BRACKET = re.compile(r"(?P<opens>\()?([^()|\s]++)(?P<closes>\))?\|?")
_NO_CHAIN = {"-", "_", "*"}
_TABBED = {f"\t{mark}" for mark in _NO_CHAIN}
_BLANKED = {f" {mark}" for mark in _NO_CHAIN}


class BracketError(ValueError):
    """Invalid brackets; `at` is the position in the column, from 0."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at = at


class Chains:
    """The mentions of a document by chain, collected word by word.

    >>> chains = Chains()
    >>> for word, column in enumerate(["(1", "(2)|(1", "-", "1)1)"]):
    ...     chains.read(word, column)
    >>> chains.mentions, chains.unclosed
    ({'1': [(1, 3), (0, 3)], '2': [(1, 1)]}, [])
    """

    def __init__(self) -> None:
        self.mentions: dict[str, list[Span]] = {}
        """spans by chain, in the order of the chains' first brackets"""
        self._begun: dict[str, list[tuple[int, int]]] = {}  # word, and position of the bracket in its column

    def read(self, word: int, column: str) -> None:
        """Read the brackets of one word; ``-``, ``_`` and ``*`` mean that there are none.

        Raise BracketError if the column contains anything else, or ends a mention that has not begun.
        """
        if column in _NO_CHAIN:
            return
        brackets, at = list[re.Match[str]](), 0
        while at < len(column):
            bracket = _BRACKET.match(column, at)
            if bracket is None or not (bracket["opens"] or bracket["closes"]):
                raise BracketError(f"expected brackets such as `(1`, `1)` or `(1)|(2`, not {column[at:]!r:.60}", at)
            brackets.append(bracket)
            at = bracket.end()
        for one in sorted(brackets, key=lambda one: (not (one["opens"] and one["closes"]), bool(one["closes"]))):
            opens, chain, closes = one.groups()
            mentions = self.mentions.setdefault(chain, [])
            if opens and closes:
                mentions.append((word, word))
            elif opens:
                self._begun.setdefault(chain, []).append((word, one.start()))
            elif self._begun.get(chain):
                mentions.append((self._begun[chain].pop()[0], word))
            else:
                raise BracketError(f"chain {chain} ends a mention here that has not begun", one.start())

    @property
    def unclosed(self) -> list[tuple[int, str, int]]:
        """Word, chain and position in the column of the mentions that have not ended, in the order of words."""
        return sorted((word, chain, at) for chain, begun in self._begun.items() for word, at in begun)


def columns_of(line: str) -> list[str]:
    r"""Split the line of a word by tabs, or by blanks if it has no tabs; ignore blanks and tabs at its end.

    >>> columns_of("a/b\t0\tNew York\t(1 \t"), columns_of("a/b 0  York  1)")
    (['a/b', '0', 'New York', '(1'], ['a/b', '0', 'York', '1)'])
    """
    line = line.rstrip(" \t")
    return line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]


def is_comment(line: str) -> bool:
    """Return whether a line is a comment, not a word: it begins with ``#`` and has no columns separated by tabs."""
    return line.startswith("#") and "\t" not in line


def read_conll(lines: Iterable[str]) -> ClusteredDocuments:
    """Read the chains in the lines of a CoNLL file; a mention is the span of its first and last word, from 0.

    ``lines`` may be an open file; their ends do not matter.

    The name of a document is the text after ``#begin document``, including blanks at its end; parts are separate
    documents. The chains of a document are in the order of their first brackets, which decides which of several
    repeated mentions is the first.

    The reference scorer 8.01 differs for unusual files. It keeps repeated mentions that are not in the key, counts
    comments inside a document as words, ignores text that is not a bracket, searches a whole line without tabs and not
    only its last column, and reads only the last of several documents with the same name.

    Raise FileFormatError if brackets do not match, a word is outside a document, a document does not end, ends without
    a beginning, begins inside another document or has the same name as another, or there is no document. The error
    names line and column, unless the file as a whole is at fault.
    """
    documents: dict[str, _Document] = {}
    document: _Document | None = None
    for number, line in enumerate((line.rstrip("\r\n") for line in lines), start=1):
        if line.startswith("#") and (header := _BEGIN.fullmatch(line)):
            if document is not None:
                problem = f"a document begins inside the document of line {document.begin}"
                raise FileFormatError(f"{problem}, whose `#end document` is missing", line=number, column=1)
            document = _Document(header[1], number)
        elif line.startswith("#") and _END.match(line):
            if document is None:
                raise FileFormatError("`#end document` without `#begin document`", line=number, column=1)
            if same := documents.get(document.name):
                problem = f"two documents have the name {same.name!r}, the first in line {same.begin}; rename one"
                raise FileFormatError(problem, line=document.begin, column=1)
            document.check_ends()
            documents[document.name], document = document, None
        elif document is not None:
            document.read(number, line)
        elif line and not line.isspace() and not is_comment(line):
            guess = "; is this JSON?" if line.lstrip().startswith(("{", "[")) else ""
            raise FileFormatError(f"a word outside a document; {_HOW_TO_BEGIN}{guess}", line=number, column=1)
    if document is not None:
        problem = "the document has no `#end document`: the file breaks off, or the line is missing"
        raise FileFormatError(problem, line=document.begin, column=1)
    if not documents:
        raise FileFormatError(f"no documents; {_HOW_TO_BEGIN}")
    n_comments = sum(of.n_comments for of in documents.values())
    return ClusteredDocuments.first_of_each(
        {name: of.chains.mentions.values() for name, of in documents.items()},
        {"comments passed over": n_comments} if n_comments else {},
        {name: of.n_words for name, of in documents.items()},
    )


_HOW_TO_BEGIN = "a document begins with `#begin document (name); part 000`"


class _Document:
    """The chains of a document, read line by line."""

    def __init__(self, name: str, begin: int) -> None:
        self.name, self.begin = name, begin
        self.chains, self.n_words, self.n_comments = Chains(), 0, 0
        self._marked: dict[int, tuple[int, str]] = {}  # number and text of the line of each word with brackets

    def read(self, number: int, line: str) -> None:
        mark = line[-2:]
        if mark in _TABBED or (mark in _BLANKED and "\t" not in line and line[0] != "#"):
            self.n_words += 1  # most words have no bracket
        elif is_comment(line):
            self.n_comments += 1
        elif line and not line.isspace():
            self._marked[self.n_words] = number, line
            try:
                self.chains.read(self.n_words, columns_of(line)[-1])
            except BracketError as error:
                raise _misplaced(str(error), number, line, error.at) from None
            self.n_words += 1

    def check_ends(self) -> None:
        for word, chain, at in self.chains.unclosed:
            raise _misplaced(f"chain {chain} begins a mention here that does not end", *self._marked[word], at)


def _misplaced(problem: str, number: int, line: str, in_column: int) -> FileFormatError:
    line = line.rstrip(" \t")
    column = len(line) - len(columns_of(line)[-1]) + in_column + 1
    return FileFormatError(problem, line=number, column=column)

"""BRAT standoff: the text in `NAME.txt`, its annotations in `NAME.ann`, the document is called NAME.

    T1 <tab> UBERON 16 20;31 37 <tab> left kidney
    N1 <tab> Reference T1 UBERON:0004538 <tab> left kidney
    #1 <tab> AnnotatorNotes T1 <tab> C0227613

A path is a folder of such pairs (plain or `.gz`), one file of a pair, or a `.tar.gz` of pairs. Offsets count the
code points of the text as it is in the file, line ends of two characters included. A mention `T1` has the id
`NAME:T1`, and its label as type. What else real files do (all but plain mentions is counted in `notes`):

- several fragments, `16 20;31 37`, are the spans of one mention, in the order given; they may overlap. Where BRAT
  split a mention at a line end the fragments stay apart, so that its text has a blank in place of the line end;
- `N` lines and the UMLS ids (C and seven digits) in `AnnotatorNotes` are gold ids; of several each is acceptable.
  Any other note is a remark and ignored: a misspelt id is not guessed at. A mention without an id is not
  annotated (gold None): BRAT has no way to say NIL;
- relations, events, attributes and other notes are ignored;
- a text column that differs from the offsets in white space alone: the offsets win. Any other difference is an
  error, since it mostly means that the offsets count something else;
- a text without an `.ann` is ignored, an `.ann` without a text is an error.

An archive is read as a stream: nothing is unpacked to disk, and links, paths out of the archive and absurd sizes
are refused.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from arbo.documents import Corpus, Document, Mention, Span, text_of
from arbo.errors import DataError
from arbo.readers.files import PathLike, data_files
from arbo.readers.records import OnError, Records

_TEXT, _ANNOTATIONS = ".txt", ".ann"
_ARCHIVES = (".tar.gz", ".tgz")
_LARGEST_MEMBER = 100 * 2**20
_LARGEST_ARCHIVE = 2**30

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OFFSETS = re.compile(r"([0-9]{1,18}) ([0-9]{1,18})")
_MENTION = re.compile(r"T[^\s:]*")
_CUI = re.compile(r"\bC[0-9]{7}\b")


@dataclass(slots=True)
class _Pair:
    """The two files of a document: where they are, and what is in them."""

    name: str
    text: tuple[Path, bytes] | None = None
    annotations: tuple[Path, bytes] | None = None


@dataclass(slots=True)
class _Annotation:
    type: str
    spans: tuple[Span, ...]
    gold: list[str] = field(default_factory=list)


def read_brat(path: PathLike, *, on_error: OnError = "fail") -> Corpus:
    """Read the pairs of a folder or of a `.tar.gz`, or the pair that a file belongs to."""
    path = Path(path)
    records: Records[Document] = Records("documents", on_error)
    archived = path.name.lower().endswith(_ARCHIVES) and not path.is_dir()
    pairs = _archived_pairs(path) if archived else _pairs(path)
    found = False
    for pair in pairs:
        if pair.annotations is None:
            records.notes["texts without annotations ignored"] += 1
            continue
        found = True
        with records.record(pair.annotations[0], 1):
            records.add(_document(pair, records), pair.annotations[0], 1)
    if archived and not found:
        raise DataError(f"the archive has no file that ends in {_ANNOTATIONS}", file=str(path))
    return Corpus(records, records.notes)


def _pairs(path: Path) -> Iterator[_Pair]:
    """Yield the pairs of a folder by name, or the one pair that a file belongs to."""
    if path.is_dir():
        data_files(path, (_ANNOTATIONS,))
        pairs: dict[str, _Pair] = {}
        for file in data_files(path, (_TEXT, _ANNOTATIONS)):
            _put(pairs, _stem(file.name), file)
        for name in sorted(pairs):
            yield _loaded(pairs[name])
        return
    (file,) = data_files(path, (_TEXT, _ANNOTATIONS))
    stem = _stem(file.name)
    if stem is None:
        endings = ", ".join((_TEXT, _ANNOTATIONS, *_ARCHIVES))
        raise DataError(f"expected a folder or a file that ends in {endings}", file=str(file))
    pair = _Pair(stem)
    for ending in (_TEXT, _ANNOTATIONS):
        for half in (f"{stem}{ending}", f"{stem}{ending}.gz"):
            if file.with_name(half).is_file():
                _put({stem: pair}, stem, file.with_name(half))
                break
    if pair.annotations is None:
        raise DataError(f"the text has no annotations: no file {stem}{_ANNOTATIONS} beside it", file=str(file))
    yield _loaded(pair)

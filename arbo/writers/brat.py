"""Write BRAT standoff (see `arbo.readers.brat`): a folder with `ID.txt` and `ID.ann` for each document.

A document id that is not a valid file name, on Windows or elsewhere, is percent-encoded, as is one that differs from an
earlier one only in case. Mentions that come from BRAT keep their `T` numbers. A
gold id is written as an `N` line, with its name if known; a UMLS id is written as a note, as in QUAERO. (The editor
shows only references with a colon, such as `UBERON:0004538`.) BRAT has no NIL, no mention without a label, and no span
across a line end.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from urllib.parse import quote

from arbo.data import Document
from arbo.data.documents import text_of
from arbo.errors import UsageError
from arbo.files import PathLike, real, whole_folder
from arbo.writers.lines import check_id, one_line

_FILE_NAME = re.compile(r"[^./\\%<>:\"|?*\x00-\x1f][^/\\%<>:\"|?*\x00-\x1f]*")
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
_ID = re.compile(r"\S([^\t\r\n]*\S)?")
_UMLS_ID = re.compile(r"C[0-9]{7}")
_ON_ONE_LINE = re.compile(r"[^\r\n]+")


def write_brat(documents: Iterable[Document], folder: PathLike, names: Mapping[str, str]) -> Counter[str]:
    """Write a folder of pairs, completely or not at all.

    Raise UsageError if the folder has content or cannot be written, and DataError for an id that BRAT cannot hold.
    """
    notes: Counter[str] = Counter()
    taken: set[str] = set()
    target = real(folder)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} exists and is not an empty folder; choose another one, or remove it first")
        with whole_folder(target) as partial:
            for document in documents:
                name = _file_name(document.id, taken)
                notes["document ids percent-encoded to be file names"] += name != document.id
                # A reader drops a byte order mark, so a text that begins with one needs a second.
                text = "\ufeff" * document.text.startswith("\ufeff") + document.text
                (partial / f"{name}.txt").write_bytes(text.encode())
                lines = "".join(f"{line}\n" for line in _lines(document, names, notes))
                (partial / f"{name}.ann").write_bytes(lines.encode())
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return notes


def _file_name(id_: str, taken: set[str]) -> str:
    """Return a name that every file system holds beside those taken, whatever their case, and take it."""
    name = id_ if _FILE_NAME.fullmatch(id_) else quote(id_, safe=" ").replace(".", "%2E")
    if _DEVICE.match(name) or _folded(name) in taken:
        name = "".join(f"%{byte:02X}" for byte in id_.encode())
    taken.add(_folded(name))
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _lines(document: Document, names: Mapping[str, str], notes: Counter[str]) -> Iterator[str]:
    text, reference = document.text, count(1)
    own = [mention.id.removeprefix(f"{document.id}:") for mention in document.mentions]
    is_numbered = all(re.fullmatch(r"T[0-9]+", number) for number in own)
    for place, mention in enumerate(document.mentions):
        number = own[place] if is_numbered else f"T{place + 1}"
        spans = [match.span() for start, end in mention.spans for match in _ON_ONE_LINE.finditer(text, start, end)]
        if not spans:
            notes["mentions left out, since they consist of line ends"] += 1
            continue
        label = "_".join((mention.type or "").split()) or "Mention"
        notes["mentions split or cut at a line end"] += spans != [*mention.spans]
        notes["mentions whose label differs from their type: `Mention` for none, `_` for blanks"] += (
            label != mention.type
        )
        notes["NIL mentions written without an id"] += mention.gold == ()
        yield f"{number}\t{label} {';'.join(f'{a} {b}' for a, b in spans)}\t{one_line(text_of(spans, text))}"
        for id_ in mention.gold or ():
            if _UMLS_ID.fullmatch(check_id(id_, _ID, of=mention.id)):
                yield f"#{next(reference)}\tAnnotatorNotes {number}\t{id_}"
            else:
                yield f"N{next(reference)}\tReference {number} {id_}\t{one_line(names.get(id_, ''))}"

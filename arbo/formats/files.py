"""Read the lines, the whole text or the JSON of files, and fit texts, ids and mentions to formats of lines.

Text is UTF-8 with or without a byte order mark, or UTF-16 with one, plain or gzipped. The first bytes decide, not the
name. The path `-` means standard input. Only a line feed ends a line, and a carriage return before it is dropped. Other
line separators of Unicode, at which `str.splitlines` would split, may occur inside a text.
"""

import codecs
import gzip
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase, StringIO
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

from arbo.data import Document, Mention, Records
from arbo.data.objects import parse
from arbo.data.records import Item
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, real, whole_folder, writing
from arbo.text.checks import Span

LARGEST_ARCHIVE = 2**30  # bytes that a compressed file may unpack to, where all of them are kept in memory
MOST_PACKED = 100
"""Times its own size to which a compressed file may unpack, if it unpacks to more than `LARGEST_ARCHIVE`."""

Block = list[tuple[int, str]]  # one or more numbered lines that belong together

Paths = PathLike | Sequence[PathLike]  # a file or folder, or several

STANDARD_INPUT = Path("-")
JSON = (".json", ".jsonl")

_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NOT_TEXT = {
    b"PAR1": "this is a Parquet file; read it with the format parquet",
    b"PK\3\4": "this is a zip archive or a spreadsheet; unpack it, or save the sheet as CSV",
    b"BZh": "this file is compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "this file is compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "this file is compressed by zstd; unpack it first",
    b"%PDF-": "this is a PDF; save its text first",
}
"""The first bytes of files that are often mistaken for text."""
_GROWING = re.compile(
    r"""<!ATTLIST\s[^<>"']*+["']|<!ENTITY\s(?!\s*[\w.:-]+\s+("[^"&%<]{0,300}"|'[^'&%<]{0,300}')\s*>)"""
)
_LINE = re.compile(r"^.*\S.*", re.M)
_BLANKS = str.maketrans("\t\r\n", "   ")
_looked_at: dict[Path, bytes] = {}
"""The content of standard input and of pipes whose head was read, until they are opened again."""
_SAVE_AS = "save the file as UTF-8 (if it is Latin-1 or Windows-1252, with iconv -f WINDOWS-1252 -t UTF-8)"


def data_files(path: Paths, suffixes: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Return the file `path`, or the files of the folder `path` with one of `suffixes`, gzipped or not, sorted by name.

    In a folder, hidden files, subfolders and pipes are ignored. Several paths give the files of each. Raise DataError
    if a path does not exist, or a folder has no such file.
    """
    files, endings = list[Path](), (*suffixes, *(f"{suffix}.gz" for suffix in suffixes))
    for one in each_path(path):
        if one.is_dir():
            shown = (file for file in one.iterdir() if file.is_file() and not file.name.startswith("."))
            if not (inside := sorted(file for file in shown if file.name.lower().endswith(endings))):
                problem = f"the folder has no file that ends in {', '.join(endings)}; give the path of the file itself"
                raise DataError(problem, file=str(one))
            files += inside
        elif one == STANDARD_INPUT or one.exists():
            files.append(one)
        else:
            raise DataError("no such file or folder; check the path", file=str(one))
    return tuple(files)


def ending(file: Path) -> str:
    """Return the ending of a file's name without ``.gz``, in lower case and without the point."""
    return file.name.lower().removesuffix(".gz").rpartition(".")[2]


def file_named(name: str, folder: Path) -> Path | None:
    """Return the file of a folder with a name, or with this name and `.gz`; None if there is neither."""
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def each_path(path: Paths) -> list[Path]:
    """Return a path or several as a list."""
    return [Path(path)] if isinstance(path, (str, os.PathLike)) else [*map(Path, path)]


def read_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file without line ends, numbered from 1; raise DataError if it is not valid text."""
    number = 0
    try:
        with _text(file) as stream:
            for number, raw in enumerate(stream, start=1):
                yield number, decode_line(raw, file, number)
    except DataError as error:
        raise (error.at(str(file), number + 1) if number else error) from error.__cause__


class Piece(NamedTuple):
    """What one item of a file is made from, such as a line, a block of lines or a value of JSON, and its place."""

    content: Any
    file: Path | str  # the file, and perhaps a place in it, for errors
    line: int | None = None
    name: str = ""  # an id for an item without one


def line_pieces(file: Path, _: object) -> Iterator[Piece]:
    """Yield the lines of a file that are not blank."""
    return (Piece(line, file, number) for number, line in read_lines(file) if line.strip())


def read_items(
    path: Paths,
    suffixes: tuple[str, ...],
    pieces: Callable[[Path, Records[Item]], Iterable[Piece]],
    build: Callable[[Piece, Records[Item]], Item | None],
    records: Records[Item],
) -> Records[Item]:
    """Add the item of each piece of a file, or of the files of a folder, to ``records``; None stands for no item."""
    for file in data_files(path, suffixes):
        for piece in pieces(file, records):
            with records.record(piece.file, piece.line):
                if (item := build(piece, records)) is not None:
                    records.add(item, piece.file, piece.line)
    return records


def blocks(file: Path, _: object, begins: Callable[[str], object] = lambda line: False) -> Iterator[Piece]:
    """Yield the blocks of lines between blank lines; a line for which ``begins`` is true also begins a block."""
    block: Block = []
    for number, line in chain(read_lines(file), [(0, "")]):
        if block and (not line.strip() or begins(line)):
            yield Piece(block, file, block[0][0])
            block = []
        if line.strip():
            block.append((number, line))


def read_text(file: Path) -> str:
    """Return the text of a file without a byte order mark, with its line ends; raise DataError if it is not valid."""
    with _text(file) as stream:
        return decode(stream.read(), file)


def json_pieces(file: Path, records: Records[Any]) -> Iterator[Piece]:
    """Yield the values of a file; raise DataError for invalid JSON, or let ``records`` skip an invalid line."""
    text = read_text(file)
    begin = [match[0] for match in islice(_LINE.finditer(text), 2)]
    if len(begin) > 1 and all(line.startswith("{") for line in begin) and begin[0].rstrip().endswith("}"):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                with records.record(file, number):
                    yield Piece(parse(line), file, number)
    elif begin:
        if isinstance(whole := parse_whole(text, file), list):
            yield from (Piece(one, f"{file}, item {n}") for n, one in enumerate(whole, 1))
        else:
            yield Piece(whole, file)


def parse_whole(text: str, file: Path) -> Any:
    """Return the JSON value of a file; raise DataError for invalid JSON and repeated keys."""
    try:
        return parse(text)
    except DataError as error:
        problem = f"{error.problem.partition('; write each')[0]}; correct the file, or fetch it again"
        raise DataError(problem, file=str(file), line=error.line) from None


def read_head(file: Path) -> str:
    """Return the first 64 KB of a file, unpacked, as text; invalid bytes are replaced."""
    with unpacked(file, again=True) as stream:
        start = stream.read(2**16)
    return start.decode("utf-16" if start.startswith(_UTF16) else "utf-8-sig", "replace")


def check_entities(text: str, file: Path) -> None:
    """Raise DataError for a declaration by which XML could grow to any size."""
    if declaration := _GROWING.search(text):
        declared = "an attribute with a default, or an entity that is long, external or made of others"
        problem = f"the XML declares {declared}, which is refused; resolve it"
        raise DataError(problem, file=str(file), line=text.count("\n", 0, declaration.start()) + 1)


def xml_elements(file: Path, *tags: str) -> Iterator[Element]:
    """Yield the elements with one of the tags, and empty them afterwards; raise DataError for what is not XML."""
    text = read_text(file)
    check_entities(text, file)
    try:
        for _, element in iterparse(StringIO(text)):
            if element.tag in tags:
                yield element
                element.clear()
    except ParseError as error:
        raise DataError(f"not XML: {error.msg.partition(':')[0]}", file=str(file), line=error.position[0]) from None


@contextmanager
def sound(file: Path) -> Iterator[None]:
    """Turn the exceptions of an unreadable file into a DataError that names it."""
    try:
        yield
    except DataError:
        raise
    except EOFError as error:
        raise DataError("the compressed file is truncated; download it again", file=str(file)) from error
    except (gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise DataError("the gzip file is damaged; download it again", file=str(file)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(file)) from error


def decode(raw: bytes, file: Path, line: int = 1) -> str:
    """Decode lines of a file as UTF-8, of which the first is ``line``; raise DataError if they are not valid."""
    raw = raw.removeprefix(codecs.BOM_UTF8) if line == 1 else raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = error.start - raw.rfind(b"\n", 0, error.start)
        problem = f"not UTF-8: byte {place} of the line is 0x{raw[error.start]:02x}; {_SAVE_AS}"
        raise DataError(problem, file=str(file), line=line + raw.count(b"\n", 0, error.start)) from None


def decode_line(raw: bytes, file: Path, number: int) -> str:
    """Decode a line, see `decode`, without its end; raise DataError also if it has a NUL."""
    line = decode(raw.removesuffix(b"\n").removesuffix(b"\r"), file, number)
    if (nul := line.find("\0")) >= 0:
        problem = f"character {nul + 1} of the line is NUL; check that this is a text file in UTF-8"
        raise DataError(problem, file=str(file), line=number)
    return line


class _Sound(RawIOBase):
    """A stream that raises the errors of `sound`; errors of the code that reads from it stay as they are.

    Raise DataError if a gzip file unpacks to a multiple of its size that no text does; ``packed`` is its own stream.
    """

    def __init__(self, stream: BufferedIOBase, packed: BufferedIOBase, file: Path) -> None:
        self._stream, self._packed, self._file = stream, packed, file
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with sound(self._file):
            size = self._stream.readinto(buffer)
        self._size += size
        if self._size > LARGEST_ARCHIVE and self._size > MOST_PACKED * self._packed.tell():
            limit = f"more than {LARGEST_ARCHIVE >> 20} MiB, and {MOST_PACKED} times its own size"
            raise DataError(f"the file unpacks to {limit}; if you trust it, unpack it first", file=str(self._file))
        return size


@contextmanager
def unpacked(file: Path, *, again: bool = False) -> Iterator[BufferedReader]:
    """Open a file or standard input, unpacked if it is gzipped; reading raises the errors of `sound`.

    Standard input or a pipe can be read only once: ``again`` keeps its content for the next opening.
    """
    with ExitStack() as stack:
        with sound(file):
            if file == STANDARD_INPUT or file.is_fifo():
                if (raw := _looked_at.pop(file, None)) is None:
                    raw = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
                if again:
                    _looked_at[file] = raw
                stream: BufferedReader = BufferedReader(BytesIO(raw))
            else:
                stream = stack.enter_context(file.open("rb"))
            content = gzip.GzipFile(fileobj=stream) if stream.peek(2).startswith(_GZIP) else stream
        yield BufferedReader(_Sound(content, stream, file), 2**16)


@contextmanager
def _text(file: Path) -> Iterator[BinaryIO]:
    with unpacked(file) as stream:
        start = stream.peek(8)
        for magic, problem in _NOT_TEXT.items():
            if start.startswith(magic):
                raise DataError(problem, file=str(file))
        if start.startswith(_UTF16):
            try:
                content = stream.read().decode("utf-16")
            except UnicodeDecodeError:
                raise DataError(f"invalid UTF-16; download the file again, or {_SAVE_AS}", file=str(file)) from None
            yield BytesIO(content.encode())
        elif 0 < len(start[:8]) == 2 * start[:8].count(0):
            convert = f"convert it with iconv -f UTF-16{'LE' if start[0] else 'BE'} -t UTF-8"
            raise DataError(f"this looks like UTF-16 without a byte order mark; {convert}", file=str(file))
        else:
            yield stream


@contextmanager
def new_folder(path: PathLike) -> Iterator[Path]:
    """Yield a folder to write, which becomes ``path`` at the end; raise UsageError if it has content or is refused."""
    target = real(path)
    with writing(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} exists and is not an empty folder; choose another one, or remove it first")
        with whole_folder(target) as partial:
            yield partial


def kept_lines(document: Document, key: str) -> list[str]:
    """Return the lines that a reader kept in the metadata of a document."""
    lines = document.metadata.get(key)
    return [line for line in lines if isinstance(line, str) and "\n" not in line] if isinstance(lines, list) else []


def one_line(text: str) -> str:
    """Replace each tab, carriage return and line feed by a space."""
    return text.translate(_BLANKS)


def check_id(value: str, allowed: re.Pattern[str], *, of: str) -> str:
    """Return an id if it matches a pattern completely; raise DataError for the mention or document ``of`` otherwise."""
    if allowed.fullmatch(value):
        return value
    raise DataError(f"the format cannot hold the id {value!r:.80}; rename it, or export as jsonl", id=of)


def hull(mention: Mention, notes: Counter[str]) -> Span:
    """Return the span from the first to the last offset of a mention; count discontinuous mentions."""
    notes["discontinuous mentions written from first to last offset"] += len(mention.spans) > 1
    return mention.start, mention.end


def runs_of(numbers: Iterable[int]) -> tuple[Span, ...]:
    """Return the first and the last of each run of consecutive numbers."""
    runs = ([number for _, number in run] for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]))
    return tuple((run[0], run[-1]) for run in runs)

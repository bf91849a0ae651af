"""Read lines of text files: the only module that opens foreign text.

Text is UTF-8, with or without a byte order mark, plain or gzipped (`.gz`). Only a line feed ends a line,
and a carriage return before it is not part of the line. Unicode has further line separators, at which
`str.splitlines` would split, but they may occur inside a text.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from arbo.data.records import Item, Records
from arbo.errors import DataError
from arbo.files import PathLike

Block = list[tuple[int, str]]
"""One or more numbered lines that belong together."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def data_files(path: PathLike, suffixes: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the file `path`, or the files of the folder `path` with one of `suffixes`, gzipped or not.

    Files are sorted by name; hidden files and subfolders are ignored.
    """
    path = Path(path)
    if path.is_dir():
        endings = (*suffixes, *(f"{suffix}.gz" for suffix in suffixes))
        found = sorted(
            file
            for file in path.iterdir()
            if file.is_file() and not file.name.startswith(".") and file.name.lower().endswith(endings)
        )
        if not found:
            raise DataError(
                f"the folder has no file that ends in {', '.join(endings)}; name the file itself",
                file=str(path),
            )
        return tuple(found)
    if not path.exists():
        zipped = path.with_name(f"{path.name}.gz")
        mend = f"did you mean {zipped}?" if zipped.exists() else "check the path"
        raise DataError(f"no such file or folder; {mend}", file=str(path))
    return (path,)


def read_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file without line ends, numbered from 1."""
    number = 0
    try:
        with _open(file) as stream:
            for number, raw in enumerate(stream, start=1):
                yield number, _decode(raw, file, number)
    except EOFError as error:
        raise DataError("the compressed file breaks off; fetch it again", file=str(file), line=number + 1) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            "not a sound gzip file; fetch it again, or drop .gz from its name if it is plain text",
            file=str(file),
            line=number + 1,
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(file)) from error


def read_records(
    path: PathLike, suffixes: tuple[str, ...], build: Callable[[str, Path, int], Item], records: Records[Item]
) -> None:
    """Add the item of each line of a file, or of the files of a folder, see `data_files`; skip blank lines."""
    for file in data_files(path, suffixes):
        for number, line in read_lines(file):
            if line.strip():
                with records.record(file, number):
                    records.add(build(line, file, number), file, number)


def read_blocks(
    path: PathLike,
    suffixes: tuple[str, ...],
    blocks: Callable[[Path, Records[Item]], Iterator[Block]],
    build: Callable[[Block, Path, Records[Item]], Item],
    records: Records[Item],
) -> None:
    """Add the item of each block of lines of a file, or of the files of a folder, see `data_files`."""
    for file in data_files(path, suffixes):
        for block in blocks(file, records):
            first_line = block[0][0]
            with records.record(file, first_line):
                records.add(build(block, file, records), file, first_line)


def read_text(file: Path) -> str:
    """Return the text of a file with its line ends as they are, without a byte order mark."""
    with sound(file):
        raw = gzip.decompress(file.read_bytes()) if file.suffix.lower() == ".gz" else file.read_bytes()
    return decode(raw, file)


@contextmanager
def sound(file: Path) -> Iterator[None]:
    """Turn the exceptions of an unreadable file or archive into a DataError that names it."""
    try:
        yield
    except DataError:
        raise
    except EOFError as error:
        raise DataError("the compressed file breaks off; fetch it again", file=str(file)) from error
    except (gzip.BadGzipFile, zlib.error, tarfile.TarError, ValueError) as error:
        raise DataError("not a sound gzip file or archive; fetch it again", file=str(file)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(file)) from error


def decode(raw: bytes, file: Path) -> str:
    """Decode the bytes of a whole file."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: 0x{raw[error.start]:02x}; save the file as UTF-8 (iconv -f LATIN1 -t UTF-8 does it)",
            file=str(file),
            line=raw.count(b"\n", 0, error.start) + 1,
        ) from None


def _open(file: Path) -> BinaryIO:
    if file.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(file, "rb"))
    return file.open("rb")


def _decode(raw: bytes, file: Path, number: int) -> str:
    if number == 1:
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: byte {error.start + 1} of the line is 0x{raw[error.start]:02x}; "
            "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8 does it)",
            file=str(file),
            line=number,
        ) from None
    if (nul := line.find("\0")) >= 0:
        raise DataError(
            f"a NUL at character {nul + 1} of the line; is this a text file in UTF-8?",
            file=str(file),
            line=number,
        )
    return line

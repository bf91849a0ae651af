"""Files as bytes and lines: encodings, archives, folders, standard input, addresses."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import python

from arbo.errors import DataError
from arbo.files import write_lines
from arbo.formats import files, read_documents, read_knowledge_base
from arbo.formats.files import data_files, read_head, read_lines, read_text, unpacked


def lines(path: Path, content: bytes) -> list[str]:
    path.write_bytes(gzip.compress(content) if path.name.lower().endswith(".gz") else content)
    return [line for _, line in read_lines(path)]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.TXT.GZ", "a folder's näme 🙂.txt"])
def test_plain_and_zipped_files_give_numbered_lines(tmp_path: Path, name: str) -> None:
    lines(tmp_path / name, b"one\n\ntwo")
    assert list(read_lines(tmp_path / name)) == [(1, "one"), (2, ""), (3, "two")]


def test_line_ends_of_all_systems_and_a_byte_order_mark_are_no_text(tmp_path: Path) -> None:
    assert lines(tmp_path / "a", "\ufeffone\r\ntwo\n".encode()) == ["one", "two"]
    assert lines(tmp_path / "a", "one\n\ufefftwo".encode()) == ["one", "\ufefftwo"]
    assert lines(tmp_path / "a", b"") == []


@pytest.mark.parametrize("inner", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, inner: str) -> None:
    assert lines(tmp_path / "a", f"one{inner}two\n".encode()) == [f"one{inner}two"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("na\u00efve".encode("latin-1"), "line 2: not UTF-8: byte 3 of the line is 0xef"),
        (b"\x93flu\x94", "line 2: not UTF-8: byte 1 .* iconv -f WINDOWS-1252"),
        (b"\xed\xa0\x80", "line 2: not UTF-8: byte 1"),  # a surrogate, as some programs write it
        (b"a\0b", "line 2: character 2 of the line is NUL"),
    ],
)
def test_text_that_is_not_utf8_is_refused_by_line_and_byte(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        lines(tmp_path / "a.txt", b"fine\n" + content)
    assert caught.value.file == str(tmp_path / "a.txt")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_first_bytes_tell_the_encoding_whatever_the_name(tmp_path: Path, encoding: str, packed: bool) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    content = f"{mark}grippe à\r\n\U0001f600".encode(encoding)
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(content) if packed else content)
    (tmp_path / "b.gz").write_bytes(b"plain text")
    assert list(read_lines(tmp_path / "a.jsonl")) == [(1, "grippe à"), (2, "\U0001f600")]
    assert read_text(tmp_path / "a.jsonl") == read_head(tmp_path / "a.jsonl") == "grippe à\r\n\U0001f600"
    assert read_text(tmp_path / "b.gz") == "plain text"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("flu".encode("utf-16")[:-1], "invalid UTF-16; download the file again"),
        ("flu".encode("utf-16-le"), "UTF-16 without a byte order mark; convert it with iconv -f UTF-16LE"),
        ("flu".encode("utf-16-be"), "UTF-16 without a byte order mark; convert it with iconv -f UTF-16BE"),
        (b"\xff\xfe\x00\xd8a\x00", "invalid UTF-16"),  # a lone surrogate
        (b"PAR1\x15\x04", "a Parquet file; read it with the format parquet"),
        (b"PK\x03\x04", "a zip archive or a spreadsheet; unpack it, or save the sheet as CSV"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=f"^{tmp_path / 'a.jsonl'}: .*{problem}"):
        lines(tmp_path / "a.jsonl", content)


def test_a_truncated_or_corrupt_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    whole = gzip.compress(bytes(range(1, 128)) * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is truncated; download it again"):
        list(read_lines(path))
    path.write_bytes(whole[:20] + b"\xff\xff\xff\xff" + whole[24:])
    with pytest.raises(DataError, match="the gzip file or archive is damaged"):
        list(read_lines(path))


def test_an_error_of_the_caller_is_no_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"flu"))
    with pytest.raises(ValueError, match="mine") as caught, unpacked(tmp_path / "a"):
        raise ValueError("mine")
    assert not isinstance(caught.value, DataError)


def test_a_missing_path_says_so_and_knows_its_zipped_sibling(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder; check the path"):
        data_files(tmp_path / "a.txt", (".txt",))
    (tmp_path / "a.txt.gz").touch()
    with pytest.raises(DataError, match=r"did you mean .*a\.txt\.gz"):
        data_files(tmp_path / "a.txt", (".txt",))


def test_an_address_is_never_fetched() -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        data_files("https://example.org/kb.obo", (".obo",))


def test_a_folder_gives_its_data_files_by_name(tmp_path: Path) -> None:
    for name in ("b.txt", "a.TXT", "c.txt.gz", "LICENSE", ".hidden.txt", "d.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()
    assert [file.name for file in data_files(tmp_path, (".txt",))] == ["a.TXT", "b.txt", "c.txt.gz"]
    assert data_files(tmp_path / "d.tsv", (".txt",)) == (tmp_path / "d.tsv",)
    with pytest.raises(DataError, match=r"no file that ends in \.obo, \.obo\.gz; give the path of the file itself"):
        data_files(tmp_path, (".obo",))


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read") as caught:
        list(read_lines(tmp_path))
    assert caught.value.file == str(tmp_path)


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_written_lines_are_read_back_and_bytes_repeat(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_lines(["one", "zwei \U0001f600"], path)
    first = path.read_bytes()
    assert [line for _, line in read_lines(path)] == ["one", "zwei \U0001f600"]
    write_lines(["one", "zwei \U0001f600"], path)
    assert path.read_bytes() == first


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("old\n")

    def broken() -> Iterator[str]:
        yield "new"
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_lines(broken(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.read_text() == "old\n"


def test_the_standard_input_is_read_once_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(gzip.compress(b'{"id": "d", "text": "flu"}'))))
    assert read_documents("-")[0].text == "flu"
    assert not files._looked_at
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"Flu.\n")))
    assert [(document.id, document.text) for document in read_documents("-")] == [("-", "Flu.\n")]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"1|t|Flu\n1|a|\n")))
    assert len(read_documents("-", "pubtator")) == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes in folders are of POSIX")
def test_notes_name_what_is_left_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Marsh fever.")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").touch()
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    assert read_documents(tmp_path).notes == {"files and subfolders left out: pipe, sub": 2}
    (tmp_path / "b.jsonl").write_text('{"id": "b", "text": "flu"}')
    (tmp_path / "a.txt").write_text("1|t|Flu\n1|a|\n")
    assert read_documents(tmp_path).notes == {"files and subfolders left out: b.jsonl, pipe, sub": 3}
    (tmp_path / "kb.tsv").write_text("id\tname\nD1\tflu\n")
    assert sum(read_knowledge_base(tmp_path, "tsv").notes.values()) == 4


def test_the_table_loads_no_format() -> None:
    code = "import sys, arbo.formats; print({'obonet', 'networkx', 'numpy', 'rdflib'} & set(sys.modules))"
    assert python(code).strip() == "set()"

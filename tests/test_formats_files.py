"""Files as bytes and lines: encodings, archives, folders, standard input, addresses."""

import gzip
import os
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from arbo.errors import DataError
from arbo.formats import files, read_documents, read_knowledge_base
from arbo.formats.files import data_files, read_head, read_lines, read_text, unpacked


def lines(path: Path, content: bytes) -> list[tuple[int, str]]:
    path.write_bytes(content)
    return list(read_lines(path))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one\n\ntwo", ["one", "", "two"]),
        ("\ufeffone\r\ntwo\n".encode(), ["one", "two"]),
        ("one\n\ufefftwo".encode(), ["one", "\ufefftwo"]),
        *((f"one{end}two\n".encode(), [f"one{end}two"]) for end in "\r\x0b\x0c\x1c\x85\u2028\u2029"),
        ("grippe à\r\n\U0001f600".encode("utf-16"), ["grippe à", "\U0001f600"]),
        ("\ufeffgrippe à\r\n\U0001f600".encode("utf-16-be"), ["grippe à", "\U0001f600"]),
    ],
)
def test_the_first_bytes_tell_the_encoding(tmp_path: Path, content: bytes, expected: list[str], packed: bool) -> None:
    for name in ("a.jsonl", "b.GZ", "a folder's näme 🙂.txt"):  # the name says nothing
        path = tmp_path / name
        assert lines(path, gzip.compress(content) if packed else content) == [*enumerate(expected, 1)]
        assert read_text(path) == read_head(path)
        assert read_text(path).replace("\r\n", "\n").removesuffix("\n") == "\n".join(expected)


WHOLE = gzip.compress(bytes(range(1, 128)) * 1000)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"fine\n" + "na\u00efve".encode("latin-1"), "line 2: not UTF-8: byte 3 of the line is 0xef"),
        (b"fine\n\x93flu\x94", "line 2: not UTF-8: byte 1 .* iconv -f WINDOWS-1252"),
        (b"fine\n\xed\xa0\x80", "line 2: not UTF-8: byte 1"),  # a surrogate, as some programs write it
        (b"fine\na\0b", "line 2: character 2 of the line is NUL"),
        ("flu".encode("utf-16")[:-1], "invalid UTF-16; download the file again"),
        ("flu".encode("utf-16-le"), "UTF-16 without a byte order mark; convert it with iconv -f UTF-16LE"),
        ("flu".encode("utf-16-be"), "UTF-16 without a byte order mark; convert it with iconv -f UTF-16BE"),
        (b"\xff\xfe\x00\xd8a\x00", "invalid UTF-16"),  # a lone surrogate
        (b"PAR1\x15\x04", "a Parquet file; read it with the format parquet"),
        (WHOLE[:20] + b"\xff\xff\xff\xff" + WHOLE[24:], "the gzip file is damaged"),
    ],
)
def test_a_file_that_is_not_text_is_refused_by_line_and_byte(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        lines(tmp_path / "a.jsonl", content)
    assert caught.value.file == str(tmp_path / "a.jsonl")


def test_an_error_of_the_caller_is_no_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"flu"))
    with pytest.raises(ValueError, match="mine") as caught, unpacked(tmp_path / "a"):
        raise ValueError("mine")
    assert not isinstance(caught.value, DataError)


def test_a_folder_gives_its_data_files_by_name(tmp_path: Path) -> None:
    for name in ("b.txt", "a.TXT", "c.txt.gz", "LICENSE", ".hidden.txt", "d.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()
    assert [file.name for file in data_files(tmp_path, (".txt",))] == ["a.TXT", "b.txt", "c.txt.gz"]
    assert data_files(tmp_path / "d.tsv", (".txt",)) == (tmp_path / "d.tsv",)
    for path, words in (
        (tmp_path, r"no file that ends in \.obo, \.obo\.gz; give the path of the file itself"),
        (tmp_path / "e.txt", "no such file or folder; check the path"),
        ("https://example.org/kb.obo", "no such file or folder"),  # an address is never fetched
    ):
        with pytest.raises(DataError, match=words):
            data_files(path, (".obo",))
    with pytest.raises(DataError, match="cannot be read") as caught:
        list(read_lines(tmp_path))
    assert caught.value.file == str(tmp_path)


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
    assert read_documents(tmp_path).notes == {"entries of folders left out: pipe, sub": 2}
    (tmp_path / "b.jsonl").write_text('{"id": "b", "text": "flu"}')
    (tmp_path / "a.txt").write_text("1|t|Flu\n1|a|\n")
    assert read_documents(tmp_path).notes == {"entries of folders left out: b.jsonl, pipe, sub": 3}
    (tmp_path / "kb.tsv").write_text("id\tname\nD1\tflu\n")
    assert sum(read_knowledge_base(tmp_path, "tsv").notes.values()) == 4

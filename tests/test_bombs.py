"""Small files that declare, or unpack to, far more than they hold."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import arbo
from arbo.formats import files, read_documents, read_knowledge_base, table


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limit of what is unpacked to 16 MiB."""
    for module in (files, table):
        monkeypatch.setattr(module, "LARGEST_ARCHIVE", 2**24)


@pytest.mark.parametrize("format_", ["jsonl", "text", "csv", "pubtator", "conll", "gsc", "parquet"])
def test_no_reader_unpacks_a_gzip_bomb(tmp_path: Path, format_: str) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b" " * 2**25))
    tracemalloc.start()
    with pytest.raises(arbo.DataError, match="unpacks to more than 16 MiB"):
        read_documents(file, format_)
    assert tracemalloc.get_traced_memory()[1] < 2**27
    tracemalloc.stop()


def test_xml_that_declares_attributes_is_refused(tmp_path: Path) -> None:
    """A default of 1,000 characters would be given to each of 20,000 elements."""
    file = tmp_path / "a.xml"
    doctype = f'<!DOCTYPE collection [<!ATTLIST infon key CDATA "{"x" * 1000}">]>'
    file.write_text(f"{doctype}<collection>{'<infon></infon>' * 20_000}</collection>")
    with pytest.raises(arbo.DataError, match=r"a\.xml, line 1: the XML declares an attribute with a default"):
        read_documents(file, "bioc")


def test_a_parquet_file_with_a_long_word_in_its_dictionary_is_refused_and_categories_are_values(tmp_path: Path) -> None:
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, np.int32)), ["x" * 100_000])
    ids = [str(n) for n in range(10_000)]
    pq.write_table(pa.table({"id": ids, "name": names}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(arbo.DataError, match="unpacks to more than 16 MiB, and 100 times its own size"):
        read_knowledge_base(tmp_path / "a.parquet")
    frame = pa.table({"id": ["a", "b"], "name": pa.array(["flu", "flu"]).dictionary_encode()})
    pq.write_table(frame, tmp_path / "a.parquet")
    assert [one.name for one in read_knowledge_base(tmp_path / "a.parquet").entities] == ["flu", "flu"]

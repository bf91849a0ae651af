"""Small files that declare, or unpack to, far more than they hold."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Sample

import arbo
from arbo.data.parquet import check_values, chunks
from arbo.formats import files, read_documents, read_knowledge_base, table
from arbo.results.run_folder import load_kept, load_run

MANY = 2_000_000


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


def test_a_large_gzip_of_a_real_text_is_read(tmp_path: Path) -> None:
    line = json.dumps({"id": "d", "text": os.urandom(2**19).hex()})
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(line.replace('"d"', f'"{n}"') for n in range(20)).encode(), 1))
    assert len(read_documents(file)) == 20


def test_xml_that_declares_attributes_is_refused(tmp_path: Path) -> None:
    """A default of 1,000 characters would be given to each of 20,000 elements."""
    file = tmp_path / "a.xml"
    doctype = f'<!DOCTYPE collection [<!ATTLIST infon key CDATA "{"x" * 1000}">]>'
    file.write_text(f"{doctype}<collection>{'<infon></infon>' * 20_000}</collection>")
    with pytest.raises(
        arbo.DataError, match=re.escape(f"{file}, line 1: the XML declares an attribute with a default")
    ):
        read_documents(file, "bioc")


def test_xml_that_declares_attributes_without_defaults_is_not_refused(tmp_path: Path) -> None:
    text = '<!DOCTYPE a [<!ATTLIST a key CDATA #IMPLIED><!ENTITY one "1">]><a key="x"/>'
    files.check_entities(text, tmp_path / "a.xml")


def test_a_parquet_file_of_equal_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.repeat("a", MANY), "name": pa.nulls(MANY, pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(arbo.DataError, match=r"declares 2,000,000 rows in [0-9,]+ bytes"):
        read_knowledge_base(tmp_path / "a.parquet")


def test_a_parquet_file_whose_ids_compress_well_is_read(tmp_path: Path) -> None:
    file, ids = tmp_path / "a.parquet", pa.array(range(MANY)).cast(pa.string())
    pq.write_table(pa.table({"id": ids, "type": pa.repeat("a", MANY)}), file, compression="zstd", use_dictionary=False)
    with pq.ParquetFile(file) as parquet:
        check_values(parquet, file.stat().st_size // 2, file)  # half of it, since other versions compress better


def test_a_parquet_file_of_long_lists_is_refused(tmp_path: Path) -> None:
    aliases = pa.ListArray.from_arrays([0, 11 * MANY], pa.repeat("a", 11 * MANY))
    pq.write_table(pa.table({"id": ["a"], "name": ["b"], "aliases": aliases}), tmp_path / "a.parquet")
    with pytest.raises(arbo.DataError, match="declares 22,000,000 values in a column"):
        read_knowledge_base(tmp_path / "a.parquet")


def test_a_parquet_file_whose_sizes_do_not_fit_its_types_is_refused(tmp_path: Path) -> None:
    """pyarrow ends the process when it is asked for such a column: texts that are said to be integers."""
    pq.write_table(pa.table({"id": ["d", "e"], "name": ["flu", "cold"]}), file := tmp_path / "kb.parquet")
    text, integer = b"\x15\x0c\x25", b"\x15\x04\x25"
    content = file.read_bytes()
    assert text in content
    file.write_bytes(content.replace(text, integer))
    with pytest.raises(arbo.DataError, match="the Parquet file is damaged"):
        read_knowledge_base(file)


def test_a_parquet_file_whose_column_has_a_damaged_name_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["d"], "name": ["flu"]}), file := tmp_path / "kb.parquet", store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"name", b"na\xeee"))
    with pytest.raises(arbo.DataError, match="the Parquet file is damaged"):
        read_knowledge_base(file)


def test_sizes_of_columns_are_those_of_pyarrow() -> None:
    rng = np.random.default_rng(0)
    for n, rows, options in ((0, 9, {}), (700, 37, {"compression": "zstd", "version": "1.0"}), (99, 99, {})):
        flags, lists = rng.random(n) < 0.5, [[{"x": i, "y": [True, None]}] * (i % 5) for i in range(n)]
        made = pa.table(
            {"text": [str(i) * 40 for i in range(n)], "flag": flags, "list": lists or pa.array([], "string")}
        )
        pq.write_table(made, file := io.BytesIO(), row_group_size=rows, **options)
        told = (parquet := pq.ParquetFile(file)).metadata
        groups = [told.row_group(i) for i in range(told.num_row_groups)]
        own = [[group.column(i) for i in range(told.num_columns)] for group in groups]
        assert chunks(parquet) == [[(one.num_values, one.total_uncompressed_size) for one in group] for group in own]


def test_a_parquet_file_with_a_long_word_in_its_dictionary_is_refused(tmp_path: Path) -> None:
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, np.int32)), ["x" * 100_000])
    ids = [str(n) for n in range(10_000)]
    pq.write_table(pa.table({"id": ids, "name": names}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(arbo.DataError, match="unpacks to more than 16 MiB, and 100 times its own size"):
        read_knowledge_base(tmp_path / "a.parquet")


def test_categories_are_read_as_their_values(tmp_path: Path) -> None:
    frame = pa.table({"id": ["a", "b"], "name": pa.array(["flu", "flu"]).dictionary_encode()})
    pq.write_table(frame, tmp_path / "a.parquet")
    assert [one.name for one in read_knowledge_base(tmp_path / "a.parquet").entities] == ["flu", "flu"]


def saved(folder: Path, sample: Sample) -> Path:
    arbo.Linker(sample[1]).link(sample[0]).save(folder / "run")
    return folder / "run"


def changed(run: Path, file: str) -> None:
    """Write the hash of a file to the manifest of a run."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"][file] = hashlib.sha256((run / file).read_bytes()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest))


def test_a_table_of_a_run_with_equal_rows_is_refused(tmp_path: Path, sample: Sample) -> None:
    run = saved(tmp_path, sample)
    pq.write_table(pa.table({"mention_id": pa.repeat("a", MANY)}), run / "mentions.parquet")
    changed(run, "mentions.parquet")
    with pytest.raises(arbo.DataError, match=r"mentions\.parquet: the Parquet file declares 2,000,000 rows"):
        load_run(run)


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize(("shape", "body"), [(10**15, 0), (10**9, 0), (2**18, 2**20), (10**30, 0)])
def test_arrays_of_a_run_that_declare_more_than_the_file_holds(
    tmp_path: Path, sample: Sample, shape: int, body: int, packing: int
) -> None:
    run = saved(tmp_path, sample)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (shape,)})
    (kept,) = run.glob("*.npz")
    with zipfile.ZipFile(kept, "w", packing) as packed:
        packed.writestr("graph.npy", header.getvalue() + bytes(body))
    refuses_arrays(run, kept)


@pytest.mark.parametrize("text", ["{'descr': ", "  {", "{[]: 1}", "{1: 1, 'a': 2}", "(" * 300, ""])
def test_an_array_of_a_run_with_a_broken_header(tmp_path: Path, sample: Sample, text: str) -> None:
    run = saved(tmp_path, sample)
    (kept,) = run.glob("*.npz")
    with zipfile.ZipFile(kept, "w") as packed:
        packed.writestr("graph.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    refuses_arrays(run, kept)


def test_arrays_of_a_run_that_share_their_bytes(tmp_path: Path, sample: Sample) -> None:
    run = saved(tmp_path, sample)
    (kept,) = run.glob("*.npz")
    np.savez(kept, zeros=np.zeros(9))
    with zipfile.ZipFile(kept, "a") as packed:
        packed.comment, packed.filelist = b"changed", packed.filelist * 9
    refuses_arrays(run, kept, "its arrays overlap")


def refuses_arrays(run: Path, kept: Path, why: str = "") -> None:
    """Check that the arrays of a run cannot be read, though their file has the right hash."""
    changed(run, kept.name)
    with pytest.raises(arbo.DataError, match=rf"the file cannot be read \(.*{why}"):
        load_kept(run, json.loads((run / "manifest.json").read_text()), 1)

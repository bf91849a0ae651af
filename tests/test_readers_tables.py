from __future__ import annotations

import gzip
import os
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import python

import arbo
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.formats import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, files, read_documents, read_knowledge_base


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "docs.txt"
    path.write_text("1|t|Flu\n1|a|\n1\t0\t3\tFlu\tDisease\tD1\nbroken\n")
    return path


ENTRIES = (*DOCUMENT_FORMATS.values(), *KNOWLEDGE_BASE_FORMATS.values())


@pytest.mark.parametrize("entry", sorted({entry.reader for entry in ENTRIES}))
def test_every_entry_of_the_tables_is_a_function(entry: str) -> None:
    module, function = entry.split(":")
    assert callable(getattr(import_module(f"arbo.formats.{module}"), function))


def test_documents_by_format_and_type(docs: Path) -> None:
    corpus = read_documents(docs, "pubtator", on_error="skip", types="Disease")
    assert len(corpus.mentions) == 1
    assert corpus.notes == {"malformed lines skipped": 1}
    assert len(read_documents(docs, "pubtator", on_error="skip", types=["Disease", "Drug"]).mentions) == 1


def test_a_type_that_no_mention_has_is_refused(docs: Path) -> None:
    with pytest.raises(UsageError, match="no mention has the type Diseases; types of mentions: Disease"):
        read_documents(docs, "pubtator", on_error="skip", types="Diseases")


def test_an_unknown_format_lists_the_known_ones(docs: Path) -> None:
    with pytest.raises(
        UsageError, match=r"unknown format 'xml'; known: bioc, blink, brat, conll, .*, pubtator, text, tsv, zeshel"
    ):
        read_documents(docs, "xml")
    with pytest.raises(
        UsageError, match=r"unknown format 'xml'; known: blink, csv, index, jsonl, medic, obo, .*, zeshel"
    ):
        read_knowledge_base(docs, "xml")


FIRST_LINES = {
    "blink": '{"idx": "D1", "title": "flu"}',
    "csv": "id,name\nD1,flu",
    "jsonl": '{"id": "D1", "name": "flu"}',
    "medic": "D1||flu",
    "obo": "[Term]",
    "obographs": '{"graphs": [{"nodes": [{"id": "D1", "lbl": "flu"}]}]}',
    "tsv": "D1\tflu",
    "zeshel": '{"document_id": "D1", "title": "flu", "text": "flu"}',
}


def test_formats_with_a_file_of_entities_have_a_first_line() -> None:
    assert {*FIRST_LINES} == {*KNOWLEDGE_BASE_FORMATS} - {
        "index",
        "umls",
        "parquet",
        "skos",
    }  # folders of several files, a binary file, a format that needs a package


@pytest.mark.parametrize("given", sorted(KNOWLEDGE_BASE_FORMATS))
@pytest.mark.parametrize("format_", sorted(FIRST_LINES))
def test_a_knowledge_base_of_another_format_is_an_error(tmp_path: Path, format_: str, given: str) -> None:
    if given == "skos":
        pytest.importorskip("rdflib")
    path = tmp_path / "kb"
    path.write_text(FIRST_LINES[format_] + "\nid: D1\nname: flu\n" * (format_ == "obo"))
    if given == format_ or (given, format_) == ("blink", "zeshel"):  # BLINK reads the pages of ZeShEL as they are
        assert len(read_knowledge_base(path, given)) == 1
        return
    with pytest.raises(DataError, match=str(path)):
        read_knowledge_base(path, given)
    with pytest.raises(
        DataError,
        match=r"no entities in the format .*--kb-format|no \[Term\]|no list `graphs`|not JSON|not RDF|give the folder "
        "that|must name the c|the Parquet file|not an index",
    ) as caught:
        read_knowledge_base(path, given, on_error="skip")
    assert caught.value.file == str(path)


def test_the_sample_as_obo_is_an_error(tmp_path: Path) -> None:
    arbo.load_sample()[1].to_jsonl(tmp_path / "kb.jsonl")
    with pytest.raises(DataError, match=r"kb\.jsonl: the file has no \[Term\]; check that it is OBO"):
        read_knowledge_base(tmp_path / "kb.jsonl", "obo")


@pytest.mark.parametrize("format_", sorted({*FIRST_LINES} - {"obo"}))
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_knowledge_base_without_an_entity_is_an_error(tmp_path: Path, format_: str, content: str) -> None:
    path = tmp_path / "kb"
    path.write_text(content)
    with pytest.raises(
        DataError, match=f"no entities in the format {format_}; check the file and the format .--kb-format"
    ):
        read_knowledge_base(path, format_)
    assert len(KnowledgeBase.from_jsonl(path)) == 0


SAMPLES = {
    "brat": ("d.ann", "T1\tX 0 3\tFlu\n"),
    "ecbplus": ("ECB_Dev_corpus.txt", "36_1ecb\t0\t3\tPerry\tHUM17\n"),
    "pubannotation": ("docs.txt", '[\n {"text": "flu", "denotations": [], "id": "a"}]'),
    "bioc": ("docs.dat", '{"documents": [{"id": "a", "infons": {}, "passages": []}]}'),
    "conll": ("docs.txt", "\n#begin document (a); part 000\n#end document\n"),
    "pubtator": ("NCBI_corpus.txt", "1|t|Flu\n1|a|\n1\t0\t3\tFlu\tDisease\tD1\n"),
    "hipe": ("docs.tsv", "TOKEN\tNE-COARSE-LIT\tNEL-LIT\n# document_id = d\nFlu\tB-dis\tQ1\n"),
    "gsc": ("docs.tsv", "1\nFlu and cold\n\n2\nFlu and cold\n0\t3\tFlu\tHP:1\n"),
    "zeshel": ("test.json", '{"mention_id": "m", "context_document_id": "d"}'),
    "blink": ("docs.jsonl", '{"context_left": "", "mention": "flu", "context_right": ""}'),
    "jsonl": ("docs", '{"id": "d", "text": "flu"}'),
    "csv": ("docs.dat", '"year";"document_id";"text"\n1;d;flu'),
    "tsv": ("docs.dat", "document_id\ttext\nd\tflu"),
    "text": ("docs.txt", "id, text and so on. {"),
}


@pytest.mark.parametrize("format_", sorted(SAMPLES))
@pytest.mark.parametrize("packed", [False, True])
def test_the_format_of_documents_is_told_by_name_and_content(tmp_path: Path, format_: str, packed: bool) -> None:
    name, content = SAMPLES[format_]
    raw = content.encode()
    (tmp_path / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(raw) if packed else raw)
    (tmp_path / ".hidden.ann").touch()
    told: list[str] = []
    with suppress(DataError):  # some samples are not whole
        read_documents(tmp_path, told=told.append)
    assert told == [format_]
    assert {*SAMPLES} == {*DOCUMENT_FORMATS} - {"docbin", "parquet", "ecbplus-events"}


@pytest.mark.parametrize("format_", sorted({*FIRST_LINES}))
def test_the_format_of_a_knowledge_base_is_told_by_its_content(tmp_path: Path, format_: str) -> None:
    path = tmp_path / ("lego.json" if format_ == "zeshel" else "kb")
    path.write_text(FIRST_LINES[format_] + "\nid: D1\nname: flu\n" * (format_ == "obo"))
    told: list[str] = []
    assert read_knowledge_base(path, told=told.append)["D1"].name == "flu"
    assert read_knowledge_base(str(path), format_.upper(), told=told.append)["D1"].name == "flu"
    assert told == [format_]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "docs.dat",
            b"flu",
            r"docs\.dat: the format cannot be guessed from the name and the content; give it .*; formats: bioc, ",
        ),
        ("docs.dat", b" \n", r"docs\.dat: the file is empty$"),
        ("docs.xlsx", b"PK\3\4", r"docs\.xlsx: this is a zip archive or a spreadsheet"),
        ("docs.jsonl", b"", r"docs\.jsonl: the file is empty"),
        ("sub/docs.txt", b"flu", "the folder has no file of a known format; name files, or a pattern"),
    ],
)
def test_what_cannot_be_told_says_so(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_documents(tmp_path if "/" in name else file)
    with pytest.raises(DataError, match="no such file or folder; check the path"):
        read_documents(tmp_path / "nowhere")


def test_no_documents_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").write_bytes(b"")
    for format_ in ("jsonl", "pubtator", "conll", "csv", "gsc"):
        with pytest.raises(DataError, match=rf"no documents in the format {format_}; .* the format \(--format\)"):
            read_documents(tmp_path / "docs", format_)


def test_several_inputs_and_patterns_are_one_corpus(tmp_path: Path) -> None:
    for number, extra in enumerate(("", '{"id": "0", "text": "cold"}', '{"id": "3", "text": "flu"}\nbroken')):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": "{number}", "text": "flu"}}\n{extra}\n')
    pattern = tmp_path / "[01]*.jsonl"
    with pytest.raises(DataError, match=r"1\.jsonl, line 2, '0': this id is already taken, .* \(.*0\.jsonl, line 1\)"):
        read_documents(pattern)
    corpus = read_documents([pattern, tmp_path / "0.jsonl", str(tmp_path / "2.jsonl")], on_error="skip")
    assert [document.id for document in corpus] == ["0", "1", "2", "3"]
    skipped = {"malformed documents skipped": 2, "duplicate documents dropped": 1}
    assert corpus.notes == skipped
    with pytest.raises(DataError, match=r"x\*: no file matches this pattern; check it"):
        read_documents(tmp_path / "x*")
    with pytest.raises(UsageError, match="no file to read"):
        read_documents([])
    (tmp_path / "kb [1].tsv").write_text("D1\tflu\nD2\tcold")
    (tmp_path / "kb2.tsv").write_text("D2\tcold\nD3\tplague")
    assert [entity.id for entity in read_knowledge_base([tmp_path / "kb [1].tsv"])] == ["D1", "D2"]
    kb = read_knowledge_base(tmp_path / "kb*.tsv")
    assert [*kb.row_of] == ["D1", "D2", "D3"]
    assert kb.notes == {"duplicate entities dropped": 1}


def test_the_standard_input_is_read_once_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(gzip.compress(b'{"id": "d", "text": "flu"}'))))
    assert read_documents("-")[0].text == "flu"
    assert not files._looked_at
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"Flu.\n")))
    assert [(document.id, document.text) for document in read_documents("-")] == [("-", "Flu.\n")]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"1|t|Flu\n1|a|\n")))
    assert len(read_documents("-", "pubtator")) == 1


def test_mentions_of_a_document_in_two_files_are_read_as_those_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("document_id,text,start,end\nd,flu and cold,0,3\n")
    (tmp_path / "b.csv").write_text("document_id,text,start,end\nd,,8,12\ne,flu,0,3\n")
    together = read_documents(tmp_path)
    assert [mention.text for mention in together.mentions] == ["flu", "cold", "flu"]
    assert read_documents([tmp_path / "a.csv", tmp_path / "b.csv"]) == together
    assert read_documents(tmp_path / "*.csv", "csv") == together


def test_a_stray_table_does_not_choose_the_format_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Flu.")
    (tmp_path / "notes.csv").write_text("id,text\nx,flu\n")
    with pytest.raises(DataError, match=r"a\.txt looks like text, but notes\.csv like csv; give the format .*, or"):
        read_documents(tmp_path)
    (tmp_path / "b.txt").write_text("Cold.")
    told: list[str] = []
    assert [document.id for document in read_documents(tmp_path, told=told.append)] == ["a", "b"]
    assert told == ["text, like 2 of 3 files"]


@pytest.mark.parametrize("name", ["words.txt", "words.dat"])
def test_renamed_words_and_xml_are_no_plain_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SAMPLES["ecbplus"][1])
    with pytest.raises(DataError, match=r"expected a folder, or a file that ends in _corpus\.txt"):
        read_documents(tmp_path / name)
    (tmp_path / name).write_text('<?xml version="1.0"?><Document doc_name="1_1ecb.xml"></Document>')
    with pytest.raises(DataError, match="the format cannot be guessed"):
        read_documents(tmp_path / name)


@pytest.mark.skipif(os.name != "posix", reason="pipes in folders are of POSIX")
def test_what_is_left_out_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Marsh fever.")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").touch()
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    assert read_documents(tmp_path).notes == {"files and subfolders left out: pipe, sub": 2}
    (tmp_path / "b.jsonl").write_text('{"id": "b", "text": "flu"}')
    (tmp_path / "a.txt").write_text("1|t|Flu\n1|a|\n")
    assert read_documents(tmp_path).notes == {"files and subfolders left out: b.jsonl, pipe, sub": 3}
    assert len(read_documents(tmp_path, "jsonl")) == 1
    (tmp_path / "kb.tsv").write_text("id\tname\nD1\tflu\n")
    assert sum(read_knowledge_base(tmp_path, "tsv").notes.values()) == 4


def test_an_empty_path_is_no_folder() -> None:
    with pytest.raises(UsageError, match="the path is empty; is a shell variable unset"):
        read_documents("")


def test_the_tables_load_no_format() -> None:
    code = "import sys, arbo.formats; print({'obonet', 'networkx', 'numpy', 'rdflib'} & set(sys.modules))"
    assert python(code).strip() == "set()"

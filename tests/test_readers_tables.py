from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from builders import python

import arbo
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.readers import DOCUMENT_FORMATS, KNOWLEDGE_BASE_FORMATS, read_documents, read_knowledge_base


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "docs.txt"
    path.write_text("1|t|Flu\n1|a|\n1\t0\t3\tFlu\tDisease\tD1\nbroken\n")
    return path


@pytest.mark.parametrize("entry", sorted({*DOCUMENT_FORMATS.values(), *KNOWLEDGE_BASE_FORMATS.values()}))
def test_every_entry_of_the_tables_is_a_function(entry: str) -> None:
    module, function = entry.split(":")
    assert callable(getattr(import_module(module), function))


def test_documents_by_format_and_type(docs: Path) -> None:
    corpus = read_documents(docs, "pubtator", on_error="skip", types="Disease")
    assert len(corpus.mentions) == 1
    assert corpus.notes == {"malformed lines skipped": 1}
    assert len(read_documents(docs, "pubtator", on_error="skip", types=["Disease", "Drug"]).mentions) == 1


def test_a_type_that_no_mention_has_is_refused(docs: Path) -> None:
    with pytest.raises(UsageError, match="no mention has the type Diseases; types here: Disease"):
        read_documents(docs, "pubtator", on_error="skip", types="Diseases")


def test_an_unknown_format_lists_the_known_ones(docs: Path) -> None:
    with pytest.raises(
        UsageError, match=r"unknown format 'xml'; known: blink, brat, conll, .*, jsonl, pubtator, text, zeshel"
    ):
        read_documents(docs, "xml")
    with pytest.raises(UsageError, match="unknown format 'xml'; known: blink, jsonl, medic, obo, tsv, umls, zeshel"):
        read_knowledge_base(docs, "xml")


FIRST_LINES = {
    "blink": '{"idx": "D1", "title": "flu"}',
    "jsonl": '{"id": "D1", "name": "flu"}',
    "medic": "D1||flu",
    "obo": "[Term]",
    "tsv": "D1\tflu",
    "zeshel": '{"document_id": "D1", "title": "flu", "text": "flu"}',
}


def test_formats_with_a_file_of_entities_have_a_first_line() -> None:
    assert {*FIRST_LINES} == {*KNOWLEDGE_BASE_FORMATS} - {"umls"}  # a folder of several files


@pytest.mark.parametrize("given", sorted(KNOWLEDGE_BASE_FORMATS))
@pytest.mark.parametrize("format_", sorted(FIRST_LINES))
def test_a_knowledge_base_of_another_format_is_an_error(tmp_path: Path, format_: str, given: str) -> None:
    path = tmp_path / "kb"
    path.write_text(FIRST_LINES[format_] + "\nid: D1\nname: flu\n" * (format_ == "obo"))
    if given == format_ or (given, format_) == ("blink", "zeshel"):  # BLINK reads the pages of ZeShEL as they are
        assert len(read_knowledge_base(path, given)) == 1
        return
    with pytest.raises(DataError, match=str(path)):
        read_knowledge_base(path, given)
    with pytest.raises(
        DataError, match=r"no entities, read as .*--kb-format|the file has no \[Term\]|give the folder that contains it"
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
    with pytest.raises(DataError, match=f"no entities, read as {format_}; check --kb-format"):
        read_knowledge_base(path, format_)
    assert len(KnowledgeBase.from_jsonl(path)) == 0


def test_the_tables_load_no_format() -> None:
    code = "import sys, arbo.readers; print({'obonet', 'networkx', 'numpy'} & set(sys.modules))"
    assert python(code).strip() == "set()"

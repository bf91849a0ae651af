from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from arbo.errors import UsageError
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
    with pytest.raises(UsageError, match=r"unknown format 'xml'; known: brat, conll, .*, jsonl, pubtator"):
        read_documents(docs, "xml")
    with pytest.raises(UsageError, match="unknown format 'xml'; known: jsonl, medic, obo, tsv"):
        read_knowledge_base(docs, "xml")


def test_the_tables_load_no_format() -> None:
    code = "import sys, arbo.readers; print({'obonet', 'networkx', 'numpy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"

"""What is heavy is loaded when it is needed: `import arbo` and the help texts stay light."""

from pathlib import Path

import pytest
from builders import python

import arbo

HEAVY = """torch transformers numba sklearn faiss pyarrow scipy scipy.special networkx obonet pandas datasets spacy
rdflib starlette uvicorn anyio"""


def loaded(code: str) -> set[str]:
    """Names of the heavy packages that a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint('LOADED', *(name for name in {HEAVY.split()!r} if name in sys.modules))"
    (line,) = (line for line in python(script).splitlines() if line.startswith("LOADED"))
    return set(line.split()[1:])


def command(*arguments: str) -> str:
    return (
        f"sys.argv = ['arbo', *{arguments!r}]\n"
        "from arbo.cli import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code in (0, 2), done.code"
    )


def test_importing_arbo_and_the_names_of_methods_and_formats_loads_nothing_heavy() -> None:
    assert loaded("import arbo, arbo.formats, clustering.methods") == set()


def test_partition_is_the_function_whatever_was_imported_before() -> None:
    code = "import clustering.partitions, clustering.methods, clustering\nassert callable(clustering.partition)"
    assert "numba" in loaded(code)


def test_reading_documents_and_entities_loads_the_tables_alone() -> None:
    code = "import arbo\ndocuments, kb = arbo.load_sample()\nkb.fingerprint, kb[kb.entities[0].id], arbo.Document"
    assert loaded(code) - {"pandas"} == {"pyarrow"}  # which imports pandas, if it is installed


VERBS = """, find, link, discover, tune, evaluate, score, demo, explain, serve, kb, kb check, train encoder,
train names, train finder, train reranker"""


def test_help_and_wrong_usage_load_nothing_heavy() -> None:
    helps = [command(*verb.split(), "--help") for verb in VERBS.split(",")]
    assert loaded("\n".join([*helps, command("link", "--bogus")])) == set()


@pytest.mark.slow
def test_linking_loads_no_torch() -> None:
    code = "import arbo\ndocuments, kb = arbo.load_sample()\nassert arbo.Linker(kb).link(documents).evaluate()"
    assert not loaded(code) & {"torch", "transformers", "networkx", "obonet"}


@pytest.mark.slow
def test_a_verb_loads_only_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    documents, kb = arbo.load_sample()
    documents.to_jsonl("documents.jsonl")
    arbo.build_index(kb, "index")
    link = "link documents.jsonl --kb index --out run"
    assert loaded(command(*link.split())) == {"numba", "pyarrow", "scipy"}
    verbs = ("show run --json", "show run --nil --text sound", "show run --clusters", "explain run D06-3",
             "diff run run", "export run --to csv --out links.csv")  # fmt: skip
    assert loaded("\n".join(command(*verb.split()) for verb in verbs)) == {"pyarrow"}


def test_every_public_name_is_there() -> None:
    for name in arbo.__all__:
        assert getattr(arbo, name) is not None
    assert set(dir(arbo)) == set(arbo.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        arbo.Nobody  # noqa: B018

"""What is heavy is loaded when it is needed; a user's own `eval.py` or `clustering.py` stays theirs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import python

import arbo

HEAVY = """torch transformers numba sklearn faiss pyarrow scipy scipy.special networkx obonet pandas datasets spacy
starlette uvicorn anyio"""


def loaded(code: str) -> set[str]:
    """Names of the heavy packages that a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint('LOADED', *(name for name in {HEAVY.split()!r} if name in sys.modules))"
    (line,) = (line for line in python(script).splitlines() if line.startswith("LOADED"))
    return set(line.split()[1:])


def command(*arguments: str) -> str:
    run = "try:\n    main()\nexcept SystemExit as done:\n    assert done.code in (0, 2), done.code"
    return f"sys.argv = ['arbo', *{arguments!r}]\nfrom arbo.cli import main\n{run}"


def test_what_is_imported_and_read_loads_nothing_heavy_but_tables() -> None:
    assert loaded("import arbo, arbo.formats, clustering.methods") == set()
    read = "import arbo\ndocuments, kb = arbo.load_sample()\nkb.fingerprint, kb[kb.entities[0].id], arbo.Document"
    assert loaded(read) - {"pandas"} == {"pyarrow"}  # which imports pandas, if it is installed
    # `partition` is the function whatever was imported before.
    code = "import clustering.partitions, clustering.methods, clustering\nassert callable(clustering.partition)"
    assert "numba" in loaded(code)


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
    assert loaded(command("link", "documents.jsonl", "--kb", "index", "--out", "run")) == {"numba", "pyarrow", "scipy"}
    verbs = ("show run --json", "show run --nil --text sound", "show run --clusters", "explain run D06-3",
             "diff run run", "export run --to csv --out links.csv")  # fmt: skip
    assert loaded("\n".join(command(*verb.split()) for verb in verbs)) == {"pyarrow"}


def test_every_public_name_is_there() -> None:
    for name in arbo.__all__:
        assert getattr(arbo, name) is not None
    assert set(dir(arbo)) == set(arbo.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        arbo.Nobody  # noqa: B018


ROOT = Path(__file__).resolve().parent.parent
LINK = """
import arbo
texts = {"near": "marsh fever", "far": "other"}
documents = [arbo.Document(id, text, (arbo.Mention(id, id, ((0, 5),), text[:5]),)) for id, text in texts.items()]
encoder = arbo.VectorEncoder({"near": [1.0, 0.0], "far": [0.0, 1.0]}, {"D1": [1.0, 0.0]}, metric="dot")
config = arbo.LinkerConfig(method="independent", entity_threshold=-0.5, mention_threshold=-2.0)
linked = arbo.Linker(arbo.KnowledgeBase([arbo.Entity("D1", "fever")]), encoder, config).link(documents)
print([link.entity for link in linked.links] == ["D1", None], len(linked.discovered) == 1)
"""
LOOK = """
import arbo
from arbo.engine import Graph, coreference_scores
graph = Graph.from_edges([0], [1], [0.1], n_entities=1, n_nodes=2)
print(graph.n_nodes == 2, coreference_scores([["a"]], [["a"]])["b3"]["f1"] == 1)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a built wheel, without what it depends on, into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = folder / "source"  # a copy, as a build writes into its source, and several processes may build at once
    for package in ("arbo", "clustering", "eval"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("arbo-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "installed", built], check=True)
    return folder / "installed"


@pytest.fixture(params=[pytest.param("wheel", marks=pytest.mark.slow), "checkout"])
def home(request: pytest.FixtureRequest) -> Path:
    """Give the folder that arbo is imported from."""
    return ROOT if request.param == "checkout" else request.getfixturevalue("wheel")


@pytest.fixture(params=["{}.py", "{}/__init__.py"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write modules of the user's that must not be executed unless the user asks for them."""
    for name in ("eval", "clustering"):
        file = tmp_path / request.param.format(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text("print('executed')\nMINE = 1\n")
    return tmp_path


def run(home: Path, folder: Path, *arguments: str) -> list[str]:
    """Run Python in a folder; return what it prints, line by line."""
    command, env = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(home)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("theirs", ["{}.py"], indirect=True)
def test_kernels_under_a_private_name(theirs: Path) -> None:
    """They are compiled anew, which takes seconds."""
    (theirs / "script.py").write_text(LINK)
    assert run(ROOT, theirs, "script.py") == ["True True"]


@pytest.mark.parametrize("first", [True, False])
def test_they_stay_theirs(home: Path, theirs: Path, first: bool) -> None:
    """A notebook's kernel imports from the folder that it runs in, as `python -c` does."""
    import_them = "import eval, clustering\nprint(eval.MINE, clustering.MINE)\n"
    printed = run(home, theirs, "-c", import_them + LOOK if first else LOOK + import_them)
    assert sorted(printed) == ["1 1", "True True", "executed", "executed"]


def test_the_command_line_beside_them(home: Path, theirs: Path) -> None:
    (theirs / "kb.csv").write_text("id,name\nD1,marsh fever\n")
    assert "executed" not in run(home, theirs, "-m", "arbo", "kb", "check", "kb.csv")


def test_a_script_of_that_name_and_one_module_without_such_a_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "eval.py").write_text(LOOK)
    assert run(home, tmp_path, "eval.py") == ["True True"]
    (tmp_path / "eval.py").unlink()
    code = """
from clustering import Graph, partition
from eval import Report, coreference_scores
import arbo.engine
print(arbo.engine.Graph is Graph, arbo.engine.Report is Report)
print(arbo.engine.proportion.__module__)
"""
    assert run(home, tmp_path, "-c", code) == ["True True", "eval.ratio"]


def test_the_engine_names_what_there_is() -> None:
    import arbo.engine

    assert all(getattr(arbo.engine, name) is not None for name in arbo.engine._HOME if name != "*")
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        arbo.engine.nobody  # noqa: B018

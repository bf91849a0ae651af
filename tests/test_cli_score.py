"""`arbo score`: the contract of its JSON, what people see, what is told by the way, and exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_lines
from conftest import Run

from arbo.results.coreference_files import read_clusters
from eval import coreference_scores

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write documents, each a list of last columns, as a CoNLL file."""

    def write(name: str, **documents: list[str]) -> Path:
        lines: list[str] = []
        for document, columns in documents.items():
            words = (f"{document}\t{i}\tw\t{column}" for i, column in enumerate(columns))
            lines += [f"#begin document {document}", *words, "#end document"]
        return save_lines(tmp_path / name, *lines)

    return write


@pytest.fixture
def many(write: Write) -> tuple[Path, Path, Path]:
    """A key of 20 documents, a system that is right in all but one, and one that finds no link."""
    key = {f"d{i}": ["(1)", "(1)", "(2)", "(2)"] for i in range(20)}
    good = key | {"d7": ["(1)", "(2)", "(2)", "(2)"]}
    bad = {name: ["(1)", "(2)", "(3)", "(4)"] for name in key}
    return write("key.conll", **key), write("good.conll", **good), write("bad.conll", **bad)


def lines(text: str) -> dict[str, list[str]]:
    """Rows of a table by their first cell."""
    return {cells[0]: cells[1:] for cells in map(str.split, text.splitlines()) if cells}


def test_the_contract_on_the_golden_files(run: Run, shared: Callable[[str], Path]) -> None:
    folder = shared("golden/conll")
    for line in (folder / "expected.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        key, response = (folder / case[f"{side}_file"] for side in ("key", "response"))
        scored = run("score", key, response, "--json", "--set", "seed=1").ok()
        found = scored.json["coreference"]
        assert found["conll"] == pytest.approx(case["expected"].pop("conll"), abs=1e-9)
        for metric, values in case["expected"].items():
            got = [found[metric][name] for name in ("recall", "precision", "f1")]
            assert got == pytest.approx([values["r"], values["p"], values["f1"]], abs=1e-9), case["name"]
            assert found[metric]["counts"] == pytest.approx(case["counts"][metric], abs=1e-9), case["name"]
        assert scored.json["mentions"]["counts"] == case["mentions"]["counts"]
        assert scored.json["report"]["resampling"]["seed"] == 1
        (name,) = scored.json["report"]["systems"]
        assert name == response.name


def test_systems_are_scored_alone_and_compared(run: Run, many: tuple[Path, Path, Path], tmp_path: Path) -> None:
    key, good, bad = many
    files = [tmp_path / f"table.{ending}" for ending in ("md", "tex", "txt", "json")]
    saves = [argument for file in files for argument in ("--save", file)]
    shown = run("score", key, good, bad, "--set", "seed=5", *saves)
    rows = lines(shown.out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("F1 against key.conll, 20 documents\n")
    assert (rows["MUC"], rows["mentions"]) == ([">0.9750", "0.0000**"], ["1.0000", "1.0000"])
    assert "against good.conll" in shown.out
    assert "seed 5" in shown.out
    found = run("score", key, good, bad, "--set", "seed=5", "--json").json
    assert list(found["systems"]) == ["good.conll", "bad.conll"]
    for path in (good, bad):
        alone, rows = run("score", key, path, "--json").json["coreference"], lines(run("score", key, path).out)
        assert rows["CoNLL"][0] == f"{alone['conll']:.4f}"
        assert rows["LEA"][:3] == [f"{alone['lea'][name]:.4f}" for name in ("recall", "precision", "f1")]
        assert alone == found["systems"][path.name]["coreference"]
        assert found["systems"][path.name]["response"] == str(path)
    against = found["report"]["systems"]["bad.conll"]["MUC"]["against_first"]
    assert against["difference"] == pytest.approx(-0.975)
    assert against["p_value"] < 0.01
    assert found["report"]["systems"]["good.conll"]["MUC"]["against_first"] is None
    markdown, latex, text, data = (file.read_text("utf-8") for file in files)
    assert "| MUC | **0.9750** | 0.0000\\*\\* |" in markdown
    assert "\\toprule" in latex
    assert text == shown.out
    assert json.loads(data) == found["report"]


def test_per_document(run: Run, write: Write) -> None:
    documents = {"d1": ["(1)", "(1)"], "d2": ["(1)", "(1)", "(2)"], "d3": ["-"]}
    key, good = (write(name, **documents) for name in ("key", "good"))
    bad = write("bad", **(documents | {"d2": ["(1)", "(2)", "(2)"]}))
    shown = run("score", key, good, bad, "--set", "per_document=true").out.partition("CoNLL F1 by document")[2]

    found = run("score", key, bad, "--set", "per_document=true", "--json").json["documents"]
    assert (list(found), found["d2"]["mentions"]["counts"]) == (["d1", "d2", "d3"], [3, 3, 3, 3])
    clusters = [read_clusters(path, "conll")[0]["d2"] for path in (key, bad)]
    assert found["d2"]["coreference"] == json.loads(json.dumps(coreference_scores(*clusters)))
    assert lines(shown)["d1"] == ["1.0000"] * 2
    assert lines(shown)["d2"] == ["1.0000", f"{found['d2']['coreference']['conll']:.4f}"]
    assert lines(shown)["d3"] == ["-"] * 2
    assert "documents" not in run("score", key, bad, "--json").json


def test_what_has_no_partner_is_told_and_singletons_are_removed(run: Run, write: Write) -> None:
    key = write("key", **{"(a)": ["(1)"], "(b)": ["(1)"], "(c)": ["(1)", "(1)|(2)"]})
    response = write("response", **{"(A)": ["(1)"], "(c)": ["(1)", "(2)", "# note"], "(x)": ["(1)"]})
    response.write_text(response.read_text().replace("(c)\t2\tw\t# note", "# note"))
    scored = run("score", key, response, "--json")
    assert (scored.json["missing_documents"], scored.json["ignored_documents"]) == (["(a)", "(b)"], ["(A)", "(x)"])
    for note in (
        "key: 1 repeated mention left out",
        "response: 1 comment ignored",
        "response: 2 documents missing, which count as empty responses: '(a)', '(b)'",
        "response: 2 documents ignored, not in the key: '(A)', '(x)'",
    ):
        assert note in scored.told
    key, response = write("key.conll", d=["(1)", "(1)", "(2)", "-"]), write("r.conll", d=["(1)", "(2)", "(2)", "(3)"])
    scored = run("score", key, response, "--set", "remove_singletons=true", "--json").json
    expected = coreference_scores([[(0, 0), (1, 1)]], [[(1, 1), (2, 2)]])
    assert (scored["coreference"], scored["mentions"]["counts"]) == (expected, [1, 2, 1, 2])


def test_parts_of_a_document_are_scored_apart_and_corefud_by_heads(run: Run, write: Write, tmp_path: Path) -> None:
    parts = {"(a); part 000": ["(1)", "(1)"], "(a); part 001": ["(1)", "-", "(1)"]}
    parts |= {"(a); part 2": ["(2)"], "(b)": ["(1)"]}
    others = {"a/000 ": ["(7)", "(7)"], "(a);part 001": ["(7)", "(7)", "-"], "(a/2);": ["(1)"], "(b)": ["(1)"]}
    key, response = write("key", **parts), write("response", **others)
    scored = run("score", key, response, "--set", "per_document=true", "--json")
    assert scored.json["missing_documents"] == scored.json["ignored_documents"] == []
    of = {name: one["mentions"]["f1"] for name, one in scored.json["documents"].items()}
    assert of == {"a/000": 1, "a/001": 0.5, "a/2": 1, "(b)": 1}
    """Of the mentions of the key, two have the heads of others in the response, one its words, and one both."""
    brackets = {
        "key": ["(a--2", "a)", "(a--1)", "(a--2", "a)", "(a--1", "a)"],
        "ours": ["", "(b--1)", "(b--1)", "(b--1", "b)", "(b--1)", ""],
    }
    files = []
    for name, column in brackets.items():
        rows = [f"{i}\tw" + "\t_" * 7 + (f"\tEntity={one}" if one else "\t_") for i, one in enumerate(column)]
        files.append(tmp_path / f"{name}.conllu")
        files[-1].write_text("\n".join(["# newdoc id = d", *rows, ""]))
    assert run("score", *files, "--json").json["mentions"]["counts"] == [3, 4, 3, 4]
    exact = run("score", *files, "--set", "match=exact", "--json")
    assert exact.json["mentions"]["counts"] == [2, 4, 2, 4]
    assert run("score", *files, "--set", "match=heads").code == 2

"""`arbo score`: the contract of its JSON, what people see, what is told by the way, and exit codes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

from arbo import UsageError
from arbo.cli.reporting import check_outputs, name_systems
from eval import coreference_scores, read_conll

Write = Callable[..., Path]


@pytest.fixture
def score(run: Run) -> Run:
    """Run `arbo score` in this process."""
    return lambda *arguments: run("score", *arguments)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write documents, each a list of last columns, as a CoNLL file."""

    def write(name: str, **documents: list[str]) -> Path:
        lines: list[str] = []
        for document, columns in documents.items():
            words = (f"{document}\t{i}\tw\t{column}" for i, column in enumerate(columns))
            lines += [f"#begin document {document}", *words, "#end document"]
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return path

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


def test_the_contract_on_the_golden_files(score: Run, shared: Callable[[str], Path]) -> None:
    folder = shared("golden/conll")
    for line in (folder / "expected.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        key, response = (folder / case[f"{side}_file"] for side in ("key", "response"))
        scored = score(key, response, "--json", "--set", "seed=1")
        assert scored.code == 0
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


def test_one_document_is_coreference_scores(score: Run, write: Write) -> None:
    key = write("key.conll", d=["(1", "1)", "(2)", "(1)"])
    response = write("response.conll", d=["(1", "1)", "(1)", "(2)"])
    scored = score(key, response, "--json")
    clusters = [read_conll(path).documents["d"] for path in (key, response)]
    assert scored.json["coreference"] == json.loads(json.dumps(coreference_scores(*clusters)))
    assert (scored.json["key"], scored.json["response"]) == (str(key), str(response))
    assert "intervals and significance tests need two or more" in scored.told


def test_what_people_see(score: Run, many: tuple[Path, Path, Path]) -> None:
    key, good, _ = many
    shown = score(key, good)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("good.conll against key.conll, 20 documents\n")
    rows = lines(shown.out)
    assert rows["mentions"][:3] == ["1.0000"] * 3
    assert "80 right, 80 in the key, 80 in the response" in shown.out
    assert rows["MUC"][:3] == ["0.9750"] * 3
    scores = score(key, good, "--json").json["coreference"]
    assert rows["CoNLL"][0] == f"{scores['conll']:.4f}"
    assert rows["LEA"][:3] == [f"{scores['lea'][name]:.4f}" for name in ("recall", "precision", "f1")]
    assert "20 documents, seed 0" in shown.out
    assert {"CEAF-m", "CEAF-e", "B-cubed", "BLANC"} < set(rows)


def test_several_systems_are_compared_with_the_first(score: Run, many: tuple[Path, Path, Path]) -> None:
    key, good, bad = many
    shown = score(key, good, bad, "--set", "seed=5")
    rows = lines(shown.out)
    assert shown.out.startswith("F1 against key.conll, 20 documents\n")
    assert rows["MUC"] == [">0.9750", "0.0000**"]
    assert rows["mentions"] == ["1.0000", "1.0000"]
    assert "against good.conll" in shown.out
    assert "seed 5" in shown.out

    found = score(key, good, bad, "--json").json
    assert list(found["systems"]) == ["good.conll", "bad.conll"]
    for path in (good, bad):
        alone = score(key, path, "--json").json
        assert alone["coreference"] == found["systems"][path.name]["coreference"]
        assert found["systems"][path.name]["response"] == str(path)
    against = found["report"]["systems"]["bad.conll"]["MUC"]["against_first"]
    assert against["difference"] == pytest.approx(-0.975)
    assert against["p_value"] < 0.01
    assert found["report"]["systems"]["good.conll"]["MUC"]["against_first"] is None


def test_the_seed_decides_the_samples(score: Run, many: tuple[Path, Path, Path]) -> None:
    key, good, bad = many
    same, again, other = (score(key, bad, good, "--json", "--set", f"seed={seed}").out for seed in (3, 3, 4))
    assert same == again
    assert same != other


def test_per_document(score: Run, write: Write) -> None:
    documents = {"d1": ["(1)", "(1)"], "d2": ["(1)", "(1)", "(2)"], "d3": ["-"]}
    key, good = (write(name, **documents) for name in ("key", "good"))
    bad = write("bad", **(documents | {"d2": ["(1)", "(2)", "(2)"]}))
    shown = score(key, bad, "--per-document").out.partition("F1 by document")[2]
    rows = lines(shown)
    header = next(line.split() for line in shown.splitlines() if "MUC" in line)
    assert rows["d1"] == ["1.0000"] * 8
    assert rows["d2"][header.index("MUC")] == "0.0000"
    assert rows["d3"] == ["0/0"] * 8

    side_by_side = score(key, good, bad, "--per-document").out.partition("CoNLL F1 by document")[2]
    assert lines(side_by_side)["d2"] == ["1.0000", rows["d2"][header.index("CoNLL")]]

    found = score(key, bad, "--per-document", "--json").json["documents"]
    assert list(found) == ["d1", "d2", "d3"]
    assert found["d2"]["mentions"]["counts"] == [3, 3, 3, 3]
    clusters = [read_conll(path).documents["d2"] for path in (key, bad)]
    assert found["d2"]["coreference"] == json.loads(json.dumps(coreference_scores(*clusters)))
    assert "documents" not in score(key, bad, "--json").json


def test_save_as_the_ending_says(score: Run, many: tuple[Path, Path, Path], tmp_path: Path) -> None:
    key, good, bad = many
    files = [tmp_path / f"table.{ending}" for ending in ("md", "tex", "txt", "json")]
    saves = [argument for file in files for argument in ("--save", file)]
    shown = score(key, good, bad, *saves)
    assert shown.code == 0
    markdown, latex, text, data = (file.read_text("utf-8") for file in files)
    assert "| MUC | **0.9750** | 0.0000\\*\\* |" in markdown
    assert "\\toprule" in latex
    assert text == shown.out
    assert json.loads(data) == score(key, good, bad, "--json").json["report"]


def test_formats_by_name_by_option_and_mixed(score: Run, write: Write, tmp_path: Path) -> None:
    conll = write("key.conll", d=["(1", "1)", "(2)", "(1)"])
    clusters = '{"document": "d", "mentions": [[0, 1], [3, 3]]}\n{"document": "d", "mentions": [[2, 2]]}\n'
    plain, packed, odd = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz", tmp_path / "a.txt"
    plain.write_text(clusters)
    packed.write_bytes(gzip.compress(clusters.encode()))
    odd.write_text(clusters)
    for key, response, *options in (
        (conll, plain),
        (plain, conll),
        (packed, plain),
        (odd, plain, "--format", "jsonl"),
    ):
        scored = score(key, response, *options, "--json")
        assert scored.json["coreference"]["conll"] == 1
    refused = score(plain, odd)
    assert refused.code == 3
    assert "is this JSON?" in refused.told


def test_what_has_no_partner_is_told(score: Run, write: Write) -> None:
    key = write("key", **{"(a) ": ["(1)"], "(b)": ["(1)"], "(c)": ["(1)", "(1)|(2)"]})
    response = write("response", **{"(a)": ["(1)"], "(c)": ["(1)", "(2)", "# note"], "(x)": ["(1)"]})
    response.write_text(response.read_text().replace("(c)\t2\tw\t# note", "# note"))
    scored = score(key, response, "--json")
    assert scored.json["missing_documents"] == ["(a) ", "(b)"]
    assert scored.json["ignored_documents"] == ["(a)", "(x)"]
    for note in (
        "key: 1 repeated mentions left out",
        "response: 1 comments passed over",
        "response: lacks 2 of the 3 documents of the key, which count as empty responses: '(a) ', '(b)'",
        "response: 2 documents ignored, not in the key: '(a)', '(x)'",
    ):
        assert note in scored.told


def test_files_about_different_things_are_told(score: Run, write: Write) -> None:
    key = write("key", d=["(1)", "-", "(1)"])
    assert "warning: shifted: no mention is in the key" in score(key, write("shifted", d=["-", "(1)", "-"])).told
    scored = score(key, write("other", e=["-", "-", "-"]))
    assert scored.code == 0
    assert (
        "warning: other: all documents of the key are missing; check that the names of the documents agree"
        in scored.told
    )


def test_a_file_without_any_mention_is_told(score: Run, write: Write, tmp_path: Path) -> None:
    key, empty = write("key", d=["(1)", "-"]), write("empty", d=["-", "-"])
    none = tmp_path / "none.jsonl"
    none.write_text('{"document": "d", "mentions": []}\n')
    assert "warning" not in score(key, key).told
    conll = "warning: empty: no mentions: no chain in the last column of any word"
    for arguments, told in (
        ((key, empty), conll),
        ((empty, key), conll),
        ((key, none), "warning: none.jsonl: no mentions"),
    ):
        outcome = score(*arguments)
        assert outcome.code == 0
        assert outcome.told.count("warning") == 1
        assert told in outcome.told
    assert "last column" not in score(key, none).told


def test_documents_of_other_lengths_are_told(score: Run, write: Write) -> None:
    key = write("key", **{f"d{i}": ["-", "(1)", "(1)"] for i in range(6)})
    shifted = {f"d{i}": ["(1)", "(1)"] for i in range(4)} | {"d4": ["-", "(1)", "(1)"], "d6": ["-"]}
    told = score(key, write("response", **shifted)).told
    assert (
        "warning: response: the number of words differs from the key in 4 documents, so mentions may be shifted; check "
        "for missing lines: 'd0' (2, in the key 3), 'd1' (2, in the key 3), 'd2' (2, in the key 3), ..."
    ) in told
    assert told.count("warning") == 1
    one = score(key, write("one", **(shifted | {f"d{i}": ["-"] * 3 for i in range(3)}))).told
    assert "one: the number of words differs from the key in 1 document" in one
    assert "lines: 'd3' (2, in the key 3)" in one
    assert "..." not in one


def test_lengths_are_compared_only_where_both_files_have_words(score: Run, write: Write, tmp_path: Path) -> None:
    key, response = write("key", d=["(1)", "-"]), tmp_path / "response.jsonl"
    response.write_text('{"document": "d", "mentions": [[0, 0]]}\n')
    for sides in ((key, response), (response, key)):
        assert "words" not in score(*sides).told


def test_scoring_many_documents_shows_progress(
    score: Run, many: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arbo.progress._BETWEEN_LINES", -1.0)
    key, good, bad = many
    told = score(key, good, bad).told
    assert told.count("scoring: 5%") == 2
    assert told.count("scoring: 95%") == 2


def test_one_is_not_called_many(score: Run, write: Write) -> None:
    shown = score(write("key", d=["(1)"]), write("response", e=["(1)"]))
    assert "response against key, 1 document\n" in shown.out
    assert "response: lacks 1 of the 1 document of the key" in shown.told
    assert "response: 1 document ignored, not in the key" in shown.told


def test_a_plot_without_matplotlib_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_outputs([], None, tmp_path / "plot.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    check_outputs([], None)
    with pytest.raises(UsageError, match=r"--plot needs matplotlib: pip install 'arbo\[plot\]'"):
        check_outputs([], None, tmp_path / "plot.png")


def test_systems_of_one_file_name_are_told_apart(score: Run, write: Write) -> None:
    key = write("key", d=["(1)"])
    responses = [write(f"{folder}/out.conll", d=["(1)"]) for folder in ("a", "b")]
    assert list(score(key, *responses, "--json").json["systems"]) == [str(path) for path in responses]


def test_a_folder_without_a_name_is_named_by_its_path() -> None:
    assert list(name_systems([Path("."), Path("../other")])) == [".", "other"]


def test_an_empty_path_is_not_the_present_folder() -> None:
    with pytest.raises(UsageError, match="no path after train="):
        name_systems([Path("train=")], what="part")


def test_names_cannot_steer_the_terminal(score: Run, write: Write) -> None:
    name = "[b]x[/b]\x1b[2J\x9b31m:smile:"
    key = write("key", **{name: ["(1)"], f"{name}2": ["(1)"]})
    for arguments in ((key, key), (key, write("other", d=["(1)"]))):
        shown = score(*arguments, "--per-document")
        assert shown.code == 0
        assert "[b]x[/b]\\x1b[2J\\x9b31m:smile:" in shown.out
        assert not {"\x1b", "\x9b"} & set(shown.out + shown.err)


def test_bad_data_is_3_and_names_the_place(score: Run, write: Write, tmp_path: Path) -> None:
    key = write("key.conll", d=["(1)"])
    bad = write("bad.conll", d=["(1)", "(1)|2)"])
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"mentions": ["a"]}\n{"mentions": ["a"], "cluster": 3}\n')
    (tmp_path / "mentions.parquet").write_bytes(b"PAR1\0")
    for arguments, told in (
        ((key, bad), f"error: {bad}, line 3, column 11: chain 2 ends a mention here that has not begun"),
        ((bad, key), f"{bad}, line 3, column 11"),
        ((key, key, broken), f"{broken}, line 2, column 1: unknown key 'cluster'; known: document, mentions"),
        ((key, tmp_path / "absent"), f"{tmp_path / 'absent'}: cannot be read: No such file"),
        ((key, tmp_path), f"{tmp_path}: cannot be read: Is a directory"),
        ((key, tmp_path / "mentions.parquet"), "this is Parquet"),
    ):
        outcome = score(*arguments, "--json")
        assert (outcome.code, outcome.out) == (3, "")
        assert told in outcome.told


def test_wrong_usage_is_2(score: Run, write: Write, tmp_path: Path) -> None:
    key, response = write("key.conll", d=["(1)"]), write("response.conll", d=["(1)"])
    for arguments, told in (
        ((), "KEY"),
        ((key,), "RESPONSE"),
        ((key, response, response), f"two systems are named {response}"),
        ((key, response, "--format", "word"), "word"),
        ((key, response, "--set", "seed=-1"), "seed must be"),
        ((key, response, "--save", tmp_path / "table.docx"), "--save"),
        ((key, response, "--save", key / "table.md"), "table.md"),
        ((key, response, "--save", tmp_path / "absent" / "table.md"), "table.md"),
    ):
        outcome = score(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert told in outcome.told
        assert "Traceback" not in outcome.err


def test_help_is_light() -> None:
    script = (
        "import sys\nfrom arbo.cli import main\nsys.argv = ['arbo', 'score', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*({'numba', 'numpy', 'pyarrow', 'scipy', 'torch'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "RESPONSE" in done.stdout
    assert done.stderr.split() == []


def test_singletons_are_removed_from_key_and_response(score: Run, write: Write) -> None:
    key, response = write("key.conll", d=["(1)", "(1)", "(2)", "-"]), write("r.conll", d=["(1)", "(2)", "(2)", "(3)"])
    scored = score(key, response, "--set", "remove_singletons=true", "--json").json
    expected = coreference_scores([[(0, 0), (1, 1)]], [[(1, 1), (2, 2)]])
    assert scored["coreference"] == expected
    assert scored["mentions"]["counts"] == [1, 2, 1, 2]  # type: ignore[index]

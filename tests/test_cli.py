"""The command line as a whole: exit codes, JSON alone on stdout, and nothing half-written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_builders import arbo_process, linking, sample_files
from conftest import Run

import arbo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


def test_demo(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--files", tmp_path / "sample", "--out", tmp_path / "demo run")
    assert shown.code == 0
    assert "compiles" in shown.err.splitlines()[0]
    commands = [shlex.split(line) for line in shown.out.splitlines() if line.startswith("  arbo ")]
    assert [words[1] for words in commands] == ["show", "explain", "export", "link", "explore"]
    assert run(*commands[0][1:]).out
    assert run(*commands[1][1:]).out.strip() in shown.out
    assert run(*commands[2][1:-1], tmp_path / "links.csv").code == 0
    assert "weakest step" in shown.out
    assert "new-D09" in shown.out
    assert "accuracy" in shown.out
    assert arbo.read_jsonl(tmp_path / "sample" / "documents.jsonl") == arbo.load_sample()[0]
    assert run("demo", "--json", "--out", tmp_path / "demo run").json["linking"] is not None


def test_link_and_discover_end_with_commands_that_run(run: Run, folder: Path, tmp_path: Path) -> None:
    for verb, words in (("link", linking(folder)), ("discover", linking(folder)[:3])):
        shown = run(verb, *words, "--out", tmp_path / verb)
        commands = [shlex.split(line)[1:] for line in shown.out.splitlines() if line.startswith("  arbo ")]
        assert [command[0] for command in commands] == ["show", "explain", "evaluate", "export"]
        assert all(run(*command).out for command in commands[:3])


def test_wrong_usage_is_2(run: Run, folder: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run"]
    wrong: list[list[object]] = [
        [],
        ["nothing"],
        ["link"],
        ["link", *linking(folder)],
        ["link", *linking(folder), *out, "--bogus"],
        ["link", *linking(folder), *out, "--k", -1],
        ["link", *linking(folder), *out, "--k", "many"],
        ["link", *linking(folder), *out, "--method", "kmeans"],
        ["link", *linking(folder), *out, "--threshold", "low"],
        ["link", *linking(folder), *out, "--threshold", "0.1,0.2,0.3"],
        ["link", *linking(folder), *out, "--threshold", "nan"],
        ["link", *linking(folder), *out, "--threshold", "35"],
        ["link", *linking(folder), *out, "--threshold", "0,35"],
        ["link", *linking(folder), *out, "--threshold", "0,2"],
        ["link", *linking(folder), *out, "--threshold=-inf"],
        ["link", *linking(folder), *out, "--types", "Nonsense"],
        ["link", folder / "all.jsonl", "--format", "word", *linking(folder)[3:], *out],
        ["discover", folder / "all.jsonl", "--format", "jsonl", *out, "--kb", folder / "kb.jsonl"],
        ["tune", *linking(folder), "--out", tmp_path],
        ["tune", *linking(folder), "--out", folder / "all.jsonl" / "tuned.json"],
        ["evaluate"],
    ]
    for arguments in wrong:
        outcome = run(*arguments)
        assert outcome.code == 2, arguments
        assert outcome.out == "" or not arguments
        assert outcome.err or not arguments
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("compare run1 run2", "compare scores with `arbo evaluate`, links with `arbo diff`"),
        ("discover docs --kb kb --out run", "run `arbo link`"),
        ("link - --kb - --out run", "two arguments are `-`, the standard input"),
    ],
)
def test_a_likely_mistake_is_told_with_its_mend(run: Run, words: str, told: str) -> None:
    done = run(*words.split())
    assert done.code == 2
    assert told in done.err


@pytest.mark.parametrize("words", [["kb", "check", ""], ["link", "docs", "--kb="], ["link", "", "--kb", "kb"]])
def test_an_empty_argument_is_refused(run: Run, words: list[str]) -> None:
    done = run(*words)
    assert done.code == 2
    assert "is empty; is a shell variable unset?" in done.err


def test_tune_replaces_no_file_of_another_kind(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("precious")
    done = run("tune", tmp_path / "docs.jsonl", "--out", tmp_path / "notes.md")
    assert done.code == 2
    assert "notes.md exists, and `arbo tune` did not write it; choose another file" in done.told
    assert (tmp_path / "notes.md").read_text() == "precious"


def test_bad_data_is_3_and_names_the_place(run: Run, folder: Path, tmp_path: Path) -> None:
    good = (folder / "all.jsonl").read_text("utf-8").splitlines()
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([*good[:2], '{"id": "D99", "text": 5}', good[3]]), "utf-8")
    outcome = run("link", bad, *linking(folder)[1:], "--out", tmp_path / "run")
    assert (outcome.code, outcome.out) == (3, "")
    assert f"{bad}, line 3, 'D99'" in outcome.err
    assert not (tmp_path / "run").exists()

    skipped = run("link", bad, *linking(folder)[1:], "--out", tmp_path / "run", "--set", "on_error=skip", "--json")
    assert skipped.code == 0
    assert "1 malformed documents skipped" in skipped.err
    assert arbo.Result.load(tmp_path / "run").manifest["notes"]["documents"] == {"malformed documents skipped": 1}


def test_more_bad_data_is_3(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"config": {"q": 1}}')
    (tmp_path / "kb.jsonl").write_text('{"id": "E1", "name": " "}\n')
    (tmp_path / "nogold.jsonl").write_text('{"id": "d", "text": "abc", "mentions": [{"spans": [[0, 3]]}]}\n')
    kb = ["--kb", folder / "kb.jsonl", "--kb-format", "jsonl"]
    out = ["--out", tmp_path / "run"]
    bad: list[tuple[list[object], str]] = [
        (["link", folder / "absent.jsonl", "--format", "jsonl", *kb, *out], "absent.jsonl"),
        (["link", folder / "all.jsonl", "--format", "pubtator", *kb, *out], "all.jsonl"),
        (
            ["link", *linking(folder)[:3], "--kb", folder / "absent.obo", "--kb-format", "obo", *out],
            "absent.obo",
        ),
        (
            ["link", *linking(folder)[:3], "--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl", *out],
            "kb.jsonl, line 1",
        ),
        (["link", *linking(folder), *out, "--config", tmp_path / "broken.json"], "broken.json"),
        (["link", *linking(folder), *out, "--config", tmp_path / "absent.json"], "absent.json"),
        (["tune", tmp_path / "nogold.jsonl", "--format", "jsonl", *kb, *out], "gold"),
        (["evaluate", tmp_path / "absent"], "absent"),
        (["explain", tmp_path, "m"], "not a run folder"),
    ]
    for arguments, message in bad:
        outcome = run(*arguments)
        assert (outcome.code, outcome.out) == (3, ""), arguments
        assert message in outcome.err
        assert "Traceback" not in outcome.err
    assert not (tmp_path / "run").exists()


def test_each_skipped_document_is_told_with_its_file_and_error(tmp_path: Path) -> None:
    mention = '"mentions": [{"spans": [[0, 3]]}]}'
    (tmp_path / "good.jsonl").write_text(f'{{"id": "a", "text": "flu", {mention}\n')
    (tmp_path / "bad.jsonl").write_text(f'{{"id": "b", "text": "flu", {mention}\n{{"id": "c", "text": 5}}\n')
    docs = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    done = arbo_process("discover", *docs, "--set", "on_error=skip", "--out", tmp_path / "run")
    assert f"skipped: {tmp_path / 'bad.jsonl'}, line 2, 'c': 'text' of a document must be a string" in done.stderr
    assert "2 inputs: 1 malformed documents skipped" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
def test_output_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    arguments = ["-m", "arbo", "kb", "check", str(folder / "kb.jsonl"), "--json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "error: cannot read or write standard output or the current folder: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        done = subprocess.run([sys.executable, *arguments], stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "rror" in done.stderr) == (141, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("--version >/dev/full", 1, "error: cannot write standard output: No space left on device"),
        ("--help >/dev/full", 1, "error: cannot write standard output: No space left on device"),
        ("kb check {kb} >&-", 0, "read as jsonl"),
        ("kb check {kb} --json 2>&-", 0, ""),
        ("discover - --out {kb}.run <&-", 3, "the documents have no mentions"),
    ],
)
def test_standard_streams_that_are_closed_or_full(folder: Path, command: str, code: int, said: str) -> None:
    words = f"{shlex.quote(sys.executable)} -m arbo {command.format(kb=shlex.quote(str(folder / 'kb.jsonl')))}"
    done = subprocess.run(words, shell=True, capture_output=True, text=True)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps a folder that is in use")
def test_a_loop_of_links_is_replaced(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    assert run("kb", "convert", folder / "kb.jsonl", "--out", tmp_path / "loop.jsonl").code == 0
    assert arbo.KnowledgeBase.from_jsonl(tmp_path / "loop.jsonl") == arbo.KnowledgeBase.from_jsonl(folder / "kb.jsonl")


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps a folder that is in use")
def test_a_current_folder_that_was_removed_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = run("discover", tmp_path / "docs.jsonl", "--out", "run")
    monkeypatch.chdir(tmp_path)
    assert done.code == 1
    assert "the current folder: No such file" in done.err


@pytest.mark.slow
def test_exit_codes_of_the_process(folder: Path, tmp_path: Path) -> None:
    done = arbo_process("discover", folder / "test.jsonl", "--format", "jsonl", "--out", tmp_path / "run", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["mentions"] > 0
    usage = arbo_process("discover", folder / "test.jsonl", "--format", "word", "--out", tmp_path / "run")
    assert (usage.returncode, usage.stdout) == (2, "")
    data = arbo_process("evaluate", tmp_path / "absent")
    assert (data.returncode, data.stdout) == (3, "")
    assert "Traceback" not in usage.stderr + data.stderr


def test_the_installed_command(tmp_path: Path) -> None:
    command = shutil.which("arbo", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    assert command is not None
    done = subprocess.run([command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "discover" in done.stdout


_HANG = """
import sys, time
import arbo.linker
from arbo.cli import main
from arbo.results import run_folder

def hang(seconds):
    print("hanging", file=sys.stderr, flush=True)
    time.sleep(seconds)

if sys.argv.pop(1) == "searching":
    arbo.linker.retrieve = lambda *_: hang(60)
else:  # tables are written in threads, which an interrupt waits for
    write = run_folder.write_table
    run_folder.write_table = lambda file, table: hang(3) if "links" in file.name else write(file, table)
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
@pytest.mark.parametrize("stage", ["searching", "saving"])
def test_an_interrupt_is_130_and_leaves_nothing(folder: Path, tmp_path: Path, stage: str) -> None:
    arguments = ["link", *map(str, linking(folder)), "--out", str(tmp_path / "out" / "run"), "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", _HANG, stage, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while (line := process.stderr.readline()) not in ("hanging\n", ""):
            pass
        assert line == "hanging\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_the_version(run: Run) -> None:
    shown = run("--version")
    assert (shown.code, shown.out.split()[0]) == (0, "arbo")

"""`arbo demo`, `link`, `discover` and `tune`: what is written, what people see, what stderr says."""

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from builders import document, linking, save_data, save_lines
from conftest import Run

import arbo
from arbo import Entity, KnowledgeBase
from arbo.cli import console
from arbo.results.views import mention_view


def test_demo(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--files", tmp_path / "sample", "--out", tmp_path / "demo run").ok()
    assert "compiles" in shown.err.splitlines()[0]
    commands = [shlex.split(line)[1:] for line in shown.out.splitlines() if line.startswith("  arbo ")]
    assert [words[0] for words in commands] == ["show", "explain", "explore", "export", "link"]
    assert run(*commands[0]).out
    assert run(*commands[1]).out.strip() in shown.out
    assert run(*commands[3][:-1], tmp_path / "links.csv").code == 0
    assert all(words in shown.out for words in ("weakest step", "new-D09", "accuracy"))
    assert arbo.read_documents(tmp_path / "sample" / "documents.jsonl") == arbo.load_sample()[0]
    assert run("--version").out.startswith("arbo ")
    again = ("demo", "--json", "--out", tmp_path / "demo run", "--files", tmp_path / "sample")
    assert run(*again).json["linking"] is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
def test_output_that_cannot_be_written_is_told(files: Path, tmp_path: Path) -> None:
    job = [sys.executable, "-m", "arbo", "kb", "check", str(files / "kb.jsonl"), "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") as full, open(writing, "wb") as closed:
        done, cut = (subprocess.run(job, stdout=out, stderr=subprocess.PIPE, text=True) for out in (full, closed))
    assert (done.returncode, cut.returncode, "rror" in cut.stderr) == (1, 1, False)
    assert "error: cannot read or write standard output: No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="closed streams and undecoded bytes are of POSIX")
def test_closed_streams_and_bytes_that_are_no_text(run: Run, files: Path) -> None:
    job = shlex.join([sys.executable, "-m", "arbo", "kb", "check"])
    read, failed = (
        subprocess.run(["sh", "-c", f"{job} {words}"], capture_output=True, text=True)
        for words in (f"{shlex.quote(str(files / 'kb.jsonl'))} >&-", "- --json <&- 2>&-")
    )
    assert (read.returncode, "Traceback" in read.stderr, failed.returncode, failed.stdout) == (0, False, 3, "")
    assert r"'a\udcff' is not UTF-8; write it" in run("show", files, "--text", "a\udcff").told


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
def test_an_interrupt_is_130_and_leaves_nothing(files: Path, tmp_path: Path, stage: str) -> None:
    arguments = ["link", *map(str, linking(files)), "--out", str(tmp_path / "out" / "run"), "--json"]
    job, pipe = [sys.executable, "-c", _HANG, stage, *arguments], subprocess.PIPE
    with subprocess.Popen(job, stdout=pipe, stderr=pipe, text=True) as process:
        while (line := process.stderr.readline()) not in ("hanging\n", ""):
            pass
        assert line == "hanging\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_link_evaluate_explain(run: Run, files: Path, tmp_path: Path, result: arbo.Result) -> None:
    out = tmp_path / "run"
    linked = run("link", *linking(files), "--out", out, "--json")
    nil = sum(link.entity is None for link in result.links)
    expected = {"mentions": len(result.links), "nil": nil, "linked": len(result.links) - nil, "run": str(out)}
    assert linked.json.items() >= (expected | {"discovered": len(result.discovered)}).items()
    assert arbo.Result.load(out).link_table == result.link_table
    scored, evaluation = run("evaluate", out, "--json"), result.evaluate()
    assert (scored.code, scored.err) == (0, "")
    errors = (answer := scored.json).pop("errors")
    assert sum(errors.values()) == len(run("show", out, "--wrong", "--limit", 999, "--json").json["mentions"])
    assert answer == json.loads(json.dumps({**evaluation.as_dict(), "report": evaluation.report("run").as_dict()}))
    first, second = (link.mention.id for link in result.links[:2])
    assert str(result.explain(first)) in run("explain", out, first).out
    both = run("explain", out, first, second, "--json").json["explanations"]
    assert [one["mention"] for one in both] == [first, second]


def test_formats_are_guessed_and_told(run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = (files / "all.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "1.jsonl").write_text(first, "utf-16")
    (tmp_path / "2.jsonl").write_bytes(gzip.compress("".join(rest).encode()))
    for docs in ([tmp_path / "*.jsonl"], [tmp_path / "1.jsonl", tmp_path / "2.jsonl"], [tmp_path], ["-"]):
        with (files / "all.jsonl").open() as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", stream)
            outcome = run("link", *docs, "--kb", files / "kb.jsonl", "--out", tmp_path / "run", "--json")
        assert outcome.json["mentions"] == len(arbo.load_sample()[0].mentions)
        assert "kb.jsonl: read as jsonl (--kb-format overrides)" in outcome.err
        assert ": read as jsonl (--format overrides)" in outcome.err
    assert "read as" not in run("link", *linking(files), "--out", tmp_path / "run").err


def test_types_are_proposed_if_they_explain_missing_ids(run: Run, tmp_path: Path) -> None:
    arbo.KnowledgeBase([arbo.Entity("D1", "flu", xrefs=("X:C1",))]).to_jsonl(tmp_path / "kb.jsonl")
    docs, command = tmp_path / "docs.jsonl", ["--kb", tmp_path / "kb.jsonl", "--out", tmp_path / "run"]
    kinds = [("Disease", "D1"), ("Chemical", "C1"), ("Chemical", "C2"), (None, "C3")]
    mentions = [arbo.Mention(f"m{n}", "d", ((0, 3),), "flu", kind, (id_,)) for n, (kind, id_) in enumerate(kinds)]
    arbo.Corpus.of([arbo.Document("d", "flu", tuple(mentions))]).to_jsonl(docs)
    hint = "warning: 75% of the mentions with gold ids have only ids missing from the knowledge base; "
    assert f"{hint}the ids of Disease are there: try --types Disease\n" in run("link", docs, *command).err
    assert "missing from" not in run("link", docs, *command, "--types", "Disease").err
    chemicals = run("link", docs, *command, "--types", "Chemical").err
    assert "missing from the knowledge base; cross-references of its entities match 1 of these ids" in chemicals
    assert "try --set kb_xrefs=X\n" in chemicals
    arbo.Corpus.of([arbo.Document("d", "flu", (mentions[3],))]).to_jsonl(docs)
    told = run("link", docs, *command).err
    assert "check that the ids match: the documents have 'C3', for example, the knowledge base 'D1'" in told


def test_documents_mentions_and_entities_are_chosen(run: Run, files: Path, tmp_path: Path) -> None:
    ids = save_lines(tmp_path / "ids.txt", "# a split", "", " D03 ", "D01", "D03", "Z9", "Z8", "Z7", "Z6")
    bad = save_lines(tmp_path / "bad.jsonl", *(files / "all.jsonl").read_text("utf-8").splitlines(), {"id": 5})
    types = ["--types", "Species", "--types", "Disease", "--kb-types", "Species"]
    job = [bad, *linking(files)[1:], "--set", "on_error=skip", "--set", f"ids={ids}", *types]
    done = run("link", *job, "--out", tmp_path / "run").ok()
    assert "ids.txt: no documents with the ids 'Z9', 'Z8', 'Z7' and 1 more" in done.told
    assert "1 malformed document skipped" in done.told
    result, kb = arbo.Result.load(tmp_path / "run"), arbo.read_knowledge_base(files / "kb.jsonl").of_types("Species")
    assert {link.mention.document_id for link in result.links} == {"D01", "D03"}
    assert set(result.mention_table["type"].to_pylist()) == {"Species", "Disease"}
    assert {link.entity for link in result.links} - {None} <= {entity.id for entity in kb}
    assert result.manifest["notes"]["documents"]["malformed documents skipped"] == 1
    assert result.manifest["knowledge_base"]["fingerprint"] == kb.fingerprint
    assert result.manifest["kb_source"]["types"] == ["Species"]
    assert run("add", "--anew", tmp_path / "run", "--out", tmp_path / "again").code == 0


NAMES = KnowledgeBase([Entity("A", "quartz fever"), Entity("B", "QF")])


@pytest.mark.parametrize(("options", "entity"), [([], "A"), (["--set", "expand_abbreviations=false"], "B")])
def test_abbreviations_stay_as_they_are(run: Run, tmp_path: Path, options: list[str], entity: str) -> None:
    save_data(tmp_path, [document("d", "quartz fever (QF)", "QF")], NAMES)
    job = [tmp_path / "docs.jsonl", "--kb", tmp_path / "kb.jsonl", *options]
    assert run("link", *job, "--method", "independent", "--out", tmp_path / "run").code == 0
    result = arbo.Result.load(tmp_path / "run")
    assert [link.entity for link in result.links][1] == entity
    assert result.manifest["config"]["expand_abbreviations"] is not bool(options)
    found = run("find", *job, "--json").json["found"]
    assert {one["entity"] for one in found if one["text"] == "QF"} == {entity}
    assert run("link", *job, "--find-mentions", "dictionary", "--out", tmp_path / "found").code == 0
    links = arbo.Result.load(tmp_path / "found").links
    assert {link.entity for link in links if link.mention.text == "QF"} == {entity}


def test_prose_without_mentions_is_searched_and_lists_are_not(run: Run, tmp_path: Path) -> None:
    NAMES.to_jsonl(tmp_path / "kb.jsonl")
    base, out = ("--kb", tmp_path / "kb.jsonl"), tmp_path / "run"
    (tmp_path / "notes.txt").write_text("We saw quartz fever in the north.\n\nThe second case of QF was mild.\n")
    linked = run("link", tmp_path / "notes.txt", *base, "--out", out)
    assert "the texts have no mentions: the dictionary finds names" in linked.told
    assert [link.entity for link in arbo.Result.load(out).links] == ["A", "B"]
    (tmp_path / "more.txt").write_text("Another quartz fever was seen here.\n")
    assert run("add", out, tmp_path / "more.txt", "--out", tmp_path / "more").code == 0  # finds them likewise
    assert len(arbo.Result.load(tmp_path / "more").links) == 3
    (tmp_path / "names.txt").write_text("quartz fever\nQuartz Mining Company of the North Inc.\nQF\n")
    assert "each line is a name" in run("link", tmp_path / "names.txt", *base, "--out", out).told
    assert "each line is a name" in run("discover", tmp_path / "notes.txt", "--out", out).told  # perhaps titles


def test_tune_then_link_or_discover(run: Run, files: Path, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "tuned.json"
    tuned = run("tune", *linking(files, "train.jsonl"), "--method", "undirected", "--out", file, "--json").ok()
    content = json.loads(file.read_text("utf-8"))
    assert content["config"] == tuned.json["config"] | {"method": "undirected"}
    assert content["tuning"]["objective"] == tuned.json["objective"] == "accuracy_with_nil"
    run("link", *linking(files, "test.jsonl"), "--config", file, "--out", tmp_path / "run")
    config, (documents, kb) = arbo.LinkerConfig.from_json(file), arbo.load_sample()
    result = arbo.Result.load(tmp_path / "run")
    assert result.manifest["config"] == config.as_dict()
    assert result.link_table == arbo.Linker(kb, config=config).link(documents[45:]).link_table
    options = ["--k", 1, "--method", "MiniMax", "--threshold", "0.3,none", "--kb-format", "Jsonl"]
    run("link", *linking(files), "--config", file, "--out", tmp_path / "run", *options)
    changed = {"k": 1, "method": "minimax", "entity_threshold": 0.3, "mention_threshold": None}
    assert arbo.Result.load(tmp_path / "run").manifest["config"] == config.as_dict() | changed
    docs, tuned, out = [files / "all.jsonl", "--format", "jsonl"], tmp_path / "tuned.json", tmp_path / "run"
    told = run("tune", *docs, "--objective", "conll", "--out", tuned, "--json").json
    assert told["objective"] == "conll"
    assert run("discover", *docs, "--config", tuned, "--out", out, "--json").json["linked"] == 0
    scored = run("evaluate", out, "--json").json
    assert scored["linking"] is None
    assert scored["coreference"]["conll"] == pytest.approx(told["score"])


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ghost\x1b[2J\x9b31m\x07\u202etsohg\u2066"
    mention = arbo.Mention("m", "d", ((0, len(name)),), name)
    arbo.Corpus.of([arbo.Document("d", name, (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    found = run("discover", tmp_path / "docs.jsonl", "--as", "text", "--out", tmp_path / "run")
    explained = run("explain", tmp_path / "run", "m")
    as_json = run("explain", tmp_path / "run", "m", "--json").out
    assert json.dumps(name)[1:-1] in json.dumps(json.loads(as_json))
    monkeypatch.setattr(sys, "stdin", StringIO("e\n"))
    asked = run("review", tmp_path / "run")
    for words, shown in (("", found), ("", explained), ("name of the new entity [", asked)):
        assert f"{words}ghost\\x1b[2J\\x9b31m\\x07\\u202etsohg\\u2066" in " ".join(shown.out.split())
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u2066"} & {*shown.out, *as_json}


def test_a_view_of_mentions_fits_a_terminal(result: arbo.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setenv("TERM", "dumb")  # of 80 columns
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", shown)
    ids = result.mention_table["mention_id"].to_pylist()
    console.print_view(mention_view(result, np.array([ids.index("D06-3"), ids.index("D09-1")])), as_table=True)
    header, *rows = shown.getvalue().splitlines()
    assert header.split() == ["mention", "id", "text", "type", "link", "confidence"]
    assert all(words in shown.getvalue() for words in ("DS:0001 fungal root rot", "NIL, new-D09-1"))
    assert len(rows) <= 3

"""Errors of the command line are a code and words, and nothing is written; each option and setting is explained."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from builders import sample_files
from conftest import Run
from typer.testing import CliRunner

from arbo.cli import app
from arbo.cli.inputs import READING, check_output
from arbo.cli.options import ENCODER, LINKER, Chosen, Shown, spread
from arbo.errors import UsageError
from arbo.kb.saving import ENDINGS
from eval.report import FORMATS

_LINK = "link test.jsonl --kb kb.jsonl --out out"
_DATA = {
    "bad.jsonl": '{"id": "D98", "text": "a"}\n{"id": "D99", "text": 5}\n',
    "bare.jsonl": '{"id": "d", "text": "no mention", "entities": []}\n',
    "nogold.jsonl": '{"id": "d", "text": "abc", "mentions": [{"spans": [[0, 3]]}]}\n',
    "noname.jsonl": '{"id": "E1", "name": " "}\n',
    "kb.tsv": "D1\tflu\nD2\n",
    "ids": "Z9\nZ8\n",
    "empty": "# none\n",
    "tuned.json": '{"config": {"treshold": 1}}',
    "list.json": "[1]",
    "notes.json": '{"config": "precious"}',
    "notes.md": "# precious",
    "notes.jsonl": '{"id": "1", "text": "precious"}',
    "notes.html": "<!doctype html>\n<html>",
    "key.conll": "#begin document d\nd\t0\tw\t(1)\n#end document\n",
    "odd.conll": "#begin document d\nd\t0\tw\t(1)|2)\n#end document\n",
    "odd.jsonl": '{"mentions": ["a"]}\n{"mentions": ["a"], "cluster": 3}\n',
    "spoilt/manifest.json": "{}",
    "thesis/chapter.txt": "precious",
    "thesis/documents.jsonl": "precious",
}
"""Files beside those of `sample_files`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = sample_files(tmp_path_factory.mktemp("errors"))
    for name, text in _DATA.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("nothing", 2, "No such command 'nothing'"),
        ("link", 2, "Missing"),
        ("kb", 2, ""),
        ("link test.jsonl --kb kb.jsonl", 2, "the run needs a folder; give it to --out"),
        (f"{_LINK} --bogus", 2, "No such option: --bogus"),
        ("discover test.jsonl --kb kb.jsonl --out out", 2, "No such option: --kb"),
        ("train finder --edges x", 2, "No such option: --edges"),
        ("link test.jsonl --format word --kb kb.jsonl --out out", 2, "'word' is not one of"),
        ("export run --to docx --out x", 2, "'--to': 'docx' is not one of"),
        ("train encoder --preset proxies", 2, "'--preset': 'proxies' is not one of"),
        (f"{_LINK} --k -1", 2, "k must be an integer of at least 0, not -1"),
        (f"{_LINK} --k many", 2, "k must be an integer of at least 0, not 'many'"),
        (f"{_LINK} --method kmeans", 2, "'kmeans' is not one of arborescence, minimax, undirected, independent"),
        (f"{_LINK} --threshold low", 2, "mention_threshold"),
        (f"{_LINK} --threshold 0.1,0.2,0.3", 2, "expected a number or `none`, or two of them"),
        *((f"{_LINK} --threshold {n}", 2, "mention_threshold") for n in ("nan", "0_1", "\u0661", "9" * 401, "1e400")),
        (f"{_LINK} --threshold 0,35", 2, "write 0.35 with a decimal point"),
        (f"{_LINK} --set treshold=1", 2, "unknown setting 'treshold'; did you mean "),
        (f"{_LINK} --set k", 2, "--set k: write NAME=VALUE, such as k=8, or @FILE"),
        (f"{_LINK} --set @list.json", 2, "must have a JSON object of fields"),
        (f"{_LINK} --set context=5", 2, "choose a transformer, or leave context out"),
        (f"{_LINK} --set find_threshold=0.5 --find-mentions dictionary", 2, "`dictionary` has no scores"),
        (f"{_LINK} --preview", 2, "give them to --corrections"),
        (f"{_LINK} --config absent.json", 3, "cannot read the configuration: No such file or directory"),
        (f"{_LINK} --config tuned.json", 3, "tuned.json: unknown setting 'treshold'; did you mean 'nil_threshold'"),
        (f"{_LINK} --encoder ./nowhere", 3, "nowhere"),
        (f"{_LINK} --reranker thesis", 3, "not a cross-encoder that arbo saved"),
        (f"{_LINK} --set skip_margin=0.1", 2, "skip_margin needs a reranker"),
        ("tune test.jsonl --reranker any --out out.json", 2, "--reranker needs --kb"),
        (f"{_LINK} --find-mentions nowhere", 2, "--find-mentions 'nowhere': no such file or folder"),
        ("link absent.jsonl --kb kb.jsonl --out out", 3, "absent.jsonl"),
        ("link all.jsonl --format pubtator --kb kb.jsonl --out out", 3, "all.jsonl"),
        ("link bad.jsonl --kb kb.jsonl --out out", 3, "bad.jsonl, line 2, 'D99': 'text' of a document must be a"),
        ("link bare.jsonl --kb kb.jsonl --out out", 3, "bare.jsonl: the documents have no mentions; if a column"),
        ("link test.jsonl --kb absent.obo --out out", 3, "absent.obo"),
        ("link test.jsonl --kb noname.jsonl --out out", 3, "noname.jsonl, line 1"),
        (f"{_LINK} --types Nonsense", 2, "no mention has the type Nonsense; types of mentions: "),
        (f"{_LINK} --kb-types Specie", 2, "no entity has the type 'Specie'; types of entities: "),
        (f"{_LINK} --kb-xrefs UMLS", 2, "UMLS"),
        (f"{_LINK} --set ids=ids", 3, "ids: no document has one of these ids: 'Z9', 'Z8'; check them"),
        (f"{_LINK} --set ids=empty", 3, "empty: no document has one of these ids: there are none"),
        ("kb check kb.jsonl --kb-format obo", 3, "kb.jsonl"),
        ("kb check thesis --kb-format index", 3, "not an index of a knowledge base: arbo-index.json cannot be read"),
        ("kb convert kb.tsv --out x.jsonl", 3, "kb.tsv, line 2, 'D2'"),
        ("kb convert kb.tsv --columns id --out x.jsonl", 2, "--columns must be KEY=COLUMN"),
        ("kb edit kb.jsonl --out x.jsonl", 2, "nothing to edit: give --add-names"),
        ("kb edit kb.jsonl --remove-names @absent.txt --out x.jsonl", 3, "absent.txt: cannot be read: No such file"),
        ("tune nogold.jsonl --kb kb.jsonl --out out.json", 3, "gold"),
        ("tune test.jsonl --method minimax --out out.json", 2, "minimax"),
        ("tune test.jsonl --objective nil_f1 --out out.json", 2, "nil_f1"),
        ("train encoder train.jsonl --encoder x --set best=ari --out out", 2, "best chooses the model by its score on"),
        ("link test.jsonl --kb kb.jsonl --out thesis", 2, "thesis exists and is not a"),
        ("link test.jsonl --kb kb.jsonl --out ids", 2, "ids exists and is not a"),
        ("link test.jsonl --kb kb.jsonl --out ids/run", 2, "ids is not a writable folder"),
        ("discover test.jsonl --out out --set work=out/work", 2, "is in a run folder; choose another folder"),
        ("discover test.jsonl --out out --ray one:1 --workers 2", 2, "--workers is for --ray local"),
        ("tune test.jsonl --out thesis", 2, "the file's ending must be .json"),
        ("tune test.jsonl --out notes.json", 2, "notes.json exists, and arbo did not write it; choose another path"),
        ("train edges train.jsonl --dev test.jsonl --out notes.json", 2, "notes.json exists, and arbo did not write"),
        ("explore spoilt --out notes.html", 2, "notes.html exists, and arbo did not write it"),
        ("find test.jsonl --kb kb.jsonl --out notes.jsonl", 2, "notes.jsonl exists, and arbo did not write it"),
        ("kb convert kb.jsonl --out notes.jsonl", 2, "notes.jsonl exists, and arbo did not write it"),
        ("export spoilt --to jsonl --out notes.jsonl", 2, "notes.jsonl exists, and arbo did not write it"),
        ("evaluate spoilt --save notes.md", 2, "notes.md exists, and arbo did not write it"),
        ("score key.conll key.conll --save notes.md", 2, "notes.md exists, and arbo did not write it"),
        ("demo --files thesis --out out", 2, "documents.jsonl exists, and arbo did not write it"),
        ("find test.jsonl --kb kb.jsonl --finder magic", 2, "'magic': no such file or folder; choose `dictionary`"),
        ("find test.jsonl --kb kb.jsonl --finder x --set find_threshold=nan", 2, "must be a finite number or None"),
        ("find test.jsonl --kb kb.jsonl --set find_threshold=1", 2, "leave find_threshold out, or use --finder"),
        ("find thesis --format text --kb kb.jsonl --out thesis/x.jsonl", 2, "would change the input"),
        ("find test.jsonl --kb kb.jsonl --out test.jsonl", 2, "would change the input"),
        ("find test.jsonl --kb kb.jsonl --out x.txt", 2, "the file's ending must be .jsonl or .jsonl.gz"),
        ("kb convert kb.jsonl --out kb.jsonl", 2, "would change the input"),
        ("kb convert kb.jsonl --out x.csv", 2, "must be .jsonl or .jsonl.gz or .tsv or .tsv.gz or .parquet"),
        ("kb index kb.jsonl --out thesis", 2, "thesis exists and is not an index of a knowledge base"),
        ("explore spoilt --no-texts", 2, "give --out FILE, or leave --no-texts out"),
        ("explore spoilt --out page.txt", 2, "the file's ending must be .html or .htm"),
        ("evaluate", 2, "Missing argument 'RUN"),
        ("evaluate absent", 3, "absent"),
        ("evaluate spoilt", 3, "manifest.json"),
        *((f"show spoilt --limit={number}", 2, "--limit") for number in ("-1", "1e1")),
        ("explain thesis m", 3, "not a run folder"),
        ("add absent", 2, "Missing option '--out'"),
        ("add absent --out two", 2, "nothing to add: give documents, --corrections, --remove"),
        ("add absent test.jsonl --anew --out two", 2, "exclude each other"),
        ("score", 2, "KEY"),
        ("score key.conll", 2, "RESPONSE"),
        ("score key.conll odd.conll odd.conll", 2, "two systems are the same file or folder"),
        ("score key.conll key.conll --set seed=-1", 2, "seed must be"),
        ("score key.conll odd.conll", 3, "odd.conll, line 2, 'd': chain 2 ends a mention here that has not"),
        ("score key.conll odd.jsonl", 3, "odd.jsonl, line 2: unknown key 'cluster'; known: document"),
        ("score key.conll absent", 3, "absent: cannot be read: No such file"),
        ("score key.conll thesis", 3, "thesis: cannot be read: Is a directory"),
    ],
)
def test_errors(command: str, code: int, words: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = run(*shlex.split(command))
    assert (done.code, words in done.told) == (code, True), done.told
    assert (done.out == "" or command == "kb", "Traceback" in done.err) == (True, False)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_errors_of_runs(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("discover", folder / "test.jsonl", "--out", "run").code == 0
    for command, words in (
        ("add run --remove nothing --out two", "no document or mention 'nothing'"),
        ("add run --anew --out run", "is the run itself or inside it, which is not changed"),
        ("add run --anew --out run/in/it", "is the run itself or inside it"),
        ("add run --anew --kb kb.jsonl --out two", "has no knowledge base; leave --kb"),
        ("diff run", "give two runs: run was not made of another run"),
        ("explain run nobody", "'nobody'"),
        ("evaluate run --save table.html", "table.html: the file's ending must be .csv or .json or"),
        ("evaluate run --save run/manifest.json", "would change the input"),
        ("evaluate run --gold docs --train docs", "--train and --gold exclude each other"),
        ("kb edit kb.jsonl --add-discovered run --out x.csv", "the file's ending must be"),
    ):
        done = run(*command.split())
        assert (done.code, words in done.told) == (2, True), (command, done.told)
    Path("run/links.parquet").write_bytes(b"PAR1")
    assert (run("show", "run").code, "links.parquet" in run("show", "run").told) == (3, True)


def test_only_own_files_are_replaced(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kb, formats = folder / "kb.jsonl", ("csv", "tsv", "jsonl", "pubtator", "bioc", "conll", "clusters")
    assert run("link", folder / "test.jsonl", "--kb", kb, "--out", "run").code == 0
    commands = [
        *(f"export run --to {name} --out {name}{end}" for name in formats for end in ("", ".gz")),
        *(f"kb convert {kb} --out entities{end}" for end in ENDINGS),
        " --save report".join(["evaluate run", *FORMATS]),
        " --save report.of.two".join([f"evaluate run {tmp_path / 'run'}", *FORMATS]),
        f"find {folder / 'test.jsonl'} --kb {kb} --out jsonl.jsonl",
        "explore run --out page.html",
    ]
    for command in commands:
        assert [run(*command.split()).code for _ in range(2)] == [0, 0], command
    foreign = ("{}", '{"id": "1", "name": "a"}', '{"id": "1", "text": "a"}', "id,name\n", "# a\n", "\x1f\x8b", "PAR1")
    for file in filter(Path.is_file, Path().iterdir()):
        check_output(file, file.name.split(".")[0], ("",))
        for text in foreign:
            file.write_text(text, "latin-1")
            with pytest.raises(UsageError, match="exists, and arbo did not write it"):
                check_output(file, file.name.split(".")[0], ("",))


def verbs(group: Any, name: str = "") -> dict[str, Any]:
    """Every verb by its name, those of a group as `kb stats`."""
    found = {}
    for key, command in group.commands.items():
        assert command.help, key
        found |= verbs(command, f"{key} ") if hasattr(command, "commands") else {name + key: command}
    return found


def test_every_option_and_setting_is_explained(run: Run) -> None:
    found = verbs(typer.main.get_command(app))
    assert {"demo", "link", "kb check", "train encoder"} <= set(found)
    for name, verb in found.items():
        assert all(parameter.help for parameter in verb.params), name
        options = {option for parameter in verb.params for option in parameter.opts}
        assert "--json" in options, name
        assert "--settings" in options or name not in ("link", "discover", "tune", "train encoder", "train finder")
        if "--settings" in options:
            shown = run(*name.split(), "--settings")
            assert (shown.code, shown.err) == (0, ""), name
            lines = shown.out.splitlines()
            explained = [lines[row + 1].strip() for row, line in enumerate(lines) if line[:1].strip() and "=" in line]
            assert explained
            assert all(explained), name


@pytest.mark.parametrize("verb", ["link", "discover", "tune", "find", "evaluate", "score"])
def test_a_help_text_fits_two_screens(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 100


SHOWN = Shown((LINKER, ENCODER, READING), ("k", "kb_types"))
seen: list[Chosen] = []


def verb(how: Annotated[Chosen, SHOWN]) -> None:
    """Keep what is given."""
    seen.append(how)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--k 8", {"linker": {"k": "8"}}),
        ("--set k=8 --k 9", {"linker": {"k": "9"}}),
        ("--set context=25", {"encoder": {"context": "25"}}),
        ("--set mention_threshold=0.3", {"linker": {"mention_threshold": "0.3"}}),
        ("--set encoder.mention_threshold=0.3", {"encoder": {"mention_threshold": "0.3"}}),
        ("--set map_types=Chemical=drug", {"linker": {"map_types": "Chemical=drug"}}),
        ("--kb-types A --kb-types B", {"reading": {"kb_types": ["A", "B"]}}),
        ("--set kb_types=A --set kb_types=B", {"reading": {"kb_types": ["A", "B"]}}),
        ("--set @own.json", {"linker": {"k": 3}, "encoder": {"context": 5}}),
    ],
)
def test_fields_are_set_by_name(words: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.json").write_text('{"k": 3, "encoder.context": 5}', "utf-8")
    made = typer.Typer()
    made.command()(spread(verb))
    assert (CliRunner().invoke(made, words.split()).exit_code, seen.pop().values) == (0, expected)

"""The command line: verbs, exit codes, JSON alone on stdout, and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Run

import arbo
from arbo.cli import app
from arbo.data.corpus import Corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample as files: all documents, and the halves `train` and `test`."""
    folder = tmp_path_factory.mktemp("files")
    documents, kb = arbo.load_sample()
    Corpus.of(documents).to_jsonl(folder / "all.jsonl")
    Corpus.of(documents[:45]).to_jsonl(folder / "train.jsonl")
    Corpus.of(documents[45:]).to_jsonl(folder / "test.jsonl")
    kb.to_jsonl(folder / "kb.jsonl")
    return folder


def linking(folder: Path, *, docs: str = "all.jsonl") -> list[object]:
    return [folder / docs, "--format", "jsonl", "--kb", folder / "kb.jsonl", "--kb-format", "jsonl"]


# The main job


def test_link_evaluate_explain(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    linked = run("link", *linking(folder), "--out", out, "--json")
    assert linked.code == 0
    documents, kb = arbo.load_sample()
    result = arbo.Linker(kb).link(documents)
    nil = sum(link.entity is None for link in result.links)
    expected = {"mentions": len(result.links), "nil": nil, "linked": len(result.links) - nil, "run": str(out)}
    assert linked.json.items() >= expected.items()
    assert linked.json["discovered"] == len(result.discovered)
    assert arbo.Result.load(out).link_table == result.link_table

    scored = run("evaluate", out, "--json")
    assert scored.code == 0
    evaluation = result.evaluate()
    assert scored.json == json.loads(json.dumps({**evaluation.as_dict(), "report": evaluation.report("run").as_dict()}))
    assert scored.json["linking"]["accuracy"] == result.evaluate().linking.accuracy  # type: ignore[index,union-attr]
    assert {"clustering", "coreference"} <= set(scored.json)
    assert scored.err == ""

    link = result.links[0]
    explained = run("explain", out, link.mention.id)
    assert str(result.explain(link)) in explained.out
    both = run("explain", out, link.mention.id, result.links[1].mention.id, "--json")
    assert [e["mention"] for e in both.json["explanations"]] == [  # type: ignore[attr-defined]
        link.mention.id,
        result.links[1].mention.id,
    ]


def test_text_for_people(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    linked = run("link", *linking(folder), "--out", out)
    assert "linked" in linked.out
    assert f"arbo evaluate {out}" in linked.out
    scored = run("evaluate", out)
    assert "accuracy" in scored.out
    assert "CoNLL" in scored.out
    assert "95% interval" in scored.out


def test_notes_go_to_stderr(run: Run, folder: Path, tmp_path: Path) -> None:
    linked = run("link", *linking(folder), "--out", tmp_path / "run", "--json")
    assert "gold ids are not in the knowledge base" in linked.err
    assert linked.json["mentions"] > 500  # type: ignore[operator]


def test_discover(run: Run, folder: Path, tmp_path: Path) -> None:
    found = run("discover", folder / "all.jsonl", "--format", "jsonl", "--out", tmp_path / "run", "--json")
    assert found.code == 0
    assert found.json["linked"] == 0
    documents, _ = arbo.load_sample()
    assert found.json["discovered"] == len(arbo.Linker().discover(documents).discovered)
    scored = run("evaluate", tmp_path / "run", "--json")
    assert scored.json["linking"] is None
    assert scored.json["clustering"] is not None


def test_tune_then_link(run: Run, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "tuned.json"
    tuned = run("tune", *linking(folder, docs="train.jsonl"), "--out", file, "--json")
    assert tuned.code == 0
    content = json.loads(file.read_text("utf-8"))
    assert content["config"] == tuned.json["config"]
    assert content["tuning"]["objective"] == tuned.json["objective"] == "accuracy_with_nil"
    run("link", *linking(folder, docs="test.jsonl"), "--config", file, "--out", tmp_path / "run")
    config = arbo.LinkerConfig.from_json(file)
    assert arbo.Result.load(tmp_path / "run").manifest["config"] == config.as_dict()
    documents, kb = arbo.load_sample()
    assert (
        arbo.Result.load(tmp_path / "run").link_table == arbo.Linker(kb, config=config).link(documents[45:]).link_table
    )

    options = ["--k", 1, "--method", "undirected", "--threshold", "0.3,none"]
    run("link", *linking(folder), "--config", file, "--out", tmp_path / "run", *options)
    manifest = arbo.Result.load(tmp_path / "run").manifest
    changed = {"k": 1, "method": "undirected", "entity_threshold": 0.3, "mention_threshold": None}
    assert manifest["config"] == config.as_dict() | changed


def test_tune_discovery(run: Run, folder: Path, tmp_path: Path) -> None:
    docs = [folder / "all.jsonl", "--format", "jsonl"]
    tuned = run("tune", *docs, "--out", tmp_path / "tuned.json", "--json")
    assert tuned.json["objective"] == "ari"
    run("discover", *docs, "--config", tmp_path / "tuned.json", "--out", tmp_path / "run")
    scored = run("evaluate", tmp_path / "run", "--json")
    assert scored.json["clustering"]["ari"] == pytest.approx(tuned.json["score"])  # type: ignore[index]


def test_seen_and_unseen(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    train = ["--train", folder / "train.jsonl", "--format", "jsonl"]
    scores = run("evaluate", tmp_path / "run", *train, "--json").json["linking"]
    assert scores["seen"]["mentions"] > 0  # type: ignore[index]
    assert scores["unseen"]["mentions"] > 0  # type: ignore[index]
    total = scores["seen"]["mentions"] + scores["unseen"]["mentions"]  # type: ignore[index]
    assert total == scores["mentions"]  # type: ignore[index]


@pytest.mark.slow
def test_runs_are_compared(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "linked")
    run("discover", folder / "test.jsonl", "--format", "jsonl", "--out", tmp_path / "found")
    runs = [tmp_path / "linked", tmp_path / "found"]
    shown = run("evaluate", *runs, "--save", tmp_path / "table.md", "--save", tmp_path / "table.tex")
    assert shown.code == 0
    assert "against linked" in shown.out
    assert "| ARI |" in (tmp_path / "table.md").read_text("utf-8")
    assert "\\toprule" in (tmp_path / "table.tex").read_text("utf-8")
    scores = run("evaluate", *runs, "--seed", 3, "--json").json
    assert scores["systems"]["found"]["linking"] is None  # type: ignore[index]
    assert scores["report"]["systems"]["found"]["ARI"]["against_first"]["p_value"] < 1  # type: ignore[index]
    run("link", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "other")
    other = run("evaluate", tmp_path / "linked", tmp_path / "other")
    assert other.code == 2
    assert "only results of the same documents compare" in other.err


@pytest.mark.slow
def test_curves_are_drawn(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder), "--out", tmp_path / "run")
    assert run("evaluate", tmp_path / "run", "--plot", tmp_path / "nil.svg").code == 0
    assert (tmp_path / "nil.svg").read_text("utf-8").startswith("<?xml")
    tuned = run("tune", *linking(folder), "--out", tmp_path / "tuned.json", "--plot", tmp_path / "tuned.png")
    assert tuned.code == 0
    assert (tmp_path / "tuned.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "file", "wrong"),
    [
        ("--save", "table.html", "ending must be one of .json"),
        ("--plot", "curve.pdf", "ending must be one of .png"),
        ("--save", "nowhere/table.md", "there is no folder"),
        ("--save", "run/manifest.json", "would overwrite an input"),
    ],
)
@pytest.mark.slow
def test_outputs_are_checked_before_the_work(
    run: Run, folder: Path, tmp_path: Path, option: str, file: str, wrong: str
) -> None:
    run("link", *linking(folder), "--out", tmp_path / "run")
    outcome = run("evaluate", tmp_path / "run", option, tmp_path / file)
    assert outcome.code == 2
    assert wrong in outcome.err
    assert outcome.out == ""
    assert run("evaluate", tmp_path / "run").code == 0


def test_a_curve_of_nothing_comes_after_the_table(run: Run, folder: Path, tmp_path: Path) -> None:
    mention = arbo.Mention("m", "d", ((0, 9),), "RV Petrel", gold=("DS:0001",))
    Corpus.of([arbo.Document("d", "RV Petrel", (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    run("link", tmp_path / "docs.jsonl", *linking(folder)[1:], "--out", tmp_path / "run")
    outcome = run("evaluate", tmp_path / "run", "--plot", tmp_path / "nil.png")
    assert outcome.code == 2
    assert "accuracy" in outcome.out
    assert "no mention is NIL in truth" in outcome.err


def test_types(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("link", *linking(folder), "--types", "Species", "--types", "Disease", "--out", out)
    assert set(arbo.Result.load(out).mention_table["type"].to_pylist()) == {"Species", "Disease"}


def test_demo(run: Run, tmp_path: Path) -> None:
    shown = run("demo", "--files", tmp_path / "sample")
    assert shown.code == 0
    assert "weakest step" in shown.out
    assert "new-3" in shown.out
    assert "accuracy" in shown.out
    assert arbo.read_jsonl(tmp_path / "sample" / "documents.jsonl") == arbo.load_sample()[0]
    assert run("demo", "--json").json["linking"] is not None


def test_a_path_that_looks_like_markup(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "[b] a :smile: [" / "run"
    linked = run("link", *linking(folder, docs="test.jsonl"), "--out", out)
    assert linked.code == 0
    assert str(out) in linked.out
    assert run("evaluate", out).code == 0


def test_names_that_look_like_markup_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    names = ["[bold]ghost[/bold]", "[/nothing]", "<script>x</script>", "=cmd()", ":smile:"]
    documents = []
    for i, name in enumerate(names):
        mention = arbo.Mention(f"m{i}", f"[d{i}]", ((0, len(name)),), name)
        documents.append(arbo.Document(f"[d{i}]", name, (mention,)))
    Corpus.of(documents).to_jsonl(tmp_path / "docs.jsonl")
    found = run("discover", tmp_path / "docs.jsonl", "--format", "jsonl", "--out", tmp_path / "run")
    assert found.code == 0
    shown = " ".join(found.out.split())
    assert all(name in shown for name in names[:2])
    explained = run("explain", tmp_path / "run", *(f"m{i}" for i in range(len(names))))
    assert all(f'"{name}" in [d{i}]' in explained.out for i, name in enumerate(names))


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    name = "ghost\x1b[2J\x9b31m\x07"
    mention = arbo.Mention("m", "d", ((0, len(name)),), name)
    Corpus.of([arbo.Document("d", name, (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    found = run("discover", tmp_path / "docs.jsonl", "--format", "jsonl", "--out", tmp_path / "run")
    explained = run("explain", tmp_path / "run", "m")
    for shown in (found.out, explained.out):
        assert "ghost\\x1b[2J\\x9b31m\\x07" in " ".join(shown.split())
        assert not {"\x1b", "\x9b", "\x07"} & set(shown)


# A transformer


@pytest.mark.slow
def test_a_transformer_tunes_links_and_discovers(
    run: Run, folder: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    reader = tmp_path / "reader.json"
    reader.write_text('{"mention": "[CLS] {left} {mention} {right} [SEP]", "pooling": "mention", "context": 5}')
    model = ("--encoder", bert_folder, "--encoder-config", reader)
    tuned = tmp_path / "tuned.json"
    assert run("tune", *linking(folder, docs="train.jsonl"), *model, "--out", tuned).code == 0
    assert list((tmp_path / "home" / "arbo").rglob("*.safetensors")), "embeddings are kept by default"
    # The file remembers the encoder, weights and all.
    linked = run("link", *linking(folder, docs="test.jsonl"), "--config", tuned, "--out", tmp_path / "run")
    assert linked.code == 0, linked.err
    settings = arbo.Result.load(tmp_path / "run").manifest["encoder"]
    assert settings["model"] == str(bert_folder)
    assert settings["config"]["context"] == 5
    for other in ((), ("--encoder", "ngram"), ("--encoder", bert_folder)):
        spoilt = json.loads(tuned.read_text("utf-8"))
        if not other:
            spoilt["encoder"]["weights"] = ["0" * 64]
        (tmp_path / "spoilt.json").write_text(json.dumps(spoilt))
        if other == ("--encoder", bert_folder):
            other = (*other, "--encoder-config", tmp_path / "other.json")
            (tmp_path / "other.json").write_text('{"pooling": "cls"}')
        wrong = run("link", *linking(folder), "--config", tmp_path / "spoilt.json", *other, "--out", tmp_path / "no")
        assert wrong.code == 2
        assert "tuned with another encoder" in wrong.err
        assert not (tmp_path / "no").exists()
    cache = tmp_path / "cache"
    found = run(
        "discover", folder / "all.jsonl", "--format", "jsonl", *model, "--cache", cache, "--out", tmp_path / "found"
    )
    assert found.code == 0
    assert list(cache.rglob("*.safetensors"))


@pytest.mark.slow
def test_an_encoder_that_cannot_be(run: Run, folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    job = ("link", *linking(folder), "--out", tmp_path / "run")
    config = tmp_path / "encoder.json"
    config.write_text('{"pooling": "median"}')
    for options, code, told in (
        (("--encoder", tmp_path / "nowhere"), 3, "nowhere"),
        (("--encoder-config", config), 2, "name one with --encoder"),
        (("--encoder", bert_folder, "--encoder-config", config), 3, "'median' is not one of cls, mean, mention"),
        (("--search", "hnsw"), 2, "dense vectors"),
        (("--encoder", "ngrams"), 2, "did you mean ngram?"),
        (("--encoder", "MiniLM-L6-v2"), 2, "did you mean all-MiniLM-L6-v2?"),
        (("--cache", tmp_path), 2, "name one with --encoder"),
    ):
        done = run(*job, *options)
        assert done.code == code, done.err
        assert told in " ".join(done.err.split())
    assert not (tmp_path / "run").exists()


def test_an_approximate_search_says_what_it_found(run: Run, folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    model = ("--encoder", bert_folder, "--cache", tmp_path / "cache", "--search", "ivf")
    linked = run("link", *linking(folder), *model, "--out", tmp_path / "run")
    assert linked.code == 0
    assert "ivf found 100.0% of the nearest entities" in " ".join(linked.err.split())
    manifest = arbo.Result.load(tmp_path / "run").manifest
    assert manifest["search"] == {"method": "ivf", "recall": {"entities": 1.0, "mentions": 1.0}}
    assert manifest["config"]["search"] == "ivf"


def test_a_first_stage_says_what_it_found(
    run: Run, folder: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clustering.comparison.CANDIDATES", 16)
    config = tmp_path / "encoder.json"
    config.write_text('{"pooling": "tokens"}')
    model = ("--encoder", bert_folder, "--encoder-config", config)
    linked = run("link", *linking(folder), *model, "--out", tmp_path / "run")
    assert linked.code == 0
    search = arbo.Result.load(tmp_path / "run").manifest["search"]
    assert search["method"] == "exact"
    for what in ("entities", "mentions"):
        assert 0 < search["recall"][what] < 1
        assert f"the first stage found {search['recall'][what]:.1%} of the nearest {what}" in " ".join(
            linked.err.split()
        )


@pytest.mark.slow
def test_a_dry_run_tells_and_does_nothing(run: Run, folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    model = ("--encoder", bert_folder, "--cache", tmp_path / "cache")
    for verb in (("link", *linking(folder)), ("discover", folder / "all.jsonl", "--format", "jsonl")):
        for encoder in ((), model):
            told = run(*verb, *encoder, "--out", tmp_path / "run", "--dry-run")
            assert told.code == 0
            assert "584 mentions" in told.out
            assert "peak memory about" in told.out
            assert ("texts to embed" in told.out) == bool(encoder)
            counts = run(*verb, *encoder, "--out", tmp_path / "run", "--dry-run", "--json").json
            assert counts["mentions"] == 584
    assert not (tmp_path / "run").exists()


# A knowledge base alone


def test_kb_stats(run: Run, folder: Path) -> None:
    shown = run("kb", "stats", folder / "kb.jsonl", "--kb-format", "jsonl")
    assert (shown.code, shown.err) == (0, "")
    assert "entities" in shown.out
    assert "120" in shown.out
    counted = run("kb", "stats", folder / "kb.jsonl", "--kb-format", "jsonl", "--examples", 1, "--json")
    stats = arbo.load_sample()[1].stats(examples=1)
    assert counted.json == json.loads(json.dumps(stats.as_dict()))


def test_kb_stats_through_xrefs(run: Run, tmp_path: Path) -> None:
    arbo.KnowledgeBase([arbo.Entity("A", "a [b]c[/b]", xrefs=("MSH:D1",))]).to_jsonl(tmp_path / "kb.jsonl")
    command = ["kb", "stats", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--json"]
    assert run(*command).json["alternative_ids"] == 0
    assert run(*command, "--kb-xrefs", "MSH").json["alternative_ids"] == 4
    assert run(*command, "--kb-xrefs", "UMLS").code == 2


def test_kb_validate_tells_errors_from_warnings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    command = ["kb", "validate", path, "--kb-format", "jsonl"]
    lines = ['{"id": "A", "name": "flu"}', '{"id": "B", "name": "[bold]x[/bold]", "aliases": ["Flu", ":smile:"]}']
    path.write_text(lines[0])
    assert run(*command).out == "no problem\n"
    assert run(*command, "--json").json == {"entities": 1, "errors": 0, "warnings": 0, "problems": []}

    path.write_text("\n".join(lines))
    warned = run(*command, "--json")
    assert warned.code == 0
    assert [problem["kind"] for problem in warned.json["problems"]] == ["name-is-alias"]  # type: ignore[attr-defined]
    shown = run(*command)
    assert (shown.code, shown.err) == (0, "")
    assert '"flu", "Flu": A, B' in shown.out
    assert "kinds of errors: 0, kinds of warnings: 1" in shown.out
    assert '"flu", "Flu"' not in run(*command, "--examples", 0).out

    path.write_text("\n".join((*lines, '{"id": "C"}', '{"id": " D", "name": "[bold]x[/bold]"}')))
    failed = run(*command, "--json")
    assert failed.code == 3
    assert (failed.json["entities"], failed.json["errors"], failed.json["warnings"]) == (3, 2, 2)
    text = run(*command)
    assert text.code == 3
    assert text.out.startswith("error (1): malformed entities skipped")
    assert '"[bold]x[/bold]": B,  D' in text.out


def test_kb_that_cannot_be_read(run: Run, folder: Path, tmp_path: Path) -> None:
    for verb in ("stats", "validate"):
        for arguments, code in (
            ([tmp_path / "absent", "--kb-format", "obo"], 3),
            ([folder / "kb.jsonl", "--kb-format", "word"], 2),
            ([folder / "kb.jsonl"], 2),
            ([folder / "kb.jsonl", "--kb-format", "jsonl", "--examples", -1], 2),
        ):
            outcome = run("kb", verb, *arguments)
            assert (outcome.code, outcome.out) == (code, ""), arguments
            assert outcome.err
            assert "Traceback" not in outcome.err
    bad = tmp_path / "kb.tsv"
    bad.write_text("D1\tflu\nD2\n")
    assert f"{bad}, line 2, 'D2'" in run("kb", "stats", bad, "--kb-format", "tsv").err
    assert run("kb").code == 2


def test_where_the_malformed_entities_stand_is_said_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "kb.obo"
    path.write_text("[Term]\nid: A\nname: a flu\nsynonym: bare EXACT []\n[Term]\nid: B\nbroken\n")
    done = arbo_process("kb", "validate", path, "--kb-format", "obo", "--json")
    assert done.returncode == 3
    assert done.stderr == f"skipped: {path}, line 7, 'B': expected a line of the form `tag: value`\n"
    assert [p["kind"] for p in json.loads(done.stdout)["problems"]] == ["malformed-synonym", "malformed-entity"]


# What goes wrong


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
        ["link", *linking(folder), *out, "--threshold=-inf"],
        ["link", *linking(folder), *out, "--types", "Nonsense"],
        ["link", folder / "all.jsonl", "--format", "word", *linking(folder)[3:], *out],
        ["discover", folder / "all.jsonl", "--format", "jsonl", *out, "--kb", folder / "kb.jsonl"],
        ["tune", folder / "all.jsonl", "--format", "jsonl", "--kb", folder / "kb.jsonl", *out],
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


def test_an_unknown_mention_is_2(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    outcome = run("explain", tmp_path / "run", "nobody")
    assert (outcome.code, outcome.out) == (2, "")
    assert "'nobody'" in outcome.err
    assert run("evaluate", tmp_path / "run", "--format", "jsonl").code == 2


def test_a_folder_that_is_no_run_is_refused_before_anything_is_read(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    for place in (tmp_path, tmp_path / "thesis.txt", tmp_path / "thesis.txt" / "run"):
        outcome = run("link", "absent.jsonl", *linking(folder)[1:], "--out", place)
        assert outcome.code == 2
        assert str(tmp_path) in outcome.err
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_bad_data_is_3_and_names_the_place(run: Run, folder: Path, tmp_path: Path) -> None:
    good = (folder / "all.jsonl").read_text("utf-8").splitlines()
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([*good[:2], '{"id": "D99", "text": 5}', good[3]]), "utf-8")
    outcome = run("link", bad, *linking(folder)[1:], "--out", tmp_path / "run")
    assert (outcome.code, outcome.out) == (3, "")
    assert f"{bad}, line 3, 'D99'" in outcome.err
    assert not (tmp_path / "run").exists()

    skipped = run("link", bad, *linking(folder)[1:], "--out", tmp_path / "run", "--on-error", "skip", "--json")
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
        (["explain", tmp_path, "m"], "no run folder"),
    ]
    for arguments, message in bad:
        outcome = run(*arguments)
        assert (outcome.code, outcome.out) == (3, ""), arguments
        assert message in outcome.err
        assert "Traceback" not in outcome.err
    assert not (tmp_path / "run").exists()


def test_a_spoiled_run_is_3(run: Run, folder: Path, tmp_path: Path) -> None:
    run("link", *linking(folder, docs="test.jsonl"), "--out", tmp_path / "run")
    (tmp_path / "run" / "links.parquet").write_bytes(b"PAR1")
    outcome = run("evaluate", tmp_path / "run")
    assert outcome.code == 3
    assert "links.parquet" in outcome.err


def test_documents_without_mentions(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"id": "d", "text": "no mention"}\n')
    for docs in ([tmp_path / "docs.jsonl", *linking(folder)[1:]],):
        assert run("link", *docs, "--out", tmp_path / "run").code == 0
    assert run("discover", tmp_path / "docs.jsonl", "--format", "jsonl", "--out", tmp_path / "run").code == 0
    assert run("evaluate", tmp_path / "run", "--json").json["clustering"] is None
    assert "nothing to score" in run("evaluate", tmp_path / "run").out


def verbs(group: Any, name: str = "") -> dict[str, Any]:
    """Every verb by its name, those of a group as `kb stats`."""
    found = {}
    for key, command in group.commands.items():
        assert command.help, key
        found |= verbs(command, f"{key} ") if hasattr(command, "commands") else {name + key: command}
    return found


def test_every_option_is_explained() -> None:
    found = verbs(typer.main.get_command(app))
    expected = {"demo", "link", "discover", "tune", "evaluate", "explain", "score", "kb stats", "kb validate"}
    assert expected <= set(found)
    for verb in found.values():
        for parameter in verb.params:
            assert parameter.help, (verb.name, parameter.name)
        assert any("--json" in parameter.opts for parameter in verb.params), verb.name


# As a process


def arbo_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arbo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


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
import pyarrow.parquet as pq
import arbo.linker
from arbo.cli import main

def hang(*args, **settings):
    print("hanging", file=sys.stderr, flush=True)
    time.sleep(60)

if sys.argv.pop(1) == "searching":
    arbo.linker.retrieve = hang
else:
    write = pq.write_table
    pq.write_table = lambda table, file: hang() if "links" in file.name else write(table, file)
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


# What a first user ran into


def test_the_version(run: Run) -> None:
    shown = run("--version")
    assert (shown.code, shown.out.split()[0]) == (0, "arbo")


def test_tune_replaces_an_earlier_tuning_and_nothing_else(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    refused = run("tune", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "thesis.txt")
    assert refused.code == 3
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "mine"
    for _ in range(2):
        assert run("tune", *linking(folder, docs="train.jsonl"), "--out", tmp_path / "tuned.json").code == 0


def test_ids_that_do_not_match_are_told_and_xrefs_mend_it(run: Run, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("DOID:8", "marsh fever", xrefs=("MSH:D1",))])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    mention = arbo.Mention("m", "d", ((0, 11),), "marsh fever", gold=("D1",))
    Corpus.of([arbo.Document("d", "marsh fever", (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    command = ["link", tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl"]
    command += ["--kb-format", "jsonl", "--out", tmp_path / "run"]
    assert "--kb-xrefs" in run(*command).err
    assert "--kb-xrefs" not in run(*command, "--kb-xrefs", "MSH").err
    assert run("evaluate", tmp_path / "run", "--json").json["linking"]["accuracy"] == 1  # type: ignore[index]
    assert run(*command, "--kb-xrefs", "UMLS").code == 2

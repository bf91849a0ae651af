"""`arbo link` and `arbo discover`: what is written, what people see, what is told by the way."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from cli_builders import arbo_process, linking, sample_files
from conftest import Run

import arbo
from arbo.data.corpus import Corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `sample_files`."""
    return sample_files(tmp_path_factory.mktemp("files"))


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


def test_types(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("link", *linking(folder), "--types", "Species", "--types", "Disease", "--out", out)
    assert set(arbo.Result.load(out).mention_table["type"].to_pylist()) == {"Species", "Disease"}


@pytest.mark.slow
def test_an_encoder_that_cannot_be(run: Run, folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    job = ("link", *linking(folder), "--out", tmp_path / "run")
    config = tmp_path / "encoder.json"
    config.write_text('{"pooling": "median"}')
    for options, code, told in (
        (("--encoder", tmp_path / "nowhere"), 3, "nowhere"),
        (("--set", f"@{config}"), 2, "choose a transformer, or leave"),
        (("--encoder", bert_folder, "--set", f"@{config}"), 2, "'median' is not one of cls, mean, mention"),
        (("--set", "search=hnsw"), 2, "dense vectors"),
        (("--threshold", "0,35"), 2, "write 0.35 with a decimal point; for a limit of 0 on entity edges write 0.0,35"),
        (("--encoder", "ngrams"), 2, "did you mean ngram?"),
        (("--encoder", "MiniLM-L6-v2"), 2, "did you mean all-MiniLM-L6-v2?"),
        (("--set", f"cache={tmp_path}"), 2, "choose a transformer, or leave"),
    ):
        done = run(*job, *options)
        assert done.code == code, done.err
        assert told in " ".join(done.err.split())
    assert not (tmp_path / "run").exists()


def test_an_approximate_search_says_what_it_found(run: Run, folder: Path, bert_folder: Path, tmp_path: Path) -> None:
    model = ("--encoder", bert_folder, "--set", f"cache={tmp_path / 'cache'}", "--set", "search=hnsw")
    linked = run("link", *linking(folder), *model, "--out", tmp_path / "run")
    assert linked.code == 0
    assert "hnsw found 100.0% of the nearest entities" in " ".join(linked.err.split())
    manifest = arbo.Result.load(tmp_path / "run").manifest
    assert manifest["search"] == {"method": "hnsw", "recall": {"entities": 1.0, "mentions": 1.0}, "within": None}
    assert manifest["config"]["search"] == "hnsw"


def test_a_first_stage_says_what_it_found(
    run: Run, folder: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clustering.comparison.CANDIDATES", 16)
    config = tmp_path / "encoder.json"
    config.write_text('{"pooling": "tokens"}')
    model = ("--encoder", bert_folder, "--set", f"@{config}")
    linked = run("link", *linking(folder), *model, "--out", tmp_path / "run")
    assert linked.code == 0
    search = arbo.Result.load(tmp_path / "run").manifest["search"]
    assert search["method"] == "exact"
    for what in ("entities", "mentions"):
        assert 0 < search["recall"][what] < 1
        assert f"the first stage found {search['recall'][what]:.1%} of the nearest {what}" in " ".join(
            linked.err.split()
        )


def test_a_folder_that_is_no_run_is_refused_before_anything_is_read(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    for place in (tmp_path, tmp_path / "thesis.txt", tmp_path / "thesis.txt" / "run"):
        outcome = run("link", "absent.jsonl", *linking(folder)[1:], "--out", place)
        assert outcome.code == 2
        assert str(tmp_path) in outcome.err
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_documents_without_mentions_say_how_to_find_some(run: Run, folder: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"id": "d", "text": "no mention", "entities": []}\n')
    for verb in (["link", *linking(folder)[3:]], ["discover"], ["tune", *linking(folder)[3:]]):
        outcome = run(*verb, docs, "--out", tmp_path / "run")
        assert outcome.code == 3
        assert f"error: {docs}: the documents have no mentions; if they should have some, check --format" in outcome.err
        assert "docs.jsonl: read as jsonl (--format overrides)" in outcome.err
        assert "docs.jsonl: further columns of documents kept: entities" in outcome.err
    assert run("link", *linking(folder)[3:], docs, "--find-mentions", "Dictionary", "--out", tmp_path / "run").code == 0


def test_formats_are_guessed_and_told_and_inputs_may_be_several(run: Run, folder: Path, tmp_path: Path) -> None:
    first, *rest = (folder / "all.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "1.jsonl").write_text(first, "utf-16")
    (tmp_path / "2.jsonl").write_bytes(gzip.compress("".join(rest).encode()))
    for docs in ([tmp_path / "*.jsonl"], [tmp_path / "1.jsonl", tmp_path / "2.jsonl"], [tmp_path]):
        outcome = run("link", *docs, "--kb", folder / "kb.jsonl", "--out", tmp_path / "run", "--json")
        assert outcome.json["mentions"] == len(arbo.load_sample()[0].mentions)
        assert "kb.jsonl: read as jsonl (--kb-format overrides)" in outcome.err
        assert ": read as jsonl (--format overrides)" in outcome.err
    assert "read as" not in run("link", *linking(folder), "--out", tmp_path / "run").err


def test_the_standard_input_is_read(folder: Path, tmp_path: Path) -> None:
    command = ["-", "--kb", folder / "kb.jsonl", "--out", tmp_path / "run", "--json"]
    with (folder / "all.jsonl").open("rb") as stream:
        done = arbo_process("link", *command, stdin=stream)
    assert done.returncode == 0
    assert "-: read as jsonl" in done.stderr


def test_types_are_proposed_if_they_explain_missing_ids(run: Run, tmp_path: Path) -> None:
    arbo.KnowledgeBase([arbo.Entity("D1", "flu", xrefs=("X:C1",))]).to_jsonl(tmp_path / "kb.jsonl")
    docs, command = tmp_path / "docs.jsonl", ["--kb", tmp_path / "kb.jsonl", "--out", tmp_path / "run"]
    kinds = [("Disease", "D1"), ("Chemical", "C1"), ("Chemical", "C2"), (None, "C3")]
    mentions = [arbo.Mention(f"m{n}", "d", ((0, 3),), "flu", kind, (id_,)) for n, (kind, id_) in enumerate(kinds)]
    Corpus.of([arbo.Document("d", "flu", tuple(mentions))]).to_jsonl(docs)
    hint = "warning: 75% of the mentions with gold ids have only ids missing from the knowledge base; "
    assert f"{hint}the ids of Disease are there: try --types Disease\n" in run("link", docs, *command).err
    assert "missing from" not in run("link", docs, *command, "--types", "Disease").err
    chemicals = run("link", docs, *command, "--types", "Chemical").err
    assert "missing from the knowledge base; cross-references of its entities match 1 of these ids" in chemicals
    assert "try --set kb_xrefs=X\n" in chemicals
    Corpus.of([arbo.Document("d", "flu", (mentions[3],))]).to_jsonl(docs)
    assert "check that the ids match: the documents have 'C3', for example, the knowledge base 'D1'" in (
        run("link", docs, *command).err
    )


def test_ids_that_do_not_match_are_told_and_xrefs_mend_it(run: Run, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("DOID:8", "marsh fever", xrefs=("MSH:D1",))])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    mention = arbo.Mention("m", "d", ((0, 11),), "marsh fever", gold=("D1",))
    Corpus.of([arbo.Document("d", "marsh fever", (mention,))]).to_jsonl(tmp_path / "docs.jsonl")
    command = ["link", tmp_path / "docs.jsonl", "--format", "jsonl", "--kb", tmp_path / "kb.jsonl"]
    command += ["--kb-format", "jsonl", "--out", tmp_path / "run"]
    assert "try --set kb_xrefs=MSH" in run(*command).told
    assert "kb_xrefs" not in run(*command, "--kb-xrefs", "MSH").err
    assert run("evaluate", tmp_path / "run", "--json").json["linking"]["accuracy"] == 1  # type: ignore[index]
    assert run(*command, "--kb-xrefs", "UMLS").code == 2


def test_what_is_read_as_gold_and_what_is_doubtful(run: Run, tmp_path: Path) -> None:
    arbo.KnowledgeBase([arbo.Entity(f"E{row}", "flu") for row in range(3)]).to_jsonl(tmp_path / "kb.jsonl")
    mentions = [
        {"spans": [[4 * row, 4 * row + 3]], "entities": [id_]} for row, id_ in enumerate(("<NIL>", "<NIL>", "E0"))
    ]
    (tmp_path / "docs.jsonl").write_text(json.dumps({"id": "d", "text": "flu flu flu", "mentions": mentions}))
    docs = (tmp_path / "docs.jsonl", "--format", "jsonl")
    kb = ("--kb", tmp_path / "kb.jsonl", "--kb-format", "jsonl")
    gold = "3 mentions have gold ids (`entities`), which are only used to score the links; if arbo made these"
    doubt = "warning: 2 of 3 mentions with gold ids have the id '<NIL>'"
    for verb, *options in (("link", *docs, *kb), ("discover", *docs)):
        told = run(verb, *options, "--out", tmp_path / "run").err
        assert gold in told
        assert doubt in told
        assert ("warning: 3 of 3 links have the margin 0" in told) == (verb == "link")
    for options in (kb, ()):
        assert doubt in run("tune", *docs, *options, "--out", tmp_path / "tuned.json").err
    (tmp_path / "docs.jsonl").write_text(json.dumps({"id": "d", "text": "flu", "mentions": [{"spans": [[0, 3]]}]}))
    assert run("discover", *docs, "--out", tmp_path / "run").err == ""

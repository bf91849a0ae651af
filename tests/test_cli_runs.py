"""The verbs that read runs, those of `arbo kb`, and the verbs that read an index."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from builders import linking, save_data, save_lines
from conftest import Run, Sample

import arbo
from arbo.kb.problems import figures_of


@pytest.mark.slow
def test_runs_are_compared(run: Run, files: Path, tmp_path: Path) -> None:
    linked, found, other = (tmp_path / name for name in ("linked", "found", "other"))
    run("link", *linking(files, "test.jsonl"), "--out", linked)
    run("discover", files / "test.jsonl", "--format", "jsonl", "--out", found)
    shown = run("evaluate", linked, found)
    assert (shown.code, "against linked" in shown.out) == (0, True)
    scores = run("evaluate", linked, found, "--set", "seed=3", "--json").json
    assert scores["systems"]["found"]["linking"] is None
    assert scores["report"]["systems"]["found"]["ARI"]["against_first"]["p_value"] < 1
    run("link", *linking(files, "train.jsonl"), "--out", other)
    refused = run("evaluate", linked, other)
    assert (refused.code, "compare only results of the same documents" in refused.err) == (2, True)


def test_mentions_are_explained_by_document_entity_or_text(run: Run, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("link", *linking(files, "test.jsonl"), "--out", out)
    result = arbo.Result.load(out)
    mention = result.links[0].mention
    of_document = [link.mention.id for link in result.links if link.mention.document_id == mention.document_id]
    listed = run("explain", out, mention.document_id)
    assert f"{len(of_document)} mentions of {mention.document_id}" in listed.err
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["mention_id", *of_document]
    every = run("explain", out, mention.document_id, "--json").json["explanations"]
    assert [one["mention"] for one in every] == of_document
    alike = {link.mention.id for link in result.links if link.mention.text.lower() == mention.text.lower()}
    called = run("explain", out, mention.text.upper(), "--json").json["explanations"]
    assert {one["mention"] for one in called} >= alike
    cluster = next(cluster for cluster in result.clusters if len(cluster.mentions) == 1)
    alone = run("explain", out, cluster.id).out.strip()
    assert alone == str(result.explain(cluster.id)).strip() == str(result.explain(cluster.mentions[0].id)).strip()
    with pytest.raises(arbo.UsageError, match=f"{len(of_document)} mentions of '{mention.document_id}'; choose one by"):
        result.explain(mention.document_id)


@pytest.fixture
def grown(tmp_path: Path, sample: Sample, run: Run) -> Path:
    """Return a grown with the sample in two parts, and a run on the first part."""
    documents, kb = sample
    save_data(tmp_path, documents[:60], kb)
    arbo.Corpus.of(documents[60:]).to_jsonl(tmp_path / "more.jsonl")
    assert run("link", *linking(tmp_path, "docs.jsonl"), "--out", tmp_path / "one", "--k", 3).code == 0
    return tmp_path


def test_a_run_knows_the_run_of_which_it_was_made(grown: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grown)
    assert run("add", "one", "more.jsonl", "--out", "two").code == 0
    assert arbo.Result.load("two").manifest["parent"]["path"] == "one"
    told = run("diff", "one", "two", "--json").json
    assert told["clusters"]
    assert run("diff", "two", "--json").json == told
    monkeypatch.chdir("/")
    assert run("diff", grown / "two", "--json").json == told  # beside the run
    arbo.Result.load(grown / "two").save(grown / "one")
    refused = run("diff", grown / "two")
    assert refused.code == 2
    assert f"is gone or has changed; give its place: `arbo diff PLACE {grown / 'two'}`" in refused.told


def test_documents_are_added_as_those_of_the_run_were_read(tmp_path: Path, run: Run) -> None:
    save_lines(tmp_path / "kb.jsonl", {"id": "E1", "name": "marsh fever"}, {"id": "E2", "name": "sea flu"})
    for name, rows in (("one", ["marsh fever", "", "sea flus"]), ("more", ["marsh fevers"])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["name,n", *(f"{row},1" for row in rows)]) + "\n")
        (tmp_path / f"{name}.txt").write_text(f"{rows[0]} and sea flu")
        mentions = [{"spans": [[i, i + 9]], "type": kind} for i, kind in enumerate(["Disease", "Chemical"])]
        save_lines(tmp_path / f"{name}.jsonl", {"id": name, "text": "marsh fevers", "mentions": mentions})
    (tmp_path / "all.csv").write_text("name,n\nmarsh fever,1\n,1\nsea flus,1\nmarsh fevers,1\n")
    ways = {"csv": ["--text-column", "name"], "txt": ["--find-mentions", "dictionary"], "jsonl": ["--types", "Disease"]}
    for ending, how in ways.items():
        base = [*how, "--kb", tmp_path / "kb.jsonl", "--out"]
        assert run("link", tmp_path / f"one.{ending}", *base, tmp_path / "a").code == 0
        for before, change, out in (("a", tmp_path / f"more.{ending}", "b"), ("b", "--anew", "c")):
            run("add", tmp_path / before, change, "--out", tmp_path / out).ok()
        files = [tmp_path / f"{name}.{ending}" for name in (["all"] if ending == "csv" else ["one", "more"])]
        assert run("link", *files, *base, tmp_path / "d").code == 0
        grown, whole = (arbo.Result.load(tmp_path / name) for name in ("c", "d"))
        assert (len(grown.links), grown.link_table) == (2 if ending == "jsonl" else 4, whole.link_table)


def test_runs_grow_shrink_are_refitted_and_follow_a_release(grown: Path, sample: Sample, run: Run) -> None:
    documents, kb = sample
    one, two, three, four = (grown / name for name in ("one", "two", "three", "four"))
    told = run("add", one, grown / "more.jsonl", "--out", two).ok()  # the run knows where its knowledge base is
    assert all(words in told.out for words in ("mentions: ", f"arbo diff {two}\n"))
    at_once = arbo.Linker(kb, config=arbo.LinkerConfig(k=3)).link(documents)
    both = (run.link_table.drop_columns(["confidence"]) for run in (arbo.Result.load(two), at_once))
    assert next(both) == next(both)
    refit = run("add", "--anew", two, "--out", three, "--json").json
    assert (refit["clusters"], refit["mentions"]) == ([], [])
    removed = (word for document in documents[60:] for word in ("--remove", document.id))
    assert run("add", three, *removed, "--kb", grown / "kb.jsonl", "--out", four).code == 0
    assert arbo.Result.load(four).link_table == arbo.Result.load(one).link_table

    arbo.KnowledgeBase([*kb.entities[3:], arbo.Entity("N1", "kelp lung")]).to_jsonl(grown / "kb.jsonl")
    for verb in (["add", two, grown / "more.jsonl"], ["add", "--anew", two]):
        told = run(*verb, "--out", three)
        assert (told.code, "kb.jsonl has changed since" in told.err) == (2, True)
    told = run("add", two, "--kb", grown / "kb.jsonl", "--out", three).ok()
    assert "knowledge base: 1 new, 3 gone\n" in told.out
    assert run("add", "--anew", three, "--out", four, "--json").json["mentions"] == []
    assert "\tcause\t" in run("diff", two, three).out.splitlines()[0]
    (grown / "kb.jsonl").unlink()
    told = run("add", three, "--remove", documents[0].id, "--out", four)
    assert (told.code, "is no longer at" in told.err) == (2, True)


def test_another_file_is_read_like_the_knowledge_base_of_the_run(grown: Path, sample: Sample, run: Run) -> None:
    """The cross-references are those of the run, whether its file has moved, has changed, or was only named again."""
    documents, kb = sample
    first, last = replace(kb.entities[0], xrefs=("MSH:D1",)), arbo.Entity("M1", "hay fever", xrefs=("MSH:D2",))
    kb = arbo.KnowledgeBase([first, *kb.entities[1:], last])
    kb.to_jsonl(grown / "kb.jsonl")
    one, two, three, four = (grown / name for name in ("one", "two", "three", "four"))
    reading = ["--kb-xrefs", "MSH", "--set", "generic_names=false"]
    assert run("link", *linking(grown, "docs.jsonl"), *reading, "--out", one).code == 0
    moved = (grown / "kb.jsonl").rename(grown / "moved.jsonl")
    for options in (["--remove", documents[0].id], ["--anew"], []):
        run("add", one, *options, "--kb", moved, "--out", two).ok()
        read = [arbo.Result.load(name).manifest["knowledge_base"]["fingerprint"] for name in (one, two)]
        assert read[0] == read[1]
    arbo.KnowledgeBase(kb.entities[:-1]).to_jsonl(grown / "kb.jsonl")
    advised = run("add", "--anew", one, "--out", three).err.replace("\n", " ").split("`")[1]
    assert run(*advised.replace("NEW", str(three)).split()[1:]).code == 0
    assert arbo.Result.load(three).manifest["kb_source"]["xrefs"] == ["MSH"]
    run("add", three, grown / "more.jsonl", "--set", "kb_xrefs=HULL", "--out", four).ok()
    assert arbo.Result.load(four).manifest["kb_source"]["xrefs"] == ["HULL"]
    assert run("discover", grown / "docs.jsonl", "--out", grown / "five").code == 0
    refused = run("add", grown / "five", grown / "more.jsonl", "--set", "kb_xrefs=MSH", "--out", grown / "six")
    assert (refused.code, "has no knowledge base; leave --kb" in refused.err) == (2, True)


def test_another_knowledge_base_needs_yes(grown: Path, sample: Sample, run: Run) -> None:
    """One in which more than half of the entities of the run are gone or have changed; half of them may."""
    one, other, entities = grown / "one", grown / "other.jsonl", sample[1].entities
    most = len(entities) // 2 + 1
    for renamed in ("id", "name"):
        others = [replace(entity, **{renamed: f"X {getattr(entity, renamed)}"}) for entity in entities]
        arbo.KnowledgeBase([*others[:most], *entities[most:]]).to_jsonl(other)
        words = f"other.jsonl is another knowledge base than that of the run, {grown / 'kb.jsonl'}: {most} of "
        for command in (["add", one, "--out", grown / "no"], ["review", one], ["explore", one]):
            refused = run(*command, "--kb", other)
            assert (refused.code, words in refused.told, (grown / "no").exists()) == (2, True, False), refused.told
        assert run("add", one, "--kb", other, "--yes", "--out", grown / renamed).code == 0
        arbo.KnowledgeBase([*others[: most - 1], *entities[most - 1 :]]).to_jsonl(other)
        assert run("add", one, "--kb", other, "--out", grown / renamed).code == 0
        assert run("review", one, "--kb", other, "--json").code == 0


def test_kb_check_tells_errors_from_warnings(run: Run, tmp_path: Path) -> None:
    lines = ['{"id": "A", "name": "flu"}', '{"id": "B", "name": "[bold]x[/bold]", "aliases": ["Flu", ":smile:"]}']
    lines += ['{"id": "C"}', '{"id": " D", "name": "[bold]x[/bold]"}']
    for n_lines, code, errors, warnings, said in (
        (1, 0, 0, 0, ["entities", "\nno problems found\n"]),
        (2, 0, 0, 1, ['"flu", "Flu": A, B', "kinds of errors: 0, kinds of warnings: 1"]),
        (4, 3, 2, 2, ["\nerror (1): malformed entities skipped", '"[bold]x[/bold]": B,  D']),
    ):
        path = save_lines(tmp_path / "kb.jsonl", *lines[:n_lines])
        shown, told = (run("kb", "check", path, "--kb-format", "jsonl", *how) for how in ([], ["--json"]))
        assert (shown.code, told.code) == (code, code)
        assert all(words in shown.out for words in said)
        assert (told.json["errors"], told.json["warnings"]) == (errors, warnings)
        if not code:
            counts = json.loads(json.dumps(figures_of(arbo.read_knowledge_base(path, "jsonl"))))
            assert told.json.items() >= counts.items()
            assert shown.err == ""
            kinds = [problem["kind"] for problem in told.json["problems"]]
            assert kinds == ["name-is-alias"] * warnings


def test_kb_convert_writes_the_format_of_the_ending_from_other_columns(run: Run, tmp_path: Path) -> None:
    text, cold = "A fever.\nIt spreads.", arbo.Entity("B", "cold")
    flu = arbo.Entity("A", "flu", ("grippe", "a|b"), text, ("Disease",), ("X1",), ("MSH:D1",), "d")
    kb = arbo.KnowledgeBase([flu, cold])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    command = ["kb", "convert", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--out"]
    for ending in (".jsonl", ".jsonl.gz", ".parquet"):
        written = run(*command, tmp_path / f"new{ending}", "--json")
        assert (written.code, written.json["entities"], written.err) == (0, 2, "")
    assert arbo.read_knowledge_base(tmp_path / "new.jsonl.gz") == kb
    assert arbo.KnowledgeBase.of(pq.read_table(tmp_path / "new.parquet")) == kb
    lossy = run(*command, tmp_path / "new.tsv")
    assert "new.tsv cannot hold types (1), alternative ids (1), xrefs (1), domains (1), aliases with" in lossy.err
    assert lossy.out == f"entities: 2; written to {tmp_path / 'new.tsv'}\n"
    back = arbo.read_knowledge_base(tmp_path / "new.tsv", "tsv")
    assert [*back] == [arbo.Entity("A", "flu", ("grippe",), text), cold]
    file = save_lines(tmp_path / "codes.csv", "code,label,synonyms", "D1,flu,grippe|influenza")
    command = ["kb", "convert", file, "--out", tmp_path / "kb.jsonl", "--columns"]
    assert run(*command, "id=code, name=label,aliases=synonyms").code == 0
    assert [*arbo.read_knowledge_base(tmp_path / "kb.jsonl")] == [arbo.Entity("D1", "flu", ("grippe", "influenza"))]
    assert run(*command, "id=kode").code == 3


def test_kb_remove_names(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [arbo.Entity(f"E{row}", f"{row}th fever", ("x",)) for row in range(20)]
    kb = arbo.KnowledgeBase([arbo.Entity("A", "Fever"), arbo.Entity("B", "Colds", ("sniffles",)), *heads])
    kb.to_jsonl(tmp_path / "kb.jsonl")
    names = save_lines(tmp_path / "names.txt", "cold", "", "4th FEVERS")
    command = ["kb", "edit", tmp_path / "kb.jsonl", "--kb-format", "jsonl", "--out", tmp_path / "new.jsonl"]
    remove = ["--remove-names", f"@{names}", "--remove-names", "sneezes", "--set", "generic_names=false"]
    removed = run(*command, *remove)
    assert "names removed: 3, entities left out: 1; written to" in removed.out
    assert "not names of the knowledge base: 'sneezes'" in removed.err
    new = arbo.read_knowledge_base(tmp_path / "new.jsonl")
    assert "A" not in new
    assert (new["B"], new["E4"]) == (arbo.Entity("B", "sniffles"), arbo.Entity("E4", "x"))
    monkeypatch.chdir(tmp_path)
    save_lines(tmp_path / "x", "colds")
    assert "names removed: 20" in run(*command, "--remove-names", "x").out  # the name, although a file has it too
    with pytest.raises(arbo.DataError, match="no entity would keep a name"):
        arbo.KnowledgeBase(kb.entities[:1]).without_names("fever")


@pytest.fixture(scope="module")
def index(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    arbo.build_index(sample[1], folder := tmp_path_factory.mktemp("indices") / "kb.index")
    return folder


def test_an_index_is_built_and_read(run: Run, files: Path, tmp_path: Path) -> None:
    index, how = tmp_path / "index", "(--kb-format overrides)\n"
    made = run("kb", "index", files / "kb.jsonl", "--out", index)
    assert (made.code, made.err) == (0, f"kb.jsonl: read as jsonl {how}")
    assert made.out.startswith("120 entities, ")
    again = run("kb", "index", files / "kb.jsonl", "--out", index, "--json").json
    n_bytes = sum(file.stat().st_size for file in index.rglob("*.*"))
    assert (again["entities"], again["index"], again["bytes"]) == (120, str(index), n_bytes)
    linked = run("link", files / "all.jsonl", "--kb", index, "--out", tmp_path / "run")
    assert (linked.code, f"index: read as index {how}" in linked.err) == (0, True)
    assert run("link", *linking(files), "--out", tmp_path / "other").code == 0
    one, other = (arbo.Result.load(tmp_path / name) for name in ("run", "other"))
    assert (one.link_table, one.manifest["knowledge_base"]) == (other.link_table, other.manifest["knowledge_base"])


VERBS = """kb check KB; find test.jsonl --kb KB; tune train.jsonl --kb KB --method minimax --out tuned.json
kb convert KB --out kb.tsv; link test.jsonl --kb KB --find-mentions dictionary --out run
kb edit KB --add-names train.jsonl --out kb.parquet; kb edit KB --remove-names flu --out kb.parquet"""


@pytest.mark.parametrize("verb", re.split(r"[;\n]", VERBS))
def test_every_verb_answers_as_without_an_index(
    verb: str, run: Run, files: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    docs = {name: files / name for name in ("test.jsonl", "train.jsonl")}
    places = [docs | {"KB": kb} for kb in (files / "kb.jsonl", index)]
    told = [run(*(own.get(word, word) for word in verb.split()), "--json") for own in places]
    assert told[0].code == told[1].code == 0
    one, other = ({**shown.json, "seconds": None, "kb": None} for shown in told)
    assert one == other


def test_damage_is_found(run: Run, files: Path, index: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(index, tmp_path / "index"))
    file = copy / "vectors" / "matrix.1.npy"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    checked = run("kb", "check", copy)
    assert (checked.code, "matrix.1.npy: the file was changed after it was written; build" in checked.told) == (3, True)
    file.write_bytes(content[:-1])
    refused = run("link", files / "all.jsonl", "--kb", copy, "--out", tmp_path / "run")
    assert (refused.code, refused.out, "matrix.1.npy: the array cannot be read" in refused.told) == (3, "", True)
    file.unlink()
    assert "matrix.1.npy: the file is missing" in run("kb", "check", copy).told

"""The served page: its blocks are those of the file, the review writes as `arbo review` does, strangers are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linker
from conftest import Run, Sample

import arbo
from arbo.corrections.review import names_of
from arbo.explore.report import Payload
from arbo.kb.saving import save

pytest.importorskip("fastapi")

from arbo.cli import console
from arbo.explore.page import Page

TOKEN = "secret"


def page_of(run: Path, before: Path | None, file: Path, author: str | None, kb: Path | None, out: Path) -> Page:
    return Page(arbo.open_run(run), out, file, before=before, author=author, kb=kb, tell=console.say)


Served = Callable[..., Any]


@pytest.fixture
def served(result: arbo.Result, tmp_path: Path) -> Served:
    """Return a client of the page of the sample's run; ``folder`` is where the run is."""
    from starlette.testclient import TestClient

    from arbo.explore.page import app_of

    def client(folder: str = "run", author: str | None = None, of: arbo.Result = result, texts: bool = True) -> Any:
        of.save(tmp_path / folder, texts=texts)
        file, out = tmp_path / f"{folder}.corrections.jsonl", tmp_path / f"{folder}-reviewed"
        app = app_of(page_of(tmp_path / folder, None, file, author, None, out), TOKEN)
        return TestClient(app, base_url="http://127.0.0.1:8000", headers={"X-Arbo-Token": TOKEN})

    return client


def test_the_server_has_the_blocks_of_the_file_also_without_texts_or_graph(served: Served, result: arbo.Result) -> None:
    client, payload = served(), Payload(result, "run")
    assert client.get("/api/overview").json() == json.loads(json.dumps(payload.overview))
    assert (client.get("/api/tables").content, client.get("/api/cuts").content) == (payload.tables, payload.cuts)
    ids = [result.document_table["document_id"][row].as_py() for row in (4, 0)]
    assert client.get("/api/texts?row=4&row=0").json() == [result.text_of(id_) for id_ in ids]
    assert client.get("/api/entity?id=SP%3A0001").json() == {}
    assert client.get("/api/changes").json() == {"rows": [], "counts": {}, "since": None}
    client = served(of=replace(result, arrays=dict), texts=False)
    assert client.get("/api/texts?row=4").json() == []
    overview = client.get("/api/overview").json()
    assert (overview["texts"], client.get("/api/cuts").status_code) == (False, 400)
    assert client.get("/api/cuts").json()["error"] == overview["no_cuts"]


def test_an_entity_is_described_by_the_knowledge_base(sample: Sample, tmp_path: Path) -> None:
    kb = arbo.KnowledgeBase([*sample[1].entities, arbo.Entity("far", "far away", ("afar",), "Far.", ("Place",))])
    linker(kb).link(sample[0]).save(tmp_path / "run")
    save(kb, tmp_path / "kb.jsonl")
    page = page_of(tmp_path / "run", None, tmp_path / "answers", None, tmp_path / "kb.jsonl", tmp_path / "out")
    assert page.entity("far") == {"names": ["far away", "afar"], "more_names": 0, "description": "Far."}
    assert page.entity("nobody") == {}
    assert page.payload.overview["described"]


def test_changes_that_matter_most_come_first(sample: Sample, result: arbo.Result) -> None:
    documents, kb = sample
    before = linker(kb).link(documents[:60])
    told = Payload(result, "sample", before=before).changes
    wanted = arbo.diff(before, result)
    assert len(told["rows"]) == len(wanted.clusters)
    assert {row["cluster"] for row in told["rows"]} == {*wanted.clusters["cluster"].to_pylist()}
    grown = [max(row["before"], row["after"]) for row in told["rows"] if row["change"] == "grown"]
    assert len(set(grown)) > 1
    assert grown == sorted(grown, reverse=True)


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("review/question?id=nobody", 404, "no mention 'nobody'"),
        ("review/entities?words=x&mention_id=nobody", 404, "no mention 'nobody'"),
        ("review/question", 400, "id: Field required"),
        ("texts?row=90", 400, "none with the number 90"),
        ("texts?row=-1", 400, "greater than or equal to 0"),
        ("texts?row=1e3", 400, "a valid integer"),
        (f"texts?{'&'.join(['row=1'] * 1001)}", 400, "at most 1000"),
        ("overview?page=2", 400, "unknown parameter 'page'"),
        ("nothing", 404, "Not Found"),
        ("../../secret", 404, "Not Found"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_bad_questions_get_a_sentence(served: Served, path: str, status: int, told: str) -> None:
    answer = served().get(f"/api/{path}")
    assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Host": "127.0.0.1.evil.example:8000"}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"X-Arbo-Token": ""}, 403),
        ({"X-Arbo-Token": "secret "}, 403),
        ({"X-Arbo-Token": "sécret".encode()}, 403),
        ({"Host": "localhost:8000"}, 200),
        ({"Origin": "http://127.0.0.1:8000"}, 200),
    ],
)
def test_strangers_are_refused(served: Served, headers: dict[str, Any], status: int) -> None:
    client = served()
    assert client.get("/api/overview", headers=headers).status_code == status
    written = client.post("/api/review/answer", headers=headers, json={"answer": "skip"})
    assert written.status_code == status


def test_the_page_may_load_its_own_files_only(served: Served) -> None:
    client = served()
    for path in ("/", "/api/overview", "/api/nothing", "/nothing.js", f"/{'a' * 300}.js"):
        answer = client.get(path, headers={"X-Arbo-Token": TOKEN})
        policy = answer.headers["content-security-policy"]
        assert all(f"{rule} 'none'" in policy for rule in ("default-src", "frame-ancestors"))
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    for path in ("/..%2fpage.py", "/%2e%2e/page.py", "/page.py", "/..%5cpage.py"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"x" * 30_000, 413, "more than 20,000 bytes"),
        (b"no json", 400, ""),
        (b"[]", 400, "a valid dictionary"),
        (b"{}", 400, "answer: Field required"),
        (b'{"answer": 1}', 400, "Input should be"),
        (b'{"answer": "accept", "mention_id": "nobody"}', 404, "no mention 'nobody'"),
        (b'{"answer": "guess", "mention_id": "D01-1"}', 400, "Input should be 'accept'"),
        (b'{"answer": "accept", "mention_id": "D01-1", "author": "x"}', 400, "author: Extra inputs"),
        (b'{"answer": "new", "mention_id": "D01-1", "value": " "}', 400, "needs a value"),
        (b'{"answer": "candidate", "mention_id": "D01-1", "value": "nobody"}', 400, "offered the entity 'nobody'"),
        (b'{"answer": "same", "mention_id": "D01-1", "value": "D01-1"}', 400, "no other mention"),
        (b'{"answer": "undo"}', 400, "nothing to undo"),
    ],
    ids=lambda value: value[:40].decode() if isinstance(value, bytes) else None,
)
def test_bad_answers_write_nothing(served: Served, tmp_path: Path, body: bytes, status: int, told: str) -> None:
    answer = served().post("/api/review/answer", content=body)
    assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text
    assert not (tmp_path / "run.corrections.jsonl").exists()


def post(client: Any, **body: str) -> dict[str, Any]:
    answer = client.post("/api/review/answer", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def lines_of(file: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name != "date"} for line in lines]


def test_spread_is_told_and_a_pair_of_a_list_answered(served: Served, result: arbo.Result, tmp_path: Path) -> None:
    client = served()
    asked = client.get("/api/review/next").json()["question"]
    row, names = result.row_of[asked["mention_id"]], names_of(result)
    twins = [result.links[int(at)].mention.id for at in np.flatnonzero(names == names[row]) if at != row]
    assert twins
    assert (asked["spread"]["mentions"], asked["spread"]["ids"]) == (len(twins), twins[:20])
    assert client.get(f"/api/review/question?id={twins[0]}").json()["spread"]["mentions"] == len(twins)
    client = served(of=arbo.Linker().discover(["Kelp Ltd", "Kelp Limited", "Tern Optics", "Tern Optic"]))
    asked = client.get("/api/review/next").json()["question"]
    ((other, about),) = ((one["id"], one["about"]) for one in asked["choices"])
    assert about == ""
    decision = {"answer": "candidate", "mention_id": asked["mention_id"], "value": other}
    written = client.post("/api/review/answer", json=decision).json()["written"]
    assert (written[0], asked["nearest"]) == ({"same": [asked["mention_id"], other]}, other)
    assert client.post("/api/review/answer", json={**decision, "value": "9"}).status_code == 400


def test_any_mention_is_corrected_and_one_skipped_once(served: Served, result: arbo.Result, tmp_path: Path) -> None:
    client = served()
    first = client.get("/api/review/next").json()["question"]["mention_id"]
    other = next(link.mention.id for link in result.links if link.mention.id != first)
    told = post(client, mention_id=other, answer="nil")
    assert told["question"]["mention_id"] == first
    assert lines_of(tmp_path / "run.corrections.jsonl") == [{"mention": other, "entity": None}]
    assert post(client, answer="undo")["question"]["mention_id"] == first
    assert lines_of(tmp_path / "run.corrections.jsonl") == []
    second, again = (post(client, answer="skip", mention_id=first) for _ in range(2))
    assert second["question"]["mention_id"] != first
    assert again == second


def test_applying_makes_the_run_of_add(served: Served, tmp_path: Path, run: Run, sample: Sample) -> None:
    sample[1].to_jsonl(tmp_path / "kb.jsonl")
    client = served(of=arbo.Linker(arbo.read_knowledge_base(tmp_path / "kb.jsonl")).link(sample[0]))
    assert "no answer is written" in client.post("/api/apply").json()["error"]
    asked = client.get("/api/review/next").json()["question"]
    mention = asked["mention_id"]
    now = arbo.Result.load(tmp_path / "run").link_of(mention).entity
    entity = next(one["id"] for one in asked["choices"] if one["id"] != now)
    post(client, mention_id=mention, answer="candidate", value=entity)
    told = client.post("/api/apply").json()
    assert told["corrections"]["obeyed"] == 1
    file = tmp_path / "run.corrections.jsonl"
    assert run("add", tmp_path / "run", "--corrections", file, "--out", tmp_path / "added").code == 0
    page, verb = (arbo.Result.load(tmp_path / name) for name in ("run-reviewed", "added"))
    assert (page.link_table, page.cluster_table) == (verb.link_table, verb.cluster_table)
    assert entity in [row["cluster"] for row in client.get("/api/changes").json()["rows"]]
    assert client.get("/api/overview").json()["name"] == "run-reviewed"
    assert client.get("/api/tables").content == Payload(page, "run-reviewed").tables
    assert client.get("/api/review/next").json()["question"]["mention_id"] != mention
    assert (page.link_of(mention).entity, page.link_of(mention).corrected) == (entity, True)


def test_applying_obeys_a_given_base(sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, run, file = tmp_path / "kb.jsonl", tmp_path / "run", tmp_path / "run.corrections.jsonl"
    sample[1].to_jsonl(kb)
    found = arbo.Linker(arbo.read_knowledge_base(kb)).link(sample[0])
    found.save(run)
    arbo.KnowledgeBase([*sample[1].entities, arbo.Entity("far", "far away")]).to_jsonl(kb)
    file.write_text(json.dumps({"mention": found.links[0].mention.id, "entity": "far"}) + "\n")
    with pytest.raises(arbo.UsageError, match="has changed since"):
        page_of(run, None, file, None, None, tmp_path / "run2").applied()
    page = page_of(run, None, file, None, kb, tmp_path / "run2")
    assert page.entities("far away", found.links[0].mention.id)["rows"][0]["id"] == "far"
    assert (page.applied()["corrections"]["obeyed"], arbo.Result.load(tmp_path / "run2").links[0].entity) == (1, "far")
    assert page_of(tmp_path / "run2", None, file, None, None, run).payload.changes == page.payload.changes
    (run / "links.parquet").write_bytes(b"")
    assert page_of(tmp_path / "run2", None, file, None, None, tmp_path / "run3").payload.changes["rows"] == []
    assert "the page shows no changes" in capsys.readouterr().err
    with pytest.raises(arbo.DataError, match="was changed after"):
        page_of(tmp_path / "run2", run, file, None, None, tmp_path / "run3")


def test_addresses_are_secret(run: Run, result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the web server and its application."""
    tokens: list[str] = []
    monkeypatch.setattr("arbo.explore.page.app_of", lambda page, token: token)
    monkeypatch.setattr("arbo.serve.web.serve", lambda app, listening: tokens.append(app))
    result.save(tmp_path / "run")
    first, second = (run("explore", tmp_path / "run", "--json").json for _ in range(2))
    assert first["corrections"] == str(tmp_path / "run.corrections.jsonl")
    shown = [told["address"].partition("/#token=")[2] for told in (first, second)]
    assert (shown, len({*shown}), min(map(len, shown)) >= 32) == (tokens, 2, True)
    assert first["address"].startswith("http://127.0.0.1:")

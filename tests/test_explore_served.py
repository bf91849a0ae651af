"""The served page: views equal the tables, the review writes what `arbo review` writes, strangers are refused."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from builders import linker
from conftest import Run, Sample

import arbo
from arbo.data.documents import text_of
from arbo.results.queue import names_of
from arbo.results.views import Selection, cluster_view, mention_view
from arbo.serve.requests import Refused

pytest.importorskip("fastapi")

from arbo.cli import console
from arbo.explore.page import Page
from arbo.explore.views import Views

TOKEN = "secret"


def page_of(run: Path, before: Path | None, file: Path, author: str | None, kb: Path | None, out: Path) -> Page:
    return Page(arbo.open_run(run), out, before=before, file=file, author=author, kb=kb, tell=console.say)


@pytest.fixture(scope="module")
def result(sample: Sample) -> arbo.Result:
    documents, kb = sample
    return linker(kb).link(documents)


@pytest.fixture(scope="module")
def views(result: arbo.Result) -> Views:
    return Views(result, "sample")


# Views


def ids(answer: dict[str, Any]) -> list[str]:
    return [row["mention_id"] for row in answer["rows"]]


def test_the_overview_counts_the_tables(views: Views, result: arbo.Result) -> None:
    told = views.overview()
    nil = result.link_table["entity_id"].null_count
    assert (told["name"], told["mentions"], told["nil"]) == ("sample", len(result.links), nil)
    assert (told["clusters"], told["discovered"]) == (len(result.clusters), len(result.discovered))
    assert sum(size * count for size, count in told["sizes"]) == told["mentions"] == told["linked"] + nil
    assert {line["metric"]: line["value"] for line in told["scores"]}["accuracy"] == result.evaluate().linking.accuracy
    assert sum(told["histogram"]["entity"]) == len(result.links)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"nil": True}, {"words": "PETREL"}, {"words": "fever", "nil": True}, {"words": "no such words"}],
    ids=["all", "nil", "words", "both", "none"],
)
@pytest.mark.parametrize("by", ["order", "margin"])
def test_mentions_are_those_of_show(views: Views, result: arbo.Result, chosen: dict[str, Any], by: str) -> None:
    rows = Selection(**chosen, lowest_margin=by == "margin").rows(result)
    wanted = mention_view(result, rows).to_pylist()
    pages = [views.mentions(**chosen, sort=by, offset=at, limit=70) for at in range(0, max(len(rows), 1), 70)]
    shown = [row for page in pages for row in page["rows"]]
    assert {page["total"] for page in pages} == {len(rows)}
    assert [{name: value for name, value in row.items() if name != "sentence"} for row in shown] == wanted
    texts = {row["document_id"]: result.text_of(row["document_id"]) for row in shown}
    for row in shown:
        own = row["sentence"]
        assert "".join(own["pieces"]) == texts[row["document_id"]][row["start"] : row["end"]]
        assert own["before"] + "".join(own["pieces"]) + own["after"] in texts[row["document_id"]]


def test_mentions_of_one_thing(views: Views, result: arbo.Result) -> None:
    link = next(link for link in result.links if link.entity is not None)
    for name, value, of in (
        ("document", link.mention.document_id, lambda at: at.mention.document_id),
        ("entity", link.entity, lambda at: at.entity),
        ("cluster", result.discovered[0].id, lambda at: at.cluster),
    ):
        wanted = [at.mention.id for at in result.links if of(at) == value]
        assert ids(views.mentions(**{name: value}, limit=500)) == wanted


def test_clusters_are_those_of_the_table(views: Views, result: arbo.Result) -> None:
    every = {row["cluster_id"]: row for row in cluster_view(result, np.arange(len(result.clusters))).to_pylist()}
    for order in ("size", "name"):
        rows = views.clusters(sort=order, limit=500)["rows"]
        assert {row["cluster_id"]: {**row, "nearest": None} for row in rows} == {
            id_: {**row, "nearest": None} for id_, row in every.items()
        }
    sizes = [row["size"] for row in views.clusters(limit=500)["rows"]]
    names = [row["name"].lower() for row in views.clusters(sort="name", limit=500)["rows"]]
    assert (sizes, names) == (sorted(sizes, reverse=True), sorted(names))


def test_a_new_entity_is_near_the_best_candidate_of_its_mentions(views: Views, result: arbo.Result) -> None:
    rows = views.clusters(sort="nearness", limit=500)["rows"]
    assert 0 < len(rows) == len(result.discovered)
    for row in rows:
        links = [result.link_of(mention.id) for mention in result.cluster_of(row["cluster_id"][4:]).mentions]
        best = max((link.candidates[0] for link in links), key=lambda one: one[1])
        assert row["nearest"]["dissimilarity"] == pytest.approx(1 - best[1])
        assert result.names_of(row["nearest"]["entity_id"])[0] == row["nearest"]["name"]
    distances = [row["nearest"]["dissimilarity"] for row in rows]
    assert distances == sorted(distances)


def test_a_cluster_is_a_tree(views: Views, result: arbo.Result) -> None:
    for own in result.clusters:
        told = views.cluster(own.id)
        members = {row["mention_id"]: row for row in told["members"]}
        assert members.keys() == {mention.id for mention in own.mentions}
        seen: set[str | None] = {own.entity}
        for id_, row in members.items():
            assert row["parent"] in seen, "a parent comes before what hangs on it"
            seen.add(id_)
            if own.entity is not None:
                link = result.link_of(id_)
                assert (row["parent"], row["step"]) == (link.parent, link.step)
        steps = [row["step"] for row in members.values() if row["step"] is not None]
        inner = [row["step"] for row in members.values() if row["parent_is_mention"] and row["step"] is not None]
        heavy = sorted((step for step in inner if step > 0), reverse=True)
        assert [members[id_]["step"] for id_ in told["weakest"]] == heavy[:5]
        if own.entity is None and len(own.mentions) > 1:
            assert len(steps) == len(own.mentions) - 1
            assert max(steps) == pytest.approx(own.weakest_join)
        for bridge in told["bridges"]:
            hanging = {bridge["mention_id"]}
            for id_, row in members.items():
                hanging |= {id_} if row["parent"] in hanging else set()
            assert bridge["below"] == len(hanging) == views.below(bridge["mention_id"]) + 1


def test_without_lists_a_new_entity_has_no_tree(result: arbo.Result, tmp_path: Path) -> None:
    replace(result, arrays=None).save(tmp_path / "run", texts=False)
    views = Views(arbo.Result.load(tmp_path / "run"), "run")
    told = views.cluster(result.discovered[0].id)
    assert {(row["parent"], row["step"]) for row in told["members"]} == {(None, None)}
    assert views.mentions(limit=1)["rows"][0]["sentence"] is None
    assert views.document("D01")["text"] is None


def test_a_mention_tells_its_path_and_why_it_is_nil(views: Views, result: arbo.Result) -> None:
    for link in result.links[::20]:
        told, why = views.mention(link.mention.id), result.explain(link)
        path = [(one["id"], one["step"]) for one in told["path"]]
        assert path[-1][0] == link.mention.id
        if link.entity is not None:
            assert path == [(one.id, one.dissimilarity) for one in why.path]
        else:
            assert {result.link_of(one).cluster for one, _ in path} == {link.cluster}
        assert [(one["entity_id"], one["score"]) for one in told["candidates"]] == list(link.candidates)
        assert (told["nil_reason"] is None) == (link.entity is not None)


def test_a_document_has_its_mentions_with_all_spans(views: Views, result: arbo.Result) -> None:
    told = views.document("D01")
    own = [link.mention for link in result.links if link.mention.document_id == "D01"]
    assert told["text"] == result.text_of("D01")
    assert [row["spans"] for row in told["mentions"]] == [[list(span) for span in mention.spans] for mention in own]
    (row,) = views.documents(words="d01")["rows"]
    assert (row["mentions"], row["nil"]) == (len(own), sum(result.link_of(one.id).entity is None for one in own))


def test_only_the_parts_of_a_mention_are_marked_in_its_sentence() -> None:
    text = "A heart and lung cancer."
    spans = {"gap": [(17, 23), (2, 7)], "one": [(2, 7), (4, 11), (11, 16)]}
    mentions = tuple(arbo.Mention(id_, "d", tuple(own), text_of(own, text)) for id_, own in spans.items())
    views = Views(arbo.Linker().discover([arbo.Document("d", text, mentions)]), "parts")
    rows = {row["mention_id"]: row["sentence"] for row in views.mentions()["rows"]}
    assert rows["gap"] == {"before": "A ", "pieces": ["heart", " and lung ", "cancer"], "after": "."}
    assert rows["one"] == {"before": "A ", "pieces": ["heart and lung"], "after": " cancer."}


def test_an_entity_is_described_by_the_knowledge_base(result: arbo.Result, sample: Sample) -> None:
    kb = arbo.KnowledgeBase([*sample[1].entities, arbo.Entity("far", "far away", ("afar",), "Far.", ("Place",))])
    views = Views(result, "sample", kb=kb)
    assert views.entity("far") == {
        "entity_id": "far",
        "name": "far away",
        "names": ["far away", "afar"],
        "description": "Far.",
        "types": ["Place"],
        "size": 0,
        "cluster_id": None,
    }
    cluster = result.clusters[0]
    assert views.entity(cluster.id)["size"] == len(cluster.mentions)
    with pytest.raises(Refused, match="names no entity 'far'"):
        Views(result, "sample").entity("far")


def test_changes_that_matter_most_come_first(sample: Sample, result: arbo.Result) -> None:
    documents, kb = sample
    before = linker(kb).link(documents[:60])
    told = Views(result, "sample", before=before).changes(limit=500)
    from arbo.results.diff import diff

    wanted = diff(before, result)
    assert told["total"] == len(wanted.clusters) == len(told["rows"])
    assert {row["cluster"] for row in told["rows"]} == {row.cluster for row in wanted.clusters}
    grown = [max(row["before"], row["after"]) for row in told["rows"] if row["change"] == "grown"]
    assert len(set(grown)) > 1
    assert grown == sorted(grown, reverse=True)


# Over HTTP


Served = Callable[..., Any]


@pytest.fixture
def served(result: arbo.Result, tmp_path: Path) -> Served:
    """Return a client of the page of the sample's run; ``folder`` is where the run is."""
    from starlette.testclient import TestClient

    from arbo.explore.server import app_of

    def client(folder: str = "run", author: str | None = None) -> Any:
        result.save(tmp_path / folder)
        file, out = tmp_path / f"{folder}.corrections.jsonl", tmp_path / f"{folder}-reviewed"
        app = app_of(page_of(tmp_path / folder, None, file, author, None, out), TOKEN)
        return TestClient(app, base_url="http://127.0.0.1:8000", headers={"X-Arbo-Token": TOKEN})

    return client


def test_views_are_asked_by_name(served: Served, views: Views) -> None:
    client = served()
    overview = client.get("/api/overview").json()
    assert overview == json.loads(json.dumps(views.overview() | {"name": "run", "made": overview["made"]}))
    asked = client.get("/api/mentions?nil=true&words=fenn&sort=margin&offset=1&limit=2").json()
    assert asked == views.mentions(nil=True, words="fenn", sort="margin", offset=1, limit=2)
    assert client.get("/api/cluster?id=SP%3A0001").json() == views.cluster("SP:0001")
    assert client.get("/api/search?words=petrel").json() == views.search("petrel")
    assert client.get("/api/changes").json()["total"] == 0


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("mention?id=nobody", 404, "no mention 'nobody'"),
        ("cluster?id=nobody", 404, "no cluster 'nobody'"),
        ("document?id=nobody", 404, "no document 'nobody'"),
        ("entity?id=nobody", 404, "no entity 'nobody'"),
        ("mentions?entity=nobody", 404, "no entity 'nobody'"),
        ("review/question?id=nobody", 404, "no mention 'nobody'"),
        ("mention", 400, "id: Field required"),
        ("mentions?limit=-1", 400, "greater than or equal to 0"),
        ("mentions?limit=100000", 400, "less than or equal to 500"),
        ("mentions?offset=1e3", 400, "a valid integer"),
        ("mentions?nil=maybe", 400, "a valid boolean"),
        ("mentions?sort=random", 400, "'order' or 'margin'"),
        ("mentions?page=2", 400, "unknown parameter 'page'"),
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
    ids=["host", "similar host", "origin", "null", "port", "no token", "token", "bytes", "localhost", "own origin"],
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
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    for path in ("/..%2fserver.py", "/%2e%2e/server.py", "/server.py", "/..%5cserver.py"):
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


def test_twenty_decisions_write_what_the_verb_writes(
    served: Served, result: arbo.Result, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accept, candidates, NIL, new, search, same, different, drop, skip and undo, in the same order."""
    client, other = served(author="ann"), result.links[3].mention.id
    keys = f"a2nu1ae new name\ns=nobody\n={other}\n!{other}\ndaanu1a2/petrel\n1aan1asdaan"
    at, answers, words = 0, [], {"e": "new", "=": "same", "!": "different"}
    offered: list[str] = []
    while at < len(keys):
        key, value, at = keys[at], "", at + 1
        if key in "e=!/":
            end = keys.index("\n", at)
            value, at = keys[at:end], end + 1
        asked = client.get("/api/review/next").json()["question"]
        body = {"mention_id": asked["mention"]["mention_id"]}
        if key == "/":
            found = client.get(f"/api/review/entities?words={value}&mention_id={body['mention_id']}").json()
            offered = [one["entity_id"] for one in found["rows"]]
            continue
        if key.isdecimal():
            choices = offered or [one["entity_id"] for one in asked["choices"]]
            body |= {"answer": "candidate", "value": choices[int(key) - 1]}
        else:
            body |= {"answer": {"a": "accept", "n": "nil", "d": "drop", "s": "skip", "u": "undo", **words}[key]}
            body |= {"value": value} if value else {}
        offered = []
        if value == "nobody":
            assert client.post("/api/review/answer", json=body).status_code == 400
            continue
        answers.append(post(client, **body))
    by_page = lines_of(tmp_path / "run.corrections.jsonl")
    assert len(by_page) >= 20
    result.save(tmp_path / "other")
    monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
    outcome = run("review", tmp_path / "other", "--author", "ann")
    assert outcome.code == 0, outcome.err
    assert by_page == lines_of(tmp_path / "other.corrections.jsonl")
    assert answers[-1]["written"] == {name: value for name, value in by_page[-1].items() if name != "author"}


def test_what_a_decision_spreads_to_is_told_before(served: Served, result: arbo.Result) -> None:
    client = served()
    asked = client.get("/api/review/next").json()["question"]
    row, names = result.row_of[asked["mention"]["mention_id"]], names_of(result)
    twins = [result.links[int(at)].mention.id for at in np.flatnonzero(names == names[row]) if at != row]
    assert twins
    assert (asked["spread"]["mentions"], asked["spread"]["ids"]) == (len(twins), twins[:20])
    assert client.get(f"/api/review/question?id={twins[0]}").json()["spread"]["mentions"] == len(twins)


def test_any_mention_can_be_corrected(served: Served, result: arbo.Result, tmp_path: Path) -> None:
    client = served()
    first = client.get("/api/review/next").json()["question"]["mention"]["mention_id"]
    other = next(link.mention.id for link in result.links if link.mention.id != first)
    told = post(client, mention_id=other, answer="nil")
    assert told["question"]["mention"]["mention_id"] == first
    assert lines_of(tmp_path / "run.corrections.jsonl") == [{"mention": other, "entity": None}]
    assert post(client, answer="undo")["question"]["mention"]["mention_id"] == first
    assert lines_of(tmp_path / "run.corrections.jsonl") == []


def test_a_question_is_skipped_once(served: Served) -> None:
    client = served()
    first = client.get("/api/review/next").json()["question"]["mention"]["mention_id"]
    second, again = (post(client, answer="skip", mention_id=first) for _ in range(2))
    assert second["question"]["mention"]["mention_id"] != first
    assert again == second


def test_applying_makes_the_run_of_add(served: Served, tmp_path: Path, run: Run, sample: Sample) -> None:
    kb = tmp_path / "kb.jsonl"
    sample[1].to_jsonl(kb)
    from starlette.testclient import TestClient

    from arbo.explore.server import app_of

    arbo.Linker(arbo.read_knowledge_base(kb)).link(sample[0]).save(tmp_path / "run")
    file, out = tmp_path / "run.corrections.jsonl", tmp_path / "run2"
    app = app_of(page_of(tmp_path / "run", None, file, None, None, out), TOKEN)
    client = TestClient(app, base_url="http://127.0.0.1", headers={"X-Arbo-Token": TOKEN})
    assert "no answer is written" in client.post("/api/apply").json()["error"]
    asked = client.get("/api/review/next").json()["question"]
    mention = asked["mention"]["mention_id"]
    entity = next(one["entity_id"] for one in asked["choices"] if one["entity_id"] != asked["mention"]["entity_id"])
    post(client, mention_id=mention, answer="candidate", value=entity)
    told = client.post("/api/apply").json()
    assert told["corrections"]["obeyed"] == 1
    assert run("add", tmp_path / "run", "--corrections", file, "--out", tmp_path / "run3").code == 0
    page, verb = (arbo.Result.load(tmp_path / name) for name in ("run2", "run3"))
    assert page.link_table == verb.link_table
    assert page.cluster_table == verb.cluster_table
    assert entity in [row["cluster"] for row in told["changes"]["rows"]]
    assert client.get("/api/changes").json() == told["changes"]
    now = client.get(f"/api/mention?id={mention}").json()
    assert (now["corrected"], client.get("/api/overview").json()["name"]) == (True, "run2")
    assert client.get("/api/review/next").json()["question"]["mention"]["mention_id"] != mention
    assert now["entity_id"] == entity


def test_applying_obeys_a_given_knowledge_base(
    sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb, run, file = tmp_path / "kb.jsonl", tmp_path / "run", tmp_path / "run.corrections.jsonl"
    sample[1].to_jsonl(kb)
    found = arbo.Linker(arbo.read_knowledge_base(kb)).link(sample[0])
    found.save(run)
    arbo.KnowledgeBase([*sample[1].entities, arbo.Entity("far", "far away")]).to_jsonl(kb)
    file.write_text(json.dumps({"mention": found.links[0].mention.id, "entity": "far"}) + "\n")
    with pytest.raises(arbo.UsageError, match="has changed since"):
        page_of(run, None, file, None, None, tmp_path / "run2").applied()
    page = page_of(run, None, file, None, kb, tmp_path / "run2")
    assert page.reviewing.entities("far away", found.links[0].mention.id)["rows"][0]["entity_id"] == "far"
    assert page.applied()["corrections"]["obeyed"] == 1
    assert arbo.Result.load(tmp_path / "run2").links[0].entity == "far"
    assert page_of(tmp_path / "run2", None, file, None, None, run).views.changes() == page.views.changes()
    arbo.Linker().discover(["another", "collection"]).save(tmp_path / "other")
    with pytest.raises(arbo.UsageError, match="no mention in common"):
        page_of(run, tmp_path / "other", file, None, None, tmp_path / "run3")
    arbo.KnowledgeBase([arbo.Entity("far", "far away")]).to_jsonl(kb)
    with pytest.raises(arbo.UsageError, match="lacks most entities"):
        page_of(run, None, file, None, kb, tmp_path / "run3")
    (run / "links.parquet").write_bytes(b"")
    assert page_of(tmp_path / "run2", None, file, None, None, tmp_path / "run3").views.changes()["total"] == 0
    assert "the page shows no changes" in capsys.readouterr().err
    with pytest.raises(arbo.DataError, match="was changed after"):
        page_of(tmp_path / "run2", run, file, None, None, tmp_path / "run3")


def test_numbers_that_json_cannot_hold_are_null(served: Served, result: arbo.Result) -> None:
    assert pc.any(pc.is_inf(result.link_table["bottleneck"])).as_py()
    for path in ("overview", "clusters?nil=true&limit=500", "mentions?nil=true&limit=500"):
        assert "NaN" not in served().get(f"/api/{path}").text


def test_the_address_is_for_this_computer_and_has_a_secret(
    run: Run, result: arbo.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the web server: it gets the page, its socket and the token."""
    served: list[Any] = []
    monkeypatch.setattr("arbo.explore.server.run", lambda *given: served.append(given))
    result.save(tmp_path / "run")
    first, second = (run("explore", tmp_path / "run", "--json").json for _ in range(2))
    assert first["corrections"] == str(tmp_path / "run.corrections.jsonl")
    tokens = [told["address"].partition("/#token=")[2] for told in (first, second)]
    assert (tokens, len({*tokens})) == ([token for *_, token in served], 2)
    assert min(map(len, tokens)) >= 32
    assert first["address"].startswith("http://127.0.0.1:")

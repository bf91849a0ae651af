"""The reconciliation service: its answers, and the constraints of the specification, version 0.2."""

import json
import re
from typing import Any

import pytest
from serve_builders import KB, client_of, linker, service_of

import arbo
from arbo.errors import DataError
from arbo.serve.web import Refused

pytest.importorskip("fastapi")

from arbo.serve.reconciliation import Reconciliation
from arbo.serve.service import Service

FEVERS = Reconciliation(service_of(), "fevers")

_URL, _NAMED = "^https?://", {"id": str, "name": str, "description?": str}
_PLACE = {"service_url": _URL, "service_path": "^/"}
MANIFEST = {
    **{"versions": ["^0.2$"], "name": str, "identifierSpace": _URL, "schemaSpace": _URL, "serviceVersion": str},
    **{"view": {"url": r"\{\{id\}\}"}, "preview": {"url": r"\{\{id\}\}", "width": int, "height": int}},
    **{"suggest": dict.fromkeys(("entity", "property", "type"), _PLACE), "extend": {"propose_properties": _PLACE}},
    "defaultTypes": [_NAMED],
}
_MATCH = {"score": float, "match": bool, "type": [_NAMED], "features": [{"id": str, "value": (float, bool)}]}
BATCH, SUGGESTED = {"*": {"result": [_NAMED | _MATCH]}}, {"result": [_NAMED | {"notable?": [_NAMED]}]}
_CELL = ({"id": str, "name": str}, {"str": str}, {"float": float}, {"int": int})
EXTENDED = {"meta": [_NAMED], "rows": {"*": {"*": [_CELL]}}}


def fits(value: Any, shape: Any) -> bool:
    """Say whether JSON has a type, a pattern, one of several shapes, or the shapes of a list's or an object's values.

    A key that ends with a question mark may be missing, and a star stands for all keys.
    """
    if isinstance(shape, dict) and isinstance(value, dict):
        names = {name.rstrip("?"): own for name, own in shape.items()}
        known = "*" in shape or {name for name in shape if "?" not in name} <= value.keys() <= names.keys()
        return known and all(fits(one, names.get(name, shape.get("*"))) for name, one in value.items())
    if isinstance(shape, list) and isinstance(value, list):
        return all(fits(one, shape[0]) for one in value)
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    return bool(re.search(shape, value)) if isinstance(shape, str) else type(value) is shape


def ranked(**query: Any) -> list[dict[str, Any]]:
    answer = FEVERS.queries(json.dumps({"q": query}))
    assert fits(answer, BATCH)
    return answer["q"]["result"]


def test_the_manifest() -> None:
    manifest = FEVERS.manifest("http://127.0.0.1:8000/")
    assert fits(manifest, MANIFEST)
    assert manifest["name"] == "fevers"
    assert manifest["defaultTypes"] == [{"id": "Disease", "name": "Disease"}, {"id": "Place", "name": "Place"}]
    place = {"service_url": "http://127.0.0.1:8000/reconcile", "service_path": "/suggest/type"}
    assert manifest["suggest"]["type"] == place


def test_a_clear_leader_is_a_match_and_others_are_not() -> None:
    first, second, *_ = ranked(query="Marsh fevers")
    assert (first["id"], first["score"], first["match"]) == ("D:1", 100.0, True)
    assert (second["match"], second["score"] < 90) == (False, True)
    assert first["description"] == "A fever of the <marsh>."
    assert (first["type"], ranked(query="zzz")) == ([{"id": "Disease", "name": "Disease"}], [])
    twins = arbo.KnowledgeBase([arbo.Entity("1", "fever"), arbo.Entity("2", "fever")])
    equal = Reconciliation(Service(arbo.Linker(twins))).queries('{"q": {"query": "fever", "limit": 1}}')
    assert [(one["id"], one["match"]) for one in equal["q"]["result"]] == [("1", False)]
    strict = linker().configured(config=arbo.LinkerConfig(entity_threshold=0.0))
    assert Reconciliation(Service(strict)).threshold == 100
    assert FEVERS.threshold == pytest.approx(100 * (1 - arbo.NgramEncoder().threshold[0]))


def test_a_query_does_not_depend_on_others_of_its_batch() -> None:
    queries: dict[str, Any] = {
        "a": {"query": "hill fever", "limit": 1},
        "b": {"query": "marsh", "type": "Place", "limit": 3},
        "c": {"query": ""},
        "d": {"query": "marsh fever", "properties": [{"pid": "xrefs", "v": "m:1"}]},
    }
    together = FEVERS.queries(json.dumps(queries))
    assert fits(together, BATCH)
    for key, query in queries.items():
        assert together[key] == FEVERS.queries(json.dumps({key: query}))[key]
    assert (together["c"], FEVERS.queries("{}")) == ({"result": []}, {})


def test_types_filter_or_weigh() -> None:
    assert [one["id"] for one in ranked(query="marsh", type="Place", type_strict="any")] == ["P:1"]
    assert [one["id"] for one in ranked(query="marsh", type=["Place", "Disease"], type_strict="all")] == []
    every = ranked(query="marsh", type=["Disease"], type_strict="should")
    assert every == ranked(query="marsh", type="Disease")  # the default, as OpenRefine sets it
    assert [one["score"] for one in ranked(query="marsh", type="no such type")][:1] == [50.0]
    alone = {one["id"]: one["score"] for one in ranked(query="marsh")}
    weighed = {one: score / 2 if one in ("P:1", "X/1 ü") else score for one, score in alone.items()}
    assert {one["id"]: one["score"] for one in every} == weighed
    assert ranked(query="marsh fever", type="Disease", type_strict="should", limit=2)[0]["match"]


def test_properties_are_evidence() -> None:
    assert ranked(query="fever", properties=[{"pid": "year", "v": 1990}])[0]["id"] == "D:2"
    evidence = [{"pid": "xrefs", "v": ["M:7", "m:1 "]}, {"pid": "year", "v": {"id": "x"}}]
    first, *_ = ranked(query="fever", properties=evidence)
    assert (first["id"], [one["id"] for one in first["features"]]) == ("D:1", ["xrefs", "year", "name"])
    assert first["score"] == pytest.approx(100 * (1 + 0 + first["features"][2]["value"]) / 3)
    for ignored in ({"pid": "nothing", "v": "x"}, {"pid": "year", "v": " "}, {"pid": "year", "v": [None, ""]}):
        assert ranked(query="fen", properties=[ignored]) == ranked(query="fen", limit=5)


def test_an_id_as_query_means_its_entity() -> None:
    assert [(one["id"], one["match"]) for one in ranked(query="D:9", limit=1)] == [("D:2", True)]
    kb = arbo.KnowledgeBase([arbo.Entity("x", "flu"), arbo.Entity("flu", "influenza", (), None, ("T",))])
    query = {"query": "flu", "properties": [{"pid": "aliases", "v": "no"}], "type": "U"}
    first, *_ = Reconciliation(Service(arbo.Linker(kb))).queries(json.dumps({"q": query}))["q"]["result"]
    assert (first["id"], first["score"], first["match"]) == ("flu", 100.0, True)


def test_scores_of_inner_products_are_above_0_and_at_most_100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "nearest", lambda *_: [[(0, 7.5), (2, -2.0), (1, -3.0)]])
    query: dict[str, Any] = {"query": "marsh", "type": "Disease", "type_strict": "should"}
    assert [(one["id"], one["score"]) for one in ranked(**query)] == [("D:1", 100.0)]
    assert [one["id"] for one in FEVERS.suggest(kind="entity", prefix="zzz")["result"]] == ["D:1"]


_PAIR = {"query": "x", "properties": [{"pid": "a", "v": 1}, {"pid": "b", "v": 1}]}
_TWO = {"ids": ["a", "b"], "properties": [{"id": "x"}]}


def test_invalid_queries_say_what_is_wrong() -> None:
    for query, message in (
        (1, "q: Input should be a valid dictionary"),
        ({"query": 1}, "q.query: Input should be a valid string"),
        ({"query": "a", "type": [1]}, "type.*0: Input should be a valid string"),
        ({"query": "a", "limit": "3"}, "limit.*: Input should be a valid"),
        ({"query": "a", "type_strict": "no"}, "type_strict: Input should be 'any', 'should' or 'all'"),
        ({"query": "a", "properties": [{"pid": 1, "v": 1}]}, "pid: Input should be a valid string"),
        ({"query": "a", "properties": [{"pid": "x"}]}, "v: Field required"),
        ({"qeury": "a"}, "qeury: Extra inputs are not permitted"),
    ):
        with pytest.raises(DataError, match=message):
            FEVERS.queries(json.dumps({"q": query}))
        with pytest.raises(DataError, match="valid dictionary"):
            FEVERS.queries("[]")


def test_limits() -> None:
    service = Reconciliation(service_of(texts=1, mentions=1))
    for method, body, message in (
        (service.queries, {"a": {"query": "x"}, "b": {"query": "x"}}, "2 queries, but at most 1"),
        (service.queries, {"a": _PAIR}, "2 properties, but at most 1"),
        (service.extend, _TWO, "2 values, but at most 1"),
    ):
        with pytest.raises(Refused, match=message):
            method(json.dumps(body))
    assert len(ranked(query="marsh fever hill alert", limit=1e6)) == len(KB)
    assert len(ranked(query="marsh", limit=-1)) == 1


def test_suggestions() -> None:
    expected = {"entity m": {"D:1", "P:1"}, "entity q": set(), "property YEA": {"year"}, "type dis": {"Disease"}}
    for words, ids in {**expected, "type zz": set()}.items():
        kind, prefix = words.split()
        suggested = FEVERS.suggest(kind=kind, prefix=prefix)
        assert fits(suggested, SUGGESTED)
        assert {one["id"] for one in suggested["result"]} == ids
    assert FEVERS.suggest(kind="entity", prefix="D:2")["result"][0]["id"] == "D:2"
    every, rest = (FEVERS.suggest(kind="entity", prefix="mars", **how)["result"] for how in ({}, {"cursor": 1}))
    assert (rest, {one["id"] for one in every[:2]}) == (every[1:], {"D:1", "P:1"})
    other = client_of().get("/reconcile/suggest/type?prefix=p&callback=x&_=17").json()  # further parameters are ignored
    assert other["result"][0]["id"] == "Place"


def test_data_are_extended_by_fields_and_metadata() -> None:
    assert [one["id"] for one in FEVERS.propose(type="Disease", limit=7)["properties"]][-2:] == ["is_a", "year"]
    properties = ("is_a", "year", "aliases", "types")
    extended = FEVERS.extend(json.dumps({"ids": ["D:2", "D:3"], "properties": [{"id": one} for one in properties]}))
    assert fits(extended, EXTENDED)
    second = {"is_a": [{"id": "D:1", "name": "marsh fever"}], "year": [{"int": 1990}], "types": [{"str": "Disease"}]}
    nothing: dict[str, list[Any]] = {one: [] for one in properties}
    assert extended["rows"] == {"D:2": nothing | second, "D:3": nothing}
    for wrong in ({"ids": 1, "properties": []}, {"ids": [1], "properties": []}, {"ids": [], "properties": ["x"]}, {}):
        with pytest.raises(DataError):
            FEVERS.extend(json.dumps(wrong))


def test_pages_of_any_origin_may_ask_the_reconciliation_service_and_no_other_path() -> None:
    client, origin = client_of(name="fevers"), {"Origin": "http://elsewhere.example"}
    assert fits(client.get("/reconcile", headers=origin).json(), MANIFEST)
    queries = json.dumps({"q0": {"query": "marsh fever"}})
    for how, words in (("GET", "params"), ("POST", "data")):
        response = client.request(how, "/reconcile", **{words: {"queries": queries}}, headers=origin)
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.json()["q0"]["result"][0]["id"] == "D:1"
    asked = client.options("/reconcile/suggest/entity", headers={**origin, "Access-Control-Request-Method": "GET"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
    wrong = client.post("/reconcile", data={"queries": "{"}, headers=origin)
    assert wrong.headers["access-control-allow-origin"] == "*"
    for path in ("/health", "/search?q=a", "/entities/D:1", "/openapi.json"):
        assert "access-control-allow-origin" not in client.get(path, headers=origin).headers
    assert client.options("/link", headers=origin).status_code == 405


def test_previews_are_escaped() -> None:
    response = client_of().get("/reconcile/preview", params={"id": "X/1 ü"})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "<script>" not in response.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in response.text
    assert "A fever of the &lt;marsh&gt;." in client_of().get("/reconcile/preview?id=D:1").text
    assert client_of().get("/reconcile/preview?id=<b>").status_code == 404

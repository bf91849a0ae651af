"""Corrections through the linker: what they say holds, what cannot be obeyed is told, and nothing is lost."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from builders import document, kb_of, linker, passage, save_data, save_lines
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo.corrections.lines import corrections_of
from clustering import METHODS

E1, E2 = arbo.Entity("E1", "marsh fever", aliases=("ague",)), arbo.Entity("E2", "spotted fever")
KB = kb_of(E1, E2, arbo.Entity("E3", "gallbladder stone"))
NAMES = ["marsh fever", "ague", "tropical fever"], ["Marsh Fever", "gallbladder stones", "tropical fever"]
DOCS = [document(id_, *own) for id_, own in zip("abc", (*NAMES, ["tropical fevers", "unheard of"]), strict=True)]
WIDE: Any = {"entity_threshold": 0.1, "mention_threshold": 0.6, "k": 8}
PATIENTS = [passage("d", "The marsh fever of swamp fever patients.", "fever", "swamp fever")]


def link(*records: Any, kb: arbo.KnowledgeBase | None = KB, docs: Any = DOCS, **config: Any) -> arbo.Result:
    own = linker(kb, **config)
    return own.discover(docs, list(records)) if kb is None else own.link(docs, list(records))


def entities(result: arbo.Result) -> dict[str, str | None]:
    return {link.mention.id: link.entity for link in result.links}


def states(result: arbo.Result) -> list[str]:
    return [row["status"] for row in result.corrections]


@pytest.mark.parametrize("spread", ["unlinked", "graph"])
def test_spread_says_what_follows(spread: str) -> None:
    fix = {"mention": "a-0", "entity": "E2"}
    assert entities(link(fix, spread="none"))["b-0"] == "E1"
    twin = link(fix, spread="same-name")
    assert entities(twin)["b-0"] == "E2"
    assert (twin.link_of("b-0").follows, twin.link_of("b-0").corrected) == ("a-0", False)
    once, never = ("corrections", "obeyed", "mentions", "same_name"), ("replaced", "waiting", "conflict", "graph")
    assert twin.manifest["corrections"] == dict.fromkeys(once, 1) | dict.fromkeys(never, 0)
    fix = {"mention": "a-2", "entity": "E3"}
    far = link(fix, spread=spread, **WIDE)
    assert entities(far)["b-2"] == entities(far)["c-0"] == "E3"
    assert far.link_of("c-0").follows == "a-2"
    assert "which is corrected" in str(far.explain("c-0"))
    assert '{"mention": "a-2", "entity": "E3"}' in str(far.explain("c-0"))
    same = {"same": ["a-2", "b-1"]}
    for some, c_0 in (("none", None), ("graph", "E3")):
        joined = link(same, spread=some, **WIDE)
        assert [entities(joined)[id_] for id_ in ("a-2", "b-1", "c-0")] == ["E3", "E3", c_0]
    assert entities(link(fix, spread="none", **WIDE))["c-0"] is None


def test_a_sure_link_leaves_its_entity_for_two_documents_only() -> None:
    docs = [*DOCS, document("d", "marsh fever")]
    one, two = ({"mention": id_, "entity": "E2"} for id_ in ("a-0", "b-0"))
    after = [entities(link(*fixes, docs=docs))["d-0"] for fixes in ([one], [one, two], [one, two | {"entity": "E3"}])]
    assert after == ["E1", "E2", "E1"]


def test_a_mention_without_an_entity_is_sure_of_none() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "pancreatic neoplasms of the head"), arbo.Entity("E2", "fever")])
    docs = [document(id_, "pancreatic neoplasms of head") for id_ in "ab"]
    for fixes, entity in (([], None), ([None], None), (["E2"], "E2")):
        lines = [{"mention": "a-0", "entity": fix} for fix in fixes]
        assert entities(link(*lines, kb=kb, docs=docs, entity_threshold=0.05)) == {"a-0": entity, "b-0": entity}


def test_neither_the_graph_nor_pronouns_take_links_by_default() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "inherited breast cancer of the young"), arbo.Entity("E2", "fever")])
    docs = [document("a", "breast cancer", "inherited breast cancer")]
    how = {"docs": docs, "entity_threshold": 0.9, "mention_threshold": 0.6}
    fix = {"mention": "a-0", "entity": "E2"}
    after = link(fix, kb=kb, **how)
    assert entities(after) == {"a-0": "E2", "a-1": "E1"}
    assert "keeps its entity" in str(after.explain("a-1"))
    assert entities(link(fix, kb=kb, spread="graph", **how)) == {"a-0": "E2", "a-1": "E2"}
    docs = [document("a", "She", "the fever", "marsh fever"), document("b", "she", "The fever", "marsh fever")]
    fixes = [{"mention": f"a-{i}", "entity": "E3"} for i in range(3)]
    result = link(*fixes, docs=docs, spread="same-name")
    assert [result.link_of(f"b-{i}").entity == "E3" for i in range(3)] == [False, False, True]


@pytest.mark.parametrize("number", [0, 1])
def test_what_follows_a_twin_follows_the_corrected_mention(number: int) -> None:
    docs = [document("a", "tropical fever", "tropical fever", "tropical feverish")]
    fix = {"mention": f"a-{number}", "entity": "E3"}
    result = link(fix, docs=docs, spread="graph", **WIDE)
    assert [entities(result)["a-2"], result.link_of("a-2").follows] == ["E3", f"a-{number}"]
    assert f"(a-{number}), which is corrected" in str(result.explain("a-2"))


def test_later_lines_replace_disagreement_is_a_conflict_and_agreement_counts() -> None:
    one, other = {"mention": "a-0", "entity": "E2"}, {"mention": "a-0", "entity": "E3"}
    result = link(one, other)
    assert (states(result), entities(result)["a-0"]) == (["replaced", "obeyed"], "E3")
    result = link({**one, "author": "Ann"}, {**other, "author": "Bob"})
    assert (states(result), entities(result)["a-0"]) == (["conflict", "conflict"], "E1")
    assert '"author": "Bob"' in result.corrections[0]["reason"]
    assert "line 1" in result.corrections[1]["reason"]
    chain = link(one, {"mention": "b-1", "entity": "E3"}, {"same": ["a-0", "c-1"]}, {"same": ["c-1", "b-1"]})
    assert states(chain) == ["obeyed", "obeyed", "conflict", "conflict"]
    assert "line 1" in chain.corrections[2]["reason"]
    assert "line 2" in chain.corrections[2]["reason"]
    both = link({"same": ["a-0", "a-1", "b-0"]}, {"different": ["a-0", "b-0"]})
    assert states(both) == ["obeyed", "conflict"]
    told = {"Ann": {"a-0": "E1", "b-1": "E3", "a-1": "E1"}, "Ben": {"a-0": "E1", "b-1": "E2"}}
    lines = [{"mention": id_, "entity": one, "author": who} for who, own in told.items() for id_, one in own.items()]
    counts = link(*lines).manifest["corrections"]
    assert (counts["by_several"], counts["agreed"], counts["conflict"]) == (2, 1, 2)
    assert "by_several" not in link(*lines[:3]).manifest["corrections"]


def test_what_is_not_there_waits() -> None:
    result = link(
        {"mention": "gone", "entity": "E2"},
        {"mention": "a-0", "entity": "E9"},
        {"same": ["a-0", "gone", "a-1"]},
        {"different": ["a-2", "gone"]},
        {"document": "z", "spans": [[0, 1]], "drop": True},
        {"document": "a", "spans": [[0, 1]], "drop": True},
        {"document": "a", "spans": [[0, 999]], "add": True},
        {"mention": "a-2", "note": "no such entity", "entity": "E1 "},
    )
    assert states(result) == ["waiting", "waiting", "obeyed", "waiting", "waiting", "waiting", "waiting", "waiting"]
    assert all(row["reason"] for row in result.corrections)
    # A removed mention still joins, and still says which entity the others are.
    assert entities(result)["a-0"] == entities(result)["a-1"] == "E2"


def test_mentions_are_dropped_added_resized_and_split() -> None:
    resized, gone = ({"document": "d", "spans": [span]} for span in ([10, 15], [19, 30]))
    added = {"document": "d", "spans": [[0, 3]], "add": True, "type": "Article"}
    lines = resized | {"resize": [[4, 15]]}, gone | {"drop": True}, added, {"mention": "d:0-3", "entity": "E3"}
    result = link(*lines, docs=PATIENTS)
    assert states(result) == ["obeyed"] * 4
    found = [(m.mention.id, m.mention.text, m.mention.type, m.entity) for m in result.links]
    assert found == [("d-0", "marsh fever", None, "E1"), ("d:0-3", "The", "Article", "E3")]
    docs = [passage("d", "Breast and ovarian cancers, of the breast.", "Breast and ovarian cancers", "breast")]
    split = {"document": "d", "spans": [[0, 26]], "split": [[[0, 6], [19, 26]], [[11, 26]], [[35, 41]]]}
    result = link(split, {"mention": "d-0", "entity": "E1"}, {"mention": "d:11-26", "entity": "E2"}, docs=docs)
    assert states(result) == ["obeyed"] * 3
    found = [(m.mention.id, m.mention.text, m.entity) for m in result.links]
    assert found == [("d-0", "Breast cancers", "E1"), ("d-1", "breast", None), ("d:11-26", "ovarian cancers", "E2")]
    again = {**split, "split": [[[0, 6]], [[11, 26]]]}
    assert [m.mention.text for m in link(split, again, docs=docs).links] == ["Breast", "breast", "ovarian cancers"]
    assert states(link(split, {**again, "author": "Bob"}, docs=docs)) == ["conflict"] * 2
    assert states(link({**split, "split": [[[0, 6]], [[0, 99]]]}, docs=docs)) == ["waiting"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", ["none", "same-name", "graph"])
def test_several_entities_of_one_mention(method: str, spread: str, tmp_path: Path) -> None:
    """They are a root that spreads to equal names alone, and is right if any of them is."""
    docs = [document("a", "fevers", "marsh fevers"), document("b", "fevers", "fever")]
    gold = [arbo.Document(one.id, one.text, tuple(replace(m, gold=("E2",)) for m in one.mentions)) for one in docs]
    both = {"mention": "a-0", "entity": ["E2", "E1"]}
    result = link(both, docs=gold, method=method, spread=spread)
    assert states(result) == ["obeyed"]
    linked = entities(result)
    assert linked["a-0"] == "E1|E2"
    assert (linked["b-0"] == linked["b-1"] == "E1|E2") == (spread != "none")
    assert linked["a-1"] != "E1|E2"
    assert result.links[0].entity_name == "marsh fever|spotted fever"
    assert result.evaluate().linking.correct >= (1 if spread == "none" else 3)
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").several == {"E1|E2": ["E1", "E2"]}
    result.export(tmp_path / "out.txt", "pubtator")
    assert "\tE1|E2\n" in (tmp_path / "out.txt").read_text("utf-8")
    assert arbo.read_documents(tmp_path / "out.txt").mentions[0].gold == ("E1", "E2")
    assert states(link(both, {"mention": "a-0", "not": "E1", "author": "Bob"}, docs=docs)) == ["conflict"] * 2
    assert states(link({**both, "entity": ["E1", "E7"]}, docs=docs)) == ["waiting"]
    unknown, no = {**both, "entity": ["E7", "E8"]}, {"mention": both["mention"], "not": "E7"}
    assert states(link(unknown, no, docs=docs)) == ["waiting", "waiting"]
    with pytest.raises(arbo.errors.DataError, match="one id, a list of two or more, or null, not this list"):
        link({**both, "entity": ["E1"]})


def test_without_a_knowledge_base_corrections_make_and_part_clusters() -> None:
    named, linked = {"mention": "a-0", "new": "swamp sickness"}, {"mention": "a-1", "entity": "E1"}
    result = link(named, {"same": ["a-0", "c-1"]}, {"different": ["a-2", "b-2"]}, linked, kb=None)
    assert states(result) == ["obeyed", "obeyed", "obeyed", "waiting"]
    cluster = {link.mention.id: link.cluster for link in result.links}
    assert cluster["a-0"] == cluster["b-0"] == cluster["c-1"] == "new-a-0"
    assert cluster["a-2"] != cluster["b-2"]


def test_a_run_keeps_its_corrections(tmp_path: Path) -> None:
    full = {"mention": "a-0", "entity": "E2", "author": "Ann", "date": "2026-01-01", "note": "see p. 3", "key": [1]}
    file = save_lines(tmp_path / "fixes.jsonl", full, "", {"mention": "gone", "entity": "E2"})
    own = linker(KB).link(DOCS, file)
    own.save(tmp_path / "run")
    again = arbo.Result.load(tmp_path / "run")
    assert again.corrections == own.corrections
    assert [(row["line"], row["status"]) for row in again.corrections] == [(1, "obeyed"), (3, "waiting")]
    assert again.corrections[0]["record"]["note"] == "see p. 3"
    assert linker(KB).link(DOCS, [row["record"] for row in own.corrections]).link_table == own.link_table


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "not JSON"),
        ('{"mention": "a-0"}', "one of the keys entity"),
        ('{"mention": "a-0", "entity": "E1", "not": "E2"}', "the keys entity and not"),
        (r'{"mention": "a-0", "new": "x", "note": "\ud800"}', "a correction has a surrogate"),
        ('{"entity": "E1"}', "needs the key 'mention'"),
        ('{"mention": "a-0", "new": " "}', "is empty"),
        ('{"same": ["a-0"]}', "two or more different ids"),
        ('{"different": ["a-0", "a-0"]}', "two different ids"),
        ('{"document": "a", "drop": true}', "needs the key 'spans'"),
        ('{"mention": "a-0", "new": null}', "'new' of a correction must be a string .* null"),
        ('{"document": "a", "spans": [[3, 1]], "drop": true}', "is not one with 0 <= start"),
        ('{"document": "a", "spans": [[0, 1]], "drop": false}', "must be true"),
    ],
)
def test_a_malformed_line_is_refused_with_its_place(line: str, message: str, tmp_path: Path) -> None:
    file = save_lines(tmp_path / "fixes.jsonl", {"same": ["a-0", "a-1"]}, line)
    with pytest.raises(arbo.DataError, match=message) as caught:
        corrections_of(file)
    assert (caught.value.file, caught.value.line) == (str(file), 2)


MENTIONS = [mention.id for own in DOCS for mention in own.mentions] + ["gone"]
LINES = st.one_of(
    st.builds(lambda m, e: {"mention": m, "entity": e}, st.sampled_from(MENTIONS), st.sampled_from(["E1", "E2", None])),
    st.builds(lambda m, e: {"mention": m, "not": e}, st.sampled_from(MENTIONS), st.sampled_from(["E1", "E2", "E9"])),
    st.builds(lambda m, e: {"mention": m, "new": e}, st.sampled_from(MENTIONS), st.sampled_from(["N1", "N2"])),
    st.builds(lambda m: {"same": m}, st.lists(st.sampled_from(MENTIONS), min_size=2, max_size=3, unique=True)),
    st.builds(lambda m: {"different": m}, st.lists(st.sampled_from(MENTIONS), min_size=2, max_size=2, unique=True)),
)


def mentions_of(record: dict[str, Any]) -> list[str]:
    return [record["mention"]] if "mention" in record else record.get("same") or record["different"]


SPREADS = st.sampled_from(["none", "same-name", "unlinked", "graph"])


@given(st.lists(LINES, max_size=7), SPREADS, st.sampled_from(METHODS), st.booleans(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_none_is_lost_in_any_order(records: Any, spread: Any, method: str, limited: bool, random: Any) -> None:
    """Each line has an author of its own, so that none replaces another."""
    records = [{**record, "author": f"author {i}"} for i, record in enumerate(records)]
    config: dict[str, Any] = {"spread": spread, "method": method}
    if not limited:
        config |= {"entity_threshold": None, "mention_threshold": None}
    result = link(*records, **config)
    assert [row["record"] for row in result.corrections] == records
    cluster = {link.mention.id: link.cluster for link in result.links}
    name = {one.id: one.name for one in result.clusters}
    found = entities(result)
    for row in result.corrections:
        record = row["record"]
        if row["status"] != "obeyed":
            assert (row["status"] in ("waiting", "conflict"), bool(row["reason"])) == (True, True)
            continue
        mention = record.get("mention")
        if "entity" in record:
            corrected = result.link_of(mention)
            assert corrected.entity == record["entity"]
            assert corrected.entity is None or corrected.step is corrected.bottleneck is None
        elif "new" in record:
            assert found[mention] is None
            assert name[cluster[mention]] == record["new"]
        elif "not" in record:
            assert found[mention] != record["not"]
        elif "same" in record:
            assert len({cluster[one] for one in record["same"] if one in cluster}) == 1
        else:
            assert len({cluster[one] for one in record["different"]}) == 2
    named = {id_ for row in result.corrections if row["status"] == "obeyed" for id_ in mentions_of(row["record"])}
    assert {link.mention.id for link in result.links if link.corrected} == named - {"gone"}
    named |= {id_ for record in records if "gone" in record.get("same", ()) for id_ in record["same"]}
    if spread != "graph":
        for one in link(**config).links:
            if one.entity is not None and one.mention.id not in named:
                assert one.entity == found[one.mention.id] or result.link_of(one.mention.id).follows is not None
    other = records[:]
    random.shuffle(other)
    shuffled = link(*other, **config)
    assert (shuffled.link_table, shuffled.cluster_table) == (result.link_table, result.cluster_table)
    now = {json.dumps(row["record"]): row["status"] for row in shuffled.corrections}
    assert now == {json.dumps(row["record"]): row["status"] for row in result.corrections}


def test_spans_in_any_order() -> None:
    records = [
        {"document": "d", "spans": [[10, 15]], "resize": [[4, 15]]},
        {"document": "d", "spans": [[0, 3]], "add": True},
        {"document": "d", "spans": [[32, 40]], "add": True},
        {"document": "d", "spans": [[19, 30]], "drop": True, "author": "Ann"},
        {"document": "d", "spans": [[19, 30]], "resize": [[20, 30]], "author": "Bob"},
    ]
    tables = [link(*order, docs=PATIENTS) for order in [*permutations(records)][::7]]
    assert all(one.link_table == tables[0].link_table for one in tables)
    assert states(tables[0]) == ["obeyed", "obeyed", "obeyed", "conflict", "conflict"]


def test_the_command_line_previews_tells_and_explains(run: Run, tmp_path: Path) -> None:
    data = save_data(tmp_path, DOCS, KB)
    named = [{"mention": "c-1", "new": f"the {new}", "author": new[0]} for new in ("unheard", "heard")]
    linked = [{"mention": id_, "entity": "E2"} for id_ in ("a-0", "zzz")]
    fixes = save_lines(tmp_path / "fixes.jsonl", *linked, *named)
    data = [*data, "--set", "spread=same-name"]
    job = ["link", *data, "--corrections", fixes, "--out", tmp_path / "run"]
    assert "mentions: 2 moved" in run(*job[:-2], "--preview").ok().out
    counts = run(*job, "--preview", "--json").json["corrections"]
    assert not (tmp_path / "run").exists()
    assert (counts["obeyed"], counts["waiting"], counts["conflict"], counts["same_name"]) == (1, 1, 2, 1)
    done = run(*job)
    told = " ".join(done.err.split())
    assert done.code == 0
    assert "4 corrections: 1 obeyed, 0 replaced, 1 waiting, 2 conflict" in told
    assert "fixes.jsonl, line 2" in told
    assert told.count('"the heard"') == 2  # of its own line, and as the reason of the other
    assert "has the same name as" in run("explain", tmp_path / "run", "b-0").out
    assert run("link", *data, "--corrections", tmp_path / "no.jsonl", "--out", tmp_path / "other").code == 3
    found = run("discover", tmp_path / "docs.jsonl", *job[-4:], "--json").json
    assert found["corrections"]["waiting"] == 2


def test_named_entities_become_a_knowledge_base(run: Run, tmp_path: Path) -> None:
    data = save_data(tmp_path, DOCS, KB)
    lines = {"mention": "a-2", "new": "jungle fever"}, {"mention": "c-1", "new": "X"}
    fixes = save_lines(tmp_path / "fixes.jsonl", *lines)
    assert run("link", *data, "--corrections", fixes, "--out", tmp_path / "run").code == 0
    edit = ["kb", "edit", tmp_path / "kb.jsonl", "--add-discovered"]
    made = run(*edit, tmp_path / "run", "--out", tmp_path / "kb2.jsonl").ok()
    kb = arbo.read_knowledge_base(tmp_path / "kb2.jsonl")
    assert [entity.id for entity in kb] == ["E1", "E2", "E3", "new-a-2", "new-c-1"]
    assert (kb["new-a-2"].name, kb["new-a-2"].aliases[:1]) == ("jungle fever", ("tropical fever",))
    linked = entities(link(kb=kb))
    assert [linked[mention] for mention in ("a-2", "b-2", "c-1")] == ["new-a-2", "new-a-2", "new-c-1"]
    assert "entities added: 2" in made.out
    kept = arbo.Linker(kb).link(DOCS, fixes)
    assert [entities(kept)[mention] for mention in ("a-2", "b-2", "c-1")] == ["new-a-2", "new-a-2", "new-c-1"]
    assert run("link", *data, "--out", tmp_path / "plain").code == 0
    assert run(*edit, tmp_path / "plain", "--out", tmp_path / "kb4.jsonl").code == 2


@pytest.mark.parametrize("method", METHODS)
def test_what_a_mention_is_not_costs_no_other_mention_its_link(method: str) -> None:
    docs = [document(str(i), "marsh fever") for i in range(5)]
    result = link({"mention": "2-0", "not": "E1"}, docs=docs, method=method, k=4, entity_threshold=None)
    assert [link.entity == "E1" for link in result.links] == [True, True, False, True, True]
    assert result.link_of("2-0").entity == "E2"


@pytest.mark.parametrize("joined", [True, False])
def test_what_one_mention_is_not_its_equal_is_not_if_people_joined_them(joined: bool) -> None:
    """Nothing follows a guess."""
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fevre")])
    docs = [document("a", "marsh fever", "marsh fever", *["marsh fever", "marsh fevers"] * (not joined))]
    for wrong in ("a-0", "a-1"):
        lines = [{"mention": wrong, "not": "E1"}, *[{"same": ["a-0", "a-1"]}] * joined]
        found = entities(link(*lines, kb=kb, docs=docs, entity_threshold=0.9, spread="graph" if joined else "none"))
        assert found == {id_: "E2" if joined or id_ == wrong else "E1" for id_ in found}


def test_people_make_no_giant() -> None:
    names = [f"{letter}{letter}{letter} {number}" for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")]
    linker = arbo.Linker()
    ids = [link.mention.id for link in linker.discover(names).links]
    for lines in ([{"same": ids}], [{"mention": id_, "new": "all"} for id_ in ids]):
        found = linker.discover(names, lines)
        assert (len(found.clusters), found.manifest["giants"]) == (1, [])
        assert "any" not in str(found.explain(ids[1]))

"""Runs that grow, shrink, obey corrections and change their knowledge base are those of a refit, bit by bit."""

import gc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from builders import document, kb_of, linker, passage, sample_edges, save_lines
from histories import KB, NAMES, History, equal
from rerankers import Oracle, knows_gold
from test_corrections import states

import arbo
from arbo.engine import Vectors
from arbo.errors import DataError, UsageError
from arbo.files import sha256_of
from arbo.retrieval.groups import search_all
from clustering.growth import updated

SAMPLE, BASE = arbo.load_sample()


def test_saved_runs_grow_and_do_not_change(tmp_path: Path) -> None:
    own = arbo.Linker(BASE)
    own.link(SAMPLE[:60]).save(tmp_path / "one")
    before = {file.name: sha256_of(file) for file in (tmp_path / "one").iterdir()}
    grown = own.add(arbo.Result.load(tmp_path / "one"), SAMPLE[60:])
    grown.save(tmp_path / "two")
    assert before == {file.name: sha256_of(file) for file in (tmp_path / "one").iterdir()}
    equal(*(replace(run, link_rows=run.link_table.drop_columns(["confidence"])) for run in (grown, own.link(SAMPLE))))
    back = own.remove(arbo.Result.load(tmp_path / "two"), [one.id for one in SAMPLE[60:]])
    equal(back, arbo.Result.load(tmp_path / "one"))


def test_a_run_that_can_grow_holds_the_matrix_of_its_vectors_alone() -> None:
    documents = [document(f"d{i}", *NAMES[i : i + 2]) for i in range(7)]
    ids = [mention.id for one in documents for mention in one.mentions]
    vectors, entities = ({id_: [1.0, i % 3] for i, id_ in enumerate(some)} for some in (ids, [e.id for e in KB]))
    own = linker(KB).configured(encoder=arbo.VectorEncoder(vectors, entities))

    def there() -> int:
        gc.collect()
        return sum(type(one) is Vectors for one in gc.get_objects())

    before, result = there(), own.link(documents)
    assert there() == before
    assert "vectors" in result.arrays()


def test_learnt_edges_grow_as_they_are_refitted() -> None:
    first, late = (SAMPLE[row].mentions for row in (0, 30))
    lines = [{"mention": first[0].id, "entity": BASE.entities[3].id}, {"same": [first[1].id, late[0].id]}]
    lines += [{"mention": late[1].id, "new": "a new thing"}, {"mention": late[2].id, "entity": None}]
    for own in (arbo.Linker(BASE, edges=sample_edges()), arbo.Linker(edges=sample_edges())):
        verb = own.link if own.kb else own.discover
        grown = own.add(verb(SAMPLE[:30], lines[:2]), SAMPLE[30:60], lines[2:])
        equal(grown, own.refit(grown))
        if own.kb:
            equal(grown, own.link(SAMPLE[:60], lines), lines=False)


def test_single_mentions_can_be_removed() -> None:
    result = arbo.Linker().discover([document("a", "zzz", "fever"), document("b", "zzz")])
    left = arbo.Linker().remove(result, ["a-0"])
    assert [(link.mention.id, link.cluster) for link in left.links] == [("a-1", "new-a-1"), ("b-0", "new-b-0")]
    with pytest.raises(UsageError, match="no document or mention 'q'"):
        arbo.Linker().remove(result, ["q", "a"])
    names = arbo.Linker().add(arbo.Linker().discover(["zzz", "fever"]), ["kelp", None])
    assert [link.mention.id for link in arbo.Linker().remove(names, ["0"]).links] == ["1", "2", "3"]
    own = arbo.Linker(edges=sample_edges(), config={"treat_as": "list"})
    assert len(own.add(own.add(own.discover([]), [document("9" * 5000, "zzz")]), ["kelp"]).links) == 2
    both = arbo.Linker().discover([document("a", "zzz"), document("a-0", "fever", "kelp")])
    with pytest.raises(UsageError, match="'a-0' is a document and a mention of 'a'; give all mentions of one"):
        arbo.Linker().remove(both, ["a-0"])


def test_vectors_that_were_removed_are_not_kept() -> None:
    documents = [document("a", "one"), document("b", "two"), document("c", "three")]
    own = arbo.Linker(encoder=arbo.VectorEncoder({"a-0": [1.0, 0.0], "b-0": [0.0, 7.0], "c-0": [1.0, 1.0]}))
    left = own.remove(own.discover(documents), ["b"])
    assert left.arrays()["vectors"].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    equal(own.add(left, [documents[1]]), own.refit(own.add(left, [documents[1]])))


def test_what_cannot_grow_is_refused_with_the_mend(tmp_path: Path) -> None:
    documents = [document("a", "zzz", "fever"), document("b", "zzz")]
    result = linker(KB).link(documents)
    with pytest.raises(DataError, match="the run has this document already"):
        linker(KB).add(result, documents[:1])
    for other, what in (
        (linker(KB, k=2), "settings"),
        (linker(KB).configured(encoder=arbo.NgramEncoder(sizes=(2,))), "encoder or edge model"),
        (linker(KB).configured(edges=sample_edges()), "encoder or edge model"),
        (linker(), "knowledge base"),
    ):
        with pytest.raises(UsageError, match=f"other {what}; use the same, or link all documents again"):
            other.add(result, [])
    for refused in (lambda own: own.refit(result), lambda own: own.remove(result, [])):
        with pytest.raises(UsageError, match="made with another knowledge base; use the same, or `add` with the new"):
            refused(linker(arbo.KnowledgeBase(KB.entities[:2])))
    result.save(tmp_path / "run", texts=False)
    with pytest.raises(UsageError, match="without texts"):
        linker(KB).add(arbo.Result.load(tmp_path / "run"), [])
    result.save(tmp_path / "run")
    (tmp_path / "run" / "growth.npz").write_bytes(b"")
    with pytest.raises(DataError, match="changed after it was written"):
        linker(KB).add(arbo.Result.load(tmp_path / "run"), [])


def test_only_what_is_new_is_searched_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    own = arbo.Linker(BASE)
    result = own.link(SAMPLE)
    monkeypatch.setitem(updated.__globals__, "nearest", search := Mock(wraps=updated.__globals__["nearest"]))
    own.add(result, [document("new", "RV Petrel", "zzz")])
    search.assert_not_called()  # new mentions are joined to the others
    own.remove(result, [SAMPLE[0].id])
    assert sum(call.args[0].n for call in search.call_args_list) < len(SAMPLE.mentions) / 20


def test_a_matrix_has_a_row_for_each_new_mention_in_the_order_of_documents() -> None:
    vectors = {"z-0": [1.0, 0.0], "y-0": [0.0, 1.0], "x-0": [0.1, 0.9], "w-0": [0.9, 0.1]}
    documents = [document(id_, "aa") for id_ in "zyxw"]

    def linker_of(*ids: str) -> arbo.Linker:
        matrix = np.array([vectors[id_] for id_ in ids], np.float32)
        return arbo.Linker(None, arbo.VectorEncoder(matrix), arbo.LinkerConfig(mention_threshold=0.1))

    before = linker_of("z-0", "y-0").discover(documents[:2])
    grown = linker_of("x-0", "w-0").add(before, documents[2:])
    assert grown.link_table.equals(linker_of(*vectors).discover(documents).link_table)
    assert [len(cluster.mentions) for cluster in grown.clusters] == [2, 2]
    assert linker_of("z-0", "y-0").refit(before).link_table.equals(before.link_table)


def test_what_a_release_changed_is_told() -> None:
    documents = [document("a", "marsh fever", "kelp blight", "zzz")]
    one = kb_of(arbo.Entity("D1", "marsh fever"), arbo.Entity("D2", "kelp blight"), arbo.Entity("D3", "qq"))
    heir = arbo.Entity("D5", "fever of marshes", ("marsh fever",), alternative_ids=("D1",))
    other = kb_of(heir, arbo.Entity("D2", "quagga rot"), arbo.Entity("D4", "zzz"))
    before = linker(one).link(documents)
    after = linker(other).add(before, other_kb=True)
    changes = arbo.diff(before, after)
    assert changes.knowledge_base == {"new": 2, "gone": 2, "changed": 1, "replaced": 1}
    assert str(changes).startswith("knowledge base: 2 new, 2 gone, 1 changed, 1 replaced\n")
    names = ["mention", "entity_before", "entity_after", "cause"]
    causes = {id_: (*row,) for id_, *row in zip(*changes.mentions.select(names).to_pydict().values(), strict=True)}
    assert causes["a-0"] == ("D1", "D5", "D5 replaces D1")
    assert (causes["a-1"], causes["a-2"]) == (("D2", None, "D2 has changed"), (None, "D4", "D4 is new"))
    assert {row["cluster"]: row["cause"] for row in changes.clusters.to_pylist()}["D4"] == "D4 is new"
    again = linker(one).add(after, other_kb=True)
    equal(again, before)
    assert "fitted" not in again.manifest["knowledge_base"]
    assert arbo.diff(before, again).knowledge_base == {}


def test_unseen_n_grams_are_told_and_many_of_them_warned_of() -> None:
    for own, verb in ((arbo.Linker(BASE), "link"), (arbo.Linker(), "discover")):
        before = own.link(SAMPLE[:60]) if own.kb else own.discover(SAMPLE[:60])
        after = own.add(before, [document("q", "Qqxyz wvutsr")])
        assert after.manifest["drift"] == {"mentions": 1.0}
        unseen = "100% of the n-grams in added names are unseen, so that their weights no longer fit"
        assert f"{unseen}; `arbo {verb}`" in str(after.warnings)
        again = own.add(after, [document("r", SAMPLE.mentions[0].text)])
        assert again.manifest["drift"]["mentions"] < 0.1
        assert not again.warnings
    release = arbo.KnowledgeBase([*BASE.entities, *(arbo.Entity(f"N{i}", f"Qqxyz wvutsr {i}") for i in range(20))])
    after = arbo.Linker(release).add(arbo.Linker(BASE).link(SAMPLE[:9]))
    assert after.manifest["drift"]["mentions"] == 0
    assert 0 < after.manifest["drift"]["entities"] < 0.1


def test_only_what_a_release_changed_is_searched() -> None:
    few = arbo.LinkerConfig(candidates=2)
    before = arbo.Linker(BASE, config=few).link(SAMPLE)
    search = Mock(side_effect=lambda wanted, k, **how: search_all(wanted, k, **how))
    renamed = replace(BASE.entities[-1], aliases=(*BASE.entities[-1].aliases, "a quite unheard of name"))
    release = arbo.KnowledgeBase([arbo.Entity("N1", "unheard of"), *BASE.entities[:-1], renamed])
    after = arbo.Linker(release, config=few, over=SimpleNamespace(search_all=search)).add(before)
    searched = [one for call in search.call_args_list for one in call.args[0]]
    assert {one.things.n for one in searched} == {2, len(BASE) + 1}
    assert sum(one.queries.n for one in searched if one.things.n > 2) < len(SAMPLE.mentions) / 20
    assert arbo.diff(before, after).knowledge_base == {"new": 1, "changed": 1}


def test_an_obsolete_id_of_several_entities_is_not_followed() -> None:
    one = arbo.KnowledgeBase([arbo.Entity("D1", "marsh fever"), arbo.Entity("D2", "zzz")])
    parts = [arbo.Entity("D8", "kelp"), arbo.Entity("D9", "marsh fever")]
    two = arbo.KnowledgeBase([*(replace(part, alternative_ids=("D1",)) for part in parts), one["D2"]])
    before = linker(one).link([document("a", "marsh fever"), document("b", "x")], [{"mention": "b-0", "entity": "D1"}])
    after = linker(two).add(before, other_kb=True)
    changes = arbo.diff(before, after).mentions.select(["mention", "cause"]).to_pydict()
    assert changes == {"mention": ["a-0", "b-0"], "cause": ["D1 is gone"] * 2}
    (line,) = after.corrections
    assert (line["status"], line["reason"]) == ("waiting", "several entities have the id 'D1': D8, D9; name one")
    assert "replaced" not in after.manifest["knowledge_base"]


THREE = kb_of(arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight"), arbo.Entity("E3", "zzz"))
TEXT = "The marsh fever of kelp blight patients."


def test_histories_have_corrections_of_all_kinds_and_fates(tmp_path: Path) -> None:
    kinds, fates = set(), set()
    for seed in range(9):
        history = History(seed, tmp_path / str(seed), dense=False, kb=True)
        for _ in range(3):
            history.step()
            kinds |= {key for row in history.result.corrections for key in row["record"] if key not in ("author",)}
            fates |= set(states(history.result))
    assert kinds >= {"entity", "not", "new", "same", "different", "drop", "add", "resize", "split"}
    assert fates == {"obeyed", "replaced", "waiting", "conflict"}


def test_a_line_waits_until_its_mention_arrives_and_after_it_is_gone() -> None:
    own, late = linker(THREE), document("b", "fever", "zzz")
    lines = [{"mention": "b-0", "entity": "E2"}, {"document": "b", "spans": [[6, 9]], "drop": True}]
    first = own.link([document("a", "fever")], lines)
    assert states(first) == ["waiting", "waiting"]
    assert first.link_of("a-0").entity != "E2"
    grown = own.add(first, [late])
    assert states(grown) == ["obeyed", "obeyed"]
    assert [(link.mention.id, link.entity) for link in grown.links] == [("a-0", "E2"), ("b-0", "E2")]
    left = own.remove(grown, ["b"])
    equal(left, first)
    equal(own.add(left, [late]), grown)


def test_a_mention_that_is_gone_still_joins_others() -> None:
    documents, own = [document("a", "one"), document("b", "two"), document("c", "three")], linker(THREE)
    lines = [{"same": ["a-0", "b-0"]}, {"same": ["b-0", "c-0"]}, {"mention": "b-0", "entity": "E3"}]
    left = own.remove(own.link(documents, lines), ["b"])
    assert [link.entity for link in left.links] == ["E3", "E3"]
    refused = own.add(left, [], [{"mention": "a-0", "entity": "E1"}])
    assert states(refused) == ["conflict", "conflict", "waiting", "obeyed"]


def test_what_corrections_did_to_mentions_is_undone_when_they_no_longer_hold(tmp_path: Path) -> None:
    documents, own = [passage("d", TEXT, "marsh", "kelp blight"), passage("e", TEXT, "fever")], linker(THREE)
    where, other = {"document": "d", "spans": [[4, 9]], "author": "Ann"}, {"document": "d", "spans": [[19, 30]]}
    lines = [{**where, "resize": [[4, 15]]}, {**other, "drop": True}, {"document": "e", "spans": [[0, 3]], "add": True}]
    own.link(documents, lines).save(tmp_path / "run")
    run = arbo.Result.load(tmp_path / "run")
    assert [link.mention.text for link in run.links] == ["marsh fever", "fever", "The"]
    more = [{**where, "drop": True, "author": "Bob"}, {**other, "resize": [[19, 23]]}]
    grown = own.add(run, [], more)
    assert states(grown) == ["conflict", "replaced", "obeyed", "conflict", "obeyed"]
    assert [link.mention.text for link in grown.links] == ["marsh", "kelp", "fever", "The"]
    equal(grown, own.link(documents, [*lines, *more]), lines=False)
    equal(grown, own.refit(grown))


def test_a_resized_mention_gets_the_long_form_as_in_a_new_run() -> None:
    text = "Limb stiffness complex (LSC) came. The LSC spreads. Sheep have LSC."
    late, own = passage("b", text, "LSC)", "The LSC", "Sheep"), linker(THREE)
    line = {"document": "b", "spans": [[35, 42]], "resize": [[39, 42]]}
    documents = [document("a", "limb stiffness complex"), late]
    grown = own.add(own.link(documents), [], [line])
    assert grown.link_of("b-1").name == "Limb stiffness complex"
    equal(grown, own.link(documents, [line]), lines=False)


def test_a_line_fits_the_spans_that_another_line_gave_to_a_mention() -> None:
    own, documents = linker(THREE), [passage("d", TEXT, "marsh", "kelp blight")]
    resize = {"document": "d", "spans": [[4, 9]], "resize": [[4, 15]]}
    drop, run = {"document": "d", "spans": [[4, 15]], "drop": True}, own.link(documents, [resize])
    grown = own.add(run, corrections=[drop])
    assert (states(grown), [link.mention.id for link in grown.links]) == (["replaced", "obeyed"], ["d-1"])
    equal(grown, own.link(documents, [resize, drop]), lines=False)
    assert states(own.add(run, corrections=[{**drop, "author": "Bob"}])) == ["conflict", "conflict"]
    wider = own.add(run, corrections=[{"document": "d", "spans": [[4, 15]], "resize": [[0, 15]]}])
    assert [link.mention.text for link in wider.links] == ["The marsh fever", "kelp blight"]
    other = {"document": "d", "spans": [[19, 30]], "resize": [[4, 15]]}
    assert states(own.add(run, corrections=[other, drop])) == ["obeyed", "obeyed", "waiting"]
    added = {"document": "d", "spans": [[4, 15]], "add": True}
    assert states(own.add(run, corrections=[added, drop])) == ["obeyed", "replaced", "waiting"]


def test_an_added_mention_goes_by_a_line_and_a_dropped_one_for_good() -> None:
    own = linker(THREE)
    lines = [{"document": "d", "spans": [[0, 3]], "add": True}, {"document": "d", "spans": [[4, 15]], "drop": True}]
    run = own.link([passage("d", TEXT, "marsh fever", "kelp blight")], lines)
    with pytest.raises(UsageError, match=r"no document or mention 'd:0-3'; .*a correction with 'drop' removes"):
        own.remove(run, ["d:0-3"])
    without = own.add(run, [], [{**lines[0], "note": "no"}, {"document": "d", "spans": [[0, 3]], "drop": True}])
    assert [link.mention.id for link in without.links] == ["d-1"]
    gone = own.remove(run, (name for name in ["d-0"]))
    assert states(gone) == ["obeyed", "waiting"]
    assert b"marsh" not in b"".join(array.tobytes() for name, array in gone.arrays().items() if "given" in name)


def test_a_new_document_may_take_the_id_of_an_added_mention() -> None:
    own, line = linker(THREE), {"document": "d", "spans": [[0, 3]], "add": True}
    text = "Kelp blight"
    taken = arbo.Document("e", text, (arbo.Mention("d:0-3", "e", ((0, 11),), text),))
    one, other = passage("d", TEXT, "marsh fever"), passage("f", TEXT, "patients")
    grown = own.add(own.link([one, other], [line]), [taken])
    assert (states(grown), grown.link_of("d:0-3").entity) == (["conflict"], "E2")
    equal(grown, own.link([one, other, taken], [line]), lines=False)


def test_lines_keep_their_place_and_count_once(tmp_path: Path) -> None:
    documents, own = [document("a", "fever"), document("b", "fever")], linker(THREE)
    first, second = {"mention": "a-0", "entity": "E1"}, {"mention": "a-0", "entity": "E2"}
    file = save_lines(tmp_path / "fixes.jsonl", first)
    run, file = own.link(documents[:1], file), save_lines(tmp_path / "fixes.jsonl", first, second)
    grown = own.add(run, documents[1:], file)
    assert [(row["file"], row["line"]) for row in grown.corrections] == [(str(file), 1), (str(file), 2)]
    assert states(grown) == ["replaced", "obeyed"]
    back = own.add(grown, [], [first])
    assert [(row["record"], row["status"]) for row in back.corrections] == [(second, "replaced"), (first, "obeyed")]
    assert states(own.add(run, [], [{**second, "author": "Bob"}])) == ["conflict", "conflict"]


@pytest.mark.parametrize("changes", [{}, {"skip_margin": 0.2}])
def test_a_reranker_reads_only_new_pairs(changes: dict[str, Any], tmp_path: Path) -> None:
    config, oracle = arbo.LinkerConfig(candidates=4, **changes), knows_gold()
    own = arbo.Linker(BASE, config=config, reranker=oracle)
    own.link(SAMPLE[:60]).save(tmp_path / "run")
    known = set(oracle.asked)
    oracle.asked.clear()
    grown = own.add(arbo.Result.load(tmp_path / "run"), SAMPLE[60:])
    new = {mention.id for document in SAMPLE[60:] for mention in document.mentions}
    assert {mention for mention, _ in oracle.asked} <= new
    assert len(oracle.asked) < len(known)
    oracle.asked.clear()
    equal(grown, own.refit(grown))
    left = own.remove(grown, [SAMPLE[3].id, SAMPLE[70].id])
    back = own.add(left, [SAMPLE[70]])
    assert {mention for mention, _ in oracle.asked} <= {mention.id for mention in SAMPLE[70].mentions}
    equal(grown, own.link(SAMPLE))
    equal(left, own.link([one for row, one in enumerate(SAMPLE) if row not in (3, 70)]))
    equal(back, own.refit(back))


def test_another_reranker_is_refused() -> None:
    own, plain = arbo.Linker(BASE, reranker=knows_gold()), arbo.Linker(BASE)
    other = own.configured(reranker=Oracle(lambda item, entity: 0.0, settings={"encoder": "other"}))
    for made, given in ((own, plain), (plain, own), (own, other)):
        with pytest.raises(UsageError, match="another reranker; use the same, or link all documents again"):
            given.add(made.link(SAMPLE[:3]), [])

"""Runs that obey corrections, and runs with a reranker, grow like any other; `growth.histories` has random ones."""

from pathlib import Path
from typing import Any

import pytest
from builders import document, linker, passage, save_lines
from conftest import Sample
from histories import History, equal
from rerankers import Oracle, knows_gold
from test_corrections import states

import arbo
from arbo.errors import UsageError

KB = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight"), arbo.Entity("E3", "zzz")])
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
    own, late = linker(KB), document("b", "fever", "zzz")
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
    documents = [document("a", "one"), document("b", "two"), document("c", "three")]
    own = linker(KB)
    lines = [{"same": ["a-0", "b-0"]}, {"same": ["b-0", "c-0"]}, {"mention": "b-0", "entity": "E3"}]
    left = own.remove(own.link(documents, lines), ["b"])
    assert [link.entity for link in left.links] == ["E3", "E3"]
    refused = own.add(left, [], [{"mention": "a-0", "entity": "E1"}])
    assert states(refused) == ["conflict", "conflict", "waiting", "obeyed"]


def test_what_corrections_did_to_mentions_is_undone_when_they_no_longer_hold(tmp_path: Path) -> None:
    documents, own = [passage("d", TEXT, "marsh", "kelp blight"), passage("e", TEXT, "fever")], linker(KB)
    where = {"document": "d", "spans": [[4, 9]], "author": "Ann"}
    lines = [
        {**where, "resize": [[4, 15]]},
        {"document": "d", "spans": [[19, 30]], "drop": True},
        {"document": "e", "spans": [[0, 3]], "add": True},
    ]
    own.link(documents, lines).save(tmp_path / "run")
    run = arbo.Result.load(tmp_path / "run")
    assert [link.mention.text for link in run.links] == ["marsh fever", "fever", "The"]
    more = [{**where, "drop": True, "author": "Bob"}, {"document": "d", "spans": [[19, 30]], "resize": [[19, 23]]}]
    grown = own.add(run, [], more)
    assert states(grown) == ["conflict", "replaced", "obeyed", "conflict", "obeyed"]
    assert [link.mention.text for link in grown.links] == ["marsh", "kelp", "fever", "The"]
    equal(grown, own.link(documents, [*lines, *more]), lines=False)
    equal(grown, own.refit(grown))


def test_a_resized_mention_gets_the_long_form_as_in_a_new_run() -> None:
    text = "Limb stiffness complex (LSC) came. The LSC spreads. Sheep have LSC."
    late, own = passage("b", text, "LSC)", "The LSC", "Sheep"), linker(KB)
    line = {"document": "b", "spans": [[35, 42]], "resize": [[39, 42]]}
    documents = [document("a", "limb stiffness complex"), late]
    grown = own.add(own.link(documents), [], [line])
    assert grown.link_of("b-1").name == "Limb stiffness complex"
    equal(grown, own.link(documents, [line]), lines=False)


def test_a_line_fits_the_spans_that_another_line_gave_to_a_mention() -> None:
    own, documents = linker(KB), [passage("d", TEXT, "marsh", "kelp blight")]
    resize = {"document": "d", "spans": [[4, 9]], "resize": [[4, 15]]}
    drop = {"document": "d", "spans": [[4, 15]], "drop": True}
    run = own.link(documents, [resize])
    grown = own.add(run, corrections=[drop])
    assert states(grown) == ["replaced", "obeyed"]
    assert [link.mention.id for link in grown.links] == ["d-1"]
    equal(grown, own.link(documents, [resize, drop]), lines=False)
    assert states(own.add(run, corrections=[{**drop, "author": "Bob"}])) == ["conflict", "conflict"]
    wider = own.add(run, corrections=[{"document": "d", "spans": [[4, 15]], "resize": [[0, 15]]}])
    assert [link.mention.text for link in wider.links] == ["The marsh fever", "kelp blight"]
    other = {"document": "d", "spans": [[19, 30]], "resize": [[4, 15]]}
    assert states(own.add(run, corrections=[other, drop])) == ["obeyed", "obeyed", "waiting"]
    added = {"document": "d", "spans": [[4, 15]], "add": True}
    assert states(own.add(run, corrections=[added, drop])) == ["obeyed", "replaced", "waiting"]


def test_an_added_mention_goes_by_a_line_and_a_dropped_one_for_good() -> None:
    own = linker(KB)
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
    own, line = linker(KB), {"document": "d", "spans": [[0, 3]], "add": True}
    text = "Kelp blight"
    taken = arbo.Document("e", text, (arbo.Mention("d:0-3", "e", ((0, 11),), text),))
    one, other = passage("d", TEXT, "marsh fever"), passage("f", TEXT, "patients")
    grown = own.add(own.link([one, other], [line]), [taken])
    assert states(grown) == ["conflict"]
    assert grown.link_of("d:0-3").entity == "E2"
    equal(grown, own.link([one, other, taken], [line]), lines=False)


def test_lines_keep_their_place_and_count_once(tmp_path: Path) -> None:
    documents, own = [document("a", "fever"), document("b", "fever")], linker(KB)
    first, second = {"mention": "a-0", "entity": "E1"}, {"mention": "a-0", "entity": "E2"}
    file = save_lines(tmp_path / "fixes.jsonl", first)
    run = own.link(documents[:1], file)
    file = save_lines(tmp_path / "fixes.jsonl", first, second)
    grown = own.add(run, documents[1:], file)
    assert [(row["file"], row["line"]) for row in grown.corrections] == [(str(file), 1), (str(file), 2)]
    assert states(grown) == ["replaced", "obeyed"]
    back = own.add(grown, [], [first])
    assert [(row["record"], row["status"]) for row in back.corrections] == [(second, "replaced"), (first, "obeyed")]
    assert states(own.add(run, [], [{**second, "author": "Bob"}])) == ["conflict", "conflict"]


@pytest.mark.parametrize("changes", [{}, {"skip_margin": 0.2}])
def test_a_reranker_reads_only_new_pairs(changes: dict[str, Any], sample: Sample, tmp_path: Path) -> None:
    documents, kb = sample
    config, oracle = arbo.LinkerConfig(candidates=4, **changes), knows_gold()
    own = arbo.Linker(kb, config=config, reranker=oracle)
    own.link(documents[:60]).save(tmp_path / "run")
    known = set(oracle.asked)
    oracle.asked.clear()
    grown = own.add(arbo.Result.load(tmp_path / "run"), documents[60:])
    new = {mention.id for document in documents[60:] for mention in document.mentions}
    assert {mention for mention, _ in oracle.asked} <= new
    assert len(oracle.asked) < len(known)
    oracle.asked.clear()
    equal(grown, own.refit(grown))
    left = own.remove(grown, [documents[3].id, documents[70].id])
    back = own.add(left, [documents[70]])
    assert {mention for mention, _ in oracle.asked} <= {mention.id for mention in documents[70].mentions}
    equal(grown, own.link(documents))
    equal(left, own.link([one for row, one in enumerate(documents) if row not in (3, 70)]))
    equal(back, own.refit(back))


def test_another_reranker_is_refused(sample: Sample) -> None:
    documents, kb = sample
    own, plain = arbo.Linker(kb, reranker=knows_gold()), arbo.Linker(kb)
    other = own.configured(reranker=Oracle(lambda item, entity: 0.0, settings={"encoder": "other"}))
    for made, given in ((own, plain), (plain, own), (own, other)):
        with pytest.raises(UsageError, match="another reranker; use the same, or link all documents again"):
            given.add(made.link(documents[:3]), [])

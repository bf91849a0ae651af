"""Runs that grow and shrink are those of a refit, bit by bit, whatever their history."""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import document, linker
from histories import KB, NAMES, equal

import arbo
from arbo.engine import Vectors
from arbo.errors import DataError, UsageError
from arbo.files import sha256_of
from clustering.growth import updated


def test_saved_runs_grow_and_do_not_change(tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    own = arbo.Linker(kb)
    own.link(documents[:60]).save(tmp_path / "one")
    before = {file.name: sha256_of(file) for file in (tmp_path / "one").iterdir()}
    grown = own.add(arbo.Result.load(tmp_path / "one"), documents[60:])
    grown.save(tmp_path / "two")
    assert before == {file.name: sha256_of(file) for file in (tmp_path / "one").iterdir()}
    at_once = own.link(documents)
    equal(*(replace(run, link_rows=run.link_table.drop_columns(["confidence"])) for run in (grown, at_once)))
    back = own.remove(arbo.Result.load(tmp_path / "two"), [one.id for one in documents[60:]])
    equal(back, arbo.Result.load(tmp_path / "one"))


def test_a_run_that_can_grow_holds_the_matrix_of_its_vectors_alone() -> None:
    documents = [document(f"d{i}", *NAMES[i : i + 2]) for i in range(7)]
    ids = [mention.id for one in documents for mention in one.mentions]
    vectors, entities = ({id_: [1.0, i % 3] for i, id_ in enumerate(some)} for some in (ids, [e.id for e in KB]))
    own = linker(KB).configured(encoder=arbo.VectorEncoder(vectors, entities))

    def there() -> int:
        gc.collect()
        return sum(type(one) is Vectors for one in gc.get_objects())

    before = there()
    result = own.link(documents)
    assert there() == before
    assert "vectors" in result.arrays()


def test_learnt_edges_grow_as_they_are_refitted() -> None:
    documents, kb = arbo.load_sample()
    first, late = (documents[row].mentions for row in (0, 30))
    lines = [{"mention": first[0].id, "entity": kb.entities[3].id}, {"same": [first[1].id, late[0].id]}]
    lines += [{"mention": late[1].id, "new": "a new thing"}, {"mention": late[2].id, "entity": None}]
    for own in (arbo.Linker(kb, edges="english"), arbo.Linker(edges="english")):
        verb = own.link if own.kb else own.discover
        grown = own.add(verb(documents[:30], lines[:2]), documents[30:60], lines[2:])
        equal(grown, own.refit(grown))
        if own.kb:
            equal(grown, own.link(documents[:60], lines), lines=False)


def test_single_mentions_can_be_removed() -> None:
    result = arbo.Linker().discover([document("a", "zzz", "fever"), document("b", "zzz")])
    left = arbo.Linker().remove(result, ["a-0"])
    assert [link.mention.id for link in left.links] == ["a-1", "b-0"]
    assert left.link_of("b-0").cluster == "new-b-0"
    with pytest.raises(UsageError, match="no document or mention 'q'"):
        arbo.Linker().remove(result, ["q", "a"])
    names = arbo.Linker().discover(["zzz", "fever"])
    assert [link.mention.id for link in arbo.Linker().remove(names, ["0"]).links] == ["1"]
    assert [link.mention.id for link in arbo.Linker().add(names, ["kelp", None]).links] == ["0", "1", "2", "3"]
    both = arbo.Linker().discover([document("a", "zzz"), document("a-0", "fever", "kelp")])
    with pytest.raises(UsageError, match="'a-0' is a document and a mention of 'a'; give all mentions of one"):
        arbo.Linker().remove(both, ["a-0"])


def test_vectors_that_were_removed_are_not_kept() -> None:
    documents = [document("a", "one"), document("b", "two"), document("c", "three")]
    encoder = arbo.VectorEncoder({"a-0": [1.0, 0.0], "b-0": [0.0, 7.0], "c-0": [1.0, 1.0]})
    own = arbo.Linker(encoder=encoder)
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
        (linker(KB).configured(edges="english"), "encoder or edge model"),
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
    documents, kb = arbo.load_sample()
    own = arbo.Linker(kb)
    result = own.link(documents)
    searched: list[tuple[int, int]] = []
    inside = updated.__globals__
    nearest = inside["nearest"]

    def counting(queries: Any, things: Any, *args: Any, **options: Any) -> Any:
        searched.append((queries.n, things.n))
        return nearest(queries, things, *args, **options)

    monkeypatch.setitem(inside, "nearest", counting)
    own.add(result, [document("new", "RV Petrel", "zzz")])
    assert searched == []  # new mentions are joined to the others
    searched.clear()
    own.remove(result, [documents[0].id])
    assert sum(few for few, _ in searched) < len(documents.mentions) / 20


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

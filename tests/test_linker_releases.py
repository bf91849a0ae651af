"""Runs whose knowledge base is exchanged for another release are those of a refit, bit by bit."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from builders import document, kb_of, linker
from histories import equal

import arbo
from arbo.engine import Neighbors
from arbo.retrieval.groups import Search, search_all


def test_what_a_release_changed_is_told() -> None:
    documents = [document("a", "marsh fever", "kelp blight", "zzz")]
    one = arbo.KnowledgeBase(
        [arbo.Entity("D1", "marsh fever"), arbo.Entity("D2", "kelp blight"), arbo.Entity("D3", "qq")]
    )
    other = kb_of(
        arbo.Entity("D5", "fever of marshes", ("marsh fever",), alternative_ids=("D1",)),
        arbo.Entity("D2", "quagga rot"),
        arbo.Entity("D4", "zzz"),
    )
    before = linker(one).link(documents)
    after = linker(other).add(before, other_kb=True)
    changes = arbo.diff(before, after)
    assert changes.knowledge_base == {"new": 2, "gone": 2, "changed": 1, "replaced": 1}
    assert str(changes).startswith("knowledge base: 2 new, 2 gone, 1 changed, 1 replaced\n")
    names = ["mention", "entity_before", "entity_after", "cause"]
    causes = {id_: (*row,) for id_, *row in zip(*changes.mentions.select(names).to_pydict().values(), strict=True)}
    assert causes["a-0"] == ("D1", "D5", "D5 replaces D1")
    assert causes["a-1"] == ("D2", None, "D2 has changed")
    assert causes["a-2"] == (None, "D4", "D4 is new")
    assert {row["cluster"]: row["cause"] for row in changes.clusters.to_pylist()}["D4"] == "D4 is new"
    again = linker(one).add(after, other_kb=True)
    equal(again, before)
    assert "fitted" not in again.manifest["knowledge_base"]
    assert arbo.diff(before, again).knowledge_base == {}


def test_unseen_n_grams_are_told_and_many_of_them_warned_of() -> None:
    documents, kb = arbo.load_sample()
    for own, verb in ((arbo.Linker(kb), "link"), (arbo.Linker(), "discover")):
        before = own.link(documents[:60]) if own.kb else own.discover(documents[:60])
        after = own.add(before, [document("q", "Qqxyz wvutsr")])
        assert after.manifest["drift"] == {"mentions": 1.0}
        assert (
            f"100% of the n-grams in added names are unseen, so that their weights no longer fit; `arbo {verb}`"
            in str(after.warnings)
        )
        again = own.add(after, [document("r", documents.mentions[0].text)])
        assert again.manifest["drift"]["mentions"] < 0.1
        assert not again.warnings
    release = arbo.KnowledgeBase([*kb.entities, *(arbo.Entity(f"N{i}", f"Qqxyz wvutsr {i}") for i in range(20))])
    after = arbo.Linker(release).add(arbo.Linker(kb).link(documents[:9]))
    assert after.manifest["drift"]["mentions"] == 0
    assert 0 < after.manifest["drift"]["entities"] < 0.1


def test_only_what_a_release_changed_is_searched() -> None:
    documents, kb = arbo.load_sample()
    few = arbo.LinkerConfig(candidates=2)
    before = arbo.Linker(kb, config=few).link(documents)
    searched: list[tuple[int, int]] = []

    def counting(wanted: Iterable[Search], k: int, **how: Any) -> Iterator[Neighbors]:
        wanted = list(wanted)
        searched.extend((one.queries.n, one.things.n) for one in wanted)
        return search_all(wanted, k, **how)

    renamed = replace(kb.entities[-1], aliases=(*kb.entities[-1].aliases, "a quite unheard of name"))
    release = arbo.KnowledgeBase([arbo.Entity("N1", "unheard of"), *kb.entities[:-1], renamed])
    after = arbo.Linker(release, config=few, over=SimpleNamespace(search_all=counting)).add(before)
    assert {things for _, things in searched} == {2, len(kb) + 1}
    assert sum(n for n, things in searched if things > 2) < len(documents.mentions) / 20
    assert arbo.diff(before, after).knowledge_base == {"new": 1, "changed": 1}


def test_an_obsolete_id_of_several_entities_is_not_followed() -> None:
    one = arbo.KnowledgeBase([arbo.Entity("D1", "marsh fever"), arbo.Entity("D2", "zzz")])
    parts = [arbo.Entity("D8", "kelp"), arbo.Entity("D9", "marsh fever")]
    two = arbo.KnowledgeBase([*(replace(part, alternative_ids=("D1",)) for part in parts), one["D2"]])
    lines = [{"mention": "b-0", "entity": "D1"}]
    before = linker(one).link([document("a", "marsh fever"), document("b", "x")], lines)
    after = linker(two).add(before, other_kb=True)
    changes = arbo.diff(before, after).mentions.select(["mention", "cause"]).to_pydict()
    assert changes == {"mention": ["a-0", "b-0"], "cause": ["D1 is gone"] * 2}
    assert [(row["status"], row["reason"]) for row in after.corrections] == [
        ("waiting", "several entities have the id 'D1': D8, D9; name one")
    ]
    assert "replaced" not in after.manifest["knowledge_base"]

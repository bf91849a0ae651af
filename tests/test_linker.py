"""The linker: what it must survive, and what must not change its decisions."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from builders import document, kb_of, linker, python

import arbo
from clustering import METHODS, Method

KB = kb_of(
    arbo.Entity("E1", "marsh fever", alternative_ids=("X1",)),
    arbo.Entity("E2", "Wilson disease", aliases=("hepatolenticular degeneration",)),
    arbo.Entity("E3", "kelp blight"),
)


def entities(result: arbo.Result) -> list[str | None]:
    return [link.entity for link in result.links]


def tables(result: arbo.Result) -> tuple[pa.Table, pa.Table, pa.Table]:
    return result.mention_table, result.link_table, result.cluster_table


# What it must survive


@pytest.mark.parametrize("documents", [[], [arbo.Document("d", "No mention here.")], [arbo.Document("d", "")]])
def test_nothing_to_link(documents: list[arbo.Document]) -> None:
    for result in (linker(KB).link(documents), arbo.Linker().discover(documents)):
        assert len(result.links) == len(result.clusters) == len(result.discovered) == 0
        assert result.evaluate().linking is None
        assert "nothing to score" in str(result.evaluate())
        assert all(table.num_rows == 0 for table in tables(result))


def test_one_mention() -> None:
    (link,) = linker(KB).link([document("d", "marsh fevers")]).links
    assert (link.entity, link.entity_name, link.cluster, link.parent) == ("E1", "marsh fever", "E1", "E1")
    assert not link.parent_is_mention
    (cluster,) = arbo.Linker().discover([document("d", "marsh fever")]).discovered
    assert (cluster.name, cluster.entity, cluster.weakest_join) == ("marsh fever", None, None)


def test_a_knowledge_base_of_no_entities_discovers() -> None:
    documents = [document("d", "marsh fever", "kelp blight"), document("e", "Marsh fevers")]
    linked = linker(arbo.KnowledgeBase()).link(documents)
    assert entities(linked) == [None, None, None]
    assert tables(linked) == tables(arbo.Linker().discover(documents))
    assert [len(cluster.mentions) for cluster in linked.discovered] == [2, 1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [0, 1, 3, 4, 1000])
def test_any_k(method: Method, k: int) -> None:
    names = ["marsh fever", "fever of the marsh", "wilson", "zzz qqq", "zzz qqq"]
    result = linker(KB, method=method, k=k).link([document("d", *names)])
    assert entities(result)[0] == "E1"
    assert entities(result)[3:] == [None, None]
    assert len(result.discovered) == len({link.cluster for link in result.links if link.entity is None})
    alone = result.links[3].cluster != result.links[4].cluster
    assert alone == (k == 0)


def test_a_huge_k_takes_no_huge_memory() -> None:
    result = linker(KB, k=10**12, candidates=10**12).link([document("d", "marsh fever", "kelp blight")])
    assert entities(result) == ["E1", "E3"]


@pytest.mark.parametrize("name", ["?!", "   ", "\t\n", "--", "\u00a0", "\u0301", "."])
@pytest.mark.parametrize("method", METHODS)
def test_a_mention_without_letters_is_nil(name: str, method: Method) -> None:
    names = [name, "marsh fever", name, "kelp blight"]
    result = linker(KB, method=method).link([document("d", *names)])
    assert entities(result) == [None, "E1", None, "E3"]
    assert result.links[0].score is None
    assert "NIL" in str(result.explain(result.links[0]))


def test_an_entity_without_letters_attracts_its_like_alone() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E0", "+++", aliases=("!!",)), *KB])
    result = linker(kb).link([document("d", "+++", "zzz", "---", "marsh fever", " ")])
    assert entities(result) == ["E0", None, None, "E1", None]


@pytest.mark.parametrize(
    ("name", "other"), [("+++", "---"), ("Ωμέγα", "Αλφάβητο")], ids=["no letters", "unknown script"]
)
def test_equal_mentions_are_one_discovery(name: str, other: str) -> None:
    result = linker(KB).link([document("d", name, other), document("e", name)])
    assert [[mention.text for mention in cluster.mentions] for cluster in result.discovered] == [[name] * 2, [other]]


def test_unheard_words_keep_a_mention_from_what_it_is_not() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "fever"), arbo.Entity("E2", "blight")])
    result = linker(kb).link([document("d", "xqzwk fever", "jvbpk fever")])
    assert all((link.score or 0) < 0.9 for link in result.links)
    assert result.links[0].cluster != result.links[1].cluster


def test_a_very_long_mention_neither_vanishes_nor_crashes() -> None:
    result = linker(KB).link([document("d", "x" * 100_000, "marsh fever " * 8000)])
    assert entities(result) == [None, "E1"]


def test_a_long_document() -> None:
    text = "word " * 2_000_000 + "marsh fever"
    mention = arbo.Mention("m", "d", ((len(text) - 11, len(text)),), "marsh fever")
    assert entities(linker(KB).link([arbo.Document("d", text, (mention,))])) == ["E1"]


def test_an_alias_that_thousands_share() -> None:
    kb = arbo.KnowledgeBase(arbo.Entity(f"E{i}", f"thing {i}", aliases=("stuff",)) for i in range(3000))
    (link,) = (result := linker(kb).link([document("d", "stuff")])).links
    assert link.entity == "E0"  # of equals the first
    assert link.margin == 0
    assert result.explain(link).text.splitlines()[0].endswith('as near as thing 1 (E1, alias "stuff"):')
    assert len(link.candidates) == 16


def test_documents_may_be_any_iterable() -> None:
    assert entities(linker(KB).link(document(f"d{i}", "kelp blight") for i in range(2))) == ["E3", "E3"]


# Gold annotations


def test_gold_ids_of_every_kind() -> None:
    gold = [("E1",), ("E9", "E3"), ("X1", "E1"), ("E9",), (), None]
    names = ["marsh fever", "kelp blight", "marsh fever", "zzz qqq", "kkk www", "marsh fever"]
    result = linker(KB).link([document("d", *zip(names, gold, strict=True))])
    assert result.mention_table["gold"].to_pylist() == [None if g is None else list(g) for g in gold]
    assert result.mention_table["gold_entities"].to_pylist() == [["E1"], ["E3"], ["E1"], [], [], []]
    assert list(result.manifest["notes"]["gold"].values()) == [1]


def test_gold_annotations_change_no_decision() -> None:
    names = ["marsh fever", "zzz qqq", "wilson disease"]
    bare = linker(KB).link([document("d", *names)])
    annotated = linker(KB).link([document("d", *zip(names, [("E3",), (), ("X9",)], strict=True))])
    assert bare.link_table == annotated.link_table
    assert bare.cluster_table == annotated.cluster_table


# Independence and determinism


_RUNS = """
import sys, arbo
documents, kb = arbo.load_sample()
arbo.Linker(kb).link(documents).save(sys.argv[1])
arbo.Linker().discover(documents).save(sys.argv[2])
"""


@pytest.mark.slow
def test_threads_and_hash_seeds_change_no_bit(tmp_path: Path) -> None:
    saved = []
    for threads, seed in (("1", "0"), ("2", "7")):
        runs = [tmp_path / f"{verb}{threads}" for verb in ("link", "discover")]
        python(_RUNS, *runs, OMP_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads, PYTHONHASHSEED=seed)
        saved.append([json.loads((run / "manifest.json").read_text("utf-8"))["files"] for run in runs])
    assert saved[0] == saved[1]


def test_a_configured_linker_decides_like_a_new_one() -> None:
    documents, kb = arbo.load_sample()
    used = arbo.Linker(kb)
    used.link(documents[:1])
    config = arbo.LinkerConfig(method="minimax", k=2, entity_threshold=0.2)
    assert tables(used.configured(config=config).link(documents)) == tables(
        arbo.Linker(kb, config=config).link(documents)
    )
    other = arbo.KnowledgeBase(list(kb)[:50])
    assert tables(used.configured(kb=other).link(documents)) == tables(arbo.Linker(other).link(documents))


# Thresholds


@pytest.mark.parametrize("method", METHODS)
def test_without_a_threshold_all_are_linked_and_below_every_edge_none(method: Method) -> None:
    documents, kb = arbo.load_sample()
    every, none = (
        linker(kb, method=method, entity_threshold=limit, mention_threshold=limit).link(documents)
        for limit in (None, -1)
    )
    assert None not in entities(every)
    assert len(every.discovered) == 0
    assert len(none.discovered) == len(none.links) == len(documents.mentions)


def test_wrong_arguments_are_told_the_mend() -> None:
    with pytest.raises(arbo.UsageError, match="knowledge base"):
        arbo.Linker().link([document("d", "marsh fever")])
    with pytest.raises(arbo.UsageError, match="must be a KnowledgeBase, entities or rows, not int"):
        arbo.Linker(7)
    assert arbo.Linker([arbo.Entity("E1", "fever")]).kb == arbo.KnowledgeBase([arbo.Entity("E1", "fever")])

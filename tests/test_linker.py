"""The linker: what it must survive, what must not change its decisions, and these against brute force."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from builders import document, kb_of, linker, python, sample_edges
from conftest import Sample
from scipy.sparse.csgraph import minimum_spanning_tree

import arbo
from arbo.corrections.review import Queue
from arbo.data import mention_inputs
from clustering import METHODS, Method

SAMPLE, BASE = arbo.load_sample()

WILSON = arbo.Entity("E2", "Wilson disease", aliases=("hepatolenticular degeneration",))
KB = kb_of(arbo.Entity("E1", "marsh fever", alternative_ids=("X1",)), WILSON, arbo.Entity("E3", "kelp blight"))


def entities(result: arbo.Result) -> list[str | None]:
    return [link.entity for link in result.links]


def tables(result: arbo.Result) -> tuple[pa.Table, pa.Table, pa.Table]:
    return result.mention_table, result.link_table, result.cluster_table


@pytest.mark.parametrize("documents", [[], [arbo.Document("d", "No mention here.")], [arbo.Document("d", "")]])
def test_nothing_to_link(documents: list[arbo.Document]) -> None:
    for result in (linker(KB).link(documents), arbo.Linker().discover(documents)):
        assert len(result.links) == len(result.clusters) == len(result.discovered) == 0
        assert result.evaluate().linking is None
        assert "nothing to score" in str(result.evaluate())
        assert all(table.num_rows == 0 for table in tables(result))


def test_one_mention_of_any_iterable() -> None:
    (link,) = linker(KB).link(document(id_, "marsh fevers") for id_ in "d").links
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
@pytest.mark.parametrize("k", [0, 1, 3, 4, 10**12])
def test_any_k(method: Method, k: int) -> None:
    """A huge one takes no huge memory."""
    names = ["marsh fever", "fever of the marsh", "wilson", "zzz qqq", "zzz qqq"]
    result = linker(KB, method=method, k=k, candidates=max(16, k)).link([document("d", *names)])
    assert (entities(result)[0], entities(result)[3:]) == ("E1", [None, None])
    assert len(result.discovered) == len({link.cluster for link in result.links if link.entity is None})
    alone = result.links[3].cluster != result.links[4].cluster
    assert alone == (k == 0)


@pytest.mark.parametrize("name", ["?!", "   ", "\t\n", "--", "\u00a0", "\u0301", "."])
@pytest.mark.parametrize("method", METHODS)
def test_a_mention_without_letters_is_nil(name: str, method: Method) -> None:
    result = linker(KB, method=method).link([document("d", *[name, "marsh fever", name, "kelp blight"])])
    assert entities(result) == [None, "E1", None, "E3"]
    assert result.links[0].score is None
    assert "NIL" in str(result.explain(result.links[0]))


def test_an_entity_without_letters_attracts_its_like_alone() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E0", "+++", aliases=("!!",)), *KB])
    result = linker(kb).link([document("d", "+++", "zzz", "---", "marsh fever", " ")])
    assert entities(result) == ["E0", None, None, "E1", None]


@pytest.mark.parametrize(("name", "other"), [("+++", "---"), ("Ωμέγα", "Αλφάβητο")])
def test_equal_mentions_are_one_discovery(name: str, other: str) -> None:
    result = linker(KB).link([document("d", name, other), document("e", name)])
    assert [[mention.text for mention in cluster.mentions] for cluster in result.discovered] == [[name] * 2, [other]]


def test_unheard_words_keep_a_mention_from_what_it_is_not() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "fever"), arbo.Entity("E2", "blight")])
    result = linker(kb).link([document("d", "xqzwk fever", "jvbpk fever")])
    assert all((link.score or 0) < 0.9 for link in result.links)
    assert result.links[0].cluster != result.links[1].cluster


def test_very_long_mentions_and_documents_neither_vanish_nor_crash() -> None:
    text = "word " * 2_000_000 + "marsh fever"
    mention = arbo.Mention("m", "e", ((len(text) - 11, len(text)),), "marsh fever")
    documents = [document("d", "x" * 100_000, "marsh fever " * 8000), arbo.Document("e", text, (mention,))]
    assert entities(linker(KB).link(documents)) == [None, "E1", "E1"]


def test_an_alias_that_thousands_share() -> None:
    kb = arbo.KnowledgeBase(arbo.Entity(f"E{i}", f"thing {i}", aliases=("stuff",)) for i in range(3000))
    (link,) = (result := linker(kb).link([document("d", "stuff")])).links
    assert link.entity == "E0"  # of equals the first
    assert link.margin == 0
    assert result.explain(link).text.splitlines()[0].endswith('as near as thing 1 (E1, alias "stuff"):')
    assert len(link.candidates) == 16


def test_gold_ids_of_every_kind_change_no_decision() -> None:
    gold = [("E1",), ("E9", "E3"), ("X1", "E1"), ("E9",), (), None, ("E3",)]
    names = ["marsh fever", "kelp blight", "marsh fever", "zzz qqq", "kkk www", "marsh fever", "marsh fever"]
    result = linker(KB).link([document("d", *zip(names, gold, strict=True))])
    assert result.mention_table["gold"].to_pylist() == [None if g is None else list(g) for g in gold]
    assert result.mention_table["gold_entities"].to_pylist() == [["E1"], ["E3"], ["E1"], [], [], [], ["E3"]]
    assert list(result.manifest["notes"]["gold"].values()) == [1]
    assert tables(linker(KB).link([document("d", *names)]))[1:] == tables(result)[1:]


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
    used = arbo.Linker(BASE)
    used.link(SAMPLE[:1])
    config, other = arbo.LinkerConfig(method="minimax", k=2, entity_threshold=0.2), arbo.KnowledgeBase(list(BASE)[:50])
    for how, new in (({"config": config}, arbo.Linker(BASE, config=config)), ({"kb": other}, arbo.Linker(other))):
        assert tables(used.configured(**how).link(SAMPLE)) == tables(new.link(SAMPLE))


@pytest.mark.parametrize("method", METHODS)
def test_without_a_threshold_all_are_linked_and_below_every_edge_none(method: Method) -> None:
    limits = [{"entity_threshold": limit, "mention_threshold": limit} for limit in (None, -0.001)]
    every, none = (linker(BASE, method=method, **both).link(SAMPLE) for both in limits)
    assert None not in entities(every)
    assert len(every.discovered) == 0
    assert len(none.discovered) == len(none.links) == len(SAMPLE.mentions)


def test_wrong_arguments_are_told_the_mend() -> None:
    with pytest.raises(arbo.UsageError, match="knowledge base"):
        arbo.Linker().link([document("d", "marsh fever")])
    with pytest.raises(arbo.UsageError, match="expected entities, not int"):
        arbo.Linker(7)
    assert arbo.Linker([arbo.Entity("E1", "fever")]).kb == arbo.KnowledgeBase([arbo.Entity("E1", "fever")])


TWINS = kb_of(arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "marsh fever"), arbo.Entity("E3", "kelp blight"))


def test_a_discovered_entity_is_called_by_its_first_mention_as_they_came(sample: Sample) -> None:
    documents = list(sample[0])
    for came in (documents, documents[::-1]):
        found = arbo.Linker().discover(came)
        first = {link.cluster: f"new-{link.mention.id}" for link in reversed(list(found.links))}
        assert {cluster.id for cluster in found.discovered} == set(first.values())
        assert [link.mention.id for link in found.links] == [m.id for one in came for m in one.mentions]


def test_rows_of_vectors_are_those_of_the_documents_as_they_came() -> None:
    documents = [document(name, "one", "two") for name in "cab"]
    by_id = {mention.id: [float(i + 1), float(i % 3)] for i, one in enumerate(documents) for mention in one.mentions}
    by_row = arbo.VectorEncoder(list(by_id.values()))
    found, again = (arbo.Linker(encoder=one).discover(documents) for one in (by_row, arbo.VectorEncoder(by_id)))
    assert found.link_table == again.link_table


def test_tuning_scores_the_mentions_that_it_ranks() -> None:
    named = [("marsh fever", ["E1"]), ("kelp blight", ["E3"]), ("zzz", [])]
    assert linker(TWINS).tune([document(f"d{9 - i}", *named[: 1 + i % 3]) for i in range(9)]).tuning.best.score == 1


TYPED = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever", types=("Disease",)), arbo.Entity("E2", "kelp blight")])
NAMES = ["marsh fever", "marsh fevers", "fever", "kelp blight", "kelp", "zzz", "zzz fever", "zzzz", "marsh kelp"]


def links_alone(one: arbo.Linker, documents: list[arbo.Document]) -> list[Any]:
    return [link for document in documents for link in one.link([document]).links]


@pytest.mark.slow
def test_links_by_learnt_edges_are_those_of_each_document_alone() -> None:
    documents = SAMPLE[:30]
    one = arbo.Linker(BASE, edges=sample_edges(), config=arbo.LinkerConfig(entity_threshold=0.3, mention_threshold=0.6))
    own = one.configured(config=replace(one.config, per_document=True))
    links = list(own.link(documents).links)
    assert links == links_alone(own, list(documents)) == links_alone(one, list(documents))
    assert links != list(one.link(documents).links)


def test_a_new_entity_is_found_in_each_document() -> None:
    documents = [document("a", "zzz", "zzz"), document("b", "zzz")]
    assert len(linker(TYPED).link(documents).discovered) == 1
    links = linker(TYPED, per_document=True).link(documents).links
    assert [link.cluster for link in links] == ["new-a-0", "new-a-0", "new-b-0"]
    assert len(linker(per_document=True).discover(documents).clusters) == 2


def test_a_correction_reaches_no_other_document() -> None:
    documents = [document("a", "zzz fever", "zzz fever"), document("b", "zzz fever")]
    told = [{"mention": "a-0", "entity": "E2"}]
    for spread in ("same-name", "graph"):
        result = linker(TYPED, per_document=True, spread=spread, entity_threshold=0.1).link(documents, told)
        assert [link.entity for link in result.links] == ["E2", "E2", None]
    assert {link.entity for link in linker(TYPED, entity_threshold=0.1).link(documents, told).links} == {"E2"}


def test_a_run_per_document_grows(tmp_path: Path) -> None:
    documents, one = [document(f"d{i}", *NAMES[i : i + 3]) for i in range(6)], linker(TYPED, per_document=True)
    one.link(documents[:4]).save(tmp_path / "run")
    assert list(one.add(arbo.Result.load(tmp_path / "run"), documents[4:]).links) == list(one.link(documents).links)


def test_types_that_are_mapped_may_be_missing_from_a_document() -> None:
    how = {"per_document": True, "map_types": "Illness=Disease"}
    documents = [document("d", "kelp blight", "marsh fever")]
    assert [link.entity for link in linker(TYPED, **how).link(documents).links] == ["E2", None]
    sick = arbo.KnowledgeBase(TYPED.entities[:1])
    assert [link.entity for link in linker(sick, **how).link(documents).links] == [None, None]


def test_a_review_asks_about_a_name_in_each_document_alone() -> None:
    run = linker(TYPED, per_document=True).link([document("a", "marsh", "marsh"), document("b", "marsh")])
    assert (sorted(Queue.of(run).twins.tolist()), Queue.of(run, ["a-0"]).rows.tolist()) == ([1, 2], [2])


class Truth(NamedTuple):
    """Cosines of the sample's mentions, computed densely."""

    row: dict[str, int]
    entity: np.ndarray
    """(mentions, entities), of an entity's several names the best."""
    mention: np.ndarray
    """(mentions, mentions)."""


@pytest.fixture(scope="module")
def truth(sample: Sample) -> Truth:
    documents, kb = sample
    encoder = arbo.NgramEncoder().fit(kb.names().names)
    inputs = mention_inputs(documents, expand_abbreviations=True)
    encoded = (encoder.encode_entities(kb), encoder.encode_mentions(inputs))
    used = np.unique(np.concatenate([vectors.matrix.indices for vectors in encoded]))
    names, mentions = (vectors.matrix[:, used].toarray().astype(np.float64)[vectors.row] for vectors in encoded)
    names, mentions = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (names, mentions))
    entity = np.full((len(mentions), len(kb)), -np.inf)
    np.maximum.at(entity.T, encoded[0].owner, names @ mentions.T)
    return Truth({mention.id: i for i, mention in enumerate(documents.mentions)}, entity, mentions @ mentions.T)


CLOSE = 2e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", ["default", None])
def test_each_figure_of_a_link_is_what_it_says(truth: Truth, method: Method, limit: str | None) -> None:
    k = 4
    result = linker(BASE, method=method, k=k, entity_threshold=limit, mention_threshold=limit).link(SAMPLE)
    most = result.manifest["threshold"]
    ranked = -np.sort(-truth.entity, axis=1)
    np.fill_diagonal(others := truth.mention.copy(), -np.inf)
    nearest = -np.sort(-others, axis=1)
    ids, scores = np.moveaxis([[(BASE.index(i), score) for i, score in one.candidates] for one in result.links], 2, 0)
    np.testing.assert_allclose(scores, ranked[:, :16], atol=CLOSE)
    np.testing.assert_allclose(np.take_along_axis(truth.entity, ids.astype(int), axis=1), scores, atol=CLOSE)
    for i, link in enumerate(result.links):
        lead = ranked[i, 0] - ranked[i, 1]
        assert lead == pytest.approx(link.margin or 0, abs=CLOSE)  # none where spelling decided
        if link.entity is None:
            assert (link.score, link.parent, link.step) == (None, None, None)
            assert link.bottleneck == np.inf
            assert ranked[i, 0] <= 1 - most["entity"] + CLOSE
        else:
            steps, at = [link.step], link
            while at.parent_is_mention:
                at = result.link_of(str(at.parent))
                steps.append(at.step)
            assert at.parent == link.entity == link.cluster
            assert link.bottleneck == max(steps)
            assert link.score == pytest.approx(truth.entity[i, BASE.index(link.entity)], abs=CLOSE)
        if link.parent is not None and link.parent_is_mention:
            cosine = others[i, truth.row[link.parent]]
            if method != "undirected":
                assert cosine >= nearest[i, k - 1] - CLOSE  # one of its k nearest
            assert link.step == pytest.approx(1 - cosine, abs=CLOSE)
            assert link.step <= most["mention"] + CLOSE
        elif link.parent is not None:
            assert link.parent == link.entity
            assert link.step == pytest.approx(1 - ranked[i, 0], abs=CLOSE)  # its nearest entity
            assert link.step <= most["entity"] + CLOSE


@pytest.mark.parametrize("method", METHODS)
def test_discovered_clusters_hang_together(truth: Truth, method: Method) -> None:
    result = linker(BASE, method=method).link(SAMPLE)
    limit = result.manifest["threshold"]["mention"]
    sizes = [len(cluster.mentions) for cluster in result.discovered]
    assert all(one >= other for one, other in pairwise(sizes))
    assert max(sizes) > 1
    for cluster in result.discovered:
        rows = [truth.row[mention.id] for mention in cluster.mentions]
        if len(rows) == 1:
            assert cluster.weakest_join is None
            continue
        within = 1 - truth.mention[np.ix_(rows, rows)]
        assert cluster.weakest_join <= limit + CLOSE
        assert np.abs(within - cluster.weakest_join).min() < CLOSE  # the weight of one of its edges
        lightest = minimum_spanning_tree(1 + within)  # 1, as no weight may be 0
        assert lightest.data.max() <= 1 + cluster.weakest_join + CLOSE


def test_complete_lists_where_edges_beyond_the_threshold_count() -> None:
    few = SAMPLE[:20]
    for how in (
        {"config": {"nil_linkage": "average"}},
        {"config": {"mention_threshold": None}},
        {"edges": sample_edges()},
    ):
        assert arbo.Linker(BASE, **how).link(few).manifest["search"]["within"] is None
    assert arbo.Linker(BASE).retrieve(few, k=4).within is None, "tuning needs all"

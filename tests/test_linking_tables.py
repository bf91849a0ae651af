"""The tables of a run, made in slices and when they are asked for; giants, which chaining makes; average linkage."""

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from builders import document, drawn_documents, linker, save_data, save_lines
from conftest import Run, Sample
from histories import TABLES
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data import mention_inputs
from arbo.data.fingerprint import fingerprint_of
from arbo.data.gold import Gold
from arbo.data.tables import Tables
from arbo.edges.model import EdgeModel
from arbo.linking import tables
from arbo.linking.confidence import Confidence
from arbo.linking.tables import Links, cluster_table, describe, describe_giants
from arbo.results import run_folder
from clustering import Graph, Partition, average_tree, forest, merge_tree, partition
from clustering.forest import no_entity_edges, surviving_edges
from eval import adjusted_rand_index

FEW = 50


def results(sample: Sample, edges: EdgeModel) -> Iterator[arbo.Result]:
    """Link with gold ids, corrections, a giant, confidence and edges that are learnt; discover; and link nothing."""
    documents, kb = arbo.Corpus(list(sample[0][:40])[::-1]), sample[1]
    first, second = (mention.id for mention in documents.mentions[:2])
    lines = [{"mention": first, "entity": kb.entities[3].id}, {"mention": second, "entity": None}]
    made = linker(kb, entity_threshold=0.4, mention_threshold=0.9, confidence=Confidence(-1.0, 2.0, 0.5))
    yield made.link(documents, lines)
    yield made.configured(edges=edges).link(documents, lines)
    yield linker().discover(documents)
    yield linker(kb).link([])


def described(result: arbo.Result) -> list[Any]:
    """Return all that depends on slices, besides the ids that the tables share."""
    return [*(getattr(result, name) for name in TABLES), result.manifest["giants"], result.manifest["notes"]]


def test_slices_of_any_size_are_equal(sample: Sample, learnt: EdgeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [*map(described, results(sample, learnt))]
    for size in (1, 7):
        monkeypatch.setattr(tables, "_SLICE", size)
        assert [*map(described, results(sample, learnt))] == expected


def test_rows_columns_and_files_are_those_of_the_table(
    sample: Sample, learnt: EdgeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "GROUP", FEW)
    monkeypatch.setattr(tables, "_SLICE", 7)
    for result in results(sample, learnt):
        links, table = result.link_rows, result.link_table
        assert isinstance(links, Links)
        assert (links.column_names, len(links)) == (table.column_names, len(table))
        rows = np.arange(len(table))[::-3]
        assert (links.take(rows), links.slice(3, 20)) == (table.take(rows), table.slice(3, 20))
        for name in table.column_names:
            assert links.select([name]) == table.select([name])
        result.save(tmp_path / "run")
        run_folder.write_table(tmp_path / "whole.parquet", table)
        assert (tmp_path / "run" / "links.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
        loaded = arbo.Result.load(tmp_path / "run")
        assert loaded.link_table == loaded.link_rows == table
        assert (loaded.n_nil, repr(loaded)) == (result.n_nil, repr(result))


def test_a_table_that_was_made_takes_the_place_of_what_makes_it(sample: Sample) -> None:
    own = arbo.Linker(sample[1])
    result = own.link(sample[0][:5])
    pickled, table = pickle.dumps(result), result.link_table
    assert result.link_rows is table
    assert result.link_table is table
    assert len(pickle.dumps(result)) < 1.1 * len(pickled)
    again = pickle.loads(pickled)  # noqa: S301
    assert again.link_rows == again.link_table == own.refit(again).link_table == table


def test_no_command_makes_a_table(sample: Sample, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has no gold ids; in its files, a group has 50 rows."""
    calls, make = list[tuple[int, list[str]]](), Links._made
    monkeypatch.setattr(Links, "_made", lambda *of: calls.append((len(of[2]), list(of[3]))) or make(*of))
    monkeypatch.setattr(run_folder, "GROUP", FEW)
    documents = [replace(one, mentions=tuple(replace(m, gold=None) for m in one.mentions)) for one in sample[0]]
    words = ["link", *save_data(tmp_path, documents, sample[1]), "--out", tmp_path / "run"]
    for how in (["--set", "texts=false"], ["--json"], []):
        calls.clear()
        run(*words, *how).ok()
        whole = [names for rows, names in calls if rows > FEW]
        assert len(calls) > 10
        assert all(len(names) == 1 for names in whole), whole
    more = save_lines(tmp_path / "new.jsonl", {"id": "n", "text": "marsh fever", "mentions": [{"spans": [[0, 11]]}]})
    for how in (["--anew"], [more]):
        calls.clear()
        run("add", tmp_path / "run", *how, "--out", tmp_path / "grown").ok()
        columns = {name for rows, names in calls if rows > FEW for name in names}
        assert len(calls) > 10
        assert not columns & {"candidates", "candidate_scores", "entity_name"}, columns


def test_besides_the_tables_little_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"name of {i:03}") for i in range(200)])
    corpus = arbo.Corpus([document(f"d{i}", *(f"name of {(i * j) % 200:03}" for j in range(20))) for i in range(1000)])
    made = linker(kb)
    found = made.retrieve(corpus, k=4, in_order=True)
    clusters = partition(found.graph(4), "arborescence", made.config.limits(found.threshold))
    mentions = found.inputs.corpus.tables.mentions
    monkeypatch.setattr(tables, "_SLICE", 500)
    usual, pool = pa.default_memory_pool(), pa.system_memory_pool()  # of which no other test raises the peak
    pa.set_memory_pool(pool)
    tracemalloc.start()  # of the arrays of numpy
    try:
        result = describe(kb, found, clusters, made.config)
        assert result.link_table.nbytes > 2e6
        now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert result.link_table["mention_id"].chunk(0).buffers() == mentions["mention_id"].chunk(0).buffers()
    assert most - now + pool.max_memory() - pool.bytes_allocated() < result.link_table.nbytes / 2


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_graphs_are_pruned_in_slices(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(size)
    near = rng.integers(-1, 50, (50, 3)), rng.random((50, 3)).astype(np.float32)
    graph = Graph.from_neighbors(near)

    def pruned() -> list[list[Any]]:
        return [array.tolist() for array in surviving_edges(graph, no_entity_edges(graph).weight, 0.7, directed=False)]

    expected = pruned()
    monkeypatch.setattr(forest, "_CHUNK", size)
    assert pruned() == expected


MARKS = st.tuples(st.sampled_from([None, "", "x"]), st.sampled_from([None, "c\n"]))


def marked(documents: Iterable[arbo.Document], marks: tuple[str | None, str | None]) -> arbo.Corpus:
    """Give the documents a domain, and their mentions a cluster."""
    domain, cluster = marks
    mentions = [tuple(replace(mention, cluster=cluster) for mention in one.mentions) for one in documents]
    return arbo.Corpus(replace(one, domain=domain, mentions=own) for one, own in zip(documents, mentions, strict=True))


def values(corpus: arbo.Corpus) -> str:
    """Return what the fingerprint covers, written plainly."""
    fields = ("id", "spans", "text", "type", "gold", "cluster")
    return repr([(d.id, d.text, d.domain, [[getattr(m, name) for name in fields] for m in d.mentions]) for d in corpus])


@settings(max_examples=80, deadline=None)
@given(drawn_documents(), drawn_documents(), st.booleans(), MARKS, MARKS)
def test_the_fingerprint_follows_the_values_alone(
    documents: tuple[arbo.Document, ...], others: tuple[arbo.Document, ...], same: bool, marks: Any, other_marks: Any
) -> None:
    corpus, another = marked(documents, marks), marked(documents if same else others, other_marks)
    chunked = Tables.joined([Tables.of([document]) for document in corpus] or [Tables.of([])])
    scored = arbo.Corpus(replace(d, mentions=tuple(replace(m, score=0.5) for m in d.mentions)) for d in corpus)
    assert corpus.fingerprint == fingerprint_of(chunked) == scored.fingerprint
    assert (corpus.fingerprint == another.fingerprint) == (values(corpus) == values(another))


def test_documents_that_stay_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    for own in (arbo.Linker(kb), arbo.Linker()):
        (own.link if own.kb else own.discover)(documents[:60]).save(tmp_path / "run")
        read = arbo.Result.load(tmp_path / "run")
        expected = own.add(read, documents[60:])
        with monkeypatch.context() as patch:
            gone, more = documents[0].id, documents[60:]
            patch.setattr("arbo.data.corpus.documents_of_rows", mock.Mock(side_effect=AssertionError))
            assert own.add(read, more).link_table == expected.link_table
            assert len(own.remove(read, [gone]).document_table) == 59


def giants_of(names: list[str], clusters: Partition) -> list[dict[str, object]]:
    inputs = mention_inputs(arbo.Corpus.of(names), expand_abbreviations=False)
    known: Any = SimpleNamespace(column=lambda name, rows: pa.array(["E"] * len(rows), pa.string()))
    return describe_giants(inputs, *cluster_table(None, known, inputs, clusters, None))


def two_chains(joint: float, *, entity: bool = False) -> Graph:
    """Mentions 0-29 and 30-59 in a chain each, with edges of 0.1; one edge joins 10 and 45. Any entity is node 0."""
    first = 1 if entity else 0
    here = np.array([i for i in range(59) if i != 29])
    source, target = np.append(here, 10) + first, np.append(here + 1, 45) + first
    weight = np.append(np.full(58, 0.125), joint)
    if entity:
        source, target, weight = np.append(source, 0), np.append(target, 1), np.append(weight, 0.0)
        source, target = np.append(source, target[:-1]), np.append(target, source[:-1])
        weight = np.append(weight, weight[:-1])
    return Graph.from_edges(source, target, weight, n_entities=first, n_nodes=60 + first)


def test_a_chain_of_two_clusters_is_found() -> None:
    names = [f"name {i // 2}" for i in range(60)]
    giant = {"cluster": "new-0", "mentions": 60, "share": 1.0, "names": 30, "splits_below": 0.5}
    assert giants_of(names, partition(two_chains(0.5))) == [giant]


def test_a_giant_has_many_names_and_over_a_twentieth_of_all() -> None:
    for names, n_others, is_giant in (
        ([case(f"mouse {i}") for i in range(5) for case in (str.lower, str.upper, str.title)] * 4, 0, False),
        (["mice"] * 50 + [f"mouse {i}" for i in range(10)], 0, False),
        *(([f"name {i}" for i in range(60)], n_others, n_others < 1140) for n_others in (0, 1139, 1140)),
    ):
        chains = two_chains(0.5)
        graph = Graph.from_edges(chains.source, chains.target, chains.weight, n_entities=0, n_nodes=60 + n_others)
        assert bool(giants_of([*names, *map(str, range(n_others))], partition(graph))) == is_giant


def test_a_cluster_of_an_entity_is_not_discovered() -> None:
    names, linked = [f"name {i}" for i in range(60)], partition(two_chains(0.5, entity=True))
    assert (linked.entity == 0).all()
    assert giants_of(names, linked) == []
    assert giants_of(names, partition(two_chains(0.5, entity=True), threshold=(-1, 1)))[0]["mentions"] == 60


@pytest.mark.parametrize("n", [0, 1, 20, 21])
def test_a_few_mentions_are_no_giant(n: int) -> None:
    before = np.arange(max(0, n - 1))
    graph = Graph.from_edges(before, before + 1, np.zeros(len(before)), n_entities=0, n_nodes=n)
    assert len(giants_of([f"name {i}" for i in range(n)], partition(graph))) == (n > 20)


def is_giant(rows: np.ndarray, names: list[str]) -> bool:
    same = sum(count**2 for count in Counter(names[row] for row in rows).values()) / len(rows) ** 2
    return len(rows) > max(20, 0.05 * len(names)) and 1 / same >= 10


def test_giants_by_their_definition() -> None:
    """On random graphs: which clusters are giants, and a height below which they fall apart."""
    rng, n_found = np.random.default_rng(0), 0
    for _ in range(60):
        n = int(rng.integers(25, 120))
        source, target = rng.integers(0, n, (2, int(rng.integers(n // 2, 2 * n))))
        graph = Graph.from_edges(source, target, rng.integers(0, 9, len(source)) / 8, n_entities=0, n_nodes=n)
        names = [f"Name {i}" for i in rng.integers(0, rng.choice([8, 12, 40]), n)]
        tree, clusters = merge_tree(graph), partition(graph)
        found = {str(row["cluster"]): row for row in giants_of(names, clusters)}
        for label in np.unique(clusters.labels):
            rows, giant = np.flatnonzero(clusters.labels == label), found.pop(f"new-{label}", None)
            assert (giant is not None) == is_giant(rows, names)
            if giant is not None:
                assert giant["mentions"] == len(rows)
                highest = np.float32(giant["splits_below"])
                below = np.nextafter(highest, np.float32(-1))
                assert [len(np.unique(tree.cut(at)[rows])) > 1 for at in (highest, below)] == [False, True]
                n_found += 1
        assert not found
    assert n_found > 20


def test_a_loose_threshold_makes_a_giant_of_the_news(shared: Callable[[str], Path]) -> None:
    ecbplus = arbo.read_documents(shared("data/ecbplus/ECB_Test_corpus.txt"), "ecbplus")
    assert arbo.Linker().discover(ecbplus).manifest["giants"] == []
    loose = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=0.5)).discover(ecbplus)
    (giant,) = loose.manifest["giants"]
    assert giant["cluster"] == loose.discovered[0].id
    members = loose.discovered[0].mentions
    assert (giant["mentions"], giant["share"]) == (len(members), giant["mentions"] / 2055)
    below = float(np.nextafter(np.float32(giant["splits_below"]), np.float32(0)))
    for threshold, is_whole in ((giant["splits_below"], True), (below, False)):
        split = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=threshold)).discover(ecbplus)
        assert ({len(split.cluster_of(one.id).mentions) for one in members} == {len(members)}) == is_whole


def test_a_giant_is_a_warning_of_the_run(result: arbo.Result, tmp_path: Path) -> None:
    giant = {"cluster": "new-1", "mentions": 1230, "share": 0.412, "names": 300, "splits_below": 0.3129}
    loose = replace(result, manifest={**result.manifest, "warnings": [], "giants": [giant]})
    loose.save(tmp_path / "run")
    (warning,) = arbo.Result.load(tmp_path / "run").warnings
    assert repr(loose).endswith("; 1 warning)")
    assert warning.split("\n") == [
        "the discovered cluster new-1 has 41% of all mentions: 1,230 under 300 names; the page of the run (arbo "
        "explore) shows the bridges that join its largest parts",
        "set the mention threshold below 0.312 to split it",
    ]


AVERAGE = arbo.LinkerConfig(nil_linkage="average")


def test_discovery_cuts_average_linkage_of_all_mentions(sample: Sample) -> None:
    linker = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=0.6, mention_threshold=0.0))
    label, found = average_tree(linker.retrieve(sample[0], k=4).graph(4)).cut(0.6), linker.discover(sample[0])
    ids = found.link_table["cluster_id"].to_pylist()
    assert ids == [f"new-{sample[0].mentions[row].id}" for row in label.tolist()]
    assert found.manifest["threshold"]["nil"] == 0.6


def test_tuned_discovery_scores_what_it_was_chosen_for(sample: Sample) -> None:
    linker = arbo.Linker(None, config=AVERAGE).tune(sample[0])
    assert linker.config.nil_threshold == linker.tuning.best.nil_threshold is not None
    assert linker.config.mention_threshold == "default"
    scores = linker.discover(sample[0]).evaluate().as_dict()
    assert scores["clustering"]["ari"] == pytest.approx(linker.tuning.best.score, abs=1e-12)


def test_tuned_linking_has_the_best_threshold_for_new_entities(sample: Sample) -> None:
    documents, kb = sample
    kb = arbo.KnowledgeBase(kb.entities[1::2])
    linker = arbo.Linker(kb, config=AVERAGE).tune(documents)
    assert linker.config.nil_threshold != "default"
    classes = Gold.of(documents, kb).classes

    def ari(threshold: float | None) -> float:
        result = arbo.Linker(kb, config=replace(linker.config, nil_threshold=threshold)).link(documents)
        nil = np.array(result.link_table["entity_id"].is_null()) & (classes >= 0)
        _, cluster = np.unique(result.link_table["cluster_id"].to_pylist(), return_inverse=True)
        return float(adjusted_rand_index(classes[nil], cluster[nil]))

    own = ari(linker.config.nil_threshold)
    assert all(own >= ari(threshold) - 1e-12 for threshold in (0.1, 0.3, 0.5, 0.7, None))


def test_an_explanation_names_the_average_and_no_edge(sample: Sample) -> None:
    result = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=0.5)).discover(sample[0])
    together, alone = (next(c for c in result.discovered if (c.size > 1) is several) for several in (True, False))
    text = str(result.explain(together.mentions[0].id))
    assert "the last two parts of the cluster have the average dissimilarity" in text
    assert "the limit of average linkage is 0.500" in text
    assert "mention threshold" not in text
    text = str(result.explain(alone.mentions[0].id))
    assert "alone: no other cluster has an average dissimilarity of at most 0.500" in text


def test_a_giant_of_average_linkage(sample: Sample) -> None:
    found = arbo.Linker(None, config=replace(AVERAGE, nil_threshold=None)).discover(sample[0])
    giant = found.manifest["giants"][0]
    assert "set the NIL threshold below" in found.warnings[0]
    split = replace(AVERAGE, nil_threshold=giant["splits_below"] - 1e-6)
    again = arbo.Linker(None, config=split).discover(sample[0]).manifest["giants"]
    assert all(other["mentions"] < giant["mentions"] for other in again)


def test_inner_products_are_refused(sample: Sample) -> None:
    vectors = arbo.VectorEncoder(np.eye(len(sample[0].mentions)), metric="dot")
    with pytest.raises(arbo.UsageError, match="average linkage needs similarities of at most 1"):
        arbo.Linker(None, vectors, AVERAGE)
    with pytest.raises(arbo.UsageError, match="nil_threshold needs nil_linkage 'average'"):
        arbo.LinkerConfig(nil_threshold=0.5)

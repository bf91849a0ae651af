"""Lists of names: equal names are one, the names model weighs pairs, and average linkage merges."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from oracles.trees import component_labels

import arbo
from arbo.edges.name_pairs import NAME_FEATURES, NameTable, differ
from arbo.engine import Neighbors
from arbo.text.name_tokens import MOST, tokens_of
from clustering import Graph, average_tree
from clustering.average import SAME

APART = [
    ("Deutsche Bank AG", "Deutsche Bahn AG"),
    ("Hepatitis A", "Hepatitis B"),
    ("Type 1 diabetes", "Type 2 diabetes"),
    ("Section 3(a)", "Section 3(b)"),
    ("S21", "S22"),
    ("C", "C++", "C#"),
    ("(+)-limonene", "(-)-limonene"),
    ("CD4+ T cell", "CD4- T cell"),
    ("Barack Obama", "Michelle Obama"),
    ("Queensland, Australia", "Australia"),
    ("C", "hepatitis C"),
]
TOGETHER = [
    ("Kelp & Blight Ltd", "Kelp and Blight Limited", "KELP AND BLIGHT"),
    ("Abbas Palme", "Palme, Abbas", "Dr. Abbas Palme", "A. Palme"),
    ("Adolescent Series 2031 Airliner", "Adolescent Series2031 Airliner"),
    ("International Business Machines", "IBM"),
    ("Gazzetta", "Gazzeta"),
]
NAMES = [*("Marsh Fever", "marsh fever", "Marsh-Fever Ltd", "Kelp", "Kelp Inc", "Paris", "Tern Optics")]


def groups_of(result: arbo.Result) -> list[list[str]]:
    return sorted(sorted(mention.text for mention in cluster.mentions) for cluster in result.clusters)


@pytest.mark.parametrize("names", APART)
def test_names_that_differ_stay_apart(names: tuple[str, ...]) -> None:
    assert groups_of(arbo.Linker().discover(names)) == sorted([name] for name in names)


@pytest.mark.parametrize("names", TOGETHER)
def test_names_that_are_written_otherwise_are_together(names: tuple[str, ...]) -> None:
    others = [name for some in APART for name in some]
    assert sorted(names) in groups_of(arbo.Linker().discover([*names, *others]))


def test_an_initial_and_a_legal_form_are_no_difference() -> None:
    table = NameTable.of(["J. Smith", "John Smith", "J. Smith AG", "B. Smith", "J. P. Smith", "J. Paul Smith"])
    first, second = np.array([0, 0, 0, 4, 3]), np.array([1, 2, 3, 5, 4])
    near = Neighbors(np.arange(6)[:, None][::-1], np.full((6, 1), 0.5, np.float32))
    assert differ(table.features(first, second, near)).tolist() == [False, False, True, False, True]
    assert table.features(first, second, near).shape == (5, len(NAME_FEATURES))


def test_long_and_empty_names_have_tokens() -> None:
    assert len(tokens_of(["word " * 100 + "+"])[0]) == MOST
    assert tokens_of(["\u2026"]) == [["?"]]


def test_a_list_is_recognised_and_can_be_read_otherwise() -> None:
    of_list, of_text = (arbo.Linker(config=arbo.LinkerConfig(treat_as=how)).discover(NAMES) for how in ("auto", "text"))
    assert of_list.manifest["config"]["treat_as"] == "list"
    assert "names" in of_list.manifest["encoder"]["edges"]["model"]
    assert of_text.manifest["config"]["nil_linkage"] == "single"
    text = {"id": "d", "text": "Kelp, then Kelp", "mentions": [{"spans": [[0, 4]]}, {"spans": [[11, 15]]}]}
    assert arbo.Linker().discover([text]).manifest["config"]["treat_as"] == "auto"


def test_equal_names_are_one_unless_people_say_otherwise() -> None:
    names = ["Paris", "Lyon"] * 100
    assert groups_of(arbo.Linker().discover(names)) == [["Lyon"] * 100, ["Paris"] * 100]
    split = arbo.Linker().discover(names, [{"different": ["0", "198"]}])
    assert split.cluster_of("0") != split.cluster_of("198")
    assert split.cluster_of("0") == split.cluster_of("2")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(NAMES), min_size=3, max_size=12), data=st.data())
def test_growth_equals_the_run_on_all_names(
    names: list[str], data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"{data.draw(st.integers(0, 99))}-{i}", "text": name} for i, name in enumerate(names)]
    rows = [{**row, "mentions": [{"spans": [[0, len(row["text"])]]}]} for row in rows]
    cut, most = data.draw(st.integers(2, len(rows))), data.draw(st.sampled_from([1, 2500]))
    monkeypatch.setattr("arbo.linker._MOST_NAMES", most)
    linker = arbo.Linker()
    grown = linker.add(linker.discover(rows[:cut]), rows[cut:])
    assert groups_of(grown) == groups_of(linker.refit(grown))
    assert linker.refit(grown).cluster_table == grown.cluster_table
    fewer = linker.remove(grown, [rows[data.draw(st.integers(0, len(rows) - 1))]["id"]])
    again = linker.refit(fewer)
    assert fewer.cluster_table == again.cluster_table
    for name, array in fewer.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name], name)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([float(SAME), -0.2, 0.25, 0.5, 1.5])),
        max_size=15,
    )
)
def test_mentions_that_are_one_count_as_one(edges: list[tuple[int, int, float]]) -> None:
    source, target, weight = np.array(edges or np.empty((0, 3))).T
    source, target = source.astype(int), target.astype(int)
    graph = Graph.from_edges(source, target, weight, n_entities=0, n_nodes=6)
    one = weight == SAME
    node = codes(component_labels(source[one], target[one], 6))
    between = node[source] != node[target]
    ends = node[source][between], node[target][between]
    small = Graph.from_edges(*ends, weight[between], n_entities=0, n_nodes=int(node.max()) + 1)
    for threshold in (0.0, 0.3, 0.6, 0.9):
        expected = average_tree(small).cut(threshold)[node]
        assert (codes(average_tree(graph).cut(threshold)) == codes(expected)).all()


def codes(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]

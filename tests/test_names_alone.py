"""Names alone: lists, Series and columns, from blank cells to clusters; the names model; average linkage."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from builders import document, sample_edges, save_lines
from conftest import Run
from hypothesis import HealthCheck, given, settings, strategies as st
from oracles.trees import component_labels

import arbo
from arbo.data.corpus import Corpus
from arbo.edges.name_list import tokens_in
from arbo.edges.name_pairs import IN_WORDS, NAME_FEATURES, NameTable, differ
from arbo.engine import Neighbors
from arbo.errors import DataError
from arbo.formats.table import read_column
from arbo.text.name_tokens import MOST
from clustering import Graph, average_tree
from clustering.average import SAME

DOCUMENTS, KB = arbo.load_sample()
NAMES = ["Marsh fever", "kelp blight", "marsh fevers"]


@pytest.mark.parametrize("make", [list, tuple, iter, np.array, lambda of: np.array(of, object), pd.Index, pa.array])
def test_names_are_documents_in_their_order(make: Any) -> None:
    corpus, rows = Corpus.of(make(NAMES)), [(str(row), str(row), name) for row, name in enumerate(NAMES)]
    assert [(mention.id, mention.document_id, mention.text) for mention in corpus.mentions] == rows
    assert {(type(document.text), document.mentions[0].gold) for document in corpus} == {(str, None)}
    assert [link.cluster for link in arbo.Linker().discover(make(NAMES)).links] == ["new-0", "new-1", "new-0"]


def test_the_index_of_a_series_names_its_mentions() -> None:
    names = pd.Series(NAMES, index=["r7", "r3", "r5"])
    found = arbo.Linker().discover(names)
    frame = names.to_frame("name").join(found.to_pandas()["cluster_id"].rename("cluster"))
    assert frame.loc["r5", "cluster"] == frame.loc["r7", "cluster"] == "new-r7" == found.cluster_of("r5").id
    repeated = arbo.Linker().discover(pd.Series(NAMES, index=[4, 4, 5]))
    assert [link.mention.id for link in repeated.links] == ["0", "1", "2"]
    assert repeated.to_pandas().index.tolist() == [4, 4, 5]
    for run, labels in ((found, ["r7", "r3", "r5", "3"]), (repeated, [4, 4, 5, 3])):
        assert arbo.Linker().add(run, ["fen"]).to_pandas().index.tolist() == labels
    with pytest.raises(DataError, match=r"pass their column alone, such as frame\[\"name\"\]"):
        arbo.Linker().discover(names.to_frame("name"))
    named = pd.Series(NAMES, index=pd.MultiIndex.from_tuples([("b", 2), ("b", 1), ("a", 2)], names=["shop", None]))
    assert [mention.id for mention in Corpus.of(named).mentions] == ["b/2", "b/1", "a/2"]
    dated = Corpus.of(pd.Series(["flu"], index=pd.to_datetime(["2026-11-22"])))
    assert dated.mentions[0].metadata == {"index": "2026-11-22 00:00:00"}


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", " ", "\t\u2003", "N/A", "Unknown"])
@pytest.mark.parametrize("more", [{}, {"mention_threshold": None}, {"nil_linkage": "average", "nil_threshold": None}])
def test_blank_names_are_clusters_of_their_own(missing: Any, more: dict[str, Any]) -> None:
    names, shown = [missing, *NAMES, missing, missing, NAMES[0]], missing.strip() if isinstance(missing, str) else ""
    own, there = arbo.Linker(config=more), pd.Series(names, index=[*"abcdefg"]).iloc[[1, 2, 3, 6]]
    for given_ in (names, pd.Series(names, index=[*"abcdefg"])):
        found = own.discover(given_)
        texts = [mention.text.strip() for mention in Corpus.of(given_).mentions]
        assert texts == [shown, *NAMES, shown, shown, NAMES[0]]
        assert len({*found.labels[[0, 4, 5]]} - {*found.labels[[1, 2, 3, 6]]}) == 3
        assert repr(found).endswith("; 3 blank names, compared with nothing)")
    assert found.labels[[1, 2, 3, 6]].tolist() == own.discover(there).labels.tolist()
    assert own.add(own.discover(names[:3]), names[3:]).labels[4:6].tolist() == ["new-4", "new-5"]
    assert own.refit(found).labels.tolist() == found.labels.tolist()
    assert len(arbo.Linker(config={**more, "treat_as": "list"}).discover([missing] * 2).clusters) == 2
    linked = arbo.Linker(arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever")]), config=more).link(names)
    assert {linked.links[row].entity for row in (0, 4, 5)} == {None}
    assert len({*linked.labels[[0, 4, 5]]}) == 3


def test_a_name_is_a_string_that_can_be_stored() -> None:
    for name, problem in (("a\0", "has a NUL"), ("\ud800", "has a surrogate"), (b"a", "must be a string, not bytes")):
        with pytest.raises(DataError, match=rf"'i1': the name in row 1 {problem}"):
            Corpus.of(pd.Series(["flu", name], index=["i0", "i1"], dtype=object))
    with pytest.raises(
        DataError, match=r"'1': row 1: 'name' must be a string, .* frame\[\"name\"\]\.astype\(\"Int64\"\)"
    ):
        Corpus.of(["flu", 1984])


def test_labels_are_clusters_and_the_index_comes_back_also_of_what_is_added() -> None:
    dates = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01"])
    frame = pd.DataFrame({"name": [NAMES[0], None, NAMES[2]]}, index=dates)
    frame["cluster"] = (found := arbo.Linker().discover(frame["name"])).labels
    assert frame["cluster"].tolist() == ["new-0", "new-1", "new-0"]
    one = arbo.Linker().discover(pd.Series(NAMES, index=pd.Index([*"abc"], name="order")))
    for index in (pd.Index([*"de"]), pd.Index([*"de"], name="key")):
        more = arbo.Linker().add(one, pd.Series(["marsh fever", "fen"], index=index))
        pd.testing.assert_index_equal(more.to_pandas().index, pd.Index([*"abcde"], name="order"))
    again = arbo.Linker().add(arbo.Linker().discover(pd.Series(NAMES)), pd.Series(NAMES[:2]))
    assert again.to_pandas().index.tolist() == [0, 1, 2, 0, 1]
    assert again.labels.tolist() == ["new-0", "new-1", "new-0", "new-0", "new-1"]
    assert len(found.to_pandas()) == 3


INDEXES = {
    "repeated, and named": pd.Index(["a", "a", "b"], name="order"),
    "of levels": pd.MultiIndex.from_tuples([("b", 2), ("b", 1), ("a", 2)], names=["shop", None]),
    "default": pd.RangeIndex(3),
    "mixed, and one missing": pd.Index(["7", None, 7]),
    "of long numbers": pd.Index([2**63 + 1, 7, 2**64 - 1]),
    "named like a column of the result": pd.Index(["x", "y", "z"], name="entity_id"),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
def test_a_result_has_the_index_of_the_frame(index: pd.Index, tmp_path: Path) -> None:
    names = pd.Series(NAMES, index=index, name="customer")
    rows = pd.DataFrame({"document_id": ["a", "b", "c"], "text": NAMES, "start": 0, "end": [11, 11, 12], "index": 5})
    for given_ in (names, rows.set_index(index), Corpus.of(rows.set_index(index))[:3].of_types([None])):
        found = arbo.Linker().discover(given_)
        found.save(tmp_path / "run")
        for result in (found, arbo.Result.load(tmp_path / "run")):
            pd.testing.assert_index_equal(result.to_pandas().index, index, exact="equiv")
        found.save(tmp_path / "run", texts=False)
        assert arbo.Result.load(tmp_path / "run").to_pandas()["text"].tolist() == NAMES
    assert found.to_pandas()["index"].tolist() == [5] * 3


def test_pairs_are_the_edges_of_the_graph_each_once() -> None:
    for result in (arbo.Linker(KB).link(DOCUMENTS), arbo.Linker(edges=sample_edges()).discover(DOCUMENTS)):
        pairs = result.pairs().to_pylist()
        assert pairs
        scores = [pair["score"] for pair in pairs]
        assert scores == sorted(scores, reverse=True)
        both = [frozenset((pair["mention_id_1"], pair["mention_id_2"])) for pair in pairs]
        assert len({*both}) == len(both) == sum(len(pair) == 2 for pair in both)
        assert all(result.link_of(pair["mention_id_1"]).name == pair["name_1"] for pair in pairs)
    found = arbo.Linker().discover(NAMES)
    assert {name for name, _ in found.link_of("2").reasons} < {*IN_WORDS}
    ((_, second, *_, score),) = (pair.values() for pair in found.pairs().to_pylist())
    assert (second, score) == ("2", pytest.approx(1 - found.clusters[0].weakest_join))


def test_a_name_is_found_in_the_cluster_that_it_would_join() -> None:
    own = arbo.Linker()
    run = own.discover(["marsh fever", None, "kelp blight", "kelp blights"])
    before = [(cluster.id, cluster.size) for cluster in run.clusters]
    found = own.find(run, ["Marsh fevers", None, "tern optics", "kelp blight", "tern optic"])
    assert found["name"].to_pylist() == ["Marsh fevers", " ", "tern optics", "kelp blight", "tern optic"]
    assert found["cluster_id"].to_pylist() == ["new-0", None, None, "new-2", None]
    assert found["cluster_name"].to_pylist() == ["marsh fever", None, None, "kelp blight", None]
    score, *others = found["score"].to_pylist()
    assert 0.8 < score <= 1
    assert others == [None, None, pytest.approx(1), None]
    assert [(cluster.id, cluster.size) for cluster in run.clusters] == before
    few = own.find(own.discover(["Siemens"]), ["siemens ltd", "Simens"])
    assert few["cluster_name"].to_pylist() == ["Siemens"] * 2
    for own in (arbo.Linker(KB), arbo.Linker(edges=sample_edges()), arbo.Linker(config={"nil_linkage": "average"})):
        run, more = (own.link if own.kb else own.discover)(DOCUMENTS[:20]), DOCUMENTS[20:30]
        added = own.add(run, more)
        known = {cluster.id for cluster in run.clusters} | {entity.id for entity in KB}
        links = added.links[len(run.links) :]
        expected = [link.cluster if link.cluster in known else None for link in links]
        table = own.find(run, more).to_pydict()
        assert table["cluster_id"] == expected
        assert [score is None for score in table["score"]] == [cluster is None for cluster in expected]
        assert all(s == link.score for s, link in zip(table["score"], links, strict=True) if link.entity)
    rows = arbo.Linker(encoder=arbo.VectorEncoder({str(row): [float(row % 2), 1.0 - row % 2] for row in range(6)}))
    assert rows.find(rows.discover([*"abcd"]), ["a", "b"])["cluster_id"].to_pylist() == ["new-0", "new-1"]


def test_tables_of_any_form_are_lists(run: Run, tmp_path: Path) -> None:
    frame, discover = pd.DataFrame({"name": NAMES, "document_id": "x", "mentions": 3, 1: "y"}), arbo.Linker().discover
    for table in (frame, frame.set_index("name")):
        assert discover(table, name="name", evidence=[1]).labels.tolist() == ["new-0", "new-1", "new-0"]
    (tmp_path / "one.csv").write_text("name,city\nfen,Hull\n")
    one = run("discover", tmp_path / "one.csv", "--text-column", "name", "--evidence", "city", "--out", tmp_path / "o")
    assert "1 mention in 1 discovered entity" in one.out
    assert "nothing to ask" in run("review", tmp_path / "o").out
    lines = save_lines(tmp_path / "lines.csv", "fen", "tern")
    assert "without a header, with --format text" in run("discover", lines, "--out", tmp_path / "o").told
    (tmp_path / "none.csv").write_text("name,city\n")
    none = run("discover", tmp_path / "none.csv", "--text-column", "name", "--out", tmp_path / "o")
    assert "none.csv: no names: the table is empty" in none.told
    pd.DataFrame({"name": [0, None, 1]}).astype("Int64").to_parquet(tmp_path / "n.parquet")
    assert [mention.text for mention in read_column(tmp_path / "n.parquet", "name").mentions] == ["0", " ", "1"]


def test_polars_reads_results_and_its_names_are_read() -> None:
    found = arbo.Linker().discover(NAMES)
    assert pa.table(found).to_pandas().equals(found.to_pandas())
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"name": [NAMES[0], None, NAMES[2]]})
    found = arbo.Linker().discover(frame["name"])
    joined = frame.with_columns(cluster=found.labels)
    assert joined["cluster"].to_list() == polars.DataFrame(found)["cluster_id"].to_list() == ["new-0", "new-1", "new-0"]


def test_wrong_settings_are_refused_by_the_linker() -> None:
    for config, problem in (
        ({"mention_threshold": 80}, "mention_threshold=80: dissimilarities are from 0 .* for a similarity of 80 %"),
        ({"nil_linkage": "average", "nil_threshold": 2.5}, "nil_threshold=2.5: dissimilarities are from 0"),
        ({"mention_threshold": -1}, "mention_threshold=-1: dissimilarities are from 0"),
        ({"mention_treshold": 0.2}, "did you mean 'mention_threshold'"),
        ({"k": 2.5}, "k must be an integer of at least 0, not 2.5"),
        (8, "expected a JSON object with some of the keys method, k"),
    ):
        with pytest.raises(arbo.ArboError, match=problem):
            arbo.Linker(config=config)
    for given_ in ({"k": 8, "mention_threshold": None}, None):
        assert arbo.Linker(config=given_).config == arbo.LinkerConfig(**(given_ or {}))
    with pytest.raises(arbo.UsageError, match="expected a run or its folder, not int"):
        arbo.Linker().find(8, NAMES)


def test_the_command_line_gives_the_ids_of_python(run: Run, tmp_path: Path) -> None:
    names, out = ["Marsh fever", "", "kelp blight ", "marsh fevers"], tmp_path / "run"
    expected = arbo.Linker().discover(names).link_table["cluster_id"].to_pylist()
    (tmp_path / "names.txt").write_text("\ufeff" + "\r\n".join(names) + "\r\n", "utf-8")
    pd.DataFrame({"name": names, "n": 1}).to_csv(tmp_path / "table.csv", index=False)
    for given_ in (["names.txt"], ["table.csv", "--text-column", "name"], ["table.csv", "--set", "text_column=name"]):
        found = run("discover", tmp_path / given_[0], *given_[1:], "--out", out).ok()
        assert "1 blank name, compared with nothing" in found.told
        assert arbo.Result.load(out).link_table["cluster_id"].to_pylist() == expected
    assert run("add", out, tmp_path / "table.csv", "--out", tmp_path / "more").code == 0
    assert [link.mention.id for link in arbo.Result.load(tmp_path / "more").links] == [*"01234567"]
    assert run("add", out, tmp_path / "names.txt", "--format", "text", "--out", tmp_path / "more").code == 0
    for opened in (str(out), out, arbo.open_run(out)):
        assert arbo.Linker().find(opened, ["fen"])["cluster_id"].to_pylist() == [None]
    asked = run("review", out).out
    assert "now  in cluster new-0, together with 1\n" in asked
    assert "a accept  1 one with the row above  e new entity  = same" in asked
    (tmp_path / "long.txt").write_text("fen\n" + (long := "A text is no name. " * 20))
    shown = run("discover", tmp_path / "long.txt", "--out", out).told
    assert "the documents have no mentions; line 2: over 300 characters, which is long for a name" in shown
    (tmp_path / "long.txt").write_text("\n".join([*map(str, range(9)), long]))
    assert "each line is a name; line 10: over 300" in run("discover", tmp_path / "long.txt", "--out", out).ok().told
    for name in ("empty.txt", "empty.csv"):
        (tmp_path / name).write_text("")
        assert f"{name}: {'the file is empty' if 'csv' in name else 'no names, since all lines are blank'}" in (
            run("discover", tmp_path / name, "--out", out).told
        )


def test_no_threshold_is_chosen_from_what_may_be_a_sample() -> None:
    words = ["amber", "basalt", "cobalt", "dune", "ember", "flint", "garnet", "heath", "ivory", "jasper"]
    names = [f"{one} {other} {form}" for one in words for other in words for form in ("works", "work", "wroks")]

    def tuned(labelled: int) -> arbo.Linker:
        rows = [{"id": str(i), "text": name, "mentions": [{"spans": [[0, len(name)]]}]} for i, name in enumerate(names)]
        for i, row in enumerate(rows[:labelled]):
            row["mentions"][0]["cluster"] = str(i // 3)
        return arbo.Linker().tune(rows)

    whole, some = tuned(len(names)), tuned(len(names) - 1)
    assert "all names have a label" in str(whole.tuning.note)
    assert [whole.config.k, whole.config.nil_threshold] == [8, 0.85]
    assert (some.tuning.note, some.config.k) == (None, 8)
    assert some.tuning.best.score >= whole.tuning.best.score


def test_every_verb_that_reads_annotated_documents_reads_a_column(run: Run, tmp_path: Path) -> None:
    rows = {"name": ["marsh fever", "marsh fevers", "kelp blight", None], "cluster": ["a", "a", "b", None]}
    pd.DataFrame(rows).to_csv(table := tmp_path / "t.csv", index=False)
    how, out = [table, "--text-column", "name", "--out"], tmp_path / "run"
    assert run("tune", *how, tmp_path / "tuned.json", "--json").json["score"] == 1
    assert run("discover", *how, out, "--config", tmp_path / "tuned.json").code == 0
    assert run("evaluate", out).code == 0
    arbo.KnowledgeBase([arbo.Entity("E1", "fen fever"), arbo.Entity("E2", "blight")]).to_jsonl(tmp_path / "kb.jsonl")
    table.write_text("name,entity\nmarsh fever,E1\n,\nkelp blight,E2\n")
    run("kb", "edit", tmp_path / "kb.jsonl", "--add-names", *how, out / "k.jsonl").ok()
    aliases = [entity.aliases for entity in arbo.read_knowledge_base(out / "k.jsonl")]
    assert aliases == [("marsh fever",), ("kelp blight",)]
    trained = run("train", "edges", table, "--dev", table, "--text-column", "nam", "--out", tmp_path / "e.json")
    assert "there is no column 'nam'" in trained.told


class Lengths:
    """Encodes texts by the letters that they have, as a `SentenceTransformer` is called."""

    def encode(self, texts: list[str]) -> np.ndarray:
        self.texts = texts
        return np.array([[text.lower().count(letter) for letter in "abcdefghij"] for text in texts], np.float32)


def test_an_object_with_the_method_encode_is_an_encoder() -> None:
    own, names = arbo.Linker(None, model := Lengths()), ["bead", "face", "Bead", None, "bead", "cafe"]
    found = own.add(own.discover([]), names)
    assert found.labels.tolist() == ["new-0", "new-1", "new-0", "new-3", "new-0", "new-1"]
    assert sorted(model.texts) == sorted({"bead", "face", "Bead", " ", "cafe"})
    assert own.add(found, ["abed"]).labels.tolist() == [*found.labels, "new-0"]
    assert own.find(found, ["deba", "jig"])["cluster_id"].to_pylist() == ["new-0", None]
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "jig", ("bead",)), arbo.Entity("E2", "face")])
    assert [link.entity for link in arbo.Linker(kb, model).link(["abed", "cafe", "hi"]).links] == ["E1", "E2", None]
    for shape in (3, (3, 2)):
        model.encode = lambda _, shape=shape: np.ones(shape)
        with pytest.raises(DataError, match="`encode` must return a vector for each of the 5 texts"):
            own.discover(names)


APART = [
    ("Deutsche Bank AG", "Deutsche Bahn AG"),
    ("Hepatitis A", "Hepatitis B"),
    ("Type 1 diabetes", "Type 2 diabetes"),
    ("Section 3(a)", "Section 3(b)"),
    ("S21", "S22"),
    ("aspirin 2.5 mg", "aspirin 25 mg"),
    ("C", "C++", "C#"),
    ("(+)-limonene", "(-)-limonene"),
    ("CD4+ T cell", "CD4- T cell"),
    ("Barack Obama", "Michelle Obama"),
    ("Queensland, Australia", "Australia"),
    ("C", "hepatitis C"),
    ("General Motors", "Forge Motors", "General Electric", "Mitsubishi Electric"),
    ("chronic hepatitis B", "hepatitis C"),
    ("Siemens", "Siemens Energy", "Siemens Healthineers"),
    ("Pixel 7", "Pixel 7 Pro", "Pixel 7a"),
    ("Portland, OR", "Portland, ME"),
    ("storage disease I", "storage disease II", "storage disease III", "storage disease IX", "storage disease X"),
]
TOGETHER = [
    ("Kelp & Blight Ltd", "Kelp and Blight Limited", "KELP AND BLIGHT"),
    ("Abbas Palme", "Palme, Abbas", "Dr. Abbas Palme", "A. Palme"),
    ("Adolescent Series 2031 Airliner", "Adolescent Series2031 Airliner"),
    ("International Business Machines", "IBM"),
    ("Gazzetta", "Gazzeta"),
    ("Farmers' Supply", "FARMERS' SUPPLY"),
    ("fish odour type II", "fish odour type 2"),
    ("rat odour type I", "rat odour type 1"),
    ("Mount Everest", "Mt Everest", "Mt. Everest"),
    ("Salem, OR", "Salem, Oregon"),
]
LISTED = [*("Marsh Fever", "marsh fever", "Marsh-Fever Ltd", "Kelp", "Kelp Inc", "Paris", "Tern Optics")]
EDGE = st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([float(SAME), -0.2, 0.25, 0.5, 1.5]))


def groups_of(result: arbo.Result) -> list[list[str]]:
    return sorted(sorted(mention.text for mention in cluster.mentions) for cluster in result.clusters)


@pytest.mark.parametrize("names", APART)
def test_names_that_differ_stay_apart(names: tuple[str, ...]) -> None:
    assert groups_of(arbo.Linker().discover(names)) == sorted([name] for name in names)


@pytest.mark.parametrize("names", TOGETHER)
def test_names_that_are_written_otherwise_are_together(names: tuple[str, ...]) -> None:
    assert sorted(names) in groups_of(arbo.Linker().discover([*names, *[name for some in APART for name in some]]))


def test_clusters_do_not_depend_on_the_order_of_the_names() -> None:
    names = [
        "IBM",
        "International Business Machines",
        "UPS",
        "United Parcel Service",
        "B.M.W.",
        "Bayerische Motoren Werke",
    ]
    names += [
        "Stork Optics",
        "Kelp & Blight",
        "Marsh Fever",
        "Tern Optics",
        "Hull Shipping",
        "York Tools",
        "Omega Glass",
    ]
    expected = groups_of(arbo.Linker().discover(names))
    assert sorted(map(len, expected)) == [*[1] * 7, *[2] * 3]
    for order in (names[::-1], sorted(names)):
        assert groups_of(arbo.Linker().discover(order)) == expected


def test_an_initial_and_a_legal_form_are_no_difference_and_all_names_have_tokens() -> None:
    table = NameTable.of(["J. Smith", "John Smith", "J. Smith AG", "B. Smith", "J. P. Smith", "J. Paul Smith"])
    first, second = np.array([0, 0, 0, 4, 3]), np.array([1, 2, 3, 5, 4])
    near = Neighbors(np.arange(6)[:, None][::-1], np.full((6, 1), 0.5, np.float32))
    assert differ(table.features(first, second, near)).tolist() == [False, False, True, False, True]
    assert table.features(first, second, near).shape == (5, len(NAME_FEATURES))
    terms = NameTable.of(["adrenal disorder I", "disorder of the adrenals II", "adrenal disorder"])
    features = terms.features(np.array([0, 0, 1]), np.array([1, 2, 2]), near)
    assert differ(features, are_terms=True).tolist() == [True, False, False]
    tokens, _, begin = tokens_in(["word " * 100 + "+", "\u2026", ""])
    assert (tokens, begin.tolist()) == (["word", "+", "?"], [0, MOST, MOST + 1, MOST + 2])
    assert tokens_in([])[2].tolist() == [0]


def test_a_list_is_recognised_and_can_be_read_otherwise() -> None:
    of_list, of_text = (arbo.Linker(config={"treat_as": how}).discover(LISTED) for how in ("auto", "text"))
    assert of_list.manifest["config"]["treat_as"] == "list"
    assert "names" in of_list.manifest["encoder"]["edges"]["model"]
    assert of_text.manifest["config"]["nil_linkage"] == "single"
    text = {"id": "d", "text": "Kelp, then Kelp", "mentions": [{"spans": [[0, 4]]}, {"spans": [[11, 15]]}]}
    assert arbo.Linker().discover([text]).manifest["config"]["treat_as"] == "auto"


def test_a_family_weighs_the_same_when_the_list_grows() -> None:
    words = "Oy Ab Foods Optics Glass Tools Paper Steel Energy Shipping Clinics Partners Mobility Healthineers"
    names = ["Kelp", *(f"{firm} {word}" for firm in ("Kelp", "Marsh", "Tern", "Hull") for word in words.split())]
    own = arbo.Linker()
    whole = own.discover(names)
    for row in (4, 9, 14, 20):
        grown = own.add(own.remove(whole, [f"{row}"]), Corpus.of(names)[row : row + 1])
        rows = [(one.values() for one in run.pairs().to_pylist()) for run in (whole, grown)]
        one, other = ({(*sorted([first, second]), score) for *_, first, second, score in some} for some in rows)
        assert one == other


def test_terms_are_recognised_by_words_that_begin_and_end_them() -> None:
    words, kinds = ["amber", "basalt", "cobalt", "dune", "ember", "flint", "garnet", "heath"], ("cysts", "ulcers")
    pairs = [f"{one} {two}" for one in words for two in words]
    names = [name for pair in pairs for kind in kinds for name in (f"{pair} {kind}", f"{kind}, {pair}")]
    whole, few, terms = (arbo.Linker().discover(some) for some in (names, words, names + words))
    later = arbo.Linker().add(few, names)  # the first names say what they are
    assert [run.manifest["threshold"]["nil"] for run in (whole, few, later)] == [0.85] * 3
    assert terms.manifest["threshold"]["nil"] > 0.85


def test_equal_names_are_one_unless_people_say_otherwise() -> None:
    names = ["Paris", "Lyon"] * 100
    assert groups_of(arbo.Linker().discover(names)) == [["Lyon"] * 100, ["Paris"] * 100]
    split = arbo.Linker().discover(names, [{"different": ["0", "198"]}])
    assert split.cluster_of("0") != split.cluster_of("198")
    assert len({split.cluster_of(f"{even}").id for even in range(0, 200, 2)}) == 2


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(LISTED), min_size=3, max_size=12), data=st.data())
def test_growth_equals_the_whole_run(names: list[str], data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
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
@given(st.lists(EDGE, max_size=15))
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
        assert (codes(average_tree(graph).cut(threshold)) == codes(average_tree(small).cut(threshold)[node])).all()


def codes(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]


def test_a_list_that_loses_a_mention_stays_a_list() -> None:
    result = arbo.Linker().remove(arbo.Linker().discover([document("a", "Kelp"), document("b", "Kelp")]), ["a-0"])
    assert arbo.Linker().refit(result).link_table == result.link_table
    assert [mention.id for mention in arbo.Linker().add(result, ["Kelp Ltd"]).clusters[0].mentions] == ["b-0", "2"]

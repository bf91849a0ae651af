"""Columns as evidence: kinds, levels, estimated weights, sources, growth, and the same from the command line."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Run
from hypothesis import given, settings, strategies as st

import arbo
from arbo.corrections.pairs import DrawnPairs
from arbo.corrections.review import Review
from arbo.data.columns import LEVELS, cells_of
from arbo.data.corpus import mention_inputs
from arbo.edges.evidence import Column, ColumnWeights
from arbo.edges.name_pairs import NameTable
from eval import clustering_scores

NAMES = [
    *("Maud Gonne", "Otto Hahn", "Lise Meitner", "Niels Bohr", "Ada Lovelace", "Alan Turing", "Emmy Noether"),
    *("Kurt Goedel", "Rosa Parks", "Ella Baker", "Karl Popper", "Hannah Arendt", "Ivo Andric", "Selma Lagerlof"),
    *("Knut Hamsun", "Olga Tokarczuk", "Czeslaw Milosz", "Pablo Neruda", "Doris Lessing", "Toni Morrison"),
]
ROWS = [(name, f"{'Oslo' if i % 2 else 'Rome'} {i % 3}", f"{7000 + 37 * i}") for i, name in enumerate(NAMES)]
ROWS += [(name[1:], city, code) for name, city, code in ROWS[:12]]
ROWS += [("Ann Smith", "Rome 1", "1234"), ("Ann Smith", "Oslo 2", "9876"), ("Smith, Ann", "Rome 1", "1234")]
ROWS += [("Bob Zuckerman", None, "5555"), ("B. Z.", "Rome 2", "5555")]
PEOPLE = pd.DataFrame(ROWS, columns=["name", "city", "code"])
HOW: Any = {"name": "name", "evidence": ["city", "code"]}


def together(result: arbo.Result) -> list[list[str]]:
    clusters = ([mention.id for mention in cluster.mentions] for cluster in result.clusters)
    return sorted(sorted(ids, key=int) for ids in clusters if len(ids) > 1)


@pytest.mark.parametrize(
    ("kind", "cells", "expected"),
    [
        (None, ["12.5", "12.50 %", "12.6", "13", "15", "99", ""], ["number", 1, 2, 3, 4, 5, 0]),
        ("number", [f"{s}17{'0' * 307}" for s in ("", "", "-")], ["number", 1, 5]),
        (None, ["404/351-9533", "404 351 9533", "404-351-9534", "", "212-245-5336"], ["code", 1, 2, 0, 6]),
        (None, ["Adobe Systems", "adobe systems", "Adobe", "Adobe System Inc", "Symantec"], ["text", 1, 3, 2, 6]),
        (None, ["1998", "1998", "1999", "2001", "2004", "2014", ""], ["code", 1, 2, 4, 5, 6, 0]),
        (None, ["3:45", "$225", "3:46", "1:00:00", ""], ["number", 1, 2, 5, 0]),
        (None, ["12 Kelp Road, 7", "15 Kelp Road, 7", "12 Kelp Road", "12 Kelp Rd, 8"], ["text", 5, 2, 5]),
        (None, ["1985-12-31", "12/31/1985", "31 December 1985", "Dec 31, 1985", "2/3/1971"], ["code", 1, 1, 1, 6]),
        (None, ["31.3.1985", "1985-03-31", "3/31/1985", "1985-31-03"], ["code", 1, 1, 1]),
        (None, ["9-Feb-15", "February 9, 2015", "9 Feb 1915", "2015-02-09"], ["code", 1, 4, 1]),
        (None, [f"1 2 {'9' * 5000}"] * 2, ["code", 1]),
        (None, ["2.3.1985", "1985-03-02", "31.3.1985", "30.4.1985", "5/14/1985"], ["code", 1, 4, 5, 5]),
        ("exact", ["DE 1", "DE 1", "DE-1", ""], ["exact", 1, 2, 0]),
        ("source", ["a", "a", "b"], ["source", 1, 2]),
        ("set", ["a b;c", "c ; d", "a;b", ""], ["set", 1, 2, 0]),
    ],
)
def test_levels_of_likeness_follow_the_kind(kind: Any, cells: list[str], expected: list[Any]) -> None:
    column = Column.of("x", kind, cells)
    n = len(cells) - 1
    assert [column.kind, *column.levels(np.zeros(n, np.int64), np.arange(1, n + 1)).tolist()] == expected


def test_rare_equal_values_propose_pairs_and_weights_are_shares_of_pairs() -> None:
    column = Column.of("x", "exact", ["a", "b", "a", "", "b", "b", *["c"] * 11])
    name, is_blank = np.array([*range(15), 20, 20]), np.zeros(17, bool)
    pairs = set(zip(*(side.tolist() for side in column.pairs(name, is_blank)), strict=True))
    assert pairs == {(0, 2), (1, 4), (1, 5), (4, 5), (15, 16)}  # "c" is frequent, but one name has it twice
    assert column.rarity[0] > 0 > column.rarity[-1]
    column = Column.of("x", "exact", ["a", "b"])
    levels, probability = np.array([1] * 90 + [2] * 10 + [0] * 50, np.int8), np.array([1.0] * 80 + [0.0] * 70)
    weights = ColumnWeights.estimated(probability, column, None, levels)
    assert weights.u == pytest.approx(np.array([11, 11]) / 22)
    assert weights.m == pytest.approx(np.array([86, 2]) / 88)
    assert weights.log_odds[0] == 0  # a missing value is no evidence
    assert len(weights.log_odds) == 1 + len(LEVELS["exact"])


def test_columns_join_and_divide_names() -> None:
    alone = together(arbo.Linker().discover(PEOPLE, name="name"))
    result = arbo.Linker().discover(PEOPLE, **HOW)
    groups, score = together(result), {tuple(row.values())[:2]: row["score"] for row in result.pairs().to_pylist()}
    assert ["35", "36"] not in alone
    assert ["35", "36"] in groups  # "B. Z." has the number of Bob Zuckerman
    assert [[str(i), str(20 + i)] in groups for i in range(12)] == [True] * 12
    assert score["32", "34"] > 0.99 > score["32", "33"]  # another Ann Smith lives elsewhere
    reasons = dict(result.link_of("34").reasons)
    assert reasons.keys() == {"names", "city: equal", "code: equal"}
    assert reasons["code: equal"] > reasons["city: equal"] > 0
    assert [one["kind"] for one in result.manifest["encoder"]["edges"]["columns"]] == ["text", "code"]


def test_equal_rows_are_one_but_hardly_ever_those_of_one_source() -> None:
    frame = pd.concat([PEOPLE, PEOPLE.iloc[::-1]], ignore_index=True).assign(id=lambda f: [f"r{i}" for i in f.index])
    result, turned = (arbo.Linker().discover(some, **HOW) for some in (frame, frame.iloc[::-1]))
    for i in range(len(PEOPLE)):
        assert result.cluster_of(f"r{i}") == result.cluster_of(f"r{2 * len(PEOPLE) - 1 - i}")
    clusters = [{frozenset(m.id for m in cluster.mentions) for cluster in one.clusters} for one in (result, turned)]
    assert clusters[0] == clusters[1]
    frame = PEOPLE.assign(shop=["a"] * 20 + ["b"] * 12 + ["a", "a", "b", "a", "b"])
    result = arbo.Linker().discover(frame, name="name", evidence=["city"], source="shop")
    (_, shop) = result.manifest["encoder"]["edges"]["columns"]
    same, another = np.log(shop["m"]) - np.log(shop["u"])
    assert same < 0 < another
    assert result.manifest["config"]["evidence"] == "city,shop:source"


def test_a_missing_cell_is_that_of_rows_which_agree_and_many_rows_are_one() -> None:
    rows = [("Kelp", "Hull", "7"), ("Kelp", None, "7"), ("Kelp", "Hull", "-")]
    frame = pd.DataFrame([*rows, ("Tern", "Hull", "8"), ("Tern", "York", "8"), ("Tern", None, "8")], columns=[*"abc"])
    inputs = mention_inputs(arbo.Corpus.of(frame, "a"), expand_abbreviations=False)
    expected = {"b": ["Hull"] * 4 + ["York", ""], "c": ["7"] * 3 + ["8"] * 3}
    assert cells_of(inputs, [("b", None), ("c", None)]) == expected
    assert cells_of(inputs, [("b", None), ("c", "source")])["b"] == ["Hull", "", "Hull", "Hull", "York", ""]
    names, draw = [f"{a} Kelp {b}" for a in ("Old", "North", "West") for b in ("Ltd", "AG")], np.random.default_rng(0)
    frame = pd.DataFrame({"name": names * 40, "city": "Hull", "code": "7000"})
    frame = frame.mask(draw.random(frame.shape) < [0, 0.3, 0.3], None)
    result = arbo.Linker().discover(frame, **HOW)
    assert len(result.clusters) == len(arbo.Linker().discover(names).clusters)


def test_people_of_one_name_are_told_apart_by_their_columns() -> None:
    draw, n = np.random.default_rng(0), 120
    born, town = draw.integers(19000000, 20000000, n).astype(str), draw.choice(NAMES, n)
    people = pd.DataFrame({"name": draw.choice(NAMES, n), "born": born, "town": town, "who": np.arange(n)})
    again = people[: n // 2].assign(name=people["name"].str.upper())
    frame = pd.concat([people, again, people[n // 3 :]], ignore_index=True)
    result = arbo.Linker().discover(frame, name="name", evidence=["born:date", "town:place"])
    assert len({*zip(frame["who"], result.labels, strict=True)}) == n  # nobody is divided
    assert len(result.clusters) > 100 > len(NAMES)
    assert result.manifest["encoder"]["edges"]["shift"] < -2
    assert any("in log-odds: names -" in line for line in result.choices)


def test_shops_of_one_house_are_not_one_although_their_columns_are_equal() -> None:
    draw, words = np.random.default_rng(2), [word for name in NAMES for word in name.split()]
    house = np.arange(150) // 5
    shops = pd.DataFrame({"name": [" ".join(draw.choice(words, 2)) for _ in house], "who": range(150)})
    shops = shops.assign(street=[f"{7 * i} Kelp Road" for i in house], phone=(1000000 + 7919 * house).astype(str))
    frame = pd.concat([shops, shops[:20].assign(name=shops["name"].str[1:])], ignore_index=True)
    result = arbo.Linker().discover(frame, name="name", evidence=["street", "phone"])
    scores = clustering_scores(frame["who"].to_numpy(), np.unique(result.labels, return_inverse=True)[1])["pairwise"]
    assert scores["f1"] > 0.5
    edges = result.manifest["encoder"]["edges"]
    assert edges["far_u"][1][0] > 0.5 > edges["columns"][1]["u"][0]  # an equal telephone is common among far names


def test_few_people_of_common_names_are_one_and_birthdays_in_common_say_little() -> None:
    draw, n = np.random.default_rng(1), 3000
    firsts, surnames = ([name.split()[at] for name in NAMES] for at in (0, 1))
    born = draw.integers(1940, 1980, n) * 10000 + draw.integers(1, 13, n) * 100 + draw.integers(1, 29, n)
    names = [" ".join(draw.choice(words) for words in (firsts, firsts, surnames)) for _ in range(n)]
    people = pd.DataFrame({"name": names, "born": born.astype(str), "who": range(n)})
    frame = pd.concat([people, people[:60].assign(name=people["name"].str.upper())], ignore_index=True)
    result = arbo.Linker().discover(frame, name="name", evidence=["born:date"])
    scores = clustering_scores(frame["who"].to_numpy(), np.unique(result.labels, return_inverse=True)[1])["pairwise"]
    assert scores["recall"] > 0.95
    assert scores["precision"] > 0.8
    assert result.manifest["threshold"]["nil"] == 0.7
    assert re.search("estimate: (9[0-9]|100)% of right pairs were compared", result.choices[-1])
    assert result.manifest["encoder"]["edges"]["competes"]


@pytest.mark.parametrize("source", [None, "shop"])
def test_rows_have_several_partners_if_these_fit_much_better(source: str | None) -> None:
    draw = np.random.default_rng(0)
    things = pd.DataFrame({"name": [f"{one} {two}" for one in NAMES[:12] for two in NAMES[:12]], "thing": range(144)})
    things["code"] = draw.integers(10**7, 10**8, 144).astype(str)
    ends = ("", "s", " Ltd", " AG", " GmbH", "e", " SA", "n")
    frame = pd.concat([things.assign(name=things["name"] + end) for end in ends], ignore_index=True)
    frame["code"] = frame["code"].mask(draw.random(len(frame)) < 0.2)
    frame["shop"] = ["a"] * 144 + ["b"] * (len(frame) - 144)
    result = arbo.Linker().discover(frame, name="name", evidence=["code"], source=source)
    assert not result.manifest["encoder"]["edges"]["competes"]
    both = frame.assign(shop=["a", "b"] * (len(frame) // 2))  # neither shop is clean
    competing = arbo.Linker().discover(both, name="name", evidence=["code"], source=source)
    assert competing.manifest["encoder"]["edges"]["competes"] == (source is not None)
    scores = clustering_scores(frame["thing"].to_numpy(), np.unique(result.labels, return_inverse=True)[1])["pairwise"]
    assert scores["f1"] > 0.9


def test_texts_in_common_weigh_for_names_that_are_alike() -> None:
    texts = [*(f"t{i}; u{i}" for i in range(20)), *(f"t{i}" for i in range(12)), "y;u19", "y", "z", "z"]
    names = [*PEOPLE["name"][:32], "Morrison", "Hahn", "Doris Lessing", "Otto Hahn"]
    frame, linker = pd.DataFrame({"name": names, "texts": texts}), arbo.Linker()
    result = linker.discover(frame, name="name", evidence=["texts:set"])
    score = {tuple(row.values())[:2]: row["score"] for row in result.pairs().to_pylist()}
    assert 0.9 >= score["19", "32"] > score["1", "33"]  # Otto Hahn is in other texts
    assert "texts: some in common +" in str(result.explain("32"))
    assert result.cluster_of("34") == result.cluster_of("18")  # equal names are one, whatever their texts
    assert result.cluster_of("34") != result.cluster_of("35")
    as_refit(linker.add(result, frame[:3].assign(id=["a", "b", "c"], texts=["z", None, "y"])))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, len(PEOPLE) - 1), min_size=4, max_size=16), st.data())
def test_growth_equals_the_refit_with_the_weights_of_the_run(rows: list[int], data: st.DataObject) -> None:
    frame = PEOPLE.iloc[rows].assign(id=[f"{data.draw(st.integers(0, 99))}-{i}" for i in range(len(rows))], city="x")
    frame["code"] = ["7", *(data.draw(st.sampled_from("78-")) for _ in rows[1:])]
    cut = data.draw(st.integers(2, len(rows) - 1))
    linker = arbo.Linker()
    grown = linker.add(linker.discover(frame[:cut], **HOW), frame[cut:])
    as_refit(grown)
    as_refit(linker.remove(grown, grown.link_table["mention_id"].to_pylist()[:2]))


def as_refit(grown: arbo.Result) -> arbo.Result:
    """Compare a run that grew with its refit; its links are then those of a table, as of a run that was read."""
    again = arbo.Linker().refit(grown)
    for table in ("cluster_table", "link_table"):
        assert getattr(grown, table) == getattr(again, table)
    assert grown.manifest["encoder"] == again.manifest["encoder"]
    for name, array in grown.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name], name)
    return grown


def test_a_row_that_comes_or_goes_changes_missing_cells_of_others() -> None:
    rows = [("Kelp Sons", "Hull", "7"), ("Kelp Sons", None, "7"), ("Kelp Son", "Hull", "7"), ("Kelps Son", "York", "7")]
    frame, linker = pd.concat([pd.DataFrame(rows, columns=PEOPLE.columns), PEOPLE]), arbo.Linker()
    grown = as_refit(linker.add(linker.discover(frame[1:], **HOW), frame[:1]))
    as_refit(linker.remove(grown, grown.link_table["mention_id"].to_pylist()[-1:]))


@pytest.mark.parametrize("how", [{}, {"name": "name", "evidence": ["city"]}])
def test_growth_scores_only_pairs_with_new_neighbours(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.array(["kelp", "tern", "moor", "reed", "wren", "lark", "sedge", "heron", "alder", "birch"])
    frame = pd.DataFrame({"name": [f"{words[i % 10]} {words[i // 10 % 10]}{i}" for i in range(300)], "city": "Oslo"})
    scored, features = list[int](), NameTable.features
    monkeypatch.setattr(NameTable, "features", lambda own, *of: scored.append(len(of[0])) or features(own, *of))
    rows = [some if how else some["name"] for some in (frame, pd.DataFrame([{"name": "otter", "city": "Rome"}]))]
    linker = arbo.Linker()
    run = linker.discover(rows[0], **how)
    n_all = sum(scored)
    scored.clear()
    grown = linker.add(run, rows[1])
    assert sum(scored) < n_all / 4
    again, arrays = linker.refit(grown).arrays(), grown.arrays()
    assert {name: np.array_equal(array, again[name]) for name, array in arrays.items()} == dict.fromkeys(arrays, True)


def test_runs_of_a_table_take_corrections_documents_and_no_more_than_they_know() -> None:
    linker = arbo.Linker()
    run = linker.discover(PEOPLE, **HOW)
    split = linker.add(run, corrections=[{"different": ["35", "36"]}])
    assert split.cluster_of("35") != split.cluster_of("36")
    mention = {"id": "d", "text": "Ann Smith", "mentions": [{"spans": [[0, 9]]}]}
    assert len(linker.add(run, [mention]).links) == len(PEOPLE) + 1
    few = linker.remove(run, [str(i) for i in range(len(PEOPLE)) if i != 35])
    assert len(few.links) == 1
    assert len(linker.discover(PEOPLE[:1], **HOW).links) == 1
    assert together(linker.discover(iter(PEOPLE.to_dict("records")), **HOW)) == together(run)
    renamed = PEOPLE.rename(columns={"name": "text"})  # a word that has a meaning in documents
    assert together(linker.discover(renamed, name="text", evidence=["city", "code"])) == together(run)
    assert together(linker.discover(PEOPLE.assign(text="a note"), **HOW)) == together(run)
    with pytest.raises(arbo.UsageError, match="other settings"):
        arbo.Linker(config={"evidence": "city"}).add(linker.discover(["Ann Smith", "A. Smith"]), ["Ann Smyth"])


def test_the_command_line_says_the_same(run: Run, tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "people.csv", index_label="id")
    out = tmp_path / "run"
    done = run("discover", tmp_path / "people.csv", "--text-column", "name", "--evidence", "city,code", "--out", out)
    assert "city (text): equal" in done.err
    assert "code (code): equal" in done.err
    saved = arbo.Result.load(out)
    result = arbo.Linker().discover(PEOPLE, **HOW)
    assert together(saved) == together(result)
    assert "code: equal" in run("explain", out, "34").out
    PEOPLE[:1].to_csv(tmp_path / "more.csv", index_label="id")
    (tmp_path / "more.csv").write_text((tmp_path / "more.csv").read_text().replace("\n0,", "\n99,"))
    run("add", out, tmp_path / "more.csv", "--out", tmp_path / "grown")
    assert arbo.Result.load(tmp_path / "grown").cluster_of("99") == arbo.Result.load(tmp_path / "grown").cluster_of("0")


def test_a_review_of_a_table_asks_pairs_and_estimates_precision_and_recall(run: Run, tmp_path: Path) -> None:
    frame = pd.concat([PEOPLE, PEOPLE.assign(city="Bonn", code="9999")], ignore_index=True)
    result = arbo.Linker().discover(frame, **HOW)
    result.save(tmp_path / "run")
    sitting = Review(result, file := tmp_path / "answers.jsonl", set())
    for _ in range(sitting.total):
        question = sitting.present
        row, other = question.link.mention.id, question.choices[0].id
        right = int(row) % 37 % 20 == int(other) % 37 % 20
        sitting.answer(question.link, sitting.corrections(question.link, "candidate" if right else "different", other))
    assert sitting.present is None  # rows of equal names are questions of their own
    assert sitting.accept(result.link_of("0")).keys() == {"same"}
    assert all(0 <= low <= high <= 1 for low, high in sitting.rates.values())
    about = {question.choices[0].about.split(" · ")[1] for question in map(sitting.question, range(sitting.total))}
    assert "code: 7000 | 7000" in about
    done = run("review", tmp_path / "run", "--corrections", file, "--limit", 0)
    assert "the precision of the compared pairs, by all answers, is" in done.out
    (city, code) = json.loads(run("show", tmp_path / "run", "--limit", 1, "--json").out)["evidence"]
    assert len(city["levels"]) == len(city["m"]) == len(code["u"]) == 6


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_rates_by_drawn_pairs_hold_the_true_ones_whatever_the_calibration(power: float) -> None:
    held = 0
    for seed in range(50):
        draw = np.random.default_rng(seed)
        probability = draw.beta(0.4, 0.4, 4000)
        right, doubt = draw.random(4000) < probability**power, np.minimum(probability, 1 - probability) + 0.01
        priority = doubt / draw.random(4000)
        order, rows = np.argsort(-priority), np.arange(4000)
        sorted_by = probability[order] > 0.3, probability[order], doubt[order], priority[order]
        pairs, right = DrawnPairs(rows, rows + 4000, *sorted_by), right[order]
        rates = pairs.rates({frozenset((row, row + 4000)): bool(right[row]) for row in range(400)})
        among = right[pairs.together]
        truth = {"precision": among.mean(), "recall": among.sum() / right.sum()}
        held += sum(low <= truth[rate] <= high for rate, (low, high) in rates.items())
    assert held >= 95


def test_wrong_columns_are_refused() -> None:
    for evidence, words in (
        ("vat", "no row has a value in the column 'vat'; the columns are: city, code"),
        ("city,city", "evidence must name columns, each once"),
        ("empty", "no row has a value in the column 'empty'"),
    ):
        with pytest.raises(arbo.UsageError, match=words):
            arbo.Linker().discover(PEOPLE.assign(empty="-"), name="name", evidence=[evidence])
    with pytest.raises(arbo.UsageError, match="there is no column 'firm'; the columns are: name, city, code"):
        arbo.Linker().discover(PEOPLE, name="firm")
    with pytest.raises(arbo.UsageError, match="evidence needs a list of names"):
        arbo.Linker(config={"evidence": "city", "treat_as": "text"}).discover(PEOPLE, name="name")
    for config in ({"map_types": "Org=org"}, {"per_document": True}):
        with pytest.raises(arbo.UsageError, match="evidence for links"):
            arbo.Linker(PEOPLE.assign(id=[*map(str, PEOPLE.index)]), config=config).link(PEOPLE, evidence=["city"])


def test_a_row_is_one_with_at_most_one_entity_with_its_columns(tmp_path: Path, run: Run) -> None:
    kb = pd.DataFrame({"id": ["a1", "a2", "a3"], "name": ["Kelp & Blight Ltd", "Tern Optics", "J. Smith"]})
    kb = kb.assign(city=["Hull", "York", "Leeds"], phone=["0482 2201", "0904 1100", "0532 9931"])
    rows = pd.DataFrame(
        {"name": ["Kelp and Blight", "Stork Optics", "Kelp & Blight Ltd"], "city": ["Hull", "York", None]}
    )
    rows = rows.assign(phone=["0482-2201", "0904 5530", "0482 2201"])
    result = arbo.Linker(kb).link(rows, name="name", evidence=["city", "phone"])
    assert [link.entity for link in result.links] == ["a1", None, "a1"]
    assert "phone: equal" in str(result.explain("0"))
    assert [weights["column"] for weights in result.evidence] == ["city", "phone"]
    alone = arbo.Linker(kb).link(rows[:2], name="name", evidence=["city", "phone"])
    assert [link.entity for link in alone.links] == ["a1", None]
    turned = arbo.Linker(kb[::-1]).link(rows, name="name", evidence=["city", "phone"])
    assert turned.link_table["score"].equals(result.link_table["score"])
    grown = arbo.Linker(kb).add(result, pd.DataFrame({"name": ["Tern-Optics"], "city": ["York"], "id": ["c"]}))
    assert grown.link_of("c").entity == "a2"
    assert arbo.Linker(kb).refit(grown).link_table.equals(grown.link_table)
    later = arbo.Linker(pd.concat([kb[1:], kb[:1].assign(id="b1", name="Kelp Blight"), kb[2:].assign(id="b3")]))
    grown = later.add(grown, other_kb=True)  # whose lists of names are others
    assert later.refit(grown).link_table.equals(grown.link_table)
    for name, frame in (("kb", kb), ("rows", rows)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    how = ["--text-column", "name", "--kb", tmp_path / "kb.csv", "--set", "evidence=city,phone"]
    run("link", tmp_path / "rows.csv", *how, "--out", tmp_path / "run").ok()
    assert arbo.Result.load(tmp_path / "run").link_table.equals(result.link_table)

"""Which rows of a table are one entity."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from builders import python

import arbo
from arbo.resolving.features import Rows
from arbo.resolving.model import RowEdges, _of_one_type

pytest.importorskip("rapidfuzz")

HOLMES = "a consulting detective who lives in Baker Street"
TABLE = [
    ("SHERLOCK HOLMES", "person", HOLMES),
    ("Holmes, Sherlock", "person", f"{HOLMES} in London"),
    ("MYCROFT HOLMES", "person", "an official of the government"),
    ("World Health Organization", "organization", "an agency of the United Nations for public health"),
    ("WHO", "organization", "it declares emergencies of public health"),
    ("London", "geo", "the capital of England"),
    ("London", "organization", "a football club"),
    ("World War I", "event", "a war of many nations"),
    ("World War II", "event", "a war of many nations"),
    ("Li Wei", "person", "chief financial officer of a bank in Shanghai"),
    ("Li Wei", "person", "professor of botany at the University of Yunnan"),
]
ROWS = [{"title": name, "type": kind, "description": text} for name, kind, text in TABLE]
COLUMNS = "title", "type", "description"


def entities(found: arbo.Resolution) -> set[tuple[int, ...]]:
    return {merge.rows for merge in found.merges}


def test_rows_of_one_entity_are_merged_and_others_are_not() -> None:
    found = arbo.resolve(ROWS, *COLUMNS)
    assert entities(found) == {(0, 1), (3, 4)}
    assert repr(found) == "Resolution(11 rows, 9 entities)"


def test_the_frame_has_a_row_for_each_row_with_its_entity_and_the_reason() -> None:
    frame = arbo.resolve(ROWS, *COLUMNS).frame
    assert frame["canonical_row"].to_pylist() == [0, 0, 2, 3, 3, 5, 6, 7, 8, 9, 10]
    assert frame["canonical"][1].as_py() == "SHERLOCK HOLMES"
    assert frame["joined_by"].to_pylist()[:3] == [1, 0, None]
    assert "sorted_edits +" in frame["reason"][1].as_py()
    assert frame["reason"][2].as_py() is None
    assert frame["cluster"][0] == frame["cluster"][1] != frame["cluster"][2]


def test_an_explanation_names_the_rows_and_the_features() -> None:
    found = arbo.resolve(ROWS, *COLUMNS)
    told = found.explain(4)
    assert told.startswith('row 4 "WHO" is row 3 "World Health Organization":\n    most like row 3 ')
    assert "acronym +" in told
    assert 'row 3 "World Health Organization"' in found.explain(3)
    assert "is alone" in found.explain(5)
    with pytest.raises(arbo.UsageError, match="the rows are 0 to 10"):
        found.explain(11)


def test_types_keep_rows_apart_unless_they_are_not_asked_for() -> None:
    rows = [{"title": "London", "type": kind} for kind in ("geo", "organization")]
    assert entities(arbo.resolve(rows, "title", "type")) == set()
    assert entities(arbo.resolve(rows, "title")) == {(0, 1)}


def test_a_row_without_a_type_joins_one_type_only() -> None:
    rows = [{"title": "GOOGLE", "type": "organization"}, {"title": "Google", "type": None}]
    assert entities(arbo.resolve(rows, "title", "type")) == {(0, 1)}
    both = [*rows, {"title": "Google", "type": "geo"}]
    assert entities(arbo.resolve(both, "title", "type")) == {(0, 1)}


def test_an_untyped_row_counts_as_of_the_type_of_its_lightest_edge() -> None:
    import numpy as np

    types, first, second = np.array([1, 2, 0]), np.array([0, 1]), np.array([2, 2])
    kept = _of_one_type(types, 0, first, second, np.array([0.3, 0.2], np.float32))
    assert kept.tolist() == [False, True]
    assert _of_one_type(types, 0, first, second, np.array([0.6, 0.7], np.float32)).tolist() == [False, False]


@pytest.mark.parametrize("seed", range(3), ids=str)
def test_the_order_of_the_rows_changes_nothing(seed: int) -> None:
    order = list(range(len(ROWS)))
    random.Random(seed).shuffle(order)
    found = arbo.resolve([ROWS[row] for row in order], *COLUMNS)
    assert {tuple(sorted(order[row] for row in rows)) for rows in entities(found)} == {(0, 1), (3, 4)}


def test_added_rows_give_what_the_whole_table_gives() -> None:
    whole = arbo.resolve(ROWS, *COLUMNS)
    grown = arbo.resolve(ROWS[:1], *COLUMNS).add(ROWS[1:4]).add(ROWS[4:])
    assert grown.frame.equals(whole.frame)


def test_decisions_of_people_are_obeyed() -> None:
    lines = [{"different": ["0", "1"]}, {"same": ["5", "6"]}]
    assert entities(arbo.resolve(ROWS, *COLUMNS, corrections=lines)) == {(3, 4), (5, 6)}


def tables(folder: Path) -> dict[str, Any]:
    arrow = pa.Table.from_pylist(ROWS)
    pq.write_table(arrow, folder / "rows.parquet")
    pa.csv.write_csv(arrow, folder / "rows.csv")
    files = {"csv": folder / "rows.csv", "parquet": str(folder / "rows.parquet")}
    return {"arrow": arrow, "pandas": pd.DataFrame(ROWS, index=range(5, 16)), **files}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "csv", "parquet"])
def test_every_kind_of_table_gives_the_same(kind: str, tmp_path: Path) -> None:
    found = arbo.resolve(tables(tmp_path)[kind], *COLUMNS)
    assert found.frame.equals(arbo.resolve(ROWS, *COLUMNS).frame)


@pytest.mark.parametrize(
    ("table", "options", "told"),
    [
        (ROWS, {"name": "name"}, "there is no column 'name'; the columns are title, type, description"),
        (ROWS, {"type": "kind"}, "there is no column 'kind'"),
        ([{"title": "A"}, {"title": " "}], {}, "row 1: the row has no 'title'"),
        ([], {}, "the table has no rows"),
        (3, {}, "expected a frame, a list of dicts or a path, not int"),
        (["A"], {}, "expected rows with columns, not str"),
        (ROWS, {"threshold": 1.0}, "between 0 and 1"),
    ],
    ids=["name", "type", "blank", "empty", "number", "names", "threshold"],
)
def test_faults_are_told(table: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises((arbo.DataError, arbo.UsageError), match=told):
        arbo.resolve(table, **options)


def test_one_row_is_resolved_and_none_may_be_added() -> None:
    found = arbo.resolve([{"title": "A"}])
    assert found.merges == found.add([]).merges == ()


def test_features_are_the_same_in_either_order() -> None:
    import numpy as np

    found = arbo.resolve(ROWS, *COLUMNS)
    names = arbo.Corpus.of([row["title"] for row in ROWS])
    retrieval = found.linker.configured(edges=None).retrieve(names, k=4, discover=True)
    rows = Rows.of(retrieval.inputs)
    one, two = np.triu_indices(len(ROWS), 1)
    assert np.array_equal(rows.features(one, two), rows.features(two, one), equal_nan=True)
    assert np.isfinite(RowEdges.default().mentions.scores(rows.features(one, two))).all()


def test_no_pandas_is_needed() -> None:
    code = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
import arbo
print(arbo.resolve([{"title": "A"}, {"title": "a"}]).frame.num_rows)
"""
    assert python(code) == "2\n"


def test_rows_that_people_joined_are_explained() -> None:
    found = arbo.resolve(ROWS, *COLUMNS, corrections=[{"same": ["5", "6"]}])
    assert found.explain(6).startswith('row 6 "London" is row 5 "London":\n')
    assert found.frame["canonical_row"][6].as_py() == 5


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(arbo.MissingDependency, match=r"pip install 'arbo\[resolve\]'"):
        arbo.resolve(ROWS, *COLUMNS)

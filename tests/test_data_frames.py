"""What a frame or table keeps on its way in and out: the index, gold clusters and scores."""

from __future__ import annotations

import uuid
from pathlib import Path

import pandas as pd
import pytest

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention

TEXT = "Left and right kidney."
NAMES = ["Marsh fever", "kelp blight", "marsh fevers"]

INDEXES = {
    "named": pd.Index(["r7", "r3", "r5"], name="order"),
    "unnamed": pd.Index([7, 3, 5]),
    "repeated": pd.Index(["a", "a", "b"], name="order"),
    "of levels": pd.MultiIndex.from_tuples([("b", 2), ("b", 1), ("a", 2)], names=["shop", None]),
    "default": pd.RangeIndex(3),
    "with a missing label": pd.Index(["o1", "o2", None]),
    "numbers with a missing one": pd.Index([7, None, 2.5]),
    "of mixed types": pd.Index(["o1", 7, True]),
    "mixed, and one missing": pd.Index(["7", None, 7]),
    "of levels, and one missing": pd.MultiIndex.from_tuples(
        [("b", "x"), ("b", None), (7, "x")], names=["a", "entity_id"]
    ),
    "of long numbers": pd.Index([2**63 + 1, 7, 2**64 - 1]),
    "named like a column of the result": pd.Index(["x", "y", "z"], name="entity_id"),
    "named like a field": pd.Index(["x", "y", "z"], name="mention_id"),
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


def test_the_documented_cast_joins_labels_that_come_back_as_text() -> None:
    for label in (uuid.UUID(int=7), pd.Timestamp("2026-11-22"), pd.Timedelta("1D"), pd.Interval(0, 1), ("a", 1)):
        frame = pd.DataFrame({"name": NAMES[:1]}, index=pd.Index([label], tupleize_cols=False))
        cast = frame.set_axis(frame.index.map(str))
        found = [arbo.Linker().discover(given["name"]).to_pandas() for given in (frame, cast)]
        assert isinstance(found[0].index[0], str)
        assert cast.join(found[1]["cluster_id"])["cluster_id"].notna().all()


def test_a_key_called_index_is_no_index() -> None:
    documents = [{"id": "d", "text": "flu", "mentions": [{"spans": [[0, 3]], "index": 7}]}]
    frame = arbo.Linker().discover(documents).to_pandas()
    assert (frame.index.tolist(), frame["index"].tolist()) == ([0], [7])


@pytest.mark.parametrize("clusters", [("c1", None, "c1"), (None, None, None)])
@pytest.mark.parametrize("scores", [(0.5, None, 1.0), (None, None, None)])
def test_no_table_loses_a_cluster_or_a_score(
    clusters: tuple[str | None, ...], scores: tuple[float | None, ...], tmp_path: Path
) -> None:
    own = enumerate(zip(clusters, scores, strict=True))
    mentions = tuple(Mention(f"m{n}", "d1", ((0, 4),), "Left", score=s, cluster=c) for n, (c, s) in own)
    bare = Document("d2", TEXT, metadata={"score": 7, "cluster": "k"})
    corpus = Corpus([Document("d1", TEXT, mentions), bare])
    frame = corpus.to_pandas()
    assert ("cluster" in Corpus(corpus[:1]).to_pandas()) == any(clusters)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    files = [arbo.read_documents(tmp_path / f"rows.{kind}") for kind in ("csv", "parquet")]
    for again in (Corpus.of(frame), *files):
        assert again == corpus
        assert [mention.score for mention in again.mentions] == list(scores)
        assert again[1].metadata.keys() - {"index"} == bare.metadata.keys()

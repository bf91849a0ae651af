"""Rows of frames and data sets as documents and entities."""

import json
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from builders import drawn_documents
from hypothesis import given, settings

import arbo
from arbo.data.documents import Document, Entity, Mention
from arbo.errors import DataError, UsageError

TEXT, LEFT = "Left and right kidney.", {"start": 0, "end": 4}
DOCUMENTS, KB = arbo.load_sample()


def document_rows(documents: arbo.Corpus = DOCUMENTS) -> list[dict[str, Any]]:
    return [{"id": one.id, "text": one.text, "mentions": [*map(fields_of, one.mentions)]} for one in documents]


def fields_of(mention: Mention) -> dict[str, Any]:
    gold = None if mention.gold is None else list(mention.gold)
    return {"id": mention.id, "spans": [*map(list, mention.spans)], "type": mention.type, "entities": gold}


def flattened(documents: arbo.Corpus) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one in documents:
        same = {"document_id": one.id, "text": one.text}
        own = ((m, {"start": m.start, "end": m.end, "mention_id": m.id}) for m in one.mentions)
        rows += [same | row | {key: fields_of(m)[key] for key in ("type", "entities")} for m, row in own] or [same]
    return rows


def contiguous(documents: arbo.Corpus) -> arbo.Corpus:
    return arbo.Corpus(Document(d.id, d.text, tuple(m for m in d.mentions if len(m.spans) == 1)) for d in documents)


def entity_rows(kb: arbo.KnowledgeBase = KB) -> list[dict[str, Any]]:
    columns = [column.name for column in fields(Entity) if column.compare]
    return [json.loads(json.dumps({key: getattr(entity, key) for key in columns})) for entity in kb]


TABLES = {
    "dicts": list,
    "a generator": iter,
    "pandas": pd.DataFrame,
    "pandas of numpy": lambda rows: pa.Table.from_pylist(rows).to_pandas(),
    "pandas of Arrow": lambda rows: pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "Arrow": pa.Table.from_pylist,
    "datasets": datasets.Dataset.from_list,
    "datasets of numpy": lambda rows: datasets.Dataset.from_list(rows).with_format("numpy"),
    "a stream of datasets": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_every_table_gives_the_same_documents_and_entities(make: Any) -> None:
    assert arbo.Corpus.of(make(document_rows())) == DOCUMENTS
    assert arbo.Corpus.of(make(flattened(expected := contiguous(DOCUMENTS)))) == expected
    assert arbo.KnowledgeBase.of(make(entity_rows())) == KB
    day = pd.Timestamp("2024-05-01")
    (document,) = arbo.Corpus.of(make([{"id": "d1", "text": TEXT, "year": 2024, "day": day, "sources": ["a"]}]))
    assert (document.metadata["year"], document.metadata["sources"]) == (2024, ["a"])
    assert str(document.metadata["day"]).startswith("2024-05-01")
    (entity,) = arbo.KnowledgeBase.of(make([{"id": "D1", "name": "flu", "parents": ["D0"], "note": None}]))
    assert entity.metadata == {"parents": ["D0"]}
    kb = arbo.KnowledgeBase.of(make([{"id": "D1", "name": "flu", "parents": 7}, {"id": "D2", "name": "cold"}]))
    assert [kb.parents("D1")[0][:1], kb.parents("D2"), kb.parents("D3")] == ["7", [], []]
    (mention,) = arbo.Corpus.of(make([{"document_id": "d1", "text": TEXT, "start": 0, "end": 4, "rank": 1.5}])).mentions
    assert mention.metadata["rank"] == 1.5


def test_what_is_a_corpus_stays_itself_and_a_polars_frame_is_read_by_its_rows() -> None:
    assert arbo.Corpus.of(DOCUMENTS) is DOCUMENTS
    assert arbo.KnowledgeBase.of(KB) is KB
    assert (arbo.Corpus.of(list(DOCUMENTS)), arbo.KnowledgeBase.of(iter(KB))) == (DOCUMENTS, KB)
    assert len(arbo.Corpus.of([])) == len(arbo.KnowledgeBase.of([])) == len(arbo.Corpus.of(pd.DataFrame())) == 0
    frame = SimpleNamespace(columns=("id", "text"), to_dict=None, to_dicts=lambda: [{"id": "d1", "text": TEXT}])
    assert arbo.Corpus.of(frame) == arbo.Corpus([Document("d1", TEXT)])


@pytest.mark.parametrize("empty", [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_an_empty_cell_is_a_key_left_out(empty: object) -> None:
    row = {"id": "D1", "name": "flu", "aliases": empty, "definition": empty, "types": empty, "xrefs": empty}
    frame = pd.DataFrame([row, {"id": "D2", "name": "cold", "aliases": ["common cold"], "definition": "A cold."}])
    for table in (frame, frame.to_dict("records")):
        cold = Entity("D2", "cold", ("common cold",), "A cold.")
        assert list(arbo.KnowledgeBase.of(table)) == [Entity("D1", "flu"), cold]
    mention = {"id": empty, "spans": np.array([[0, 4]]), "type": empty, "entities": empty}
    corpus = arbo.Corpus.of([{"id": np.str_("d1"), "text": TEXT, "mentions": np.array([mention])}])
    assert corpus.mentions == (Mention("d1:0-4", "d1", ((0, 4),), "Left"),)
    assert {type(value) for value in (corpus[0].id, *corpus.mentions[0].spans[0])} == {str, int}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": "d2"}, "row 1, 'd2': a document needs the key 'text'"),
        ({"id": float("nan"), "text": "x"}, "row 1: the cell 'id' is empty"),
        ({"id": np.int64(7), "text": "x"}, "row 1: 'id' must be a string, not a number; write it in quotes"),
        ({"id": "d2", "text": b"x"}, "row 1, 'd2': 'text' of a document must be a string .*, not 'bytes'"),
        ({"id": "d2", "text": pd.Timestamp(0)}, "row 1, 'd2': 'text' .*, not 'Timestamp'"),
        ({"id": "d2", "text": "x", "mentions": [{"spans": [[0.0, 1.0]]}]}, "row 1, 'd2': a span must be a pair of int"),
        ({"id": "d1", "text": "x"}, r"row 1, 'd1': this id is already taken, with different content \(row 0\)"),
        (["d2", "x"], "row 1: expected a dict, like the first row, not list"),
        (Document("d2", "x"), "row 1: expected a dict, like the first row, not Document"),
        ({"id": "D2", "name": "cold", "aliases": [np.nan]}, "row 1, 'D2': 'aliases' of an entity must be a list of st"),
        ({"id": "d1", "name": "cold"}, r"row 1, 'd1': this id is already taken, with different content \(row 0\)"),
    ],
)
def test_a_malformed_row_is_named_by_row_and_id(row: Any, problem: str) -> None:
    read: Any = arbo.KnowledgeBase.of if isinstance(row, dict) and "name" in row else arbo.Corpus.of
    with pytest.raises(DataError, match=f"^{problem}"):
        read([{"id": "d1", "text": TEXT, "name": "flu"}, row])


def test_rows_of_a_frame_keep_their_index_and_may_be_equal_but_not_its_columns() -> None:
    rows = [{"document_id": f"d{n % 2}", "text": TEXT, "start": 0, "end": n + 1} for n in range(4)]
    frame = pd.DataFrame(rows, index=[7, 5, 3, 1])
    mentions = arbo.Corpus.of(frame).mentions
    assert [mention.metadata for mention in mentions] == [{"index": 7}, {"index": 3}, {"index": 5}, {"index": 1}]
    assert [mention.metadata["index"] for mention in arbo.Corpus.of(pd.DataFrame(rows)).mentions] == [0, 2, 1, 3]
    named = pd.DataFrame({"text": ["a"], "year": [7]}, index=pd.Index(["d1"], name="id"))
    assert [(document.id, document.metadata) for document in arbo.Corpus.of(named)] == [("d1", {"year": 7})]
    assert arbo.Corpus.of(named.reset_index())[0].metadata == {"year": 7}
    row = {"document_id": "d1", "text": TEXT}
    (document,) = arbo.Corpus.of([{**row, "year": 7}, {**row, "start": 0, "end": 4, "by": "ann"}])
    assert (document.metadata, document.mentions[0].metadata) == ({"year": 7}, {"by": "ann"})
    assert arbo.Corpus.of([{"id": "d1", "text": TEXT}] * 2).notes == {"duplicate documents dropped": 1}
    assert arbo.KnowledgeBase.of([{"id": "D1", "name": "flu"}] * 3).notes == {"duplicate entities dropped": 2}
    frame = pd.DataFrame([["d1", TEXT, "x"]], columns=["id", "text", "text"])
    with pytest.raises(DataError, match="the frame has several columns named 'text'; rename or drop all but one"):
        arbo.Corpus.of(frame)


@pytest.mark.parametrize("table", ["docs.csv", b"x", None, {"id": "d1"}, DOCUMENTS[0]])
def test_what_holds_no_rows_is_refused(table: Any) -> None:
    kind, mend = type(table).__name__, r"read files with arbo\.read_{}, put a single item into a list, or choose"
    with pytest.raises(UsageError, match=f"expected documents, not {kind}; {mend.format('documents')}"):
        arbo.Corpus.of(table)
    with pytest.raises(UsageError, match=f"expected entities, not {kind}; {mend.format('knowledge_base')}"):
        arbo.KnowledgeBase.of(table)


@pytest.mark.parametrize("items", [["a"], [("d1", TEXT)], pd.Series(["a"]), np.array([1])])
def test_items_that_are_no_rows_are_refused(items: Any) -> None:
    if not isinstance(items[0], str):
        with pytest.raises(UsageError, match=r"expected documents, not .*; make them from dicts with Corpus\.of"):
            arbo.Corpus.of(items)
    with pytest.raises(UsageError, match=r"expected entities, not .*; make them from dicts with KnowledgeBase\.of"):
        arbo.KnowledgeBase.of(items)


def flat(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"document_id": "d1", "text": TEXT, **row} for row in rows])


def test_gold_of_a_row_is_one_id_several_nil_or_nothing() -> None:
    for column, cells, golds in (
        ("entity", ["D1", None, "D1| D2"], [("D1",), None, ("D1", "D2")]),
        ("entities", [["D1", "D2"], [], None], [("D1", "D2"), (), None]),
    ):
        rows = flat(*({**LEFT, column: cell} for cell in cells))
        assert [mention.gold for mention in arbo.Corpus.of(rows).mentions] == golds


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"start": 0}, "'d1': a mention needs 'start' and 'end'; required columns: document_id, text, start, end"),
        ({"end": 4}, "'d1': a mention needs 'start' and 'end'"),
        ({"entity": "D1"}, "'d1': a mention needs 'start' and 'end'"),
        ({"mention_id": "m2"}, "'m2': a mention needs 'start' and 'end'"),
        (LEFT | {"entity": "D1", "entities": ["D1"]}, "'d1': gold ids are in both"),
        (LEFT | {"entity": 5}, "'d1': 'entity' must be a string, not a number; write it in quotes, or convert"),
        (LEFT | {"entity": " "}, "'d1:0-4#2': an item of the gold ids is empty"),
        (LEFT | {"mention_id": "m2", "type": 5}, "'m2': 'type' of a row of mentions must be a string"),
        (LEFT | {"mention_id": "m1"}, "'m1': document 'd1' has two mentions with this id"),
        ({"start": 0.5, "end": 4}, "'d1': 'start' of a row of mentions must be a whole number, not 0.5"),
        ({"start": "0", "end": 4}, "'d1': 'start' of a row of mentions must be a whole number, not a string"),
        ({"start": float("inf"), "end": 4}, "'d1': 'start' of a row of mentions must be a whole number, not Infinity"),
        ({"start": 0, "end": 99}, "'d1:0-99': a span ends at 99, but document 'd1' has 22 characters"),
        (LEFT | {"text": "Right"}, "'d1': the 'text' differs from that in row 0 for the same document; 'text' is"),
        (LEFT | {"document_id": "d2", "text": None}, "'d2': the first row of a document needs its 'text'"),
        ({"start": 1, "end": 5, "mention_text": "Left"}, "'d1:1-5': .* 'Left', but .* 'eft '; .* found at 0 to 4"),
        (LEFT | {"document_id": 17}, "'document_id' must be a string, not a number; write it in quotes"),
        (LEFT | {"document_id": None}, "the cell 'document_id' is empty; fill it, or drop the row"),
        (LEFT | {"mention_id": True}, "'mention_id' of a row of mentions must be .*, not true"),
    ],
)
def test_a_malformed_row_of_a_mention_is_named(row: dict[str, Any], problem: str) -> None:
    first = [{"start": 9, "end": 21, "mention_id": "m1"}, LEFT]
    rows = [{"document_id": "d1", "text": TEXT, **values} for values in (*first, row)]
    with pytest.raises(DataError, match=rf"^row 2(, |: ){problem}"):
        arbo.Corpus.of(rows)


def mended(frame: pd.DataFrame, read: Any, column: str) -> Any:
    """Do to a column what the error says, and read again."""
    with pytest.raises(DataError, match=f"'{column}' must be a string, not ") as caught:
        read(frame)
    code = str(caught.value)[str(caught.value).index("frame[") :]
    return read(frame.assign(**{column: eval(code, {"frame": frame})}))


@pytest.mark.parametrize("dtype", [int, "Int64", float])
def test_numbers_as_ids_are_mended_as_the_error_says(dtype: Any) -> None:
    ids = {"mention_id": "m1", "entity": "D1", "cluster": "c1"}
    rows, number = flat({"start": 0, "end": 4, **ids}), pd.Series([4811], dtype=dtype)
    for column in ("document_id", *ids):
        (mention,) = mended(rows.assign(**{column: number}), arbo.Corpus.of, column).mentions
        found = [mention.document_id, mention.id, *mention.gold, mention.cluster]
        assert found == [*({"document_id": "d1"} | ids | {column: "4811"}).values()]
    assert mended(pd.DataFrame({"id": number, "text": "x"}), arbo.Corpus.of, "id")[0].id == "4811"
    assert mended(pd.DataFrame({"id": number, "name": "x"}), arbo.KnowledgeBase.of, "id").entities[0].id == "4811"


def test_empty_cells_among_ids_and_columns_of_neither_kind_are_named() -> None:
    mentions = flat(*({"start": 0, "end": end} for end in (4, 8, 9)))
    for names, row in ((["d1", None, "d1"], 1), (["d1", "d1", np.nan], 2), ([np.nan, "d1", "d1"], 0)):
        with pytest.raises(DataError, match=f"^row {row}: the cell 'document_id' is empty; .*fill it, or drop the row"):
            arbo.Corpus.of(mentions.assign(document_id=names))
    with pytest.raises(DataError, match=r"^row 1: the cell 'document_id' is empty"):
        mended(mentions.assign(document_id=[1.0, np.nan, 1.0]), arbo.Corpus.of, "document_id")
    gold = mended(mentions.assign(entity=[7.0, np.nan, 8.0]), arbo.Corpus.of, "entity").mentions
    assert [mention.gold for mention in gold] == [("7",), None, ("8",)]
    with pytest.raises(DataError, match=r"^row 1: a row of mentions needs the key 'document_id'"):
        arbo.Corpus.of([{"document_id": "d1", "text": TEXT}, {"text": TEXT}])
    frame = pd.DataFrame([{"doc": "d1", "text": TEXT, "begin": 0, "end": 4}])
    with pytest.raises(DataError, match=r"rows of documents \(id, .*\) or of mentions \(.*\), not doc, text, begin,"):
        arbo.Corpus.of(frame)
    with pytest.raises(DataError, match="not rows without columns"):
        arbo.Corpus.of([{}])


@given(drawn_documents(most_spans=1))
@settings(deadline=None, max_examples=60)
def test_any_documents_come_back_from_rows_and_frames(written: tuple[Document, ...]) -> None:
    corpus = arbo.Corpus(written)
    for rows in (document_rows(corpus), flattened(corpus)):
        assert (arbo.Corpus.of(rows), arbo.Corpus.of(pd.DataFrame(rows))) == (corpus, corpus)


@pytest.mark.parametrize("some", [((0.5, "c1"), (None, None), (1.0, "c1")), ((0.5, None),), ((None, "c"),), ()])
def test_no_table_loses_a_cluster_or_a_score(some: tuple[tuple[float | None, str | None], ...], tmp_path: Path) -> None:
    own = enumerate((*some, (None, None)))
    mentions = tuple(Mention(f"m{n}", "d1", ((0, 4),), "Left", score=s, cluster=c) for n, (s, c) in own)
    bare = Document("d2", TEXT, metadata={"score": 7, "cluster": "k"})
    corpus = arbo.Corpus([Document("d1", TEXT, mentions), bare])
    rows = [{**LEFT, "mention_id": one.id, "score": one.score, "cluster": one.cluster} for one in mentions]
    frame = flat(*rows, {"document_id": "d2", **bare.metadata})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    files = [arbo.read_documents(tmp_path / f"rows.{kind}") for kind in ("csv", "parquet")]
    for again in (arbo.Corpus.of(frame), *files):
        assert (again, [mention.score for mention in again.mentions]) == (corpus, [*(score for score, _ in some), None])
        assert again[1].metadata.keys() - {"index"} == bare.metadata.keys()

"""Runs whose hashes are right, but whose tables, manifest or kept arrays are damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import edit_json, linker
from test_results_run_folder import replace_table, result, run

import arbo

__all__ = ["result", "run"]  # fixtures


@pytest.mark.parametrize(
    ("name", "column", "values", "wrong"),
    [
        ("links", "parent_is_mention", pa.array(["no", "no"]), "the column parent_is_mention holds string, not flag"),
        ("links", "score", pa.array([None, None]), "the column score holds null, not number"),
        ("links", "score", pa.array([float("nan"), None]), "the column score has values that are no numbers"),
        ("links", "candidates", pa.array([["E1", None], ["E1"]]), "the column candidates has empty values"),
        ("mentions", "mention_id", pa.array(["m-0", "m-0"]), r"an id stands in it twice \(mention_id\)"),
        ("mentions", "text", pa.array(["marsh fever", None]), "the column text has empty values"),
        ("mentions", "text", pa.array(["a", "b"]).dictionary_encode(), "the column text holds dictionary"),
        ("mentions", "document_id", pa.array(["m", "n"]), "it names a document that is missing"),
        ("mentions", "spans", [[(0, 11)], [(12, 99)]], "it has spans that are empty or outside of their text"),
        ("mentions", "spans", [[(0, 11)], [(15, 12)]], "it has spans that are empty or outside of their text"),
        ("mentions", "spans", [[(0, 11)], []], "it has spans that are empty or outside of their text"),
        ("mentions", "metadata", pa.array(["{", "{}"]), "the metadata are not a JSON object"),
        ("clusters", "size", pa.array([1, 7]), "its sizes are not those of the clusters in links.parquet"),
        ("clusters", "cluster_id", pa.array(["E1", "E1"]), "an id stands in it twice"),
    ],
)
def test_a_column_that_is_damaged(run: Path, name: str, column: str, values: Any, wrong: str) -> None:
    """Though its hash is right; what is not JSON is only seen when it is read."""
    table = pq.read_table(run / f"{name}.parquet")
    if isinstance(values, list):
        pairs = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
        values = pa.array([[dict(zip(("start", "end"), span, strict=True)) for span in own] for own in values], pairs)
    if column in table.column_names:
        table = table.set_column(table.column_names.index(column), column, values)
    else:
        table = table.append_column(column, values)
    replace_table(run, name, table)
    with pytest.raises(arbo.DataError, match=wrong):
        arbo.Result.load(run).export(run.parent / "out.tsv", "tsv")


def test_a_column_that_is_there_twice(run: Path) -> None:
    table = pq.read_table(run / "mentions.parquet")
    replace_table(run, "mentions", table.append_column("text", table["text"]))
    with pytest.raises(arbo.DataError, match="the table has two columns of one name"):
        arbo.Result.load(run)


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("config", {"method": 3, "k": 4}, "'method' of config must be a string"),
        ("config", {"method": "minimax", "k": -1}, "'k' of config must be a whole number from 0, not a number"),
        ("knowledge_base", {"entities": "2", "fingerprint": ""}, "'entities' of knowledge_base must be a whole number"),
        ("threshold", {"entity": "0.3", "mention": 0.2}, "'entity' of threshold must be a finite number"),
        ("notes", {"documents": 3}, "'documents' of notes must be an object or a list"),
        ("giants", [{"cluster": "E1"}], "a giant needs the key 'mentions'"),
        ("warnings", [3], "'warnings' of the manifest must be a list of strings"),
        ("kb_source", {"path": 3}, "'path' of kb_source must be a string"),
        ("kb_source", {"xrefs": "MSH"}, "'xrefs' of kb_source must be a list of strings"),
        ("encoder", [], "encoder must be a JSON object, not this list"),
        ("notes", {"gold": {}}, "notes needs the key 'documents'"),
    ],
)
def test_a_value_of_the_manifest_that_is_of_another_kind(run: Path, key: str, value: object, wrong: str) -> None:
    edit_json(run / "manifest.json", **{key: value})
    with pytest.raises(arbo.DataError, match=rf"manifest\.json: {wrong}.*; run the job again"):
        arbo.Result.load(run)


@pytest.mark.parametrize(
    ("name", "array", "wrong"),
    [
        ("mentions", np.zeros((2, 4)), "the array mentions is of float64"),
        ("mentions", np.zeros((3, 4), np.int32), "the array mentions has the shape"),
        ("mentions", np.full((2, 1), 2, np.int32), "the array mentions has numbers that are out of range"),
        ("entities", np.full((2, 2), -2, np.int32), "the array entities has numbers that are out of range"),
        ("mention_dissimilarity", np.full((2, 1), np.nan), "the array mention_dissimilarity is of"),
        ("graph.source", np.zeros(1, np.int32), "the arrays lack graph.entities, graph.target, graph.weight"),
        ("kb.ids", np.zeros(7, np.uint64), "the array kb.ids has the shape"),
        ("encoder.words_slots", np.zeros(1024, np.int32), "the table of words is damaged"),
        ("encoder.words_start", np.full(4, 10**9), "the table of words is damaged"),
        ("encoder.word_count", np.array(["x"]), "the counts of words or n-grams are damaged"),
    ],
)
def test_kept_arrays_that_do_not_fit(run: Path, name: str, array: Any, wrong: str) -> None:
    with np.load(run / "growth.npz") as stored:
        arrays = {**stored, name: array}
    np.savez(run / "growth.npz", **arrays)
    files = json.loads((run / "manifest.json").read_text("utf-8"))["files"]
    digest = hashlib.sha256((run / "growth.npz").read_bytes()).hexdigest()
    edit_json(run / "manifest.json", files=files | {"growth.npz": digest})
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kelp blight")])
    with pytest.raises(arbo.DataError, match=wrong):
        linker(kb).refit(arbo.Result.load(run))

"""Vectors made elsewhere: each mention and entity finds its own, and what is wrong with them is said by id."""

from typing import Any

import numpy as np
import pytest

import arbo
from arbo.errors import DataError

MENTIONS = (arbo.Mention("m1", "d", ((0, 3),), "one"), arbo.Mention("m2", "d", ((4, 7),), "two"))
DOCUMENTS = [arbo.Document("d", "one two", MENTIONS)]
KB = arbo.KnowledgeBase([arbo.Entity("E1", "x"), arbo.Entity("E2", "y")])
VECTORS: dict[str, Any] = {"m1": [1.0, 0.0], "m2": [0.0, 1.0]}
ENTITIES: dict[str, Any] = {"E1": [0.1, 1.0], "E2": [[-1.0, 0.0], [1.0, 0.2]]}


def linked(encoder: arbo.VectorEncoder, **config: Any) -> list[str | None]:
    result = arbo.Linker(KB, encoder, arbo.LinkerConfig(**config)).link(DOCUMENTS)
    return [link.entity for link in result.links]


def test_an_entity_is_as_near_as_its_nearest_vector() -> None:
    assert linked(arbo.VectorEncoder(VECTORS, ENTITIES)) == ["E2", "E1"]


def test_inner_products_see_lengths() -> None:
    longer = ENTITIES | {"E1": [0.5, 9.0]}
    assert linked(arbo.VectorEncoder(VECTORS, longer), entity_threshold=None) == ["E2", "E1"]
    dot = arbo.VectorEncoder(VECTORS, longer | {"E1": [9.0, 9.0]}, metric="dot")
    assert linked(dot, entity_threshold=None) == ["E1", "E1"]
    assert dot.threshold == (0, 0)


def test_thresholds() -> None:
    assert arbo.VectorEncoder(VECTORS).threshold == (0.35, 0.2)
    strict = arbo.VectorEncoder(VECTORS, ENTITIES, limits=(np.float32(0.0), 0))
    assert linked(strict) == [None, None]
    assert linked(arbo.VectorEncoder(VECTORS, ENTITIES, limits=(0.01, 0.0))) == [None, "E1"]


def test_discovery_needs_no_entities() -> None:
    encoder = arbo.VectorEncoder(VECTORS | {"m2": [1.0, 0.001]})
    assert len(arbo.Linker(None, encoder).discover(DOCUMENTS).clusters) == 1
    assert len(arbo.Linker(None, arbo.VectorEncoder(VECTORS)).discover(DOCUMENTS).clusters) == 2


@pytest.mark.parametrize(
    "kind", [np.float16, np.float64, np.int64, list, lambda rows: np.asfortranarray(np.array(rows, np.float32))]
)
def test_numbers_of_any_kind(kind: Any) -> None:
    def convert(given: Any) -> Any:
        return given if kind is list else kind(given)

    encoder = arbo.VectorEncoder(
        {id_: convert(given) for id_, given in VECTORS.items()},
        {"E1": convert([0, 1]), "E2": convert([[-1, 0], [1, 0]])},
    )
    assert linked(encoder) == ["E2", "E1"]
    assert (
        encoder.settings["entities"]
        == arbo.VectorEncoder({}, {"E2": [[-1, 0], [1, 0]], "E1": [0, 1]}).settings["entities"]
    )


def test_a_matrix_has_a_row_for_each_mention_and_each_entity() -> None:
    by_id = {"E1": [0.1, 1.0], "E2": [1.0, 0.2]}
    for mentions in (VECTORS, np.eye(2), np.eye(2).tolist()):
        for entities in (by_id, np.array(list(by_id.values()))):
            encoder = arbo.VectorEncoder(mentions, entities)
            assert linked(encoder) == ["E2", "E1"]
            assert encoder.dim == 2
    one, other = arbo.VectorEncoder(np.eye(2)), arbo.VectorEncoder(2 * np.eye(2))
    assert one.settings["mentions"] == arbo.VectorEncoder(np.eye(2)).settings["mentions"] != other.settings["mentions"]


@pytest.mark.parametrize(
    ("mentions", "entities", "problem"),
    [
        *((VECTORS | {"m2": vector}, ENTITIES, f"^{problem}") for vector, problem in (
            (None, r"'m2': the mention has object of the shape \(\); expected numbers of the shape \(2,\)$"),
            ([1.0], r"'m2': the mention has float64 of the shape \(1,\)"),
            ([[0, 1], [1, 0]], r"'m2': the mention has int64 of the shape \(2, 2\)"),
            ([[1, 2], [3]], r"'m2': the mention has object of the shape \(\)"),
            (["a", "b"], r"'m2': the mention has <U1 of the shape \(2,\)"),
            ([True, False], r"'m2': the mention has bool of the shape \(2,\)"),
            ([0, np.nan], "the mention vectors: NaN"),
            ([0, 1e300], "the mention vectors: NaN"),
        )),
        *((VECTORS, ENTITIES | {"E2": matrix}, f"^{problem}") for matrix, problem in (
            (np.empty((0, 2)), r"'E2': the entity has float64 of the shape \(0, 2\); .* or \(vectors, 2\)$"),
            (np.zeros((1, 1, 2)), r"'E2': the entity has float64 of the shape \(1, 1, 2\)"),
            ([[0, 1], [0, np.nan]], "the entity vectors: NaN"),
        )),
        (np.ones((3, 2)), ENTITIES, r"mention vectors has the shape \(3, 2\), not \(2, 2\): give one row for each men"),
        (np.eye(2), np.eye(3), r"entity vectors has the shape \(3, 3\), not \(2, 2\): give one row for each entity"),
        (np.eye(2) * 1e-60, ENTITIES, "mention vectors: .* too small for float32 in 2 row.*: 0, 1"),
        (np.ma.masked_array(np.eye(2), [[0, 1], [0, 0]]), ENTITIES, "array of numbers, not masked"),
        (np.eye(2) * np.nan, ENTITIES, "mention vectors: NaN, infinity or .* row.*: 0, 1"),
        (np.eye(2).astype(object), ENTITIES, "mention vectors: .* numbers, not object"),
        ("abc", ENTITIES, "give one row for each mention, in order, or a dict of vectors by mention id"),
        ({"m1": [1, 0]}, ENTITIES, "no vector for 1 of 2 mention ids, the first of them 'm2'"),
        (VECTORS, {}, "no vector for 2 of 2 entity ids, the first of them 'E1'"),
    ],
)  # fmt: skip
def test_vectors_that_do_not_fit(mentions: Any, entities: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        linked(arbo.VectorEncoder(mentions, entities))

"""What every encoder promises: shapes, no vector by chance, order or company, the same after saving; given vectors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import document, dual_encoder, kb_of, projecting
from scipy.sparse import issparse

import arbo
from arbo.data import MentionInput
from arbo.encoders.encoder import Encoder
from arbo.encoders.tower import Tower
from arbo.engine import Vectors

FEVER = arbo.Entity("E1", "marsh fever", ("swamp fever", "Fever of the marsh"), "A fever of patients in the marsh.")
KB = kb_of(FEVER, arbo.Entity("E2", "left kidney"), arbo.Entity("E3", "Kidney cancer", ("left kidney",)))
ODD = ["", " ", "\u200b", "😀", "e\u0301", "[SEP] [START]", "腎臓", "x" * 5000, "fever " * 3000]
NAMES = ["marsh fever", "Kidney", "kidney", "cancer of the left kidney", "xqz", "marsh fever", *ODD]
POOLINGS = ("cls", "mean", "mention")


def inputs(names: list[str] = NAMES) -> list[MentionInput]:
    """Mentions of these names, each in a document of its own."""
    made = []
    for i, name in enumerate(names):
        mention = arbo.Mention(f"m{i}", "d", ((16, 16 + len(name or "-")),), name)
        made.append(MentionInput(name, mention, arbo.Document("d", f"the patients of {name or '-'} in the marsh")))
    return made


def given_vectors() -> arbo.VectorEncoder:
    rng = np.random.default_rng(0)
    mentions = {f"m{i}": rng.random(5) for i in range(len(NAMES))} | {f"d-{i}": rng.random(5) for i in range(9)}
    return arbo.VectorEncoder(mentions, {"E1": rng.random((3, 5)), "E2": rng.random(5), "E3": rng.random((2, 5))})


MAKE: dict[str, Callable[[Tower, Tower], Any]] = {
    "ngram": lambda *_: arbo.NgramEncoder(),
    "ngram of other sizes": lambda *_: arbo.NgramEncoder(sizes=(2, 5), decay=0.5, alias_weight=0.3),
    "vectors": lambda *_: given_vectors(),
    **{f"bert, {how}": lambda bert, _, how=how: dual_encoder(bert, pooling=how, max_length=40) for how in POOLINGS},
    "bert in context": lambda bert, _: dual_encoder(bert, arbo.EncoderConfig.in_context(max_length=40)),
    "bert of a template without markers": lambda bert, _: dual_encoder(bert, mention="{mention}", max_length=128),
    "roberta": lambda _, roberta: dual_encoder(roberta, max_length=128),
    "two towers, projected": lambda bert, roberta: arbo.DualEncoder(
        projecting(bert, 7), projecting(roberta, 7), arbo.EncoderConfig(max_length=30)
    ),
}


@pytest.fixture(scope="module", params=MAKE)
def encoder(request: pytest.FixtureRequest, bert: Tower, roberta: Tower) -> Encoder:
    """Each kind of encoder, fitted once."""
    made: Encoder = MAKE[request.param](bert, roberta).fit(KB.names().names)
    return made


def by_owner(embedded: Any) -> list[np.ndarray]:
    """The dense vectors of each mention or entity, in order; (vectors, dim) each."""
    matrix = embedded.matrix.toarray() if issparse(embedded.matrix) else embedded.matrix
    return [matrix[embedded.row[embedded.owner == i]] for i in range(embedded.n)]


def test_shapes_types_and_one_vector_of_equal_inputs(encoder: Encoder) -> None:
    mentions, entities = encoder.encode_mentions(inputs()), encoder.encode_entities(KB)
    for embedded, n in ((mentions, len(NAMES)), (entities, 3)):
        assert isinstance(embedded, Vectors)
        assert embedded.n == len(embedded) == n
        assert (embedded.matrix.dtype, {embedded.row.dtype, embedded.owner.dtype}) == (np.float32, {np.dtype(np.int32)})
        assert np.array_equal(np.unique(embedded.owner), np.arange(n))
        assert all(np.isfinite(vectors).all() for vectors in by_owner(embedded))
    assert mentions.owner.tolist() == list(range(len(NAMES)))
    assert type(mentions) is type(entities)
    assert mentions.matrix.shape[1] == entities.matrix.shape[1]
    if not isinstance(encoder, arbo.VectorEncoder):  # whose vectors are looked up by id
        first, again = (by_owner(encoder.encode_mentions(inputs()))[at] for at in (0, 5))
        assert np.array_equal(first, again)
        assert encoder.encode_mentions(inputs(["fever"] * 9)).row.tolist() == [0] * 9


def test_the_order_of_inputs_changes_no_bit_and_their_number_nothing_but_rounding(encoder: Encoder) -> None:
    given, whole = inputs(), by_owner(encoder.encode_mentions(inputs()))
    back = by_owner(encoder.encode_mentions(given[::-1]))[::-1]
    for one, other in zip(whole, back, strict=True):
        assert np.array_equal(one, other)
    for at in (0, 3, len(NAMES) - 1):
        (alone,) = by_owner(encoder.encode_mentions(given[at : at + 1]))
        np.testing.assert_allclose(alone, whole[at], atol=0 if isinstance(encoder, arbo.NgramEncoder) else 1e-5)
    turned = by_owner(encoder.encode_entities(arbo.KnowledgeBase(KB.entities[::-1])))[::-1]
    for one, other in zip(by_owner(encoder.encode_entities(KB)), turned, strict=True):
        assert np.array_equal(one, other)


def test_no_inputs_progress_and_settings(encoder: Encoder) -> None:
    assert len(encoder.encode_mentions([])) == len(encoder.encode_entities(arbo.KnowledgeBase())) == 0
    assert len(arbo.Linker(arbo.KnowledgeBase(), encoder).link([arbo.Document("d", "nothing")]).links) == 0
    steps: list[str] = []

    def announce(what: str) -> Any:
        steps.append(what)
        return lambda items, total: items

    encoder.encode_entities(KB, announce)
    assert all("entities" in step for step in steps)
    assert bool(steps) is isinstance(encoder, arbo.DualEncoder)
    assert encoder.metric in ("cosine", "dot")
    assert np.isfinite(encoder.threshold).all()
    assert json.loads(json.dumps(encoder.settings)).keys() == encoder.settings.keys()


def test_settings_identify_an_encoder(bert: Tower, roberta: Tower) -> None:
    """Encoders that give other vectors have other settings; the same encoder has the same."""
    settings = [json.dumps(make(bert, roberta).settings) for make in MAKE.values()]
    assert len(set(settings)) == len(MAKE)
    assert settings == [json.dumps(make(bert, roberta).settings) for make in MAKE.values()]


def test_an_index_keeps_the_vectors_of_entities(encoder: Encoder, tmp_path: Path) -> None:
    documents = [document("d", "kidney", "marsh fevers", "fever of the left kidney")]
    blank = arbo.NgramEncoder(encoder.sizes) if isinstance(encoder, arbo.NgramEncoder) else encoder
    index = arbo.build_index(KB, tmp_path / "index", encoder=blank)
    one, other = (arbo.Linker(base, blank).link(documents) for base in (KB, index))
    assert one.link_table.equals(other.link_table)


TWO = (arbo.Mention("m1", "d", ((0, 3),), "one"), arbo.Mention("m2", "d", ((4, 7),), "two"))
DOCUMENTS = [arbo.Document("d", "one two", TWO)]
BASE = arbo.KnowledgeBase([arbo.Entity("E1", "x"), arbo.Entity("E2", "y")])
VECTORS: dict[str, Any] = {"m1": [1.0, 0.0], "m2": [0.0, 1.0]}
ENTITIES: dict[str, Any] = {"E1": [0.1, 1.0], "E2": [[-1.0, 0.0], [1.0, 0.2]]}


def linked(encoder: arbo.VectorEncoder, **config: Any) -> list[str | None]:
    result = arbo.Linker(BASE, encoder, arbo.LinkerConfig(**config)).link(DOCUMENTS)
    return [link.entity for link in result.links]


def test_an_entity_is_as_near_as_its_nearest_vector_within_thresholds() -> None:
    assert linked(arbo.VectorEncoder(VECTORS, ENTITIES)) == ["E2", "E1"]
    longer = ENTITIES | {"E1": [0.5, 9.0]}
    assert linked(arbo.VectorEncoder(VECTORS, longer), entity_threshold=None) == ["E2", "E1"]
    dot = arbo.VectorEncoder(VECTORS, longer | {"E1": [9.0, 9.0]}, metric="dot")
    assert (linked(dot, entity_threshold=None), dot.threshold) == (["E1", "E1"], (0, 0))
    assert arbo.VectorEncoder(VECTORS).threshold == (0.35, 0.2)
    strict = arbo.VectorEncoder(VECTORS, ENTITIES, limits=(np.float32(0.0), 0))
    assert linked(strict) == [None, None]
    assert linked(arbo.VectorEncoder(VECTORS, ENTITIES, limits=(0.01, 0.0))) == [None, "E1"]
    for encoder, n in ((arbo.VectorEncoder(VECTORS | {"m2": [1.0, 0.001]}), 1), (arbo.VectorEncoder(VECTORS), 2)):
        assert len(arbo.Linker(None, encoder).discover(DOCUMENTS).clusters) == n


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int64, list, lambda rows: np.array(rows, "f4", order="F")])
def test_numbers_of_any_kind(kind: Any) -> None:
    entities = {"E1": kind([0, 1]), "E2": kind([[-1, 0], [1, 0]])}
    encoder = arbo.VectorEncoder({id_: kind(given) for id_, given in VECTORS.items()}, entities)
    assert linked(encoder) == ["E2", "E1"]
    other = arbo.VectorEncoder({}, {"E2": [[-1, 0], [1, 0]], "E1": [0, 1]})
    assert encoder.settings["entities"] == other.settings["entities"]


def test_a_matrix_has_a_row_for_each_mention_and_each_entity() -> None:
    by_id = {"E1": [0.1, 1.0], "E2": [1.0, 0.2]}
    for mentions in (VECTORS, np.eye(2), np.eye(2).tolist()):
        for entities in (by_id, np.array(list(by_id.values()))):
            encoder = arbo.VectorEncoder(mentions, entities)
            assert (linked(encoder), encoder.dim) == (["E2", "E1"], 2)
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
    with pytest.raises(arbo.DataError, match=problem):
        linked(arbo.VectorEncoder(mentions, entities))

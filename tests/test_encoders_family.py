"""What every encoder promises: shapes and types, no vector by chance, order or company, the same after saving."""

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
from arbo.encoders.index import build_index
from arbo.encoders.tower import Tower
from arbo.engine import Vectors

KB = kb_of(
    arbo.Entity("E1", "marsh fever", ("swamp fever", "Fever of the marsh"), "A fever of patients in the marsh."),
    arbo.Entity("E2", "left kidney"),
    arbo.Entity("E3", "Kidney cancer", ("left kidney",)),
)
ODD = ["", " ", "\u200b", "😀", "e\u0301", "[SEP] [START]", "腎臓", "x" * 5000, "fever " * 3000]
NAMES = ["marsh fever", "Kidney", "kidney", "cancer of the left kidney", "xqz", "marsh fever", *ODD]
POOLINGS = ("cls", "mean", "mention")


def inputs(names: list[str] = NAMES) -> list[MentionInput]:
    """Mentions of these names, each in a document of its own."""
    documents = [f"the patients of {name or '-'} in the marsh" for name in names]
    spans = [((16, 16 + len(name or "-")),) for name in names]
    own = [arbo.Mention(f"m{i}", "d", span, name) for i, (span, name) in enumerate(zip(spans, names, strict=True))]
    return [
        MentionInput(name, mention, arbo.Document("d", text))
        for name, mention, text in zip(names, own, documents, strict=True)
    ]


def given_vectors() -> arbo.VectorEncoder:
    rng = np.random.default_rng(0)
    mentions = {f"m{i}": rng.random(5) for i in range(len(NAMES))} | {f"d:{i}": rng.random(5) for i in range(9)}
    return arbo.VectorEncoder(mentions, {"E1": rng.random((3, 5)), "E2": rng.random(5), "E3": rng.random((2, 5))})


MAKE: dict[str, Callable[[Tower, Tower], Any]] = {
    "ngram": lambda *_: arbo.NgramEncoder(),
    "ngram of other sizes": lambda *_: arbo.NgramEncoder(sizes=(2, 5), decay=0.5, alias_weight=0.3),
    "vectors": lambda *_: given_vectors(),
    **{
        f"bert, {name}": lambda bert, _, name=name: dual_encoder(bert, pooling=name, max_length=40) for name in POOLINGS
    },
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


def test_shapes_and_types(encoder: Encoder) -> None:
    mentions, entities = encoder.encode_mentions(inputs()), encoder.encode_entities(KB)
    for embedded, n in ((mentions, len(NAMES)), (entities, 3)):
        assert isinstance(embedded, Vectors)
        assert embedded.n == len(embedded) == n
        assert embedded.matrix.dtype == np.float32
        assert {embedded.row.dtype, embedded.owner.dtype} == {np.dtype(np.int32)}
        assert np.array_equal(np.unique(embedded.owner), np.arange(n))
        assert all(np.isfinite(vectors).all() for vectors in by_owner(embedded))
    assert mentions.owner.tolist() == list(range(len(NAMES)))
    assert type(mentions) is type(entities)
    assert mentions.matrix.shape[1] == entities.matrix.shape[1]


def test_equal_inputs_have_one_vector(encoder: Encoder) -> None:
    if isinstance(encoder, arbo.VectorEncoder):
        pytest.skip("vectors are looked up by id")
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


def test_nothing_to_encode(encoder: Encoder) -> None:
    assert len(encoder.encode_mentions([])) == len(encoder.encode_entities(arbo.KnowledgeBase())) == 0
    assert len(arbo.Linker(arbo.KnowledgeBase(), encoder).link([arbo.Document("d", "nothing")]).links) == 0


def test_progress_is_announced(encoder: Encoder) -> None:
    steps: list[str] = []

    def announce(what: str) -> Any:
        steps.append(what)
        return lambda items, total: items

    encoder.encode_entities(KB, announce)
    assert all("entities" in step for step in steps)
    assert bool(steps) is isinstance(encoder, arbo.DualEncoder)


def test_thresholds_are_finite_and_settings_are_json(encoder: Encoder) -> None:
    assert encoder.metric in ("cosine", "dot")
    assert np.isfinite(encoder.threshold).all()
    assert json.loads(json.dumps(encoder.settings)).keys() == encoder.settings.keys()


def test_settings_identify_an_encoder(bert: Tower, roberta: Tower) -> None:
    """Encoders that give other vectors have other settings; the same encoder has the same."""
    settings = [json.dumps(make(bert, roberta).settings) for make in MAKE.values()]
    assert len(set(settings)) == len(MAKE)
    assert settings == [json.dumps(make(bert, roberta).settings) for make in MAKE.values()]


def test_an_index_keeps_the_vectors_of_entities(encoder: Encoder, tmp_path: Path) -> None:
    if isinstance(encoder, arbo.VectorEncoder):
        documents = [arbo.Document("d", "ab", (arbo.Mention("d:0", "d", ((0, 1),), "a"),))]
    else:
        documents = [document("d", "kidney", "marsh fevers", "fever of the left kidney")]
    blank = arbo.NgramEncoder(encoder.sizes) if isinstance(encoder, arbo.NgramEncoder) else encoder
    index = build_index(KB, tmp_path / "index", encoder=blank)
    one, other = (arbo.Linker(base, blank).link(documents) for base in (KB, index))
    assert one.link_table.equals(other.link_table)

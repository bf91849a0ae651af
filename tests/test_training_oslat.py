"""OSLAT from end to end: its linking head, trainings that are interrupted or learn, and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import arbo
from arbo.errors import DataError, UsageError
from arbo.progress import quiet
from arbo.spans.config import LabelAttentionConfig
from arbo.training.config import LabelAttentionTraining, LinkingHeadConfig, SelfAlignmentConfig
from arbo.training.presets import OSLAT, SELF_ALIGNMENT

torch = pytest.importorskip("torch")

from test_training_contrastive import DOCUMENTS, KB, QUICK, READS, document  # noqa: E402
from test_training_loop import Killed, log_of, weights, without_dropout  # noqa: E402

from arbo.encoders.tower import Tower  # noqa: E402
from arbo.spans.finding import PairFinder  # noqa: E402
from arbo.spans.label_attention import name_scores  # noqa: E402
from arbo.spans.model import LabelAttention  # noqa: E402
from arbo.spans.pieces import Pairs  # noqa: E402
from arbo.spans.preselection import preselect  # noqa: E402
from arbo.text.sentences import passages, whole  # noqa: E402
from arbo.training.annotated_texts import AnnotatedTexts  # noqa: E402
from arbo.training.encoded_texts import Encoded  # noqa: E402
from arbo.training.linking_head import (  # noqa: E402
    Decisions,
    LinkingHead,
    LinkingHeadTrainer,
    best_names,
    decisions,
    train_linking_head,
    with_tuned_threshold,
)
from arbo.training.loop import accelerator_of  # noqa: E402
from arbo.training.oslat import train_oslat  # noqa: E402
from arbo.training.self_alignment import train_self_alignment  # noqa: E402

HEAD = LinkingHeadConfig(epochs=2, batch_size=4, n_negatives=5, learning_rate=1e-2)

FILLERS = ["the", "of", "in", "and"]


# The linking head


def test_the_best_decision() -> None:
    score = np.array([0.1, 0.9, 0.4, 0.8, 0.2], np.float32)
    assert Decisions(score, np.array([False, True, True, False, False])).f1 == pytest.approx(0.8)
    assert Decisions(score, np.ones(5, np.bool_)).f1 == 1


def test_a_names_loss_is_that_of_the_best_of_its_entity() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.3, -0.5, 0.2], [-1.0, -2.0, 7.0, 0.0, 0.5]], requires_grad=True)
    owners = torch.tensor([[3, 3, 0, 2, 0], [5, 5, -1, 4, -1]])
    best, share = best_names(scores, owners)
    there = owners >= 0
    torch.testing.assert_close(best[there], torch.tensor([0.9, 0.9, 0.3, -0.5, 0.3, -1.0, -1.0, 0.0]))
    assert share[there].tolist() == [0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 1]
    (best * share * there).sum().backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0, 1, 1, 1, 0], [1, 0, 0, 1, 0]]


def test_how_heads_begin() -> None:
    said, names = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    comparison, linear = (LinkingHead.of(8, kind, torch.device("cpu")).linear for kind in ("comparison", "linear"))
    torch.testing.assert_close(name_scores(comparison, said, names), name_scores(None, said, names))
    assert not name_scores(linear, said, names).any()
    with torch.autocast("cpu", torch.bfloat16):
        assert name_scores(comparison, said, names.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(("kind", "even"), [("comparison", 0.5), ("linear", 0.0)])
def test_a_head_is_trained_without_development_texts(bert: Tower, tmp_path: Path, kind: Any, even: float) -> None:
    start = LabelAttention.of(bert, replace(READS, entity_threshold=0.9))
    trained = train_linking_head(start, DOCUMENTS, KB, out=tmp_path / "out", config=replace(HEAD, kind=kind))
    assert trained.threshold == even
    assert trained.head is not None
    assert trained.head.out_features == (1 if kind == "linear" else 64)


@pytest.mark.parametrize("kind", ["comparison", "linear"])
def test_the_loss_of_a_head_is_that_of_its_definition(bert: Tower, tmp_path: Path, kind: Any) -> None:
    config = replace(HEAD, kind=kind, batch_size=3, micro_batch=2)
    data = Encoded.of(LabelAttention.of(bert, READS), AnnotatedTexts.of(DOCUMENTS, KB))
    head = LinkingHead.of(64, kind, torch.device("cpu"))
    torch.manual_seed(2)
    torch.nn.init.normal_(head.linear.weight, std=0.3)
    trainer = LinkingHeadTrainer(
        head, data, None, config, tmp_path, accelerator_of(config), quiet, 1, None, lambda figures: None
    )
    linear = deepcopy(head.linear).double().requires_grad_(False)
    texts = np.array([0, 1, 3])
    batch = trainer.batch(0, texts, np.arange(3))
    loss = trainer.add_gradients(0, batch, 1 / 3)
    expected = []
    for text, names, there in zip(texts.tolist(), batch.name, batch.is_there, strict=True):
        scores: dict[int, list[float]] = {}
        tokens = data.tokens[text].double()
        for name in names[names >= 0].tolist():
            vector = data.names[name].double()
            said = torch.softmax(tokens @ vector, dim=0) @ tokens
            if kind == "linear":
                logit = float(linear(said))
            else:
                logit = 10 * (float(torch.cosine_similarity(linear(said), linear(vector), dim=0)) - 0.5)
            scores.setdefault(int(data.data.synonyms.owner[name]), []).append(logit)
        right = set(data.data.synonyms.owner[names[there & (names >= 0)]].tolist())
        judged = [
            (1 / (1 + np.exp(-logit)), entity in right)
            for entity, own in scores.items()
            for logit in (own if kind == "linear" else [max(own)])
        ]
        losses = [-0.25 * (1 - p) ** 2 * np.log(p) if yes else -0.75 * p**2 * np.log(1 - p) for p, yes in judged]
        expected.append(np.mean(losses))
    assert loss == pytest.approx(np.mean(expected), rel=1e-5)
    assert trainer.encoder.linear.weight.grad is not None
    assert trainer.encoder.linear.weight.grad.any()


def test_the_threshold_is_chosen_on_what_a_finder_asks(bert: Tower) -> None:
    torch.manual_seed(1)
    model = LabelAttention.of(bert, READS).with_head(torch.nn.Linear(64, 1))
    tuned = with_tuned_threshold(model, DOCUMENTS, KB, split=passages)
    finder = PairFinder(model, 0.0)
    asked = preselect(DOCUMENTS, KB, finder.candidates)
    score = model.score([piece.text for piece in asked.pieces.corpus], KB, asked.text, asked.entity)
    gold = Pairs.of(asked.pieces.corpus, KB)
    pairs = set(zip(gold.text.tolist(), gold.entity.tolist(), strict=True))

    def f1(threshold: float) -> float:
        said = score >= threshold
        right = pairs & set(zip(asked.text[said].tolist(), asked.entity[said].tolist(), strict=True))
        return 2 * len(right) / (int(said.sum()) + len(pairs))

    assert f1(tuned.threshold) == max(map(f1, score))
    assert finder.tuned(DOCUMENTS, KB).threshold == tuned.threshold
    with pytest.raises(UsageError, match="no text is annotated"):
        finder.tuned([document("d", "fever", ["E9"])], KB)


@pytest.mark.parametrize("dim", [1, 4])
def test_the_head_sees_what_the_model_scores(bert: Tower, dim: int) -> None:
    torch.manual_seed(1)
    model = LabelAttention.of(bert, READS).with_head(linear := torch.nn.Linear(64, dim))
    data = AnnotatedTexts.of(DOCUMENTS, KB)
    found = decisions(linear, Encoded.of(model, data), replace(HEAD, n_negatives=50))
    text, entity = np.repeat([0, 1, 2, 3, 5], 6), np.tile(np.arange(6), 5)
    gold = {(int(t), int(e)) for t, e in zip(data.text, data.entity, strict=True)}
    scores = model.score(data.texts, KB, text, entity)
    asked = [
        (score, (t, e) in gold)
        for score, t, e in zip(scores, text.tolist(), entity.tolist(), strict=True)
        if (t, e) in gold or not {name.lower() for name in (KB.entities[e].name, *KB.entities[e].aliases)} & _right(t)
    ]
    # E0 and E1 share a name: where one is right the other is asked for by its other names.
    assert found.is_there.sum() == len(gold) == sum(is_there for _, is_there in asked)
    np.testing.assert_allclose(
        np.sort(found.score[found.is_there]), np.sort([s for s, there in asked if there]), atol=1e-5
    )
    assert set(np.round([s for s, there in asked if not there], 4)) <= set(np.round(found.score, 4))


def _right(text: int) -> set[str]:
    gold = {id_ for mention in DOCUMENTS[text].mentions for id_ in mention.gold or () if id_ in KB}
    return {name.lower() for id_ in gold for name in (KB[id_].name, *KB[id_].aliases)}


# From end to end


def test_documents_are_read_by_the_sentence(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []

    def first(model: LabelAttention, documents: arbo.Corpus, kb: arbo.KnowledgeBase, **given: Any) -> None:
        read.extend([document.text for document in corpus] for corpus in (documents, given["dev"]))
        raise Killed

    monkeypatch.setattr("arbo.training.oslat.train_label_attention", first)
    given_ = [document("d", "Marsh fever. The left kidney", ["E0"]), document("e", "cancer", ["E2"])]
    for split, cut in ((passages, ["Marsh fever.", "The left kidney", "cancer"]), (whole, [d.text for d in given_])):
        with pytest.raises(Killed):
            train_oslat(
                LabelAttention.of(bert, READS), given_, KB, out=tmp_path / split.__name__, dev=given_, split=split
            )
        assert read[-2:] == [cut, cut]


@pytest.mark.slow
def test_spans_are_not_looked_at(bert: Tower, tmp_path: Path) -> None:
    scrambled = [document(d.id, d.text, [m.gold[0] for m in d.mentions][::-1], 1) for d in DOCUMENTS]  # type: ignore[index]
    assert arbo.Corpus(scrambled).fingerprint != DOCUMENTS.fingerprint
    for place, documents in enumerate((DOCUMENTS, scrambled)):
        run = partial(train_oslat, LabelAttention.of(bert, READS), documents, KB, attention=QUICK, head=HEAD)
        run(out=tmp_path / str(place), dev=documents)
    assert log_of(tmp_path / "0") == log_of(tmp_path / "1")
    first, second = (tmp_path / f"{i}.attention.log.jsonl" for i in (0, 1))
    assert first.read_text() == second.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("dying_in", ["attention", "head"])
def test_an_interrupted_training_goes_on_with_the_same_losses(bert: Tower, tmp_path: Path, dying_in: str) -> None:
    def run(out: str, *, dies: bool = False) -> LabelAttention:
        begun = 0

        def announce(what: str) -> Any:
            nonlocal begun
            begun += what.startswith("training")
            stage = ("attention", "head")[begun - 1] if begun else None

            def show(items: Iterable[Any], total: int) -> Iterator[Any]:
                for done, item in enumerate(items):
                    if dies and what.startswith("training") and stage == dying_in and done == 1:
                        raise Killed
                    yield item

            return show

        return train_oslat(
            LabelAttention.of(bert, READS),
            DOCUMENTS,
            KB,
            out=tmp_path / out,
            dev=DOCUMENTS[:3],
            attention=replace(QUICK, epochs=2),
            head=HEAD,
            checkpoint_every=1,
            announce=announce,
        )

    trained = run("whole")
    with pytest.raises(Killed):
        run("parts", dies=True)
    again = run("parts")
    for log in ("log.jsonl", "attention.log.jsonl"):
        assert (tmp_path / f"parts.{log}").read_text() == (tmp_path / f"whole.{log}").read_text()
    assert all(map(torch.equal, weights(trained), weights(again)))  # type: ignore[arg-type]
    assert trained.config == again.config
    names = {"whole", "whole.log.jsonl", "whole.attention.log.jsonl"}
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("whole")} == names


@pytest.mark.slow
def test_self_alignment_goes_on_and_makes_an_encoder(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(epochs=3, batch_size=8, n_negatives=6, learning_rate=1e-3)
    start = arbo.DualEncoder(bert, bert, arbo.EncoderConfig(pooling="cls", entity_threshold=0.3))

    def dying(what: str) -> Any:
        def show(items: Iterable[Any], total: int) -> Iterator[Any]:
            for done, item in enumerate(items):
                if done == 3:
                    raise Killed
                yield item

        return show

    run = partial(train_self_alignment, start, KB, config=config, checkpoint_every=2)
    trained = run(out=tmp_path / "whole")
    with pytest.raises(Killed):
        run(out=tmp_path / "parts", announce=dying)
    again = run(out=tmp_path / "parts")
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert all(map(torch.equal, weights(trained), weights(again)))
    assert trained.config == arbo.EncoderConfig(pooling="cls")
    with pytest.raises(UsageError, match="another for mentions"):
        train_self_alignment(start.with_two_towers(), KB, out=tmp_path / "two")
    lonely = arbo.KnowledgeBase([arbo.Entity("E", "fever", aliases=("FEVER",)), arbo.Entity("F", "cancer")])
    with pytest.raises(DataError, match="none of 2 entities has two names that differ"):
        train_self_alignment(start, lonely, out=tmp_path / "lonely")


@pytest.mark.slow
def test_a_tiny_model_learns_where_to_look(bert: Tower, tmp_path: Path) -> None:
    """Names of an entity have no letter in common, each text has one of them, and nobody says which word it is."""
    names = [("fever", "marsh"), ("kidney", "left"), ("cancer", "syndrome"), ("patients", "disease")]
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", own[0], aliases=own[1:]) for i, own in enumerate(names)])
    rng, documents, words = np.random.default_rng(0), [], []
    for place in range(80):
        entities = rng.permutation(len(names))[:2].tolist()
        words.append({entity: names[entity][rng.integers(2)] for entity in entities})
        text = " ".join(rng.permutation([*words[-1].values(), *rng.choice(FILLERS, 4)]))
        documents.append(document(str(place), text, [f"E{entity}" for entity in entities]))
    tower = without_dropout(bert)
    encoder = arbo.DualEncoder(tower, tower, arbo.EncoderConfig())
    align = SelfAlignmentConfig(epochs=40, batch_size=8, n_negatives=6, learning_rate=1e-3)
    aligned = train_self_alignment(encoder, kb, out=tmp_path / "aligned", config=align)
    trained = train_oslat(
        LabelAttention.of(without_dropout(aligned.mention_tower), READS),
        documents[:50],
        kb,
        out=tmp_path / "out",
        dev=documents[50:60],
        attention=replace(QUICK, epochs=15, batch_size=16, n_negatives=8, learning_rate=5e-4),
        head=replace(HEAD, epochs=20, batch_size=8, learning_rate=0.01),
    )
    texts = [one.text for one in documents[60:]]
    text, entity = np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20)
    right = [words[60 + i].get(e) for i, e in zip(text.tolist(), entity.tolist(), strict=True)]

    def mass(model: LabelAttention) -> float:
        """Return the mean weight of the word that stands for the entity, where one does."""
        found = model.attention(texts, kb, text, entity)
        at = [texts[i].split().index(word) if word else -1 for i, word in zip(text.tolist(), right, strict=True)]
        return float(np.mean([found.weight[found.start[pair] + at[pair]] for pair in range(len(at)) if right[pair]]))

    assert mass(trained) > mass(LabelAttention.of(tower, READS)) + 0.2
    is_there = np.array([word is not None for word in right])
    assert ((trained.score(texts, kb, text, entity) >= trained.threshold) == is_there).mean() > 0.9
    spans = trained.spans(texts, kb, text, entity)
    found = [word in [texts[i][b:e] for b, e in own] for i, word, own in zip(text, right, spans, strict=True) if word]
    assert np.mean(found) > 0.75
    lines = [json.loads(line) for line in (tmp_path / "out.attention.log.jsonl").read_text().splitlines()]
    for log in (lines, log_of(tmp_path / "aligned")):
        assert log[-1]["loss"] < log[0]["loss"] / 4


# The command line


def test_the_presets_are_those_of_the_paper_but_for_the_warm_up() -> None:
    """Appendix B has a constant rate over the first tenth of the steps and an exponential decay from there on."""
    for training, epochs, rate, n in (
        (SELF_ALIGNMENT.training, 20, 2e-3, 50),
        (OSLAT.attention, 10, 2e-4, 100),
        (OSLAT.head, 10, 2e-4, 100),
    ):
        assert (training.epochs, training.learning_rate, training.n_negatives) == (epochs, rate, n)
        assert (training.batch_size, training.optimizer, training.schedule) == (32, "adam", "exponential")
        assert training.warmup == 0.1  # arbo's: the rate rises over the first tenth
    assert SELF_ALIGNMENT.training.temperature == OSLAT.attention.temperature == 0.07
    assert (OSLAT.head.alpha, OSLAT.head.gamma) == (0.25, 2.0)
    assert OSLAT.head.kind == "comparison"  # which is not the paper's
    with pytest.raises(UsageError, match="'fgsm' is not one of none"):
        LabelAttentionTraining(regulariser="fgsm")


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    assert run("demo", "--files", tmp_path).code == 0
    lines = (tmp_path / "documents.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(lines[:6]), "utf-8")
    (tmp_path / "reads.json").write_text('{"max_length": 64}', "utf-8")
    own = {"attention": {"n_negatives": 4, "batch_size": 4}, "head": {"n_negatives": 6, "gamma": 1}}
    (tmp_path / "own.json").write_text(json.dumps(own), "utf-8")
    return tmp_path


@pytest.mark.slow
def test_align_then_attend(folder: Path, bert_folder: Path, run: Run) -> None:
    docs = [folder / "train.jsonl", "--format", "jsonl"]
    kb = ["--kb", folder / "entities.jsonl", "--kb-format", "jsonl"]
    aligned, model = folder / "aligned", folder / "model"
    given_ = ["train", *kb, "--preset", "self-alignment", "--encoder", bert_folder, "--out", aligned]
    done = run(*given_, "--steps", 1, "--json")
    assert done.code == 0, done.err
    assert done.json["training"] == json.loads(json.dumps(replace(SELF_ALIGNMENT.training, steps=1).as_dict()))
    assert arbo.DualEncoder.from_pretrained(aligned).config == SELF_ALIGNMENT.encoder
    given_ = ["train", *docs, *kb, "--preset", "oslat", "--encoder", aligned, "--out", model, "--steps", 1]
    given_ += ["--config", folder / "own.json", "--encoder-config", folder / "reads.json", "--dev", docs[0]]
    done = run(*given_, "--json")
    assert done.code == 0, done.err
    assert "synonyms are" in done.told
    assert "F1" in done.told
    trained = LabelAttention.from_pretrained(model)
    assert trained.head is not None
    config = replace(LabelAttentionConfig(), pooling="cls", max_length=64, entity_threshold=trained.threshold)
    assert trained.config == config
    training = done.json["training"]
    assert (training["attention"]["n_negatives"], training["attention"]["steps"]) == (4, 1)
    assert (training["head"]["n_negatives"], training["head"]["gamma"], training["head"]["steps"]) == (6, 1, 1)
    found = run("spans", *docs, *kb, "--finder", model, "--json")
    assert found.code == 0, found.err
    assert found.json["documents"] == 6
    assert all(mention["score"] >= trained.threshold for mention in found.json["found"])
    linked = run("link", *docs, *kb, "--find-mentions", model, "--out", folder / "run", "--json")
    assert linked.code == 0, linked.err
    assert linked.json["mentions"] == found.json["mentions"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--preset", "oslat", "--loss", "bce", "--positives", "1nn"], "--positives, --loss: the preset oslat has no"),
        (["--preset", "oslat", "--two-towers"], "--two-towers or --one-tower: the preset oslat has no"),
        (["--preset", "self-alignment", "--dev", "x"], "--dev: the preset self-alignment has no"),
        (["--preset", "oslat", "--config", "own"], "unknown: batch"),
    ],
)
def test_what_means_nothing_is_refused(
    folder: Path, bert_folder: Path, run: Run, options: list[str], said: str
) -> None:
    (folder / "wrong.json").write_text('{"batch": {}}', "utf-8")
    given_ = [folder / "wrong.json" if option == "own" else option for option in options]
    docs = [folder / "train.jsonl", "--format", "jsonl"]
    kb = ["--kb", folder / "entities.jsonl", "--kb-format", "jsonl"]
    refused = run("train", *docs, *kb, *given_, "--encoder", bert_folder, "--out", folder / "model")
    assert refused.code in (2, 3)
    assert said in refused.told


def test_documents_are_left_out_for_names_alone(folder: Path, bert_folder: Path, run: Run) -> None:
    kb = [
        "--kb",
        folder / "entities.jsonl",
        "--kb-format",
        "jsonl",
        "--encoder",
        bert_folder,
        "--out",
        folder / "model",
    ]
    for preset in ([], ["--preset", "oslat"]):
        refused = run("train", *kb, *preset)
        assert refused.code == 2
        assert "DOCS is missing" in refused.told
    refused = run("train", folder / "train.jsonl", *kb, "--preset", "self-alignment")
    assert "DOCS and --format go together" in refused.told
    refused = run("train", *kb, "--preset", "self-alignment", "--types", "Vessel")
    assert "--types" in refused.told

"""The trainings of OSLAT: what is contrasted, the losses and their gradients, and trainings from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st

import arbo
from arbo.encoders.label_attention_config import LabelAttentionConfig
from arbo.errors import DataError, UsageError
from arbo.training.config import LabelAttentionTraining, LinkingHeadConfig, SelfAlignmentConfig
from arbo.training.names import Others, Synonyms
from arbo.training.presets import OSLAT, SELF_ALIGNMENT

torch = pytest.importorskip("torch")

from accelerate import Accelerator  # noqa: E402
from test_training_loop import Killed, gradients, log_of, weights, without_dropout  # noqa: E402

from arbo.encoders.tower import Tower  # noqa: E402
from arbo.progress import quiet  # noqa: E402
from arbo.spans.finding import PairFinder  # noqa: E402
from arbo.spans.model import LabelAttention  # noqa: E402
from arbo.spans.pieces import Pairs  # noqa: E402
from arbo.spans.preselection import preselect  # noqa: E402
from arbo.spans.splitting import passages  # noqa: E402
from arbo.training.annotated_texts import AnnotatedTexts  # noqa: E402
from arbo.training.contrastive import Contrast, contrastive_losses  # noqa: E402
from arbo.training.encoded_texts import Encoded  # noqa: E402
from arbo.training.label_attention import LabelAttentionTrainer, train_label_attention  # noqa: E402
from arbo.training.linking_head import Decisions, decisions, with_tuned_threshold  # noqa: E402
from arbo.training.loop import accelerator_of  # noqa: E402
from arbo.training.losses import focal_loss, multi_similarity, nt_xent  # noqa: E402
from arbo.training.oslat import train_oslat  # noqa: E402
from arbo.training.self_alignment import Aligning, NamesAlone, SelfAlignmentTrainer, train_self_alignment  # noqa: E402

READS = LabelAttentionConfig(max_length=64, max_name_length=16)
QUICK = LabelAttentionTraining(epochs=1, batch_size=4, n_negatives=5, n_positives=2, learning_rate=1e-3)
HEAD = LinkingHeadConfig(epochs=2, batch_size=4, n_negatives=5, learning_rate=1e-2)

KB = arbo.KnowledgeBase(
    [
        arbo.Entity("E0", "fever", aliases=("marsh", "Marsh")),
        arbo.Entity("E1", "kidney", aliases=("left kidney", "fever")),
        arbo.Entity("E2", "cancer", aliases=("syndrome", "cancer of the")),
        arbo.Entity("E3", "mention"),
        arbo.Entity("E4", "patients", aliases=("in patients", "the patients", "of patients", "and patients")),
        arbo.Entity("E5", "left", aliases=("of the left",)),
    ]
)
FILLERS = ["the", "of", "in", "and"]


def document(name: str, text: str, gold: Iterable[str], place: int = 0) -> arbo.Document:
    """Make a document whose mentions all stand on its first word, or on another one."""
    words = text.split()
    begin = len(" ".join(words[:place])) + (place > 0)
    span = (begin, begin + len(words[place]))
    mentions = (arbo.Mention(f"{name}-{e}", name, (span,), words[place], gold=(e,)) for e in gold)
    return arbo.Document(name, text, tuple(mentions))


DOCUMENTS = arbo.Corpus(
    [
        document("d0", "the fever of left kidney", ["E0", "E1"]),
        document("d1", "cancer in patients", ["E2", "E4", "nowhere"]),
        document("d2", "marsh and syndrome", ["E0", "E2"]),
        document("d3", "mention of the left", ["E3", "E5"]),
        document("d4", "the of", []),
        document("d5", "in patients", ["E4"]),
    ]
)


LONELY = document("d", "the marsh fever", ["E0"])


def trainer_of(model: LabelAttention, corpus: arbo.Corpus, folder: Path, **changes: Any) -> LabelAttentionTrainer:
    config, data = replace(QUICK, **changes), AnnotatedTexts.of(corpus, KB)
    accelerator = accelerator_of(config)
    it = LabelAttentionTrainer(model, data, None, config, folder, accelerator, quiet, 1, None, lambda figures: None)
    it.model.train()
    return it


# Losses


@pytest.mark.parametrize("n_positives", [0, 1, 3])
def test_each_positive_is_contrasted_with_all_negatives(n_positives: int) -> None:
    rng = np.random.default_rng(0)
    scores = 10 * rng.normal(size=(50, n_positives + 4))
    exists = rng.random(scores.shape) < 0.6
    exists[0, n_positives:] = False
    given_ = torch.from_numpy(scores).float().requires_grad_()
    losses = nt_xent(given_, torch.from_numpy(exists), n_positives)
    losses.sum().backward()
    assert given_.grad is not None
    assert torch.isfinite(given_.grad).all()
    assert not given_.grad[~torch.from_numpy(exists)].any()
    for row, there, loss in zip(scores, exists, losses.detach(), strict=True):
        rest = np.exp(row[n_positives:][there[n_positives:]]).sum()
        own = np.exp(row[:n_positives][there[:n_positives]])
        assert float(loss) == pytest.approx(np.mean(-np.log(own / (own + rest))) if len(own) else 0, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("n_positives", [0, 2])
def test_the_multi_similarity_loss(n_positives: int) -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(-1, 1, size=(50, n_positives + 4))
    exists = rng.random(scores.shape) < 0.6
    exists[0] = False
    given_ = torch.from_numpy(scores).float().requires_grad_()
    losses = multi_similarity(given_, torch.from_numpy(exists), n_positives)
    losses.sum().backward()
    assert given_.grad is not None
    assert torch.isfinite(given_.grad).all()
    assert not given_.grad[~torch.from_numpy(exists)].any()
    for row, there, loss in zip(scores, exists, losses.detach(), strict=True):
        near, far = row[:n_positives][there[:n_positives]], row[n_positives:][there[n_positives:]]
        expected = np.log1p(np.exp(-2 * (near - 0.5)).sum()) / 2 + np.log1p(np.exp(50 * (far - 0.5)).sum()) / 50
        assert float(loss) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_names_may_be_aligned_by_multi_similarity() -> None:
    vectors = torch.from_numpy(np.random.default_rng(2).normal(size=(1, 4, 5))).float()
    batch = Contrast(np.array([0]), np.array([[0, 1, 2, 3]]))
    cosine = torch.nn.functional.cosine_similarity(vectors[:, :1], vectors[:, 1:], dim=2)
    config = SelfAlignmentConfig(loss="multi-similarity", n_positives=1, n_negatives=2)
    expected = multi_similarity(cosine, torch.ones(1, 3, dtype=torch.bool), 1)
    torch.testing.assert_close(contrastive_losses(vectors, batch, config, "cosine"), expected)
    with pytest.raises(UsageError, match="loss 'margin' is not one of nt-xent, multi-similarity"):
        SelfAlignmentConfig(loss="margin")  # type: ignore[arg-type]


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.5, 0.0)])
def test_the_focal_loss(alpha: float, gamma: float) -> None:
    logits = np.array([-80.0, -3, -0.1, 0, 2, 50])
    for yes in (True, False):
        p = 1 / (1 + np.exp(-logits if yes else logits))
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = -(alpha if yes else 1 - alpha) * (1 - p) ** gamma * np.log(p)
        found = focal_loss(torch.tensor(logits).float(), torch.full((6,), yes), alpha, gamma)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-7)


# What is contrasted


KBS = st.lists(st.lists(st.sampled_from("aAbcdef"), min_size=1, max_size=4), min_size=1, max_size=6)


@given(sets=KBS, n=st.integers(1, 8), seed=st.integers(0, 99), avoided=st.lists(st.integers(0, 5), max_size=3))
def test_negatives_are_others_and_as_many_as_there_are(
    sets: list[list[str]], n: int, seed: int, avoided: list[int]
) -> None:
    kb = arbo.KnowledgeBase([arbo.Entity(str(i), own[0], aliases=tuple(own[1:])) for i, own in enumerate(sets)])
    synonyms, (names, _) = Synonyms.of(kb), kb.names()
    own = np.unique([i % len(sets) for i in avoided]).astype(int)
    drawn = Others.of(synonyms, np.arange(len(kb))).draw(
        [synonyms.spellings(own), synonyms.spellings(own[:1])], n, np.random.default_rng(seed)
    )
    for row, entities in zip(drawn, (own, own[:1]), strict=True):
        found = [names[synonyms.place[i]].lower() for i in row[row >= 0]]
        wrong = {name.lower() for entity in entities for name in sets[entity]}
        left = {name.lower() for own_ in sets for name in own_} - wrong
        assert len(found) == len(set(found)) == min(n, len(left))
        assert set(found) <= left


def test_an_entity_with_many_names_is_drawn_no_more_often() -> None:
    kb = arbo.KnowledgeBase([arbo.Entity("few", "x"), arbo.Entity("many", "a", aliases=tuple("bcdefgh"))])
    synonyms = Synonyms.of(kb)
    others, rng = Others.of(synonyms, np.arange(2)), np.random.default_rng(0)
    first = [synonyms.owner[others.draw([np.empty(0, np.int64)], 1, rng)[0, 0]] for _ in range(1000)]
    assert 450 < sum(first) < 550


def test_gold_is_never_among_the_negatives(bert: Tower, tmp_path: Path) -> None:
    it = trainer_of(LabelAttention.of(bert, READS), DOCUMENTS, tmp_path, n_negatives=50)
    names, data = KB.names(), it.data
    assert data.n_alone == 1
    for step in range(20):
        batch = it.batch(step, data.queries, np.arange(len(data.queries)))
        for query, row in zip(batch.query, batch.name, strict=True):
            own = [names.names[data.synonyms.place[i]] for i in row[: 1 + it.config.n_positives] if i >= 0]
            assert len({name.lower() for name in own}) == len(own) >= 2
            entity = KB.entities[data.entity[query]]
            assert set(own) <= {entity.name, *entity.aliases}
            others = {names.names[data.synonyms.place[i]].lower() for i in row[1 + it.config.n_positives :] if i >= 0}
            gold = {e for d in DOCUMENTS[int(data.text[query])].mentions for e in d.gold or () if e in KB}
            right = {name.lower() for e in gold for name in (KB[e].name, *KB[e].aliases)}
            every = {name.lower() for e in KB for name in (e.name, *e.aliases)}
            assert others == every - right


def test_one_name_is_drawn_towards_nothing(bert: Tower, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of 1 entities has two names"):
        train_label_attention(
            LabelAttention.of(bert, READS), [document("d", "mention", ["E3"])], KB, out=tmp_path / "out"
        )
    with pytest.raises(DataError, match="none of 1 texts has an entity"):
        AnnotatedTexts.of(arbo.Corpus([document("d", "mention", ["E9"])]), KB)


def test_one_entity_is_pushed_away_from_nothing(bert: Tower, tmp_path: Path) -> None:
    alone = arbo.KnowledgeBase([arbo.Entity("E0", "fever", aliases=("marsh",))])
    model, encoder = LabelAttention.of(bert, READS), arbo.DualEncoder(bert, bert, arbo.EncoderConfig())
    for kb in (alone, KB):  # of several the one in the documents, if these are given
        with pytest.raises(DataError, match="nothing to train on: names are pushed away from those of other entities"):
            train_label_attention(model, DOCUMENTS[2:3] if kb is alone else [LONELY], kb, out=tmp_path / "out")
        with pytest.raises(DataError, match="nothing to align: names are pushed away"):
            train_self_alignment(encoder, kb, documents=[LONELY], out=tmp_path / "out")
    with pytest.raises(DataError, match="nothing to choose the best model by"):
        train_label_attention(model, DOCUMENTS, KB, dev=[LONELY], out=tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_seen_entities_alone_are_aligned(bert: Tower, tmp_path: Path) -> None:
    seen = AnnotatedTexts.of(DOCUMENTS[:2], KB).entities
    data = NamesAlone(Synonyms.of(KB), seen)
    assert seen.tolist() == [0, 1, 2, 4]
    assert set(data.synonyms.owner[data.queries]) == {0, 1, 2, 4}
    assert set(data.synonyms.owner[Others.of(data.synonyms, seen).name]) <= set(seen)
    rows = data.anchors(data.queries, 2, np.random.default_rng(0))
    assert (rows[:, 0] == data.queries).all()
    for row in rows:
        own = row[row >= 0]
        assert len(set(own)) == len(own) >= 2
        assert len(set(data.synonyms.owner[own])) == 1


# A step


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"normalized": False, "micro_batch": 2, "temperature": 5.0}])
@pytest.mark.parametrize("reads", [READS, replace(READS, pooling="cls", scaled=True, max_length=6)])
def test_a_step_is_what_its_definition_says(
    bert: Tower, tmp_path: Path, changes: dict[str, Any], reads: LabelAttentionConfig
) -> None:
    """Loss and gradient in float64, one text and one name at a time, without any padding."""
    it = trainer_of(LabelAttention.of(without_dropout(bert), reads), DOCUMENTS, tmp_path, **changes)
    queries, config = it.data.queries, it.config
    batch = it.batch(0, queries, np.arange(len(queries)))
    loss = it.add_gradients(0, batch, 1 / len(queries))
    own = gradients(it)  # type: ignore[arg-type]
    exact = it.encoder.copy()
    exact.module.double()

    def hidden(ids: list[int]) -> Any:
        return exact.tower.model(input_ids=torch.tensor([ids])).last_hidden_state[0]

    def said(text: int, name: int) -> Any:
        (read,) = exact.reader([it.data.texts[text]])
        tokens = torch.cat([hidden(row.ids) for row in read.rows])[read.flat([len(row.ids) for row in read.rows])]
        (row,) = exact.names(KB).spell(exact.names(KB).row[it.data.synonyms.place[[name]]])
        vector = hidden(row.ids)[0] if reads.pooling == "cls" else hidden(row.ids).mean(dim=0)
        weight = torch.softmax(tokens @ vector / (64**0.5 if reads.scaled else 1), dim=0)
        found = weight @ tokens
        return found / found.norm() if config.normalized else found

    whole = torch.zeros((), dtype=torch.float64)
    for query, row in zip(batch.query, batch.name, strict=True):
        text, n = it.data.text[query], 1 + config.n_positives
        anchor = said(text, row[0])
        right = torch.stack([anchor @ said(text, name) for name in row[1:n] if name >= 0]) / config.temperature
        wrong = torch.stack([anchor @ said(text, name) for name in row[n:] if name >= 0]) / config.temperature
        each = [-torch.log_softmax(torch.cat([score[None], wrong]), dim=0)[0] for score in right]
        whole = whole + torch.stack(each).mean() / len(queries)
    whole.backward()
    expected = torch.cat([weight.grad.flatten() for weight in exact.module.parameters() if weight.grad is not None])
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert float((own.double() - expected).norm()) < 1e-3 * float(expected.norm())


@pytest.mark.slow
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_a_step() -> Any:
        model = LabelAttention.of(without_dropout(bert), READS)
        it = trainer_of(model, DOCUMENTS, tmp_path, micro_batch=2, clip=None)
        it.step(0, it.data.queries)
        return gradients(it)  # type: ignore[arg-type]

    whole = of_a_step()
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(Accelerator, "process_index", rank)
        shares.append(of_a_step())
    assert float((sum(shares) / 2 - whole).norm()) < 1e-3 * float(whole.norm())


@pytest.mark.slow
def test_self_alignment_contrasts_what_the_head_makes(bert: Tower, tmp_path: Path) -> None:
    config = SelfAlignmentConfig(batch_size=4, n_negatives=4, n_positives=2, micro_batch=3, projection=8)
    encoder = arbo.DualEncoder(tower := without_dropout(bert), tower, arbo.EncoderConfig(pooling="cls"))
    data = NamesAlone(Synonyms.of(KB), np.arange(len(KB)))
    aligning, accelerator = Aligning.of(encoder, 8, 0), accelerator_of(config)
    it = SelfAlignmentTrainer(
        aligning, data, None, config, tmp_path, accelerator, quiet, 1, None, lambda figures: None, KB
    )
    it.model.train()
    batch = it.batch(0, data.queries[:6], np.arange(6))
    loss = it.add_gradients(0, batch, 1 / 6)
    vectors = torch.from_numpy(encoder.encode_entities(KB).matrix)[encoder.encode_entities(KB).row]  # type: ignore[arg-type]
    with torch.no_grad():
        made = torch.nn.functional.normalize(aligning.head(vectors[data.synonyms.place]), dim=1).double()
    whole = 0.0
    for row in batch.name:
        right, wrong = ([name for name in part if name >= 0] for part in (row[1:3], row[3:]))
        rest = torch.exp(made[wrong] @ made[row[0]] / 0.07).sum()
        own = torch.exp(made[right] @ made[row[0]] / 0.07)
        whole += float(-torch.log(own / (own + rest)).mean()) / 6
    assert loss == pytest.approx(whole, rel=1e-4)
    assert all(weight.grad is not None and weight.grad.any() for weight in it.encoder.head.parameters())


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


# The linking head


def test_the_best_decision() -> None:
    score = np.array([0.1, 0.9, 0.4, 0.8, 0.2], np.float32)
    assert Decisions(score, np.array([False, True, True, False, False])).f1 == pytest.approx(0.8)
    assert Decisions(score, np.ones(5, np.bool_)).f1 == 1


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


def test_the_head_sees_what_the_model_scores(bert: Tower) -> None:
    torch.manual_seed(1)
    model = LabelAttention.of(bert, READS).with_head(linear := torch.nn.Linear(64, 1))
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
        head=replace(HEAD, epochs=20, batch_size=8, learning_rate=0.1),
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


def test_the_presets_are_those_of_the_paper() -> None:
    for training, epochs, rate, n in (
        (SELF_ALIGNMENT.training, 20, 2e-3, 50),
        (OSLAT.attention, 10, 2e-4, 100),
        (OSLAT.head, 10, 2e-4, 100),
    ):
        assert (training.epochs, training.learning_rate, training.n_negatives) == (epochs, rate, n)
        assert (training.batch_size, training.optimizer, training.schedule) == (32, "adam", "exponential")
        assert training.warmup == 0.1
    assert SELF_ALIGNMENT.training.temperature == OSLAT.attention.temperature == 0.07
    assert (OSLAT.head.alpha, OSLAT.head.gamma) == (0.25, 2.0)
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
    found = run("spans", *docs, *kb, "--encoder", model, "--json")
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

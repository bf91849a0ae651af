"""Small documents, models and trainers that several tests of trainings build on."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from builders import kb_of

import arbo
from arbo.progress import Announce
from arbo.spans.model import LabelAttention, LabelAttentionConfig, Pieces
from arbo.training.config import LoopConfig, OslatTraining, RerankingConfig, RunOptions, TrainingConfig

torch = pytest.importorskip("torch")

from accelerate import Accelerator  # noqa: E402

from arbo.encoders.cross import CrossEncoder, CrossEncoderConfig  # noqa: E402
from arbo.encoders.tower import Tower  # noqa: E402
from arbo.retrieval.reranking import Candidates  # noqa: E402
from arbo.training.cross import RerankingTrainer  # noqa: E402
from arbo.training.data import Snapshot, TrainingSet  # noqa: E402
from arbo.training.dual.plan import Plan  # noqa: E402
from arbo.training.dual.trainer import Batch, DualTrainer  # noqa: E402
from arbo.training.frame import Workplace, accelerator_of  # noqa: E402
from arbo.training.loop import Trainer  # noqa: E402
from arbo.training.oslat import Contrasts, OslatTrainer  # noqa: E402
from arbo.training.presets import PRESETS  # noqa: E402


class Sample(NamedTuple):
    """Documents to train on, documents to choose the best model by, and a knowledge base."""

    train: arbo.Corpus
    dev: arbo.Corpus
    kb: arbo.KnowledgeBase


@cache
def sample() -> Sample:
    documents, kb = arbo.load_sample()
    return Sample(documents[:20], documents[80:], kb)


class Killed(BaseException):
    """What no handler expects."""


def dying(after: int) -> Announce:
    """Show nothing, and die in a training after some of its steps."""

    def announce(what: str) -> Any:
        def show(items: Iterable[Any], total: int) -> Iterator[Any]:
            for done, item in enumerate(items):
                if what.startswith("training") and done == after:
                    raise Killed
                yield item

        return show

    return announce


def workplace(folder: Path, config: LoopConfig) -> Workplace:
    return Workplace(folder / "model", folder, accelerator_of(config), RunOptions(checkpoint_every=1))


def log_of(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in out.with_name(f"{out.name}.log.jsonl").read_text("utf-8").splitlines()]


def weights(model: Any) -> list[Any]:
    return [value.detach().clone() for value in model.module.state_dict().values()]


def gradients(trainer: Trainer[Any, Any]) -> Any:
    return torch.cat([weight.grad.flatten() for weight in trainer.model.module.parameters() if weight.grad is not None])


def without_dropout(tower: Tower) -> Tower:
    copy = tower.copy()
    for module in copy.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):  # of attention, in transformers 4
            module.dropout_prob = 0.0
    return copy


def of_two_processes(monkeypatch: pytest.MonkeyPatch, of_a_step: Callable[[], Any]) -> Any:
    """Make the mean of what two processes make of a step, as they take it of their gradients before they step."""
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(Accelerator, "process_index", rank)
        shares.append(of_a_step())
    return sum(shares) / 2


_DRAWN: dict[str, Any] = {"positives": "entity", "negatives": "random", "n_negatives": 4}
QUICK = TrainingConfig(**_DRAWN, loss="arborescence", scale=20.0, epochs=1, batch_size=32, learning_rate=1e-3)

PARTS: dict[str, dict[str, Any]] = {
    "proxy": {"loss": "proxy", "negatives": "mixed"},
    "all": {"loss": "bce", "negatives": "in-batch-hard", "mixup": 0.3, "micro_batch": 3} | {"precision": "bfloat16"},
}
"""Of the parts that other papers add, as settings."""


AROUND: dict[str, Any] = PRESETS["context"][1].as_dict() | {"max_length": 24}
"""How an encoder reads the words around a mention."""


def encoder(tower: Tower, **options: Any) -> arbo.DualEncoder:
    return arbo.DualEncoder(tower, tower, arbo.EncoderConfig(**options))


def dual_trainer(start: arbo.DualEncoder, data: TrainingSet, folder: Path, **changes: Any) -> DualTrainer:
    config = replace(QUICK, **changes)
    return DualTrainer(start, data, None, config, workplace(folder, config))


def trainer_of(start: Any, documents: Any, kb: Any, folder: Path, **changes: Any) -> tuple[DualTrainer, Batch]:
    """Make a trainer in training mode, and a batch of all mentions."""
    data = TrainingSet.of(arbo.Corpus.of(documents), kb)
    trainer = dual_trainer(start, data, folder, **{"positives": "1rand"} | changes)
    trainer.chosen = Plan.of(data, Snapshot.of(data, trainer.model), trainer.config, 0)._asdict()
    trainer.prepared.train()
    return trainer, trainer.batch(0, data.queries, np.arange(len(data.queries)))


QUICK_CROSS = RerankingConfig(epochs=1, batch_size=4, micro_batch=3, learning_rate=1e-3)


def cross(tower: Tower, **changes: Any) -> CrossEncoder:
    reads = CrossEncoderConfig(max_length=48, context=3, candidates=5)
    return CrossEncoder.of(tower, replace(reads, **changes)).with_markers()


def marked(*rows: tuple[Any, str | None], domain: str | None = None, name: str = "d") -> arbo.Corpus:
    """Make a document with a mention of each pair of gold ids and gold cluster."""
    text = " ".join(f"w{i:03}" for i in range(len(rows)))
    own = [{"gold": gold, "cluster": cluster} for gold, cluster in rows]
    made = (arbo.Mention(f"{name}{i}", name, ((5 * i, 5 * i + 4),), f"w{i:03}", **of) for i, of in enumerate(own))
    return arbo.Corpus([arbo.Document(name, text, tuple(made), domain)])


def tiny(gold: list[tuple[str, ...] | None]) -> tuple[arbo.Corpus, arbo.KnowledgeBase]:
    """Mentions with gold ids, and entities E0 to E4."""
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 5),), "fever", gold=ids) for i, ids in enumerate(gold))
    names = ("fever", "kidney", "marsh", "cancer", "left kidney")
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", name) for i, name in enumerate(names)])
    return arbo.Corpus([arbo.Document("d", "fever", mentions)]), kb


def tiny_compared(gold: list[tuple[str, ...] | None], entities: list[list[int]]) -> tuple[TrainingSet, Candidates]:
    """Make training data of the mentions of `tiny`, and their candidates, -1 for none."""
    documents, kb = tiny(gold)
    rows = np.array(entities, np.int32)
    scores = np.where(rows >= 0, -np.arange(rows.shape[1]), -np.inf)
    candidates = Candidates(rows, scores, documents.fingerprint, kb.fingerprint, {})
    return TrainingSet.of(documents, kb), candidates


def cross_trainer(start: CrossEncoder, documents: Any, kb: Any, folder: Path, **changes: Any) -> RerankingTrainer:
    """Make a trainer in training mode, from documents or from the result of `tiny_compared`."""
    data, candidates = documents if kb is None else (TrainingSet.of(arbo.Corpus.of(documents), kb), None)
    if candidates is None:
        candidates = arbo.Linker(kb).candidates(documents, k=start.config.candidates)
    config = replace(QUICK_CROSS, **changes)
    trainer = RerankingTrainer(start, data, None, config, workplace(folder, config), candidates)
    trainer.prepared.train()
    return trainer


READS = LabelAttentionConfig(max_length=64)
QUICK_OSLAT = OslatTraining(epochs=1, batch_size=4, n_negatives=5, n_positives=2, learning_rate=1e-3)


def document(name: str, text: str, gold: Iterable[str], place: int = 0) -> arbo.Document:
    """Make a document whose mentions all stand on its first word, or on another one."""
    words = text.split()
    begin = len(" ".join(words[:place])) + (place > 0)
    span = (begin, begin + len(words[place]))
    mentions = (arbo.Mention(f"{name}-{e}", name, (span,), words[place], gold=(e,)) for e in gold)
    return arbo.Document(name, text, tuple(mentions))


KB = kb_of(
    arbo.Entity("E0", "fever", aliases=("marsh", "Marsh")),
    arbo.Entity("E1", "kidney", aliases=("left kidney", "fever")),
    arbo.Entity("E2", "cancer", aliases=("syndrome", "cancer of the")),
    arbo.Entity("E3", "mention"),
    arbo.Entity("E4", "patients", aliases=("in patients", "the patients", "of patients", "and patients")),
    arbo.Entity("E5", "left", aliases=("of the left",)),
)

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


def oslat_trainer(tower: Tower, reads: LabelAttentionConfig, folder: Path, **changes: Any) -> OslatTrainer:
    config, pieces = replace(QUICK_OSLAT, **changes), Pieces.of(DOCUMENTS)
    torch.manual_seed(2)
    head = torch.nn.Linear(64, 64, bias=False)
    model = replace(LabelAttention.of(tower, reads), tower=Tower.of(tower.model, tower.tokenizer, head))
    trainer = OslatTrainer(model, Contrasts(KB, pieces), None, config, workplace(folder, config), pieces)
    trainer.prepared.train()
    return trainer

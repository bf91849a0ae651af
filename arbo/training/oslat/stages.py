"""OSLAT from one end to the other: label attention, then its linking head."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from arbo.knowledge_base import KnowledgeBase
from arbo.progress import Announce, quiet
from arbo.spans.model import LabelAttention
from arbo.spans.pieces import pieces
from arbo.spans.splitting import Splitter, passages
from arbo.training.config import LabelAttentionTraining, LinkingHeadConfig
from arbo.training.data import corpora_of
from arbo.training.loop import LOG, accelerator_of, target_of, training
from arbo.training.oslat.annotated_texts import annotated_texts, job_of
from arbo.training.oslat.label_attention import train_label_attention
from arbo.training.oslat.linking_head import fit_head, with_tuned_threshold

_FIRST = "attention"


def train_oslat(
    model: LabelAttention,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    split: Splitter = passages,
    attention: LabelAttentionTraining | None = None,
    head: LinkingHeadConfig | None = None,
    checkpoint_every: int = 500,
    tensorboard: str | PathLike[str] | None = None,
    announce: Announce = quiet,
    on_log: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> LabelAttention:
    """Train label attention and then its linking head, and write both to a folder.

    See `train_label_attention` and `train_linking_head` for arguments and errors. What the first makes stands in
    ``OUT.training`` until the second is done, and its log in ``OUT.attention.log.jsonl`` from then on. It is best begun
    with an encoder that `train_self_alignment` made.

    Documents are read in pieces, by default those that a `PairFinder` reads: sentences; with `whole` for ``split`` each
    as it is. The threshold is chosen on ``dev`` for the finder that cuts documents so.
    """
    attention, head = attention or LabelAttentionTraining(), head or LinkingHeadConfig()
    target = target_of(out, checkpoint_every)
    uncut = corpora_of(documents, dev)
    corpora = {name: pieces(corpus, split).corpus for name, corpus in uncut.items()}
    data = annotated_texts(corpora, kb, contrastable=True)
    job = job_of(model, corpora, kb, attention=attention, head=head)
    options: dict[str, Any] = {"checkpoint_every": checkpoint_every, "announce": announce, "on_log": on_log}
    shown = {name: None if tensorboard is None else Path(tensorboard) / name for name in (_FIRST, "head")}
    with training(target, job, accelerator_of(attention)) as folder:
        first = folder / _FIRST
        if first.is_dir() and not first.with_name(f"{_FIRST}.training").exists():
            trained = LabelAttention.from_pretrained(first)
        else:
            given: dict[str, Any] = {"dev": corpora.get("dev"), "config": attention, "tensorboard": shown[_FIRST]}
            trained = train_label_attention(model, corpora["documents"], kb, out=first, **given, **options)
        accelerator = accelerator_of(head)
        given = {"config": head, "accelerator": accelerator, "tensorboard": shown["head"]}
        trained = fit_head(trained, data, folder, **given, **options)
        if accelerator.is_main_process:
            if "dev" in uncut:
                trained = with_tuned_threshold(trained, uncut["dev"], kb, split=split, announce=announce)
            trained.save_pretrained(target)
            shutil.copyfile(folder / f"{_FIRST}.{LOG}", target.with_name(f"{target.name}.{_FIRST}.{LOG}"))
    return LabelAttention.from_pretrained(target)
